"""Use cases, one file each, for a worker, a screen or a command. They work on an open installation."""
