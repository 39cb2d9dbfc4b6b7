"""Use cases, one file each: what a worker, a screen or a command asks for. They work on an open installation."""
