"""Reference values of the Hermite features; see the "_about" entry of the file for their origin."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

VECTORS = Path(__file__).parent.parent / "references" / "dp-hp.json"

TOLERANCE = 1e-10
"""Largest absolute difference from a reference value in float64."""


@cache
def vectors() -> dict[str, Any]:
    return json.loads(VECTORS.read_text(encoding="utf-8"))


def double(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def largest_difference(got: Tensor, want: Any) -> float:
    return float((got - double(want)).abs().max())
