"""The audit of noisy rows: every layer for every asker, and every planted bug noticed by some layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import row_layers
from choosing import few
from row_askers import ASKERS
from row_faults import ROW_FAULTS
from worlds import far_rows, ordinary_rows

from synth.errors import PrivacyError

BROUGHT = {"far": far_rows(1)[0], "ordinary": ordinary_rows(3, 1, seed=7)[2]}


@pytest.mark.parametrize("name", ASKERS)
def test_t0_calibration(name: str) -> None:
    row_layers.t0_calibration(name)


@pytest.mark.four_cases
@pytest.mark.parametrize("brought", few(BROUGHT, kept=("far",)))
@pytest.mark.parametrize("name", ASKERS)
def test_t1_one_cell(name: str, brought: str) -> None:
    row_layers.t1_cell(name, BROUGHT[brought])


@pytest.mark.parametrize("name", ASKERS)
def test_t1_one_row(name: str) -> None:
    row_layers.t1_row(name)


@pytest.mark.four_cases
@pytest.mark.parametrize("name", ASKERS)
def test_t1_what_is_made(name: str) -> None:
    row_layers.t1_made(name)


@pytest.mark.parametrize("name", few(ASKERS, kept=list(ASKERS)[:1]))
def test_t2_laws(name: str) -> None:
    row_layers.t2_laws(name)


@pytest.mark.parametrize("name", ASKERS)
def test_t3_metadata(name: str, tmp_path: Path) -> None:
    row_layers.t3_metadata(name, tmp_path)


@pytest.mark.thorough
@pytest.mark.parametrize("name", [name for name in ASKERS if not name.endswith("by hand")])
def test_t4_neighbours_cannot_be_told_apart(name: str) -> None:
    row_layers.t4_distinguishing(name)


@pytest.mark.parametrize("name", ["cell", "cell, part of a range"])
def test_t4_cells_of_a_row_are_told_apart_by_no_more_than_is_stated(name: str) -> None:
    proven, stated = row_layers.t4_rows_of_cells(name)
    # Many times what is promised for a cell, which is why the certificate says so.
    assert 2.0 < proven <= stated


def test_accounts_stay_apart(tmp_path: Path) -> None:
    row_layers.accounts_stay_apart(tmp_path)


def layers_of(name: str, folder: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    if name == "accounts":
        yield "accounts", lambda: row_layers.accounts_stay_apart(folder)
        return
    yield "T0", lambda: row_layers.t0_calibration(name)
    yield "T1", lambda: row_layers.t1_cell(name, BROUGHT["far"])
    yield "T1 rows", lambda: row_layers.t1_row(name)
    yield "T3", lambda: row_layers.t3_metadata(name, folder)
    yield "T1 made", lambda: row_layers.t1_made(name)
    yield "T4", lambda: row_layers.t4_distinguishing(name)
    yield "T2", lambda: row_layers.t2_laws(name)


REPEATED = ("rows in the order of the table but for a turn", "label not randomised")
"""Of faults that another of their kind stands for: rows in their own order, and a label that is kept too often."""


@pytest.mark.four_cases
@pytest.mark.parametrize("planted", few(ROW_FAULTS, kept=[name for name in ROW_FAULTS if name not in REPEATED]))
def test_every_planted_bug_is_noticed(
    planted: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, record_property: Callable[..., None]
) -> None:
    name, plant = ROW_FAULTS[planted]
    plant(monkeypatch)
    for layer, check in layers_of(name, tmp_path):
        try:
            check()
        except (AssertionError, PrivacyError):
            record_property("layer", layer)
            return
    pytest.fail(f"nobody notices: {planted}")
