"""Linear algebra by the same kernels wherever tests run: imported before numpy.

What is fitted differs in its last bits between processors whose kernels do (docs/known-limits.md), and golden files
hold what follows from fits: they were made where OpenBLAS takes those for AVX2, as it does on most machines.
"""

from __future__ import annotations

import os
from pathlib import Path

__all__: list[str] = []

_PROCESSOR = Path("/proc/cpuinfo")

if _PROCESSOR.exists() and " avx512f " in _PROCESSOR.read_text(encoding="utf-8", errors="replace"):
    os.environ.setdefault("OPENBLAS_CORETYPE", "Haswell")
