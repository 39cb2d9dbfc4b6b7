"""What is fitted to private rows: a card that says what it is for, and a class that asks, learns, draws or tells."""

from __future__ import annotations

import importlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray

from synth.errors import ConfigError, InputError
from synth.generators.coarse_grid import numbers_and_groups
from synth.privacy.answers import AnswerSource
from synth.privacy.more.forests import Guess
from synth.privacy.more.losses import Losses
from synth.privacy.questions import Answer
from synth.progress import Progress
from synth.schema import RunConfig, Schema

__all__ = [
    "Card",
    "Fact",
    "Generator",
    "GeneratorTask",
    "Mode",
    "Needs",
    "Picture",
    "PrivateModel",
    "ReleasedModel",
    "State",
    "Trace",
    "Tuned",
]

State = Mapping[str, NDArray[Any]]
"""Everything that drawing rows, or telling what was learned, needs: named arrays."""

LARGEST_SIDE, MOST_POINTS = 40, 200
"""Cells along a side of a heat map, and points of a trace: more is neither readable nor a summary."""


@dataclass(frozen=True, slots=True)
class GeneratorTask:
    """Everything public that a generator or a model is told before it asks its first question.

    ``seed`` is public: it draws feature maps, starting weights and training batches, never privacy noise. ``device`` is
    "auto", "cpu" or "cuda". ``constraints`` are the lines of ``rules:`` that every row keeps, ``groups`` the
    columns whose groups are compared.
    """

    schema: Schema
    label: str | None = None
    seed: int = 0
    device: str = "auto"
    constraints: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.label is not None:
            self.schema.modelled_column(self.label)
        if not 0 <= self.seed < 2**63:
            raise ConfigError(f"seed must be a whole number from 0 to 2^63 - 1, got {self.seed}.")
        if self.device not in {"auto", "cpu", "cuda"}:
            raise ConfigError(f"device must be auto, cpu or cuda, got {self.device}.")

    @classmethod
    def of(cls, config: RunConfig, *, device: str | None = None) -> Self:
        """Return what a configuration says; ``device`` where another one carries it out."""
        return cls(
            schema=config.schema,
            label=config.label,
            seed=config.seed,
            device=config.device if device is None else device,
            constraints=config.constraints,
            groups=config.groups,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What has to be declared before a generator may start.

    Attributes
    ----------
    label : bool
        Whether it needs a column to predict, of at least two values.
    columns : int
        Modelled columns, at least; the label is one of them.
    numbers : int
        Numbers and dates, at most, and at least one; 0 where they may be as many as they like.
    groups : int
        Where numbers are limited: groups of rows, at most, that everything else tells apart.
    """

    label: bool = False
    columns: int = 1
    numbers: int = 0
    groups: int = 0

    @property
    def words(self) -> str:
        """What is needed, as it stands behind "needs"; empty where every table will do."""
        label = "a label of at least two values" if self.label else ""
        columns = f"at least {self.columns} columns to learn" if self.columns > 1 else ""
        numbers = (
            f"1 to {self.numbers} numbers or dates, and at most {self.groups} groups of rows by all else together "
            "(categories, special values, missing cells)"
            if self.numbers
            else ""
        )
        return " and ".join(filter(None, (label, columns, numbers)))

    def are_met(self, schema: Schema, label: str | None) -> bool:
        """Whether a declared table and its label have it."""
        if self.label:
            if label is None:
                return False
            column = schema.modelled_column(label)
            if column.size - (column.missing_code is not None) < 2:
                return False
        if self.numbers:
            numbers, axes = numbers_and_groups(schema, label, self.groups)
            if not (1 <= len(numbers) <= self.numbers and math.prod(axis.size for axis in axes) <= self.groups):
                return False
        return len(schema.modelled) >= self.columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """One of several promises that a generator can be run with: a value of its option ``mode``.

    Attributes
    ----------
    name : str
        The value.
    title : str
        A few words.
    promise, beware : str
        What is hidden; and what is not, or what it costs.
    hides : {"record", "cell"}
        What has to be declared as protected.
    perturbs_rows : bool
        Whether it lets out one noisy row for every private one.
    refusal : str
        Why it makes no release; empty where it makes one.
    """

    name: str
    title: str
    promise: str
    beware: str
    hides: Literal["record", "cell"] = "record"
    perturbs_rows: bool = False
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class Tuned:
    """A number that somebody chose, and that another choice would make rows better or worse.

    ``module`` is where it is defined, empty for an option of the same name; its value stands there alone. ``why`` says
    what speaks for it, ``tuned_on`` which tables it was chosen on ("none": by reason). ``benchmarks/sensitivity.py``
    halves and doubles each.
    """

    name: str
    why: str
    tuned_on: str
    module: str = ""

    @property
    def is_option(self) -> bool:
        """Whether it is an option, which a configuration sets."""
        return not self.module


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """Everything that is known of a generator or a model before it is built: what its folder brings; all of it public.

    Attributes
    ----------
    name : str
        In configurations and receipts; no generator and no model share one.
    kind : {"generator", "model"}
        Whether rows are drawn from it, or it is what is released; the key under which configurations name it.
    title, summary, best_for, loses_where, reference : str
        What the app shows.
    made_by : str or type
        The class, as ``module:Class``; it is read when it is first built, as some start torch, which takes longer than
        many runs and which not every installation has.
    options : type
        A frozen dataclass of plain values; it draws the form and reads the configuration.
    needs : Needs
        What has to be declared: a run without it starts nowhere.
    measures_one_ways : bool
        Whether the answers hold a noisy one-way marginal of every column, which a report can then publish with error
        bars.
    modes : tuple of Mode
        Values of its option ``mode``, where it has one, and what each promises; the first is the default.
    questions : mapping of str to str
        What its questions ask, in words, by the name of the query; for those whose name does not say it.
    short_training : mapping of str to int
        Options that cost time and change no question, with values that are enough to try a configuration out.
    advice : callable
        Told a schema, says where another generator is likely to be better; empty where nothing speaks for one.
    predicts : bool
        Whether a model foretells the label of rows that it is given.
    paid : {"", "number", "classes"}
        Which kind of label's predictions, of held-out rows, can be paid for: the model's ``predictor`` is data then.
    on_card : {"never", "part", "whole"}
        Which of its work a graphics card does quicker, and takes over where the device is left open; "never" computes
        on the processor whatever is asked for.
    card_work : str
        What that work is, and why it is quicker there, as it stands behind "The GPU does"; empty for "never".
    constants : tuple of Tuned
        The numbers that were chosen.
    """

    name: str
    title: str
    summary: str
    best_for: str
    loses_where: str
    reference: str
    made_by: str | type[PrivateModel]
    options: type[Any]
    needs: Needs = Needs()
    measures_one_ways: bool = False
    modes: tuple[Mode, ...] = ()
    questions: Mapping[str, str] = field(default_factory=dict)
    short_training: Mapping[str, int] = field(default_factory=dict)
    advice: Callable[[Schema], str] = lambda schema: ""
    kind: Literal["generator", "model"] = "generator"
    predicts: bool = False
    paid: Literal["", "number", "classes"] = ""
    on_card: Literal["never", "part", "whole"] = "never"
    card_work: str = ""
    constants: tuple[Tuned, ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        """The card as lines of text."""
        said = {"Best for": self.best_for, "Loses where": self.loses_where}
        said |= {"Needs": f"{self.needs.words}."} if self.needs.words else {}
        said |= {"Source": self.reference}
        return (f"{self.name}: {self.title}. {self.summary}", *(f"    {what}: {words}" for what, words in said.items()))

    @property
    def model(self) -> type[PrivateModel]:
        """The class behind the card."""
        if not isinstance(self.made_by, str):
            return self.made_by
        module, name = self.made_by.split(":")
        return cast(type[PrivateModel], getattr(importlib.import_module(module), name))


@dataclass(frozen=True, slots=True)
class Fact:
    """One number about a fit, and the table that it sums up; it follows from noisy answers alone, so it is public.

    Attributes
    ----------
    name : str
        Unique within a generator or a model, in one word.
    title : str
        A few words above the number.
    value : float, int or str
    sentence : str
        One plain sentence below it.
    header : tuple of str
        Headings of the table; empty without one.
    rows : tuple of tuples
        Rows of the table.
    ranges : bool
        Whether the last three cells of every row are a number and the ends of its range, which are drawn.
    """

    name: str
    title: str
    value: float | int | str
    sentence: str
    header: tuple[str, ...] = ()
    rows: tuple[tuple[float | int | str, ...], ...] = ()
    ranges: bool = False


@dataclass(frozen=True, slots=True)
class Trace:
    """A line or some points of a picture.

    Attributes
    ----------
    name : str
        What it shows.
    across, up : tuple of float
        Where its points are, at most 200.
    errors : tuple of float, optional
        Half the width of the range that covers 95 %, up and down.
    """

    name: str
    across: tuple[float, ...]
    up: tuple[float, ...]
    errors: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if not len(self.across) == len(self.up) == len(self.errors or self.up):
            raise InputError(f"'{self.name}' needs one place up, and one error if any, for every place across.")
        if len(self.up) > MOST_POINTS:
            raise InputError(f"'{self.name}' has {len(self.up)} points; a picture shows at most {MOST_POINTS}.")
        if not all(map(math.isfinite, (*self.across, *self.up, *(self.errors or ())))):
            raise InputError(f"'{self.name}': a picture shows finite numbers.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A picture of a fit; like a :class:`Fact` it follows from noisy answers alone, so it is public.

    A heat map has ``columns``, ``rows`` and ``values``; lines and points have ``traces``.

    Attributes
    ----------
    name : str
        Unique within a generator or a model, in one word.
    title : str
        A few words above it.
    sentence : str
        One plain sentence below the title.
    kind : {"heat_map", "lines", "points"}
    across, up : str
        What the axes show, such as the names of columns.
    unit : str
        What one is one of in a heat map's cells.
    columns, rows : tuple of float or str
        Where the cells' middles are, from left to right and from below upwards: numbers, or words such as dates.
    values : tuple of tuple of float or None
        Of the cells, row by row from below; None where nothing was computed.
    traces : tuple of Trace
    """

    name: str
    title: str
    kind: Literal["heat_map", "lines", "points"]
    across: str
    up: str
    sentence: str = ""
    unit: str = ""
    columns: tuple[float | str, ...] = ()
    rows: tuple[float | str, ...] = ()
    values: tuple[tuple[float | None, ...], ...] = ()
    traces: tuple[Trace, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in {"heat_map", "lines", "points"}:
            raise InputError(f"'{self.title}': a picture is a heat_map, lines or points, got {self.kind}.")
        if (self.kind == "heat_map") is not bool(self.values) or (self.kind == "heat_map") is bool(self.traces):
            raise InputError(f"'{self.title}': a heat map has values, any other picture has traces.")
        if max(len(self.rows), len(self.columns)) > LARGEST_SIDE:
            raise InputError(f"'{self.title}': a heat map shows at most {LARGEST_SIDE} cells along a side.")
        if len(self.values) != len(self.rows) or any(len(row) != len(self.columns) for row in self.values):
            raise InputError(f"'{self.title}': a heat map needs one value for every cell.")
        if not all(value is None or math.isfinite(value) for row in self.values for value in row):
            raise InputError(f"'{self.title}': a picture shows finite numbers.")


class PrivateModel(ABC):
    """What is learned from noisy answers alone: a generator of rows, or a model that is itself what is released.

    ``fit`` may be called once; the fitted object keeps neither the session nor a table.

    Attributes
    ----------
    card : Card
        What is known of it before it is built.
    """

    card: ClassVar[Card]

    @abstractmethod
    def __init__(self, task: GeneratorTask, options: Any) -> None:
        """Take what is public; refuse what cannot be learned before anything is asked."""

    @abstractmethod
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

    @abstractmethod
    def state(self) -> State:
        """Return everything that :meth:`from_state` needs."""

    @classmethod
    @abstractmethod
    def from_state(cls, task: GeneratorTask, options: Any, state: State) -> Self:
        """Rebuild what was fitted from what ``state`` returned; it draws, and tells, the same bytes as before."""

    @property
    def perturbs_rows(self) -> bool:
        """Whether it asks for noisy rows, one for every private one: the one question where one cell is hidden."""
        return False

    @property
    def device(self) -> str:
        """What does its work, "cpu" or "cuda"; before a fit what is foreseen. Last bits of its numbers depend on it."""
        return "cpu"

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What its options take to be public knowledge, in sentences for the certificate; known before it is fitted."""
        return ()

    def expected(self, asked: Sequence[Answer], rows: float) -> tuple[Fact, ...]:
        """Return what is known of a fit before it is paid for, such as the error that noise will cause.

        Parameters
        ----------
        asked : sequence of Answer
            What it asks, planned: the noise of each answer is as it will be, its numbers are zeros.
        rows : float
            Declared number of rows, or of units that there may be at most.
        """
        return ()

    def facts(self) -> tuple[Fact, ...]:
        """Return facts of the fit and of the rows that were last drawn; post-processing of noisy answers."""
        return ()

    def pictures(self) -> tuple[Picture, ...]:
        """Return pictures of the fit; post-processing of noisy answers, as facts are."""
        return ()


class Generator(PrivateModel):
    """A model of the joint distribution of the modelled columns, which rows are drawn from."""

    @abstractmethod
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


class ReleasedModel(PrivateModel):
    """A model that is itself released: numbers that a reader uses without this program, and where it can, predictions.

    It draws no rows. Its card is of the kind "model".
    """

    @abstractmethod
    def document(self) -> dict[str, Any]:
        """Return the fitted model as plain JSON values that are enough to use it without this program.

        Coefficients with their intervals where there are, frequencies, means, how a row is coded: numbers that follow
        from noisy answers and from what is public. What was declared (columns, options, label) stands beside it in
        ``model.json``. The same state gives the same values, to the last bit.
        """

    def predict(self, codes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Foretell the label of rows; only models whose card ``predicts`` do.

        Parameters
        ----------
        codes : array of shape (n_rows, n_modelled)
            Columns in ``schema.names`` order; the column of the label is not looked at.

        Returns
        -------
        array of shape (n_rows,) or (n_rows, n_classes)
            In units of the label where it is a number or a date's code, else the chance of each of its codes.

        Raises
        ------
        ConfigError
            If it is no model that predicts.
        """
        raise ConfigError(f"model '{self.card.name}' describes rows and predicts nothing.")

    def either(self, codes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the numbers that the label of a row may be by the model, in its unit: the nearest counts as foretold.

        Parameters
        ----------
        codes : array of shape (n_rows, n_modelled)

        Returns
        -------
        array of shape (n_rows, n)
            Of a model that foretells a number, that number alone.

        Raises
        ------
        ConfigError
            As :meth:`predict`.
        """
        return self.predict(codes)[:, None]

    @property
    def tells_of_a_label(self) -> bool:
        """Whether it says anything of the label of a row, so that it can be wrong."""
        return self.card.predicts

    def settled(self) -> dict[str, Any]:
        """Return options under which a fit with another budget is of the same learner as this one."""
        return {}

    def predictor(self, bins: int) -> Losses | Guess:
        """Return what it predicts as data, which a hold-out can be asked about; only models whose card is ``paid`` do.

        Parameters
        ----------
        bins : int
            Bins of the confidence of a guessed class.

        Returns
        -------
        Losses or Guess
            Of a number by how much its prediction errs, the range of its declared grid being 1; of classes which one
            it guesses, of those that are not missing.

        Raises
        ------
        ConfigError
            If it is no such model.
        """
        raise ConfigError(f"predictions of model '{self.card.name}' cannot be paid for.")
