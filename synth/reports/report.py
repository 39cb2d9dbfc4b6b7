"""What a report is: one folder that declares itself in one value, and one line in :mod:`synth.reports.registry`.

A report works out numbers that may be published from answers that are paid for (:class:`PaidAnswers`), exact numbers
for the owner from the rows themselves (:class:`OwnerRows`), or both. It says under which headings they stand, what an
owner may ask of it, and what screens show of it, as data (:mod:`synth.reports.panels`): nothing here knows a browser,
and nobody outside a report's folder knows its name.
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
from synth.schema import RunConfig
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
    """A tab of the report's screen; tabs stand in the order of their places."""

    place: int
    title: str


COLUMNS = Tab(20, "● Columns and pairs")
ACCURACY = Tab(30, "● Accuracy you can expect")
GROUPS = Tab(50, "○ Groups")
OWNER_ONLY = Tab(70, "○ Owner only")


@dataclass(frozen=True, slots=True)
class Section:
    """How numbers whose ids begin with the same word are headed, and what the range of such a number covers."""

    heading: str
    covers: str = "privacy noise"


@dataclass(frozen=True, slots=True, eq=False)
class PaidAnswers:
    """What a public part may read: nothing that is not paid for, made or declared.

    Attributes
    ----------
    config : RunConfig
        Declared facts.
    codes : CodeTable
        The synthetic rows, columns in ``schema.names`` order.
    rows_made : int
        How many they are.
    releases : sequence of NoisyAnswer
        The paid answers of the run.
    receipts : sequence of Receipt
        All of the run.
    facts : sequence of Fact
        What the fitted generator says of itself.
    pictures : sequence of Picture
        And shows of itself.
    rows : RowCount, optional
        What is known of the number of private rows; without it nothing measured can be compared.
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
    """Real rows that no generator saw, and what they are in words."""

    rows: UnitRows
    words: str


@dataclass(frozen=True, slots=True, eq=False)
class Remade:
    """What another run of the same configuration made: its rows as codes, column by column, and its receipts."""

    rows: CodeTable
    receipts: tuple[Receipt, ...]


Remake = Callable[[UnitRows], Remade]
"""Runs the same configuration, with fresh noise, on other private rows."""


class Refit(Protocol):
    """Fits the released model of the same configuration again, to private rows; nothing of such a fit leaves."""

    def __call__(self, rows: UnitRows, /, *, like: ReleasedModel | None = None) -> ReleasedModel:
        """Return a fit with fresh noise; or, like a fit that there is, one with as little noise as is accounted for."""
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
        What was held out, where anything was.
    test : TestRows, optional
        Rows to test predictions on: the test table, or what was held out.
    test_problem : str, optional
        Why the test table that was given could not be used.
    synthetic : CodeTable
        The synthetic rows, column by column; none where a model was released.
    receipts : tuple of Receipt
        Of the run.
    control_noise : float
        Standard deviation of the noise on the control's counts, in rows.
    reading : ReadingCounts, optional
        How the file was read.
    threads : int
        Trainings at once.
    remake : Remake, optional
        Runs the configuration again.
    released : ReleasedModel, optional
        The model that was released, in place of rows.
    refit : Refit, optional
        Fits it again.
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
    released: ReleasedModel | None = None
    refit: Refit | None = None

    @cached_property
    def tables(self) -> Anchored:
        """Private and synthetic rows beside the control and the floor, drawn once for all reports."""
        return anchored(
            self.train.codes,
            self.synthetic,
            self.config.schema,
            control_noise=self.control_noise,
            seed=self.config.seed,
        )


@dataclass(frozen=True, slots=True)
class StandInPart:
    """What a report came to on public rows, and the names of the attacks that did better than the proof allows."""

    evidence: tuple[SafeEvidence, ...]
    exceeded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReportOption:
    """Something an owner may ask of a report: one declaration for the command line and for the code.

    Attributes
    ----------
    name : str
        As Python writes it; the command line has hyphens instead.
    help : str
    default : text, bool or None
        A bool is a switch.
    choices : tuple of str
        The texts that are allowed, where they are few.
    number : int, optional
        The option is a whole number that may be left out after its name; this is what it then is.
    """

    name: str
    help: str
    default: str | bool | None = None
    choices: tuple[str, ...] = ()
    number: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    """A part of a report that takes long and is made at the owner's wish, in a process of its own; nothing is charged.

    Attributes
    ----------
    name : str
        By which it is asked for.
    prefix : str
        Ids that begin so are put in place of the old ones.
    usual : str
        How much of it is asked for on a screen.
    make : callable
        Makes the numbers from rows and from how much is asked for.
    done : str
        What is done with the rows, in the past tense.
    about : callable
        What it does and costs, told about how many minutes it takes where that is known.
    start_label, stop_label : str
        Words of the screen.
    minutes : callable, optional
        How long it takes, from the seconds of the run's phases.
    check : callable, optional
        Refuses an amount that cannot be.
    option : str, optional
        The option of the report by which the command line asks for it.
    of_models : bool
        Whether it is made of runs that released a model, too.
    failed, fault
        As those of a :class:`Report`.
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
    """What a screen has of one run: its configuration, numbers that may be published, and exact ones where read."""

    config: RunConfig
    public: tuple[Evidence, ...]
    exact: tuple[Evidence, ...] = ()

    def public_of(self, *sections: str) -> list[Evidence]:
        """Return the numbers of some sections that may be published."""
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
        Returns the pieces in order.
    exact : bool
        Whether it shows exact numbers: reading them is entered in the ledger.
    wanted : callable
        Whether there is anything to show for a configuration.
    of_models : callable
        Whether it says something of a configuration of a model, which makes no rows.
    place : int
        Screens of one tab are shown in this order, and in that of the registry where it is the same.
    without : str
        What is said where there are no exact numbers.
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
    """Whether columns are named whose groups are compared."""
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
        What it is about, in a few words.
    sections : mapping
        The first words of the ids of its numbers, with their headings.
    screens : tuple of Screen
    public : callable, optional
        Works out what may be published.
    owner : callable, optional
        Works out exact numbers; may raise to stop.
    failed : callable, optional
        What stands in the owner's report where ``owner`` fails inside a library, told why. Without it the whole report
        fails.
    fault : str
        What then failed, in words.
    stand_in : callable, optional
        What is worked out on public rows, where that is another thing than the owner's part in other words.
    options : tuple of ReportOption
    renewals : tuple of Renewal
    spoken : pattern, optional
        Ids of the numbers that a rehearsal says first.
    reasons : tuple of str
        Ids of sentences that say why there are no numbers.
    compared : tuple of str
        Ids of the numbers by which runs are compared first.
    upper_bounds : tuple of str
        Ids of bounds that are rounded up as far as they are printed.
    summary : callable, optional
        A mapping that stands in report.json beside the numbers, under the report's id.
    from_answers : bool
        Whether its public part reads answers, receipts and declared facts alone, and no row that was made: whoever
        checks a bundle works it out again.
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
