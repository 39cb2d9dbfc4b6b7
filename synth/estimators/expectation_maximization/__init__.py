"""The three models of the DP EM paper, fitted by noisy steps: two groups, two regressions, missing inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from synth.generators.options import Between, Options
from synth.generators.protocol import Card, Needs

__all__ = ["CARDS", "GROUPS", "INPUTS", "REGRESSIONS", "EMOptions", "InputOptions"]


@dataclass(frozen=True, slots=True)
class EMOptions(Options):
    """Options of all three models, in the paper's terms; numbers are in units of a column's spread from its centre."""

    algorithm: Annotated[int, Between(1, 3)] = 1
    """1: each unit's gradient is clipped as one vector. 2: each number of the gradient is truncated. 3: the paper's EM
    instead of gradient EM, only for the mixture of two groups; each number of its statistic is truncated."""

    truncation: Literal["clip", "soft"] = "clip"
    """How algorithms 2 and 3 truncate a number: by clipping, or softly as published. Both have the same bound and the
    same noise; clipping was more accurate on every distribution that we tried."""

    e_step: Literal["exact", "printed"] = "exact"
    """Weights by the likelihood, or as printed in the paper, which pulls coefficients to 0 if groups overlap."""

    steps: Annotated[int, Between(1, 100)] = 10
    """Number of noisy steps; each gets an equal share of the budget."""

    step_size: Annotated[float, Between(0.01, 2.0)] = 1.0
    """How far a step goes along the gradient."""

    clip_norm: Annotated[float, Between(0.001, 1000.0)] = 1.0
    """Length to which algorithm 1 clips the contribution of a unit."""

    noise_std: Annotated[float, Between(0.01, 100.0)] = 0.5
    """Sigma, the standard deviation around each group's centre or line. Assumed to be public knowledge."""

    tau: Annotated[float, Between(1e-6, 1e6)] = 1.0
    """Largest second moment of a number of the gradient, for the scale of algorithms 2 and 3. Assumed to be public
    knowledge."""

    zeta: Annotated[float, Between(1e-9, 0.9)] = 0.1
    """Probability that the paper's error bound fails, for the scale of algorithms 2 and 3."""

    start: Annotated[float, Between(0.0, 100.0)] = 1.0
    """Length of the initial vector, whose direction is drawn from the public seed."""

    scaling: Literal["measured", "declared"] = "measured"
    """Centre and spread of columns: measured with noise, for a tenth of the budget, or from the declared bounds."""

    spread: Annotated[float, Between(0.02, 1.0)] = 1 / 3
    """With declared scaling, the standard deviation of every column as a fraction of half its declared range. Assumed
    to be public knowledge."""


@dataclass(frozen=True, slots=True)
class InputOptions(EMOptions):
    """Options of regression with missing inputs."""

    step_size: Annotated[float, Between(0.01, 2.0)] = 0.5
    """How far a step goes along the gradient."""

    clip_norm: Annotated[float, Between(0.001, 1000.0)] = 2.0
    """Length to which algorithm 1 clips the contribution of a unit."""

    start: Annotated[float, Between(0.0, 100.0)] = 0.0
    """Length of the initial vector, whose direction is drawn from the public seed."""

    missing_rate: Annotated[float, Between(0.0, 0.9)] = 0.1
    """Share of cells that are missing, only for intervals. Assumed to be public knowledge."""


_REFERENCE = "Wang, Ding, Hu, Xie, Pan and Xu 2020, arXiv 2010.13520."

_NUMBERS_ALONE = "Uses columns of numbers only; other columns are ignored."

GROUPS = Card(
    name="gaussian-mixture",
    fits_at_once=True,
    title="Mixture of two groups",
    summary="Two groups of equal size whose centres lie on either side of the middle, found by noisy steps of EM. "
    f"{_NUMBERS_ALONE}",
    best_for="Numbers of a population that consists of two halves, with many rows for each column.",
    loses_where="Groups of other sizes or shapes; three or more groups; missing cells count as the middle.",
    reference=_REFERENCE,
    made_by="synth.estimators.expectation_maximization.fits:GaussianMixture",
    options=EMOptions,
    kind="model",
)

REGRESSIONS = Card(
    name="mixture-of-regressions",
    fits_at_once=True,
    title="Mixture of two regressions",
    summary="Two opposite regression lines through the middle, each for half of the rows, found by noisy steps of EM. "
    f"{_NUMBERS_ALONE}",
    best_for="A label that rises with its inputs for half of the rows and falls for the other half.",
    loses_where="One line, or lines that are not opposite; it can be slow to leave its start, and then needs more "
    "steps.",
    reference=_REFERENCE,
    made_by="synth.estimators.expectation_maximization.fits:MixtureOfRegressions",
    options=EMOptions,
    needs=Needs(label=True, columns=2),
    kind="model",
)

INPUTS = Card(
    name="regression-with-missing-inputs",
    fits_at_once=True,
    title="Regression with missing inputs",
    summary="A linear regression whose inputs are missing at random in some rows, found by noisy steps of EM. "
    f"{_NUMBERS_ALONE}",
    best_for="Tables in which many rows lack some input, so that dropping them would lose most of the table.",
    loses_where="Inputs that are related to each other or missing for a reason: they are assumed to be independent.",
    reference=_REFERENCE,
    made_by="synth.estimators.expectation_maximization.fits:RegressionWithMissingInputs",
    options=InputOptions,
    needs=Needs(label=True, columns=2),
    kind="model",
    predicts=True,
    paid="number",
)

CARDS = (GROUPS, REGRESSIONS, INPUTS)
