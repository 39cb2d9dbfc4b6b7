"""Questions that some generators ask, each with its bound beside its proof; receipts and answers name those a run used.

``lookups``, ``products``, ``fourier``, ``forests`` and ``row_moments`` are feature maps, listed in ``answers``;
``perturbed_rows`` and ``gradients`` are questions, listed in ``answers``; ``cells`` is what noise on single cells
costs.
"""

from __future__ import annotations

__all__: list[str] = []
