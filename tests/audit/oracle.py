"""What noise a question needs, worked out a second time from the definitions, with none of the product's accounting."""

from __future__ import annotations

import math

import numpy as np
from scipy.spatial.distance import pdist
from scipy.special import expit, ndtr, ndtri, softmax
from scipy.stats import norm as normal
from transcripts import Answered
from worlds import World

from synth.privacy.feature_maps import FeatureMap, OneHot, Stack
from synth.privacy.more.critic_turns import CriticTurns
from synth.privacy.more.dependence import Dependence
from synth.privacy.more.em_models import GaussianPair, RegressionPair
from synth.privacy.more.em_steps import EMStepQuestion
from synth.privacy.more.forests import Forest
from synth.privacy.more.fourier import Fourier
from synth.privacy.more.gradients import GradientQuestion, UnitQuestion
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.losses import Losses
from synth.privacy.more.products import Product
from synth.privacy.more.responsibilities import Responsibilities
from synth.privacy.more.row_moments import RowMoments
from synth.privacy.more.training_steps import StepsQuestion
from synth.privacy.more.truncated_mean import LARGEST_TRUNCATED, smoothed_truncation
from synth.privacy.table import PrivateTable
from synth.schema import Neighbours


def sensitivity(question: FeatureMap | UnitQuestion | StepsQuestion | tuple, world: World) -> float:
    """Largest change of a question's answer when one unit changes."""
    if isinstance(question, CriticTurns):
        # Lists of vectors of length 1 change to their opposites, in each turn of the parts that have most of them.
        changes = (1 if world.ids else world.rows_per_unit) * (1 if world.row_count == "private" else 2)
        turns = sum(turn % question.parts < changes for turn in range(question.steps))
        return 2 * math.sqrt(question.rows * turns)
    if isinstance(question, UnitQuestion):  # in units of the bound, however many rows a unit has
        by_number = isinstance(question, EMStepQuestion) and question.bounding != "norm"
        longest = math.sqrt(len(question.parameters)) if by_number else 1.0
        return longest if world.schema.neighbours is Neighbours.ADD_REMOVE else 2 * longest
    if isinstance(question, tuple):
        score = question[0].score if question and isinstance(question[0], Dependence) else ""
        norm, diameter = {"R": (2.0, 3.0), "F": (1.0, 1.0), "": (1.0, 2.0)}[score]
    else:
        blocks = list(_blocks(question))
        norm = math.sqrt(sum(block[0] ** 2 for block in blocks))
        diameter = math.sqrt(sum(block[1] ** 2 for block in blocks))
    m = world.rows_per_unit
    if world.schema.neighbours is Neighbours.ADD_REMOVE:
        return m * norm
    return m * (diameter if m == 1 else max(norm, diameter))


def _blocks(question: FeatureMap, weight: float = 1.0, factors: tuple = ()) -> list[tuple[float, float]]:
    """Norm and diameter of every product of leaves a map is made of."""
    if isinstance(question, Stack):
        return [
            block
            for part, own in zip(question.parts, question.weights, strict=True)
            for block in _blocks(part, weight * own, factors)
        ]
    if isinstance(question, Product):
        if not question.factors:
            return [_block(factors, weight)]
        first, rest = question.factors[0], question.factors[1:]
        if isinstance(first, Stack):
            return [
                block
                for part, own in zip(first.parts, first.weights, strict=True)
                for block in _blocks(Product((part, *rest)), weight * own, factors)
            ]
        if isinstance(first, Product):
            return _blocks(Product((*first.factors, *rest)), weight, factors)
        return _blocks(Product(rest), weight, (*factors, first)) if rest else [_block((*factors, first), weight)]
    return [_block((*factors, question), weight)]


def _block(leaves: tuple, weight: float) -> tuple[float, float]:
    tables = [
        leaf.table if leaf.bins is None else leaf.table[leaf.bins.plain()]
        for leaf in leaves
        if isinstance(leaf, Lookup)
    ]
    norms = [float(np.linalg.norm(table, axis=1).max()) for table in tables]
    norm = weight * math.prod(norms)
    if any(isinstance(leaf, Fourier) for leaf in leaves):
        return norm, 2 * norm
    cells = math.prod(leaf.dimension for leaf in leaves if isinstance(leaf, OneHot | Forest))
    if any(isinstance(leaf, Losses) for leaf in leaves):
        # A loss l from 0 to 1 and 1 - l: longest at either end, and those are farthest apart.
        return weight, math.sqrt(2) * weight
    if any(isinstance(leaf, Responsibilities) and leaf.dimension > 1 for leaf in leaves):
        # All of a row may move from one component to another; with signs, to the opposite of what it was.
        return norm, 2 * norm if tables else math.sqrt(2) * norm
    for leaf in leaves:
        if isinstance(leaf, RowMoments):
            norm, same = (weight * one for one in _powers(leaf.weights))
            return norm, max(same, math.sqrt(2) * norm if cells > 1 else 0.0)
    spreads = [float(pdist(table).max()) if len(table) > 1 else 0.0 for table in tables]
    if len(tables) == 0:
        same = 0.0
    elif len(tables) == 1:
        same = weight * spreads[0]
    elif max(spreads) <= math.sqrt(2) * (1 + 1e-9):
        same = weight * math.sqrt(2)
    else:
        same = 2 * norm
    return norm, max(same, math.sqrt(2) * norm if cells > 1 else 0.0)


def bin_of(codes: dict[str, int], forest: Forest) -> int:
    """The bin of one row: every tree walked node by node, scores added up with the integers of Python."""
    scores = [0] * forest.values.shape[1]
    for root in forest.roots.tolist():
        node = root
        while forest.nodes[node, 2] != node:
            which, threshold, below, above = forest.nodes[node].tolist()
            place = int(forest.places[which][codes[forest.columns[which]]])
            node = below if place <= threshold else above
        scores = [score + int(value) for score, value in zip(scores, forest.values[node], strict=True)]
    # Where there is one class alone its score is the confidence.
    best, second = sorted(scores, reverse=True)[:2] if len(scores) > 1 else (scores[0], 0)
    guess = scores.index(best)
    return guess * forest.shape[1] + sum(best - second > int(edge) for edge in forest.edges[guess])


def loss_of(codes: dict[str, int], question: Losses) -> float:
    """The squared error of one row's prediction, with the range of the target as 1; to the nearest 2^-14."""
    targets = question.target.table[:, 0]
    (wanted,) = question.target.evaluate({name: np.array([code]) for name, code in codes.items()})[:, 0]
    found = float(features(codes, question.features) @ question.parameters)
    error = abs(min(max(found, float(targets.min())), float(targets.max())) - float(wanted))
    error = math.floor(error * 2**16) / math.ceil(float(np.ptp(targets)) * 2**16)
    return math.floor(error**2 * 2**14 + 0.5) / 2**14


def responsibilities(codes: dict[str, int], question: Responsibilities) -> np.ndarray:
    """Bayes' rule for the components of the row's class."""
    of_class = 0
    if question.by is not None:
        (name,), (bins,) = question.by.columns, question.by.bins
        of_class = codes[name] if bins is None else bins[codes[name]]
    scores = question.weights[of_class] / 4096.0
    for name, bins, table in zip(question.columns, question.bins, question.tables, strict=True):
        scores = scores + table[of_class, codes[name] if bins is None else bins[codes[name]]] / 4096.0
    likely = np.exp2(scores - scores.max())
    return np.asarray(likely / likely.sum())


def _powers(weights: tuple[float, float, float]) -> tuple[float, float]:
    """Norm and diameter of the powers of vectors of length 1, by trying every angle between two of them."""
    cosines = np.linspace(-1, 1, 200_001)
    squares = np.array(weights) ** 2
    farthest = 2 * squares[1] * (1 - cosines) + 2 * squares[2] * (1 - cosines**2)
    return math.sqrt(squares.sum()), math.sqrt(float(farthest.max()))


def mu_of(answered: Answered, world: World, noise: int | tuple[int, int]) -> float:
    """What one answer costs, from the noise that was really asked for."""
    bound = sensitivity(answered.question, world)
    if isinstance(noise, tuple):
        # weight exp(rate * score) with scores in steps: e / (2 * sensitivity) for each unit of score
        parameter = noise[0] / noise[1] / answered.receipt.grid * 2 * bound
        return 2 * float(ndtri(1 / (1 + math.exp(-parameter / 2))))
    return bound / (math.sqrt(noise) * answered.receipt.grid)


def delta_of_gaussian(mu: float, epsilon: float) -> float:
    """Exact curve of the Gaussian mechanism (Balle and Wang 2018, theorem 8)."""
    return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon + normal.logcdf(-mu / 2 - epsilon / mu)))


def exact_sums(question: FeatureMap, codes: dict[str, np.ndarray]) -> np.ndarray:
    """Sum of the features a map shows, row by row in float64."""
    total = np.zeros(question.dimension)
    n_rows = len(next(iter(codes.values())))
    for row in range(n_rows):
        total += features({name: column[row] for name, column in codes.items()}, question)
    return total


def exact_gradient(question: UnitQuestion, codes: dict[str, np.ndarray], table: PrivateTable) -> np.ndarray:
    """Gradients of a loss or of EM, each unit's bounded, in units of the bound; from the definition, in float64."""
    unit = table.schema.unit
    together: dict[int, np.ndarray] = {}
    units = range(table._rows) if table._units is None else table._units.tolist()
    for row, whose in enumerate(units):
        own = {name: column[row] for name, column in codes.items()}
        of_row = em_gradient(own, question) if isinstance(question, EMStepQuestion) else loss_gradient(own, question)
        together[whose] = together.get(whose, np.zeros(len(of_row))) + of_row
    part = 1 if unit.id_column else unit.rows_per_unit
    return np.sum([bounded(one, question) / part for one in together.values()], axis=0)


def loss_gradient(codes: dict[str, int], question: UnitQuestion) -> np.ndarray:
    """One row's gradient of a loss."""
    assert isinstance(question, GradientQuestion)
    seen = features(codes, question.features)
    wanted = question.target.evaluate({name: np.array([code]) for name, code in codes.items()})[0]
    found = question.parameters.reshape(len(wanted), -1) @ seen
    shown = {"logistic": expit, "softmax": softmax}.get(question.loss, np.asarray)(found)
    slope = np.clip(shown - wanted, -0.1, 0.1) if question.loss == "huber" else shown - wanted
    return np.outer(slope, seen).reshape(-1)


def em_gradient(codes: dict[str, int], question: EMStepQuestion) -> np.ndarray:
    """One row's gradient of q or its statistic, by matrices where the product goes without."""
    beta, model = question.parameters, question.model
    given = [codes[one.column] for one in question.tables]
    numbers = np.array([one.table[code, 0] for one, code in zip(question.tables, given, strict=True)]) * question.scales
    factor = (1 if model.as_printed else 2) / model.noise_std**2
    if isinstance(model, GaussianPair):
        mean = math.tanh(factor * float(numbers @ beta) / 2) * numbers
        return mean if question.statistics else mean - beta
    x, y = numbers[:-1], numbers[-1]
    if isinstance(model, RegressionPair):
        return math.tanh(factor * y * float(x @ beta) / 2) * y * x - x * float(x @ beta)
    gone = np.array([code == missing for code, missing in zip(given, question.hidden, strict=False)])
    x = np.where(gone, 0.0, x)
    variance = model.noise_std**2 + float(beta[gone] @ beta[gone])
    mean = x + (y - float(x @ beta)) / variance * np.where(gone, beta, 0.0)
    hidden = np.where(gone, beta if not model.as_printed else mean, 0.0)
    spread = np.outer(hidden, hidden) / (1.0 if model.as_printed else variance)
    return y * mean - (np.diag(gone.astype(float)) + np.outer(mean, mean) - spread) @ beta


def bounded(sums: np.ndarray, question: UnitQuestion) -> np.ndarray:
    """What a unit's sum counts for, in units of the bound."""
    if not isinstance(question, EMStepQuestion) or question.bounding == "norm":
        return sums / max(question.clip, float(np.linalg.norm(sums)))
    if question.bounding == "coordinates":
        return np.clip(sums / question.clip, -1.0, 1.0)
    scale = question.clip / LARGEST_TRUNCATED
    return smoothed_truncation(sums / scale, precision=question.precision) / LARGEST_TRUNCATED


def features(codes: dict[str, int], question: FeatureMap) -> np.ndarray:
    """One row's features; the moments of rows from their definition, other leaves as they show themselves."""
    if isinstance(question, Stack):
        parts = zip(question.parts, question.weights, strict=True)
        return np.concatenate([weight * features(codes, part) for part, weight in parts])
    if isinstance(question, Product):
        made = np.ones(1)
        for factor in question.factors:
            made = np.outer(made, features(codes, factor)).reshape(-1)
        return made
    if isinstance(question, Forest):
        return np.eye(question.dimension)[bin_of(codes, question)]
    if isinstance(question, Losses):
        loss = loss_of(codes, question)
        return np.array([loss, 1 - loss])
    if isinstance(question, Responsibilities):
        return responsibilities(codes, question)
    if not isinstance(question, RowMoments):
        return question.evaluate({name: np.array([code]) for name, code in codes.items()})[0]
    tables = question.tables
    codes_of = [codes[one.column] if one.bins is None else one.bins[codes[one.column]] for one in tables]
    waves = () if question.waves is None else (features(codes, question.waves),)
    vector = np.concatenate([*(one.table[code] for one, code in zip(tables, codes_of, strict=True)), *waves])
    if question.offsets is not None:
        vector = vector - question.offsets[0 if question.offset_of is None else codes[question.offset_of.columns[0]]]
    if question.projection is not None:
        vector = vector @ question.projection
    vector = vector / max(question.clip, float(np.linalg.norm(vector)))
    rows, columns = np.triu_indices(len(vector))
    pairs = vector[rows] * vector[columns] * np.where(rows == columns, 1.0, math.sqrt(2))
    parts = zip(question.weights, (np.ones(1), vector, pairs), strict=True)
    return np.concatenate([weight * part for weight, part in parts if weight])
