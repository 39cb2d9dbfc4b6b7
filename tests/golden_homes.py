"""Golden homes, laid out for one of the databases."""

from __future__ import annotations

import shutil
from pathlib import Path

from synth.system.settings import Settings

__all__ = ["laid_out"]


def laid_out(golden: Path, home: Path, database_url: str) -> Settings:
    """Copy a golden home; on PostgreSQL with its rows of that database and, where it has one, its vault for it."""
    shutil.copytree(golden, home)
    if database_url.startswith("postgresql"):
        import psycopg

        (home / "hermitage.sqlite").unlink()
        if (home / "vault-postgresql").is_dir():
            shutil.rmtree(home / "vault")
            (home / "vault-postgresql").rename(home / "vault")
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute((golden / "postgresql.sql").read_text(encoding="utf-8"))
    return Settings(home=home, database_url=database_url)
