"""The ledger: people, what was spent on them, the chain that holds it together, and keeping it safe."""
