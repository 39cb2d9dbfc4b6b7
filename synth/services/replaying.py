"""A table again from its bundle: nothing is read but the bundle, and nothing is spent."""

from __future__ import annotations

from pathlib import Path

from synth.bundle.replay import Replay, replay
from synth.services.local import empty_folder

__all__ = ["replay_bundle"]


def replay_bundle(
    bundle: str | Path, out: str | Path, *, refit: bool = False, generator: str | None = None, force: bool = False
) -> Replay:
    """Make the table of a bundle again in an empty folder, and say how it compares with the certified one.

    Raises
    ------
    InputError
        If the folder is not empty.
    VerificationError
        If the bundle cannot be read.
    """
    folder = empty_folder(out, force=force)
    return replay(bundle, folder, refit=refit, generator=generator)
