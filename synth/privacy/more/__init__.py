"""Questions that only some runs ask, each with its bound beside its proof; receipts and answers name those a run used.

``lookups``, ``products``, ``fourier``, ``forests``, ``linear_guesses``, ``losses``, ``row_moments`` and
``responsibilities`` are feature maps, listed in ``answers``; ``perturbed_rows``, ``gradients``, ``em_steps`` and
``found_values`` are questions, listed there too. ``linear_predictions`` is what gradients, losses and guesses share,
``cells`` is the cost of noise on single cells, ``finding`` asks about columns that have no description yet, and
``found_columns`` concludes from the answers, with ``found_ranges`` for the bounds of numbers and dates.
"""

from __future__ import annotations

__all__: list[str] = []
