"""The layouts that the database has had, one after the other, as Alembic runs them."""
