"""Every public table whole, from columns that nobody describes to a bundle that verifies.

    HERMITAGE_DATA=FOLDER python benchmarks/real_tables.py [--tables adult titanic] [--epsilon 1] [--find 0.1] \
        [--generators dp-hp-adaptive independent] [--limit 1800] [--json FILE] [--resume]

All rows and all columns of a table are given to ``synth run --find`` under a declaration that leaves every column open
(``type: find``), but for the id of the patients of diabetes130. A part of epsilon finds them; what remains makes as
many rows as the table has, with the default generator and with another one. Then ``synth verify`` checks the bundle
within its usual limits. Files that are not read as they are published (images, arrays) are written as CSV first, in a
temporary folder. Nothing is known of columns but their names: those of the header line, or of the documentation.

Each run is a process of its own, on one thread; memory is the largest that this process held. What reads the table and
what checks the bundle are processes beside it, with limits of their own.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import declared
import numpy as np
import yaml
from any_declaration import installation, problems_of, spent, told_meanwhile, where
from declared_network import ORDER
from scipy.io import loadmat

import synth
from synth.cli.finding import found_and_kept
from synth.cli.local import run_locally
from synth.errors import SynthError
from synth.generators import GENERATORS
from synth.schema import load_config
from synth.services.pipeline import peak_memory_bytes

ROOT = Path(__file__).resolve().parents[1]
MEBIBYTE = 2**20


@dataclass(frozen=True)
class Real:
    """A published table.

    Attributes
    ----------
    file : str
        Below the folder of data.
    names : tuple of str
        Of its columns, where its first line does not hold them.
    separator : str
    missing : tuple of str
        Signs for a missing cell that its documentation names.
    unit, rows_per_unit : str, int
        The column that tells whose row it is, and how many rows one of them has at most.
    written : callable, optional
        Writes what is published, which is no text, as CSV.
    skipped : int
        Lines before the first row.
    """

    file: str
    names: tuple[str, ...] = ()
    separator: str = ","
    missing: tuple[str, ...] = ("",)
    unit: str = ""
    rows_per_unit: int = 1
    written: Callable[[Path, Path], None] | None = None
    skipped: int = 0


# Files that are no texts ----------------------------------------------------------------------------------------------


def _voices(source: Path, target: Path) -> None:
    file = loadmat(source)
    names = [*(f"f{place}" for place in range(file["X"].shape[1])), "letter"]
    letters = file["Y"].ravel().astype(int).tolist()
    _write(target, names, ([*row, letter] for row, letter in zip(file["X"].tolist(), letters, strict=True)))


def _digits(source: Path, target: Path) -> None:
    images = np.frombuffer(gzip.decompress(source.read_bytes())[16:], np.uint8).reshape(-1, 784)
    of_labels = source.name.replace("images-idx3", "labels-idx1")
    labels = gzip.decompress(source.with_name(of_labels).read_bytes())[8:]
    names = [*(f"p{place}" for place in range(784)), "digit"]
    _write(target, names, ([*row, digit] for row, digit in zip(images.tolist(), labels, strict=True)))


def _array(source: Path, target: Path) -> None:
    with gzip.open(source) as stream:
        values = np.load(stream)
    _write(target, [f"c{place}" for place in range(values.shape[1])], values.astype(int).tolist())


def _write(target: Path, names: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with target.open("w", newline="", encoding="utf-8") as stream:
        lines = csv.writer(stream)
        lines.writerow(names)
        lines.writerows(rows)


def tables(data: Path) -> dict[str, Real]:
    """Return every published table by name."""
    adult = tuple(synth.load_config(ROOT / "examples" / "adult.yaml").format.names or ())
    census = tuple(column.name for column in declared.census(data / "census_income_kdd" / "census-income.names"))
    letters = "artificial_characters/artificial-characters_{}.csv.gz"
    return {
        "titanic": Real("titanic/titanic.csv"),
        "insurance": Real("insurance/insurance.csv"),
        "cervical": Real("cervical/risk_factors_cervical_cancer.csv", missing=("", "?")),
        "wine_red": Real("wine_quality/winequality-red.csv", separator=";"),
        "wine_white": Real("wine_quality/winequality-white.csv", separator=";"),
        "creditcard": Real("creditcard_fraud_sample/creditcard_sample.csv.gz"),
        "artificial_characters_val": Real(letters.format("val")),
        "artificial_characters_test": Real(letters.format("test")),
        "artificial_characters": Real(letters.format("train")),
        "adult": Real("adult/adult.data.gz", adult, missing=("", "?")),
        "adult_test": Real("adult/adult.test.gz", adult, missing=("", "?"), skipped=1),
        "adult_simple": Real("adult_discretised/sdgym_simple_adult.npy.gz", written=_array),
        "adult_bounded": Real("adult_discretised/sdgym_bounded_adult.npy.gz", written=_array),
        "adult_codes": Real("adult_discretised/pgm_adult.csv.gz"),
        "covtype": Real("covtype_sample/covtype_train.csv.gz"),
        "census": Real("census_income_kdd/census-income.test.gz", census, missing=("", "?")),
        "diabetes130": Real("diabetes130/diabetic_data.csv.gz", missing=("", "?"), unit="patient_nbr", rows_per_unit=4),
        "kddcup99": Real("kddcup99_10pct/kddcup.data_10_percent.gz", tuple(ORDER)),
        "isolet": Real("isolet/Isolet.mat", written=_voices),
        "mnist_test": Real("mnist/t10k-images-idx3-ubyte.gz", written=_digits),
        "mnist": Real("mnist/train-images-idx3-ubyte.gz", written=_digits),
    }


# One run --------------------------------------------------------------------------------------------------------------


def measure(name: str, generator: str, asked: argparse.Namespace) -> dict[str, Any]:
    """Find, run and verify one table; return what it took and how it ended."""
    data, place = Path(os.environ["HERMITAGE_DATA"]), asked.place
    real = tables(data)[name]
    table = place / f"{name}.csv"
    if real.written is not None:
        real.written(data / real.file, table)
    else:
        source = data / real.file
        with gzip.open(source, "rb") if source.suffix == ".gz" else source.open("rb") as stream, table.open("wb") as to:
            shutil.copyfileobj(stream, to)
    names, rows = _top(table, real)
    said: dict[str, Any] = {"table": name, "generator": generator, "rows": rows, "columns": len(names)}
    path = place / "open.yaml"
    document = _declaration(real, table, names, rows, asked.epsilon, generator)
    path.write_text(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), "utf-8")
    begin = time.perf_counter()
    with installation(place / "home"), told_meanwhile() as told:
        try:
            silent = {"password": None, "say": lambda line: None, "warn": lambda line: None}
            find = partial(found_and_kept, path=path, epsilon=asked.find, **silent)
            result = run_locally(load_config(path), place / "out", find=find)
            said["seconds"] = time.perf_counter() - begin
            begin = time.perf_counter()
            verdict = synth.verify(result.folder)
            said["verify_seconds"] = time.perf_counter() - begin
            said["how"] = "ran" if verdict.ok else "failed"
            said["words"] = "; ".join(problems_of(verdict))
            found = load_config(place / "open-found.yaml").schema
            said["described"] = len(found.modelled)
        except SynthError as refusal:
            paid = " (after the finding was paid for)" if spent("public tables") > 0 else ""
            said |= {"how": "refused", "words": f"{refusal}{paid}", "detail": where(refusal)}
        except Exception as error:
            said |= {"how": "failed", "words": f"{type(error).__name__}: {error}", "detail": where(error)}
    if told.incidents or told.of_numbers:
        said |= {"how": "failed", "words": "; ".join([said["words"], *told.incidents, *told.of_numbers])}
    said.setdefault("seconds", time.perf_counter() - begin)
    said["peak_mib"] = peak_memory_bytes() / MEBIBYTE
    return said


def _top(table: Path, real: Real) -> tuple[tuple[str, ...], int]:
    """Return the names of the columns, and how many rows there are."""
    with table.open("rb") as stream:
        lines = sum(bool(line.strip()) for line in stream)
    if real.names:
        return real.names, lines - real.skipped
    with table.open(newline="", encoding="utf-8") as stream:
        return tuple(next(csv.reader(stream, delimiter=real.separator))), lines - 1


def _declaration(
    real: Real, table: Path, names: Sequence[str], rows: int, epsilon: float, generator: str
) -> dict[str, Any]:
    form: dict[str, Any] = {"separator": real.separator, "missing": list(real.missing)}
    if real.names:
        form |= {"header": False, "names": list(real.names), "skip_rows": real.skipped}
    unit: dict[str, Any] = {"protects": "person", "rows_per_unit": real.rows_per_unit}
    if real.unit:
        unit["id_column"] = real.unit
    return {
        "table": str(table),
        "format": form,
        "account": "public tables",
        "unit": unit,
        "row_count": "private",
        "people_at_most": 10 ** len(str(rows)),
        "budget": {"epsilon": epsilon},
        "generator": {"name": generator},
        "rows": rows,
        "columns": {name: {"type": "identifier" if name == real.unit else "find"} for name in names},
    }


def in_a_process(name: str, generator: str, asked: argparse.Namespace) -> dict[str, Any]:
    """Measure in a process of its own, for so many seconds at most."""
    with tempfile.TemporaryDirectory(prefix="real-tables-") as place:
        command = [sys.executable, __file__, "--one", name, generator, "--place", place]
        command += ["--epsilon", str(asked.epsilon), "--find", str(asked.find)]
        begin = time.perf_counter()
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            said, errors = process.communicate(timeout=asked.limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            said, errors = "", f"took longer than {asked.limit:g} seconds"
        if process.returncode == 0:
            return dict(json.loads(said.strip().splitlines()[-1]))
        last = errors.strip().splitlines()[-1:] or [f"ended with {process.returncode}"]
        taken = time.perf_counter() - begin
        return {"table": name, "generator": generator, "how": "failed", "words": last[0], "seconds": taken}


def shown(said: dict[str, Any]) -> str:
    rows, columns = said.get("rows", 0), said.get("columns", 0)
    found = f"{said['described']} found" if "described" in said else "-"
    return (
        f"{said['table']:26} {said['generator']:16} {rows:>8,} x {columns:<4} {found:>10} {said['seconds']:>8,.0f} s "
        f"{said.get('verify_seconds', 0):>6,.1f} s {said.get('peak_mib', 0):>7,.0f} MiB  {said['how']}"
        + (f": {said['words']}" if said.get("words") else "")
        + (f"\n    {said['detail']}" if said.get("detail") else "")
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", help="by default all of them")
    parser.add_argument("--generators", nargs="+", choices=list(GENERATORS), default=["dp-hp-adaptive", "independent"])
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--find", type=float, default=0.1, help="epsilon that finds the columns, a part of --epsilon")
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds of one run")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--place", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if "HERMITAGE_DATA" not in os.environ:
        sys.exit("Set HERMITAGE_DATA to the folder that holds the public tables.")
    if asked.one is not None:
        print(json.dumps(measure(*asked.one, asked)))
        return
    done: list[dict[str, Any]] = []
    if asked.resume and asked.json is not None and asked.json.exists():
        done = json.loads(asked.json.read_text())
    for name in asked.tables or tables(Path(os.environ["HERMITAGE_DATA"])):
        for generator in asked.generators:
            held = {"table": name, "generator": generator, "epsilon": asked.epsilon, "find": asked.find}
            said = next((one for one in done if one.items() >= held.items()), None)
            if said is None:
                said = held | in_a_process(name, generator, asked)
                done.append(said)
                if asked.json is not None:
                    asked.json.write_text(json.dumps(done, indent=1) + "\n")
            print(shown(said), flush=True)
    ways = [one["how"] for one in done]
    print(f"ran {ways.count('ran')} / refused {ways.count('refused')} / failed {ways.count('failed')}")


if __name__ == "__main__":
    main()
