"""Times as the store keeps them: whole seconds in UTC, never finer."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import BigInteger, Dialect
from sqlalchemy.types import TypeDecorator

__all__ = ["Moment", "now"]


def now() -> datetime:
    """Return the present moment in UTC, cut to whole seconds: a finer time would betray how long rows took."""
    return datetime.now(UTC).replace(microsecond=0)


class Moment(TypeDecorator[datetime]):
    """A time stored as whole seconds since 1970, the same integer on every database."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        """Turn a time into seconds."""
        return None if value is None else int(value.timestamp())

    def process_result_value(self, value: int | None, dialect: Dialect) -> datetime | None:
        """Turn seconds into a time in UTC."""
        return None if value is None else datetime.fromtimestamp(value, UTC)
