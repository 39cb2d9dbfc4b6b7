"""What many columns tell together, from the bytes of a file to the sealed bundle, and bugs planted on the way."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from audited_runs import WORLDS, start_home
from pairs_and_sets import BOTH, DENSE, LAWS, NAMED, PARITY, REGRESSION, Together, first_broken, follow, small_fits
from pairs_and_sets_faults import FAULTS
from reading_here import read_here

from synth.reading import reader

QUICK = [
    (REGRESSION, "add or remove", "all ends, and against its class"),
    (PARITY, "replace one", "against its class"),
]
"""In short, before all tables, worlds and neighbours with ``-m audit``; and which the default command runs."""
WHEN = [(), pytest.mark.thorough]

EVERY = [
    pytest.param(
        *case, marks=WHEN[QUICK.index(case)] if case in QUICK else pytest.mark.audit, id=", ".join(map(str, case))
    )
    for table in (DENSE, BOTH, REGRESSION, NAMED, PARITY)
    for case in itertools.product([table], WORLDS, table.brought)
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return start_home(tmp_path_factory.mktemp("pairs and sets") / "home")


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(reader, "ask", read_here)
    with small_fits():
        yield


@pytest.mark.parametrize(("table", "world", "brought"), EVERY)
def test_a_neighbour_moves_nothing_but_exact_answers(
    table: Together, world: str, brought: str, home: Path, tmp_path: Path
) -> None:
    run = follow(table, world, brought, home, more=(table, world, brought) not in QUICK)
    for law in LAWS:
        law(run, tmp_path)


@pytest.mark.audit
@pytest.mark.parametrize("planted", FAULTS)
def test_a_planted_bug_from_bytes_to_bundle_is_noticed(
    planted: str,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[..., None],
) -> None:
    plant, cases = FAULTS[planted]
    plant(monkeypatch)
    noticed = first_broken(cases, home, tmp_path)
    record_property("law", noticed)
    assert noticed is not None, f"nobody notices: {planted}"
