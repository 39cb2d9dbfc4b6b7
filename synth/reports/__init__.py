"""Reports: numbers about a synthetic table, each of a kind that says whether it may be published."""
