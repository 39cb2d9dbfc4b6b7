"""A small declared table and one question of every kind, for tests of the boundary."""

from __future__ import annotations

import numpy as np

from synth.privacy.feature_maps import Constant, FeatureMap, OneHot, Stack
from synth.privacy.more.forests import Forest
from synth.privacy.more.fourier import Fourier
from synth.privacy.more.linear_guesses import LinearGuess
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.losses import Losses
from synth.privacy.more.products import Product
from synth.privacy.more.responsibilities import Responsibilities
from synth.privacy.more.row_moments import RowMoments
from synth.schema import CategoryColumn, NumberColumn, PrivacyUnit, Schema

SIZES = {"age": 12, "region": 4, "income": 301, "outcome": 2}


def small_schema(row_count: str = "public", unit: PrivacyUnit | None = None) -> Schema:
    return Schema(
        (
            NumberColumn("age", 0, 10, 1, missing=True),
            CategoryColumn("region", ("north", "south", "east"), missing=True),
            NumberColumn("income", 0, 300, 1),
            CategoryColumn("outcome", ("well", "ill")),
        ),
        unit=unit or PrivacyUnit(),
        row_count=row_count,
    )


def small_codes(n_rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.integers(0, size, n_rows) for name, size in SIZES.items()}


def random_forest(seed: int = 1, *, trees: int = 3, depth: int = 3, classes: int = 2, bins: int = 3) -> Forest:
    """Full trees with random thresholds, columns and values."""
    rng = np.random.default_rng(seed)
    columns = ("age", "region", "income")
    nodes, values, roots = [], [], []
    for _ in range(trees):
        first, inner = len(nodes), 2**depth - 1
        roots.append(first)
        for place in range(2 ** (depth + 1) - 1):
            own = first + place
            which = int(rng.integers(3))
            below = (first + 2 * place + 1, first + 2 * place + 2) if place < inner else (own, own)
            nodes.append((which, int(rng.integers(SIZES[columns[which]])), *below))
            values.append(rng.integers(-1000, 1000, classes))
    places = tuple(rng.permutation(SIZES[name]) if name == "region" else np.arange(SIZES[name]) for name in columns)
    edges = np.sort(rng.integers(0, 2000, (classes, bins - 1)), axis=1)
    return Forest(columns, places, np.array(nodes), np.array(values), np.array(roots), edges)


def walked(forest: Forest, row: dict[str, int]) -> int:
    """The bin of one row, tree by tree, with the integers of Python."""
    scores = [0] * forest.values.shape[1]
    for root in forest.roots.tolist():
        node = root
        while True:
            which, threshold, below, above = forest.nodes[node].tolist()
            if below == above == node:
                break
            name = forest.columns[which]
            node = below if int(forest.places[which][row[name]]) <= threshold else above
        scores = [score + value for score, value in zip(scores, forest.values[node].tolist(), strict=True)]
    guess = scores.index(max(scores))
    others = sorted(scores)
    confidence = others[-1] - others[-2] if len(others) > 1 else others[0]
    return guess * forest.shape[1] + sum(confidence > edge for edge in forest.edges[guess].tolist())


def every_linear_feature(rng: np.random.Generator) -> Stack:
    """A constant, a table, cells and waves."""
    return Stack(
        (
            Constant(),
            Lookup("age", rng.normal(size=(12, 3))),
            OneHot(("region", "outcome"), (None, None), (4, 2)),
            Fourier(("age", "income"), (np.arange(12), np.arange(301) % 60), rng.integers(-2048, 2048, (5, 2))),
        ),
        (0.4, 0.6, 0.5, 0.4),
    )


def guesses_of_each_kind(seed: int = 1) -> dict[str, LinearGuess]:
    """Guesses of two classes by one score, and of three that are as likely for some rows, on every linear feature."""
    rng = np.random.default_rng([seed, 9])
    features = every_linear_feature(rng)
    one, three = rng.normal(size=(1, features.dimension)), rng.normal(size=(3, features.dimension))
    three[2] = three[1]
    edges = np.sort(rng.integers(0, 2**17, (3, 2)), axis=1)
    return {
        "guesses of two classes": LinearGuess(features, one, edges[:2]),
        "guesses of three classes": LinearGuess(features, three, edges),
        "guesses without confidence": LinearGuess(features, -one, np.zeros((2, 0), int)),
    }


def losses_of_each_kind(seed: int = 1) -> dict[str, Losses]:
    """Losses of a forest's predictions, and of a linear model that often leaves the range of its target."""
    rng = np.random.default_rng([seed, 5])
    incomes = Lookup("income", np.arange(301)[:, None] / 300)
    ages = Lookup("age", np.array([[-0.9], [0.1], [0.35], [0.8]]), np.arange(12) // 3)
    features = every_linear_feature(rng)
    return {
        "losses of a forest": Losses(random_forest(6, classes=1, bins=7), rng.uniform(-0.3, 1.2, 7), incomes),
        "losses of a linear model": Losses(features, rng.normal(size=features.dimension), ages),
    }


def random_responsibilities(
    seed: int = 1, *, components: int = 3, by: OneHot | None = None, spread: int = 3000
) -> Responsibilities:
    """Logarithms of any size, of columns with and without bins."""
    rng = np.random.default_rng(seed)
    classes = 1 if by is None else by.dimension
    bins = (np.arange(12) // 4, None, np.arange(301) // 30)
    tables = tuple(-rng.integers(0, spread, (classes, size, components)) for size in (3, 4, 11))
    weights = -rng.integers(0, spread, (classes, components))
    return Responsibilities(("age", "region", "income"), bins, tables, weights, by)


def every_kind_of_map(seed: int = 1) -> dict[str, FeatureMap]:
    rng = np.random.default_rng(seed)

    def lookup(column: str, width: int, bins: np.ndarray | None = None) -> Lookup:
        rows = SIZES[column] if bins is None else int(bins.max()) + 1
        # Not negative, as Hermite features nearly are not: some maps have the small diameter and some do not.
        return Lookup(column, np.abs(rng.normal(size=(rows, width))), bins)

    label = OneHot(("outcome",), (None,), (2,))
    fourier = Fourier(
        ("age", "income"), (np.arange(12), np.arange(301) * 255 // 300), rng.integers(-2048, 2048, (20, 2))
    )
    coarse = np.arange(301) // 30
    signed = Lookup("income", rng.normal(size=(301, 5)))
    rows = (signed, lookup("age", 4), lookup("region", 2))
    offsets = rng.normal(size=(4, 11)) / 4
    projection = np.linalg.qr(rng.normal(size=(11, 3)))[0]
    losses, guesses = losses_of_each_kind(), guesses_of_each_kind()
    pairs = RowMoments(rows, 0.7, (0.0, 0.0, 1.0), offsets[:1])
    regions = Lookup("region", np.array([[0.3, 0.1], [-0.5, 0.2], [0.0, 0.0], [0.4, -0.9]]))
    stretched = np.random.default_rng(8).uniform(-1, 1, (42, 5))  # as wide as the table and the waves together
    every_power = RowMoments(rows, 1.1, (0.4, 0.5, 0.7), offsets, OneHot(("region",), (None,), (4,)), projection)
    return {
        "constant": Constant(),
        "one-hot": OneHot(("region",), (None,), (4,)),
        "joint one-hot": OneHot(("age", "income"), (np.arange(12) // 4, coarse)),
        "lookup": lookup("income", 6),
        "binned lookup": lookup("income", 3, coarse),
        "signed lookup": signed,
        "forest": random_forest(),
        "forest by label": Product((random_forest(2, classes=3), label, OneHot(("region",), (None,), (4,)))),
        "lookup by forest": Product((lookup("age", 5), random_forest(3, depth=1))),
        "forest and forest": Stack((Product((random_forest(4), label)), random_forest(5, bins=1)), (0.6, 0.75)),
        "responsibilities": random_responsibilities(),
        "of one component": random_responsibilities(components=1),
        "steps of EM": Product(
            (
                label,
                random_responsibilities(2, by=label, spread=40_000),
                Stack((Constant(), OneHot(("region",), (None,), (4,)), lookup("income", 2, coarse)), (0.5, 0.5, 0.7)),
            )
        ),
        "responsibilities and signs": Product((random_responsibilities(3), signed)),
        "lookup by label": Product((lookup("age", 5), label)),
        "label by lookup": Product((label, lookup("age", 5), OneHot(("region",), (None,), (4,)))),
        "product": Product((lookup("age", 4), lookup("income", 3, coarse), label)),
        "wide product": Product((lookup("age", 4), signed, lookup("region", 3), label)),
        "fourier": fourier,
        "fourier by label": Product((fourier, label)),
        "pairs of rows": pairs,
        "every power of rows": every_power,
        "powers of rows by label": Product((label, every_power)),
        "moments of waves": RowMoments((regions,), 1.2, (0.0, 0.6, 0.75), waves=fourier),
        "projected waves by label": Product(
            (label, RowMoments((regions,), 0.9, (0.0, 0.0, 1.0), projection=stretched, waves=fourier))
        ),
        "rows and labels": Stack((label, RowMoments(rows, 0.5, (0.0, 1.0, 0.0), projection=projection)), (0.6, 0.75)),
        "stack": Stack((OneHot(("age",), (None,), (12,)), lookup("income", 4), Constant()), (0.6, 0.6, 0.5)),
        "stack of everything": Stack(
            (Product((fourier, label)), Product((lookup("age", 4), lookup("income", 3, coarse))), label),
            (0.5, 0.7, 0.5),
        ),
        "guesses of two classes": guesses["guesses of two classes"],
        "guesses by label": Product((guesses["guesses of three classes"], label, OneHot(("region",), (None,), (4,)))),
        **losses,
        "losses by label": Product((losses["losses of a forest"], label, OneHot(("region",), (None,), (4,)))),
        "losses by two columns": Stack(
            tuple(
                Product((OneHot((name,), (None,), (SIZES[name],)), losses["losses of a linear model"]))
                for name in ("region", "outcome")
            ),
            (0.8, 0.6),
        ),
        "stack by label": Product((Stack((fourier, lookup("age", 4), Constant()), (0.7, 0.5, 0.5)), label)),
    }
