"""dp-hp-adaptive, the default generator: marginals chosen one after another by what the model still gets wrong."""
