"""What the database itself refuses: changing or deleting a charge, an event or a release, or re-writing an account.

The hash chain finds an alteration afterwards; these triggers stop the accident beforehand.
"""

from __future__ import annotations

from sqlalchemy import Connection, text

__all__ = ["APPEND_ONLY", "create_triggers"]

APPEND_ONLY = ("charges", "events", "releases")

FIXED_COLUMNS = ("id", "name", "created")
DECIDED_ONCE_COLUMNS = ("neighbours", "protects", "unit")


def create_triggers(connection: Connection) -> None:
    """Install the triggers of the connection's database, inside the caller's transaction."""
    statements = _sqlite() if connection.dialect.name == "sqlite" else _postgresql()
    for statement in statements:
        connection.execute(text(statement))


def _sqlite() -> list[str]:
    statements = [
        f"CREATE TRIGGER {table}_no_{change.lower()} BEFORE {change} ON {table} "
        f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
        for table in APPEND_ONLY
        for change in ("UPDATE", "DELETE")
    ]
    # INSERT OR REPLACE deletes without firing a delete trigger, so an occupied or skipped place is refused as well.
    statements.append(
        "CREATE TRIGGER charges_in_order BEFORE INSERT ON charges WHEN NEW.position <> "
        "(SELECT coalesce(max(position), 0) + 1 FROM charges WHERE account_id = NEW.account_id) "
        "BEGIN SELECT RAISE(ABORT, 'charges is append-only'); END"
    )
    for table in ("events", "releases", "accounts"):
        known = f"SELECT id FROM {table}"  # noqa: S608 - a name from the line above
        statements.append(
            f"CREATE TRIGGER {table}_no_replace BEFORE INSERT ON {table} WHEN NEW.id IN ({known}) "
            f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
        )
    statements += [
        f"CREATE TRIGGER accounts_fixed BEFORE UPDATE ON accounts WHEN {_account_rewritten('IS NOT')} "
        "BEGIN SELECT RAISE(ABORT, 'an account is fixed'); END",
        "CREATE TRIGGER accounts_no_delete BEFORE DELETE ON accounts "
        "BEGIN SELECT RAISE(ABORT, 'an account stays'); END",
    ]
    return statements


def _postgresql() -> list[str]:
    refuse = (
        "CREATE FUNCTION hermitage_refuse() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$"
    )
    statements = [refuse]
    statements += [
        f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
        "FOR EACH STATEMENT EXECUTE FUNCTION hermitage_refuse()"
        for table in APPEND_ONLY
    ]
    statements += [
        "CREATE TRIGGER accounts_fixed BEFORE UPDATE ON accounts FOR EACH ROW "
        f"WHEN ({_account_rewritten('IS DISTINCT FROM')}) EXECUTE FUNCTION hermitage_refuse()",
        "CREATE TRIGGER accounts_stay BEFORE DELETE OR TRUNCATE ON accounts "
        "FOR EACH STATEMENT EXECUTE FUNCTION hermitage_refuse()",
    ]
    return statements


def _account_rewritten(differs: str) -> str:
    fixed = [f"NEW.{column} {differs} OLD.{column}" for column in FIXED_COLUMNS]
    decided = [f"(OLD.{column} IS NOT NULL AND NEW.{column} {differs} OLD.{column})" for column in DECIDED_ONCE_COLUMNS]
    return " OR ".join(fixed + decided)
