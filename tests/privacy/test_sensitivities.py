"""Whoever checks a receipt works out the sensitivity that the session planned its noise by, for every kind of map."""

from __future__ import annotations

import math

import numpy as np
import pytest
from candidates import candidate_of

from synth.privacy.accounting import PrivacyBudget
from synth.privacy.answers import sensitivity_of_sum
from synth.privacy.feature_maps import Constant, FeatureMap, OneHot, Stack
from synth.privacy.more.forests import Forest
from synth.privacy.more.fourier import Fourier
from synth.privacy.more.linear_guesses import LinearGuess
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.losses import Losses
from synth.privacy.more.products import Product
from synth.privacy.more.row_moments import RowMoments
from synth.privacy.selection import sensitivity_of_choice
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.schema import CategoryColumn, NumberColumn, PrivacyUnit, Schema

COLUMNS = (NumberColumn("x", 0, 9, 1), NumberColumn("y", 0, 9, 1), CategoryColumn("c", ("a", "b", "d")))
RELATIONS = {
    "replace one": {"row_count": "public", "unit": PrivacyUnit()},
    "add or remove": {"row_count": "private", "unit": PrivacyUnit()},
    "add or remove five rows": {"row_count": "private", "unit": PrivacyUnit(rows_per_unit=5)},
}


def table(column: str, width: int, seed: int) -> Lookup:
    return Lookup(column, np.random.default_rng(seed).normal(size=(10, width)))


def forest() -> Forest:
    nodes = np.array([[0, 4, 1, 2], [0, 0, 1, 1], [0, 0, 2, 2]], dtype=np.int32)
    values = np.array([[0, 0], [3, 1], [0, 5]], dtype=np.int32)
    edges = np.array([[2], [2]], dtype=np.int32)
    return Forest(("x",), (np.arange(10, dtype=np.int32),), nodes, values, np.zeros(1, dtype=np.int32), edges)


PLACES = np.arange(10, dtype=np.int32)
CELLS = OneHot(("c",), (None,), (3,))
HALF = math.sqrt(0.5)
MAPS: dict[str, FeatureMap] = {
    "constant": Constant(),
    "lookup": table("x", 4, 0),
    "one-hot": OneHot(("x", "c"), (None, None), (10, 3)),
    "forest": forest(),
    "fourier": Fourier(("x", "y"), (PLACES, PLACES), np.array([[1, 5], [9, 2], [70, 3]], dtype=np.int32)),
    "moments of rows": RowMoments((table("x", 3, 1), table("y", 2, 2)), clip=0.7, weights=(0.3, 0.5, 0.8)),
    "projected moments": RowMoments(
        (table("x", 3, 1), table("y", 2, 2)), clip=0.7, weights=(0.0, 0.6, 0.8), projection=np.eye(5)[:, :2]
    ),
    "stack": Stack((table("x", 4, 3), CELLS), (HALF, HALF)),
    "guesses": LinearGuess(table("x", 4, 8), np.arange(12).reshape(3, 4), np.array([[2**15], [2**16], [0]])),
    "losses": Losses(forest(), np.array([0.0, 0.2, 0.7, 1.0]), Lookup("y", np.arange(10)[:, None] / 9)),
    "product of tables": Product((table("x", 4, 4), table("y", 3, 5))),
    "product by cell": Product((CELLS, Stack((table("x", 4, 6), table("y", 2, 7)), (0.6, 0.8)))),
}


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("relation", RELATIONS)
def test_it_is_the_session_s_own(relation: str, name: str) -> None:
    schema = Schema(COLUMNS, **RELATIONS[relation])  # type: ignore[arg-type]
    rng = np.random.default_rng(0)
    codes = {column.name: rng.integers(0, column.size, 40) for column in schema.modelled}
    held = PrivateTable.from_codes(schema, codes, account_key=bytes(32))
    session = PrivateSession(held, PrivacyBudget(1.0, 1e-6, schema.neighbours))
    receipt = session.noisy_sum(MAPS[name], share=0.5, query="sum", source="test").receipt
    half_bits = round(-math.log2(receipt.grid) / 2)
    assert sensitivity_of_sum(MAPS[name], schema, half_bits=half_bits) == receipt.sensitivity
    chosen = session.noisy_max([candidate_of(("c",), np.ones(3))], share=0.1, query="choice", source="test")
    assert sensitivity_of_choice(chosen.candidate, schema) == chosen.receipt.sensitivity
