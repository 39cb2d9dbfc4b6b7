"""The three models of the DP EM paper, fitted by noisy steps: two groups, two regressions, missing inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from synth.generators.options import Between, Options
from synth.generators.protocol import Card, Needs

__all__ = ["CARDS", "GROUPS", "INPUTS", "REGRESSIONS", "EMOptions", "InputOptions"]


@dataclass(frozen=True, slots=True)
class EMOptions(Options):
    """Options of all three models, in the paper's words; numbers are in units of a column's spread from its centre."""

    algorithm: Annotated[int, Between(1, 3)] = 1
    """1: each unit's gradient is clipped as one vector. 2: each number of it is truncated. 3: the paper's EM instead of
    gradient EM, for the mixture of two groups alone; each number of its statistic is truncated."""

    truncation: Literal["clip", "soft"] = "clip"
    """How algorithms 2 and 3 truncate a number: cut it off, or softly as published. Both have the same bound and the
    same noise; cutting off was closer on every distribution that was tried."""

    e_step: Literal["exact", "printed"] = "exact"
    """Weights of the likelihood, or as the paper prints them, which pulls coefficients to 0 where groups overlap."""

    steps: Annotated[int, Between(1, 100)] = 10
    """Noisy steps; each is paid for by an equal part of the budget."""

    step_size: Annotated[float, Between(0.01, 2.0)] = 1.0
    """How far a step goes along the gradient."""

    clip_norm: Annotated[float, Between(0.001, 1000.0)] = 1.0
    """Length to which algorithm 1 shortens what a unit adds."""

    noise_std: Annotated[float, Between(0.01, 100.0)] = 0.5
    """Sigma, the standard deviation around each group's centre or line. Taken to be public knowledge."""

    tau: Annotated[float, Between(1e-6, 1e6)] = 1.0
    """Largest second moment of a number of the gradient, for the scale of algorithms 2 and 3. Taken to be public
    knowledge."""

    zeta: Annotated[float, Between(1e-9, 0.9)] = 0.1
    """Chance with which the paper's error bound may fail, for the scale of algorithms 2 and 3."""

    start: Annotated[float, Between(0.0, 100.0)] = 1.0
    """Length of the vector that is started from, in a direction drawn from the public seed."""

    scaling: Literal["measured", "declared"] = "measured"
    """Centre and spread of columns: a tenth of the budget measures them, with noise, or declared bounds give them."""

    spread: Annotated[float, Between(0.02, 1.0)] = 1 / 3
    """With declared scaling, the standard deviation of every column as a part of half its declared range. Taken to be
    public knowledge."""


@dataclass(frozen=True, slots=True)
class InputOptions(EMOptions):
    """Options of regression with missing inputs."""

    step_size: Annotated[float, Between(0.01, 2.0)] = 0.5
    """How far a step goes along the gradient."""

    clip_norm: Annotated[float, Between(0.001, 1000.0)] = 2.0
    """Length to which algorithm 1 shortens what a unit adds."""

    start: Annotated[float, Between(0.0, 100.0)] = 0.0
    """Length of the vector that is started from, in a direction drawn from the public seed."""

    missing_rate: Annotated[float, Between(0.0, 0.9)] = 0.1
    """Part of the cells that are missing, for intervals alone. Taken to be public knowledge."""


_REFERENCE = "Wang, Ding, Hu, Xie, Pan and Xu 2020, arXiv 2010.13520."

_NUMBERS_ALONE = "Needs columns of numbers; other columns it does not look at."

GROUPS = Card(
    name="gaussian-mixture",
    title="Mixture of two groups",
    summary="Two groups of equal size whose centres lie on either side of the middle, found by noisy steps of EM. "
    f"{_NUMBERS_ALONE}",
    best_for="Numbers of a population that is made of two halves, with many rows for each column.",
    loses_where="Groups of other sizes or shapes, three groups or more; missing cells count as the middle.",
    reference=_REFERENCE,
    made_by="synth.estimators.expectation_maximization.fits:GaussianMixture",
    options=EMOptions,
    kind="model",
)

REGRESSIONS = Card(
    name="mixture-of-regressions",
    title="Mixture of two regressions",
    summary="Two opposite regression lines through the middle, each for half of the rows, found by noisy steps of EM. "
    f"{_NUMBERS_ALONE}",
    best_for="A label that rises with its inputs for half of the rows and falls for the other half.",
    loses_where="One line, or lines that are not opposite; it can stay where it started, and then needs more steps.",
    reference=_REFERENCE,
    made_by="synth.estimators.expectation_maximization.fits:MixtureOfRegressions",
    options=EMOptions,
    needs=Needs(label=True, columns=2),
    kind="model",
)

INPUTS = Card(
    name="regression-with-missing-inputs",
    title="Regression with missing inputs",
    summary="A linear regression whose inputs are missing at random in some rows, found by noisy steps of EM. "
    f"{_NUMBERS_ALONE}",
    best_for="Tables in which many rows lack some input, so that leaving them out would cost most of the table.",
    loses_where="Inputs that are related to each other or missing for a reason: they are taken to be independent.",
    reference=_REFERENCE,
    made_by="synth.estimators.expectation_maximization.fits:RegressionWithMissingInputs",
    options=InputOptions,
    needs=Needs(label=True, columns=2),
    kind="model",
    predicts=True,
    paid="number",
)

CARDS = (GROUPS, REGRESSIONS, INPUTS)
