"""A grid side by side: means and bands over seeds, a picture for each generator beside the control."""

from __future__ import annotations

import pytest

from synth.rehearsal.grid import GridCell, grid_evidence
from synth.reports.evidence import SafeEvidence
from synth.reports.figures import Bars, Table

SAID = "Rows of nobody."


def cell(generator: str, epsilon: float, seed: int, **rest: object) -> GridCell:
    pairs = 0.1 * (seed + 1) / epsilon
    body = {"pairs": pairs, "floor": 0.01, "attack": "Closest record", "area": 0.5 + 0.01 * seed, "ceiling": 0.6}
    return GridCell(generator=generator, epsilon=epsilon, seed=seed, **{**body, **rest})  # type: ignore[arg-type]


CELLS = [cell(name, epsilon, seed) for seed in (0, 1) for name in ("dp-merf", "independent") for epsilon in (2.0, 1.0)]


def figures_of(evidence: tuple[SafeEvidence, ...], name: str) -> dict[str, Bars]:
    entry = next(entry for entry in evidence if entry.id == name)
    return {figure.title: figure for figure in entry.figures if isinstance(figure, Bars)}


def test_means_and_bands_over_seeds_stand_beside_the_control() -> None:
    found = grid_evidence(CELLS, label=None, said=SAID)
    assert [entry.id for entry in found] == ["grid.table", "grid.pairs", "grid.attacks"]
    assert all(SAID in entry.sentence for entry in found)
    ((title, figure),) = figures_of(found, "grid.pairs").items()
    assert title == "Distance of pairs of dp-merf: 0.15 at epsilon 1, 0.075 at epsilon 2"
    assert figure.subtitle == "Compare with: another draw of the stand-in 0.01."
    assert figure.categories == ("ε = 1", "ε = 2")
    own, control, floor = figure.series
    assert [one.meaning for one in figure.series] == ["stand_in", "control", "floor"]
    assert own.values == pytest.approx((0.15, 0.075))
    assert own.errors == pytest.approx((0.05, 0.025))
    assert own.below == pytest.approx((0.05, 0.025))
    assert control.values == own.values
    assert floor.values == pytest.approx((0.01, 0.01))
    (attacks,) = figures_of(found, "grid.attacks").values()
    assert [one.name for one in attacks.series] == ["dp-merf", "independent", "guessing", "proven ceiling"]


def test_the_table_holds_every_generator_and_budget() -> None:
    (table,) = grid_evidence(CELLS, label=None, said=SAID)[0].figures
    assert isinstance(table, Table)
    assert table.header == (
        "generator", "epsilon", "distance of pairs", "strongest attack, ROC AUC", "its proven ceiling",
        "seconds of a run",
    )  # fmt: skip
    assert [row[:2] for row in table.rows] == [
        ("dp-merf", 1.0), ("independent", 1.0), ("dp-merf", 2.0), ("independent", 2.0)
    ]  # fmt: skip
    assert table.rows[0][2:5] == pytest.approx((0.15, 0.505, 0.6))


def test_the_best_for_the_purpose_comes_first_at_each_epsilon() -> None:
    def scored(name: str, epsilon: float, predicted: float | None, pairs: float) -> GridCell:
        return cell(name, epsilon, 0, measure="ROC AUC" if predicted else "", predicted=predicted, pairs=pairs)

    cells = [
        scored("a", 2.0, 0.6, 0.1), scored("b", 2.0, 0.9, 0.3), scored("c", 2.0, None, 0.2),
        scored("a", 1.0, 0.7, 0.5), scored("b", 1.0, 0.5, 0.4),
    ]  # fmt: skip

    def order(purpose: str) -> tuple[list[str], str, list[str]]:
        found = grid_evidence(cells, label="ill", said=SAID, purpose=purpose)  # type: ignore[arg-type]
        (table,) = found[0].figures
        assert isinstance(table, Table)
        titles = [title.split(" of ")[2].partition(":")[0] for title in figures_of(found, "grid.pairs")]
        return [str(row[0]) for row in table.rows], found[0].sentence, titles

    rows, sentence, titles = order("prediction")
    assert rows == ["a", "b", "b", "a", "c"], "by epsilon; without a score last"
    assert "the best for predicting 'ill' comes first" in sentence
    assert "With another seed, generators that are close may change places." in sentence
    assert titles == ["b", "a", "c"], "as at epsilon 2, which was rehearsed first"
    rows, sentence, titles = order("counts")
    assert rows == ["b", "a", "a", "c", "b"]
    assert "the best for counting pairs of columns comes first" in sentence
    assert titles == ["a", "c", "b"]


def test_predictions_are_shown_where_there_are_any_beside_training_on_the_stand_in() -> None:
    scored = [cell("dp-hp", 1.0, seed, measure="ROC AUC", predicted=0.7, real=0.8 + 0.1 * seed) for seed in (0, 1)]
    found = grid_evidence(scored, label="ill", said=SAID)
    entry = next(entry for entry in found if entry.id == "grid.prediction")
    assert (entry.title, entry.unit) == ("Prediction of 'ill'", "ROC AUC")
    (figure,) = figures_of(found, "grid.prediction").values()
    assert [one.name for one in figure.series] == ["dp-hp", "trained on stand-in rows"]
    assert figure.series[1].values == pytest.approx((0.85,))


def test_the_control_alone_has_its_own_picture_and_one_seed_is_said_to_be_one() -> None:
    found = grid_evidence([cell("independent", 1.0, 0, area=None, attack="")], label=None, said=SAID)
    assert [entry.id for entry in found] == ["grid.table", "grid.pairs"]
    assert list(figures_of(found, "grid.pairs")) == ["Distance of pairs of independent: 0.1 at epsilon 1"]
    assert "only one seed" in found[1].sentence


def test_a_cell_that_is_still_missing_leaves_its_line_shorter() -> None:
    unfinished = [*CELLS[:4], cell("dp-hp", 1.0, 0)]
    figures = figures_of(grid_evidence(unfinished, label=None, said=SAID), "grid.pairs")
    (title,) = (title for title in figures if title.startswith("Distance of pairs of dp-hp:"))
    assert figures[title].categories == ("ε = 1",)
    # The control has two epsilons, this generator one so far: they are not drawn over each other.
    assert [one.name for one in figures[title].series] == ["dp-hp", "another draw of the stand-in"]
