"""The tables of ``everywhere.py``: two halves of similar kinds, one of which is kept for the last measurement.

A declaration says what an owner knows without looking: the codebook that is published with a table, and round bounds
that hold for any such table. Rows are drawn by public seeds: at most ``at_most`` of a table, and a third of them to
test on where no test file is published. Nothing that is held back is read by anything but ``everywhere.py --last``,
and nothing of it has been used here before: other columns and rows of a survey, tables that come with libraries,
pictures in a form of their own, and simulations of other seeds.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import declared
import numpy as np
import pandas as pd
import tables
from numpy.typing import NDArray
from pictures import mnist
from simulated_tables import LABEL, Made, amounts, connections, gaussian, sales, structural_tree
from tables import CENSUS_EXTRACT, TESTS, Table

from synth.schema import Column

__all__ = ["HELD_BACK", "LISTED", "OPEN", "Listed", "split"]

DRAWN_SEED = 20_261_129
"""Public: which rows of a large table are taken."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A table of the benchmark.

    Attributes
    ----------
    name : str
    kind : str
        What it stands for; both halves have the same kinds, in the same order.
    source : str
        Where its rows come from, and which part of them is taken.
    made_by : callable
        Returns all rows. It may read files below ``HERMITAGE_DATA``.
    held_back : bool
        Whether it is read in the last measurement only.
    at_most : int, optional
        Rows taken of it.
    tests : str, optional
        The key in ``tables.TESTS`` of published test rows; without them a third is drawn by the seed.
    """

    name: str
    kind: str
    source: str
    made_by: Callable[[], Table]
    held_back: bool = False
    at_most: int | None = None
    tests: str | None = None


def split(listed: Listed, seed: int) -> tuple[Table, NDArray[np.int64]]:
    """Return rows to learn from, under add/remove, and the codes of rows to test on."""
    table = _taken(listed)
    if listed.tests is not None:
        return table, TESTS[listed.tests](_data()).codes
    return tables.split(table, seed)


@functools.lru_cache(maxsize=4)
def _taken(listed: Listed) -> Table:
    table = listed.made_by()
    table = replace(table, name=listed.name, written=None)
    schema = replace(table.schema, row_count="private", number_of_units=None)
    if listed.at_most is None or len(table.codes) <= listed.at_most:
        return replace(table, schema=schema)
    rows = np.sort(np.random.default_rng(DRAWN_SEED).permutation(len(table.codes))[: listed.at_most])
    units = None if table.units is None else table.units[rows]
    return replace(table, schema=schema, codes=table.codes[rows], units=units)


def _data() -> Path:
    return Path(os.environ["HERMITAGE_DATA"])


def _known(name: str) -> Callable[[], Table]:
    """Return what reads a table of ``tables.py``."""
    return lambda: tables.load(name, neighbours="add_remove")


def _drawn(name: str, made_by: Callable[[], Made]) -> Callable[[], Table]:
    def make() -> Table:
        columns, rows, _ = made_by()
        return tables.read(name, columns, LABEL, rows)

    return make


def _shipped(name: str, loader: str, columns: Callable[[], list[Column]], label: str | None) -> Callable[[], Table]:
    """Return what reads a table that comes with scikit-learn: its numbers, then its target."""

    def make() -> Table:
        import sklearn.datasets

        options = {"scaled": False} if loader == "load_diabetes" else {}
        values, target = getattr(sklearn.datasets, loader)(return_X_y=True, **options)
        listed = columns()
        cells = [[f"{value:.10g}" for value in column] for column in (*np.transpose(values), target)]
        rows = pd.DataFrame(dict(zip((column.name for column in listed), cells, strict=True)))
        return replace(tables.read(name, listed, label or "", rows), label=label)

    return make


def progression() -> list[Column]:
    return [
        *declared.numbers("age: 0 100 1"),
        declared.category("sex", "1 2"),
        *declared.numbers(
            """
            bmi: 10 60 0.1
            pressure: 40 200 1
            cholesterol: 50 400 1
            ldl: 20 300 1
            hdl: 10 150 1
            ratio: 0 12 0.1
            log triglycerides: 2 8 0.05
            glucose: 40 250 1
            progression: 0 400 1
            """
        ),
    ]


def cultivars() -> list[Column]:
    return [
        *declared.numbers(
            """
            alcohol: 8 16 0.05
            malic acid: 0 8 0.05
            ash: 1 4 0.02
            alcalinity of ash: 5 40 0.5
            magnesium: 50 200 1
            total phenols: 0 5 0.05
            flavanoids: 0 6 0.05
            nonflavanoid phenols: 0 1 0.01
            proanthocyanins: 0 5 0.05
            color intensity: 0 15 0.1
            hue: 0 2 0.01
            od280/od315: 0 5 0.02
            proline: 0 2000 5
            """
        ),
        declared.category("cultivar", "0 1 2"),
    ]


def nuclei() -> list[Column]:
    """Return ten measures of cell nuclei, each as a mean, its standard error and the mean of the three largest."""
    bounds = {
        "radius": ("0 50 0.1", "0 5 0.02", "0 60 0.1"),
        "texture": ("0 60 0.1", "0 6 0.02", "0 80 0.1"),
        "perimeter": ("0 300 1", "0 40 0.1", "0 400 1"),
        "area": ("0 4000 5", "0 1000 1", "0 6000 5"),
        "smoothness": ("0 0.3 0.001", "0 0.05 0.0002", "0 0.4 0.001"),
        "compactness": ("0 0.5 0.001", "0 0.2 0.0005", "0 1.5 0.002"),
        "concavity": ("0 0.6 0.001", "0 0.5 0.001", "0 1.5 0.002"),
        "concave points": ("0 0.3 0.001", "0 0.1 0.0002", "0 0.5 0.001"),
        "symmetry": ("0 0.5 0.001", "0 0.1 0.0002", "0 1 0.001"),
        "fractal dimension": ("0 0.2 0.0005", "0 0.05 0.0001", "0 0.4 0.0005"),
    }
    lines = [f"{name}, {part}: {each[at]}" for at, part in enumerate(_PARTS) for name, each in bounds.items()]
    return [*declared.numbers("\n".join(lines)), declared.category("benign", "0 1")]


_PARTS = ("mean", "error", "largest")


def digits() -> list[Column]:
    pixels = "\n".join(f"p{at}: 0 16 1" for at in range(64))
    return [*declared.numbers(pixels), declared.category("digit", declared.counted(0, 9))]


MOVES = (
    "region of previous residence",
    "state of previous residence",
    "migration code-change in msa",
    "migration code-change in reg",
    "migration code-move within reg",
    "live in this house 1 year ago",
    "migration prev res in sunbelt",
    "year",
)
"""Codes of a survey about where people lived a year before."""


def _origins() -> Table:
    """Read the columns that are in neither ``census_extract`` nor ``moves``, and four of the first."""
    folder = _data() / "census_income_kdd"
    shared = ("age", "sex", "weeks worked in year", "income")
    names = [column.name for column in declared.census(folder / "census-income.names")]
    kept = [name for name in names if name in shared or name not in (*CENSUS_EXTRACT, *MOVES)]
    return tables.census_part(_data(), "origins", kept, first=4)


def _moves() -> Table:
    kept = ("sex", "race", "marital stat", *MOVES, "income")
    return tables.census_part(_data(), "moves", kept, first=7, label="live in this house 1 year ago")


def _countries() -> Table:
    """Read what comes with plotly: how long people live, how many there are and what they produce."""
    import plotly.data

    columns = [
        *declared.numbers("year: 1900 2050 1\nlifeExp: 0 120 0.1\npop: 0 2000000000 1000\ngdpPercap: 0 1000000 1"),
        declared.category("continent", "Africa Americas Asia Europe Oceania"),
    ]
    rows = plotly.data.gapminder()[[column.name for column in columns]].astype(str)
    return tables.read("countries", columns, "continent", rows)


def _strokes() -> Table:
    """Read the test pictures of MNIST, 16 pixels to a number."""
    pictures = mnist(_data())
    grey = pictures.test.reshape(-1, 7, 4, 7, 4).mean(axis=(2, 4)).reshape(-1, 49)
    columns = [
        *declared.numbers("\n".join(f"p{at}: 0 255 1" for at in range(49))),
        declared.category("digit", declared.counted(0, 9)),
    ]
    cells = np.column_stack([np.rint(255 * grey).astype(np.int64), pictures.test_labels])
    rows = pd.DataFrame(cells, columns=[column.name for column in columns]).astype(str)
    return tables.read("strokes", columns, "digit", rows)


_KINDS = (
    "people of a census",
    "codes of a survey",
    "patients, a few hundred",
    "few columns with amounts",
    "a few hundred rows of numbers",
    "thousands of numbers, many classes or rare ones",
    "sixty columns that hang together",
    "logs and traces of machines",
    "a label by rules of several numbers",
    "one dense covariance",
    "amounts of nothing to 10 million",
    "columns of many codes",
)

_OPEN = (
    Listed("adult", _KINDS[0], "UCI Adult, its training file and its test file", _known("adult"), tests="adult"),
    Listed("simple", _KINDS[1], "Adult in codes of the SDGym benchmark", _known("simple")),
    Listed("cervical", _KINDS[2], "UCI cervical cancer risk factors", _known("cervical")),
    Listed("insurance", _KINDS[3], "medical costs (Lantz)", _known("insurance")),
    Listed(
        "progression", _KINDS[4], "scikit-learn, load_diabetes; no label",
        _shipped("progression", "load_diabetes", progression, None),
    ),
    Listed("covtype", _KINDS[5], "UCI covertype, a balanced sample", _known("covtype")),
    Listed("isolet", _KINDS[6], "UCI ISOLET, every tenth of its features, the first 59 of these", _known("isolet")),
    Listed(
        "kddcup99", _KINDS[7], "KDD Cup 1999, a tenth, of it every eighth row, of these 20,000",
        _known("kddcup99"), at_most=20_000,
    ),
    Listed("scm_tree", _KINDS[8], "simulated: causes and effects, labelled by a tree of depth six", _known("scm_tree"),
           tests="scm_tree"),
    Listed("g10", _KINDS[9], "simulated: ten numbers of one covariance", _known("g10"), at_most=20_000, tests="g10"),
    Listed("incomes", _KINDS[10], "simulated: earned, saved and cost, skewed and often nothing", _known("incomes"),
           tests="incomes"),
    Listed("shops", _KINDS[11], "simulated: sales by product, brand, shop and town", _known("shops"), tests="shops"),
)  # fmt: skip

_LAST = (
    Listed("origins", _KINDS[0], "UCI census income (KDD): families, parents' countries and veterans, every tenth row",
           _origins),
    Listed("moves", _KINDS[1], "UCI census income (KDD): codes of who moved, every tenth row", _moves),
    Listed("nuclei", _KINDS[2], "scikit-learn, load_breast_cancer",
           _shipped("nuclei", "load_breast_cancer", nuclei, "benign")),
    Listed("countries", _KINDS[3], "gapminder, as it comes with plotly", _countries),
    Listed("cultivars", _KINDS[4], "scikit-learn, load_wine",
           _shipped("cultivars", "load_wine", cultivars, "cultivar")),
    Listed("strokes", _KINDS[5], "MNIST, its test pictures, 16 pixels to a number", _strokes),
    Listed("digits", _KINDS[6], "scikit-learn, load_digits", _shipped("digits", "load_digits", digits, "digit")),
    Listed("connections", _KINDS[7], "simulated: services, bytes and rates, rare kinds of fault",
           _drawn("connections", functools.partial(connections, 2))),
    Listed("rules", _KINDS[8], "simulated as scm_tree, from another seed",
           _drawn("rules", functools.partial(structural_tree, 2_011))),
    Listed("g20", _KINDS[9], "simulated: twenty numbers of another covariance",
           _drawn("g20", functools.partial(gaussian, 20, 3, 2_011)), at_most=20_000),
    Listed("claims", _KINDS[10], "simulated as incomes, from another seed",
           _drawn("claims", functools.partial(amounts, 2))),
    Listed("parcels", _KINDS[11], "simulated as shops, from another seed, with 1,000 products and 200 shops",
           _drawn("parcels", functools.partial(sales, 2, products=1_000, shops=200))),
)  # fmt: skip


def _named(listed: Sequence[Listed], *, held_back: bool) -> dict[str, Listed]:
    return {each.name: replace(each, held_back=held_back) for each in listed}


OPEN = _named(_OPEN, held_back=False)
HELD_BACK = _named(_LAST, held_back=True)
LISTED = OPEN | HELD_BACK
