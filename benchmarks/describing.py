"""From a table and its public codebook to a finished run by the command line, with the lines counted that a hand edits.

    HERMITAGE_DATA=FOLDER python benchmarks/describing.py [--tables adult titanic] [--rows 2000]

For every table a codebook is written as a person would have it: a line for each column, with its kind, range, step and
values (the facts of ``declared.py``, which are those of the published documentation and round numbers), or the
published ``.names`` file itself. Then

- ``synth schema TABLE --dictionary CODEBOOK --empty missing`` drafts a configuration;
- six facts about people and rows are written into its head (whom it protects, how many rows of one, whether their
  number is public, how many at most, the account, the rows to make): the same six for every table;
- lines of columns that are still open are edited by hand: those of ``BY_HAND``, each counted;
- ``synth run`` makes a release of a few thousand rows of the table, with the default generator.

No row of the table is looked at for any of it, and no row is printed.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import declared
import numpy as np
from declared_network import ORDER, network
from scipy.io import loadmat

from synth.schema import Column, parse_column
from synth.schema.documents import read_mapping

ROOT = Path(__file__).resolve().parents[1]
HEADER = ("name", "type", "lowest", "highest", "step", "values", "missing codes", "may be empty")


@dataclass(frozen=True)
class Described:
    """A table, where its codebook is from, and what no codebook says.

    Attributes
    ----------
    file : str
        Below the folder of data.
    source : str
        Who published what stands in the codebook.
    columns : list of Column
        Facts that are written as a codebook of one line a column.
    names : str
        A published names file, which is read before that.
    schema : tuple of str
        What is typed behind ``synth schema`` beside that: how the file is written.
    by_hand : mapping
        Lines of the draft that are edited: column to declaration.
    written : callable, optional
        Writes the first rows of what is published, which is no table, as one.
    generator : str
        What is asked for instead of the default generator.
    """

    file: str
    source: str
    columns: list[Column] = field(default_factory=list)
    names: str = ""
    schema: tuple[str, ...] = ()
    by_hand: dict[str, str] = field(default_factory=dict)
    written: Callable[[Path, Path, int], None] | None = None
    generator: str = ""


HEADERLESS = ("--format", "header=false", "--format", "separator=,")


def _adult(data: Path) -> Described:
    bounds = "age: 17 90 1\nfnlwgt: 0 1500000 1000\neducation-num: 1 16 1\ncapital-gain: 0 99999 1 0\n"
    bounds += "capital-loss: 0 5000 1 0\nhours-per-week: 1 99 1"
    return Described(
        "adult/adult.data.gz",
        "adult.names (UCI), and the survey's top codes",
        declared.numbers(bounds),
        "adult/adult.names",
        HEADERLESS,
    )


def _census(data: Path) -> Described:
    names = data / "census_income_kdd" / "census-income.names"
    numbers = [column for column in declared.census(names) if column.kind == "number"]
    return Described(
        "census_income_kdd/census-income.test.gz",
        "census-income.names (UCI), and the survey's top codes",
        numbers,
        "census_income_kdd/census-income.names",
        HEADERLESS,
        by_hand={"instance weight": "{type: drop}"},
    )


def _network(data: Path) -> Described:
    by_name = {column.name: column for column in network()}
    return Described(
        "kddcup99_10pct/kddcup.data_10_percent.gz",
        "the attribute list of KDD Cup 1999",
        [by_name[name] for name in ORDER],
        schema=HEADERLESS,
    )


def _diabetes(data: Path) -> Described:
    columns = [column for column in declared.diabetes() if not column.name.startswith("diag_")]
    diagnoses = {f"diag_{place}": "{type: drop}" for place in (1, 2, 3)}
    return Described(
        "diabetes130/diabetic_data.csv.gz",
        "Strack et al. 2014, table 1, and IDs_mapping.csv",
        columns,
        by_hand=diagnoses,
    )


def _voices(data: Path) -> Described:
    """Every feature between -1 and 1 in steps of .01, as its documentation scales them."""
    features = "\n".join(f"f{place}: -1 1 0.01" for place in range(617))

    def written(source: Path, target: Path, rows: int) -> None:
        file = loadmat(source)
        names = [*(f"f{place}" for place in range(617)), "letter"]
        _write(target, names, np.column_stack([file["X"], file["Y"]])[:rows].tolist())

    return Described(
        "isolet/Isolet.mat",
        "isolet.info (UCI)",
        [*declared.numbers(features), declared.category("letter", declared.counted(1, 26))],
        written=written,
        generator="independent",
    )


def _digits(data: Path) -> Described:
    """Grey levels of 784 pixels, and the digit."""
    pixels = "\n".join(f"p{place}: 0 255 1" for place in range(784))

    def written(source: Path, target: Path, rows: int) -> None:
        images = gzip.decompress(source.read_bytes())[16:]
        labels = gzip.decompress(source.with_name("train-labels-idx1-ubyte.gz").read_bytes())[8:]
        lines = ([*images[784 * row : 784 * row + 784], labels[row]] for row in range(min(rows, len(labels))))
        _write(target, [*(f"p{place}" for place in range(784)), "digit"], lines)

    return Described(
        "mnist/train-images-idx3-ubyte.gz",
        "the page of the MNIST database",
        [*declared.numbers(pixels), declared.category("digit", declared.counted(0, 9))],
        written=written,
        generator="independent",
    )


def _write(target: Path, names: list[str], rows: Iterable[Iterable[object]]) -> None:
    with target.open("w", newline="", encoding="utf-8") as stream:
        lines = csv.writer(stream)
        lines.writerow(names)
        lines.writerows(rows)


def _codes_of_adult(data: Path) -> Described:
    """Whole codes from 0, as many of each column as its domain file says; long scales are numbers."""
    domain = json.loads((data / "adult_discretised" / "pgm_adult-domain.json").read_text())
    columns = [
        *declared.numbers("\n".join(f"{name}: 0 {size - 1} 1" for name, size in domain.items() if size > 50)),
        *(declared.category(name, declared.counted(0, size - 1)) for name, size in domain.items() if size <= 50),
    ]
    by_name = {column.name: column for column in columns}
    file = "adult_discretised/pgm_adult.csv.gz"
    return Described(file, "adult-domain.json (private-pgm)", [by_name[name] for name in domain])


def _plain(file: str, source: str, columns: Callable[[], list[Column]]) -> Callable[[Path], Described]:
    return lambda data: Described(file, source, columns())


TABLES: dict[str, Callable[[Path], Described]] = {
    "adult": _adult,
    "titanic": _plain("titanic/titanic.csv", "the data dictionary of Kaggle's Titanic", declared.titanic),
    "wine_red": _plain("wine_quality/winequality-red.csv", "Cortez et al. 2009, table 1, rounded", declared.wine),
    "wine_white": _plain("wine_quality/winequality-white.csv", "Cortez et al. 2009, table 1, rounded", declared.wine),
    "insurance": _plain("insurance/insurance.csv", "Lantz, Machine Learning with R", declared.insurance),
    "census": _census,
    "diabetes130": _diabetes,
    "covtype": _plain("covtype_sample/covtype_train.csv.gz", "covtype.info (UCI)", declared.covtype),
    "kddcup99": _network,
    "cervical": _plain("cervical/risk_factors_cervical_cancer.csv", "Fernandes et al. 2017", declared.cervical),
    "creditcard": _plain("creditcard_fraud_sample/creditcard_sample.csv.gz", "ULB's description", declared.creditcard),
    "artificial_characters": _plain(
        "artificial_characters/artificial-characters_train.csv.gz",
        "OpenML 1459 (Botta, Giordana, Saitta 1993)",
        declared.letters,
    ),
    "adult_discretised": _codes_of_adult,
    "isolet": _voices,
    "mnist": _digits,
}


def codebook(columns: Iterable[Column], file: Path) -> None:
    """Write declared facts as a codebook has them."""
    with file.open("w", newline="", encoding="utf-8") as stream:
        lines = csv.writer(stream)
        lines.writerow(HEADER)
        lines.writerows(map(_line, columns))


def _line(column: Column) -> tuple[str, ...]:
    said: dict[str, Any] = column.to_mapping()
    values = said.get("values") or [said[key] for key in ("yes", "no") if key in said]
    kind = {"yes_no": "yes/no", "drop": "leave out"}.get(column.kind, column.kind)
    return (
        column.name,
        "integer" if column.kind == "number" and said["step"] == 1 else kind,
        *(f"{said[key]:g}" if key in said else "" for key in ("low", "high", "step")),
        "; ".join(f'"{value}"' if set("=;") & set(value) else value for value in values),
        "; ".join(f"{value:g}" for value in said.get("special", ())),
        "yes" if said.get("missing") else "",
    )


HEAD = {
    "account": "describing-{name}",
    "  protects": "person",
    "  rows_per_unit": "1",
    "row_count": "private",
    "people_at_most": "{people}",
    "rows": "500",
}


def fill(draft: str, name: str, described: Described, people: int) -> tuple[str, int, int, int, list[str]]:
    """Edit a draft as a hand would; return it with how many columns there are, came filled and were edited."""
    lines = draft.splitlines()
    edited, columns, filled = 0, 0, 0
    still: list[str] = []
    section = ""
    for place, line in enumerate(lines):
        if line and not line.startswith((" ", "#")):
            section = line.partition(":")[0]
        key = line.partition(":")[0]
        if section not in {"columns", "domain_source", "format"} and key in HEAD:
            lines[place] = f"{key}: {HEAD[key].format(name=name, people=people)}"
        if section == "columns" and line.startswith("  "):
            columns += 1
            column = next(iter(read_mapping(line)))
            if column in described.by_hand:
                lines[place] = f"{line[: line.index(': {')]}: {described.by_hand[column]}"
                edited += 1
            elif _is_whole(line):
                filled += 1
            else:
                still.append(column)
    return "\n".join(lines) + "\n", columns, filled, edited, still


def _is_whole(line: str) -> bool:
    ((name, said),) = read_mapping(line).items()
    try:
        parse_column(name, said)
    except ValueError:
        return False
    except Exception as refusal:
        return not str(refusal)
    return True


def first_rows(source: Path, target: Path, rows: int) -> None:
    """Keep the first lines of a file: the run is to end soon."""
    with gzip.open(source, "rb") if source.suffix == ".gz" else source.open("rb") as stream, target.open("wb") as kept:
        for _, line in zip(range(rows), stream, strict=False):
            kept.write(line)


def synth(*arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    known = {**os.environ, "HERMITAGE_HOME": str(home), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "synth", *arguments]
    return subprocess.run(command, env=known, capture_output=True, text=True, check=False)


def measure(name: str, data: Path, rows: int) -> None:
    described = TABLES[name](data)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        table = place / re.sub(r"\.gz$", "", Path(described.file).name)
        if described.written is None:
            first_rows(data / described.file, table, rows)
        else:
            described.written(data / described.file, table := table.with_suffix(".csv"), rows)
        arguments = ["schema", str(table), *described.schema]
        if described.names:
            arguments += ["--dictionary", str(data / described.names)]
        if described.columns:
            codebook(described.columns, place / "codebook.csv")
            arguments += ["--dictionary", str(place / "codebook.csv")]
        began = time.monotonic()
        drafted = synth(*arguments, "--empty", "missing", home=place / "home")
        if drafted.returncode:
            print(f"{name:24} no draft: {drafted.stderr.strip()}")
            return
        text, columns, filled, edited, still = fill(drafted.stdout, name, described, rows)
        (place / "config.yaml").write_text(text.replace(f"table: {table.name}", f"table: {table}"), encoding="utf-8")
        how = ["--out", str(place / "out"), "--no-owner-report"]
        how += ["--generator", described.generator] if described.generator else []
        ran = synth("run", str(place / "config.yaml"), *how, home=place / "home")
        last = "finished" if ran.returncode == 0 else f"refused: {ran.stderr.strip().splitlines()[-1]}"
        took = time.monotonic() - began
        print(
            f"{name:24}{columns:>5} columns{filled:>5} filled{edited:>4} by hand{len(still):>4} open, run {last}, "
            f"{took:.0f} s ({described.source})",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--rows", type=int, default=2_000, help="lines of each table that are read")
    given = parser.parse_args()
    for name in given.tables:
        measure(name, Path(os.environ["HERMITAGE_DATA"]), given.rows)


if __name__ == "__main__":
    main()
