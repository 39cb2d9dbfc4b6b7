"""What the database itself refuses: changing or deleting entries, events and releases, or re-writing an account.

The chain of the ledger finds an alteration afterwards; these triggers stop the accident beforehand.
"""

from __future__ import annotations

from sqlalchemy import Connection, text

__all__ = ["APPEND_ONLY", "add_decisions", "create_triggers"]

APPEND_ONLY = ("charges", "decisions", "events", "releases")

IN_ORDER = {"charges": "position", "decisions": "number"}
"""Tables whose rows are numbered from 1 for every account, without a gap."""

FIXED_COLUMNS = ("id", "name", "created")
DECIDED_ONCE_COLUMNS = ("neighbours", "protects", "id_column", "rows_per_unit")


def create_triggers(connection: Connection) -> None:
    """Install the triggers of the connection's database, inside the caller's transaction."""
    if connection.dialect.name == "sqlite":
        statements = [statement for table in APPEND_ONLY for statement in _sqlite_append_only(table)]
        statements += [*_sqlite_no_replace("accounts"), *_sqlite_account()]
    else:
        statements = [
            "CREATE FUNCTION hermitage_refuse() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$",
            *(_postgresql_append_only(table) for table in APPEND_ONLY),
            _postgresql_account(),
            "CREATE TRIGGER accounts_stay BEFORE DELETE OR TRUNCATE ON accounts "
            "FOR EACH STATEMENT EXECUTE FUNCTION hermitage_refuse()",
        ]
    for statement in statements:
        connection.execute(text(statement))


def add_decisions(connection: Connection) -> None:
    """Bring the triggers of layout 2 to layout 3, which has decisions and other columns of accounts."""
    if connection.dialect.name == "sqlite":
        statements = [*_sqlite_append_only("decisions"), _sqlite_account()[0]]
    else:
        statements = [_postgresql_append_only("decisions"), _postgresql_account()]
    for statement in statements:
        connection.execute(text(statement))


def _sqlite_append_only(table: str) -> list[str]:
    statements = [
        f"CREATE TRIGGER {table}_no_{change.lower()} BEFORE {change} ON {table} "
        f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
        for change in ("UPDATE", "DELETE")
    ]
    # INSERT OR REPLACE deletes without firing a delete trigger, so an occupied or skipped place is refused as well.
    if table not in IN_ORDER:
        return statements + _sqlite_no_replace(table)
    last = f"SELECT coalesce(max({IN_ORDER[table]}), 0) FROM {table} WHERE account_id = NEW.account_id"  # noqa: S608
    return [
        *statements,
        f"CREATE TRIGGER {table}_in_order BEFORE INSERT ON {table} WHEN NEW.{IN_ORDER[table]} <> ({last}) + 1 "
        f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END",
    ]


def _sqlite_no_replace(table: str) -> list[str]:
    known = f"SELECT id FROM {table}"  # noqa: S608 - one of our own names
    return [
        f"CREATE TRIGGER {table}_no_replace BEFORE INSERT ON {table} WHEN NEW.id IN ({known}) "
        f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
    ]


def _sqlite_account() -> list[str]:
    return [
        f"CREATE TRIGGER accounts_fixed BEFORE UPDATE ON accounts WHEN {_account_rewritten('IS NOT')} "
        "BEGIN SELECT RAISE(ABORT, 'an account is fixed'); END",
        "CREATE TRIGGER accounts_no_delete BEFORE DELETE ON accounts "
        "BEGIN SELECT RAISE(ABORT, 'an account stays'); END",
    ]


def _postgresql_append_only(table: str) -> str:
    return (
        f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
        "FOR EACH STATEMENT EXECUTE FUNCTION hermitage_refuse()"
    )


def _postgresql_account() -> str:
    return (
        "CREATE TRIGGER accounts_fixed BEFORE UPDATE ON accounts FOR EACH ROW "
        f"WHEN ({_account_rewritten('IS DISTINCT FROM')}) EXECUTE FUNCTION hermitage_refuse()"
    )


def _account_rewritten(differs: str) -> str:
    fixed = [f"NEW.{column} {differs} OLD.{column}" for column in FIXED_COLUMNS]
    decided = [f"(OLD.{column} IS NOT NULL AND NEW.{column} {differs} OLD.{column})" for column in DECIDED_ONCE_COLUMNS]
    return " OR ".join(fixed + decided)
