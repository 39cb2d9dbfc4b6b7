"""Feature maps as plain data: a JSON description and named arrays, for ``measurements.npz``; and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from synth.errors import PrivacyError
from synth.privacy.features import Constant, FeatureMap, Forest, Fourier, Lookup, OneHot, Product, RowMoments, Stack

__all__ = ["describe", "from_description", "same_map"]

Arrays = dict[str, NDArray[Any]]
_Kind = TypeVar("_Kind")


def describe(feature_map: FeatureMap, *, name: str = "map") -> tuple[dict[str, Any], Arrays]:
    """Write a map as JSON types and arrays; ``name`` begins every array's name.

    Returns
    -------
    (description, arrays)
        The description names the arrays; both are public.
    """
    arrays: Arrays = {}
    return _describe(feature_map, name, arrays), arrays


def from_description(description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> FeatureMap:
    """Make the map that was described.

    Raises
    ------
    PrivacyError
        If the description names an unknown kind of map, or lacks a part.
    """
    try:
        return _build(description, arrays)
    except (KeyError, TypeError, ValueError) as error:
        raise PrivacyError("The description of a feature map is incomplete; the measurements are damaged.") from error


def same_map(one: object, other: object) -> bool:
    """Whether two maps are the same data."""
    if not (isinstance(one, FeatureMap) and isinstance(other, FeatureMap)):
        return False
    (first, first_arrays), (second, second_arrays) = describe(one), describe(other)
    return (
        first == second
        and first_arrays.keys() == second_arrays.keys()
        and all(np.array_equal(array, second_arrays[name]) for name, array in first_arrays.items())
    )


def _describe(feature_map: FeatureMap, name: str, arrays: Arrays) -> dict[str, Any]:
    def kept(suffix: str, array: NDArray[Any] | None) -> str | None:
        if array is None:
            return None
        arrays[f"{name}.{suffix}"] = array
        return f"{name}.{suffix}"

    if isinstance(feature_map, Constant):
        return {"kind": "constant"}
    if isinstance(feature_map, Lookup):
        return {
            "kind": "lookup",
            "column": feature_map.column,
            "table": kept("table", feature_map.table),
            "bins": kept("bins", feature_map.bins),
        }
    if isinstance(feature_map, OneHot):
        bins = [kept(f"bins.{place}", one) for place, one in enumerate(feature_map.bins)]
        return {"kind": "one-hot", "columns": list(feature_map.columns), "sizes": list(feature_map.sizes), "bins": bins}
    if isinstance(feature_map, Forest):
        return {
            "kind": "forest",
            "columns": list(feature_map.columns),
            "places": [kept(f"places.{place}", one) for place, one in enumerate(feature_map.places)],
            **{name: kept(name, getattr(feature_map, name)) for name in ("nodes", "values", "roots", "edges")},
        }
    if isinstance(feature_map, Fourier):
        return {
            "kind": "fourier",
            "columns": list(feature_map.columns),
            "positions": [kept(f"positions.{place}", one) for place, one in enumerate(feature_map.positions)],
            "frequencies": kept("frequencies", feature_map.frequencies),
        }
    if isinstance(feature_map, RowMoments):
        of = feature_map.offset_of
        return {
            "kind": "row-moments",
            "tables": [_describe(table, f"{name}.{place}", arrays) for place, table in enumerate(feature_map.tables)],
            "clip": feature_map.clip,
            "weights": list(feature_map.weights),
            "offsets": kept("offsets", feature_map.offsets),
            "offset_of": None if of is None else _describe(of, f"{name}.of", arrays),
            "projection": kept("projection", feature_map.projection),
        }
    if isinstance(feature_map, Stack):
        parts = [_describe(part, f"{name}.{place}", arrays) for place, part in enumerate(feature_map.parts)]
        return {"kind": "stack", "weights": list(feature_map.weights), "parts": parts}
    factors = [_describe(factor, f"{name}.{place}", arrays) for place, factor in enumerate(feature_map.factors)]
    return {"kind": "product", "factors": factors}


def _build(description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> FeatureMap:
    def array(name: str | None) -> NDArray[Any] | None:
        return None if name is None else arrays[name]

    kind = description["kind"]
    if kind == "constant":
        return Constant()
    if kind == "lookup":
        return Lookup(description["column"], arrays[description["table"]], array(description["bins"]))
    if kind == "one-hot":
        bins = tuple(array(name) for name in description["bins"])
        return OneHot(tuple(description["columns"]), bins, tuple(description["sizes"]))
    if kind == "forest":
        places = tuple(arrays[name] for name in description["places"])
        nodes, values, roots, edges = (arrays[description[name]] for name in ("nodes", "values", "roots", "edges"))
        return Forest(tuple(description["columns"]), places, nodes, values, roots, edges)
    if kind == "fourier":
        positions = tuple(arrays[name] for name in description["positions"])
        return Fourier(tuple(description["columns"]), positions, arrays[description["frequencies"]])
    if kind == "row-moments":
        of = description["offset_of"]
        constant, linear, quadratic = description["weights"]
        return RowMoments(
            tables=tuple(_leaf(_build(table, arrays), Lookup) for table in description["tables"]),
            clip=description["clip"],
            weights=(constant, linear, quadratic),
            offsets=array(description["offsets"]),
            offset_of=None if of is None else _leaf(_build(of, arrays), OneHot),
            projection=array(description["projection"]),
        )
    if kind == "stack":
        return Stack(tuple(_build(part, arrays) for part in description["parts"]), tuple(description["weights"]))
    if kind == "product":
        return Product(tuple(_build(factor, arrays) for factor in description["factors"]))
    raise PrivacyError(f"The description names an unknown kind of feature map: '{kind}'.")


def _leaf(feature_map: FeatureMap, kind: type[_Kind]) -> _Kind:
    if not isinstance(feature_map, kind):
        raise TypeError("another kind of map stands in its place")
    return feature_map
