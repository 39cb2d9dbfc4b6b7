"""Predictions of a released model for the reader's own rows; nothing is charged, and no row is stored."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

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
    """What a model predicts for some rows.

    Attributes
    ----------
    label : str
        The printed name of the predicted column.
    classes : tuple of str
        Its printed values, if probabilities are predicted; empty if it is a number.
    values : array of shape (rows,) or (rows, classes)
        The number, in units of the label; or the probability of each class.
    lines : tuple of str
        What was done, in sentences.
    """

    label: str
    classes: tuple[str, ...]
    values: NDArray[np.float64]
    lines: tuple[str, ...]

    def written(self, out: Path) -> tuple[str, ...]:
        """Write a CSV file: the number, or the most likely class and all probabilities; return the lines to print."""
        try:
            with out.open("w", newline="", encoding="utf-8") as stream:
                csv.writer(stream, lineterminator="\n").writerows(self._rows())
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError):
            raise InputError(f"'{out.name}' cannot be written. Give a file in a folder that exists.") from None
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
    """Predict the label of rows with the model of a bundle, which is verified first.

    Parameters
    ----------
    bundle : Path
        A zip or a folder, or a folder that contains ``bundle.zip``.
    table : Path
        CSV, TSV or Parquet with the columns that the model uses; other columns, including the label, are ignored.
    public_key : Path, optional
        PEM of the expected signer's key.

    Raises
    ------
    VerificationError
        If the bundle is not what it claims to be, or could not be checked completely.
    ConfigError
        If it contains no model that predicts.
    TableError
        If the table cannot be read, or lacks a column.
    """
    inside = bundle / "bundle.zip"
    with _held(inside if inside.is_file() else bundle) as held, open_archive(held) as archive:
        verdict = verify(held, public_key=public_key)
        for failure in verdict.json["failures"]:
            raise VerificationError(f"The bundle is not what it claims to be: {failure}")
        for lack in verdict.json["not_checked"]:
            raise VerificationError(f"The bundle could not be checked completely: {lack}")
        card, state = model_from_bytes(archive.read("model.safetensors"))
    if not card.is_model:
        raise ConfigError("The bundle contains a table, not a model. Give the bundle of a model that predicts.")
    model = restored_model(card, state)
    if not model.card.predicts or card.label is None:
        raise ConfigError(f"The model '{card.generator}' does not predict: it only describes rows.")
    codes = _codes(table, card.schema, card.label)
    values = model.predict(codes)
    label = card.schema.modelled_column(card.label)
    classes = tuple(label.printed_texts(range(label.size))) if values.ndim == 2 else ()
    return Predictions(label.printed_name, classes, values, (f"Predicted '{card.label}' for {len(codes):,} rows.",))


def _codes(table: Path, schema: Schema, label: str) -> NDArray[np.int64]:
    """Read the rows as codes, with 0 for the label, which is not used."""
    looked_at = Schema(tuple(column for column in schema.modelled if column.name != label))
    codes = read_table(table, looked_at, made_here=False)
    return np.insert(codes, schema.names.index(label), 0, axis=1)


@contextmanager
def _held(bundle: Path) -> Iterator[Path | BinaryIO]:
    """Open a zip once, so that what is verified is what is used; a folder stays a folder."""
    if not bundle.is_file():
        yield bundle
        return
    with bundle.open("rb") as stream:
        yield stream
