"""Runs about the same people side by side: publishable numbers only, and what all of them cost together."""

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
        What tells the runs apart, one for each.
    numbers : tuple of ComparedNumber
    sentence : str
        What all of the runs cost the people in the table, and what the account has spent in all.
    """

    runs: tuple[RunView, ...]
    names: tuple[str, ...]
    numbers: tuple[ComparedNumber, ...]
    sentence: str

    @property
    def lines(self) -> list[str]:
        """The same as lines of text."""
        keys = "ABCD"[: len(self.runs)]
        lines = [f"{key}: {name}" for key, name in zip(keys, self.names, strict=True)]
        lines += ["", f"{'':44}" + "".join(f"{key:>12}" for key in keys)]
        for number in self.numbers:
            cells = ["-" if value is None else number_text(value) for value in number.values]
            mark = "  differ by more than noise" if number.apart else ""
            lines.append(f"{number.id:44}" + "".join(f"{cell:>12}" for cell in cells) + mark)
        return [*lines, "", self.sentence]


def compared_runs(runs: Sequence[RunView], reports: Sequence[Sequence[Evidence]], *, ledger: Ledger) -> Comparison:
    """Put runs side by side; nothing is read but their publishable reports, and nothing is charged.

    Parameters
    ----------
    runs : sequence of RunView
        Two to four finished runs of one account.
    reports : sequence of sequence of Evidence
        Publishable numbers of each.
    ledger : Ledger

    Raises
    ------
    InputError
        If there are too few or too many, one is named twice, or they concern different people.
    JobError
        If one has no report.
    """
    if not FEWEST_COMPARED <= len(runs) <= MOST_COMPARED:
        raise InputError(f"{FEWEST_COMPARED} to {MOST_COMPARED} runs can be compared, got {len(runs)}.")
    if len({run.run_id for run in runs}) < len(runs):
        raise InputError("A run is named twice. Name different runs.")
    accounts = sorted({run.account for run in runs})
    if len(accounts) > 1:
        raise InputError(
            f"These runs concern different people ('{accounts[0]}', '{accounts[1]}'). Compare runs of one."
        )
    if any(run.rows == 0 for run in runs):
        raise InputError("One of these runs made a model and no table. Compare runs that made tables.")
    if any(run.state not in {"reported", "released"} for run in runs):
        raise JobError("A run without a report cannot be compared. Wait for it, or leave it out.")
    return Comparison(tuple(runs), names_of(runs), numbers_side_by_side(reports), _cost_sentence(runs, ledger))


def names_of(runs: Sequence[RunView]) -> tuple[str, ...]:
    """Name runs by generator and epsilon, and by the beginning of their id."""
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
        # What rows pay is stated where all deltas have been added; what cells pay is pure.
        delta = worth[1]
    return (
        f"You are choosing between {len(runs)} runs. The people in this table have paid for {paid}: "
        f"epsilon {together:.4g}{row_worth_words(worth)} at delta {delta:g} together, whichever you release. "
        f"Everything about them so far: epsilon {spent.epsilon:.4g}{cell_words(worth)} "
        f"at delta {spent.delta:g}."
    )
