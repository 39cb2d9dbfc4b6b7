"""Records as rows: what a database column takes."""

from __future__ import annotations

from enum import Enum
from typing import Any

__all__ = ["row_values"]


def row_values(record: Any) -> dict[str, Any]:
    """Return the fields of a slotted record by name, enumerations as their text (drivers differ on enumerations)."""
    values = {name: getattr(record, name) for name in type(record).__slots__}
    return {name: value.value if isinstance(value, Enum) else value for name, value in values.items()}
