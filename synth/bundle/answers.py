"""Answers in a bundle: how each kind is listed in ``measurements.npz``, read back, and checked against its receipts.

The sensitivity of each answer is recomputed from its question and the schema; no stated value is trusted.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synth.errors import PrivacyError, SynthError
from synth.privacy.answers import (
    FEATURE_MAPS,
    FINE,
    STEPS_QUESTIONS,
    NoisyAnswer,
    NoisySum,
    is_known,
    sensitivity_of_sum,
)
from synth.privacy.bins import Bins
from synth.privacy.costs import between_neighbours
from synth.privacy.feature_maps import FeatureMap, OneHot, bins_from, kept_bins
from synth.privacy.more.dependence import Dependence
from synth.privacy.more.em_models import MODELS
from synth.privacy.more.em_steps import EMStepQuestion
from synth.privacy.more.found_values import (
    VALUE_GRIDS,
    FoundValues,
    ValuesQuestion,
    bound_of_row,
    key_delta_of,
    keys_of_unit,
    largest_count,
    threshold_of,
)
from synth.privacy.more.gradients import GradientQuestion, NoisyGradient, UnitQuestion
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.perturbed_rows import GRIDS, ROW_NOISES, PerturbedRows, RowsQuestion, bounds_of
from synth.privacy.more.row_sensitivity import CellBound
from synth.privacy.more.training_steps import NoisySteps
from synth.privacy.questions import Answer
from synth.privacy.receipt import SUMS, Receipt
from synth.privacy.selection import SCORE_STEP, Candidate, Selection, sensitivity_of_choice
from synth.schema import Neighbours, Schema

__all__ = ["ENTRIES", "ArrayFile", "Entry", "bytes_of", "from_description", "plain"]

_RELATIVE = 1e-9
"""Two computers may differ in a bound by this much."""

_KEY_MARGIN = 1e-6
"""Two computers may differ in a small probability by this much."""

_SUM_GRIDS = {2.0 ** (-2 * half_bits): half_bits for half_bits in FINE}

_PIECE = 2**20
"""Numbers that are looked at at a time: bins may be as long as a declared range."""

_MAPS = {one.kind: one for one in FEATURE_MAPS}

_OF_NOISE = {"gaussian": "gaussian_rows", "laplace": "discrete_laplace"}


class ArrayFile:
    """Arrays by name, in their one form; each array of a question is kept once, however many questions use it."""

    def __init__(self) -> None:
        self.by_name: dict[str, NDArray[Any]] = {}
        self._names: dict[tuple[str, tuple[int, ...], bytes], str] = {}

    def put(self, name: str, array: NDArray[Any]) -> str:
        """Keep an array under a name, and return the name."""
        self.by_name[name] = plain(array)
        return name

    def add(self, array: NDArray[Any]) -> str:
        """Keep an array once, however often it is used, and return its name."""
        array = plain(array)
        key = (array.dtype.str, array.shape, hashlib.sha256(bytes_of(array)).digest())
        if key not in self._names:
            self._names[key] = self.put(f"table_{len(self._names):04d}", array)
        return self._names[key]


def plain(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array with its last axis fastest, its lowest byte first, and no zero that has a sign."""
    made = np.ascontiguousarray(array).reshape(array.shape)
    made = made.astype(made.dtype.newbyteorder("<"), copy=False)
    if made.dtype.kind != "f":
        return made
    flat = made.reshape(-1)
    pieces = (flat[at : at + _PIECE] for at in range(0, flat.size, _PIECE))
    return made + 0.0 if any(map(_has_signed_zeros, pieces)) else made


def _has_signed_zeros(piece: NDArray[Any]) -> bool:
    return bool((np.signbit(piece) & (piece == 0)).any())


def bytes_of(array: NDArray[Any]) -> memoryview:
    """Return the bytes of an array, without a copy where possible: bins may be as long as a declared range."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


@dataclass(frozen=True, slots=True)
class Entry:
    """What a bundle does with answers of one kind.

    Attributes
    ----------
    listed_as : str
        The list in the file of answers.
    to_json : callable
        Returns JSON types for an answer and its position among those of its kind, and keeps its arrays.
    from_json : callable
        Returns the answer from JSON types and arrays.
    problems : callable
        Yields contradictions between an answer, its receipts and the schema.
    always_listed : bool
        Whether the file has the list even if it is empty.
    """

    listed_as: str
    to_json: Callable[[Any, int, ArrayFile], dict[str, Any]]
    from_json: Callable[[Mapping[str, Any], Mapping[str, NDArray[Any]]], Answer]
    problems: Callable[[Any, Schema], Iterator[str]]
    always_listed: bool = False


def from_description(description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> FeatureMap:
    """Return the feature map that was described.

    Raises
    ------
    PrivacyError
        If the description names an unknown kind of map, or lacks a part.
    """

    def made(said: Mapping[str, Any]) -> FeatureMap:
        kind = said["kind"]
        if kind not in _MAPS:
            raise PrivacyError(f"The description names an unknown kind of feature map: '{kind}'.")
        return _MAPS[kind].from_json(said, arrays, made)

    try:
        return made(description)
    except (KeyError, TypeError, ValueError) as error:
        raise PrivacyError("The description of a feature map is incomplete; the measurements are damaged.") from error


def _sum_problems(answer: NoisyAnswer, schema: Schema) -> Iterator[str]:
    """Yield contradictions between the sum, its receipt and the schema."""
    receipt, question, name = answer.receipt, answer.feature_map, f"The noisy answer to '{answer.receipt.query}'"
    if receipt.mechanism not in SUMS:
        yield f"{name} has a receipt that is not for a sum."
        return
    laplace = receipt.mechanism == "laplace_sum"
    if not is_known(question):
        yield f"{name} has a question that is not one of the known kinds."
        return
    if not answer.value.size == receipt.dimension == question.dimension or answer.value.shape != question.shape:
        yield f"{name} has a different number of coordinates from its receipt or its question."
        return
    yield from _grid_problems(name, answer.value, receipt)
    if receipt.grid not in _SUM_GRIDS:
        return
    try:
        NoisySum(question).check(schema)
        least = sensitivity_of_sum(question, schema, half_bits=_SUM_GRIDS[receipt.grid], l1=laplace)
    except SynthError as refusal:
        yield f"The question '{receipt.query}' cannot be asked about the declared table: {refusal}"
        return
    yield from _sensitivity_problems(receipt, least)
    if not laplace:
        yield from _variance_problems(receipt)
    elif not (receipt.noise_scale / receipt.grid).is_integer():
        yield f"The receipt of '{receipt.query}' states noise whose scale is not a whole number of grid steps."


def _grid_problems(name: str, value: NDArray[np.float64], receipt: Receipt) -> Iterator[str]:
    """Yield a problem if a sum is not on the grid that its receipt states, or no sum uses that grid.

    A grid is a power of 2, so a whole number of its steps is one float, and every other float is off the grid.
    """
    if receipt.grid not in _SUM_GRIDS:
        yield f"The receipt of '{receipt.query}' states a grid that no sum uses."
    steps = value / receipt.grid
    if not np.isfinite(value).all():
        yield f"{name} contains a number that is not finite."
    elif not (steps == np.rint(steps)).all() or not (np.abs(steps) < 2.0**63).all():
        yield f"{name} does not lie on the grid of its receipt."


def _sum_to_json(answer: NoisyAnswer, place: int, arrays: ArrayFile) -> dict[str, Any]:
    """Return the sum, its receipt and its map."""
    value = arrays.put(f"answer_{place:04d}", np.asarray(answer.value, dtype="<f8"))
    if not is_known(answer.feature_map):
        raise PrivacyError(f"The question '{answer.receipt.query}' is not one of the known feature maps.")
    question, tables = answer.feature_map.describe()
    return {
        "answer": value,
        "noise_scale": float(answer.receipt.noise_scale),
        "receipt": answer.receipt.to_dict(),
        "question": question,
        "tables": {key: arrays.add(table) for key, table in tables.items()},
    }


def _sum_from_json(said: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> NoisyAnswer:
    """Return the answer from sum, receipt and map."""
    receipt = Receipt.from_dict(said["receipt"])
    if said["noise_scale"] != receipt.noise_scale:
        raise PrivacyError(f"the noise stated for '{receipt.query}' differs from its receipt.")
    tables = {str(key): arrays[name] for key, name in said["tables"].items()}
    return NoisyAnswer(receipt, arrays[said["answer"]], from_description(said["question"], tables))


def _choice_problems(answer: Selection, schema: Schema) -> Iterator[str]:
    """Yield contradictions between the choice, its receipt and the schema.

    Only the chosen candidate of a private choice is kept, which is enough: weights are divided by the largest before
    candidates are scored, so the sensitivity is that of a score of weight 1, whatever the other candidates were. The
    bundle does not show which they were, or whether the stated parameter was the one used for the draw.
    """
    receipt, name = answer.receipt, f"The private choice '{answer.receipt.query}'"
    if receipt.mechanism != "exponential":
        yield f"{name} has a receipt that is not for a choice."
        return
    try:
        schema.require_whole_rows()
        answer.candidate.one_hot.check_codes(schema)
    except SynthError as refusal:
        yield f"{name} cannot be made on the declared table: {refusal}"
        return
    if not 0 <= answer.index < receipt.dimension:
        yield f"{name} chose a candidate that is not among the {receipt.dimension:,} of its receipt."
    if receipt.grid != SCORE_STEP:
        yield f"The receipt of '{receipt.query}' states a grid that no score uses."
    yield from _sensitivity_problems(receipt, sensitivity_of_choice(answer.candidate, schema))


def _choice_to_json(answer: Selection, place: int, arrays: ArrayFile) -> dict[str, Any]:
    """Return the chosen candidate, its index and the receipt."""
    candidate = answer.candidate
    if isinstance(candidate, Dependence):
        return {
            "receipt": answer.receipt.to_dict(),
            "index": answer.index,
            "score": candidate.score,
            "columns": list(candidate.columns),
            "sizes": list(candidate.one_hot.sizes),
            "bins": [_bins_to_json(one, arrays) for one in candidate.one_hot.bins],
        }
    return {
        "receipt": answer.receipt.to_dict(),
        "index": answer.index,
        "columns": list(candidate.columns),
        "table": arrays.add(candidate.table),
        "weight": float(candidate.weight),
        "penalty": float(candidate.penalty),
        "bins": [_bins_to_json(one, arrays) for one in candidate.one_hot.bins],
    }


def _bins_to_json(bins: Bins | None, arrays: ArrayFile) -> dict[str, Any] | None:
    held: dict[str, NDArray[Any]] = {}
    said = kept_bins(held, "bins", bins)
    return None if said is None else {key: arrays.add(held[one]) if one in held else one for key, one in said.items()}


def _choice_from_json(said: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Selection:
    """Return the selection from candidate, index and receipt."""
    bins = tuple(bins_from(one, arrays) for one in said["bins"])
    if "score" in said:
        counted = OneHot(tuple(map(str, said["columns"])), bins, tuple(map(int, said["sizes"])))
        return Selection(Receipt.from_dict(said["receipt"]), int(said["index"]), Dependence(counted, said["score"]))
    table = arrays[said["table"]]
    sizes = tuple(size if one is None else one.size for size, one in zip(table.shape, bins, strict=True))
    one_hot = OneHot(tuple(map(str, said["columns"])), bins, sizes)
    candidate = Candidate(one_hot, table, float(said["weight"]), float(said["penalty"]))
    return Selection(Receipt.from_dict(said["receipt"]), int(said["index"]), candidate)


def _rows_problems(answer: PerturbedRows, schema: Schema) -> Iterator[str]:
    """Yield contradictions between noisy rows, their receipts and the schema."""
    receipt, question = answer.receipt, answer.question
    name = f"The answer to '{receipt.query}'"
    try:
        question.check(schema)
    except SynthError as refusal:
        yield f"The question '{receipt.query}' cannot be asked about the declared table: {refusal}"
        return
    width = sum(question.widths)
    if answer.numbers.ndim != 2 or answer.numbers.shape[1] != width or receipt.dimension != width:
        yield f"{name} has rows of a different width from its question and its receipt."
        return
    if receipt.mechanism != _OF_NOISE[question.noise]:
        yield f"{name} has a receipt that is not for rows with {question.noise} noise."
        return
    if receipt.grid not in {2.0**-bits for bits in GRIDS}:
        yield f"The receipt of '{receipt.query}' states a grid that no rows use."
        return
    bits = round(-math.log2(receipt.grid))
    bounds, of_rows = (
        bounds_of(question.tables, schema, bits=bits, change=change) for change in (schema.cell_change, 1.0)
    )
    if receipt.mechanism == "discrete_laplace":
        yield from _noise_problems(answer, bounds, of_rows)
    else:
        least = math.sqrt(sum(bound.squared for bound in of_rows)) * receipt.grid
        yield from _sensitivity_problems(receipt, least)
        yield from _variance_problems(receipt)
    yield from _label_problems(answer, schema)


def _noise_problems(answer: PerturbedRows, bounds: list[CellBound], of_rows: list[CellBound]) -> Iterator[str]:
    receipt = answer.receipt
    cells, query, grid = receipt.cells, receipt.query, receipt.grid
    if len(cells) != len(bounds):
        yield f"The receipt of '{query}' does not state the noise of each column."
        return
    dearest = max(cells, key=lambda cell: Fraction(cell.l1, cell.scale))
    if (receipt.sensitivity, receipt.noise_scale) != (max(dearest.l1, 1) * grid, dearest.scale * grid):
        yield f"The receipt of '{query}' does not state the sensitivity and noise of its most expensive column."
    for table, bound, of_row, cell in zip(answer.question.tables, bounds, of_rows, cells, strict=True):
        if bound.l1 > cell.l1 or of_row.l1 > cell.row_l1 or of_row.largest > cell.row_largest:
            yield f"A cell of '{table.column}' can change the answer to '{query}' by more than its receipt states."


def _label_problems(answer: PerturbedRows, schema: Schema) -> Iterator[str]:
    name, label, labels = f"The answer to '{answer.receipt.query}'", answer.question.label, answer.labels
    if label is None or labels is None:
        if len(answer.receipts) != 1 or labels is not None or label is not None:
            yield f"{name} has a receipt or list of labels, although the question has no label."
        return
    size = schema.modelled_column(label).size
    declared = labels.size == 0 or bool((labels >= 0).all() and (labels < size).all())
    if labels.shape != (len(answer.numbers),) or not declared:
        yield f"{name} does not have exactly one declared label for each row."
    of_labels = answer.receipts[1:]
    if schema.neighbours is Neighbours.CELL:
        if of_labels:
            yield f"{name} has a receipt for labels, which are public where one cell is protected."
    elif [one.mechanism for one in of_labels] != ["randomised_response"] or of_labels[0].dimension != size:
        yield f"{name} releases labels without a receipt for a randomised response over its {size} classes."
    else:
        yield from _sensitivity_problems(of_labels[0], 1.0)


def _rows_to_json(answer: PerturbedRows, place: int, arrays: ArrayFile) -> dict[str, Any]:
    """Return the rows, their receipts and their question."""
    numbers = arrays.put(f"rows_{place:04d}", _smallest(answer.numbers))
    labels = None if answer.labels is None else arrays.put(f"labels_{place:04d}", _smallest(answer.labels))
    tables = [table.describe() for table in answer.question.tables]
    return {
        "receipts": [receipt.to_dict() for receipt in answer.receipts],
        "numbers": numbers,
        "labels": labels,
        "label": answer.question.label,
        "noise": answer.question.noise,
        "question": [question for question, _ in tables],
        "tables": [{key: arrays.add(table) for key, table in held.items()} for _, held in tables],
    }


def _rows_from_json(said: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> PerturbedRows:
    """Return the rows from numbers, labels, receipts and question."""
    tables = [
        from_description(question, {str(key): arrays[name] for key, name in names.items()})
        for question, names in zip(said["question"], said["tables"], strict=True)
    ]
    label, noise = said["label"], said["noise"]
    numbers, labels = (None if said[key] is None else arrays[said[key]] for key in ("numbers", "labels"))
    found = [array for array in (numbers, labels) if array is not None]
    lookups = tuple(table for table in tables if isinstance(table, Lookup))
    if len(lookups) != len(tables) or any(array.dtype.kind != "i" for array in found):
        raise ValueError
    if numbers is None or (label is None) != (labels is None) or noise not in ROW_NOISES:
        raise ValueError
    question = RowsQuestion(lookups, None if label is None else str(label), noise=noise)
    return PerturbedRows(tuple(map(Receipt.from_dict, said["receipts"])), question, numbers, labels)


def _gradient_problems(answer: NoisyGradient, schema: Schema) -> Iterator[str]:
    """Yield contradictions between the gradient, its receipt and the schema."""
    receipt, name = answer.receipt, f"The noisy gradient '{answer.receipt.query}'"
    if receipt.mechanism != "discrete_gaussian":
        yield f"{name} has a receipt that is not for a sum."
        return
    if not answer.value.shape == answer.question.parameters.shape == (receipt.dimension,):
        yield f"{name} has a different number of coordinates from its receipt or its parameters."
        return
    yield from _grid_problems(name, answer.value, receipt)
    try:
        answer.question.check(schema)
    except SynthError as refusal:
        yield f"The question '{receipt.query}' cannot be asked about the declared table: {refusal}"
        return
    yield from _sensitivity_problems(receipt, between_neighbours(answer.question.unit_bound, schema, rows=1))
    yield from _variance_problems(receipt)


def _gradient_to_json(answer: NoisyGradient, place: int, arrays: ArrayFile) -> dict[str, Any]:
    """Return the gradient, its receipt, its loss, and the parameters at which it was taken."""
    question = answer.question
    said = {
        "answer": arrays.put(f"gradient_{place:04d}", np.asarray(answer.value, dtype="<f8")),
        "receipt": answer.receipt.to_dict(),
    }
    of = _loss_to_json(question, arrays) if isinstance(question, GradientQuestion) else _step_to_json(question, arrays)
    parameters = arrays.add(np.asarray(question.parameters, dtype="<f8"))
    return {**said, **of, "parameters": parameters, "clip": question.clip}


def _loss_to_json(question: GradientQuestion, arrays: ArrayFile) -> dict[str, Any]:
    (features, tables), (target, of_target) = question.features.describe("features"), question.target.describe("target")
    return {
        "features": features,
        "target": target,
        "tables": {key: arrays.add(table) for key, table in (tables | of_target).items()},
        "loss": question.loss,
    }


def _step_to_json(question: UnitQuestion, arrays: ArrayFile) -> dict[str, Any]:
    if not isinstance(question, EMStepQuestion):
        raise TypeError("a question of another kind")
    described = [table.describe(f"column {place}") for place, table in enumerate(question.tables)]
    held = {key: array for _, found in described for key, array in found.items()}
    return {
        "step": question.said() | {"noise_std": float(question.model.noise_std)},
        "columns": [column for column, _ in described],
        "tables": {key: arrays.add(array) for key, array in held.items()},
        "scales": arrays.add(np.asarray(question.scales, dtype="<f8")),
    }


def _step_from_json(said: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> EMStepQuestion:
    tables = {str(key): arrays[name] for key, name in said["tables"].items()}
    columns, step = [from_description(column, tables) for column in said["columns"]], said["step"]
    return EMStepQuestion(
        model=MODELS[step["model"]](float(step["noise_std"]), as_printed=bool(step["as_printed"])),
        tables=tuple(column for column in columns if isinstance(column, Lookup)),
        scales=arrays[said["scales"]],
        parameters=arrays[said["parameters"]],
        clip=float(said["clip"]),
        bounding=step["bounding"],
        precision=float(step["precision"]),
        statistics=bool(step["statistics"]),
        hidden=tuple(step["hidden"]),
    )


def _gradient_from_json(said: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> NoisyGradient:
    """Return the gradient from numbers, receipt and question."""
    question = _step_from_json(said, arrays) if "step" in said else _loss_from_json(said, arrays)
    return NoisyGradient(Receipt.from_dict(said["receipt"]), question, arrays[said["answer"]])


def _loss_from_json(said: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> GradientQuestion:
    tables = {str(key): arrays[name] for key, name in said["tables"].items()}
    features, target = (from_description(said[part], tables) for part in ("features", "target"))
    if not isinstance(target, Lookup):
        raise ValueError
    return GradientQuestion(features, target, said["loss"], arrays[said["parameters"]], float(said["clip"]))


def _values_problems(answer: FoundValues, schema: Schema) -> Iterator[str]:
    """Yield contradictions between found values, their threshold, their receipt and the schema."""
    receipt, question, name = answer.receipt, answer.question, f"The answer to '{answer.receipt.query}'"
    try:
        question.check(schema)
    except SynthError as refusal:
        yield f"The question '{receipt.query}' cannot be asked about the declared table: {refusal}"
        return
    keys = keys_of_unit(len(question.columns), schema)
    if receipt.mechanism != "discrete_gaussian" or receipt.dimension != keys:
        yield f"{name} has a receipt that is not for values in {len(question.columns):,} columns."
        return
    if receipt.grid not in {2.0 ** (-2 * half_bits) for half_bits in VALUE_GRIDS}:
        yield f"The receipt of '{receipt.query}' states a grid that no count of values uses."
        return
    yield from _sensitivity_problems(receipt, between_neighbours(bound_of_row(len(question.columns)), schema))
    yield from _variance_problems(receipt)
    yield from _threshold_problems(answer, schema)
    if receipt.additive_delta < question.delta_key:
        yield f"The receipt of '{receipt.query}' leaves out the chance that one {schema.unit.protects} alone is found."
    if any(count < answer.threshold for _, _, count in answer.values):
        yield f"{name} contains a value that did not reach the threshold."
    if any(count > largest_count(receipt.grid) for _, _, count in answer.values):
        yield f"{name} contains a count that is larger than that of any table."
    keyed = [(question.columns.index(column), text) for column, text, _ in answer.values]
    if any(a >= b for a, b in pairwise(keyed)):
        yield f"{name} contains a value twice, or values that are out of order."


def _threshold_problems(answer: FoundValues, schema: Schema) -> Iterator[str]:
    """Yield a problem if the threshold is not the one that this noise gives; a second formula checks the first."""
    receipt, name = answer.receipt, f"The answer to '{answer.receipt.query}'"
    public: dict[str, Any] = {
        "noise_std": receipt.noise_scale,
        "grid": receipt.grid,
        "rows_per_unit": schema.unit.rows_per_unit,
        "keys": keys_of_unit(len(answer.question.columns), schema),
    }
    due = threshold_of(**public, delta_key=answer.question.delta_key)
    found = key_delta_of(**public, threshold=answer.threshold)
    if answer.threshold != due:
        yield (
            f"{name} has a threshold of {answer.threshold * receipt.grid:,.4f} rows; its noise and the chance that one "
            f"{schema.unit.protects} alone is found give {due * receipt.grid:,.4f}."
        )
    elif found > answer.question.delta_key * (1 + _KEY_MARGIN):
        yield f"{name} has a threshold that one {schema.unit.protects} alone reaches with probability {found:.3g}."


def _values_to_json(answer: FoundValues, place: int, arrays: ArrayFile) -> dict[str, Any]:
    """Return the values, their threshold, their receipt and their question."""
    return {
        "receipt": answer.receipt.to_dict(),
        "columns": list(answer.question.columns),
        "delta_key": float(answer.question.delta_key),
        "threshold": answer.threshold,
        "values": [[answer.question.columns.index(column), text] for column, text, _ in answer.values],
        "counts": arrays.put(f"values_{place:04d}", np.array([count for _, _, count in answer.values], dtype="<i8")),
    }


def _values_from_json(said: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> FoundValues:
    """Return the answer from values, threshold, receipt and question."""
    question = ValuesQuestion(tuple(map(str, said["columns"])), float(said["delta_key"]))
    values = tuple(
        (question.columns[place], str(text), count)
        for (place, text), count in zip(said["values"], arrays[said["counts"]].tolist(), strict=True)
    )
    return FoundValues(Receipt.from_dict(said["receipt"]), question, int(said["threshold"]), values)


def _steps_problems(answer: NoisySteps, schema: Schema) -> Iterator[str]:
    """Yield contradictions between the steps of a training, their receipt and the schema."""
    receipt, question, name = answer.receipt, answer.question, f"The answer to '{answer.receipt.query}'"
    if receipt.mechanism != question.mechanism:
        yield f"{name} has a receipt that is not for the steps of such a training."
        return
    if answer.whole.size != receipt.dimension:
        yield f"{name} has a different number of coordinates from its receipt."
        return
    if receipt.grid not in _SUM_GRIDS:
        yield f"The receipt of '{receipt.query}' states a grid that no sum uses."
    try:
        question.check(schema)
        least = question.sensitivity(schema)
    except SynthError as refusal:
        yield f"The question '{receipt.query}' cannot be asked about the declared table: {refusal}"
        return
    yield from _sensitivity_problems(receipt, least)
    yield from _variance_problems(receipt)
    yield from question.problems(receipt)


def _steps_to_json(answer: NoisySteps, place: int, arrays: ArrayFile) -> dict[str, Any]:
    """Return the noisy steps in grid steps, their receipt and their question."""
    said, tables = answer.question.to_json("question", {})
    return {
        "answer": arrays.put(f"steps_{place:04d}", _smallest(answer.whole)),
        "receipt": answer.receipt.to_dict(),
        "kind": answer.question.kind,
        "question": said,
        "tables": {key: arrays.add(table) for key, table in tables.items()},
    }


def _steps_from_json(said: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> NoisySteps:
    """Return the steps from whole numbers, receipt and question."""
    tables = {str(key): arrays[name] for key, name in said["tables"].items()}
    whole = arrays[said["answer"]]
    (kind,) = (one for one in STEPS_QUESTIONS if one.kind == said["kind"])
    question = kind.from_json(said["question"], tables, lambda one: from_description(one, tables))
    if whole.dtype.kind != "i" or whole.shape != (question.steps, question.dimension):
        raise ValueError
    return NoisySteps(Receipt.from_dict(said["receipt"]), question, whole)


def _sensitivity_problems(receipt: Receipt, least: float) -> Iterator[str]:
    """Yield a problem if a receipt states a smaller sensitivity than its question has."""
    if not receipt.sensitivity >= least * (1 - _RELATIVE):
        yield (
            f"The receipt of '{receipt.query}' states a sensitivity of {receipt.sensitivity:.6g}; its question and "
            f"schema.json give {least:.6g}."
        )


def _variance_problems(receipt: Receipt) -> Iterator[str]:
    """Yield a problem if the variance of Gaussian noise is not a whole number in grid steps, up to the last digit."""
    stated = math.nextafter(receipt.noise_scale, math.inf) / receipt.grid
    variance = round(Fraction(stated) ** 2)
    # Beyond 2^53 neighbouring whole numbers have the same root in float64, so any of them will do.
    step = max(1, variance >> 53)
    if variance < 1 or not any(math.sqrt(variance + k * step) == stated for k in range(-2, 3) if variance + k * step):
        yield f"The receipt of '{receipt.query}' states noise whose variance is not a whole number of grid steps."


def _smallest(whole: NDArray[np.int64]) -> NDArray[Any]:
    """Return whole numbers in the smallest type that holds them: there is a noisy number for every cell."""
    low, high = (int(whole.min()), int(whole.max())) if whole.size else (0, 0)
    kinds = ("<i1", "<i2", "<i4", "<i8")
    return whole.astype(next(kind for kind in kinds if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max))


ENTRIES: dict[type[Answer], Entry] = {
    NoisyAnswer: Entry("releases", _sum_to_json, _sum_from_json, _sum_problems, always_listed=True),
    Selection: Entry("selections", _choice_to_json, _choice_from_json, _choice_problems, always_listed=True),
    PerturbedRows: Entry("row_releases", _rows_to_json, _rows_from_json, _rows_problems),
    NoisyGradient: Entry("gradients", _gradient_to_json, _gradient_from_json, _gradient_problems),
    NoisySteps: Entry("steps", _steps_to_json, _steps_from_json, _steps_problems),
    FoundValues: Entry("values", _values_to_json, _values_from_json, _values_problems),
}
