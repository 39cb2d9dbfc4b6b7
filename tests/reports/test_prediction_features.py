"""Coordinates follow from the schema alone; labels know which of their codes are values."""

from __future__ import annotations

import datetime

import numpy as np
import pytest

from synth.reports.features import Features, Target
from synth.schema import CategoryColumn, Column, DateColumn, DateStep, NumberColumn, Schema, YesNoColumn

GAIN = NumberColumn("gain", 0, 10, 1, special=(0, 99), missing=True)


def coordinates(column: Column, codes: list[int]) -> np.ndarray:
    schema = Schema((column, YesNoColumn("label")))
    features = Features.of(schema, "label")
    rows = features.matrix([np.array(codes), np.zeros(len(codes), dtype=np.uint8)])
    assert rows.dtype == np.float32
    assert rows.shape == (len(codes), features.width)
    return rows


def test_a_number_is_its_place_with_an_indicator_for_every_special_code() -> None:
    rows = coordinates(GAIN, [0, 5, 10, 11, 12, 13])
    np.testing.assert_allclose(
        rows, [[0, 0, 0, 0], [0.5, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [1, 0, 1, 0], [0.5, 0, 0, 1]]
    )


def test_a_date_is_its_place() -> None:
    day = datetime.date
    rows = coordinates(DateColumn("on", day(2020, 1, 1), day(2020, 1, 3), DateStep.DAY), [0, 1, 2])
    np.testing.assert_allclose(rows, [[0], [0.5], [1]])


def test_a_category_has_an_indicator_for_each_value_and_two_values_one() -> None:
    np.testing.assert_allclose(
        coordinates(CategoryColumn("c", ("a", "b"), missing=True), [2, 0]), [[0, 0, 1], [1, 0, 0]]
    )
    np.testing.assert_allclose(coordinates(YesNoColumn("y"), [0, 1]), [[0], [1]])
    np.testing.assert_allclose(coordinates(CategoryColumn("one", ("a",)), [0, 0]), [[0], [0]])


def test_a_long_list_is_cut_into_blocks_of_neighbours() -> None:
    column = CategoryColumn("code", tuple(f"v{place}" for place in range(2000)), other=True, missing=True)
    rows = coordinates(column, [0, 1, 1999, 2000, 2001])
    assert rows.shape[1] == 1 + 128 + 2
    assert rows[:, 0].tolist() == pytest.approx([0, 1 / 1999, 1, 0.5, 0.5])
    assert rows[:, 1:].argmax(axis=1).tolist() == [0, 0, 127, 128, 129]
    assert (rows[:, 1:].sum(axis=1) == 1).all()
    schema = Schema((column, YesNoColumn("label")))
    assert Features.of(schema, "label").shortened == ("code",)


def test_many_columns_share_the_width() -> None:
    lists = tuple(CategoryColumn(f"c{place}", tuple(map(str, range(200)))) for place in range(40))
    features = Features.of(Schema((*lists, YesNoColumn("label"))), "label")
    assert features.width <= 1024
    assert len(features.shortened) == 40
    numbers = tuple(NumberColumn(f"n{place}", 0, 1, 1) for place in range(1500))
    assert Features.of(Schema((*numbers, YesNoColumn("label"))), "label").width == 1500


def test_a_label_alone_has_no_features() -> None:
    features = Features.of(Schema((YesNoColumn("label"),)), "label")
    assert features.width == 0
    assert features.matrix([np.zeros(3, dtype=np.uint8)]).shape == (3, 0)


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (CategoryColumn("l", ("a", "b")), "classes"),
        (YesNoColumn("l"), "classes"),
        (NumberColumn("l", 0, 1, 1), "classes"),
        (NumberColumn("l", 0, 5, 1), "number"),
        (DateColumn("l", datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)), "number"),
    ],
)
def test_what_kind_a_label_is(column: Column, kind: str) -> None:
    assert Target.of(Schema((column, YesNoColumn("other"))), "l").kind == kind


def test_missing_and_special_labels_outside_the_bounds_are_not_known() -> None:
    target = Target.of(Schema((YesNoColumn("x"), GAIN)), "gain")
    codes = [np.zeros(5, dtype=np.uint8), np.array([3, 11, 12, 13, 10])]
    usable = target.usable(codes)
    assert usable.tolist() == [0, 1, 4]
    assert target.values(codes, usable).tolist() == [3, 0, 10]
    town = Target.of(Schema((CategoryColumn("town", ("a", "b"), other=True, missing=True), YesNoColumn("x"))), "town")
    assert town.n_classes == 3
    assert town.usable([np.array([0, 2, 3]), np.zeros(3, dtype=np.uint8)]).tolist() == [0, 1]
