"""What a column may be, guessed from its name alone: proposals for the owner, each with the word that suggests it.

A name is public. Words are whole words: ``division_name`` is not a person's name, ``first_name`` is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from synth.names import words_of

__all__ = [
    "FATES",
    "ColumnKind",
    "Guess",
    "belongs_to_unit_by_name",
    "fate_of",
    "guess_by_name",
    "holds_time_by_name",
    "kind_by_name",
    "order_by_name",
    "reason_of",
    "step_by_name",
    "with_step",
]

ColumnKind = Literal["number", "category", "yes_no", "date", "identifier", "drop"]


FATES = {"identifier": "replaced by fresh ids", "drop": "dropped"}
"""What happens to columns of the kinds that no model sees."""


class Guess(NamedTuple):
    """The kind that a name suggests, and the word that suggests it."""

    kind: ColumnKind
    word: str


_IDENTIFIES = {
    "id", "ids", "uuid", "guid", "key", "nr", "nbr", "ssn", "nhs", "mrn", "nino", "iban", "passport", "email", "phone",
    "telephone", "mobile", "firstname", "lastname", "fullname", "surname", "username",
}  # fmt: skip
_BEGINS_IDENTIFIER = {"id", "email", "phone"}
_OF_A_PERSON = {
    "first", "last", "full", "sur", "family", "given", "middle", "maiden", "user", "patient", "person", "customer",
    "client", "employee", "student", "mother", "father",
}  # fmt: skip
_FREE_TEXT = {
    "note", "notes", "comment", "comments", "text", "description", "remark", "remarks", "message", "address",
}  # fmt: skip
_DATES = {"date", "day", "dob", "birthday", "birthdate", "timestamp", "datetime", "visited"}
_MOMENTS = {"timestamp", "datetime"}
_SCALES = {
    "age", "year", "years", "amount", "income", "salary", "price", "cost", "count", "number", "num", "height", "weight",
    "bmi", "score", "hour", "hours", "days", "months", "percent", "rate", "gain", "loss", "total", "size", "length",
    "temperature", "duration",
}  # fmt: skip
_WHOLE = {"age", "year", "years", "count", "number", "num", "days", "months", "visits", "children", "rooms"}
_CLASSES = {
    "sex", "gender", "race", "ethnicity", "region", "country", "state", "city", "job", "occupation", "education",
    "status", "type", "class", "category", "group", "level", "band", "label", "outcome", "code",
}  # fmt: skip
_OF_THE_UNIT = {
    "sex", "gender", "born", "birth", "birthday", "birthdate", "birthyear", "dob", "race", "ethnicity", "nationality",
}  # fmt: skip
_ORDERS = _DATES - {"dob", "birthday", "birthdate"} | {
    "admitted", "admission", "visit", "wave", "began", "begun",
}  # fmt: skip
_BEGINS_TRUTH = {"is", "has", "had", "was", "can"}
_TRUTHS = {"flag", "smoker", "alive", "deceased"}


def guess_by_name(name: str) -> Guess | None:
    """Guess a column's kind from its name; None where the name says nothing.

    Examples
    --------
    >>> guess_by_name("first_name")
    Guess(kind='identifier', word='name')
    >>> guess_by_name("division_name") is None
    True
    """
    words = words_of(name)
    if not words:
        return None
    first, last, several = words[0], words[-1], len(words) > 1
    person = _word_of_a_person(words)
    if person is not None:
        return Guess("identifier", person)
    if last in _FREE_TEXT:
        return Guess("drop", last)
    date = next((word for word in words if word in _DATES), last if several and last in {"at", "on"} else None)
    if date is not None:
        return Guess("date", date)
    if (several and first in _BEGINS_TRUTH) or last in _TRUTHS:
        return Guess("yes_no", last if last in _TRUTHS else first)
    scale = next((word for word in words if word in _SCALES), None)
    if scale is not None:
        return Guess("number", scale)
    group = next((word for word in words if word in _CLASSES), None)
    return None if group is None else Guess("category", group)


def _word_of_a_person(words: list[str]) -> str | None:
    """Return the word by which a name seems to identify a person; None where it names something else."""
    first, last, several = words[0], words[-1], len(words) > 1
    if last in _IDENTIFIES:
        return last
    if several and first in _BEGINS_IDENTIFIER:
        return first
    return "name" if "name" in words and (not several or _OF_A_PERSON & set(words)) else None


def kind_by_name(name: str) -> ColumnKind | None:
    """Guess a column's kind from its name alone; None where the name says nothing."""
    guess = guess_by_name(name)
    return None if guess is None else guess.kind


def holds_time_by_name(name: str) -> bool:
    """Whether the name of a date says that a time of day follows it: ``pickup_datetime``, ``picked_up_at``."""
    words = words_of(name)
    return bool(_MOMENTS & set(words)) or (len(words) > 1 and words[-1] == "at")


def belongs_to_unit_by_name(name: str) -> bool:
    """Whether a name says that its column is the same in all rows of a person, as ``year_of_birth`` is."""
    return bool(_OF_THE_UNIT & set(words_of(name)))


def order_by_name(names: Iterable[str]) -> str | None:
    """Return the first column whose name says in what order the rows of a person come; None where none does.

    Examples
    --------
    >>> order_by_name(["date_of_birth", "ward", "admitted"])
    'admitted'
    """
    told = (name for name in names if kind_by_name(name) in (None, "date", "number"))
    return next((name for name in told if _ORDERS & set(words_of(name)) and not belongs_to_unit_by_name(name)), None)


def step_by_name(name: str) -> str:
    """Return the step of a number whose name says that it is a count; empty where the name does not say."""
    return "1" if _WHOLE & set(words_of(name)) else ""


def with_step(blank: str, name: str) -> str:
    """Return what a draft says about a column, with the step that its name suggests."""
    return blank.replace("step: }", f"step: {step_by_name(name)}}}")


def reason_of(name: str, kind: str) -> str:
    """Say why a column was guessed to be of a kind: because of its name, or else because of a look at its cells."""
    guess = guess_by_name(name)
    if guess is not None and guess.kind == kind:
        return f"because of the word '{guess.word}'"
    return "because most of its cells differ"


def fate_of(name: str, kind: str) -> str | None:
    """Say what happens to a column of a kind that no model sees, and why it was guessed; None for other kinds."""
    return f"{FATES[kind]}, {reason_of(name, kind)}" if kind in FATES else None
