"""What a report is: one folder that declares itself in one value, and one line in :mod:`synth.reports.registry`.

A report computes numbers that may be published from paid answers (:class:`PaidAnswers`), exact numbers for the owner
from the rows themselves (:class:`OwnerRows`), or both. It declares their headings, its options, and what screens show
of it, as data (:mod:`synth.reports.panels`). Nothing here knows a browser, and nothing outside a report's folder knows
its name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from synth.generators.protocol import Fact, Picture, ReleasedModel
from synth.privacy.answers import NoisyAnswer, RowCount
from synth.privacy.receipt import Receipt
from synth.progress import Progress
from synth.reports.code_tables import CodeTable, UnitRows
from synth.reports.controls import Anchored, anchored
from synth.reports.evidence import Evidence, OwnerOnlyEvidence, Publishable, SafeEvidence
from synth.reports.measured import ComparedTable
from synth.reports.panels import Panels
from synth.schema import RunConfig, declared_part
from synth.schema.columns.base import ReadingCounts

__all__ = [
    "ACCURACY",
    "COLUMNS",
    "GROUPS",
    "OWNER_ONLY",
    "OwnerRows",
    "PaidAnswers",
    "Refit",
    "Remade",
    "Remake",
    "Renewal",
    "Report",
    "ReportOption",
    "Screen",
    "Section",
    "Shown",
    "StandInPart",
    "Tab",
    "TestRows",
    "groups_declared",
]


@dataclass(frozen=True, slots=True, order=True)
class Tab:
    """A tab of the report's screen; tabs are ordered by their places."""

    place: int
    title: str


COLUMNS = Tab(20, "● Columns and pairs")
ACCURACY = Tab(30, "● Accuracy you can expect")
GROUPS = Tab(50, "○ Groups")
OWNER_ONLY = Tab(70, "○ Owner only")


@dataclass(frozen=True, slots=True)
class Section:
    """The heading of numbers whose ids begin with the same word, and what their ranges cover."""

    heading: str
    covers: str = "privacy noise"


@dataclass(frozen=True, slots=True, eq=False)
class PaidAnswers:
    """What a public part may read: only what was paid for, synthetic or declared.

    Attributes
    ----------
    config : RunConfig
        Declared facts.
    codes : CodeTable
        The synthetic rows, columns in ``schema.names`` order.
    rows_made : int
        Their number.
    releases : sequence of NoisyAnswer
        The paid answers of the run.
    receipts : sequence of Receipt
        All receipts of the run.
    facts : sequence of Fact
        What the fitted generator says about itself.
    pictures : sequence of Picture
        What it shows of itself.
    rows : RowCount, optional
        What is known about the number of private rows; without it nothing measured can be compared.
    fine, coarse : tuple of ComparedTable
        Measured tables beside the synthetic rows, in measured bins and in at most 32 public bins.
    """

    config: RunConfig
    codes: CodeTable
    rows_made: int
    releases: Sequence[NoisyAnswer]
    receipts: Sequence[Receipt]
    facts: Sequence[Fact]
    pictures: Sequence[Picture]
    rows: RowCount | None
    fine: tuple[ComparedTable, ...] = ()
    coarse: tuple[ComparedTable, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class TestRows:
    """Real rows that no generator saw, and a description of them."""

    rows: UnitRows
    words: str


@dataclass(frozen=True, slots=True, eq=False)
class Remade:
    """The result of another run of the same configuration: its rows as codes, column by column, and its receipts."""

    rows: CodeTable
    receipts: tuple[Receipt, ...]


Remake = Callable[[Sequence[UnitRows]], list[Remade]]
"""Run the same configuration, with fresh noise, on each of several tables of other private rows."""


class Refit(Protocol):
    """Fit the released model of the same configuration again, to private rows; nothing of such a fit leaves."""

    def __call__(self, rows: UnitRows, /, *, like: ReleasedModel | None = None) -> ReleasedModel:
        """Return a fit with fresh noise; with ``like``, a fit like that one with as little noise as possible."""
        ...


@dataclass(frozen=True, eq=False)
class OwnerRows:
    """What an owner's part may read: exact rows, opened by the one service that may.

    Attributes
    ----------
    config : RunConfig
    train : UnitRows
        What the generator was trained on.
    holdout : UnitRows, optional
        The rows that were held out, if any.
    test : TestRows, optional
        Rows to test predictions on: the test table, or the hold-out.
    test_problem : str, optional
        Why the given test table could not be used.
    synthetic : CodeTable
        The synthetic rows, column by column; empty if a model was released.
    receipts : tuple of Receipt
        Of the run.
    control_noise : float
        Standard deviation of the noise on the control's counts, in rows.
    reading : ReadingCounts, optional
        How the file was read.
    threads : int
        Trainings to run at once.
    remake : Remake, optional
        Run the configuration again.
    remakes_together : int
        How many of these runs are worth being made side by side.
    released : ReleasedModel, optional
        The model that was released instead of rows.
    refit : Refit, optional
        Fit it again.
    of_people, synthetic_of_people : UnitRows, optional
        All private and all synthetic rows in columns of the declared table, where people are kept whole; those of a
        person lie together, in their order. ``train`` and ``synthetic`` then have one row for each person.
    """

    config: RunConfig
    train: UnitRows
    holdout: UnitRows | None
    test: TestRows | None
    test_problem: str | None
    synthetic: CodeTable
    receipts: tuple[Receipt, ...]
    control_noise: float
    reading: ReadingCounts | None = None
    threads: int = 1
    remake: Remake | None = None
    remakes_together: int = 1
    released: ReleasedModel | None = None
    refit: Refit | None = None
    of_people: UnitRows | None = None
    synthetic_of_people: UnitRows | None = None

    @cached_property
    def tables(self) -> Anchored:
        """Private and synthetic rows with the control and the floor, drawn once for all reports.

        Where people are kept whole, everyone has one of their rows here, in the columns of the declared table; the
        report about people compares all rows.
        """
        schema = declared_part(self.config.schema)
        width = len(schema.names)
        return anchored(
            self.train.codes[:width],
            self.synthetic[:width],
            schema,
            control_noise=self.control_noise,
            seed=self.config.seed,
        )


@dataclass(frozen=True, slots=True)
class StandInPart:
    """The results of a report on public rows, and the names of the attacks that did better than the proof allows."""

    evidence: tuple[SafeEvidence, ...]
    exceeded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReportOption:
    """An option of a report, declared once for the command line and for the code.

    Attributes
    ----------
    name : str
        As in Python; the command line has hyphens instead of underscores.
    help : str
    default : text, bool or None
        A bool makes it a switch.
    choices : tuple of str
        The allowed texts, if only a few are.
    number : int, optional
        The option takes a whole number, which may be left out after its name; this is the number then used.
    """

    name: str
    help: str
    default: str | bool | None = None
    choices: tuple[str, ...] = ()
    number: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    """A part of a report that takes long and is made on request, in a process of its own; nothing is charged.

    Attributes
    ----------
    name : str
        The name by which it is requested.
    prefix : str
        The new numbers replace the old ones whose ids begin with this.
    usual : str
        The amount that a screen requests.
    make : callable
        Return the numbers, given the rows and the amount.
    done : str
        What is done with the rows, as a past participle.
    about : callable
        Return what it does and costs, given about how many minutes it takes, if known.
    start_label, stop_label : str
        Words of the screen.
    minutes : callable, optional
        Return how long it takes, from the seconds of the run's phases.
    check : callable, optional
        Raise if an amount cannot be used.
    option : str, optional
        The option of the report by which the command line requests it.
    of_models : bool
        Whether it can also be made for runs that released a model.
    failed, fault
        As in :class:`Report`.
    """

    name: str
    prefix: str
    usual: str
    make: Callable[[OwnerRows, str, Progress], Sequence[OwnerOnlyEvidence]]
    done: str
    about: Callable[[int | None], str]
    start_label: str
    stop_label: str
    minutes: Callable[[Mapping[str, float]], int] | None = None
    check: Callable[[str], None] | None = None
    option: str | None = None
    of_models: bool = False
    failed: Callable[[str], OwnerOnlyEvidence] | None = None
    fault: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """What a screen knows about one run: its configuration, its public numbers, and exact ones if they were read."""

    config: RunConfig
    public: tuple[Evidence, ...]
    exact: tuple[Evidence, ...] = ()

    def public_of(self, *sections: str) -> list[Evidence]:
        """Return the public numbers of some sections."""
        return [entry for entry in self.public if entry.section in sections]

    def exact_of(self, *sections: str) -> list[Evidence]:
        """Return the exact numbers of some sections."""
        return [entry for entry in self.exact if entry.section in sections]


@dataclass(frozen=True, slots=True)
class Screen:
    """What a tab shows of a report.

    Attributes
    ----------
    tab : Tab
    panels : callable
        Return the pieces in order.
    exact : bool
        Whether it shows exact numbers; each look at them is recorded in the ledger.
    wanted : callable
        Return whether there is anything to show for a configuration.
    of_models : callable
        Return whether it says anything about a model, which makes no rows.
    place : int
        Screens of one tab are shown in this order, and in the order of the registry where it is the same.
    without : str
        The text shown if there are no exact numbers.
    """

    tab: Tab
    panels: Callable[[Shown], Panels]
    exact: bool = False
    place: int = 0
    wanted: Callable[[RunConfig], bool] = lambda config: True
    of_models: Callable[[RunConfig], bool] = lambda config: False
    without: str = (
        "No owner-only report: the rows were deleted before it could be built, or building it failed (see the log)."
    )


def groups_declared(config: RunConfig) -> bool:
    """Return whether any columns are declared whose groups are compared."""
    return bool(config.groups)


_PublicPart = Callable[[PaidAnswers], Sequence[Publishable]]
_OwnerPart = Callable[[OwnerRows, Mapping[str, Any], Progress], Sequence[OwnerOnlyEvidence]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One report.

    Attributes
    ----------
    id : str
        Name of its folder.
    title : str
        Its subject, in a few words.
    sections : mapping
        The first words of the ids of its numbers, with their headings.
    screens : tuple of Screen
    public : callable, optional
        Return what may be published.
    owner : callable, optional
        Return exact numbers; may raise to stop.
    failed : callable, optional
        Return what the owner's report has instead if ``owner`` fails inside a library, given the reason. Without it the
        whole report fails.
    fault : str
        A description of what failed.
    stand_in : callable, optional
        Return what is computed on public rows, if that is not simply the owner's part in other words.
    options : tuple of ReportOption
    renewals : tuple of Renewal
    spoken : pattern, optional
        Ids of the numbers that a rehearsal reports first.
    reasons : tuple of str
        Ids of sentences that say why there are no numbers.
    compared : tuple of str
        Ids of the numbers by which runs are compared first.
    upper_bounds : tuple of str
        Ids of upper bounds, which are rounded up to the digits that are printed.
    summary : callable, optional
        Return a mapping that report.json has beside the numbers, under the report's id.
    from_answers : bool
        Whether its public part reads only answers, receipts and declared facts, and no synthetic row; then the check of
        a bundle computes it again.
    """

    id: str
    title: str
    sections: Mapping[str, Section]
    screens: tuple[Screen, ...] = ()
    public: _PublicPart | None = None
    owner: _OwnerPart | None = None
    failed: Callable[[str], OwnerOnlyEvidence] | None = None
    fault: str = ""
    stand_in: Callable[[OwnerRows, int, Progress], StandInPart] | None = None
    options: tuple[ReportOption, ...] = ()
    renewals: tuple[Renewal, ...] = ()
    spoken: re.Pattern[str] | None = None
    reasons: tuple[str, ...] = ()
    compared: tuple[str, ...] = ()
    upper_bounds: tuple[str, ...] = ()
    summary: Callable[[Sequence[Evidence]], dict[str, Any]] | None = None
    from_answers: bool = False
