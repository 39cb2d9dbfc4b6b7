"""The downstream report: a copy scores like the real rows, the control does not, and odd tables give a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from synth.errors import RunCancelledError
from synth.progress import NullProgress
from synth.reports.document import owner_document
from synth.reports.evidence import OwnerOnlyEvidence, evidence_from_dict, publishable
from synth.reports.prediction.evidence import owner_downstream
from synth.reports.prediction.problem import DownstreamOptions, Problem
from synth.schema import CategoryColumn, Column, NumberColumn, Schema, YesNoColumn

OPTIONS = DownstreamOptions(repeats=1, maximum_rows=300, resamples=10)
SCHEMA = Schema(
    (
        NumberColumn("age", 0, 99, 1, missing=True),
        CategoryColumn("region", ("n", "s", "e", "w"), missing=True),
        YesNoColumn("smoker"),
        CategoryColumn("outcome", ("well", "ill"), missing=True),
    )
)


def shuffled_rows(rows: Sequence[np.ndarray], *, seed: int) -> list[np.ndarray]:
    random = np.random.default_rng([seed, 3])
    return [random.permutation(codes) for codes in rows]


def rows_of(schema: Schema, rows: int, *, seed: int, together: float = 0.8) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    cause = random.random(rows)
    places = [together * cause + (1 - together) * random.random(rows) for _ in schema.modelled]
    return [np.minimum((size * place).astype(int), size - 1) for size, place in zip(schema.sizes, places, strict=True)]


def problem(schema: Schema = SCHEMA, label: str = "outcome", *, rows: int = 400, test: int = 200) -> Problem:
    real = rows_of(schema, rows, seed=1)
    tables = {"synthetic": rows_of(schema, rows, seed=2), "real": real, "control": shuffled_rows(real, seed=3)}
    return Problem(schema, label, tables, rows_of(schema, test, seed=4))  # type: ignore[arg-type]


def owner(asked: Problem, options: DownstreamOptions = OPTIONS) -> dict[str, OwnerOnlyEvidence]:
    found = owner_downstream(asked, options, NullProgress(), tested_on="the hold-out")
    return {entry.id: entry for entry in found}


def values(found: dict[str, OwnerOnlyEvidence]) -> dict[str, object]:
    return {name: (entry.value, entry.error) for name, entry in found.items()}


@pytest.mark.thorough
def test_a_copy_scores_like_the_real_rows_and_the_control_like_none() -> None:
    asked = problem()
    found = owner(replace(asked, tables={**asked.tables, "synthetic": asked.tables["real"]}))
    for measure in ("roc_auc", "pr_auc", "macro_f1", "weighted_f1", "accuracy"):
        copy, real = found[f"downstream.synthetic.{measure}"], found[f"downstream.real.{measure}"]
        assert copy.value == real.value
        assert 0 < copy.error < 0.2  # type: ignore[operator]
    real_auc, control_auc = found["downstream.real.roc_auc"].value, found["downstream.control.roc_auc"].value
    assert real_auc > 0.9  # type: ignore[operator]
    assert control_auc < 0.75  # type: ignore[operator]
    assert found["downstream.majority.roc_auc"].value == 0.5
    assert found["downstream.rows"].value == len(asked.test[0]) - int((asked.test[3] == 2).sum())


@pytest.mark.thorough
def test_results_follow_from_the_seed_and_not_from_the_threads() -> None:
    asked = problem(rows=600)
    once = values(owner(asked))
    assert once == values(owner(asked, replace(OPTIONS, threads=3)))
    assert once != values(owner(replace(asked, seed=1)))


@pytest.mark.thorough
def test_more_trainings_are_another_mean() -> None:
    once, twice = values(owner(problem())), values(owner(problem(), replace(OPTIONS, repeats=2)))
    assert once["downstream.rows"] == twice["downstream.rows"]
    assert once["downstream.synthetic.roc_auc"] != twice["downstream.synthetic.roc_auc"]


@pytest.mark.thorough
def test_numbers_are_predicted_in_their_unit() -> None:
    found = owner(problem(label="age"))
    assert found["downstream.synthetic.r2"].value > 0.5  # type: ignore[operator]
    assert abs(found["downstream.majority.r2"].value) < 0.1  # type: ignore[operator,arg-type]
    assert found["downstream.control.r2"].value < 0.3  # type: ignore[operator]
    mae = found["downstream.synthetic.mae"]
    assert 1 < mae.value < 20  # type: ignore[operator]
    assert mae.unit == "units of age"
    assert "downstream.synthetic.roc_auc" not in found


@pytest.mark.thorough
def test_many_classes_are_averaged_one_against_the_rest() -> None:
    schema = Schema((NumberColumn("x", 0, 999, 1), CategoryColumn("label", tuple(f"c{place}" for place in range(60)))))
    found = owner(problem(schema, "label", rows=400, test=200), OPTIONS)
    assert found["downstream.synthetic.roc_auc"].value > 0.7  # type: ignore[operator]
    assert abs(found["downstream.control.roc_auc"].value - 0.5) < 0.1  # type: ignore[operator,arg-type]
    assert "linear discriminants" in str(found["downstream.classifiers"].figures)
    assert "one against the rest" in found["downstream.synthetic.roc_auc"].sentence


@pytest.mark.thorough
def test_hard_labels_lower_the_areas_and_say_so() -> None:
    soft, hard = owner(problem()), owner(problem(), replace(OPTIONS, hard_labels=True))
    assert hard["downstream.real.roc_auc"].value < soft["downstream.real.roc_auc"].value  # type: ignore[operator]
    assert hard["downstream.real.accuracy"].value == soft["downstream.real.accuracy"].value
    assert "predicted classes instead of scores" in hard["downstream.real.roc_auc"].sentence


@pytest.mark.thorough
def test_groups_are_told_apart() -> None:
    asked = replace(problem(), groups=("region", "outcome"))
    found = owner(asked)
    *_, table = found["downstream.groups.region"].figures
    assert table.header == ("region", "test rows", "synthetic rows", "real rows", "independent control")  # type: ignore[union-attr]
    assert [row[0] for row in table.rows] == ["n", "s", "e", "w"]  # type: ignore[union-attr]
    assert "downstream.groups.outcome" not in found


@pytest.mark.thorough
def test_every_predictor_has_its_line_and_every_series_its_bar() -> None:
    found = owner(problem(), replace(OPTIONS, predictors="all", maximum_rows=100))
    bars, table = found["downstream.classifiers"].figures
    assert len(bars.categories) == 13  # type: ignore[union-attr]
    assert [series.meaning for series in bars.series] == ["synthetic", "real", "control", "floor"]  # type: ignore[union-attr]
    assert len(table.rows) == 13 * 3 + 4  # type: ignore[union-attr]


@pytest.mark.thorough
def test_a_package_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("synth.reports.prediction.classifiers.find_spec", lambda name: None)
    found = owner(problem(), replace(OPTIONS, predictors="all", maximum_rows=60))
    assert "XGBoost is left out" in found["downstream.notes"].sentence
    assert len(found["downstream.classifiers"].figures[0].categories) == 12  # type: ignore[union-attr]


def test_what_private_rows_give_is_for_the_owner() -> None:
    asked = problem()
    private = owner_downstream(asked, OPTIONS, NullProgress(), tested_on="the hold-out")
    assert {type(entry) for entry in private} == {OwnerOnlyEvidence}
    assert all("do not publish" in entry.sentence for entry in private)
    with pytest.raises(TypeError):
        publishable(private)  # type: ignore[arg-type]


@pytest.mark.thorough
def test_a_report_survives_its_file() -> None:
    found = tuple(owner(replace(problem(), groups=("region",))).values())
    document = owner_document(found)
    assert tuple(evidence_from_dict(entry) for entry in document["evidence"]) == found


class Watched(NullProgress):
    def __init__(self, stop_after: int | None = None) -> None:
        self.phases: list[str] = []
        self.steps: list[tuple[int, int]] = []
        self.stop_after = stop_after

    def phase(self, name: str) -> None:
        self.phases.append(name)

    def step(self, k: int, of: int) -> None:
        self.steps.append((k, of))
        if self.stop_after is not None and k >= self.stop_after:
            raise RunCancelledError("The run was cancelled.")


@pytest.mark.thorough
def test_progress_says_how_long_and_cancelling_stops() -> None:
    watched = Watched()
    owner_downstream(problem(), OPTIONS, watched, tested_on="the hold-out")
    assert watched.phases == ["Predicting with 3 classifiers on 3 tables, a few seconds"]
    assert watched.steps[0] == (0, 9)
    assert watched.steps[-1] == (9, 9)
    stopped = Watched(stop_after=2)
    with pytest.raises(RunCancelledError):
        owner_downstream(problem(), OPTIONS, stopped, tested_on="the hold-out")
    assert len(stopped.steps) < 9


def set_column(codes: Sequence[np.ndarray], place: int, value: int) -> list[np.ndarray]:
    return [np.full_like(one, value) if here == place else one for here, one in enumerate(codes)]


@pytest.mark.thorough
def test_one_class_in_the_synthetic_rows_is_a_constant_prediction_with_a_sentence() -> None:
    asked = problem()
    synthetic = set_column(asked.tables["synthetic"], 3, 0)
    found = owner(replace(asked, tables={**asked.tables, "synthetic": synthetic}))
    assert found["downstream.synthetic.roc_auc"].value == 0.5
    assert found["downstream.real.roc_auc"].value > 0.9  # type: ignore[operator]
    notes = found["downstream.notes"].sentence
    assert "Trained on synthetic rows, every predictor gave one constant prediction." in notes
    assert "All training rows have the same class." in notes


@pytest.mark.thorough
def test_one_class_among_the_test_rows_leaves_no_area() -> None:
    asked = problem()
    found = owner(replace(asked, test=set_column(asked.test, 3, 1)))
    assert found["downstream.synthetic.roc_auc"].value is None
    assert found["downstream.synthetic.accuracy"].value is not None


@pytest.mark.thorough
@pytest.mark.parametrize("place", [0, 1], ids=["number", "category"])
def test_a_column_that_is_all_missing_teaches_nothing_and_stops_nothing(place: int) -> None:
    asked = problem()
    missing = SCHEMA.modelled[place].size - 1
    tables = {name: set_column(codes, place, missing) for name, codes in asked.tables.items()}
    found = owner(replace(asked, tables=tables, test=set_column(asked.test, place, missing)))
    assert found["downstream.synthetic.roc_auc"].value > 0.8  # type: ignore[operator]


@pytest.mark.thorough
@pytest.mark.parametrize("value", [0, 2], ids=["all alike", "all labels missing"])
def test_synthetic_rows_that_are_all_alike_are_no_error(value: int) -> None:
    asked = problem()
    alike = [np.full_like(codes, min(value, 1)) for codes in asked.tables["synthetic"]]
    alike[3] = np.full_like(alike[3], value)
    found = owner(replace(asked, tables={**asked.tables, "synthetic": alike}))
    assert found["downstream.synthetic.roc_auc"].value == 0.5
    assert found["downstream.notes"].sentence


WIDE = Schema((YesNoColumn("x"), CategoryColumn("label", tuple(f"c{place}" for place in range(201)))))


@pytest.mark.parametrize(
    ("columns", "label", "test_rows", "words"),
    [
        (SCHEMA.columns, "outcome", 10, "Fewer than 20 rows"),
        ((YesNoColumn("outcome"),), "outcome", 100, "no column besides the label"),
        (WIDE.columns, "label", 100, "201 declared values"),
    ],
    ids=["few test rows", "label alone", "too many classes"],
)
def test_what_cannot_be_predicted_is_said(columns: tuple[Column, ...], label: str, test_rows: int, words: str) -> None:
    (entry,) = owner(problem(Schema(columns), label, test=test_rows)).values()
    assert entry.id == "downstream.none"
    assert words in entry.sentence


def test_all_labels_of_the_test_rows_missing_is_said() -> None:
    asked = problem()
    (entry,) = owner(replace(asked, test=set_column(asked.test, 3, 2))).values()
    assert "Fewer than 20 rows with a known label" in entry.sentence


def test_a_quick_look_stays_quick_on_wide_rows_and_many_classes() -> None:
    quick, every = DownstreamOptions(), DownstreamOptions.chosen("all")
    assert [quick.rows_for(*shape) for shape in ((110, 2), (110, 0), (600, 2), (110, 10), (1024, 60))] == [
        10_000, 10_000, 2_500, 3_333, 2_000
    ]  # fmt: skip
    assert every.rows_for(1024, 60) == 20_000
    assert OPTIONS.rows_for(1024, 60) == 300
