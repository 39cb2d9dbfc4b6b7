"""The tables that generators are compared on: rows as codes, the public schema, and the coding that is compared."""

from __future__ import annotations

import gzip
import io
import json
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from pathlib import Path

import declared
import numpy as np
import pandas as pd
from coded import CODED
from declared_network import ORDER, network
from numpy.typing import NDArray
from simulated_tables import EXTREMES, LABEL, SIMULATED

import synth
from synth.generators.coarse_grid import CoarseGrid, coarse_grid
from synth.privacy.table import kept_rows
from synth.reading.reader import read_codes
from synth.schema import CategoryColumn, Column, ModelledColumn, NumberColumn, PrivacyUnit, Schema, TableFormat

ROOT = Path(__file__).resolve().parents[1]
AIM_BINS = 32
"""Equal parts of a number's declared range, the usual coding of numbers for AIM; places of a shorter grid are kept."""


SPLIT_SEED = 20_261_121
"""Public: which rows are kept for testing, together with the seed of a cell."""


@dataclass(frozen=True, eq=False)
class Table:
    """Rows to learn from.

    Attributes
    ----------
    codes : array of shape (rows, columns)
        In the order of ``schema.names``; at most ``rows_per_unit`` rows of each unit.
    units : array of shape (rows,), or None
        Whose row it is, where the schema has an id column.
    every_code : bool
        Compare with one bin for each code and over all sets of columns, not with numbers in at most ``bins``.
    bins : int
        Equal parts of a number's declared range; places of a shorter grid are kept.
    written : bytes, or None
        The file that the codes were read from, in ``form``.
    """

    name: str
    schema: Schema
    label: str | None
    codes: NDArray[np.int64]
    units: NDArray[np.int64] | None = None
    every_code: bool = False
    bins: int = AIM_BINS
    written: bytes | None = None
    form: TableFormat = field(default_factory=TableFormat)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of bins of every column, as compared."""
        return self.schema.sizes if self.every_code else tuple(self._places(c).size for c in self.schema.modelled)

    def binned(self, codes: NDArray[np.integer]) -> NDArray[np.int64]:
        """Turn codes into the bins that are compared, and that AIM is given."""
        if self.every_code:
            return np.asarray(codes, dtype=np.int64)
        rows = np.array(codes, dtype=np.int64)
        for d, column in enumerate(self.schema.modelled):
            bins = self._places(column).bins
            rows[:, d] = rows[:, d] if bins is None else bins[rows[:, d]]
        return rows

    def unbinned(self, bins: NDArray[np.integer], seed: int) -> NDArray[np.int64]:
        """Turn bins back into codes, evenly inside each bin; the seed is public."""
        rows = np.array(bins, dtype=np.int64)
        if not self.every_code:
            random = np.random.default_rng(seed)
            for d, column in enumerate(self.schema.modelled):
                rows[:, d] = self._places(column).codes(rows[:, d], random.random(len(rows)))
        return rows

    def _places(self, column: ModelledColumn) -> CoarseGrid:
        """Return the product's own equal parts, so that nobody loses by where the edges are."""
        return coarse_grid(column, grid=self.bins, atoms=column.size)


NUMBERS_OF_ADULT = (0, 4, 10, 11, 12)
"""Age, years of education, capital gain and loss, and hours; the other columns of the discretised table are codes."""


NUMBERS_OF_CODES = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
"""The numbers among the columns of private-pgm's codes."""


def discretised(data: Path, name: str, *, categories_only: bool) -> Table:
    with gzip.open(data / "adult_discretised" / f"sdgym_{name}_adult.npy.gz") as stream:
        values = np.load(stream).astype(np.int64)
    lowest, highest = values.min(axis=0), values.max(axis=0)
    columns: list[Column] = []
    for d, (low, high) in enumerate(zip(lowest.tolist(), highest.tolist(), strict=True)):
        if d in NUMBERS_OF_ADULT and not categories_only:
            columns.append(NumberColumn(f"c{d}", low, high, 1))
        else:
            columns.append(CategoryColumn(f"c{d}", tuple(map(str, range(low, high + 1)))))
    return Table(name, Schema(tuple(columns)), "c14", values - lowest, every_code=True)


def private_pgm(data: Path) -> Table:
    """Return all 48,842 rows in the codes of private-pgm: 14 columns, one code for each of its bins."""
    folder = data / "adult_discretised"
    sizes: dict[str, int] = json.loads((folder / "pgm_adult-domain.json").read_text(encoding="utf-8"))
    rows = pd.read_csv(folder / "pgm_adult.csv.gz")[list(sizes)]
    columns = tuple(
        NumberColumn(name, 0, size - 1, 1)
        if name in NUMBERS_OF_CODES
        else CategoryColumn(name, tuple(map(str, range(size))))
        for name, size in sizes.items()
    )
    return Table("codes", Schema(columns), "income>50K", rows.to_numpy(dtype=np.int64), every_code=True)


def read(
    name: str,
    columns: list[Column],
    label: str,
    source: Path | pd.DataFrame,
    form: TableFormat | None = None,
    unit: PrivacyUnit | None = None,
) -> Table:
    """Encode a table by the product's own reader."""
    if isinstance(source, pd.DataFrame):
        written = source.to_csv(index=False).encode()
        by_name = {column.name: column for column in columns}
        columns = [by_name[each] for each in source.columns]
    else:
        written = gzip.decompress(source.read_bytes())
    schema = Schema(tuple(columns), unit or PrivacyUnit())
    read = read_codes(lambda: io.BytesIO(written), form or TableFormat(), schema)
    columns, hashes = read._codes, read._unit_hashes  # noqa: SLF001  # of a public table
    codes = np.stack([columns[each].astype(np.int64) for each in schema.names], axis=1)
    units = None
    if hashes is not None:
        kept = kept_rows(hashes, rows_per_unit=schema.unit.rows_per_unit, account_key=b"")
        units = np.unique(hashes, axis=0, return_inverse=True)[1].reshape(-1)[kept]
        codes = codes[kept]
    return Table(name, schema, label, codes, units, written=written, form=form or TableFormat())


def _adult(data: Path, file: str = "adult.data.gz") -> Table:
    config = synth.load_config(ROOT / "examples" / "adult.yaml")
    columns = list(config.schema.columns)
    form = config.test_format if file.startswith("adult.test") else config.format
    return read("adult", columns, "income", data / "adult" / file, form)


def _text(path: Path, **options: object) -> pd.DataFrame:
    return pd.read_csv(path, dtype=str, keep_default_na=False, **options)


def _cervical(data: Path) -> Table:
    rows = _text(data / "cervical" / "risk_factors_cervical_cancer.csv").replace("?", "")
    return read("cervical", declared.cervical(), "Biopsy", rows)


def _letters(data: Path, part: str = "train") -> Table:
    rows = _text(data / "artificial_characters" / f"artificial-characters_{part}.csv.gz")
    return read("artificial_characters", declared.letters(), "Class", rows)


def _simulated(name: str, *, tested: bool = False) -> Table:
    columns, rows, learnt = SIMULATED[name]()
    return read(name, columns, LABEL, rows[learnt:] if tested else rows[:learnt])


def _extreme(name: str, *, tested: bool = False) -> Table:
    columns, codes = EXTREMES[name](tested=tested)
    return Table(name, Schema(tuple(columns)), LABEL, codes)


def _titanic(data: Path) -> Table:
    return read("titanic", declared.titanic(), "Survived", _text(data / "titanic" / "titanic.csv"))


def _wine(data: Path, colour: str, first: int | None = None) -> Table:
    rows = _text(data / "wine_quality" / f"winequality-{colour}.csv", sep=";").iloc[:first]
    return read(f"wine_{first or colour}", declared.wine(), "quality", rows)


def _insurance(data: Path, first: int | None = None) -> Table:
    rows = _text(data / "insurance" / "insurance.csv").iloc[:first]
    return read(f"insurance_{first}" if first else "insurance", declared.insurance(), "smoker", rows)


def _creditcard(data: Path) -> Table:
    rows = _text(data / "creditcard_fraud_sample" / "creditcard_sample.csv.gz")
    return read("creditcard", declared.creditcard(), "Class", rows)


def _covtype(data: Path) -> Table:
    rows = _text(data / "covtype_sample" / "covtype_train.csv.gz")
    return read("covtype", declared.covtype(), "Cover_Type", rows)


def _census(data: Path) -> Table:
    folder = data / "census_income_kdd"
    columns = declared.census(folder / "census-income.names")
    form = TableFormat(header=False, names=tuple(column.name for column in columns), separator=",", missing=("?",))
    return read("census", columns, "income", folder / "census-income.test.gz", form)


def census_part(data: Path, name: str, kept: Collection[str], *, first: int = 0, label: str = "income") -> Table:
    """Read some columns of every tenth row, counted from one of them."""
    whole = declared.census(data / "census_income_kdd" / "census-income.names")
    texts = _text(
        data / "census_income_kdd" / "census-income.test.gz",
        header=None,
        names=[column.name for column in whole],
        sep=r",\s*",
        engine="python",
    )
    listed = [column for column in whole if column.name in kept]
    texts = texts.iloc[first::10][:9_160].replace("?", "")[[name for name in kept if name in texts]]
    texts["income"] = texts["income"].str.strip()
    return read(name, listed, label, texts)


def _network(data: Path) -> Table:
    rows = _text(data / "kddcup99_10pct" / "kddcup.data_10_percent.gz", header=None, names=list(ORDER))
    return read("kddcup99", network(), "kind", rows.iloc[::8].iloc[:60_000])


def _diabetes(data: Path, rows_per_unit: int) -> Table:
    rows = _text(data / "diabetes130" / "diabetic_data.csv.gz").replace("?", "")
    unit = PrivacyUnit(protects="patient", rows_per_unit=rows_per_unit, id_column="patient_nbr")
    name = "diabetes130" if rows_per_unit > 1 else "diabetes130_one_stay"
    return read(name, declared.diabetes(), "readmitted", rows, unit=unit)


def _isolet(data: Path) -> Table:
    from scipy.io import loadmat

    file = loadmat(data / "isolet" / "Isolet.mat")
    features = file["X"][:, ::10][:, :59]
    rows = pd.DataFrame({f"f{k}": [f"{value:.2f}" for value in features[:, k]] for k in range(features.shape[1])})
    rows["letter"] = file["Y"].ravel().astype(int).astype(str)
    columns = declared.numbers("\n".join(f"f{k}: -1 1 0.01" for k in range(features.shape[1])))
    return read("isolet", [*columns, declared.category("letter", declared.counted(1, 26))], "letter", rows)


CENSUS_EXTRACT = (
    "age",
    "class of worker",
    "detailed industry recode",
    "detailed occupation recode",
    "education",
    "wage per hour",
    "marital stat",
    "major industry code",
    "major occupation code",
    "race",
    "hispanic origin",
    "sex",
    "member of a labor union",
    "full or part time employment stat",
    "capital gains",
    "dividends from stocks",
    "tax filer stat",
    "detailed household summary in household",
    "num persons worked for employer",
    "family members under 18",
    "country of birth self",
    "citizenship",
    "weeks worked in year",
    "income",
)
"""24 columns, industry and occupation each with the group of which it is a part."""

RAW: dict[str, Callable[[Path], Table]] = {
    "adult": _adult,
    "artificial_characters": _letters,
    "census": _census,
    "census_extract": lambda data: census_part(data, "census_extract", CENSUS_EXTRACT),
    "cervical": _cervical,
    "covtype": _covtype,
    "creditcard": _creditcard,
    "diabetes130": lambda data: _diabetes(data, 3),
    "diabetes130_one_stay": lambda data: _diabetes(data, 1),
    "insurance": _insurance,
    "insurance_300": lambda data: _insurance(data, 300),
    "isolet": _isolet,
    "kddcup99": _network,
    "titanic": _titanic,
    "wine_150": lambda data: _wine(data, "red", 150),
    "wine_red": lambda data: _wine(data, "red"),
    "wine_white": lambda data: _wine(data, "white"),
    **{name: lambda _data, name=name: _simulated(name) for name in SIMULATED},
    **{name: lambda _data, name=name: read(name, *CODED[name]()) for name in CODED},
    **{name: lambda _data, name=name: _extreme(name) for name in EXTREMES},
}
"""Raw tables by name, each with the function that reads it."""

TESTS: dict[str, Callable[[Path], Table]] = {
    "adult": lambda data: _adult(data, "adult.test.gz"),
    "artificial_characters": lambda data: _letters(data, "test"),
    **{name: lambda _data, name=name: _simulated(name, tested=True) for name in SIMULATED},
    **{name: lambda _data, name=name: _extreme(name, tested=True) for name in EXTREMES},
}
"""Rows to test on, where they are published apart from those to learn from."""

TABLES = ("simple", "bounded", "codes", *RAW)


def load(name: str, *, neighbours: str, categories_only: bool = False) -> Table:
    """Read one table from the folder that ``HERMITAGE_DATA`` names, under one neighbouring relation."""
    data = Path(os.environ["HERMITAGE_DATA"])
    if name == "codes":
        table = private_pgm(data)
    else:
        table = RAW[name](data) if name in RAW else discretised(data, name, categories_only=categories_only)
    row_count = "private" if neighbours == "add_remove" else "public"
    return replace(table, schema=replace(table.schema, row_count=row_count, number_of_units=None))


def load_split(name: str, *, neighbours: str, seed: int) -> tuple[Table, NDArray[np.int64]]:
    """Return rows to learn from, and the codes of rows to test on: the published test file where there is one."""
    table = load(name, neighbours=neighbours)
    if name in TESTS:
        return table, TESTS[name](Path(os.environ["HERMITAGE_DATA"])).codes
    return split(table, seed)


def read_again(table: Table, rows: pd.DataFrame) -> Table:
    """Read rows that a run made, cells as texts, back into the codes of the table they were made from."""
    return read(table.name, list(table.schema.modelled), table.label or "", rows)


def split(table: Table, seed: int) -> tuple[Table, NDArray[np.int64]]:
    """Keep a third of the units (people, patients) for testing, drawn by a public seed; no unit is on both sides."""
    units = np.arange(len(table.codes)) if table.units is None else table.units
    tested = np.random.default_rng([SPLIT_SEED, seed]).permutation(units.max() + 1) % 3 == 0
    held_out = tested[units]
    kept_units = None if table.units is None else table.units[~held_out]
    return replace(table, codes=table.codes[~held_out], units=kept_units), table.codes[held_out]
