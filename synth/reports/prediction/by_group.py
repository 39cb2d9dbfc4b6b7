"""What each group loses in predictions: risks beside their anchors, the excessive risk gap, and who pays.

In this run, or on average over many like it: of tables, or of a model that was released.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from synth.generators.protocol import ReleasedModel
from synth.progress import Progress
from synth.reports.code_tables import FEWEST_ROWS, CodeTable
from synth.reports.evidence import OWNER_ONLY_SENTENCE, OwnerOnlyEvidence
from synth.reports.figures import Bars, Cell, Figure, Series, Table
from synth.reports.prediction.disparity import (
    Excess,
    GroupRisks,
    excessive_risk,
    losing_groups,
    mean_losses,
    monte_carlo_error,
    spread_of_releases,
)
from synth.reports.prediction.downstream import Bench, Outcome, bench_of, in_parallel, predictors_of, trained
from synth.reports.prediction.problem import (
    MEANINGS,
    SOURCES,
    DownstreamOptions,
    Predictions,
    Problem,
    TrainedOn,
    Untestable,
    nobody_pays,
)

__all__ = ["predictions_by_group", "who_pays", "who_pays_of_model"]

_MOST_GROUPS = 40
_DRAWN: tuple[TrainedOn, ...] = ("synthetic", "real", "control")
_MOST_NAMED = 10
_RISKS = {"classes": "share of wrong predictions", "number": "squared error, declared range as 1"}


def predictions_by_group(found: Predictions) -> tuple[OwnerOnlyEvidence, ...]:
    """Say for every declared group what learning from synthetic rows costs it.

    Parameters
    ----------
    found : Predictions

    Returns
    -------
    tuple of OwnerOnlyEvidence
        ``downstream.groups.<column>``: the largest excessive risk gap among groups of 30 test rows and more, with the
        risks of all groups as a picture and as tables; None where no two groups can be told apart.
    """
    score = "accuracy" if found.kind == "classes" else f"mean absolute error, {found.unit}"
    entries = []
    for name, risks in found.groups.items():
        made = excessive_risk(risks, "synthetic")
        entries.append(
            _largest(
                f"downstream.groups.{name}",
                f"Largest excessive risk gap by {name}",
                risks,
                made,
                risk=_RISKS[found.kind],
                sentence=_sentence(name, risks, made),
                figures=_figures(name, risks, made, found.group_scores[name], _RISKS[found.kind], score),
            )
        )
    return tuple(entries)


def _largest(
    name: str,
    title: str,
    found: GroupRisks,
    made: Excess,
    *,
    risk: str,
    sentence: str,
    figures: tuple[Figure, ...],
) -> OwnerOnlyEvidence:
    """Return the largest gap among the groups that are judged, as evidence."""
    largest = _largest_gap(found, made)
    return OwnerOnlyEvidence(
        id=name,
        title=title,
        value=None if largest is None else float(made.gap[largest]),
        error=None if largest is None else float(made.apart_error[largest]),
        unit=risk,
        sentence=f"{sentence} {OWNER_ONLY_SENTENCE}",
        figures=figures,
    )


def _sentence(name: str, found: GroupRisks, made: Excess) -> str:
    largest = _largest_gap(found, made)
    what = (
        "Excessive risk: how much more predictors err on real rows after learning from synthetic rows than after "
        f"learning from real rows; {made.overall:+.3g} ± {made.overall_error:.2g} over all rows. The gap of a group is "
        "how far its own excessive risk lies from that. "
    )
    if largest is None:
        return f"{what}Fewer than two groups of '{name}' have {FEWEST_ROWS} test rows or more, so nothing is compared."
    who, unjudged = _losers(found, made, chance="chance in the test rows explains"), _unjudged(found)
    return (
        f"{what}{who}The largest gap is that of {found.labels[largest]}. The 95 % ranges hold for all "
        f"{len(found.judged)} judged groups at once, over another draw of test rows and other trainings; another "
        f"release could differ by more.{unjudged}"
    )


def _largest_gap(found: GroupRisks, made: Excess) -> int | None:
    """Return the place of the judged group whose gap is largest, or None where none is judged."""
    return int(found.judged[np.argmax(made.gap[found.judged])]) if len(found.judged) else None


def _losers(found: GroupRisks, made: Excess, *, chance: str) -> str:
    losing = losing_groups(found, made)
    others = f" and {len(losing) - _MOST_NAMED} more" if len(losing) > _MOST_NAMED else ""
    return (
        f"These groups lose more than the rows as a whole, by more than {chance}: "
        f"{', '.join(losing[:_MOST_NAMED])}{others}. "
        if losing
        else f"No group loses more than the rows as a whole by more than {chance}. "
    )


def _unjudged(found: GroupRisks) -> str:
    small = int(((found.rows > 0) & (found.rows < FEWEST_ROWS)).sum())
    return f" {small} groups of fewer than {FEWEST_ROWS} test rows are listed but not judged." if small else ""


def _shown(found: GroupRisks) -> tuple[list[int], str]:
    """Return the places of the groups that are listed, and what is said where they are not all."""
    largest = np.argsort(-found.rows, kind="stable")[:_MOST_GROUPS]
    shown = [int(place) for place in np.sort(largest) if found.rows[place] > 0]
    return shown, "" if len(shown) == int((found.rows > 0).sum()) else f", the {len(shown)} largest groups"


def _figures(
    name: str,
    found: GroupRisks,
    made: Excess,
    scores: Mapping[TrainedOn, NDArray[np.float64]],
    risk: str,
    score: str,
) -> tuple[Figure, ...]:
    shown, some = _shown(found)
    control = excessive_risk(found, "control")
    seen = _seen(name, found, made, some)
    columns = [
        *(_risks(found, one, f"risk, {SOURCES[one]}") for one in _DRAWN),
        ("excess", made.overall, made.risk),
        ("± excess", made.overall_error, made.error),
        ("gap", None, made.gap),
        ("± gap", None, made.apart_error),
        ("excess, control", control.overall, control.risk),
        ("gap, control", None, control.gap),
    ]
    reached: list[tuple[Cell, ...]] = [
        (found.labels[place], int(found.rows[place]), *(float(of[place]) for of in scores.values())) for place in shown
    ]
    return (
        _risk_bars(seen, risk, found, shown, {"synthetic": made, "real": None, "control": control}),
        _table(seen, name, found, shown, columns),
        Table(
            f"{score[0].upper()}{score[1:]} of {len(shown):,} groups of {name}",
            (name, "test rows", *(SOURCES[one] for one in scores)),
            tuple(reached),
        ),
    )


_Column = tuple[str, float | None, NDArray[np.float64]]
"""Its heading, what it says of all rows, and of every group."""


def _risks(found: GroupRisks, trained_on: TrainedOn, heading: str) -> _Column:
    risk = found.risk(trained_on)
    return heading, float(risk[0]), risk[1:]


def _table(
    seen: tuple[str, str], name: str, found: GroupRisks, shown: Sequence[int], columns: Sequence[_Column]
) -> Table:
    """Return a table of all rows, and of the groups that are listed."""
    rows: list[tuple[Cell, ...]] = [("all rows", int(found.rows.sum()), *(of_all for _, of_all, _ in columns))]
    rows += [
        (found.labels[place], int(found.rows[place]), *(float(of[place]) for _, _, of in columns)) for place in shown
    ]
    title, judged = seen
    return Table(title, (name, "test rows", *(heading for heading, _, _ in columns)), tuple(rows), judged)


def _seen(name: str, found: GroupRisks, made: Excess, some: str) -> tuple[str, str]:
    """Say which group pays most for privacy, and whether any pays more than chance explains."""
    largest = _largest_gap(found, made)
    if largest is None:
        return f"No two groups of {name} are large enough to compare{some}", ""
    losing = len(losing_groups(found, made))
    judged = f"Not good for {losing:,} of them: they lose more than all rows, by more than chance explains."
    return (
        f"Risk beside real rows changes most for {found.labels[largest]} of {name}: {made.risk[largest]:+.2g}{some}",
        judged if losing else "Good: chance alone may be the reason.",
    )


def _risk_bars(
    seen: tuple[str, str],
    risk: str,
    found: GroupRisks,
    shown: Sequence[int],
    sources: Mapping[TrainedOn, Excess | None],
    names: Mapping[TrainedOn, str] = SOURCES,
) -> Bars:
    """Draw risks; the whisker is that of the excess, as the distance between two bars is what the report is about."""
    title, judged = seen
    return Bars(
        title,
        risk,
        tuple(found.labels[place] for place in shown),
        tuple(
            Series(
                names[one],
                MEANINGS[one],
                tuple(float(found.risk(one)[1 + place]) for place in shown),
                None if excess is None else tuple(float(excess.error[place]) for place in shown),
            )
            for one, excess in sources.items()
        ),
        subtitle=judged,
    )


# Over many releases -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Words:
    """What is compared, in words: what a run makes, with the same without its noise."""

    told: str
    without: str
    sources: Mapping[TrainedOn, str]
    limits: str


_ALIKE = (
    "That all groups pay alike is shown only for noise of one size on every coefficient of a linear model of features "
    "of one length; here gaps are real."
)
_OF_ROWS = _Words(
    "The configuration was run {runs} times more, each time with fresh noise. Excessive risk: how much more the "
    "report's predictors err on {tested_on} after learning from what such a run makes than after learning from the "
    "private rows",
    "private rows",
    SOURCES,
    f"This is what the whole run costs: the noise, and whatever its model cannot express without any. {_ALIKE}",
)
_OF_MODEL = _Words(
    "The model was fitted {runs} times more, each time with fresh noise. Excessive risk: how much more it errs on "
    "{tested_on} than the same learner, fitted once to the same rows with next to no noise",
    "next to no noise",
    {"synthetic": "private model", "real": "next to no noise"},
    "This is what the noise costs: the features, the steps and what is clipped are the same on both sides, and what "
    f"they cost is in neither. {_ALIKE}",
)
_OF_TWO_LINES = replace(
    _OF_MODEL,
    limits="Its error is that of the nearer of its two lines, which nobody knows of a new row. " + _OF_MODEL.limits,
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
        Told after every run; may raise to stop.
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
        As in :func:`who_pays`; of the problem's rows only those to test on are looked at.
    released : ReleasedModel
        Its own risk stands beside the mean of the fits.
    refit : callable
        Fits it again with fresh noise, or, like the one that it is given, with next to no noise.
    """
    if not released.tells_of_a_label:
        name = released.card.name
        return (nobody_pays(f"Model '{name}' describes rows and foretells no column, so no group can be told wrong."),)
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
    told = words.told.format(runs=runs, tested_on=tested_on)
    return tuple(
        _over_runs(
            name,
            GroupRisks(
                groups.labels,
                np.bincount(groups.of_row, minlength=len(groups.labels)),
                {source: np.array([one[source][name] for one in found]) for source in ("synthetic", "real")},
            ),
            _RISKS[bench.target.kind],
            replace(words, told=told),
            None if released is None else released[name],
        )
        for name, groups in bench.groups.items()
    )


def _over_runs(
    name: str, found: GroupRisks, risk: str, words: _Words, released: NDArray[np.float64] | None
) -> OwnerOnlyEvidence:
    made = excessive_risk(found, "synthetic")
    largest = _largest_gap(found, made)
    runs = len(found.risks["synthetic"])
    sentence = f"{words.told}; {made.overall:+.3g} ± {made.overall_error:.2g} over all rows. "
    if largest is None:
        sentence += f"Fewer than two groups of '{name}' have {FEWEST_ROWS} test rows or more, so nothing is compared."
    else:
        sentence += (
            f"{_losers(found, made, chance='chance in the test rows and in the noise explains')}The largest gap is "
            f"that of {found.labels[largest]}, whose excessive risk has a standard deviation of "
            f"{spread_of_releases(found)[1 + largest]:.2g} from one run to another. The 95 % ranges hold for all "
            f"{len(found.judged)} judged groups at once, over another draw of test rows and over the noise of so few "
            f"runs.{_unjudged(found)}"
        )
    return _largest(
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
    shown, some = _shown(found)
    runs = len(found.risks["synthetic"])
    spread, simulated = spread_of_releases(found), monte_carlo_error(found)
    columns = [
        _risks(found, "real", f"risk, {words.without}"),
        _risks(found, "synthetic", f"risk, mean of {runs} runs"),
        *([] if released is None else [("risk, this release", float(released[0]), released[1:])]),
        ("excess", made.overall, made.risk),
        ("± excess", made.overall_error, made.error),
        ("± of the mean of runs alone", float(simulated[0]), simulated[1:]),
        ("standard deviation between runs", float(spread[0]), spread[1:]),
        ("gap", None, made.gap),
        ("± gap", None, made.apart_error),
    ]
    seen = _seen(name, found, made, f"{some}; mean of {runs} runs")
    return (
        _risk_bars(seen, risk, found, shown, {"synthetic": made, "real": None}, words.sources),
        _table(seen, name, found, shown, columns),
    )
