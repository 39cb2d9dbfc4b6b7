"""What a configuration says of columns that were found privately: which finding it was, and what that one cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from synth.errors import ConfigError
from synth.schema.documents import Needed, Number, Text, Whole

__all__ = ["FOUND_THEN_EDITED", "FoundReference", "is_found"]

FOUND_THEN_EDITED = "found privately, then edited"
"""Domain source of a column that was open in a finding, and that the owner declared otherwise than was found."""

_FOUND = "found privately, epsilon "
_HEXADECIMAL = frozenset("0123456789abcdef")
_WRITTEN = Needed("synth find writes this section; leave it as it is, or leave all of it out.")


@dataclass(frozen=True, slots=True)
class FoundReference:
    """Which finding filled columns of a configuration, and its cost as an accountant adds it to that of the run.

    ``digest`` is SHA-256 of ``found.json``. ``epsilon`` and ``delta`` are what was asked for; the other numbers are the
    sums over its receipts, in the units of a receipt.
    """

    digest: Annotated[Text, _WRITTEN]
    epsilon: Annotated[Number, _WRITTEN]
    delta: Annotated[Number, _WRITTEN]
    mu_squared_units: Annotated[Whole, _WRITTEN]
    slack: Annotated[Number, _WRITTEN]
    coordinates: Annotated[Whole, _WRITTEN]
    additive_delta: Annotated[Number, _WRITTEN]

    def __post_init__(self) -> None:
        if len(self.digest) != 64 or not set(self.digest) <= _HEXADECIMAL:
            raise ConfigError("found: digest must be 64 hexadecimal digits, as synth find wrote them.")
        costs = (self.epsilon, self.mu_squared_units, self.coordinates)
        sums = (self.slack, self.additive_delta)
        if not (all(cost > 0 for cost in costs) and all(math.isfinite(one) and one >= 0 for one in sums)):
            raise ConfigError("found: a cost is out of its range; leave the section as synth find wrote it.")
        if not (math.isfinite(self.epsilon) and 0 < self.delta < 1):
            raise ConfigError("found: epsilon must be finite and delta between 0 and 1, as synth find wrote them.")

    @property
    def source(self) -> str:
        """The domain source of a column that is declared just as it was found."""
        return f"{_FOUND}{self.epsilon:g}"


def is_found(source: str) -> bool:
    """Whether a domain source says that the column was open in a finding."""
    return source == FOUND_THEN_EDITED or source.startswith(_FOUND)
