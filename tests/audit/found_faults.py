"""Planted bugs in what finds columns: each breaks the promise in one place."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from synth.privacy.costs import Bound
from synth.privacy.more import finding, found_values
from synth.privacy.more.found_values import ValuesPlan, ValuesQuestion
from synth.reading.more import texts
from synth.schema import FindColumn
from synth.schema.encoding import CellEncoder, EncodedCells

__all__ = ["FOUND_FAULTS"]

Plant = Callable[[pytest.MonkeyPatch], None]
FOUND_FAULTS: dict[str, Plant] = {}


def fault(name: str) -> Callable[[Plant], Plant]:
    def keep(plant: Plant) -> Plant:
        FOUND_FAULTS[name] = plant
        return plant

    return keep


def threshold_with(patch: pytest.MonkeyPatch, **changed: Any) -> None:
    right = found_values.threshold_of
    patch.setattr(found_values, "threshold_of", lambda **named: right(**{**named, **changed}))


@fault("a threshold without the rows of one unit")
def _(patch: pytest.MonkeyPatch) -> None:
    threshold_with(patch, rows_per_unit=0)


@fault("a threshold for one row of a unit")
def _(patch: pytest.MonkeyPatch) -> None:
    threshold_with(patch, rows_per_unit=1)


@fault("delta for each column instead of all")
def _(patch: pytest.MonkeyPatch) -> None:
    threshold_with(patch, keys=1)


@fault("keys of one side of a replacement")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(found_values, "keys_of_unit", lambda columns, schema: columns * schema.unit.rows_per_unit)


@fault("the norm of one column")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(found_values, "bound_of_row", lambda columns: Bound(1.0, 2**0.5))


@fault("the norm of a row that is added where one is replaced")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(found_values, "bound_of_row", lambda columns: Bound(columns**0.5, columns**0.5))


@fault("the chance of a text of one unit uncharged")
def _(patch: pytest.MonkeyPatch) -> None:
    right = ValuesPlan.costs.fget
    assert right is not None
    patch.setattr(
        ValuesPlan, "costs", property(lambda self: tuple(replace(one, additive_delta=0.0) for one in right(self)))
    )


class _Quiet:
    """Noise of which a planted bug does without."""

    def gaussian(self, variance: int, size: int) -> np.ndarray:
        return np.zeros(size, dtype=np.int64)


def drawn(patch: pytest.MonkeyPatch, change: Callable[..., Any]) -> None:
    right = ValuesQuestion.draw
    patch.setattr(
        ValuesQuestion,
        "draw",
        lambda self, plan, rows, noise, *, device: change(right, self, plan, rows, noise, device),
    )


@fault("a value let out by its exact count, noise on the print alone")
def _(patch: pytest.MonkeyPatch) -> None:
    def change(right: Any, self: Any, plan: Any, rows: Any, noise: Any, device: str) -> Any:
        _, listed, letters = right(self, replace(plan, threshold=2 << 24), rows, _Quiet(), device=device)
        listed[:, 1] += noise.gaussian(plan.gaussian.variance, len(listed))
        return np.array([plan.threshold]), listed, letters

    drawn(patch, change)


@fault("noise on counts above one row alone")
def _(patch: pytest.MonkeyPatch) -> None:
    def change(right: Any, self: Any, plan: Any, rows: Any, noise: Any, device: str) -> Any:
        def some(columns: Any) -> Any:
            return [{text: n for text, n in counts.items() if n > 1} for counts in rows.texts(columns)]

        return right(self, plan, replace(rows, texts=some), noise, device=device)

    drawn(patch, change)


@fault("exact counts printed")
def _(patch: pytest.MonkeyPatch) -> None:
    def change(right: Any, self: Any, plan: Any, rows: Any, noise: Any, device: str) -> Any:
        held, listed, letters = right(self, plan, rows, noise, device=device)
        exact = right(self, replace(plan, threshold=0), rows, _Quiet(), device=device)[1]
        known = {(place, length): count for place, count, length in exact.tolist()}
        listed[:, 1] = [known[place, length] for place, _, length in listed.tolist()]
        return held, listed, letters

    drawn(patch, change)


@fault("values in the order of their first row")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(found_values, "sorted", list, raising=False)


@fault("values in the order of their exact counts")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(found_values, "sorted", lambda kept: sorted(kept, key=lambda one: -one[2]), raising=False)


@fault("the number of values in a log")
def _(patch: pytest.MonkeyPatch) -> None:
    right = finding.count_texts

    def counted(*given: Any) -> Any:
        found = right(*given)
        logging.getLogger("synth").info("%d values", sum(map(len, found)))
        return found

    patch.setattr(finding, "count_texts", counted)


@fault("texts of columns that are left out")
def _(patch: pytest.MonkeyPatch) -> None:
    right = finding.count_texts

    def counted(open_stream: Any, request: Any, chosen: Any) -> Any:
        every = tuple(FindColumn(one.name) for one in request.columns)
        found = right(open_stream, replace(request, columns=every), chosen)
        return [counts for counts, one in zip(found, request.columns, strict=True) if isinstance(one, FindColumn)]

    patch.setattr(finding, "count_texts", counted)


@fault("texts of rows above the cap")
def _(patch: pytest.MonkeyPatch) -> None:
    right = finding.count_texts
    patch.setattr(finding, "count_texts", lambda stream, request, chosen: right(stream, request, chosen | True))


@fault("the first rows of a unit kept")
def _(patch: pytest.MonkeyPatch) -> None:
    right = finding.count_texts

    def counted(open_stream: Any, request: Any, chosen: np.ndarray) -> Any:
        return right(open_stream, request, np.arange(len(chosen)) < chosen.sum())

    patch.setattr(finding, "count_texts", counted)


@fault("the kind of a column decided by its rows")
def _(patch: pytest.MonkeyPatch) -> None:
    right = CellEncoder.encode

    def of_one_kind(column: FindColumn, encoded: EncodedCells) -> EncodedCells:
        kinds = column.kinds()[encoded.codes]
        usual = np.bincount(kinds, minlength=10).argmax()
        codes = np.where(kinds == usual, encoded.codes, column.missing_code)
        return replace(encoded, codes=codes.astype(encoded.codes.dtype))

    def encode(self: CellEncoder, columns: Any) -> Any:
        found = right(self, columns)
        return [of_one_kind(self._column, one) for one in found] if isinstance(self._column, FindColumn) else found

    patch.setattr(CellEncoder, "encode", encode)


@fault("numbers in bins of the range of their column")
def _(patch: pytest.MonkeyPatch) -> None:
    from synth.schema.columns import find

    right = find._bins

    def bins(values: np.ndarray) -> np.ndarray:
        return right(values / max(np.abs(values[np.isfinite(values)]).max(initial=1.0), 1.0))

    patch.setattr(find, "_bins", bins)


@fault("texts cut to the longest of the others")
def _(patch: pytest.MonkeyPatch) -> None:
    right = texts.values_of_cells

    def values(cells: Any, **named: Any) -> Any:
        found, index = right(cells, **named)
        lengths = sorted(len(text) for text in found if text)
        most = lengths[-2] if len(lengths) > 1 else 10**6
        return [text and text[:most] for text in found], index

    patch.setattr(texts, "values_of_cells", values)
