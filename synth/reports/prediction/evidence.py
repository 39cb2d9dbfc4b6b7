"""The downstream report as evidence: owner-only where rows are private, safe where the test rows are public.

Groups come with risks beside their anchors, the excessive risk gap, and who pays: in this run, or on average over many.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from synth.progress import Progress
from synth.reports.code_tables import FEWEST_ROWS, CodeTable
from synth.reports.controls import shuffled_rows
from synth.reports.evidence import OWNER_ONLY_SENTENCE, OwnerOnlyEvidence, SafeEvidence
from synth.reports.figures import Bars, Cell, Figure, Series, Table
from synth.reports.prediction.disparity import (
    Excess,
    GroupRisks,
    excessive_risk,
    losing_groups,
    monte_carlo_error,
    spread_of_releases,
)
from synth.reports.prediction.downstream import bench_of, compare_predictions, in_parallel, predictors_of, trained
from synth.reports.prediction.problem import (
    MEANINGS,
    SOURCES,
    DownstreamOptions,
    Measure,
    Predictions,
    Problem,
    TrainedOn,
    Untestable,
)
from synth.schema import Schema

__all__ = [
    "nobody_pays",
    "nothing_predicted",
    "owner_downstream",
    "predictions_by_group",
    "public_downstream",
    "who_pays",
]

Kind = TypeVar("Kind", bound=OwnerOnlyEvidence | SafeEvidence)

_TITLES = {
    "roc_auc": "ROC AUC",
    "pr_auc": "PR AUC",
    "macro_f1": "Macro F1",
    "weighted_f1": "Weighted F1",
    "accuracy": "Accuracy",
    "r2": "R2",
    "mae": "Mean absolute error",
}


def owner_downstream(
    problem: Problem, options: DownstreamOptions, progress: Progress, *, tested_on: str
) -> tuple[OwnerOnlyEvidence, ...]:
    """Compare predictors on private rows; for the owner's eyes only.

    Parameters
    ----------
    problem : Problem
        Rows to train on by origin, and private rows to test on.
    options : DownstreamOptions
    progress : Progress
        Told by training; may raise to stop.
    tested_on : str
        What the test rows are, in words: "the hold-out".

    Returns
    -------
    tuple of OwnerOnlyEvidence
        ``downstream.<trained on>.<measure>``, ``downstream.rows``, ``downstream.classifiers``, ``downstream.notes``
        where there are any and ``downstream.groups.<column>``; or ``downstream.none`` with the reason.
    """
    found = compare_predictions(problem, options, progress)
    if isinstance(found, Untestable):
        return (nothing_predicted(found.reason),)
    return _evidence(OwnerOnlyEvidence, found, tested_on)


def public_downstream(
    synthetic: CodeTable,
    public: CodeTable,
    schema: Schema,
    label: str,
    options: DownstreamOptions,
    progress: Progress,
    *,
    groups: Sequence[str] = (),
    seed: int = 0,
) -> tuple[SafeEvidence, ...]:
    """Compare predictors on rows that are public; what comes out may be published.

    Parameters
    ----------
    synthetic : CodeTable
        Rows of a release.
    public : CodeTable
        Rows that are public without this release. One half, drawn by the seed, is trained on as the "real" rows, the
        other is tested on. Nothing private may be given here: this function cannot know.
    schema, label, options, progress, groups, seed
        As in :class:`synth.reports.prediction.problem.Problem`.

    Returns
    -------
    tuple of SafeEvidence
        As :func:`owner_downstream`. The control is the synthetic rows with every column shuffled by itself.
    """
    order = np.random.default_rng([seed, 17]).permutation(len(public[0]))
    half = len(order) // 2
    tables: dict[TrainedOn, CodeTable] = {
        "synthetic": synthetic,
        "real": [codes[order[:half]] for codes in public],
        "control": shuffled_rows(synthetic, seed=seed),
    }
    test = [codes[order[half:]] for codes in public]
    problem = Problem(schema=schema, label=label, tables=tables, test=test, groups=groups, seed=seed)
    found = compare_predictions(problem, options, progress)
    if isinstance(found, Untestable):
        return (SafeEvidence(id="downstream.none", title="Nothing predicted", value=None, sentence=found.reason),)
    return _evidence(SafeEvidence, found, "one half of a public sample")


def nothing_predicted(reason: str) -> OwnerOnlyEvidence:
    """Say why a report holds no predictions."""
    return OwnerOnlyEvidence(
        id="downstream.none", title="Nothing predicted", value=None, sentence=f"{reason} {OWNER_ONLY_SENTENCE}"
    )


def _evidence(kind: type[Kind], found: Predictions, tested_on: str) -> tuple[Kind, ...]:
    suffix = f" {OWNER_ONLY_SENTENCE}" if kind is OwnerOnlyEvidence else ""
    entries = [
        _number(kind, found, source, name, measure, suffix)
        for source, measures in found.means.items()
        for name, measure in measures.items()
    ]
    entries.append(_rows(kind, found, tested_on, suffix))
    entries.append(_by_predictor(kind, found, suffix))
    if found.notes:
        entries.append(
            kind(
                id="downstream.notes",
                title="What to know about these numbers",
                value=None,
                sentence=" ".join(found.notes) + suffix,
            )
        )
    entries += predictions_by_group(kind, found, suffix=suffix)
    return tuple(entries)


def _number(kind: type[Kind], found: Predictions, source: TrainedOn, name: str, measure: Measure, suffix: str) -> Kind:
    origin = "predicting the mean" if source == "majority" and found.kind == "number" else SOURCES[source]
    count = len(found.by_predictor)
    kinds = "regressors" if found.kind == "number" else "classifiers"
    baseline = "the mean" if found.kind == "number" else "the most frequent class"
    sentence = {
        "synthetic": f"Mean over {count} {kinds} trained on synthetic rows only, tested on real rows.",
        "real": f"The same {count} {kinds} trained on real rows: the most that can be expected.",
        "control": f"The same {count} {kinds} trained on rows whose columns are unrelated.",
        "majority": f"Baseline without a model: always {baseline}.",
    }[source]
    if name in ("roc_auc", "pr_auc"):
        sentence += (
            " From predicted classes instead of scores, as in published tables." if found.options.hard_labels else ""
        )
        sentence += " For the class that is rarer in the test rows." if found.classes == 2 else ""
        sentence += " Mean over classes, one against the rest." if found.classes > 2 else ""
    return kind(
        id=f"downstream.{source}.{name}",
        title=f"{_TITLES[name]}, {origin}",
        value=measure.value,
        # An anchor that no resampling moves has no range.
        error=measure.error or None,
        unit=found.unit if name == "mae" else "",
        sentence=sentence + suffix,
    )


def _rows(kind: type[Kind], found: Predictions, tested_on: str, suffix: str) -> Kind:
    options = found.options
    trained = "; ".join(f"{SOURCES[name]}: {rows:,}" for name, rows in found.rows.items())
    sampled = " (a seeded sample of larger tables)"
    ranges = "The 95 % range of a number covers a bootstrap of the test rows, unit by unit, and training again."
    return kind(
        id="downstream.rows",
        title="Test rows",
        value=found.test_rows,
        unit="rows",
        sentence=f"Tested on {tested_on}. Rows trained on: {trained}{sampled}. Trainings of each predictor: "
        f"{options.repeats}. {ranges}{suffix}",
    )


def _by_predictor(kind: type[Kind], found: Predictions, suffix: str) -> Kind:
    main = "r2" if found.kind == "number" else "roc_auc"
    names = [name for name in _TITLES if name in next(iter(found.means.values()))]
    rows: list[tuple[Cell, ...]] = [
        (title, SOURCES[source], *(measures[name].value for name in names))
        for title, sources in found.by_predictor.items()
        for source, measures in sources.items()
    ]
    rows += [("mean", SOURCES[source], *(of[name].value for name in names)) for source, of in found.means.items()]
    table = Table("By predictor", ("predictor", "trained on", *(_TITLES[name] for name in names)), tuple(rows))
    bars = _bars(found, main)
    return kind(
        id="downstream.classifiers",
        title="By predictor",
        value=None,
        sentence=f"Every predictor has one fixed setting; none was tuned on test rows.{suffix}",
        figures=(table,) if bars is None else (bars, table),
    )


def _bars(found: Predictions, main: str) -> Bars | None:
    shown: list[Series] = []
    titles = tuple(found.by_predictor)
    for source, meaning in MEANINGS.items():
        if source not in found.means:
            continue
        if source == "majority":
            measures = [found.means["majority"][main]] * len(titles)
        else:
            measures = [found.by_predictor[title][source][main] for title in titles]
        if any(one.value is None for one in measures):
            return None
        values = tuple(one.value or 0.0 for one in measures)
        errors = None if source == "majority" else tuple(one.error or 0.0 for one in measures)
        shown.append(Series(SOURCES[source], meaning, values, errors))
    return Bars(f"{_TITLES[main]} by predictor", _TITLES[main], titles, tuple(shown))


# By group -----------------------------------------------------------------------------------------------------------


_MOST_GROUPS = 40
_DRAWN: tuple[TrainedOn, ...] = ("synthetic", "real", "control")
_MOST_NAMED = 10
_RISKS = {"classes": "share of wrong predictions", "number": "squared error, declared range as 1"}


def predictions_by_group(kind: type[Kind], found: Predictions, *, suffix: str) -> tuple[Kind, ...]:
    """Say for every declared group what learning from synthetic rows costs it.

    Parameters
    ----------
    kind : type
        Owner only, or safe where the test rows are public.
    found : Predictions
    suffix : str
        Ends every sentence.

    Returns
    -------
    tuple of evidence
        ``downstream.groups.<column>``: the largest excessive risk gap among groups of 30 test rows and more, with the
        risks of all groups as a picture and as tables; None where no two groups can be told apart.
    """
    risk = _RISKS[found.kind]
    score = "accuracy" if found.kind == "classes" else f"mean absolute error, {found.unit}"
    return tuple(
        _of_column(kind, name, risks, found.group_scores[name], risk, score, suffix)
        for name, risks in found.groups.items()
    )


def _of_column(
    kind: type[Kind],
    name: str,
    found: GroupRisks,
    scores: Mapping[TrainedOn, NDArray[np.float64]],
    risk: str,
    score: str,
    suffix: str,
) -> Kind:
    made, control = excessive_risk(found, "synthetic"), excessive_risk(found, "control")
    largest = _largest_gap(found, made)
    return kind(
        id=f"downstream.groups.{name}",
        title=f"Largest excessive risk gap by {name}",
        value=None if largest is None else float(made.gap[largest]),
        error=None if largest is None else float(made.apart_error[largest]),
        unit=risk,
        sentence=_sentence(name, found, made, largest) + suffix,
        figures=_figures(name, found, made, control, scores, risk, score),
    )


def _sentence(name: str, found: GroupRisks, made: Excess, largest: int | None) -> str:
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
    control: Excess,
    scores: Mapping[TrainedOn, NDArray[np.float64]],
    risk: str,
    score: str,
) -> tuple[Figure, ...]:
    shown, some = _shown(found)
    risks = {one: found.risk(one) for one in _DRAWN}
    bars = _risk_bars(
        f"Risk by {name}{some}", risk, found, shown, {"synthetic": made, "real": None, "control": control}
    )
    excess: list[tuple[Cell, ...]] = [
        (
            "all rows", int(found.rows.sum()), *(float(risks[one][0]) for one in _DRAWN),
            made.overall, made.overall_error, None, None, control.overall, None,
        )
    ]  # fmt: skip
    excess += [
        (
            found.labels[place], int(found.rows[place]), *(float(risks[one][1 + place]) for one in _DRAWN),
            float(made.risk[place]), float(made.error[place]), float(made.gap[place]), float(made.apart_error[place]),
            float(control.risk[place]), float(control.gap[place]),
        )
        for place in shown
    ]  # fmt: skip
    header = (
        name, "test rows", *(f"risk, {SOURCES[one]}" for one in _DRAWN), "excess", "± excess", "gap", "± gap",
        "excess, control", "gap, control",
    )  # fmt: skip
    trained = list(scores)
    reached: list[tuple[Cell, ...]] = [
        (found.labels[place], int(found.rows[place]), *(float(scores[one][place]) for one in trained))
        for place in shown
    ]
    return (
        bars,
        Table(f"Excessive risk by {name}{some} ({risk})", header, tuple(excess)),
        Table(
            f"{score[0].upper()}{score[1:]}, by {name}{some}",
            (name, "test rows", *(SOURCES[one] for one in trained)),
            tuple(reached),
        ),
    )


def _risk_bars(
    title: str, risk: str, found: GroupRisks, shown: Sequence[int], sources: Mapping[TrainedOn, Excess | None]
) -> Bars:
    """Draw risks; the whisker is that of the excess, as the distance between two bars is what the report is about."""
    return Bars(
        title,
        risk,
        tuple(found.labels[place] for place in shown),
        tuple(
            Series(
                SOURCES[one],
                MEANINGS[one],
                tuple(float(found.risk(one)[1 + place]) for place in shown),
                None if excess is None else tuple(float(excess.error[place]) for place in shown),
            )
            for one, excess in sources.items()
        ),
    )


# Over many releases -------------------------------------------------------------------------------------------------


_LIMITS = (
    "This is what the whole run costs: the noise, and whatever its model cannot express without any. That all groups "
    "pay alike is shown only for noise of one size on every coefficient of a linear model of features of one length; "
    "here gaps are real."
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
    risks: dict[str, dict[str, list[NDArray[np.float64]]]] = {
        name: {"synthetic": [], "real": []} for name in bench.groups
    }
    for run in range(runs):
        progress.step(run, runs)
        made = remade()
        tables = {"synthetic": (made, bench.target.usable(made)), "real": (real, usable)}
        works = [
            partial(trained, bench, predictor, *table, run)
            for table in tables.values()
            for predictor in predictors.values()
        ]
        found = in_parallel(works, threads=options.threads, on_step=lambda k, of: progress.check_cancelled())
        for place, source in enumerate(tables):
            outcomes = found[place * len(predictors) : (place + 1) * len(predictors)]
            for name, by_source in risks.items():
                by_source[source].append(np.mean([one.risks[name] for one in outcomes], axis=0))
    progress.step(runs, runs)
    risk = _RISKS[bench.target.kind]
    return tuple(
        _over_runs(
            name,
            GroupRisks(
                groups.labels,
                np.bincount(groups.of_row, minlength=len(groups.labels)),
                {source: np.array(values) for source, values in risks[name].items()},
            ),
            risk,
            tested_on,
        )
        for name, groups in bench.groups.items()
    )


def nobody_pays(reason: str) -> OwnerOnlyEvidence:
    """Say why what privacy costs the groups is not known."""
    return OwnerOnlyEvidence(
        id="excess.none", title="Not worked out", value=None, sentence=f"{reason} {OWNER_ONLY_SENTENCE}"
    )


def _over_runs(name: str, found: GroupRisks, risk: str, tested_on: str) -> OwnerOnlyEvidence:
    made = excessive_risk(found, "synthetic")
    largest = _largest_gap(found, made)
    runs, spread = len(found.risks["synthetic"]), spread_of_releases(found)
    sentence = (
        f"The configuration was run {runs} times more, each time with fresh noise. Excessive risk: how much more the "
        f"report's predictors err on {tested_on} after learning from what such a run makes than after learning from "
        f"the private rows; {made.overall:+.3g} ± {made.overall_error:.2g} over all rows. "
    )
    if largest is None:
        sentence += f"Fewer than two groups of '{name}' have {FEWEST_ROWS} test rows or more, so nothing is compared."
    else:
        sentence += (
            f"{_losers(found, made, chance='chance in the test rows and in the noise explains')}The largest gap is "
            f"that of {found.labels[largest]}, whose excessive risk has a standard deviation of "
            f"{spread[1 + largest]:.2g} from one run to another. The 95 % ranges hold for all {len(found.judged)} "
            "judged groups at once, over another draw of test rows and over the noise of so few runs."
            f"{_unjudged(found)}"
        )
    return OwnerOnlyEvidence(
        id=f"excess.{name}",
        title=f"Largest excessive risk gap by {name}, mean of {runs} runs",
        value=None if largest is None else float(made.gap[largest]),
        error=None if largest is None else float(made.apart_error[largest]),
        unit=risk,
        sentence=f"{sentence} {_LIMITS} {OWNER_ONLY_SENTENCE}",
        figures=_over_runs_figures(name, found, made, risk),
    )


def _over_runs_figures(name: str, found: GroupRisks, made: Excess, risk: str) -> tuple[Figure, ...]:
    shown, some = _shown(found)
    runs = len(found.risks["synthetic"])
    without, private = found.risk("real"), found.risk("synthetic")
    spread, simulated = spread_of_releases(found), monte_carlo_error(found)

    def of(place: int, excess: Sequence[Cell]) -> tuple[Cell, ...]:
        beside = (float(one[place]) for one in (without, private))
        return (*beside, *excess, float(simulated[place]), float(spread[place]))

    rows: list[tuple[Cell, ...]] = [
        ("all rows", int(found.rows.sum()), *of(0, (made.overall, made.overall_error)), None, None)
    ]
    rows += [
        (
            found.labels[place], int(found.rows[place]),
            *of(1 + place, (float(made.risk[place]), float(made.error[place]))),
            float(made.gap[place]), float(made.apart_error[place]),
        )
        for place in shown
    ]  # fmt: skip
    header = (
        name, "test rows", "risk, private rows", f"risk, mean of {runs} runs", "excess", "± excess",
        "± of the mean of runs alone", "standard deviation between runs", "gap", "± gap",
    )  # fmt: skip
    return (
        _risk_bars(f"Risk by {name}{some}, mean of {runs} runs", risk, found, shown, {"synthetic": made, "real": None}),
        Table(f"Excessive risk by {name}{some} ({risk}), mean of {runs} runs", header, tuple(rows)),
    )
