"""Examples in docstrings say what comes out."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_examples_in_docstrings_come_out_as_they_say() -> None:
    paths = [path for path in (ROOT / "synth").rglob("*.py") if ">>> " in path.read_text(encoding="utf-8")]
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in paths]
    results = {name: doctest.testmod(importlib.import_module(name)) for name in names}
    assert sum(result.attempted for result in results.values()) >= len(names) > 2
    assert not {name: result.failed for name, result in results.items() if result.failed}
