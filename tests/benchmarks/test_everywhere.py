"""Tables of many kinds: which are held back, a run that goes on, cells without a result, verdicts, the written page."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import everywhere
import everywhere_pages as pages
import everywhere_tables
import numpy as np
import pytest
from everywhere import AIM, LAST, OURS, REAL, Cell
from everywhere_tables import HELD_BACK, OPEN, Listed
from kept import Kept
from tables import TABLES, Table

from synth.schema import CategoryColumn, NumberColumn, Schema

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = Schema((NumberColumn("x", 0, 99, 1), CategoryColumn("y", ("a", "b"))), row_count="private")


def tiny() -> Table:
    random = np.random.default_rng(5)
    label = random.integers(0, 2, 240)
    number = np.clip(random.normal(40 + 20 * label, 8), 0, 99).astype(np.int64)
    return Table("tiny", SCHEMA, "y", np.column_stack([number, label]))


@pytest.fixture
def two_tables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Replace the list by one open table and one that is held back; return where results are kept."""
    open_one = Listed("tiny", "kind", "here", tiny)
    held = Listed("later", "kind", "here", lambda: replace(tiny(), name="later"), held_back=True, at_most=90)
    for name, listed in (("OPEN", {"tiny": open_one}), ("HELD_BACK", {"later": held})):
        monkeypatch.setattr(everywhere, name, listed)
    monkeypatch.setattr(everywhere, "LISTED", {"tiny": open_one, "later": held})
    monkeypatch.setenv("HERMITAGE_DATA", str(tmp_path))
    return tmp_path / "kept.jsonl"


def started(monkeypatch: pytest.MonkeyPatch, kept: Path, *words: str) -> None:
    monkeypatch.setattr("sys.argv", ["everywhere", "--kept", str(kept), *words])
    everywhere.main()


def test_both_halves_have_the_same_kinds_and_one_is_held_back() -> None:
    kinds = [[each.kind for each in half.values()] for half in (OPEN, HELD_BACK)]
    assert kinds[0] == kinds[1]
    assert len(set(kinds[0])) == len(kinds[0]) >= 8
    assert not OPEN.keys() & HELD_BACK.keys()
    assert not HELD_BACK.keys() & set(TABLES), "no other benchmark can be asked for it"
    assert all(each.held_back for each in HELD_BACK.values())
    assert not any(each.held_back for each in OPEN.values())


def test_declarations_of_what_is_held_back_can_be_made_without_its_rows() -> None:
    for columns, many in (
        (everywhere_tables.nuclei, 31),
        (everywhere_tables.digits, 65),
        (everywhere_tables.cultivars, 14),
    ):
        assert len(Schema(tuple(columns())).columns) == many


@pytest.mark.thorough
def test_a_run_goes_on_and_reads_what_is_held_back_only_when_told(
    monkeypatch: pytest.MonkeyPatch, two_tables: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--epsilons", "1", "--seeds", "1", "--generators", "independent")
    started(monkeypatch, two_tables, *words)
    results = Kept(two_tables, Cell).results
    assert [(cell.table, cell.method) for cell in results] == [("tiny", REAL), ("tiny", "independent")]
    real, made = results.values()
    assert {"tv2", "auc", "ks", "mean", "tail", "cpu_seconds", "mebibytes"} <= made.keys()
    assert "tv3" not in made, "there are two columns"
    assert real["auc"] > 0.9
    assert made["tv2"] > real["tv2"]
    before = two_tables.read_text()
    started(monkeypatch, two_tables, *words)
    assert two_tables.read_text() == before
    with pytest.raises(SystemExit):
        started(monkeypatch, two_tables, "--tables", "later", *words)
    started(monkeypatch, two_tables, "--last", "--hours", "0", *words)
    assert "held back are read now" in capsys.readouterr().out
    (note,) = [result for cell, result in Kept(two_tables, Cell).results.items() if cell.table == LAST]
    assert note["at"].startswith("20")


def test_a_method_without_a_result_is_a_cell_that_says_why(monkeypatch: pytest.MonkeyPatch, two_tables: Path) -> None:
    def cell(method: str, epsilon: float, seed: int = 0) -> Cell:
        return Cell("tiny", method, epsilon, seed, everywhere.code_of(method))

    monkeypatch.setattr(everywhere, "MOST_MEBIBYTES", 16)
    monkeypatch.setitem(everywhere.LISTED, "tiny", Listed("tiny", "kind", "here", lambda: replace(tiny(), label=None)))
    kept = Kept(two_tables, Cell)
    wanted = [
        cell("independent", 1.0),
        cell("independent", 3.0),
        cell("independent", 1.0, 1),
        cell("independent-by-class", 1.0),
    ]
    everywhere.run(kept, wanted, hours=1.0)
    whys = [kept.results[each]["left_out"] for each in wanted]
    assert whys[0] == "no result in 16 MiB"
    assert whys[1] == whys[2] == "no result in 16 MiB (tried at epsilon 1, seed 0)"
    assert "needs a label" in whys[3]
    assert not everywhere.known_failure(cell("independent", 0.3), kept.results)
    assert not everywhere.known_failure(replace(cell("independent", 1.0), code="other"), kept.results)


def test_errors_of_means_and_tails() -> None:
    real = np.column_stack([np.arange(100), np.zeros(100, dtype=np.int64)])
    made = real.copy()
    made[:, 0] = np.minimum(real[:, 0] * 2, 99)
    found = everywhere.number_errors(replace(tiny(), codes=real), real, made)
    assert found["mean"] == found["worst_mean"] == pytest.approx(abs(made[:, 0].mean() - 49.5) / 49.5)
    assert found["tail"] == pytest.approx(1 / 98), "the 99th of 100 numbers"
    below = replace(tiny(), schema=Schema((NumberColumn("x", -50, 49, 1), SCHEMA.columns[1])))
    assert everywhere.number_errors(below, real, made)["mean"] == pytest.approx(
        abs(made[:, 0].mean() - 49.5) / np.arange(100).std()
    )


def test_first_seeds_and_middle_budgets_of_all_tables_come_first() -> None:
    cells = list(everywhere.cells_of(["a", "b"], [OURS, "dp-merf"], [1.0, 0.3, 10.0], 2))
    assert [(cell.table, cell.epsilon, cell.seed) for cell in cells if cell.method == OURS] == [
        (table, epsilon, seed) for seed in (0, 1) for epsilon in (1.0, 0.3, 10.0) for table in ("a", "b")
    ]
    assert [(cell.table, cell.epsilon) for cell in cells if cell.method == "dp-merf"] == [("a", 1.0), ("b", 1.0)]


def test_code_is_the_same_when_only_its_words_change() -> None:
    one, other = 'def f():\n    """Say."""\n    return 1\n', "# why\ndef f():\n    return  1\n"
    assert everywhere._statements(one) == everywhere._statements(other)
    assert everywhere._statements(one) != everywhere._statements(one.replace("1", "2"))
    assert everywhere.code_of(OURS) != everywhere.code_of("independent")


def figures(ours: dict[int, float], aim: dict[int, float], measure: str = "tv3", code: str = "1") -> dict[Cell, Any]:
    both = {OURS: ours, AIM: aim}
    return {
        Cell("adult", name, epsilon, seed, code): {measure: value * epsilon, "tv2": 0.1, "cpu_seconds": 1.0}
        for name, found in both.items() for epsilon in (1.0, 0.3) for seed, value in found.items()
    }  # fmt: skip


def test_a_verdict_is_that_of_paired_seeds_with_spreads_of_all_budgets() -> None:
    results = figures({0: 0.10, 1: 0.12, 2: 0.11}, {0: 0.12, 1: 0.13, 2: 0.14})
    gaps = np.log([0.12 / 0.10, 0.13 / 0.12, 0.14 / 0.11])
    verdict = pages.Figures(results).verdict("tv3", "adult", 1.0, AIM)
    assert verdict is not None
    assert verdict.gap == pytest.approx(gaps.mean())
    assert verdict.error == pytest.approx(gaps.std(ddof=1) / math.sqrt(3)), "the same at both epsilons"
    assert verdict.word == "ahead"
    assert (
        pages.Figures(figures({0: 0.8, 1: 0.7}, {0: 0.7, 1: 0.8}, "auc")).verdict("auc", "adult", 1.0, AIM).word
        == "within"
    )
    alone = pages.Figures(figures({0: 0.8}, {0: 0.81}, "auc")).verdict("auc", "adult", 1.0, AIM)
    assert alone is not None
    assert (alone.word, alone.error) == ("behind", None)


def test_the_page_says_when_ours_changed_after_tables_were_first_read() -> None:
    for code, changed in (("1", False), ("0", True)):
        note = {Cell(LAST, LAST, 0.0, 0, code): {"at": "2026-01-02 03:04", "cpu_seconds": 0.0}}
        page = pages.section(figures({0: 0.1, 1: 0.1}, {0: 0.12, 1: 0.12}) | note)
        assert "first read on 2026-01-02 03:04 (1 starts" in page
        assert ("has changed since" in page) == changed


def test_figures_of_earlier_code_are_shown_as_old() -> None:
    results = figures({0: 0.1, 1: 0.1}, {0: 0.12, 1: 0.12})
    newer = {Cell("adult", OURS, 1.0, 0, "2"): {"tv3": 0.05, "tv2": 0.1, "cpu_seconds": 1.0}}
    found = pages.Figures(results | newer)
    assert found.mean("tv3", "adult", OURS, 1.0) == 0.05
    assert not found.shown("tv3", "adult", OURS, 1.0).endswith(pages.OLD)
    assert found.shown("tv3", "adult", OURS, 0.3).endswith(pages.OLD)


def test_the_page_is_what_the_command_writes_from_the_kept_figures() -> None:
    results = Kept(everywhere.KEPT, Cell).results
    page = (ROOT / pages.PAGE).read_text(encoding="utf-8")
    assert page.partition(pages.BEGIN)[2].partition(pages.END)[0] == f"\n\n{pages.section(results)}\n"
    assert (ROOT / pages.PICTURE).read_text(encoding="utf-8") == pages.picture(results)
