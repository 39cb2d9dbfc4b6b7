"""Prediction: how well a label is predicted after learning from synthetic rows, compared with its anchors.

Exact numbers on real rows are for the owner. Where a run pays for it, held-out rows are counted with noise, and the
results may be published.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from synth.errors import InputError
from synth.progress import Progress
from synth.reports.controls import owner_control
from synth.reports.evidence import OWNER_ONLY_SENTENCE, Evidence, OwnerOnlyEvidence
from synth.reports.panels import Cards, Choice, ExactWarning, Folded, Heading, OnRequest, Option, Panel, Words
from synth.reports.prediction.charged import charged_predictions
from synth.reports.prediction.problem import (
    SOURCES,
    TITLES,
    DownstreamOptions,
    Problem,
    nobody_pays,
    nothing_predicted,
)
from synth.reports.report import (
    GROUPS,
    OwnerRows,
    PaidAnswers,
    Renewal,
    Report,
    ReportOption,
    Screen,
    Section,
    Shown,
    Tab,
    TestRows,
    groups_declared,
)
from synth.schema import RunConfig

__all__ = ["REPORT"]

_EXACT, _CHARGED, _EXCESS = "downstream", "predictions", "excess"
_BY_GROUP, _CHARGED_BY_GROUP = f"{_EXACT}.groups.", f"{_CHARGED}.groups."
_TAB = Tab(40, "○ Prediction")
_LARGEST_CONTROL = 100_000
_USUAL_RUNS = 10
_FEWEST_RUNS = 2
_FAULT = "The predictions failed inside the program"


def _public(answers: PaidAnswers) -> Sequence[Any]:
    return charged_predictions(answers.releases, answers.config)


def _owner(rows: OwnerRows, options: Mapping[str, Any], progress: Progress) -> Sequence[OwnerOnlyEvidence]:
    """Predict the label of real rows after training on synthetic ones, on real ones, and on the control."""
    # Imported late: a run without an owner's report need not load a library of predictors.
    from synth.reports.prediction.evidence import owner_downstream

    config, test = rows.config, rows.test
    if config.label is None or test is None:
        return (nothing_predicted(_untestable(rows)),)
    words = test.words if rows.test_problem is None else f"{test.words} ({rows.test_problem})"
    if config.schema.unit.counted != "rows":
        words = f"{words}, one row of each {config.schema.unit.protects}"
    train = rows.train.codes
    n_control = min(len(rows.synthetic[0]), _LARGEST_CONTROL)
    control = owner_control(train, config.schema, rows.control_noise, n_rows=n_control, seed=config.seed)
    problem = Problem(
        schema=config.schema,
        label=config.label,
        tables={"synthetic": rows.synthetic, "real": train, "control": control},
        test=test.rows.codes,
        test_units=test.rows.units,
        groups=config.groups,
        seed=config.seed,
    )
    much = DownstreamOptions.chosen(
        options.get("classifiers", "quick"), hard_labels=options.get("hard_labels", False), threads=rows.threads
    )
    return owner_downstream(problem, much, progress, tested_on=words)


def _untestable(rows: OwnerRows) -> str:
    """Say why nothing can be predicted: no label, or no rows to test on."""
    if rows.config.label is None:
        return "No label is declared. Name the column to predict under 'label:'."
    return rows.test_problem or "There are no real rows to test on: no hold-out and no test table."


def _again(rows: OwnerRows, choice: str, progress: Progress) -> Sequence[OwnerOnlyEvidence]:
    return _owner(rows, {"classifiers": choice}, progress)


def _about(minutes: int | None) -> str:
    return (
        "Every run trains three predictors twice, on at most 10,000 rows. Training all of them (thirteen classifiers "
        "or five regressors) three times, on at most 20,000 rows, takes minutes; how long is measured first and shown. "
        "Nothing is charged."
    )


_RENEWAL = Renewal(
    name="predictions",
    prefix=f"{_EXACT}.",
    usual="all",
    make=_again,
    done="predicted",
    about=_about,
    start_label="Train every predictor",
    stop_label="Stop the training",
    failed=nothing_predicted,
    fault=_FAULT,
)


# Over many runs -----------------------------------------------------------------------------------------------------


def _who_pays(rows: OwnerRows, runs: str, progress: Progress) -> Sequence[OwnerOnlyEvidence]:
    """Run the configuration repeatedly on the same rows, and average what each group loses in predictions.

    Nothing from these runs leaves this machine, so nothing is charged, as with shadow models.
    """
    from synth.reports.prediction.over_runs import who_pays, who_pays_of_model  # imported late, as above

    config, test, remake, refit, train = rows.config, rows.test, rows.remake, rows.refit, rows.train
    if not config.groups:
        return (nobody_pays("No groups are declared. Name columns under 'groups:'."),)
    if test is None and rows.released is not None:
        # As in the paper, whose risks are all of the rows that were trained on.
        test = TestRows(train, rows.test_problem or "the rows that it was fitted to, because no rows were held out")
    if config.label is None or test is None:
        return (nobody_pays(_untestable(rows)),)
    problem = Problem(
        schema=config.schema,
        label=config.label,
        tables={"real": train.codes},
        test=test.rows.codes,
        test_units=test.rows.units,
        groups=config.groups,
        seed=config.seed,
    )
    if rows.released is not None and refit is not None:
        progress.phase(f"Fitting {runs} more times")
        return who_pays_of_model(
            problem,
            rows.released,
            lambda like: refit(train, like=like),
            progress,
            runs=int(runs),
            tested_on=test.words,
        )
    if remake is None:
        return (nobody_pays("This run cannot be repeated here."),)
    progress.phase(f"Running {runs} more times, with predictions from each run")
    return who_pays(
        problem,
        lambda: remake([train])[0].rows,
        DownstreamOptions.chosen("quick", threads=rows.threads),
        progress,
        runs=int(runs),
        tested_on=test.words,
    )


def _minutes(seconds: Mapping[str, float]) -> int:
    """Estimate how many minutes the usual number of runs takes, from the times of the run itself."""
    once = math.fsum(seconds.get(part, 0.0) for part in ("measure", "fit", "sample", "report"))
    return max(1, round(_USUAL_RUNS * once / 60))


def _check_runs(runs: str) -> None:
    if int(runs) < _FEWEST_RUNS:
        raise InputError(f"--reruns needs at least {_FEWEST_RUNS} runs, got {runs}.")


def _about_runs(minutes: int | None) -> str:
    long = "minutes" if minutes is None else f"about {minutes} minute{'' if minutes == 1 else 's'} on this machine"
    return (
        f"One release may spare a group by luck. This configuration is run {_USUAL_RUNS} more times with fresh noise, "
        f"and each group's loss in predictions is averaged. It takes {long}. Nothing is charged, because nothing from "
        "these runs leaves this machine."
    )


_RERUNS = Renewal(
    name="reruns",
    prefix=f"{_EXCESS}.",
    usual=str(_USUAL_RUNS),
    make=_who_pays,
    done="run",
    about=_about_runs,
    start_label=f"Run {_USUAL_RUNS} more times",
    stop_label="Stop the runs",
    minutes=_minutes,
    check=_check_runs,
    option="reruns",
    of_models=True,
    failed=nobody_pays,
    fault=_FAULT,
)


# The screen ---------------------------------------------------------------------------------------------------------


def _public_panels(shown: Shown) -> list[Panel]:
    charged = shown.public_of(_CHARGED)
    return _paid_for(charged) if charged else []


def _exact_panels(shown: Shown) -> list[Panel]:
    entries = shown.exact_of(_EXACT)
    if not entries:
        return []
    reason = next((entry for entry in entries if entry.id == f"{_EXACT}.none"), None)
    if reason is not None:
        return [Words(_said(reason))]
    return [
        ExactWarning(),
        # Together with the paid numbers, which say the same with noise, the picture of the exact ones is enough.
        *_numbers(entries, folded=bool(shown.public_of(_CHARGED))),
        Heading("With every predictor"),
        OnRequest(_RENEWAL.name),
    ]


def _paid_group_panels(shown: Shown) -> list[Panel]:
    found = [entry for entry in shown.public if entry.id.startswith(_CHARGED_BY_GROUP)]
    return [Folded("Paid for: predictions by group", [Cards(found, key="charged-groups")])] if found else []


def _group_panels(shown: Shown) -> list[Panel]:
    found = [entry for entry in shown.exact if entry.id.startswith(_BY_GROUP)]
    nothing = Words("Not part of this report. Predictions need a label and rows to test on.")
    return [
        ExactWarning(),
        Heading("Predictions by group"),
        *([Cards(found, key="owner-groups-predictions"), *_over_runs(shown)] if found else [nothing]),
    ]


def _model_group_panels(shown: Shown) -> list[Panel]:
    return [ExactWarning(), *_over_runs(shown)]


def _over_runs(shown: Shown) -> list[Panel]:
    """Show what groups lose on average over runs like this one, or offer to calculate it."""
    averaged = shown.exact_of(_EXCESS)
    reason = next((entry for entry in averaged if entry.id == f"{_EXCESS}.none"), None)
    cards: list[Panel] = [Cards(averaged, key="owner-groups-reruns")]
    shown_or_not = [Words(_said(reason))] if reason is not None else cards if averaged else []
    # Folded, because with the numbers of a single run the tab would be twice as long.
    return [Folded("Who pays for privacy, on average over runs", [*shown_or_not, OnRequest(_RERUNS.name)])]


def _paid_for(entries: Sequence[Evidence]) -> list[Panel]:
    """Show what was paid for, apart from the exact numbers: the predictor, then the anchor of one measure."""
    by_id = {entry.id.removeprefix(f"{_CHARGED}."): entry for entry in entries}

    def of(measure: str) -> list[Evidence]:
        wanted = (measure, f"majority_{measure}", "rows")
        return [by_id[name] for name in wanted if name in by_id]

    drawn = [entry for entry in entries if entry.figures and not entry.id.startswith(_CHARGED_BY_GROUP)]
    return [
        Heading("Paid for: held-out rows, counted with noise"),
        _by_measure([name for name in TITLES if name in by_id], of, key="charged"),
        # Groups have a tab of their own.
        Folded("The counts behind it", [Cards(drawn, key="charged-figures")]),
    ]


def _numbers(entries: Sequence[Evidence], *, folded: bool) -> list[Panel]:
    by_id = {entry.id: entry for entry in entries}

    def of(measure: str) -> list[Evidence]:
        wanted = [f"{_EXACT}.{trained}.{measure}" for trained in SOURCES]
        return [by_id[name] for name in (*wanted, f"{_EXACT}.rows") if name in by_id]

    notes = by_id.get(f"{_EXACT}.notes")
    pictures = Cards(
        [entry for entry in entries if entry.figures and not entry.id.startswith(_BY_GROUP)], key="prediction-figures"
    )
    measures = _by_measure([name for name in TITLES if f"{_EXACT}.synthetic.{name}" in by_id], of, key="prediction")
    said: list[Panel] = [] if notes is None else [Words(_said(notes))]
    if folded:
        return [pictures, Folded("Every measure in numbers", [measures, *said])]
    return [measures, *said, pictures]


def _by_measure(measures: Sequence[str], of: Callable[[str], list[Evidence]], *, key: str) -> Choice:
    options = [Option(name, TITLES[name], [Cards(of(name), key=f"{key}-{name}")]) for name in measures]
    return Choice("Measure", f"{key}-measure", options)


def _said(entry: Evidence) -> str:
    return entry.sentence.replace(OWNER_ONLY_SENTENCE, "").strip()


def _predicts(config: RunConfig) -> bool:
    """Whether a model may be right about some groups more than about others."""
    return config.is_model and config.label is not None and groups_declared(config)


def _is_paid_for(config: RunConfig) -> bool:
    return config.prediction_share > 0


REPORT = Report(
    id="prediction",
    title="Prediction",
    sections={
        _EXACT: Section("Prediction", covers="chance in test rows and training"),
        _CHARGED: Section("Prediction of held-out rows"),
        _EXCESS: Section("Who pays for privacy", covers="chance in test rows and in noise"),
    },
    public=_public,
    owner=_owner,
    failed=nothing_predicted,
    fault=_FAULT,
    options=(
        ReportOption(
            "classifiers",
            "which classifiers predict the label: three quick ones, or all thirteen, each trained three times",
            default="quick",
            choices=("quick", "all"),
        ),
        ReportOption(
            "hard_labels",
            "calculate areas under curves from predicted classes, as published tables do, instead of from scores",
            default=False,
        ),
        ReportOption(
            "reruns",
            "report what privacy costs each group on average over N runs like this one (10 without N)",
            number=_USUAL_RUNS,
        ),
    ),
    renewals=(_RENEWAL, _RERUNS),
    screens=(
        Screen(_TAB, _public_panels, of_models=_is_paid_for),
        Screen(_TAB, _exact_panels, exact=True),
        Screen(GROUPS, _paid_group_panels, wanted=groups_declared, of_models=_is_paid_for, place=1),
        Screen(GROUPS, _group_panels, exact=True, wanted=groups_declared, place=-1),
        Screen(GROUPS, _model_group_panels, exact=True, wanted=_predicts, of_models=_predicts),
    ),
    spoken=re.compile(r"downstream\.(synthetic|real|control|majority)\.(roc_auc|r2)"),
    reasons=(f"{_EXACT}.none", f"{_EXCESS}.none"),
)
