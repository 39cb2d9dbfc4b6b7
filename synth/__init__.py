"""Hermitage: turn a private table into rows that can be shared.

``synth demo demo`` writes a simulated table and its configuration; then, from Python:

>>> import synth
>>> config = synth.load_config("demo/demonstration.yaml")  # doctest: +SKIP
>>> result = synth.run(config, "release")  # doctest: +SKIP
>>> synth.verify(result.bundle).ok  # doctest: +SKIP
True

Whatever goes wrong raises a :class:`synth.errors.SynthError`, whose text is one sentence and never quotes a table.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from synth.version import __version__

if TYPE_CHECKING:
    from synth.bundle.verify import Verdict
    from synth.cli.local import RunResult
    from synth.schema import RunConfig

__all__ = ["__version__", "load_config", "run", "verify"]


def load_config(path: str | Path) -> RunConfig:
    """Read a configuration file; see :func:`synth.schema.load_config`."""
    from synth.schema import load_config as load
    from synth.services.incidents import in_own_words

    return in_own_words(load, path)


def run(config: RunConfig, out: str | Path, *, table: str | Path | None = None) -> RunResult:
    """Make a synthetic table and its bundle in the folder ``out``; see :func:`synth.cli.local.run_locally`."""
    from synth.cli.local import run_locally
    from synth.services.incidents import in_own_words

    return in_own_words(run_locally, config, out, table=table)


def verify(path: str | Path) -> Verdict:
    """Check a bundle, a zip or a folder; see :func:`synth.bundle.verify.verify`."""
    from synth.bundle.verify import verify as check
    from synth.services.incidents import in_own_words
    from synth.system.paths import path_of

    return in_own_words(lambda: check(path_of(path, "the bundle")))
