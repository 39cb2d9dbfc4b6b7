"""What a generator is: it asks a private session, trains on the answers, and samples codes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from synth.errors import ConfigError
from synth.privacy.answers import AnswerSource
from synth.progress import Progress
from synth.schema import Schema

__all__ = ["Card", "Fact", "Generator", "GeneratorTask", "Needs", "State", "TellsFacts"]

State = Mapping[str, NDArray[Any]]
"""Everything that drawing rows needs, as named arrays."""


@dataclass(frozen=True, slots=True)
class GeneratorTask:
    """Everything public that a generator is told before it asks its first question.

    ``seed`` is public: it draws feature maps, starting weights and training batches, never privacy noise. ``device`` is
    "auto", "cpu" or "cuda".
    """

    schema: Schema
    label: str | None = None
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        if self.label is not None:
            self.schema.modelled_column(self.label)
        if not 0 <= self.seed < 2**63:
            raise ConfigError(f"seed must be a whole number from 0 to 2^63 - 1, got {self.seed}.")
        if self.device not in {"auto", "cpu", "cuda"}:
            raise ConfigError(f"device must be auto, cpu or cuda, got {self.device}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What has to be declared before a generator may start.

    Attributes
    ----------
    label : bool
        Whether it needs a column to predict, of at least two values.
    columns : int
        Modelled columns, at least; the label is one of them.
    """

    label: bool = False
    columns: int = 1

    @property
    def words(self) -> str:
        """What is needed, as it stands behind "needs"; empty where every table will do."""
        label = "a label of at least two values" if self.label else ""
        columns = f"at least {self.columns} columns to learn" if self.columns > 1 else ""
        return " and ".join(filter(None, (label, columns)))

    def are_met(self, schema: Schema, label: str | None) -> bool:
        """Whether a declared table and its label have it."""
        if self.label:
            if label is None:
                return False
            column = schema.modelled_column(label)
            if column.size - (column.missing_code is not None) < 2:
                return False
        return len(schema.modelled) >= self.columns


@dataclass(frozen=True, slots=True)
class Card:
    """What the app says about a generator before it is chosen; all of it public."""

    name: str
    title: str
    summary: str
    best_for: str
    loses_where: str
    reference: str
    needs: Needs


@runtime_checkable
class Generator(Protocol):
    """A model of the joint distribution of the modelled columns, learned from noisy answers alone.

    ``measures_one_ways`` says that the answers hold a noisy one-way table of every column, which a report can then
    publish with error bars. ``needs`` is what has to be declared: a run without it starts nowhere. ``fit`` may be
    called once; the fitted object keeps neither the session nor a table.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    summary: ClassVar[str]
    best_for: ClassVar[str]
    loses_where: ClassVar[str]
    reference: ClassVar[str]
    Options: ClassVar[type[Any]]
    measures_one_ways: ClassVar[bool]
    needs: ClassVar[Needs]

    def __init__(self, task: GeneratorTask, options: Any) -> None: ...

    def fit(self, session: AnswerSource, progress: Progress) -> Self:
        """Ask the session, spend its whole budget, and train on the answers.

        Parameters
        ----------
        session : AnswerSource
            Answers questions about the rows with noise and a receipt; the only way to them.
        progress : Progress
            Told about phases, steps and losses (all post-processing of answers); may cancel the run.

        Returns
        -------
        Self
        """
        ...

    def sample(self, n_rows: int, seed: int) -> NDArray[np.int64]:
        """Draw rows of codes; post-processing of the answers, so it costs nothing.

        Parameters
        ----------
        n_rows : int
            Public number of rows to make, at least 1.
        seed : int
            Public; the same seed gives the same bytes on one machine with the versions in the certificate.

        Returns
        -------
        array of shape (n_rows, n_modelled), int64
            Codes, columns in ``schema.names`` order, each below its column's size.
        """
        ...

    def state(self) -> State:
        """Return everything ``sample`` needs."""
        ...

    @classmethod
    def from_state(cls, task: GeneratorTask, options: Any, state: State) -> Self:
        """Rebuild a fitted generator from what ``state`` returned."""
        ...


# --------------------------------------------------------------------------------------------------------------------
# What a fitted generator can say of itself: numbers that follow from noisy answers alone, so anybody may see them


@dataclass(frozen=True, slots=True)
class Fact:
    """One number about a fit, and the table that it sums up.

    Attributes
    ----------
    name : str
        Unique within a generator, in one word.
    title : str
        A few words above the number.
    value : float, int or str
    sentence : str
        One plain sentence below it.
    header : tuple of str
        Headings of the table; empty without one.
    rows : tuple of tuples
        Rows of the table.
    """

    name: str
    title: str
    value: float | int | str
    sentence: str
    header: tuple[str, ...] = ()
    rows: tuple[tuple[float | int | str, ...], ...] = ()


@runtime_checkable
class TellsFacts(Protocol):
    """A generator that has something to say of its fit."""

    def facts(self) -> tuple[Fact, ...]:
        """Return facts of the fit and of the rows that were last drawn; post-processing of noisy answers."""
        ...
