"""A generator that chooses privately what to measure: forecast, report, bundle, verification and replay."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import pytest
from bundle_making import Key, checked, config_of, members_of, simulated_codes
from candidates import candidate_of

from synth.bundle.replay import replay
from synth.generators import GENERATORS, Card, Generator, GeneratorTask, State
from synth.models.simplex import project_to_simplex
from synth.privacy.accounting import epsilon_of_receipts
from synth.privacy.answers import AnswerSource, NoisyAnswer, of_kind
from synth.privacy.feature_maps import OneHot, Stack
from synth.privacy.selection import Candidate, Selection
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress, Progress
from synth.reports.document import published_evidence
from synth.reports.evidence import SafeEvidence
from synth.reports.figures import Bars, HeatMap
from synth.reports.forecast import budget_parts, forecast
from synth.reports.measured import BAR, compare_measured
from synth.schema import CategoryColumn, ModelledColumn, NumberColumn, PrivacyUnit, RunConfig
from synth.services.pipeline import FittedRun, Sealing, fit_and_sample, seal_release
from synth.services.planning import forecast_lines

COLUMNS = (
    NumberColumn("age", 0, 99, 1, missing=True),
    NumberColumn("income", 0, 999, 1, fallback=0),
    CategoryColumn("region", ("north", "south", "east", "west"), fallback="north"),
    CategoryColumn("job", tuple(f"job {place}" for place in range(12)), other=True),
    CategoryColumn("outcome", ("well", "ill"), fallback="well"),
)
ROUNDS = 3
FIRST_SHARE = 0.3


@dataclass(frozen=True)
class NoOptions:
    """It has none."""


class Chooser(Generator):
    """One-way tables at two resolutions, then rounds of choosing a table of two or three columns and measuring it."""

    def __init__(self, task: GeneratorTask, options: NoOptions) -> None:
        self._columns = task.schema.modelled
        self._tables: list[np.ndarray] = []

    def fit(self, session: AnswerSource, progress: Progress) -> Self:
        parts = [OneHot((column.name,), (None,), (column.size,)) for column in self._columns]
        wide = [OneHot((column.name,), (bins_of(column),)) for column in self._columns if column.levels > 0]
        question = Stack((*parts, *wide), (math.sqrt(1 / (len(parts) + len(wide))),) * (len(parts) + len(wide)))
        release = session.noisy_sum(question, share=FIRST_SHARE, query="one-way tables", source="generator chooser")
        ends = np.cumsum([part.dimension for part in question.parts])
        pieces = np.split(release.value / question.weights[0], ends[:-1])
        self._tables = [project_to_simplex(piece / max(piece.sum(), 1.0)) for piece in pieces[: len(parts)]]
        taken: set[tuple[str, ...]] = set()
        for number in range(ROUNDS):
            share = session.remaining_share / (ROUNDS - number)
            chosen = session.noisy_max(
                self._candidates(session.rows.value, taken),
                share=share / 5,
                query=f"choice {number}",
                source="generator chooser",
            )
            taken.add(chosen.candidate.columns)
            left = session.remaining_share if number == ROUNDS - 1 else share - share / 5
            session.noisy_sum(chosen.candidate.one_hot, share=left, query=f"table {number}", source="generator chooser")
        return self

    def _candidates(self, rows: float, taken: set[tuple[str, ...]]) -> list[Candidate]:
        bins = [bins_of(column) for column in self._columns]
        ways = [np.bincount(one, weights=table) for one, table in zip(bins, self._tables, strict=True)]
        found = []
        for places in (*itertools.combinations(range(len(ways)), 2), (2, 3, 4)):
            table = rows * np.asarray(np.einsum("i,j->ij", ways[places[0]], ways[places[1]]))
            if len(places) == 3:
                table = table[:, :, None] * ways[places[2]]
            names = tuple(self._columns[place].name for place in places)
            if names in taken:
                continue
            found.append(candidate_of(names, table, penalty=table.size, bins=tuple(bins[place] for place in places)))
        return found

    def sample(self, n_rows: int, seed: int) -> np.ndarray:
        random = np.random.default_rng(seed)
        drawn = [random.choice(len(table), n_rows, p=table / table.sum()) for table in self._tables]
        return np.stack(drawn, axis=1)

    def state(self) -> State:
        return {f"table.{place}": table.copy() for place, table in enumerate(self._tables)}

    @classmethod
    def from_state(cls, task: GeneratorTask, options: NoOptions, state: State) -> Self:
        generator = cls(task, options)
        generator._tables = [state[f"table.{place}"] for place in range(len(generator._columns))]
        return generator


Chooser.card = Card(
    name="chooser",
    title="Chooser",
    summary="For tests.",
    best_for="Tests.",
    loses_where="Everywhere else: it draws every column by itself.",
    reference="None.",
    made_by=Chooser,
    options=NoOptions,
    measures_one_ways=True,
)


def bins_of(column: ModelledColumn) -> np.ndarray:
    """Eight parts of a number's range; what is no number, code by code."""
    grid = np.arange(column.levels) * 8 // max(column.levels, 1)
    return np.concatenate([grid, grid.max(initial=-1) + 1 + np.arange(column.size - column.levels)])


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(GENERATORS, "chooser", Chooser.card)


SITUATIONS = [
    pytest.param(1, "public", id="replace one"),
    pytest.param(1, "private", id="add or remove"),
    pytest.param(3, "private", id="add or remove three rows"),
]


def settings_of(rows_per_unit: int, row_count: str) -> RunConfig:
    unit = PrivacyUnit(rows_per_unit=rows_per_unit)
    changes = {"unit": unit, "row_count": row_count, "generator": "chooser", "label": "outcome", "domain_source": {}}
    return config_of(COLUMNS, number_of_units=3000 if row_count == "public" else None, holdout=0.0, **changes)


def measured_on(config: RunConfig, n_rows: int = 3000) -> tuple[FittedRun, dict[str, np.ndarray]]:
    codes = simulated_codes(config.schema, n_rows)
    return fit_and_sample(config, PrivateTable.from_codes(config.schema, codes), NullProgress()), codes


def test_it_is_a_generator() -> None:
    assert isinstance(Chooser(GeneratorTask(settings_of(1, "public").schema), NoOptions()), Generator)


@pytest.mark.parametrize(("rows_per_unit", "row_count"), SITUATIONS)
def test_the_forecast_knows_what_comes_before_the_first_choice(rows_per_unit: int, row_count: str) -> None:
    config = settings_of(rows_per_unit, row_count)
    found = forecast(config)
    assert sum(part.share for part in found.parts) == pytest.approx(1)
    generator = budget_parts(config)[-1].share
    by_name = {part.name: part.share for part in found.parts}
    assert by_name["one-way tables"] == pytest.approx(FIRST_SHARE * generator, rel=1e-6)
    assert by_name["private choices"] == pytest.approx((1 - FIRST_SHARE) * generator, rel=1e-6)
    assert ("row count" in by_name) == (row_count == "private")
    lines = forecast_lines(config)
    assert any("one-way tables (epsilon" in line for line in lines)
    assert any("private choices (epsilon" in line for line in lines)
    # What the session then does is what was forecast.
    measured, _ = measured_on(config)
    shares = [receipt.mu_squared_units for receipt in measured.receipts]
    of_first = next(receipt for receipt in measured.receipts if receipt.query == "one-way tables")
    assert of_first.mu_squared_units / sum(shares) == pytest.approx(by_name["one-way tables"], rel=1e-5)
    assert {cell.columns: cell.noise_std for cell in found.columns} == {
        (name,): pytest.approx(of_first.noise_scale * math.sqrt(7)) for name in config.schema.names
    }


@pytest.mark.parametrize(("rows_per_unit", "row_count"), SITUATIONS)
def test_a_run_is_sealed_verified_and_replayed(rows_per_unit: int, row_count: str, tmp_path: Path, key: Key) -> None:
    config = settings_of(rows_per_unit, row_count)
    measured, _ = measured_on(config)
    assert len(of_kind(measured.answers, Selection)) == ROUNDS
    assert epsilon_of_receipts(measured.receipts, config.delta) <= config.epsilon
    (tmp_path / "run").mkdir()
    seal_release(config, measured, tmp_path / "run", sealing=Sealing(signer=key), progress=NullProgress())
    bundle = tmp_path / "run" / "bundle.zip"
    verdict = checked(bundle, key.public_key_pem)
    assert verdict.ok, verdict.lines
    for number, changes in enumerate(({}, {"refit": True})):
        again = replay(bundle, tmp_path / str(number), **changes)
        assert again.identical, again.lines
    page = members_of(bundle)["report.html"].decode()
    assert "out of place" in page
    assert "Smallest joint count to trust" in page
    report = json.loads(members_of(bundle)["report.json"])
    assert report["marginals"]["1"]["evaluated"] == len(COLUMNS)
    assert report["marginals"]["2"]["evaluated"] >= 1
    assert "numbers in the report that follow from the noisy answers alone" in verdict.json["checked"]
    told = {entry["id"]: entry["value"] for entry in report["evidence"]}
    chosen = {one.candidate.columns for one in of_kind(measured.answers, Selection)}
    pairs = {pair for columns in chosen for pair in itertools.combinations(sorted(columns), 2)}
    assert told["relations.measured"] == len(pairs)
    assert told["relations.unknown"] == told["relations.of"] - told["relations.clear"] >= 10 - len(pairs)
    assert "What was not kept" in page


def evidence_of(config: RunConfig, measured: FittedRun, codes: np.ndarray) -> dict[str, SafeEvidence]:
    return {
        entry.id: entry
        for entry in published_evidence(codes, of_kind(measured.answers, NoisyAnswer), config, rows=measured.rows)
    }


def test_the_report_shows_every_measured_table_and_no_other() -> None:
    config = settings_of(1, "private")
    measured, codes = measured_on(config)
    chosen = {selection.candidate.columns for selection in of_kind(measured.answers, Selection)}
    found = evidence_of(config, measured, measured.codes)
    assert {type(entry) for entry in found.values()} == {SafeEvidence}
    pairs = {pair for columns in chosen for pair in itertools.combinations(columns, 2)}
    assert found["marginals.2.evaluated"].value == len(pairs)
    assert found["marginals.3.evaluated"].value == len([one for one in chosen if len(one) == 3])
    assert f"{len(pairs)} of 10 pairs of columns" in found["marginals.2.mean"].sentence
    square, bars = found["marginals.2.map"].figures
    assert isinstance(square, HeatMap)
    filled = {
        (left, right)
        for left, row in zip(square.names, square.values, strict=True)
        for right, value in zip(square.names, row, strict=True)
        if value is not None and left < right
    }
    assert filled == {tuple(sorted(pair)) for pair in pairs}
    assert isinstance(bars, Bars)
    assert set(bars.categories) == {" + ".join(pair) for pair in pairs}
    synthetic = bars.series[0]
    assert list(synthetic.values) == sorted(synthetic.values, reverse=True)
    assert synthetic.errors is not None
    assert min(synthetic.errors) > 0
    table = found["accuracy.joint"].figures[0]
    assert {row[0] for row in table.rows} == {
        " + ".join(one) for one in (*pairs, *(one for one in chosen if len(one) == 3))
    }
    # The private rows themselves differ from the noisy counts by noise alone, which is hardly ever half as much again.
    exact = evidence_of(config, measured, np.column_stack([codes[name] for name in config.schema.names]))
    bars = exact["marginals.2.map"].figures[-1]
    assert isinstance(bars, Bars)
    assert all(
        value <= 1.5 * error for value, error in zip(bars.series[0].values, bars.series[0].errors or (), strict=True)
    )


def test_bars_of_joint_counts_cover_95_percent() -> None:
    config = settings_of(1, "private")
    inside, total, kinds = 0, 0, set[int]()
    while total < 4000 or kinds != {1, 2, 3}:
        measured, codes = measured_on(config)
        synthetic = [codes[name] for name in config.schema.names]
        for one in compare_measured(synthetic, config.schema, of_kind(measured.answers, NoisyAnswer), measured.rows):
            cells = tuple(bins[codes[name]] for name, bins in zip(one.columns, one.bins, strict=True))
            exact = np.zeros(one.measured.shape)
            np.add.at(exact, cells, 1)
            inside += int((np.abs(one.measured - exact) <= BAR * one.noise_std).sum())
            total += exact.size
            kinds.add(len(one.columns))
    assert 0.93 < inside / total < 0.97
