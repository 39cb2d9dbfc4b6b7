"""A model that somebody forged is refused, or draws rows: in little memory, and in an end."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden_bundles import GOLDEN, golden
from numpy.typing import NDArray

from synth.bundle.model_file import model_from_bytes
from synth.estimators import restore
from synth.generators.protocol import Generator
from synth.system.machine import is_lack_of_means

TESTS = Path(__file__).resolve().parent.parent
MEMORY, SECONDS = 4 * 2**30, 60
SEVERAL = 60
"""Tensors from which one of those whose names differ in digits alone speaks for the others."""


def forged(array: NDArray[Any]) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield what a forger puts in the place of a tensor."""
    whole = array.dtype.kind in "iu"
    for value in (2**31 - 1, -1, 1000) if whole else (np.inf, 1e300, -1e300, -1.0):
        for place in (0, -1) if array.size else ():
            changed = array.copy()
            changed.reshape(-1)[place] = value
            yield f"{value} at {place}", changed
    yield from {"longer": np.concatenate([array, array]), "shorter": array[: len(array) // 2]}.items()


def tried(name: str) -> None:
    """Restore every forgery of a golden bundle's model and draw from it; exit at the first that takes too much."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    with zipfile.ZipFile(golden(name)) as bundle:
        card, state = model_from_bytes(bundle.read("model.safetensors"))
    kinds = {"".join(one for one in key if not one.isdigit()): key for key in state}
    for key in kinds.values() if len(state) > SEVERAL else state:
        for what, changed in forged(state[key]):
            signal.alarm(SECONDS)  # ends this process, and with it the test
            try:
                made = restore(card.generator, card.task, card.options, state | {key: changed})
                if isinstance(made, Generator):
                    made.sample(50, seed=1)
            except Exception as error:
                if is_lack_of_means(error):
                    sys.exit(f"{key}, {what}: {error}")
            signal.alarm(0)


@pytest.mark.parametrize(
    "name", [one if one == "privbayes" else pytest.param(one, marks=pytest.mark.thorough) for one in GOLDEN]
)
def test_a_forged_model_takes_little_memory_and_ends(name: str) -> None:
    code = f"import sys; sys.path[:0] = ['bundle', '.']; import test_forged_models; test_forged_models.tried({name!r})"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=TESTS, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
