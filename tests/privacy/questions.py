"""A small declared table and one question of every kind, for tests of the boundary."""

from __future__ import annotations

import numpy as np

from synth.privacy.features import Constant, FeatureMap, Fourier, Lookup, OneHot, Product, RowMoments, Stack
from synth.schema import CategoryColumn, NumberColumn, PrivacyUnit, Schema

SIZES = {"age": 12, "region": 4, "income": 301, "outcome": 2}


def small_schema(row_count: str = "public", unit: PrivacyUnit | None = None) -> Schema:
    return Schema(
        (
            NumberColumn("age", 0, 10, 1, missing=True),
            CategoryColumn("region", ("north", "south", "east"), missing=True),
            NumberColumn("income", 0, 300, 1),
            CategoryColumn("outcome", ("well", "ill")),
        ),
        unit=unit or PrivacyUnit(),
        row_count=row_count,
    )


def small_codes(n_rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.integers(0, size, n_rows) for name, size in SIZES.items()}


def every_kind_of_map(seed: int = 1) -> dict[str, FeatureMap]:
    rng = np.random.default_rng(seed)

    def lookup(column: str, width: int, bins: np.ndarray | None = None) -> Lookup:
        rows = SIZES[column] if bins is None else int(bins.max()) + 1
        # Not negative, as Hermite features nearly are not: some maps have the small diameter and some do not.
        return Lookup(column, np.abs(rng.normal(size=(rows, width))), bins)

    label = OneHot(("outcome",), (None,), (2,))
    fourier = Fourier(
        ("age", "income"), (np.arange(12), np.arange(301) * 255 // 300), rng.integers(-2048, 2048, (20, 2))
    )
    coarse = np.arange(301) // 30
    signed = Lookup("income", rng.normal(size=(301, 5)))
    rows = (signed, lookup("age", 4), lookup("region", 2))
    offsets = rng.normal(size=(4, 11)) / 4
    projection = np.linalg.qr(rng.normal(size=(11, 3)))[0]
    pairs = RowMoments(rows, 0.7, (0.0, 0.0, 1.0), offsets[:1])
    every_power = RowMoments(rows, 1.1, (0.4, 0.5, 0.7), offsets, OneHot(("region",), (None,), (4,)), projection)
    return {
        "constant": Constant(),
        "one-hot": OneHot(("region",), (None,), (4,)),
        "joint one-hot": OneHot(("age", "income"), (np.arange(12) // 4, coarse)),
        "lookup": lookup("income", 6),
        "binned lookup": lookup("income", 3, coarse),
        "signed lookup": signed,
        "lookup by label": Product((lookup("age", 5), label)),
        "label by lookup": Product((label, lookup("age", 5), OneHot(("region",), (None,), (4,)))),
        "product": Product((lookup("age", 4), lookup("income", 3, coarse), label)),
        "wide product": Product((lookup("age", 4), signed, lookup("region", 3), label)),
        "fourier": fourier,
        "fourier by label": Product((fourier, label)),
        "pairs of rows": pairs,
        "every power of rows": every_power,
        "powers of rows by label": Product((label, every_power)),
        "rows and labels": Stack((label, RowMoments(rows, 0.5, (0.0, 1.0, 0.0), projection=projection)), (0.6, 0.75)),
        "stack": Stack((OneHot(("age",), (None,), (12,)), lookup("income", 4), Constant()), (0.6, 0.6, 0.5)),
        "stack of everything": Stack(
            (Product((fourier, label)), Product((lookup("age", 4), lookup("income", 3, coarse))), label),
            (0.5, 0.7, 0.5),
        ),
        "stack by label": Product((Stack((fourier, lookup("age", 4), Constant()), (0.7, 0.5, 0.5)), label)),
    }
