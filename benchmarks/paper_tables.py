"""Public tables as plain numbers, prepared the way three papers do it: by the rows themselves, which is not private."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = ["adult_numbers", "census_numbers", "insurance", "red_wine", "wine_numbers"]

Matrix = NDArray[np.float64]

ADULT_NUMBERS = {0: "age", 4: "education-num", 10: "capital-gain", 11: "capital-loss", 12: "hours-per-week"}


def adult_numbers() -> tuple[Matrix, NDArray[np.bool_]]:
    """Return five numbers of the training rows of Adult, and whether the income is above 50K."""
    rows = pd.read_csv(_folder() / "adult" / "adult.data.gz", header=None, skipinitialspace=True)
    return rows[list(ADULT_NUMBERS)].to_numpy(dtype=np.float64), (rows[14] == ">50K").to_numpy()


def census_numbers() -> tuple[Matrix, NDArray[np.bool_]]:
    """Return six numbers of the census of 1994 and 1995, and whether the income is above 50K."""
    path = _folder() / "census_income_kdd" / "census-income.test.gz"
    rows = pd.read_csv(path, header=None, skipinitialspace=True)
    return rows[[0, 16, 17, 18, 30, 39]].to_numpy(dtype=np.float64), rows[41].str.startswith("50000").to_numpy()


def wine_numbers() -> tuple[Matrix, NDArray[np.bool_]]:
    """Return eleven measurements of red and white wines, and whether a wine is red: classes that are far apart."""
    red, white = (
        pd.read_csv(_folder() / "wine_quality" / f"winequality-{name}.csv", sep=";").to_numpy(dtype=np.float64)[:, :-1]
        for name in ("red", "white")
    )
    return np.concatenate([red, white]), np.arange(len(red) + len(white)) < len(red)


def insurance() -> tuple[Matrix, NDArray[np.float64]]:
    """Return medical costs: numbers and charges scaled to [0, 1] by their extremes, categories one by one."""
    rows = pd.read_csv(_folder() / "insurance" / "insurance.csv")
    numbers = rows[["age", "bmi", "children"]].to_numpy(dtype=np.float64)
    indicators = pd.get_dummies(rows[["sex", "smoker", "region"]]).to_numpy(dtype=np.float64)
    return np.column_stack([_scaled(numbers), indicators]), _scaled(rows["charges"].to_numpy(dtype=np.float64))


def red_wine() -> tuple[Matrix, NDArray[np.float64]]:
    """Return red wine: eleven measurements and the quality, scaled to [0, 1] by their extremes."""
    rows = pd.read_csv(_folder() / "wine_quality" / "winequality-red.csv", sep=";").to_numpy(dtype=np.float64)
    scaled = _scaled(rows)
    return scaled[:, :-1], scaled[:, -1]


def _folder() -> Path:
    return Path(os.environ["HERMITAGE_DATA"])


def _scaled(values: NDArray[np.float64]) -> NDArray[np.float64]:
    low, high = values.min(axis=0), values.max(axis=0)
    return np.asarray((values - low) / (high - low))
