"""The question of a charged prediction report: held-out rows by bin of prediction, label and group.

The bin is that of a forest (:mod:`synth.reports.tree_predictors`), or of a released classifier's guess. Each column of
groups has its own table in addition to the one over all rows, which then gets half of the question's share.

Where the label is a number it is predicted as one, and the question is how large the error is: a row adds its loss and
1 minus its loss (:class:`synth.privacy.more.losses.Losses`), by group where there are groups.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from synth.errors import ConfigError
from synth.generators.protocol import Card, ReleasedModel
from synth.privacy.answers import NoisyAnswer
from synth.privacy.bins import Bins
from synth.privacy.feature_maps import FeatureMap, OneHot, Stack
from synth.privacy.more.forests import Forest, Guess
from synth.privacy.more.losses import Losses
from synth.privacy.more.products import Product
from synth.privacy.receipt import Receipt
from synth.reports.features import Target
from synth.reports.tree_predictors import (
    constant_forest,
    constant_losses,
    synthetic_forest,
    synthetic_losses,
)
from synth.schema import ModelledColumn, RunConfig
from synth.schema.config import prediction_refusal
from synth.system.machine import is_lack_of_means

__all__ = [
    "MOST_GROUPS",
    "PREDICTION_QUERY",
    "WIDEST_LOSS",
    "WIDEST_RANGE",
    "HoldoutLosses",
    "HoldoutTables",
    "LossTable",
    "asks_about",
    "bins_of_confidence",
    "charged_groups",
    "holdout_losses",
    "holdout_tables",
    "loss_question",
    "model_question",
    "paid_refusal",
    "planned_question",
    "prediction_question",
    "trained_question",
]

PREDICTION_QUERY = "predictions on the hold-out"

WIDEST_RANGE = 0.25
"""A measure with a wider range to either side says nothing, and is not shown."""

WIDEST_LOSS = 1 / 12
"""The same for a mean squared error: that of always predicting the middle, were all numbers equally frequent."""

MOST_GROUPS = 20
"""A column of groups with more declared values has no table: its counts would be noise."""

_BINS = {2: 5, 3: 4, 4: 4}
_BINS_OF_MANY = 2


def bins_of_confidence(n_classes: int) -> int:
    """Return how many bins the confidence of each guessed class is cut into; fewer where classes are many."""
    return _BINS.get(n_classes, _BINS_OF_MANY)


def charged_groups(config: RunConfig) -> tuple[str, ...]:
    """Return the columns of groups that are counted separately: those with few declared values, without the label."""
    return tuple(
        name
        for name in dict.fromkeys(config.groups)
        if name != config.label and config.schema.modelled_column(name).size <= MOST_GROUPS
    )


def prediction_question(guess: Guess, config: RunConfig) -> FeatureMap:
    """Return what is asked of the hold-out.

    Parameters
    ----------
    guess : Guess
        Of a forest or of a released classifier: one of the classes of the label.
    config : RunConfig
        With a label of classes.

    Returns
    -------
    FeatureMap
        The one-hot of (bin of the guess, label), of shape (classes, bins, label); with groups a stack of it at weight
        sqrt(1/2) and one table by group for each column, which share the other half equally. The label has one more
        cell for rows where it is missing.
    """
    label = _label(config)
    if label.name in guess.columns:
        raise ConfigError(f"A predictor of '{label.name}' must not use that column.")
    overall = Product((guess, _by_class(label)))
    groups = charged_groups(config)
    if not groups:
        return overall
    parts: list[FeatureMap] = [overall]
    for name in groups:
        size = config.schema.modelled_column(name).size
        parts.append(Product((*overall.factors, OneHot((name,), (None,), (size,)))))
    each = math.sqrt(0.5 / len(groups))
    return Stack(tuple(parts), (math.sqrt(0.5), *(each for _ in groups)))


def loss_question(losses: Losses, config: RunConfig) -> FeatureMap:
    """Return what is asked of the hold-out where the label is a number.

    Parameters
    ----------
    losses : Losses
        Of the label.
    config : RunConfig
        With a label that is a number.

    Returns
    -------
    FeatureMap
        Loss and rest by whether the label is known, where it may be missing; with groups a stack of one such table by
        group for each column, all of one weight.
    """
    label = _label(config)
    if label.name in losses.features.columns:
        raise ConfigError(f"A predictor of '{label.name}' must not use that column.")
    known = _is_known(label, Target.of(config.schema, label.name))
    overall = (losses, known) if known.dimension > 1 else (losses,)
    groups = charged_groups(config)
    if not groups:
        return Product(overall)
    sizes = [config.schema.modelled_column(name).size for name in groups]
    parts = [Product((*overall, OneHot((name,), (None,), (size,)))) for name, size in zip(groups, sizes, strict=True)]
    return Stack(tuple(parts), tuple(math.sqrt(1 / len(groups)) for _ in groups))


def asks_about(question: FeatureMap, config: RunConfig) -> bool:
    """Whether charged predictions are about the label and the groups of a configuration, whatever it is that predicts.

    Parameters
    ----------
    question : FeatureMap
        As it was recorded; untrusted.
    config : RunConfig
    """
    first = question.parts[0] if isinstance(question, Stack) else question
    if config.label is None or not isinstance(first, Product):
        return False
    predictor = first.factors[0]
    try:
        if isinstance(predictor, Losses):
            return predictor.target.columns == (config.label,) and loss_question(predictor, config).is_same(question)
        return isinstance(predictor, Guess) and prediction_question(predictor, config).is_same(question)
    except (ConfigError, LookupError, ValueError):  # of a predictor that this table has no room for
        return False


def paid_refusal(card: Card, config: RunConfig) -> str | None:
    """Say in one sentence why predictions of a model cannot be paid for, or return None where they can.

    Parameters
    ----------
    card : Card
        Of the model: it may make no predictions in whole numbers, or predict another kind of label than the table's.
    config : RunConfig
        Whether or not it asks for them.
    """
    if not card.paid:
        return f"predictions of model '{card.name}' cannot be paid for."
    refusal = prediction_refusal(config.schema, config.label, config.holdout, config.delta)
    if refusal is not None:
        return refusal
    label = _label(config)
    if Target.of(config.schema, label.name).kind != card.paid:
        is_list = card.paid == "number"
        kinds = ("a list of values", "a number") if is_list else ("a number", "a list of values")
        return (
            f"predictions of model '{card.name}' can be paid for only where '{label.name}' is {kinds[1]}, but it is "
            f"declared as {kinds[0]}."
        )
    return None


def model_question(model: ReleasedModel, config: RunConfig) -> FeatureMap:
    """Return what is asked of the hold-out about a released model: the same for anyone who has the model.

    Parameters
    ----------
    model : ReleasedModel
        Fitted, or restored.
    config : RunConfig
        Of a model that :func:`paid_refusal` lets pass.
    """
    n_classes = Target.of(config.schema, _label(config).name).n_classes
    predictor = model.predictor(bins_of_confidence(n_classes))
    return loss_question(predictor, config) if isinstance(predictor, Losses) else prediction_question(predictor, config)


def planned_question(config: RunConfig) -> FeatureMap:
    """Return a question that costs the same as the real one: the trees change no bound."""
    if _label(config).levels > 2:
        no_rows = [np.zeros(0, np.int64)] * len(config.schema.names)
        return loss_question(constant_losses(no_rows, config.schema, _label(config).name), config)
    n_classes = Target.of(config.schema, _label(config).name).n_classes
    leaf, edges = np.zeros((1, 4), np.int32), np.zeros((n_classes, bins_of_confidence(n_classes) - 1), np.int32)
    forest = Forest((), (), leaf, np.zeros((1, n_classes), np.int32), np.zeros(1, np.int32), edges)
    return prediction_question(forest, config)


@dataclass(frozen=True, slots=True, eq=False)
class HoldoutTables:
    """Noisy tables of held-out rows.

    Attributes
    ----------
    receipt : Receipt
    label : str
    predictor : Guess
    counts : array of shape (classes, bins, classes)
        Rows by guessed class, bin of confidence and label; the mean of all tables, each weighted by its precision.
    noise_std : float
        Standard deviation of the noise on each of ``counts``, in rows.
    left_out : float
        Noisy number of rows whose label is missing, 0 where it cannot be.
    groups : mapping as tuple of pairs
        By column: counts of shape (classes, bins, classes, values) and the standard deviation of their noise.
    """

    receipt: Receipt
    label: str
    predictor: Guess
    counts: NDArray[np.float64]
    noise_std: float
    left_out: float
    groups: tuple[tuple[str, NDArray[np.float64], float], ...]


def holdout_tables(releases: Iterable[NoisyAnswer]) -> HoldoutTables | None:
    """Find the answer to a charged prediction among the answers of a run, or None."""
    found = _answered(releases)
    if found is None:
        return None
    receipt, parts = found
    guesses = [part.first for part in parts if isinstance(part.first, Guess) and len(part.hots) in (1, 2)]
    if len(guesses) < len(parts):
        return None
    predictor = guesses[-1]
    tables = [(tuple(hot.columns[0] for hot in part.hots), part.values, part.noise_std) for part in parts]
    n_classes = predictor.shape[0]
    whole, noise_std = _together([(_over_groups(values), _noise_over_groups(values, std)) for _, values, std in tables])
    return HoldoutTables(
        receipt=receipt,
        label=tables[0][0][0],
        predictor=predictor,
        counts=whole[..., :n_classes],
        noise_std=noise_std,
        left_out=float(whole[..., n_classes:].sum()),
        groups=tuple((names[1], values[:, :, :n_classes], std) for names, values, std in tables if len(names) == 2),
    )


@dataclass(frozen=True, slots=True, eq=False)
class LossTable:
    """Noisy sums of the losses of held-out rows, by group.

    Attributes
    ----------
    column : str
        The column of groups; empty where all rows are one group.
    losses, rests, left_out : arrays of shape (n_groups,)
        Sum of the losses, sum of what is missing to 1, and number of rows whose label is not known.
    noise_std : float
        Standard deviation of the noise on each of the first two.
    """

    column: str
    losses: NDArray[np.float64]
    rests: NDArray[np.float64]
    left_out: NDArray[np.float64]
    noise_std: float

    @property
    def of_all(self) -> LossTable:
        """The same over all groups."""
        losses, rests, left_out = (one.sum(keepdims=True) for one in (self.losses, self.rests, self.left_out))
        return LossTable("", losses, rests, left_out, self.noise_std * math.sqrt(len(self.losses)))


@dataclass(frozen=True, slots=True, eq=False)
class HoldoutLosses:
    """Noisy losses of held-out rows: over all rows, and by group for each column of groups."""

    receipt: Receipt
    predictor: Losses
    overall: LossTable
    groups: tuple[LossTable, ...]


def holdout_losses(releases: Iterable[NoisyAnswer]) -> HoldoutLosses | None:
    """Find the answer to a charged prediction of a number among the answers of a run, or None."""
    found = _answered(releases)
    if found is None:
        return None
    receipt, parts = found
    predictors = [part.first for part in parts if isinstance(part.first, Losses)]
    if len(predictors) < len(parts):
        return None
    tables: list[LossTable] = []
    for part, predictor in zip(parts, predictors, strict=True):
        hots = {hot.columns[0]: hot.dimension for hot in part.hots}
        known = hots.pop(predictor.target.column, 1)
        values = part.values.reshape(2, known, -1)
        (losses, rests), left_out = values[:, 0], values[:, 1:].sum(axis=(0, 1))
        tables.append(LossTable(next(iter(hots), ""), losses, rests, left_out, part.noise_std))
    (losses, rests, left_out), noise_std = _together(
        [(np.stack([one.losses, one.rests, one.left_out]), one.noise_std) for one in (table.of_all for table in tables)]
    )
    overall = LossTable("", losses, rests, left_out, noise_std)
    return HoldoutLosses(receipt, predictors[-1], overall, tuple(one for one in tables if one.column))


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """One table of the answer: what comes first in its product, its tables of counts, its numbers and their noise."""

    first: FeatureMap
    hots: tuple[OneHot, ...]
    values: NDArray[np.float64]
    noise_std: float


def _answered(releases: Iterable[NoisyAnswer]) -> tuple[Receipt, list[_Part]] | None:
    """Find the answer to a charged prediction among the answers of a run, taken apart; or None."""
    release = next((one for one in releases if one.receipt.query == PREDICTION_QUERY), None)
    if release is None or release.receipt.part != "holdout":
        return None
    question, flat = release.feature_map, np.asarray(release.value, dtype=np.float64).reshape(-1)
    products, weights = (question.parts, question.weights) if isinstance(question, Stack) else ((question,), (1.0,))
    parts, start = [], 0
    for product, weight in zip(products, weights, strict=True):
        if not isinstance(product, Product):
            return None
        first, *others = product.factors
        values = (flat[start : start + product.dimension] / weight).reshape(product.shape)
        hots = tuple(one for one in others if isinstance(one, OneHot))
        parts.append(_Part(first, hots, values, release.noise_std / weight))
        start += product.dimension
    return release.receipt, parts


def _over_groups(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return values if values.ndim == 3 else values.sum(axis=3)


def _noise_over_groups(values: NDArray[np.float64], noise_std: float) -> float:
    return noise_std if values.ndim == 3 else noise_std * math.sqrt(values.shape[3])


def _together(tables: list[tuple[NDArray[np.float64], float]]) -> tuple[NDArray[np.float64], float]:
    """Average tables of the same rows, each by the inverse of its variance."""
    precisions = [1 / std**2 for _, std in tables]
    total = math.fsum(precisions)
    added = sum(values * precision for (values, _), precision in zip(tables, precisions, strict=True))
    return np.asarray(added / total), 1 / math.sqrt(total)


def _label(config: RunConfig) -> ModelledColumn:
    if config.label is None:
        raise ConfigError("A charged prediction needs a label. Name the column to predict under 'label:'.")
    return config.schema.modelled_column(config.label)


def _by_class(label: ModelledColumn) -> OneHot:
    return OneHot((label.name,), (None,), (label.size,))


def _is_known(label: ModelledColumn, target: Target) -> OneHot:
    """Separate rows whose label is known (bin 0) from the others (bin 1)."""
    beside = np.arange(label.levels, label.size)
    bins = Bins.of_runs([0, *~target.is_known(beside)], [label.levels, *np.ones_like(beside)])
    return OneHot((label.name,), (bins,))


def trained_question(
    codes: NDArray[np.int64], config: RunConfig, *, failed: Callable[[Exception], object] = lambda error: None
) -> FeatureMap:
    """Train what predicts held-out rows, and return the question that counts its errors.

    If a library fails, the plainest guess is used, because the budget is already spent. A lack of memory or a failing
    device is not such a fault: the run continues from its answers and trains again.

    Parameters
    ----------
    codes : array of shape (n_rows, n_modelled)
        The synthetic rows.
    config : RunConfig
        With a label, which is predicted.
    failed : callable
        Called with the error of a library.
    """
    schema, label, columns = config.schema, str(config.label), list(codes.T)
    target = Target.of(schema, label)
    if target.kind == "number":
        losses = _trained(
            lambda: synthetic_losses(columns, schema, label, seed=config.seed),
            lambda: constant_losses(columns, schema, label),
            failed,
        )
        return loss_question(losses, config)
    bins = bins_of_confidence(target.n_classes)
    forest = _trained(
        lambda: synthetic_forest(columns, schema, label, bins=bins, seed=config.seed),
        lambda: constant_forest(columns, schema, label, bins=bins),
        failed,
    )
    return prediction_question(forest, config)


_Trained = TypeVar("_Trained")


def _trained(
    train: Callable[[], _Trained], plainest: Callable[[], _Trained], failed: Callable[[Exception], object]
) -> _Trained:
    try:
        return train()
    except Exception as error:
        if is_lack_of_means(error):
            raise
        failed(error)
        return plainest()
