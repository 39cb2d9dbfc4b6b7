"""Simulated tables on which many columns together tell what pairs do not, or all columns hang together.

Public by construction: each is drawn from fixed seeds, the same bytes on every machine.

- ``xor1`` to ``xor4``: eight uniform numbers and a label, whether an odd number of the first 1 to 4 is above one half;
  20,000 rows to learn from and 5,000 to test on;
- ``scm_tree``: eight numbers of a random structural causal model, labelled by a random decision tree of depth six;
  as many rows;
- ``g10``, ``g30``: numbers with one dense covariance (a Wishart one; four factors) in thirty equal places, labelled by
  the sign of the last; 50,000 and 5,000 rows;
- ``heaps``: numbers as people write them: 62 % of incomes are divisible by 1,000, 98.5 % of fares by half, two in five
  blood pressures end in 0, densities are five; 20,000 and 5,000 rows;
- ``incomes``: amounts of people, of which many are nothing and few are large, declared from 0 to 10 million; 8,000 and
  4,000 rows;
- ``shops``: sales by product, brand, shop and town, 20 to 400 codes each; 12,000 and 6,000 rows.

``structural_tree``, ``gaussian``, ``amounts`` and ``sales`` draw other such tables from other seeds, and
``connections`` draws what machines note down.

Small and large tables (``EXTREMES``), as codes. In each, every other column goes with one hidden number, and so does
the label; the others are unrelated to everything. Categories are as frequent as Zipf's law has it, in an order that
says nothing, and every third column lacks some cells:

- ``few5``, ``few15``, ``few40``: 300 rows, categories of 2 to 12 values and numbers declared from 0 to 10 million of
  which a third is 0 and the rest lognormal;
- ``sixty_2k``, ``sixty_20k``, ``sixty_200k``: 60 columns of 30 values;
- ``codes_2k``, ``codes_20k``, ``codes_200k``: 12 columns of 5,000 categories;
- ``long_list``: 100,000 rows of 5 columns as ``few5``, of which the first has 10,000 categories;
- ``five_million``: 5 million rows of 15 columns, as ``few15``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtr

from synth.schema import CategoryColumn, Column, NumberColumn

LABEL = "y"
Made = tuple[list[Column], pd.DataFrame, int]
"""Declared columns, rows, and how many of them, from the top, are there to learn from."""


def parity(among: int) -> Made:
    """Draw numbers whose first few tell the label only all together."""
    random = np.random.default_rng(100 + among)
    numbers = random.random((25_000, 8)).round(3)
    label = (numbers[:, :among] > 0.5).sum(axis=1) % 2
    return _columns("x", 8, (0, 1, 0.001)), _rows("x", numbers, label), 20_000


def structural_tree(seed: int = 7) -> Made:
    """Draw numbers that cause each other, labelled by a tree of cuts."""
    random = np.random.default_rng(seed)
    numbers = _causes(random, 25_000)
    label = np.zeros(len(numbers), dtype=np.int64)
    _cut(random, numbers, np.arange(len(numbers)), 6, label)
    return _columns("x", 8, (-5, 5, 0.001)), _rows("x", numbers, label), 20_000


def gaussian(columns: int, factors: int, seed: int) -> Made:
    """Draw numbers of one dense covariance: of so many factors, or of as many as there are columns."""
    random = np.random.default_rng(seed)
    loadings = random.normal(size=(columns, factors or columns))
    covariance = loadings @ loadings.T + (0.5 * np.eye(columns) if factors else 0)
    scale = np.sqrt(np.diag(covariance))
    correlation = covariance / scale / scale[:, None]
    values = np.clip(random.multivariate_normal(np.zeros(columns), correlation, 55_000), -4, 4)
    places = np.minimum((values + 4) / 8 * 30, 29.999).astype(np.int64)
    return (
        _columns("g", columns - 1, (0, 29, 1), digits=2),
        _rows("g", places[:, :-1], (values[:, -1] > 0).astype(np.int64), digits=2),
        50_000,
    )


def heaps() -> Made:
    """Draw numbers that are rounded as people round, and a label that goes with them."""
    random = np.random.default_rng(62)
    rows = 25_000
    wealth = random.normal(size=rows)
    income = np.exp(10.6 + 0.7 * wealth + 0.2 * random.normal(size=rows))
    kind = random.random(rows)
    income = np.where(
        kind < 0.62, (income / 1000).round() * 1000, np.where(kind < 0.8, (income / 100).round() * 100, income)
    )
    fare = 2.5 + random.gamma(2.0, 5.0, rows) * np.exp(0.2 * wealth)
    fare = np.where(random.random(rows) < 0.985, (fare * 2).round() / 2, fare.round(2))
    pressure = 128 + 18 * random.normal(size=rows) - 4 * wealth
    kind = random.random(rows)
    pressure = np.where(kind < 1 / 3, (pressure / 10).round() * 10, (pressure / 2).round() * 2)
    density = np.array([0.7913, 0.8765, 0.9982, 1.0301, 1.1127])[np.searchsorted([-1.2, -0.3, 0.4, 1.1], wealth)]
    label = (wealth + random.normal(size=rows) > 0.8).astype(np.int64)
    columns: list[Column] = [
        NumberColumn("income", 0, 1_000_000, 1),
        NumberColumn("fare", 0, 300, 0.01),
        NumberColumn("pressure", 60, 260, 1),
        NumberColumn("density", 0, 2, 0.0001),
        CategoryColumn(LABEL, ("0", "1")),
    ]
    made = {
        "income": np.clip(income, 0, 1_000_000).round().astype(np.int64),
        "fare": [f"{one:.2f}" for one in np.clip(fare, 0, 300)],
        "pressure": np.clip(pressure, 60, 260).round().astype(np.int64),
        "density": [f"{one:.4f}" for one in density],
        LABEL: label,
    }
    return columns, pd.DataFrame(made), 20_000


def amounts(seed: int, *, rows: int = 12_000) -> Made:
    """Draw amounts of people: earned, saved and cost, each nothing for some, with tails that go on.

    What is expected of an amount follows from columns that are seen; the seed draws by how much, how many have none,
    and how heavy the tails are. The bounds are those that are written when nobody looks.
    """
    random = np.random.default_rng([2026, seed])
    age = np.clip(random.gamma(9.0, 5.0, rows), 16, 100).round().astype(np.int64)
    sector = random.choice(12, rows, p=random.dirichlet(np.full(12, 2.0)))
    region = random.choice(8, rows)
    degree = (random.random(rows) < 0.2 + 0.4 * (sector % 3 == 0)).astype(np.int64)
    by_sector, by_region = random.normal(0, 0.3, 12), random.normal(0, 0.15, 8)
    wealth = random.normal(size=rows)
    spread, idle, well = random.uniform(0.5, 0.9), random.uniform(0.08, 0.2), random.uniform(0.5, 0.7)
    seen = by_sector[sector] + by_region[region] + 0.4 * degree - ((age - 48) / 30.0) ** 2
    earned = np.exp(10.3 + seen + spread * wealth) * (random.random(rows) >= idle + 0.3 * (age > 66))
    saved = 2000 * (random.pareto(random.uniform(1.6, 2.4), rows) + 0.1) * np.exp(0.6 * wealth + (age - 45) / 40)
    saved *= random.random(rows) >= 0.25
    ill = random.random(rows) >= well - (age - 45) / 150
    cost = np.exp(6.2 + (age - 45) / 35 + 1.4 * random.normal(size=rows)) * ill
    chance = 1 / (1 + np.exp(-(2.0 * (cost > 1500) - 2.2 * (earned > 30_000) + 1.2 * (sector % 4 == 2) - 0.6)))
    columns: list[Column] = [
        NumberColumn("age", 0, 120, 1),
        CategoryColumn("sector", tuple(f"s{k}" for k in range(12))),
        CategoryColumn("region", tuple(f"r{k}" for k in range(8))),
        CategoryColumn("degree", ("0", "1")),
        *(NumberColumn(name, 0, 10_000_000, 1) for name in ("earned", "saved", "cost")),
        CategoryColumn(LABEL, ("0", "1")),
    ]
    made = {
        "age": age,
        "sector": [f"s{k}" for k in sector],
        "region": [f"r{k}" for k in region],
        "degree": degree,
        **{
            name: np.clip(values, 0, 10_000_000).round().astype(np.int64)
            for name, values in {"earned": earned, "saved": saved, "cost": cost}.items()
        },
        LABEL: (random.random(rows) < chance).astype(np.int64),
    }
    return columns, pd.DataFrame(made), rows * 2 // 3


def sales(seed: int, *, products: int = 400, shops: int = 60, rows: int = 18_000) -> Made:
    """Draw sales: columns of many codes that follow from each other, most of them rare."""
    random = np.random.default_rng([2027, seed])
    brand_of, group_of = random.integers(0, 50, products), random.integers(0, 20, products)
    town_of, county_of = random.integers(0, shops // 2, shops), random.integers(0, 12, shops // 2)
    popular = 1 / np.arange(1, products + 1) ** random.uniform(0.8, 1.1)
    shop = random.choice(shops, rows, p=random.dirichlet(np.full(shops, 1.0)))
    group_liked = random.dirichlet(np.full(20, 0.5), 12)
    liked = popular * group_liked[county_of[town_of[shop]]][:, group_of]
    chosen = (random.random((rows, 1)) * liked.sum(axis=1, keepdims=True) > np.cumsum(liked, axis=1)).sum(axis=1)
    product = np.minimum(chosen, products - 1)
    price = np.exp(random.normal(3, 1, products))[product]
    amount = np.clip(price * random.integers(1, 4, rows), 0.5, 2000)
    hour = np.clip(random.normal(10 + 6 * (group_of[product] % 2), 2.5), 0, 23).round().astype(np.int64)
    weekday, payment = random.integers(0, 7, rows), (amount > 40).astype(np.int64) + random.integers(0, 3, rows)
    returned_of = random.uniform(0.02, 0.6, 50)
    returned = random.random(rows) < returned_of[brand_of[product]] * (0.7 + 0.6 * (payment == 3))
    cells = {
        "product": product, "brand": brand_of[product], "group": group_of[product], "shop": shop,
        "town": town_of[shop], "county": county_of[town_of[shop]], "weekday": weekday, "hour": hour,
        "payment": payment,
    }  # fmt: skip
    many = {"product": products, "brand": 50, "group": 20, "shop": shops, "town": shops // 2, "county": 12}
    many |= {"weekday": 7, "hour": 24, "payment": 4}
    columns: list[Column] = [CategoryColumn(name, tuple(f"{name}{k}" for k in range(many[name]))) for name in cells]
    columns += [NumberColumn("amount", 0, 5000, 0.5), CategoryColumn(LABEL, ("0", "1"))]
    made: dict[str, object] = {name: [f"{name}{k}" for k in codes] for name, codes in cells.items()}
    made |= {"amount": (amount * 2).round() / 2, LABEL: returned.astype(np.int64)}
    return columns, pd.DataFrame(made), rows * 2 // 3


def connections(seed: int, *, rows: int = 18_000) -> Made:
    """Draw connections between machines: services, bytes of which most are nothing, rates, and rare kinds of fault."""
    random = np.random.default_rng([2028, seed])
    kinds = np.array([0.62, 0.28, 0.06, 0.025, 0.012, 0.003])
    kind = random.choice(len(kinds), rows, p=kinds)
    service_of = random.dirichlet(np.full(30, 0.15), len(kinds))
    flag_of = random.dirichlet(np.full(8, 0.3), len(kinds))
    service, flag = (
        (random.random((rows, 1)) > np.cumsum(each, axis=1)[kind][:, :-1]).sum(axis=1) for each in (service_of, flag_of)
    )
    silent, size = random.uniform(0.05, 0.98, len(kinds)), random.uniform(4, 9, len(kinds))
    sent, received = (
        np.exp(size[kind] + shift + 1.5 * random.normal(size=rows)) * (random.random(rows) >= silent[kind])
        for shift in (0.0, 1.0)
    )
    lasted = np.exp(random.normal(3, 2, rows)) * (random.random(rows) < 0.15)
    busy = random.uniform(1, 400, len(kinds))[kind]
    many = np.clip(random.gamma(1.5, busy / 1.5), 0, 511)
    cells: dict[str, object] = {
        "service": [f"s{k}" for k in service],
        "flag": [f"f{k}" for k in flag],
        "logged in": (random.random(rows) < 0.8 * (kind == 0)).astype(np.int64),
        "lasted": np.clip(lasted, 0, 100_000).round().astype(np.int64),
        "sent": np.clip(sent, 0, 1_000_000).round().astype(np.int64),
        "received": np.clip(received, 0, 1_000_000).round().astype(np.int64),
        "many": many.round().astype(np.int64),
        "same service": np.clip(many * random.beta(4, 1, rows), 0, 511).round().astype(np.int64),
    }
    columns: list[Column] = [
        CategoryColumn("service", tuple(f"s{k}" for k in range(30))),
        CategoryColumn("flag", tuple(f"f{k}" for k in range(8))),
        CategoryColumn("logged in", ("0", "1")),
        NumberColumn("lasted", 0, 100_000, 1),
        NumberColumn("sent", 0, 1_000_000, 1),
        NumberColumn("received", 0, 1_000_000, 1),
        NumberColumn("many", 0, 511, 1),
        NumberColumn("same service", 0, 511, 1),
    ]
    for name in ("errors", "refused", "same port", "other hosts"):
        ends = random.choice([0.15, 1.0, 8.0], (len(kinds), 2))
        cells[name] = [f"{rate:.2f}" for rate in random.beta(*ends[kind].T)]
        columns.append(NumberColumn(name, 0, 1, 0.01))
    cells[LABEL] = [f"k{k}" for k in kind]
    columns.append(CategoryColumn(LABEL, tuple(f"k{k}" for k in range(len(kinds)))))
    return columns, pd.DataFrame(cells), rows * 2 // 3


def extreme(
    rows: int, columns: int, size: int | None, *, first: int | None = None, tested: bool = False
) -> tuple[list[Column], NDArray[np.int64]]:
    """Draw codes of which every other column, and the label, go with one hidden number.

    ``size`` categories each; without it, one column in three is a number declared far too wide, and categories are few.
    ``first`` is the number of categories of the first column, if it has others. ``tested`` draws 5,000 other rows in
    the same way.
    """
    rows = 5000 if tested else rows
    random = np.random.default_rng([20_261_129, rows, columns, tested])
    hidden = random.normal(size=rows).astype(np.float32)
    declared: list[Column] = []
    codes = np.zeros((rows, columns), dtype=np.int64)
    for at in range(columns - 1):
        tie = 0.8 if at % 2 == 0 else 0.0
        own = tie * hidden + (1 - tie**2) ** 0.5 * random.normal(size=rows).astype(np.float32)
        missing = at % 3 == 2
        if size is None and at % 3 == 1:
            amounts = np.clip(np.exp(8 + 1.2 * own), 0, 10_000_000).astype(np.int64)
            codes[:, at] = np.where(random.random(rows) < 1 / 3, 0, amounts)
            declared.append(NumberColumn(f"c{at}", 0, 10_000_000, 1))
            continue
        many = first if first and not at else size or (2, 3, 5, 8, 12)[at % 5]
        shares = np.cumsum(1 / np.arange(1, many + 1))
        ranks = np.searchsorted(shares[:-1] / shares[-1], ndtr(own), side="right")
        codes[:, at] = np.random.default_rng([20_261_129, columns, at]).permutation(many)[ranks]
        if missing:
            codes[random.random(rows) < 0.03, at] = many  # the code of a missing cell follows those of the values
        declared.append(CategoryColumn(f"c{at}", tuple(f"v{k}" for k in range(many)), missing=missing))
    codes[:, -1] = hidden + 0.7 * random.normal(size=rows) > 0.6
    return [*declared, CategoryColumn(LABEL, ("0", "1"))], codes


def _causes(random: np.random.Generator, n_rows: int) -> NDArray[np.float64]:
    numbers = np.zeros((n_rows, 8))
    for at in range(8):
        parents = random.choice(at, min(at, random.integers(0, 4)), replace=False) if at else []
        value: NDArray[np.float64] | float = 0
        for parent in parents:
            weight = random.normal()
            value = value + weight * (np.tanh(numbers[:, parent]) if random.random() < 0.5 else numbers[:, parent])
        numbers[:, at] = value + random.normal(size=n_rows) * 0.7
    return np.clip((numbers - numbers.mean(axis=0)) / numbers.std(axis=0), -5, 5).round(3)


def _cut(
    random: np.random.Generator,
    numbers: NDArray[np.float64],
    rows: NDArray[np.int64],
    depth: int,
    label: NDArray[np.int64],
) -> None:
    """Give the rows of a node one class, or cut them in two at a quantile between .3 and .7 of one number."""
    if depth == 0 or len(rows) < 50:
        label[rows] = random.integers(2)
        return
    column = random.integers(8)
    right = numbers[rows, column] > np.quantile(numbers[rows, column], random.uniform(0.3, 0.7))
    _cut(random, numbers, rows[right], depth - 1, label)
    _cut(random, numbers, rows[~right], depth - 1, label)


def _names(letter: str, many: int, digits: int) -> list[str]:
    return [f"{letter}{at:0{digits}d}" for at in range(many)]


def _columns(letter: str, many: int, bounds: tuple[float, float, float], *, digits: int = 1) -> list[Column]:
    numbers = [NumberColumn(name, *bounds) for name in _names(letter, many, digits)]
    return [*numbers, CategoryColumn(LABEL, ("0", "1"))]


def _rows(letter: str, numbers: NDArray, label: NDArray[np.int64], *, digits: int = 1) -> pd.DataFrame:
    rows = pd.DataFrame(numbers, columns=_names(letter, numbers.shape[1], digits))
    rows[LABEL] = label
    return rows


SIMULATED: dict[str, Callable[[], Made]] = {
    **{f"xor{among}": partial(parity, among) for among in (1, 2, 3, 4)},
    "scm_tree": structural_tree,
    "g10": partial(gaussian, 10, 0, 1),
    "g30": partial(gaussian, 30, 4, 2),
    "heaps": heaps,
    "incomes": partial(amounts, 1),
    "shops": partial(sales, 1),
}

EXTREMES: dict[str, Callable[..., tuple[list[Column], NDArray[np.int64]]]] = {
    **{f"few{columns}": partial(extreme, 300, columns, None) for columns in (5, 15, 40)},
    **{f"sixty_{rows}k": partial(extreme, 1000 * rows, 60, 30) for rows in (2, 20, 200)},
    **{f"codes_{rows}k": partial(extreme, 1000 * rows, 12, 5000) for rows in (2, 20, 200)},
    "long_list": partial(extreme, 100_000, 5, None, first=10_000),
    "five_million": partial(extreme, 5_000_000, 15, None),
}
"""Declared columns and codes; nobody writes them out as texts to read them in again."""
