"""Questions that some generators ask, each with its bound beside its proof; receipts and answers name those a run used.

``lookups``, ``products``, ``fourier``, ``forests``, ``row_moments`` and ``responsibilities`` are feature maps, listed
in ``answers``; ``perturbed_rows`` and ``gradients`` are questions, listed there too; ``cells`` is what noise on single
cells costs.
"""

from __future__ import annotations

__all__: list[str] = []
