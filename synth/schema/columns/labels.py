"""Columns whose cells are declared words: categories, and yes or no."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt

from synth.errors import SchemaError
from synth.names import composed, shown
from synth.schema.columns.base import Cells, CellType, Coded, Fate, FormField, ModelledColumn, TypedCell, guarded
from synth.schema.documents import Flag, Needed, Read, Word, as_mapping, as_word
from synth.schema.written import Notation

__all__ = ["CategoryColumn", "LabelColumn", "YesNoColumn"]

MAXIMUM_CATEGORIES = 10_000

_TRUE_AS_NUMBER = {"0": "false", "1": "true"}
_TRUTHS = ("true", "t", "yes", "y", "1")
_FALSEHOODS = ("false", "f", "no", "n", "0")
_TRUTH = {"true": ("True", "TRUE", "1"), "false": ("False", "FALSE", "0")}


def _composed(said: Any) -> Any:
    if isinstance(said, tuple):
        return tuple(map(_composed, said))
    return composed(said) if type(said) is str else said


def _pairs(declared: object) -> tuple[tuple[str, str], ...]:
    return tuple((as_word(one), as_word(other)) for one, other in as_mapping(declared).items())


@dataclass(frozen=True, slots=True)
class LabelColumn(ModelledColumn):
    """A column whose cells are one of a few declared words.

    ``labels`` are what people read in place of a word, as pairs (word, label): "no" for N. Files hold the words.
    """

    typed_spellings: ClassVar[Mapping[str, int]] = {}
    """Codes of truth values and numbers that need no spelling."""

    fallback: Word | None = field(default=None, kw_only=True)
    labels: Annotated[tuple[tuple[str, str], ...], Read(_pairs)] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        # Cells are compared in composed form, so that is the one form of what is declared.
        for one in fields(self)[1:]:
            object.__setattr__(self, one.name, _composed(getattr(self, one.name)))
        super(LabelColumn, self).__post_init__()  # with its name, as slots make the class anew

    @property
    def words(self) -> tuple[str, ...]:
        """Text of every code but missing, in code order."""
        return self.declared_labels

    @property
    def size(self) -> int:
        """Number of codes: words, then missing."""
        return len(self.words) + self.missing

    @property
    def aliases(self) -> tuple[tuple[str, str], ...]:
        """Other spellings of a declared word, as pairs (spelling, word)."""
        return ()

    def _code_of_fallback(self) -> int:
        return self.declared_labels.index(self.fallback or "")

    def encode(self, cells: Cells) -> Coded:
        """Look up every cell among the spellings; an undeclared one becomes "other", else as if unreadable."""
        found, absent = cells.labels(self)
        undeclared = self.unreadable_code if self.other_code is None else self.other_code
        codes = np.where(found >= 0, found, undeclared)
        fates = np.where(found >= 0, Fate.KEPT, Fate.OUTSIDE).astype(np.int8)
        missing = absent & (found < 0)
        codes[missing], fates[missing] = self.unreadable_code, Fate.MISSING
        return codes, fates

    def spellings(
        self, *, trim: Callable[[list[str]], list[str]] | None, typed: bool, missing: Collection[str] = ()
    ) -> dict[str, int]:
        """Return every text that means a declared word, with its code.

        Declared words come first, then aliases, then the guarded form that :func:`guarded` prints and, with ``trim``,
        the trimmed word. Last come :attr:`understood_spellings`, but none that means a ``missing`` cell. ``typed``
        cells are numbers or truth values converted to text: True has no spelling of its
        own, so it is "True", "1" or yes, whichever is declared, and 3 may be declared as "3.0".
        """
        code_of = {label: code for code, label in enumerate(self.declared_labels)}
        for spelling, value in self.aliases:
            code_of.setdefault(spelling, code_of[value])
        for label, code in list(code_of.items()):
            code_of.setdefault(guarded(label), code)
        if trim is not None:
            for text, code in zip(trim(list(code_of)), list(code_of.values()), strict=True):
                code_of.setdefault(text, code)
        if typed:
            self._add_typed_spellings(code_of)
        for text, code in self.understood_spellings.items():
            if text not in missing:
                code_of.setdefault(text, code)
        return code_of

    @property
    def understood_spellings(self) -> Mapping[str, int]:
        """Texts that are understood without being declared, with their codes."""
        return {}

    def text_of_typed(self, cell: TypedCell) -> str:
        """Return the declared word that a number means, as in a Parquet file; 0 and 1 are truth values."""
        text = ModelledColumn.text_of_typed(self, cell)
        words = _typed_words(self)
        code = words.get(text, words.get(_TRUE_AS_NUMBER.get(text, text)))
        return text if code is None else self.declared_labels[code]

    def _add_typed_spellings(self, code_of: dict[str, int]) -> None:
        for text, others in _TRUTH.items():
            for other in others:
                if other in code_of:
                    code_of.setdefault(text, code_of[other])
        for label, code in list(code_of.items()):
            if label.endswith(".0"):
                code_of.setdefault(label.removesuffix(".0"), code)
        for text, code in self.typed_spellings.items():
            code_of.setdefault(text, code)

    def _texts(self, codes: Sequence[int], missing: str) -> list[str]:
        words = (*self.words, missing)
        return [words[code] for code in codes]

    def shown_texts(self, codes: Sequence[int] | npt.NDArray[Any] | None = None) -> list[str]:
        """Return the label of every code, and its text where none is declared."""
        label_of, absent, words = dict(self.labels), self.missing_code, self.words
        every = range(self.size) if codes is None else map(int, codes)
        return ["missing" if code == absent else label_of.get(words[code], words[code]) for code in every]

    def cells(self, codes: npt.NDArray[np.int64]) -> list[Any]:
        """Return the text of every code."""
        return [text or None for text in self.texts(codes)]

    def printed_texts(self, codes: Sequence[int] | npt.NDArray[Any]) -> list[str]:
        """Return the text of codes, guarded."""
        return list(map(guarded, self.texts(codes)))

    def _codes_near(self, text: str) -> list[int]:
        words = [guarded(word) for word in self.words]
        return [words.index(text)] if text in words else []

    @property
    def listed(self) -> tuple[str | float, ...]:
        """The declared words, their other spellings and their labels."""
        return (*self.declared_labels, *(spelling for spelling, _ in self.aliases), *(text for _, text in self.labels))

    def _check_labels(self) -> None:
        declared = set(self.declared_labels)
        for word, label in self.labels:
            if word not in declared:
                raise SchemaError(f"'{self.name}': a label must belong to a declared value. Check 'labels'.")
            if not label.strip():
                raise SchemaError(f"'{self.name}': a label is empty. Write what it stands for, or leave it out.")
        seen = self.shown_texts(range(len(self.words)))
        if len(set(seen)) != len(seen):
            raise SchemaError(f"'{self.name}': two values have the same label. Give each its own, or leave one out.")


def _values(listed: object) -> tuple[str, ...]:
    if isinstance(listed, str | Mapping) or not isinstance(listed, Sequence) or not listed:
        raise ValueError('must be a list of categories, for example values: ["low", "high"].')
    return tuple(map(as_word, listed))


@lru_cache(maxsize=1024)
def _typed_words(column: LabelColumn) -> dict[str, int]:
    return column.spellings(trim=None, typed=True)


@dataclass(frozen=True, slots=True)
class CategoryColumn(LabelColumn):
    """One of a declared list of values; undeclared cells become "other" where that is declared.

    ``ordered``: the values are listed in their order, from lowest to highest, so that rules may compare them.
    ``aliases`` are other spellings of a declared value, as pairs (spelling, value). ``fallback`` is the declared value
    that an empty, unreadable or undeclared cell becomes where neither missing nor "other" is declared.
    """

    kind: ClassVar[str] = "category"
    role: ClassVar[str] = "category"
    blank: ClassVar[str] = "{type: category, values: []}"
    form: ClassVar[tuple[FormField, ...]] = (
        FormField(
            "categories",
            ("values",),
            "texts",
            needed=" needs its categories. Type them with commas between them, or choose a preset.",
        ),
        FormField("other", ("other",), "flag"),
        FormField("fallback", ("fallback",)),
    )
    unasked: ClassVar[tuple[str, ...]] = ("aliases", "labels", "ordered")
    is_categorical: ClassVar[bool] = True

    values: Annotated[
        tuple[str, ...], Read(_values), Needed('List its categories, for example values: ["low", "high"].')
    ]
    other: Flag = False
    ordered: Flag = field(default=False, kw_only=True)
    aliases: Annotated[tuple[tuple[str, str], ...], Read(_pairs)] = field(default=(), kw_only=True)

    def _check(self) -> None:
        if not self.values:
            raise SchemaError(f"'{self.name}' needs its categories. List them under 'values'.")
        twice = next((value for value, many in Counter(self.values).items() if many > 1), None)
        if twice is not None:
            raise SchemaError(f"'{self.name}': the category '{shown(twice)}' is listed twice. List each value once.")
        if len(self.values) > MAXIMUM_CATEGORIES:
            raise SchemaError(
                f"'{self.name}' has {len(self.values):,} categories; at most {MAXIMUM_CATEGORIES:,} are allowed. "
                "Group them, or leave the column out."
            )
        if any(value == "" for value in self.values):
            raise SchemaError(f"'{self.name}': an empty text cannot be a category. Declare 'missing: true' instead.")
        if len(set(map(guarded, self.values))) != len(self.values):
            raise SchemaError(f"'{self.name}': two categories differ only by a leading apostrophe. Rename one.")
        declared = set(self.values)
        for spelling, value in self.aliases:
            if value not in declared or spelling in declared:
                raise SchemaError(
                    f"'{self.name}': an alias must be another spelling of a declared value. Check 'aliases'."
                )
        if self.fallback is not None and self.fallback not in self.values:
            raise SchemaError(f"'{self.name}': fallback must be one of the declared categories.")
        self._check_labels()

    @property
    def declared_labels(self) -> tuple[str, ...]:
        """The declared values."""
        return self.values

    @property
    def words(self) -> tuple[str, ...]:
        """Text of every code but missing, in code order."""
        return (*self.values, self.other_label) if self.other else self.values

    @property
    def other_code(self) -> int | None:
        """Code of an undeclared value, or None where "other" is not declared."""
        return len(self.values) if self.other else None

    @property
    def has_order(self) -> bool:
        """Whether the values are declared in their order."""
        return self.ordered

    def invented(self, notation: Notation, dates: tuple[str, ...]) -> list[str]:
        """Return the first other spellings."""
        return [spelling for spelling, _ in self.aliases[:3]]

    def comparable(self, text: str) -> float:
        """Read a declared value as its position in the order."""
        if text not in self.values:
            raise SchemaError(f"'{self.name}': a constant must be one of the declared categories.")
        return float(self.values.index(text))

    def comparable_at(self, codes: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return the position of codes in the order; "other" and a missing cell have none."""
        return np.where(codes < len(self.values), codes, np.nan)

    @property
    def other_label(self) -> str:
        """Text printed for an undeclared value; never equal to a declared one."""
        label = "other"
        taken = {*self.values, *(spelling for spelling, _ in self.aliases)}
        while label in taken:
            label += "*"
        return label

    def printed_cells(self, codes: npt.NDArray[np.int64]) -> list[Any]:
        """Return the text of codes, guarded, None for a missing one."""
        return [text and guarded(text) for text in self.cells(codes)]


@dataclass(frozen=True, slots=True)
class YesNoColumn(LabelColumn):
    """A truth value; code 0 is no, code 1 is yes. ``fallback`` is one of the two words.

    Where the two words are a pair such as Y and N or 1 and 0, every other such pair is understood as well, in any
    capitals: TRUE, f, Yes. Where they are other words, such as Ja and Nein, only their own capitals may differ.
    """

    kind: ClassVar[str] = "yes_no"
    role: ClassVar[str] = "yes/no"
    blank: ClassVar[str] = '{type: yes_no, yes: "yes", no: "no"}'
    form: ClassVar[tuple[FormField, ...]] = (
        FormField(
            "categories",
            ("yes", "no"),
            "texts",
            default="yes, no",
            needed=": a yes/no column needs two words, yes first and then no.",
        ),
        FormField("fallback", ("fallback",)),
    )
    unasked: ClassVar[tuple[str, ...]] = ("labels",)
    typed_spellings: ClassVar[Mapping[str, int]] = {"false": 0, "true": 1, "0": 0, "1": 1}

    yes: Word = "yes"
    no: Word = "no"

    def _check(self) -> None:
        if self.yes == self.no or not self.yes or not self.no:
            raise SchemaError(f"'{self.name}': 'yes' and 'no' must be two different, non-empty texts.")
        if guarded(self.yes) == guarded(self.no):
            raise SchemaError(f"'{self.name}': 'yes' and 'no' differ only by a leading apostrophe. Rename one.")
        if self.fallback not in (None, self.yes, self.no):
            raise SchemaError(f"'{self.name}': fallback must be '{self.yes}' or '{self.no}'.")
        self._check_labels()

    @property
    def declared_labels(self) -> tuple[str, ...]:
        """The two words, no first."""
        return (self.no, self.yes)

    def invented(self, notation: Notation, dates: tuple[str, ...]) -> list[str]:
        """Return the two words, yes first, where others are declared."""
        return [] if (self.yes, self.no) == ("yes", "no") else [self.yes, self.no]

    def understood(self, codes: Sequence[int]) -> list[str]:
        """Return yes or no, whatever words the file uses."""
        return ["missing" if code == self.missing_code else ("no", "yes")[code] for code in codes]

    @property
    def understood_spellings(self) -> Mapping[str, int]:
        """The two words in other capitals and, where they are words for true and false, all such words."""
        folded = (self.no.casefold(), self.yes.casefold())
        if folded[0] == folded[1]:
            return {}
        are_truths = folded[0] in _FALSEHOODS and folded[1] in _TRUTHS
        words = (_FALSEHOODS, _TRUTHS) if are_truths else ((self.no,), (self.yes,))
        return {
            spelling: code
            for code, alike in enumerate(words)
            for word in alike
            for spelling in (word.lower(), word.upper(), word.capitalize())
        }

    @property
    def cell_type(self) -> CellType:
        """A truth value."""
        return "bool"

    def cells(self, codes: npt.NDArray[np.int64]) -> list[Any]:
        """Return the truth value of every code."""
        return [None if code == self.missing_code else bool(code) for code in codes.tolist()]
