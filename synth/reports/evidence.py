"""The kinds of numbers on a screen: safe to publish, charged, or for the owner only.

The kind is the type. Everything that leaves the machine takes :data:`Publishable` values, so a report that reads raw
rows cannot reach a bundle: the type checker refuses it, and so does :func:`publishable` at run time.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal, final

from synth.errors import InputError
from synth.reports.figures import Figure, figure_from_dict, figure_to_dict

if TYPE_CHECKING:
    from pydantic import TypeAdapter

__all__ = [
    "OWNER_ONLY_SENTENCE",
    "ChargedEvidence",
    "Evidence",
    "Kind",
    "OwnerOnlyEvidence",
    "Publishable",
    "SafeEvidence",
    "Value",
    "evidence_from_dict",
    "evidence_to_dict",
    "publishable",
]

Kind = Literal["safe", "charged", "owner_only"]
Value = float | int | str | bool | None

OWNER_ONLY_SENTENCE = (
    "Read directly from the private rows: fine to look at, but do not publish it; choosing settings by it weakens the "
    "promise."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Evidence:
    id: str
    title: str
    value: Value
    error: float | None = None
    unit: str = ""
    sentence: str = ""
    figures: tuple[Figure, ...] = ()

    def __post_init__(self) -> None:
        if not self.id.strip():
            raise InputError("A number of a report has no id.")
        for number in (self.value, self.error):
            if isinstance(number, float) and not math.isfinite(number):
                raise InputError(f"'{self.id}': a number of a report must be finite; give None where there is none.")

    @property
    def section(self) -> str:
        """The section that it belongs to: the first word of its id."""
        return self.id.partition(".")[0]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SafeEvidence(_Evidence):
    """Computed from synthetic rows, paid measurements, declared facts, or public or stand-in data.

    Attributes
    ----------
    id : str
        Stable name, parts joined by full stops, such as ``marginals.2.mean``.
    title : str
        A few words above the number.
    value : number, text or None
        None if nothing was measured.
    error : float, optional
        Half the width of the 95 % range, in the unit of ``value``.
    unit : str
        Rows, total variation, ...
    sentence : str
        One plain sentence below the number.
    figures : tuple of Figure
        Pictures and tables that belong to the number.
    """

    kind: ClassVar[Kind] = "safe"
    badge: ClassVar[str] = "● safe to publish"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ChargedEvidence(_Evidence):
    """A noisy measurement made for the report, with its own receipt; attributes as :class:`SafeEvidence`.

    ``epsilon`` is what the measurement alone would cost at the delta of the release; ``receipts`` are the sequence
    numbers of its receipts in the certificate.
    """

    epsilon: float
    receipts: tuple[int, ...]
    kind: ClassVar[Kind] = "charged"
    badge: ClassVar[str] = "◐ charged"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerOnlyEvidence(_Evidence):
    """Computed on raw rows: shown to the owner, never in a bundle, a log or a download; attributes as the others.

    :data:`OWNER_ONLY_SENTENCE` is added to the sentence of every such number.
    """

    kind: ClassVar[Kind] = "owner_only"
    badge: ClassVar[str] = "○ owner only"

    def __post_init__(self) -> None:
        _Evidence.__post_init__(self)
        if OWNER_ONLY_SENTENCE not in self.sentence:
            object.__setattr__(self, "sentence", f"{self.sentence} {OWNER_ONLY_SENTENCE}".strip())


Publishable = SafeEvidence | ChargedEvidence
Evidence = SafeEvidence | ChargedEvidence | OwnerOnlyEvidence


def publishable(evidence: Iterable[Publishable]) -> tuple[Publishable, ...]:
    """Return evidence if all of it may be published; everything that writes a bundle calls this.

    Raises
    ------
    TypeError
        If anything else is among it.
    """
    gathered = tuple(evidence)
    for entry in gathered:
        # The exact types: a subclass or a look-alike defined elsewhere is refused as well.
        if type(entry) not in (SafeEvidence, ChargedEvidence):
            raise TypeError(f"Only SafeEvidence and ChargedEvidence may be published, got {type(entry).__name__}.")
    return gathered


def evidence_to_dict(evidence: Evidence) -> dict[str, Any]:
    """Write one number as JSON values; :func:`evidence_from_dict` gives it back."""
    body = {field.name: getattr(evidence, field.name) for field in fields(evidence)}
    body |= {"kind": evidence.kind, "figures": [figure_to_dict(figure) for figure in evidence.figures]}
    if isinstance(evidence, ChargedEvidence):
        body["receipts"] = list(evidence.receipts)
    return body


def evidence_from_dict(body: Mapping[str, Any]) -> Evidence:
    """Read one number back.

    Raises
    ------
    InputError
        If it is not what :func:`evidence_to_dict` writes.
    """
    try:
        figures = tuple(map(figure_from_dict, body["figures"]))
        return _reader(body["kind"]).validate_python({**body, "figures": figures})
    except (KeyError, TypeError, ValueError, AttributeError):
        raise InputError("A number of the report cannot be read.") from None


@functools.cache
def _reader(kind: Kind) -> TypeAdapter[Evidence]:
    from pydantic import TypeAdapter  # here: a process that reads no report does without it

    kinds: tuple[type[Evidence], ...] = (SafeEvidence, ChargedEvidence, OwnerOnlyEvidence)
    return TypeAdapter({one.kind: one for one in kinds}[kind])
