"""Who pays for privacy: what each group loses on average over many runs, of tables or of a model that was released."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from synth.generators.protocol import ReleasedModel
from synth.progress import Progress
from synth.reports.code_tables import FEWEST_ROWS, CodeTable
from synth.reports.evidence import OwnerOnlyEvidence
from synth.reports.figures import Figure
from synth.reports.prediction.by_group import (
    RISKS,
    gap_evidence,
    group_table,
    largest_gap,
    losing_words,
    risk_bars,
    risk_column,
    seen_of,
    shown_groups,
    unjudged_words,
)
from synth.reports.prediction.disparity import (
    Excess,
    GroupRisks,
    excessive_risk,
    mean_losses,
    monte_carlo_error,
    spread_of_releases,
)
from synth.reports.prediction.downstream import Bench, Outcome, bench_of, predictors_of, trained
from synth.reports.prediction.problem import SOURCES, DownstreamOptions, Problem, TrainedOn, Untestable, nobody_pays
from synth.reports.prediction.tasks import in_parallel

__all__ = ["who_pays", "who_pays_of_model"]


@dataclass(frozen=True, slots=True)
class _Words:
    """What is compared, in words: the result of a run, and the same without its noise."""

    introduction: str
    without: str
    sources: Mapping[TrainedOn, str]
    limits: str


_ALIKE = (
    "That all groups pay the same is proven only for equal noise on every coefficient of a linear model with features "
    "of equal length; here the gaps are real."
)
_OF_ROWS = _Words(
    "The configuration was run {runs} more times, each time with fresh noise. Excessive risk: how much more the "
    "report's predictors err on {tested_on} after learning from what such a run makes than after learning from the "
    "private rows",
    "private rows",
    SOURCES,
    f"This is what the whole run costs: the noise, and whatever its model cannot express even without noise. {_ALIKE}",
)
_OF_MODEL = _Words(
    "The model was fitted {runs} more times, each time with fresh noise. Excessive risk: how much more it errs on "
    "{tested_on} than the same learner, fitted once to the same rows with next to no noise",
    "next to no noise",
    {"synthetic": "private model", "real": "next to no noise"},
    "This is what the noise costs: features, steps and clipping are the same on both sides, so their cost is not "
    f"included. {_ALIKE}",
)
_OF_TWO_LINES = replace(
    _OF_MODEL,
    limits="Its error is measured to the nearer of its two lines, which is not known for a new row. "
    + _OF_MODEL.limits,
)


def who_pays(
    problem: Problem,
    remade: Callable[[], CodeTable],
    options: DownstreamOptions,
    progress: Progress,
    *,
    runs: int,
    tested_on: str,
) -> tuple[OwnerOnlyEvidence, ...]:
    """Say what privacy costs every group, on average over runs with fresh noise; for the owner's eyes only.

    Parameters
    ----------
    problem : Problem
        With "real" rows to train on, private rows to test on, and groups.
    remade : callable
        Runs the configuration again on the real rows, and returns the rows that it makes.
    options : DownstreamOptions
        Each predictor is trained once for every run, on its rows and on the real ones.
    progress : Progress
        Updated after every run; may raise to stop.
    runs : int
        At least 2.
    tested_on : str
        What the test rows are, in words.

    Returns
    -------
    tuple of OwnerOnlyEvidence
        ``excess.<column>`` for every column of groups, or ``excess.none`` with the reason.
    """
    bench = bench_of(problem, options)
    if isinstance(bench, Untestable):
        return (nobody_pays(bench.reason),)
    predictors, _ = predictors_of(bench.target, options.predictors)
    real = problem.tables["real"]
    usable = bench.target.usable(real)

    def risks_of(run: int) -> _Risks:
        made = remade()
        tables = {"synthetic": (made, bench.target.usable(made)), "real": (real, usable)}
        works = [
            partial(trained, bench, predictor, *table, run)
            for table in tables.values()
            for predictor in predictors.values()
        ]
        found = in_parallel(works, threads=options.threads, on_step=lambda k, of: progress.check_cancelled())
        halves: dict[TrainedOn, list[Outcome]] = {
            "synthetic": found[: len(predictors)],
            "real": found[len(predictors) :],
        }
        return {
            source: {name: np.mean([one.risks[name] for one in outcomes], axis=0) for name in bench.groups}
            for source, outcomes in halves.items()
        }

    return _mean_of_runs(bench, risks_of, progress, runs=runs, words=_OF_ROWS, tested_on=tested_on)


def who_pays_of_model(
    problem: Problem,
    released: ReleasedModel,
    refit: Callable[[ReleasedModel | None], ReleasedModel],
    progress: Progress,
    *,
    runs: int,
    tested_on: str,
) -> tuple[OwnerOnlyEvidence, ...]:
    """Say what the noise of a released model costs every group, on average over fits; for the owner's eyes only.

    Parameters
    ----------
    problem, progress, runs, tested_on
        As in :func:`who_pays`; only the test rows of the problem are used.
    released : ReleasedModel
        Its own risk is shown beside the mean of the fits.
    refit : callable
        Fits it again with fresh noise, or, like the one that it is given, with next to no noise.
    """
    if not released.tells_of_a_label:
        name = released.card.name
        return (
            nobody_pays(
                f"Model '{name}' describes rows and predicts no column, so there is nothing to compare by group."
            ),
        )
    bench = bench_of(problem, DownstreamOptions())
    if isinstance(bench, Untestable):
        return (nobody_pays(bench.reason),)
    without, own = (_risks_of_model(bench, one) for one in (refit(released), released))
    return _mean_of_runs(
        bench,
        lambda run: {"synthetic": _risks_of_model(bench, refit(None)), "real": without},
        progress,
        runs=runs,
        words=_OF_MODEL if released.card.predicts else _OF_TWO_LINES,
        tested_on=tested_on,
        released={name: risks[0] for name, risks in own.items()},
    )


_Risks = Mapping[TrainedOn, Mapping[str, NDArray[np.float64]]]
"""By what was learned from and by column, as :func:`mean_losses` gives them."""


def _risks_of_model(bench: Bench, model: ReleasedModel) -> dict[str, NDArray[np.float64]]:
    """Return the risks of a model: shares of wrong guesses, or squared errors with the declared range as 1."""
    codes = np.stack([column[bench.rows].astype(np.int64) for column in bench.problem.test], axis=1)
    if bench.target.kind == "classes":
        losses = (model.predict(codes)[:, : bench.target.n_classes].argmax(axis=1) != bench.truth).astype(np.float64)
    else:
        low, high = bench.target.bounds
        losses = (np.abs(model.either(codes) - bench.truth[:, None]).min(axis=1) / (high - low)) ** 2
    return {
        name: mean_losses(losses, groups.of_row, len(groups.labels), bench.weights)
        for name, groups in bench.groups.items()
    }


def _mean_of_runs(
    bench: Bench,
    risks_of: Callable[[int], _Risks],
    progress: Progress,
    *,
    runs: int,
    words: _Words,
    tested_on: str,
    released: Mapping[str, NDArray[np.float64]] | None = None,
) -> tuple[OwnerOnlyEvidence, ...]:
    """Average risks over runs, and say of every column of groups who pays."""
    found = []
    for run in range(runs):
        progress.step(run, runs)
        found.append(risks_of(run))
    progress.step(runs, runs)
    introduction = words.introduction.format(runs=runs, tested_on=tested_on)
    return tuple(
        _over_runs(
            name,
            GroupRisks(
                groups.labels,
                np.bincount(groups.of_row, minlength=len(groups.labels)),
                {source: np.array([one[source][name] for one in found]) for source in ("synthetic", "real")},
            ),
            RISKS[bench.target.kind],
            replace(words, introduction=introduction),
            None if released is None else released[name],
        )
        for name, groups in bench.groups.items()
    )


def _over_runs(
    name: str, found: GroupRisks, risk: str, words: _Words, released: NDArray[np.float64] | None
) -> OwnerOnlyEvidence:
    made = excessive_risk(found, "synthetic")
    largest = largest_gap(found, made)
    runs = len(found.risks["synthetic"])
    sentence = f"{words.introduction}; {made.overall:+.3g} ± {made.overall_error:.2g} over all rows. "
    if largest is None:
        sentence += f"Fewer than two groups of '{name}' have {FEWEST_ROWS} test rows or more, so nothing is compared."
    else:
        who = losing_words(found, made, chance="chance in the test rows and in the noise explains")
        sentence += (
            f"{who}The largest gap is "
            f"that of {found.labels[largest]}, whose excessive risk has a standard deviation of "
            f"{spread_of_releases(found)[1 + largest]:.2g} from one run to another. The 95 % ranges hold for all "
            f"{len(found.judged)} judged groups together and cover another draw of test rows and the noise of so few "
            f"runs.{unjudged_words(found)}"
        )
    return gap_evidence(
        f"excess.{name}",
        f"Largest excessive risk gap by {name}, mean of {runs} runs",
        found,
        made,
        risk=risk,
        sentence=f"{sentence} {words.limits}",
        figures=_over_runs_figures(name, found, made, risk, words, released),
    )


def _over_runs_figures(
    name: str,
    found: GroupRisks,
    made: Excess,
    risk: str,
    words: _Words,
    released: NDArray[np.float64] | None,
) -> tuple[Figure, ...]:
    shown, some = shown_groups(found)
    runs = len(found.risks["synthetic"])
    spread, simulated = spread_of_releases(found), monte_carlo_error(found)
    columns = [
        risk_column(found, "real", f"risk, {words.without}"),
        risk_column(found, "synthetic", f"risk, mean of {runs} runs"),
        *([] if released is None else [("risk, this release", float(released[0]), released[1:])]),
        ("excess", made.overall, made.risk),
        ("± excess", made.overall_error, made.error),
        ("± of the mean of runs alone", float(simulated[0]), simulated[1:]),
        ("standard deviation between runs", float(spread[0]), spread[1:]),
        ("gap", None, made.gap),
        ("± gap", None, made.apart_error),
    ]
    seen = seen_of(name, found, made, f"{some}; mean of {runs} runs")
    return (
        risk_bars(seen, risk, found, shown, {"synthetic": made, "real": None}, words.sources),
        group_table(seen, name, found, shown, columns),
    )
