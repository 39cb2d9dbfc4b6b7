"""Devices that sums are worked out on."""

from __future__ import annotations

import pytest
import torch

__all__ = ["DEVICES"]

_NEEDS_CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device for its sums")

DEVICES = ["cpu", pytest.param("cuda", marks=[pytest.mark.thorough, _NEEDS_CUDA])]
