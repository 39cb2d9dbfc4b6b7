"""The protocol of generators and models: a card that describes one, and a class that asks, learns and draws."""

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
from synth.generators.groups import numbers_and_groups
from synth.privacy.answers import AnswerSource
from synth.privacy.more.forests import Guess
from synth.privacy.more.losses import Losses
from synth.privacy.questions import Answer
from synth.progress import Progress
from synth.schema import Neighbours, RunConfig, Schema
from synth.system.costs import Work

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
    "states_of_columns",
]

State = Mapping[str, NDArray[Any]]
"""Everything needed to draw rows or to describe what was learned: named arrays."""


def states_of_columns(state: State, columns: int) -> list[dict[str, NDArray[Any]]]:
    """Return the arrays called ``column.<place>.<name>`` by name, one mapping for each of the columns."""
    found: dict[str, dict[str, NDArray[Any]]] = {f"column.{place}.": {} for place in range(columns)}
    for name, array in state.items():
        prefix = name[: name.find(".", len("column.")) + 1]
        if prefix in found:
            found[prefix][name.removeprefix(prefix)] = array
    return list(found.values())


LARGEST_SIDE, MOST_POINTS = 40, 200
"""Maximum cells along a side of a heat map, and points of a trace: more is neither readable nor a summary."""


@dataclass(frozen=True, slots=True)
class GeneratorTask:
    """The public facts that a generator or a model knows before it asks its first question.

    ``seed`` is public: it draws feature maps, starting weights and training batches, never privacy noise. ``device`` is
    "cpu", "cuda", or "auto": a card, if there is one, for the work that suits it. ``constraints`` are the lines of
    ``rules:`` that every row satisfies, ``groups`` the columns whose groups are compared. ``most_rows`` is the declared
    upper bound on the number of private rows; 0 where a fitted model is only read, and nothing is asked.
    """

    schema: Schema
    label: str | None = None
    seed: int = 0
    device: str = "auto"
    constraints: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    most_rows: int = 0

    def __post_init__(self) -> None:
        if self.label is not None:
            self.schema.modelled_column(self.label)
        if not 0 <= self.seed < 2**63:
            raise ConfigError(f"seed must be a whole number from 0 to 2^63 - 1, got {self.seed}.")
        if self.device not in {"auto", "cpu", "cuda"}:
            raise ConfigError(f"device must be auto, cpu or cuda, got {self.device}.")

    @classmethod
    def of(cls, config: RunConfig, *, device: str | None = None) -> Self:
        """Return the task of a configuration; ``device`` replaces its device."""
        config = config.asked
        return cls(
            schema=config.schema,
            label=config.label,
            seed=config.seed,
            device=config.device if device is None else device,
            constraints=config.constraints,
            groups=config.groups,
            most_rows=config.people_at_most * config.schema.unit.rows_per_unit,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What must be declared before a generator can start.

    Attributes
    ----------
    label : bool
        Whether it needs a column to predict, with at least two values.
    columns : int
        Minimum number of modelled columns, including the label.
    numbers : int
        Maximum number of numbers and dates, of which there must be at least one; 0 for no limit.
    groups : int
        If numbers are limited: maximum number of groups of rows that all other columns form.
    sampling : bool
        Whether it reads random samples of units, which protects one unit more or less alone, and needs to know which
        rows belong to a unit.
    """

    label: bool = False
    columns: int = 1
    numbers: int = 0
    groups: int = 0
    sampling: bool = False

    @property
    def words(self) -> str:
        """The requirements, as they follow the word "needs"; empty if every table will do."""
        label = "a label of at least two values" if self.label else ""
        columns = f"at least {self.columns} columns to learn" if self.columns > 1 else ""
        numbers = (
            f"1 to {self.numbers} numbers or dates, and at most {self.groups} groups of rows formed by everything else "
            "(categories, special values, missing cells)"
            if self.numbers
            else ""
        )
        sampling = (
            "a private number of rows ('row_count: private'), and an id column where somebody may have several rows"
            if self.sampling
            else ""
        )
        return " and ".join(filter(None, (label, columns, numbers, sampling)))

    @property
    def keys(self) -> str:
        """The keys of a configuration that declare what is needed, as a list in words."""
        table = self.columns > 1 or self.numbers > 0
        named = {"label": self.label, "columns": table, "row_count": self.sampling, "unit": self.sampling}
        return ", ".join(f"'{key}:'" for key, is_needed in named.items() if is_needed)

    def are_met(self, schema: Schema, label: str | None) -> bool:
        """Whether a declared table and its label meet the requirements."""
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
        unit = schema.unit
        if self.sampling and not (
            schema.neighbours is Neighbours.ADD_REMOVE and (unit.rows_per_unit == 1 or unit.id_column is not None)
        ):
            return False
        return len(schema.modelled) >= self.columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """One of several guarantees that a generator can run with: a value of its option ``mode``.

    Attributes
    ----------
    name : str
        The value.
    title : str
        A few words.
    promise, beware : str
        What is protected; what is not, or what the protection costs.
    hides : {"record", "cell"}
        What must be declared as protected.
    perturbs_rows : bool
        Whether it releases one noisy row for every private one.
    refusal : str
        Why it makes no release; empty if it makes one.
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
    """A number that was chosen, where another choice would make rows better or worse.

    ``module`` is where it is defined, and the only place of its value; empty for an option of the same name. ``why``
    gives the reason, ``tuned_on`` the tables it was chosen on ("none": by reasoning). ``benchmarks/sensitivity.py``
    halves and doubles each.
    """

    name: str
    why: str
    tuned_on: str
    module: str = ""

    @property
    def is_option(self) -> bool:
        """Whether it is an option that a configuration can set."""
        return not self.module


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """The public description of a generator or a model before it is built, given by its folder.

    Attributes
    ----------
    name : str
        Used in configurations and receipts; unique among generators and models.
    kind : {"generator", "model"}
        Whether rows are drawn from it, or it is released itself; also its key in configurations.
    title, summary, best_for, loses_where, reference : str
        Texts that the app shows.
    made_by : str or type
        The class, as ``module:Class``. The module is imported when the class is first built: some import torch, which
        takes longer than many runs and which not every installation has.
    options : type
        A frozen dataclass of plain values, for the form and for reading the configuration.
    keeps_people : str
        What a generator keeps where people keep all of their rows, in one or two sentences; shown where they do.
    needs : Needs
        What must be declared for a run to start.
    measures_one_ways : bool
        Whether the answers contain a noisy one-way marginal of every column, which a report can publish with error
        bars.
    answers_pure : bool
        Whether all that it asks can be answered with a delta of 0: counts and private choices.
    modes : tuple of Mode
        Values of its option ``mode``, if it has one, and the guarantee of each; the first is the default.
    questions : mapping of str to str
        Its questions in words, by the name of the query, if that name does not explain it.
    asks_as : str
        Who its receipts name as their source, if another generator asks for it.
    asks_first : bool
        Whether all of its questions are asked before anything is trained, so that a check can ask them again within
        moments; otherwise some follow from what was fitted on the way.
    fits_at_once : bool
        Whether fitting to the answers takes moments, whatever the table: every check then fits again.
    short_training : mapping of str to int
        Options that cost time and change no question, with values that are enough to try out a configuration.
    advice : callable
        Given a schema, returns why another generator is likely to be better; empty if there is no reason.
    predicts : bool
        Whether a model predicts the label of given rows.
    paid : {"", "number", "classes"}
        For which kind of label predictions of held-out rows can be paid for: the model's ``predictor`` is data then.
    on_card : {"never", "part", "whole"}
        How much of its work a graphics card can do; "never" computes on the processor whatever is requested. If the
        device is left open, it does so where :meth:`PrivateModel.work` is predicted to be quicker there.
    card_work : str
        That work, as it follows "The GPU does"; empty for "never".
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
    keeps_people: str = ""
    needs: Needs = Needs()
    measures_one_ways: bool = False
    answers_pure: bool = False
    modes: tuple[Mode, ...] = ()
    questions: Mapping[str, str] = field(default_factory=dict)
    asks_as: str = ""
    asks_first: bool = True
    fits_at_once: bool = False
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
        said |= {"People with several rows": self.keeps_people} if self.keeps_people else {}
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
    """One number about a fit, and the table that it summarises; it follows from noisy answers alone, so it is public.

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
        Whether the last three cells of every row are a number and the ends of its range, to be drawn.
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
        Coordinates of its points, at most 200.
    errors : tuple of float, optional
        Half the width of the vertical 95 % range.
    """

    name: str
    across: tuple[float, ...]
    up: tuple[float, ...]
    errors: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if not len(self.across) == len(self.up) == len(self.errors or self.up):
            raise InputError(f"'{self.name}' needs as many numbers up, and errors if any, as across.")
        if len(self.up) > MOST_POINTS:
            raise InputError(f"'{self.name}' has {len(self.up)} points; a picture shows at most {MOST_POINTS}.")
        if not all(map(math.isfinite, (*self.across, *self.up, *(self.errors or ())))):
            raise InputError(f"'{self.name}': a picture shows finite numbers.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A picture of a fit; like a :class:`Fact`, it follows from noisy answers alone, so it is public.

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
        Unit of the values in a heat map's cells.
    columns, rows : tuple of float or str
        Centres of the cells, from left to right and from bottom to top: numbers, or words such as dates.
    values : tuple of tuple of float or None
        Values of the cells, row by row from the bottom; None if nothing was computed.
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
    """Base of everything that learns from noisy answers alone: a generator of rows, or a model that is itself released.

    ``fit`` may be called once; the fitted object keeps neither the session nor a table.

    Attributes
    ----------
    card : Card
        Its description before it is built.
    """

    card: ClassVar[Card]

    @abstractmethod
    def __init__(self, task: GeneratorTask, options: Any) -> None:
        """Take the public facts; refuse a task that cannot be learned before any question is asked."""

    @abstractmethod
    def fit(self, session: AnswerSource, progress: Progress) -> Self:
        """Ask the session, spend its whole budget, and train on the answers.

        Parameters
        ----------
        session : AnswerSource
            Answers questions about the rows with noise and a receipt; the only access to them.
        progress : Progress
            Receives phases, steps and losses (all post-processing of answers); may cancel the run.

        Returns
        -------
        Self
        """

    @property
    def fits_together(self) -> int:
        """How many fits are worth being made side by side by :meth:`fit_together`."""
        return 1

    @classmethod
    def fit_together(cls, models: Sequence[Self], sessions: Sequence[AnswerSource], progress: Progress) -> None:
        """Fit models of one task and the same options, each to the answers of a session of its own.

        Parameters
        ----------
        models : sequence of Self
            At least one.
        sessions : sequence of AnswerSource
            As many; each is spent wholly.
        progress : Progress
        """
        for model, session in zip(models, sessions, strict=True):
            model.fit(session, progress)

    @abstractmethod
    def state(self) -> State:
        """Return the arrays that :meth:`from_state` needs."""

    @classmethod
    @abstractmethod
    def from_state(cls, task: GeneratorTask, options: Any, state: State) -> Self:
        """Rebuild the fitted object from what ``state`` returned; it draws and reports the same bytes as before."""

    def fits_soon(self, answers: Sequence[Answer]) -> bool:
        """Whether fitting to these recorded answers takes seconds on any computer, so that every check can afford it.

        The answers may be forged: only how many there are, and what was declared, may decide.
        """
        return self.card.fits_at_once

    @property
    def perturbs_rows(self) -> bool:
        """Whether it asks for one noisy row for every private one: the only question that can protect single cells."""
        return False

    @property
    def device(self) -> str:
        """Where it computes, "cpu" or "cuda"; before a fit, where it will. The last bits of results depend on it."""
        return "cpu"

    def work(self, rows: int) -> Work:
        """Return what a fit computes where a card could do it, in numbers; known before the fit.

        Parameters
        ----------
        rows : int
            Rows that the run makes, or that are declared, in place of the number of private ones.
        """
        return Work(steps=0, operations=0.0)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What its options assume to be public knowledge, in sentences for the certificate; known before the fit."""
        return ()

    def expected(self, asked: Sequence[Answer], rows: float) -> tuple[Fact, ...]:
        """Return facts about a fit before it is paid for, such as the expected error due to noise.

        Parameters
        ----------
        asked : sequence of Answer
            Its planned answers: each has the noise of the real one, and zeros for its numbers.
        rows : float
            Declared number of rows, or maximum number of units.
        """
        return ()

    def facts(self) -> tuple[Fact, ...]:
        """Return facts about the fit and the rows drawn last; post-processing of noisy answers."""
        return ()

    def pictures(self) -> tuple[Picture, ...]:
        """Return pictures of the fit; post-processing of noisy answers, like facts."""
        return ()


class Generator(PrivateModel):
    """A model of the joint distribution of the modelled columns, from which rows are drawn."""

    @abstractmethod
    def sample(self, n_rows: int, seed: int) -> NDArray[np.int64]:
        """Draw rows of codes; post-processing of the answers, so it costs nothing.

        Parameters
        ----------
        n_rows : int
            Public number of rows, at least 1.
        seed : int
            Public; the same seed gives the same bytes on one machine with the versions in the certificate.

        Returns
        -------
        array of shape (n_rows, n_modelled), int64
            Codes, columns in ``schema.names`` order, each below its column's size.
        """


class ReleasedModel(PrivateModel):
    """A model that is itself released: numbers that a reader can use without this program, and for some, predictions.

    It draws no rows. The kind of its card is "model".
    """

    @abstractmethod
    def document(self) -> dict[str, Any]:
        """Return the fitted model as plain JSON values, sufficient to use it without this program.

        These are coefficients with their intervals if there are any, frequencies, means and how a row is coded: numbers
        that follow from noisy answers and public facts. The declaration (columns, options, label) is next to it in
        ``model.json``. The same state gives the same values, to the last bit.
        """

    def predict(self, codes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Predict the label of rows; only for models whose card ``predicts``.

        Parameters
        ----------
        codes : array of shape (n_rows, n_modelled)
            Columns in ``schema.names`` order; the label's column is ignored.

        Returns
        -------
        array of shape (n_rows,) or (n_rows, n_classes)
            In units of the label if it is a number, or a date's code; else the probability of each of its codes.

        Raises
        ------
        ConfigError
            If the model does not predict.
        """
        raise ConfigError(f"model '{self.card.name}' describes rows and predicts nothing.")

    def either(self, codes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the numbers that the model considers possible for the label, in its unit; the nearest one counts.

        Parameters
        ----------
        codes : array of shape (n_rows, n_modelled)

        Returns
        -------
        array of shape (n_rows, n)
            For a model that predicts a number, only that number.

        Raises
        ------
        ConfigError
            As for :meth:`predict`.
        """
        return self.predict(codes)[:, None]

    @property
    def tells_of_a_label(self) -> bool:
        """Whether it says anything about the label of a row, and so can be wrong."""
        return self.card.predicts

    def settled(self) -> dict[str, Any]:
        """Return options with which a fit at another budget uses the same learner as this one."""
        return {}

    def predictor(self, bins: int) -> Losses | Guess:
        """Return its predictions as data about which a hold-out can be asked; only for models whose card is ``paid``.

        Parameters
        ----------
        bins : int
            Bins of the confidence of a guessed class.

        Returns
        -------
        Losses or Guess
            For a number, the error of its prediction in units of its declared range; for classes, which one it guesses
            among those that are not missing.

        Raises
        ------
        ConfigError
            If its predictions cannot be paid for.
        """
        raise ConfigError(f"predictions of model '{self.card.name}' cannot be paid for.")
