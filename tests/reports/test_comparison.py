"""Runs side by side: what they have in common, whether noise explains a difference, and nothing that is owner only."""

from __future__ import annotations

import pytest

from synth.reports.comparison import ComparedNumber, compared_table, numbers_side_by_side
from synth.reports.evidence import OwnerOnlyEvidence, SafeEvidence


def safe(name: str, value: float | int | str | bool | None, error: float | None = None) -> SafeEvidence:
    return SafeEvidence(id=name, title=f"Title of {name}", value=value, error=error, unit="rows")


def test_numbers_of_at_least_two_runs_stand_side_by_side_in_their_order() -> None:
    first = [safe("b", 1.0, 0.1), safe("only here", 3), safe("a", 2)]
    second = [safe("a", 5), safe("b", 1.3, 0.1)]
    third = [safe("c", 1), safe("a", None)]
    found = numbers_side_by_side([first, second, third])
    assert [one.id for one in found] == ["b", "a"]
    assert found[0].values == (1.0, 1.3, None)
    assert found[0].errors == (0.1, 0.1, None)
    assert found[1].values == (2.0, 5.0, None)


def test_words_and_truths_are_no_numbers() -> None:
    assert numbers_side_by_side([[safe("unit", "one person"), safe("ok", True)]] * 2) == ()


@pytest.mark.parametrize(
    ("values", "errors", "apart"),
    [
        ((1.0, 2.0), (0.5, 0.5), True),
        ((1.0, 1.6), (0.5, 0.5), False),
        ((2.0, 1.0), (0.5, 0.5), True),
        ((1.0, 9.0), (0.5, None), None),
        ((1.0, None), (0.5, None), False),
        ((1.0, 1.1, 2.0), (0.5, 0.5, 0.5), True),
    ],
    ids=["apart", "within", "order", "unknown", "missing", "three"],
)
def test_a_difference_counts_beyond_the_noise_of_both(
    values: tuple[float | None, ...], errors: tuple[float | None, ...], apart: bool | None
) -> None:
    runs = [[safe("x", value, error)] for value, error in zip(values, errors, strict=True)]
    found = numbers_side_by_side([*runs, [safe("x", None)], [safe("x", values[0], errors[0])]])
    assert found[0].apart is apart


def test_owner_only_numbers_never_pass() -> None:
    secret = OwnerOnlyEvidence(id="attack", title="Attack", value=0.5)
    with pytest.raises(TypeError, match="owner only"):
        numbers_side_by_side([[safe("a", 1)], [secret]])


def test_pictures_and_tables_name_the_runs() -> None:
    found = numbers_side_by_side([[safe("x", 1.0, 0.1)], [safe("y", 1)], [safe("x", 2.0, 0.2)]])
    bars = found[0].bars(["first", "second", "third"])
    assert bars.categories == ("first", "third")
    assert bars.series[0].errors == (0.1, 0.2)
    table = compared_table(found, ["first", "second", "third"])
    assert table.header == ("number", "unit", "first", "second", "third", "differ by more than noise")
    assert table.rows == (("Title of x", "rows", 1.0, None, 2.0, "yes"),)


def test_distances_by_coarse_bins_are_told_from_those_by_every_value() -> None:
    entries = [
        SafeEvidence(id=f"marginals.1.{name}", title="Mean distance", value=0.1) for name in ("mean", "coarse_mean")
    ]
    titles = [one.title for one in numbers_side_by_side([entries, entries])]
    assert titles == ["Mean distance", "Mean distance, at most 32 bins a column"]


def test_the_range_of_a_distance_is_drawn_no_lower_than_nought() -> None:
    distance = ComparedNumber("marginals.1.mean", "Mean distance", "total variation", (0.05, 0.3), (0.15, 0.15))
    (series,) = distance.bars(["a", "b"]).series
    assert (series.errors, series.below) == ((0.15, 0.15), (0.05, 0.15))
    (series,) = ComparedNumber("a.r2", "R2", "", (0.05,), (0.15,)).bars(["a"]).series
    assert series.below is None
    (series,) = ComparedNumber("a.b", "Distance", "total variation", (0.05, 0.1), (0.15, None)).bars(["a", "b"]).series
    assert (series.errors, series.below) == (None, None)
