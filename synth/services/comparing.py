"""Runs about the same people side by side: their publishable numbers, and what they cost together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from synth.errors import InputError, JobError
from synth.ledger.ledger import Ledger
from synth.ledger.spending import Cost
from synth.reports.comparison import ComparedNumber, numbers_side_by_side
from synth.reports.evidence import Evidence
from synth.reports.wording import number_text
from synth.services.views import RunView, added_worth, cell_words, row_worth_words

__all__ = ["FEWEST_COMPARED", "MOST_COMPARED", "Comparison", "compared_runs", "names_of"]

FEWEST_COMPARED, MOST_COMPARED = 2, 4


@dataclass(frozen=True, slots=True)
class Comparison:
    """Several runs of one account.

    Attributes
    ----------
    runs : tuple of RunView
    names : tuple of str
        A distinct name for each run.
    numbers : tuple of ComparedNumber
    sentence : str
        What the runs together cost the people in the table, and what the account has spent in total.
    """

    runs: tuple[RunView, ...]
    names: tuple[str, ...]
    numbers: tuple[ComparedNumber, ...]
    sentence: str

    @property
    def lines(self) -> list[str]:
        """The comparison as lines of text."""
        keys = "ABCD"[: len(self.runs)]
        lines = [f"{key}: {name}" for key, name in zip(keys, self.names, strict=True)]
        lines += ["", f"{'':44}" + "".join(f"{key:>12}" for key in keys)]
        for number in self.numbers:
            cells = ["-" if value is None else number_text(value) for value in number.values]
            mark = "  differ by more than noise" if number.apart else ""
            lines.append(f"{number.id:44}" + "".join(f"{cell:>12}" for cell in cells) + mark)
        return [*lines, "", self.sentence]


def compared_runs(runs: Sequence[RunView], reports: Sequence[Sequence[Evidence]], *, ledger: Ledger) -> Comparison:
    """Put runs side by side. Only their publishable reports are read, and nothing is charged.

    Parameters
    ----------
    runs : sequence of RunView
        Two to four finished runs of one account.
    reports : sequence of sequence of Evidence
        The publishable numbers of each run.
    ledger : Ledger

    Raises
    ------
    InputError
        If there are too few or too many runs, a run is named twice, or the runs are about different people.
    JobError
        If a run has no report.
    """
    if not FEWEST_COMPARED <= len(runs) <= MOST_COMPARED:
        raise InputError(f"Name {FEWEST_COMPARED} to {MOST_COMPARED} runs to compare, not {len(runs)}.")
    if len({run.run_id for run in runs}) < len(runs):
        raise InputError("A run is named twice. Name different runs.")
    accounts = sorted({run.account for run in runs})
    if len(accounts) > 1:
        raise InputError(
            f"These runs are about different people ('{accounts[0]}', '{accounts[1]}'). Compare runs of one account."
        )
    if any(run.rows == 0 for run in runs):
        raise InputError("One of these runs made a model, not a table. Compare runs that made tables.")
    if any(run.state not in {"reported", "released"} for run in runs):
        raise JobError("A run without a report cannot be compared. Wait for the report, or leave the run out.")
    return Comparison(tuple(runs), names_of(runs), numbers_side_by_side(reports), _cost_sentence(runs, ledger))


def names_of(runs: Sequence[RunView]) -> tuple[str, ...]:
    """Name runs by generator, epsilon, and the beginning of their id."""
    return tuple(
        f"{run.generator}, epsilon {run.stated:.6g}{row_worth_words(run.row_worth)} ({run.run_id[:8]})" for run in runs
    )


def _cost_sentence(runs: Sequence[RunView], ledger: Ledger) -> str:
    charges = [charge for run in runs for charge in ledger.charges_of(run.run_id)]
    delta = max(run.delta for run in runs)
    together = Cost.of_charges(charges).epsilon(delta)
    spent = ledger.spent(charges[0].account_id)
    paid = "both" if len(runs) == 2 else f"all {len(runs)}"
    worth = added_worth(run.row_worth for run in runs)
    if worth is not None:
        # The cost for rows is stated at the sum of all deltas; the cost for cells is pure.
        delta = worth[1]
    return (
        f"You are choosing between {len(runs)} runs. The people in this table have paid for {paid}: together "
        f"epsilon {together:.4g}{row_worth_words(worth)} at delta {delta:g}, whichever run you release. "
        f"In total, epsilon {spent.epsilon:.4g}{cell_words(worth)} at delta {spent.delta:g} has been spent on them."
    )
