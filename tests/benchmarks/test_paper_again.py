"""The paper's tables again: its faulty measure, a run that goes on where it stopped, a page that a command writes."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import paper_again
import paper_again_pages as pages
import pytest
from kept import Kept
from metrics import mean_total_variation, printed_total_variation
from paper_again import ADD_REMOVE, FLOOR, MOST_SECONDS, PART, REPLACE, Cell, Rows

from synth.errors import ConfigError
from synth.generators import GENERATORS
from synth.generators.independent.independent import Independent
from synth.schema import CategoryColumn, NumberColumn, Schema

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = Schema((NumberColumn("x", 0, 9, 1), CategoryColumn("y", ("a", "b")), CategoryColumn("z", tuple("abcd"))))
CELL = Cell("table1", "adult", "independent", 0.3, 0)


def rows(n_rows: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    return np.column_stack([random.integers(0, size, n_rows) for size in (10, 2, 4)])


@pytest.mark.parametrize("alpha", [1, 2])
def test_the_released_measure_is_that_of_histograms_with_one_bin_too_few(alpha: int) -> None:
    real, synthetic = rows(400, 1), rows(300, 2)
    synthetic[:, 0] = np.minimum(synthetic[:, 0], 6)  # the synthetic table has other extremes
    bins, found = real.max(axis=0) - real.min(axis=0), []
    for columns in itertools.combinations(range(3), alpha + 1):
        one, other = (
            np.histogramdd(table[:, columns], bins=bins[list(columns)])[0] / len(table) for table in (real, synthetic)
        )
        found.append(0.5 * np.abs(one - other).sum())
    measured = printed_total_variation(real, synthetic, alpha)
    assert measured == pytest.approx(np.mean(found), abs=1e-12)
    assert measured != pytest.approx(mean_total_variation(real, synthetic, SCHEMA.sizes, alpha), abs=1e-3)


def test_the_released_measure_does_not_see_a_column_of_two_codes() -> None:
    real, other = rows(500, 1)[:, 1:2].repeat(2, axis=1), np.zeros((500, 2), dtype=np.int64)
    assert printed_total_variation(real, other, 1) == pytest.approx(0.0, abs=1e-12)
    assert mean_total_variation(real, other, (2, 2), 1) > 0.4


def test_a_generator_without_the_relation_of_the_paper_is_measured_in_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    class AddRemoveOnly(Independent):
        card = replace(Independent.card, name="add-remove-only")

        def __init__(self, task: Any, options: Any) -> None:
            if task.schema.rows_are_public:
                raise ConfigError("It hides only whether a row is there. Declare 'row_count: private'.")
            super().__init__(task, options)

    monkeypatch.setitem(GENERATORS, "add-remove-only", replace(AddRemoveOnly.card, made_by=AddRemoveOnly))
    table = Rows(SCHEMA, None, rows(400, 1))
    codes, said = paper_again.rows_of(replace(CELL, trained_on="add-remove-only"), table, in_parts=4, n_made=90)
    assert codes.shape == (90, 3)
    assert said == {"relation": ADD_REMOVE, "learnt_from": 100}
    _, said = paper_again.rows_of(CELL, table, in_parts=1, n_made=90)
    assert said == {"relation": REPLACE, "learnt_from": 400}
    with pytest.raises(ConfigError, match="needs a label"):
        paper_again.rows_of(replace(CELL, trained_on="independent-by-class"), table, in_parts=1, n_made=90)


def test_a_stopped_run_goes_on_and_begins_nothing_after_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[Cell, int]] = []

    def measured(cell: Cell, limit: float, in_parts: int) -> dict[str, Any]:
        asked.append((cell, in_parts))
        return {"right3": 0.1 * cell.seed, "relation": ADD_REMOVE, "cpu_seconds": 1800.0}

    monkeypatch.setattr(paper_again, "in_a_process", measured)
    cells, path = [replace(CELL, seed=seed) for seed in range(4)], tmp_path / "kept.jsonl"
    paper_again.run(Kept(path, Cell), cells[:2], hours=8.0, seconds=60.0)
    paper_again.run(Kept(path, Cell), cells, hours=1.5, seconds=60.0)
    assert [cell.seed for cell, _ in asked] == [0, 1, 2]
    paper_again.run(Kept(path, Cell), cells, hours=8.0, seconds=0.0)
    assert len(asked) == 3
    kept = Kept(path, Cell)
    assert kept.seconds == 5400.0
    assert pages.values(kept.results, "right3", trained_on="independent") == pytest.approx([0.0, 0.1, 0.2])
    said = capsys.readouterr().out
    assert said.count("Time is up; start again to go on.") == 2
    assert "[add_remove]" in said


def test_what_takes_too_long_is_measured_from_a_quarter_of_the_rows_or_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        paper_again, "in_a_process", lambda cell, limit, parts: None if parts == 1 else {"cpu_seconds": 5.0}
    )
    assert paper_again.measured(CELL) == {"cpu_seconds": MOST_SECONDS + 5.0, "quarter": True}
    assert PART == 4
    monkeypatch.setattr(paper_again, "in_a_process", lambda *given: None)
    assert "from a quarter of the rows as well" in paper_again.measured(CELL)["left_out"]


def test_pictures_are_kept_as_text() -> None:
    codes = np.zeros((25, 785), dtype=np.int64)
    codes[:, -1] = np.arange(25) % 10
    codes[:, :-1] = 10 * np.arange(25)[:, None]
    found = paper_again.unpacked(paper_again.packed(codes))
    assert found.shape == (2, 10, 28, 28)
    assert found[1, 3, 0, 0] == 10 * 13 * 16 // 256, "the second three"
    assert not paper_again.unpacked(paper_again.packed(codes[:5])).any(axis=(2, 3))[1].any(), (
        "black where there is none"
    )


def test_every_part_has_every_generator_and_what_it_is_compared_with() -> None:
    for part, real in (("table1", FLOOR), ("table2", paper_again.REAL), ("figure3", paper_again.REAL)):
        names = {cell.generator for cell in paper_again.cells_of(part, 0)}
        assert names == {*GENERATORS, real}


def test_the_page_is_what_the_command_writes_from_the_kept_figures() -> None:
    results = Kept(paper_again.KEPT, Cell).results
    page = (ROOT / pages.PAGE).read_text(encoding="utf-8")
    assert page.partition(pages.BEGIN)[2].partition(pages.END)[0] == f"\n\n{pages.section(results)}\n"
    assert (ROOT / pages.PICTURE).read_text(encoding="utf-8") == pages.picture(results)


def test_sentences_and_the_picture_follow_from_the_figures() -> None:
    def distances(near: float, far: float) -> dict[Cell, dict[str, Any]]:
        found = {"independent": far, "privbayes": near, "dp-merf": far, "dp-hp": (near + far) / 2}
        return {
            Cell("table1", "adult", name, epsilon, seed): {
                "printed3": value, "printed4": value, "right3": value, "right4": value, "cpu_seconds": 1.0
            }
            for name, value in found.items() for epsilon in (0.3, 0.1) for seed in (0, 1)
        }  # fmt: skip

    _, order, choice = pages.sentences(distances(0.1, 0.5))
    assert "printed .332 and .377: farther and the same" in pages.sentences(distances(0.3, 0.5))[0]
    assert "printed .332 and .377: nearer and nearer" in pages.sentences(distances(0.1, 0.3))[0]
    assert "`dp-hp` is before `dp-merf` in 4 of 4, and `privbayes` before `dp-hp` in 4 of 4" in order
    assert choice == "Of the generators in the picture, choose `privbayes` for counts (.100)."
    assert "choose `independent` for counts (.100)" in pages.sentences(distances(0.5, 0.1))[-1]
    assert pages.picture(distances(0.1, 0.5)).count("<circle") == 4


def test_the_page_says_what_is_missing_and_marks_what_was_learnt_from_a_quarter() -> None:
    whole = {cell: {"accuracy60": 0.5, "cpu_seconds": 1.0} for cell in paper_again.cells_of("figure3", 0)}
    assert "Figure 3 with one seed. Not measured yet" in pages.section(whole)
    lost = next(cell for cell in whole if cell.trained_on == "kahm")
    fewer = {cell: result for cell, result in whole.items() if cell != lost}
    assert "Figure 3: `kahm`." in pages.section(fewer)
    slow = {**whole, lost: {"accuracy60": 0.4, "quarter": True, "cpu_seconds": 1.0}}
    assert "| `kahm` | .400 ¼ |" in pages.section(slow)
    gone: dict[Cell, dict[str, Any]] = {**whole, lost: {"left_out": "more than 1,800 CPU s", "cpu_seconds": 1.0}}
    assert "Left out: `kahm`: more than 1,800 CPU s." in pages.section(gone)


def test_what_is_left_out_of_one_table_alone_names_it() -> None:
    cell = Cell("table2", "census", "kahm", 1.0, 0, "sound")
    results: dict[Cell, dict[str, Any]] = {
        replace(cell, table="adult"): {"roc_auc": 0.8, "cpu_seconds": 1.0},
        cell: {"left_out": "more than 1,800 CPU s", "cpu_seconds": 1.0},
        replace(cell, trained_on="kernel-sos"): {"left_out": "generator 'kernel-sos' needs less", "cpu_seconds": 1.0},
    }
    said = "\n".join(pages.table_two(results))
    assert "Left out: `kahm` on census (sound): more than 1,800 CPU s." in said
    assert "Left out: `kernel-sos`: it needs less." in said


def test_one_seed_recommends_nothing() -> None:
    one = {Cell("figure3", "mnist", "kahm", 1.0, 0): {"accuracy6000": 0.8}}
    assert pages.sentences(one) == [
        "With one seed so far, the best in the picture are `kahm` for pictures (.800); with more, close ones may "
        "change places."
    ]
    two = {replace(cell, seed=seed): result for cell, result in one.items() for seed in (0, 1)}
    assert pages.sentences(two) == ["Of the generators in the picture, choose `kahm` for pictures (.800)."]
