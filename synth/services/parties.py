"""Classification by several parties, each with machines of the rows it released (docs/kahm.md).

A party builds its machines from the synthetic rows of a bundle, whatever made them, or from the rows that a model was
released with, and shares a file. With the files of several parties, anyone can classify rows by the nearest machine of
all. None of this reads private rows.
"""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from synth.bundle.archive import open_archive
from synth.bundle.model_file import model_from_bytes
from synth.bundle.table_files import read_table
from synth.errors import InputError
from synth.generators.row_encoding import RowEncoding
from synth.models.kahm_classifier import KahmModel
from synth.models.kahm_parties import FederatedClassifier, load_model, save_model
from synth.schema import Schema, parse_config
from synth.schema.documents import read_mapping

__all__ = ["classify", "fit_party_model"]


@dataclass(frozen=True, slots=True)
class _Declared:
    """What a bundle declares about its table: how rows become vectors, and which column is the class."""

    schema: Schema
    label: str

    def vectors(self, codes: NDArray[np.int64]) -> torch.Tensor:
        """Return rows as vectors, without the label; shape (rows, coordinates)."""
        names = [name for name in self.schema.names if name != self.label]
        places = [self.schema.names.index(name) for name in names]
        return torch.from_numpy(RowEncoding.of(self.schema, names).encode(codes[:, places]))

    def labels(self, codes: NDArray[np.int64]) -> list[str]:
        """Return the printed label of every row."""
        texts = self.schema.modelled_column(self.label).texts()
        return [texts[code] for code in codes[:, self.schema.names.index(self.label)]]


def fit_party_model(bundle: Path, out: Path, *, n: int = 20) -> tuple[str, ...]:
    """Build machines from the released rows of a bundle, class by class, and write them to a file.

    Parameters
    ----------
    bundle : Path
        A zip or a folder of a table with a label, or of a model released with rows; it is not verified here.
    out : Path
        The file to write.
    n : int
        The subspace dimension of a machine.

    Returns
    -------
    tuple of str
        What was built, in sentences.

    Raises
    ------
    InputError
        If the bundle declares no label, is of two tables, or contains a model without rows.
    """
    declared, codes = _released(bundle)
    model = KahmModel.fit(declared.vectors(codes), declared.labels(codes), n=n)
    save_model(model, out)
    return (
        f"Built machines of {len(model.classes)} classes from {len(codes):,} released rows, with {model.n_columns:,} "
        "coordinates.",
        "The file contains the released rows: it reveals what they reveal, and nothing else.",
    )


def classify(table: Path, models: Sequence[Path], out: Path, *, like: Path) -> tuple[str, ...]:
    """Classify rows by the nearest machine of several parties, and write the classes to a file.

    Parameters
    ----------
    table : Path
        Rows with the columns of the bundle ``like``, including the label.
    models : sequence of Path
        The files of parties that declared the same columns.
    out : Path
        A CSV file with one column, the class of every row.
    like : Path
        A bundle that says how rows are read.
    """
    declared, _ = _released(like)
    codes = read_table(table, declared.schema)
    found = FederatedClassifier(tuple(load_model(path) for path in models)).predict(declared.vectors(codes))
    with out.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, lineterminator="\n").writerows([[declared.label], *([str(one)] for one in found)])
    right = np.mean(found.astype(str) == np.array(declared.labels(codes), dtype=str))
    return (
        f"Classified {len(found):,} rows with the machines of {len(models)} parties; {right:.1%} agree with their "
        "label.",
    )


def _released(bundle: Path) -> tuple[_Declared, NDArray[np.int64]]:
    """Return what a bundle declares, and its rows as codes."""
    with open_archive(bundle) as archive, tempfile.TemporaryDirectory() as folder:
        card, state = model_from_bytes(archive.read("model.safetensors"))
        label = parse_config(read_mapping(archive.read("config.yaml").decode("utf-8"), sealed=True)).label
        if label is None:
            raise InputError("The bundle declares no label, so there are no classes to build machines for.")
        if card.schema.tables is not None:
            raise InputError("The bundle is of two tables, and machines are built from the rows of a single one.")
        if card.is_model:
            if "codes" not in state:
                raise InputError(
                    f"The model '{card.generator}' was released without rows, so no machines can be built."
                )
            return _Declared(card.schema, label), state["codes"].astype(np.int64)
        rows = Path(folder) / "synthetic.csv"
        rows.write_bytes(archive.read("synthetic.csv"))
        return _Declared(card.schema, label), read_table(rows, card.schema)
