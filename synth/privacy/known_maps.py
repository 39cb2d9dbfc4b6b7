"""The closed set of feature maps, one line each: nothing else can be summed over private rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from synth.errors import PrivacyError
from synth.privacy.column_maps import Constant, Lookup, OneHot
from synth.privacy.feature_maps import Arrays, FeatureMap, Stack
from synth.privacy.more.forests import Forest
from synth.privacy.more.fourier import Fourier
from synth.privacy.more.products import Product
from synth.privacy.more.row_moments import RowMoments
from synth.privacy.questions import Digest
from synth.schema import Schema

__all__ = ["FEATURE_MAPS", "add_map", "check_fits", "describe", "from_description", "is_known", "same_map"]

FEATURE_MAPS: tuple[type[FeatureMap], ...] = (
    Lookup,
    OneHot,
    Forest,
    Fourier,
    Constant,
    RowMoments,
    Stack,
    Product,
)

_BY_KIND = {one.kind: one for one in FEATURE_MAPS}


def is_known(feature_map: object) -> TypeGuard[FeatureMap]:
    """Whether this is a map of the closed set: of exactly one of its classes, as a subclass could do anything."""
    return type(feature_map) in FEATURE_MAPS


def check_fits(feature_map: FeatureMap, schema: Schema) -> None:
    """Refuse a map that does not have an entry for every code of its columns, before anything is spent or read.

    Raises
    ------
    PrivacyError
        If the map is not of the closed set or was made for another table.
    SchemaError
        If it names a column that is not modelled.
    """
    if not is_known(feature_map):
        *names, last = (one.__name__ for one in FEATURE_MAPS)
        raise PrivacyError(f"A question must be a feature map: {', '.join(names)} or {last}.")
    for column, size in feature_map.code_sizes:
        declared = schema.modelled_column(column).size
        if size != declared:
            raise PrivacyError(
                f"The question knows {size} codes of '{column}', which has {declared}; make it from this schema."
            )
    for one in feature_map.inner:
        check_fits(one, schema)


def describe(feature_map: FeatureMap, *, name: str = "map") -> tuple[dict[str, Any], Arrays]:
    """Write a map as JSON types and arrays; ``name`` begins every array's name.

    Returns
    -------
    (description, arrays)
        The description names the arrays; both are public.
    """
    arrays: Arrays = {}
    return feature_map.to_json(name, arrays), arrays


def from_description(description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> FeatureMap:
    """Make the map that was described.

    Raises
    ------
    PrivacyError
        If the description names an unknown kind of map, or lacks a part.
    """

    def made(said: Mapping[str, Any]) -> FeatureMap:
        kind = said["kind"]
        if kind not in _BY_KIND:
            raise PrivacyError(f"The description names an unknown kind of feature map: '{kind}'.")
        return _BY_KIND[kind].from_json(said, arrays, made)

    try:
        return made(description)
    except (KeyError, TypeError, ValueError) as error:
        raise PrivacyError("The description of a feature map is incomplete; the measurements are damaged.") from error


def same_map(one: object, other: object) -> bool:
    """Whether two maps are the same data."""
    if not (is_known(one) and is_known(other)):
        return False
    (first, first_arrays), (second, second_arrays) = describe(one), describe(other)
    return (
        first == second
        and first_arrays.keys() == second_arrays.keys()
        and all(np.array_equal(array, second_arrays[name]) for name, array in first_arrays.items())
    )


def add_map(found: Digest, feature_map: FeatureMap) -> None:
    """Add a map to a digest: two maps have one digest exactly where they are the same data, to the last bit."""
    description, arrays = describe(feature_map)
    found.add_words(description)
    for name, array in arrays.items():
        found.add_words(name)
        found.add_array(array)
