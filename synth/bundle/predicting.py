"""Predictions of a released model for rows of the reader's own; nothing is charged, and nothing of them is kept."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from synth.bundle.archive import open_archive
from synth.bundle.model_file import model_from_bytes, restored_model
from synth.bundle.table_files import read_table
from synth.bundle.verify import verify
from synth.errors import ConfigError, InputError, VerificationError
from synth.schema import Schema

__all__ = ["Predictions", "predict"]


@dataclass(frozen=True, slots=True, eq=False)
class Predictions:
    """What a model foretells of rows.

    Attributes
    ----------
    label : str
        The column that is foretold, as it is printed.
    classes : tuple of str
        Its values as they are printed, where chances are foretold; empty where it is a number.
    values : array of shape (rows,) or (rows, classes)
        The number, in units of the label; or the chance of every class.
    lines : tuple of str
        What was done, in sentences.
    """

    label: str
    classes: tuple[str, ...]
    values: NDArray[np.float64]
    lines: tuple[str, ...]

    def written(self, out: Path) -> tuple[str, ...]:
        """Write CSV, the number, or the likeliest class and the chance of each; return the lines that say so."""
        try:
            with out.open("w", newline="", encoding="utf-8") as stream:
                csv.writer(stream, lineterminator="\n").writerows(self._rows())
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError):
            raise InputError(f"'{out.name}' cannot be written. Name a file in a folder that exists.") from None
        return (*self.lines, f"Wrote {out}.")

    def _rows(self) -> list[Sequence[str]]:
        if not self.classes:
            return [[self.label], *([repr(float(value))] for value in self.values)]
        chances = [f"chance of {name or 'a missing cell'}" for name in self.classes]
        likeliest = self.values.argmax(axis=1)
        rows = [
            [self.classes[best], *map(repr, map(float, row))] for best, row in zip(likeliest, self.values, strict=True)
        ]
        return [[self.label, *chances], *rows]


def predict(bundle: Path, table: Path, *, public_key: Path | None = None) -> Predictions:
    """Foretell the label of rows by the model of a bundle, which is checked first.

    Parameters
    ----------
    bundle : Path
        A zip or a folder, or a folder that holds ``bundle.zip``.
    table : Path
        CSV, TSV or Parquet with the columns that the model looks at; others are passed over, the label among them.
    public_key : Path, optional
        PEM of the signer that is expected.

    Raises
    ------
    VerificationError
        If the bundle does not hold what it claims, or not all of it could be checked.
    ConfigError
        If it holds no model that predicts.
    TableError
        If the table cannot be read, or lacks a column.
    """
    inside = bundle / "bundle.zip"
    with open_archive(inside if inside.is_file() else bundle) as archive:
        verdict = verify(bundle, public_key=public_key)
        for failure in verdict.json["failures"]:
            raise VerificationError(f"The bundle does not hold what it claims: {failure}")
        for lack in verdict.json["not_checked"]:
            raise VerificationError(f"Not everything in the bundle could be checked here: {lack}")
        card, state = model_from_bytes(archive.read("model.safetensors"))
    if not card.is_model:
        raise ConfigError("The bundle holds a table and no model. Give the bundle of a model that predicts.")
    model = restored_model(card, state)
    if not model.card.predicts or card.label is None:
        raise ConfigError(f"The model '{card.generator}' describes rows and predicts nothing.")
    codes = _codes(table, card.schema, card.label)
    values = model.predict(codes)
    label = card.schema.modelled_column(card.label)
    classes = tuple(label.printed_texts(range(label.size))) if values.ndim == 2 else ()
    return Predictions(label.printed_name, classes, values, (f"Foretold '{card.label}' of {len(codes):,} rows.",))


def _codes(table: Path, schema: Schema, label: str) -> NDArray[np.int64]:
    """Read the rows as codes; the label, which is not looked at, is 0."""
    looked_at = Schema(tuple(column for column in schema.modelled if column.name != label))
    codes = read_table(table, looked_at, made_here=False)
    return np.insert(codes, schema.names.index(label), 0, axis=1)
