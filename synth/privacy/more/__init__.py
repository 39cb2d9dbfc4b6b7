"""Questions that only some runs ask, each with its bound beside its proof; receipts and answers name those a run used.

``lookups``, ``products``, ``fourier``, ``forests``, ``row_moments`` and ``responsibilities`` are feature maps, listed
in ``answers``; ``perturbed_rows``, ``gradients`` and ``found_values`` are questions, listed there too;
``cells`` is what noise on single cells costs, and ``finding`` asks what is asked of columns that nobody described.
"""

from __future__ import annotations

__all__: list[str] = []
