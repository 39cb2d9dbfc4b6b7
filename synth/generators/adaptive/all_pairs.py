"""Dense tables: count all pairs of columns in one question, in coarse groups of bins.

A mixture of many products is fitted to all of them. If all columns depend on each other, that is better than a field,
which asks for some relations one after another and leaves most pairs to what a near-tree of them implies.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from synth.generators.adaptive.bins import ColumnBins
from synth.generators.adaptive.coarsening import grouped
from synth.generators.adaptive.survey import Survey
from synth.models.joint_model import work_of_mixtures
from synth.models.marginals import NoisyMarginal
from synth.models.mixture import Mixture, mean_of
from synth.system.costs import Work

if TYPE_CHECKING:
    from synth.models.mixture_estimation import GroupedMarginals

__all__ = ["AllPairs", "independent"]

Vector = NDArray[np.float64]

_GROUPS = 0.4
"""Groups of a column relative to the root of the rows in units of their noise: a cell with even groups holds six times
the noise of a count. With three times as many, a mixture follows the noise: tables of three columns were off by .39
instead of .25 at epsilon .3, and .24 instead of .21 at epsilon 1 (ten columns of three factors)."""

_MOST_GROUPS = 16

_ALL_GROUPS = 480
"""Maximum number of groups of all columns together: the time of a fit grows with its square."""

_FITS, _COMPONENTS = 8, 64
"""Number of mixtures, each fitted from its own initial components, and of components in each. Their mean is the model:
how each fits the noise cancels in part, as when models of several samples are averaged (Breiman 1996)."""

_STEPS = 300
"""Steps of a fit."""

_MORE = (600, 1800)
"""Further steps if the errors exceed the noise of the answers, and once more if they still do: on census (41 columns)
and ten dense columns at epsilon 10, 300 steps leave 1.3 and 2.1 times what noise explains."""

_PRICE = 0.5
"""Price of dependence in the fit: lower than if most pairs were never asked for."""


def independent(bins: Sequence[ColumnBins]) -> Mixture:
    """Return a model of independent columns."""
    everything = np.concatenate([one.expected for one in bins])
    return Mixture(tuple(one.size for one in bins), np.ones(1), everything[None, :])


class AllPairs:
    """The tables of all pairs of columns, in groups of bins, and the mixture that is fitted to them.

    Parameters
    ----------
    survey : Survey
    bins : tuple of ColumnBins
    total : float
        Known or estimated number of rows.
    unit_noise : float
        Noise of a count that gets the whole budget, in rows.
    share : float
        Share of the budget for all pairs together: it decides how coarse groups are.
    seed : int
    device : str
    """

    def __init__(
        self,
        survey: Survey,
        bins: tuple[ColumnBins, ...],
        *,
        total: float,
        unit_noise: float,
        share: float,
        seed: int,
        device: str,
    ) -> None:
        self._survey, self._bins, self._total, self._device = survey, bins, total, device
        self._seeds = range(seed, seed + _FITS)
        self._model = independent(bins)
        useful = [d for d, one in enumerate(bins) if one.size > 1]
        self._pairs = list(itertools.combinations(useful, 2))
        noise = unit_noise * math.sqrt(len(self._pairs) / share)
        most = min(_MOST_GROUPS, max(_ALL_GROUPS // len(useful), 2), int(_GROUPS * math.sqrt(total / noise)))
        self._groups = tuple(
            grouped(one, max(most, 2) if d != survey.label else one.size, noise) for d, one in enumerate(bins)
        )
        self._answers: list[NoisyMarginal] = []
        self._fitted_to: tuple[NoisyMarginal, ...] = ()

    def measure(self, share: float, query: str) -> None:
        """Ask for all pairs; the fit averages further answers with earlier ones."""
        codes = [one.grouped(group) for one, group in zip(self._bins, self._groups, strict=True)]
        parts = [self._survey.one_hot(pair, codes) for pair in self._pairs]
        weights = (math.sqrt(1.0 / len(parts)),) * len(parts)
        counted = self._survey.counted_once(parts, weights, share=share, query=query)
        self._answers += [
            NoisyMarginal(pair, counts, noise_std)
            for pair, (counts, noise_std) in zip(self._pairs, counted, strict=True)
        ]

    @staticmethod
    def work(sizes: Sequence[int]) -> Work:
        """Return what the fits compute, with the most groups of these columns and steps as most tables need them."""
        groups = min(_MOST_GROUPS * len(sizes), _ALL_GROUPS)
        return work_of_mixtures(
            sum(sizes) + groups,
            groups**2 // 2,
            components=_COMPONENTS,
            fits=_FITS,
            steps=_STEPS + _MORE[0] if _MORE else _STEPS,
            overlap=False,
        )

    @property
    def answers(self) -> GroupedMarginals:
        """The answers so far."""
        from synth.models.mixture_estimation import GroupedMarginals  # here, as it brings torch

        return GroupedMarginals(self._groups, tuple(self._answers))

    @property
    def model(self) -> Mixture:
        """The mixture as last fitted; independent columns before the first fit."""
        return self._model

    def refit(
        self, measured: Sequence[NoisyMarginal], *, last: bool, report: Callable[[int, float], None] | None = None
    ) -> None:
        """Fit the mixture to all pairs and to other tables of bins; ``last`` makes no difference."""
        answered = (*measured, *self._answers)
        if answered != self._fitted_to:  # the same answers give the same mixture
            self._fitted_to = answered
            self._model = mean_of(self._fits(measured, report))

    def _fits(self, measured: Sequence[NoisyMarginal], report: Callable[[int, float], None] | None) -> list[Mixture]:
        """Fit the mixtures, each from its own initial components, side by side."""
        from synth.models.mixture_estimation import fit_mixtures

        off: tuple[float, ...] = ()

        def noted(step: int, chi_squares: tuple[float, ...]) -> None:
            nonlocal off
            off = chi_squares
            if report is not None:
                report(step, sum(chi_squares) / len(chi_squares))

        fit = partial(
            fit_mixtures,
            self._model.sizes,
            measured,
            self._total,
            components=_COMPONENTS,
            overlap=0.0,
            price=_PRICE,
            device=self._device,
            grouped=self.answers,
            report=noted,
        )
        fits = fit(steps=_STEPS, seeds=self._seeds)
        going = list(range(len(fits)))
        for steps in _MORE:
            # The true table would have an error of about one per cell (Morozov 1966): beyond that, a fit follows noise.
            going = [one for one, chi_square in zip(going, off, strict=True) if chi_square > 1.0]
            if not going:
                break
            for one, longer in zip(going, fit(steps=steps, starts=[fits[one] for one in going]), strict=True):
                fits[one] = longer
        return fits
