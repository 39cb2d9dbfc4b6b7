"""The ledger: what was spent on each group of people, the chain that protects it, and its backups."""
