"""Codes become vectors and come back."""

from __future__ import annotations

import numpy as np
import pytest
from simulated import random_codes, schema

from synth.errors import InputError, SchemaError
from synth.generators.row_encoding import INDICATOR, MIDDLE, RowEncoding
from synth.schema import CategoryColumn, NumberColumn, Schema

DECLARED = schema()
ALL = RowEncoding.of(DECLARED, DECLARED.names)


def stacked(codes: dict[str, np.ndarray], names: tuple[str, ...]) -> np.ndarray:
    return np.stack([codes[name] for name in names], axis=1)


def test_the_layout_follows_the_declaration() -> None:
    assert [column.width for column in ALL.columns] == [1, 4, 2, 5, 3, 1, 3]
    assert ALL.width == 19
    assert [table.column for table in ALL.tables] == list(DECLARED.names)
    assert [table.dimension for table in ALL.tables] == [column.width for column in ALL.columns]


def test_codes_come_back() -> None:
    codes = stacked(random_codes(DECLARED, 500), DECLARED.names)
    codes[:6, 1] = np.arange(200_001 - 3, 200_001 + 3)  # the last places of a long grid and its special codes
    back = ALL.decode(ALL.encode(codes))
    short = [place for place, column in enumerate(DECLARED.modelled) if column.levels <= 4096]
    np.testing.assert_array_equal(back[:, short], codes[:, short])
    # Longer grids are read at the middle of 4096 equal parts.
    levels = DECLARED["income"].levels
    assert np.abs(back[:, 1] - codes[:, 1]).max() <= levels / 4096
    np.testing.assert_array_equal(back[:, 1] >= levels, codes[:, 1] >= levels)
    np.testing.assert_array_equal(back[:, 1][codes[:, 1] >= levels], codes[:, 1][codes[:, 1] >= levels])


def test_a_missing_number_stands_at_the_middle_with_length_one() -> None:
    (vectors,) = RowEncoding.of(DECLARED, ["score"]).encode(np.array([[DECLARED["score"].size - 1]]))
    np.testing.assert_allclose(vectors, [MIDDLE, INDICATOR], atol=2.0**-20)
    for table in ALL.tables:
        assert np.linalg.norm(table.table, axis=1).max() <= 1


def test_decoding_takes_the_nearest_vector() -> None:
    random = np.random.default_rng(0)
    for column, table in zip(ALL.columns, ALL.tables, strict=True):
        if table.bins is not None:
            continue
        points = random.normal(0.5, 0.7, (400, column.width))
        distances = ((points[:, None, :] - table.table[None]) ** 2).sum(axis=2)
        found = column.decode(points)
        chosen = np.take_along_axis(distances, found[:, None], axis=1)[:, 0]
        assert (chosen <= distances.min(axis=1) + 1e-5).all(), column.column.name


@pytest.mark.parametrize("levels", [1, 2, 4096, 4097, 10_000_001])
def test_grids_of_any_length(levels: int) -> None:
    declared = Schema((NumberColumn("x", 0, max(levels - 1, 0.5), 1),))
    vectors = RowEncoding.of(declared, ["x"])
    assert len(vectors.tables[0].table) <= 4096
    ends = np.array([[0], [levels - 1]])
    back = vectors.decode(vectors.encode(ends))
    assert np.abs(back - ends).max() <= levels / 4096
    np.testing.assert_array_equal(vectors.decode(np.array([[-7.0], [9.0]])), ends)


def test_a_category_of_one_value() -> None:
    vectors = RowEncoding.of(Schema((CategoryColumn("only", ("a",)),)), ["only"])
    np.testing.assert_array_equal(vectors.decode(np.array([[-3.0], [2.0]])), [[0], [0]])


def test_no_columns_and_no_rows() -> None:
    nothing = RowEncoding.of(DECLARED, [])
    assert nothing.width == 0
    assert nothing.decode(np.zeros((5, 0))).shape == (5, 0)
    assert nothing.encode(np.zeros((5, 0), dtype=np.int64)).shape == (5, 0)
    assert ALL.decode(np.zeros((0, ALL.width))).shape == (0, len(DECLARED.names))


def test_what_cannot_be_decoded_is_refused() -> None:
    with pytest.raises(InputError, match="19 coordinates"):
        ALL.decode(np.zeros((3, 5)))
    with pytest.raises(InputError, match="not finite"):
        ALL.decode(np.full((1, 19), np.nan))
    with pytest.raises(SchemaError, match="no column called 'nobody'"):
        RowEncoding.of(DECLARED, ["nobody"])
