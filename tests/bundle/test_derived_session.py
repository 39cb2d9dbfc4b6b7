"""Another generator on the same answers: tables that follow from others, by hand and from sealed bundles."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bundle_making import Key, config_of, seal
from test_replay import SMALL

from synth.bundle.recorded_session import RecordedSession, derived_table
from synth.bundle.recorded_session import _agree as agree
from synth.bundle.replay import replay
from synth.bundle.table_files import read_table
from synth.errors import PrivacyError
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.bins import Bins
from synth.privacy.feature_maps import OneHot
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.row_moments import RowMoments
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.reports.measured import MeasuredTable
from synth.schema import NumberColumn, Schema

SCHEMA = Schema((NumberColumn("x", 0, 3, 1),), row_count="public", number_of_units=40)


def moments(move: float) -> RowMoments:
    """A question whose numbers follow from a fit: where they are on another processor, for one."""
    places = np.linspace(-0.5, 0.5, 4)[:, None] + move
    return RowMoments((Lookup("x", np.linspace(0, 0.5, 4)[:, None]),), 1.0 + move, (0.0, 1.0, 0.0), places[:1])


@pytest.mark.parametrize(("move", "same"), [(0.0, True), (1e-12, True), (-1e-12, True), (1e-6, False)])
def test_a_question_that_differs_in_last_digits_is_the_recorded_one(move: float, same: bool) -> None:
    opened = PrivateSession(
        PrivateTable.from_codes(SCHEMA, {"x": np.arange(40) % 4}), PrivacyBudget(1.0, 1e-5, SCHEMA.neighbours)
    )
    said = opened.noisy_sum(moments(0.0), share=0.5, query="q", source="a test")
    session = RecordedSession(SCHEMA, opened.budget, rows=opened.rows, answers=[said])
    if same:
        again = session.noisy_sum(moments(move), share=0.5, query="q", source="a test")
        np.testing.assert_array_equal(again.value, said.value)
    else:
        with pytest.raises(PrivacyError, match="another feature map"):
            session.noisy_sum(moments(move), share=0.5, query="q", source="a test")


def test_arrays_agree_up_to_last_digits_of_floats_alone() -> None:
    ones = np.ones((2, 3))
    assert agree(ones, ones + 1e-12)
    assert not agree(ones, ones + 1e-6)
    assert not agree(ones, np.ones((1, 3))), "of another shape, although numpy would stretch it"
    assert not agree(np.array([10**12]), np.array([10**12 + 1])), "whole numbers have no last digits"
    assert agree(np.array([0, 1]), np.array([0, 1]))
    assert not agree(ones.astype(np.float32), ones + 1e-12), "of another type"
    assert agree(np.zeros(0), np.zeros(0))


def table(columns: tuple[str, ...], bins: list[list[int]], counts: object, noise: float) -> MeasuredTable:
    arrays = tuple(map(Bins.of_codes, bins))
    return MeasuredTable(columns, arrays, np.array(counts, dtype=float), noise, "q")


def wanted(columns: tuple[str, ...], bins: list[list[int]]) -> OneHot:
    return OneHot(columns, tuple(np.array(one, dtype=np.int32) for one in bins))


def test_finer_cells_are_added_up_and_their_noise_with_them() -> None:
    fine = table(("x",), [[0, 1, 2, 3]], [1, 2, 3, 4], 2.0)
    counts, noise = derived_table(wanted(("x",), [[0, 0, 0, 1]]), [fine])  # type: ignore[misc]
    np.testing.assert_allclose(counts, [6, 4])
    assert noise == pytest.approx(2.0 * np.sqrt(3))


def test_a_cell_in_two_wanted_ones_is_shared_out_by_its_codes() -> None:
    coarse = table(("x",), [[0, 0, 0, 1]], [9, 1], 2.0)
    counts, noise = derived_table(wanted(("x",), [[0, 1, 1, 1]]), [coarse])  # type: ignore[misc]
    np.testing.assert_allclose(counts, [3, 7])
    assert noise == pytest.approx(2.0 * np.sqrt(4 / 9 + 1))


def test_larger_tables_are_summed_and_turned_round() -> None:
    pair = table(("x", "y"), [[0, 1], [0, 1, 2]], [[1, 2, 3], [4, 5, 6]], 1.0)
    counts, noise = derived_table(wanted(("y",), [[0, 1, 1]]), [pair])  # type: ignore[misc]
    np.testing.assert_allclose(counts, [5, 16])
    assert noise == pytest.approx(2.0)
    counts, _ = derived_table(wanted(("y", "x"), [[0, 1, 2], [0, 1]]), [pair])  # type: ignore[misc]
    np.testing.assert_allclose(counts, [[1, 4], [2, 5], [3, 6]])
    assert derived_table(wanted(("x", "z"), [[0, 1], [0, 1]]), [pair]) is None


def test_what_only_adds_up_comes_first_and_the_least_noise_among_it() -> None:
    coarse = table(("x",), [[0, 0, 1, 1]], [10, 20], 0.1)
    noisy = table(("x",), [[0, 1, 2, 3]], [1, 2, 3, 4], 5.0)
    clear = table(("x",), [[0, 1, 2, 3]], [1, 2, 3, 5], 1.0)
    for tables in ([coarse, noisy, clear], [clear, coarse, noisy]):
        counts, noise = derived_table(wanted(("x",), [[0, 1, 2, 2]]), tables)  # type: ignore[misc]
        np.testing.assert_allclose(counts, [1, 2, 8])
        assert noise == pytest.approx(np.sqrt(2))
    counts, _ = derived_table(wanted(("x",), [[0, 0, 1, 1]]), [coarse, clear])  # type: ignore[misc]
    np.testing.assert_allclose(counts, [10, 20])


def association(folder: Path, config: object) -> tuple[float, np.ndarray]:
    """Correlation of two columns with a common cause, and the shares of one."""
    codes = read_table(folder / "synthetic.csv", config.schema)  # type: ignore[attr-defined]
    names = config.schema.names  # type: ignore[attr-defined]
    weight, outcome = (codes[:, names.index(name)] for name in ("=weight", "outcome"))
    shares = np.bincount(outcome, minlength=3) / len(outcome)
    return float(np.corrcoef(weight, outcome)[0, 1]), shares


@pytest.mark.thorough
def test_both_controls_are_fitted_to_the_answers_of_the_default(tmp_path: Path, key: Key) -> None:
    config = config_of(generator="dp-hp-adaptive", label="outcome", rows=1500, epsilon=20.0)
    sealed_bundle = seal(config, tmp_path / "run", key)
    found = {}
    for name in ("independent", "independent-by-class"):
        again = replay(sealed_bundle.path, tmp_path / name, generator=name)
        assert not again.identical
        assert "nothing more was spent" in again.lines[0]
        found[name] = association(tmp_path / name, config)
    certified, shares = association(tmp_path / "run", config)
    assert certified > 0.5
    assert found["independent-by-class"][0] > 0.5
    assert abs(found["independent"][0]) < 0.1
    for _, others in found.values():
        assert np.abs(others - shares).sum() < 0.15


def test_the_control_of_a_mean_embedding_comes_from_the_charged_evaluation(tmp_path: Path, key: Key) -> None:
    config = config_of(generator="dp-merf", options=SMALL["dp-merf"], rows=400)
    again = replay(seal(config, tmp_path / "run", key).path, tmp_path / "again", generator="independent")
    assert not again.identical
    assert again.distance is not None


def test_what_follows_from_no_answer_is_refused(bundle: Path, tmp_path: Path, key: Key) -> None:
    with pytest.raises(PrivacyError, match="was never asked"):
        replay(bundle, tmp_path / "choices", generator="dp-hp-adaptive")
    labelled = seal(config_of(label="outcome"), tmp_path / "run", key)
    with pytest.raises(PrivacyError, match="'one-way tables by class' was never asked"):
        replay(labelled.path, tmp_path / "classes", generator="independent-by-class")
