"""One file for each version that changed the layout; only Alembic imports them."""
