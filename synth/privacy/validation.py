"""Whether a question speaks of the declared table: checked before anything is spent or read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from synth.errors import PrivacyError
from synth.privacy.features import FeatureMap, Leaf, Product, Stack
from synth.privacy.leaves import Constant, Lookup, OneHot
from synth.privacy.more.forests import Forest
from synth.privacy.more.row_moments import RowMoments
from synth.schema import Neighbours, Schema

if TYPE_CHECKING:
    from synth.privacy.table import PrivateTable

__all__ = ["check_fits", "check_held_out", "require_whole_rows"]


def require_whole_rows(schema: Schema) -> None:
    """Refuse a sum or a selection where one cell is hidden: their noise is worked out for whole rows.

    Raises
    ------
    PrivacyError
        If the schema protects one cell.
    """
    if schema.neighbours is Neighbours.CELL:
        raise PrivacyError(
            "Where one cell is protected only noisy rows can be asked for; declare 'protection: record' for sums, "
            "choices and the number of rows."
        )


def check_held_out(train: PrivateTable, held_out: PrivateTable) -> None:
    """Refuse a table that is not the other side of a split.

    Raises
    ------
    PrivacyError
        If one of them is of the wrong side, or they are declared differently.
    """
    if (train.part, held_out.part) != ("train", "holdout") or train.schema != held_out.schema:
        raise PrivacyError("Held-out rows are the hold-out of the same table as the session's; open both together.")


def check_fits(feature_map: FeatureMap, schema: Schema) -> None:
    """Refuse a map that does not have an entry for every code of its columns.

    Raises
    ------
    PrivacyError
        If the map is not of the closed set or was made for another table.
    SchemaError
        If it names a column that is not modelled.
    """
    if isinstance(feature_map, Stack):
        for part in feature_map.parts:
            check_fits(part, schema)
    elif isinstance(feature_map, Product):
        for factor in feature_map.factors:
            check_fits(factor, schema)
    elif isinstance(feature_map, Leaf):
        for column, size in _sizes(feature_map):
            declared = schema.modelled_column(column).size
            if size != declared:
                raise PrivacyError(
                    f"The question knows {size} codes of '{column}', which has {declared}; make it from this schema."
                )
    else:
        raise PrivacyError(
            "A question must be a feature map: Lookup, OneHot, Forest, Fourier, Constant, RowMoments, Stack or Product."
        )


def _sizes(leaf: Leaf) -> list[tuple[str, int]]:
    """Return the columns of a leaf with the number of codes it has an entry for."""
    if isinstance(leaf, Constant):
        return []
    if isinstance(leaf, Lookup):
        return [(leaf.column, len(leaf.table) if leaf.bins is None else len(leaf.bins))]
    if isinstance(leaf, OneHot):
        return list(zip(leaf.columns, leaf.sizes, strict=True))
    if isinstance(leaf, Forest):
        return [(column, len(places)) for column, places in zip(leaf.columns, leaf.places, strict=True)]
    if isinstance(leaf, RowMoments):
        parts: tuple[Lookup | OneHot, ...] = leaf.tables
        return [size for part in (*parts, *filter(None, (leaf.offset_of,))) for size in _sizes(part)]
    return [(column, len(places)) for column, places in zip(leaf.columns, leaf.positions, strict=True)]
