"""The folder of a run (mode 0700): the files that may be published and, apart, those for the owner only."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO
from uuid import UUID, uuid4

from synth.bundle.archive import linked_in
from synth.errors import InputError, JobError
from synth.system.settings import Settings
from synth.vault.kept_answers import forget_answers

__all__ = [
    "DEVICE",
    "FOUND",
    "INCIDENT",
    "PREVIEWED",
    "PREVIEW_ASKED",
    "PUBLISHABLE",
    "PUBLISHABLE_OF_MODEL",
    "UNRELEASED",
    "certificate_id",
    "clear",
    "make",
    "of",
    "private_stream",
    "publishable",
    "read_json",
    "run_in",
    "withdraw",
    "write_files",
    "write_owner_json",
]

PUBLISHABLE = ("synthetic.csv", "synthetic.parquet", "bundle.zip", "certificate.json", "report.json")
"""Files of a finished run that may leave the machine; :func:`publishable` adds those of two tables."""

PUBLISHABLE_OF_MODEL = ("model.json", *PUBLISHABLE[2:])
"""The same for a run that fitted a model."""

UNRELEASED = "unreleased.zip"
"""A sealed bundle that did not pass its own check, in the owner's part; it contains every noisy answer."""

INCIDENT = "incident.txt"
"""What did not hold in it, for a report; it quotes the bundle, not the table."""

DEVICE = "device.json"
"""The device of a run and the reason for it, in the owner's part."""

FOUND = ("found.json", "found.npz")
"""Files of a finding, which is charged like a run and has a folder of its own."""

PREVIEWED = ("preview.json", "preview.npz")
"""Files of a preview, sealed: nothing of it is published unless its owner does so."""

PREVIEW_ASKED = "preview-asked.json"
"""What a preview was asked, in the owner's part, by which the same one is recognised."""


def of(settings: Settings, run_id: str) -> Path:
    """Return the folder of a run; its name is the id of the run, never a text from a user."""
    return settings.home / "runs" / str(UUID(run_id))


def make(settings: Settings, run_id: str) -> Path:
    """Create the folder of a run with its owner's part, readable by this user only."""
    folder = of(settings, run_id)
    for made in (settings.home / "runs", folder, folder / "owner"):
        made.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def publishable(members: Collection[str]) -> tuple[str, ...]:
    """Return the files of a finished run that may leave the machine, by the names of the files of its bundle."""
    return PUBLISHABLE_OF_MODEL if "model.json" in members else (*PUBLISHABLE, *linked_in(members))


def withdraw(folder: Path) -> None:
    """Remove what a run wrote to be published."""
    linked = linked_in(path.name for path in folder.glob("*"))
    for name in {*PUBLISHABLE, *PUBLISHABLE_OF_MODEL, *linked, *FOUND, *PREVIEWED}:
        (folder / name).unlink(missing_ok=True)


def clear(settings: Settings, run_id: str) -> None:
    """Remove what a run wrote that ended early: it is incomplete, and no run continues from it."""
    folder = of(settings, run_id)
    withdraw(folder)
    for path in (folder / "owner").glob("*.json*"):
        path.unlink(missing_ok=True)
    forget_answers(settings.home, run_id)


def run_in(folder: Path) -> str:
    """Return the id of the run whose results are in a folder.

    Raises
    ------
    InputError
        If there is no such folder, or it is none of a run.
    JobError
        If its file is damaged.
    """
    if not folder.is_dir():
        raise InputError(f"There is no folder '{folder.name}'. Check the path.")
    known = folder / "owner" / "run.json"
    if not known.exists():
        raise InputError(f"'{folder.name}' is not a folder that synth run wrote: it has no owner/run.json.")
    return str(read_json(known).get("run_id"))


def read_json(path: Path) -> dict[str, Any]:
    """Read a file that this program wrote.

    Raises
    ------
    JobError
        If it is gone or damaged.
    """
    try:
        body = json.loads(path.read_bytes())
    except (OSError, ValueError):
        raise JobError(f"The file {path.name} of this run is missing or damaged. Restore it, or run again.") from None
    if not isinstance(body, dict):
        raise JobError(f"The file {path.name} of this run is damaged. Restore it, or run again.")
    return body


def write_owner_json(path: Path, body: Mapping[str, Any]) -> None:
    """Write a file that only this user may read; until it is complete, readers see the old file."""
    new = path.with_name(f"{path.name}.{uuid4().hex}")
    try:
        with private_stream(new) as stream:
            stream.write(f"{json.dumps(body, indent=1, sort_keys=True, allow_nan=False)}\n".encode())
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files that only this user may read."""
    for name, data in files.items():
        with private_stream(folder / name) as stream:
            stream.write(data)


def certificate_id(certificate_json: bytes) -> tuple[str, str]:
    """Return the short id of a certificate, for people, and its full SHA-256."""
    digest = hashlib.sha256(certificate_json).hexdigest()
    return digest[:16], digest


@contextmanager
def private_stream(path: Path) -> Iterator[BinaryIO]:
    """Write a file that only this user may read, replacing the old one."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        yield stream
