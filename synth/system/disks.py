"""Full disks, by name: which one it is, and how much of it is left."""

from __future__ import annotations

import errno
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from synth.errors import DiskFullError, SynthError

__all__ = ["disk_full", "fullest", "has_no_room", "is_full", "naming_full_disk"]

_FULL = {errno.ENOSPC, errno.EDQUOT}
_SMALLEST = 2**16
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def is_full(error: BaseException | None) -> bool:
    """Whether an error, or one that led to it, says that a disk is full or a quota used up."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _FULL:
            return True
        if isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL:
            return True
        error = error.__cause__ or error.__context__
    return False


def has_no_room(folder: Path) -> bool:
    """Whether the disk that holds a folder has no room for the smallest file."""
    return shutil.disk_usage(_existing(folder)).free < _SMALLEST


def disk_full(*folders: Path) -> DiskFullError:
    """Return the error that names the fullest of the disks that hold these folders."""
    return DiskFullError(f"{fullest(*folders)} Free some space, then try again.")


def fullest(*folders: Path) -> str:
    """Return the sentence that says how full the fullest of the disks is that hold these folders."""
    held = [_existing(folder) for folder in folders]
    left = {folder: shutil.disk_usage(folder) for folder in held}
    least = min(held, key=lambda folder: left[folder].free)
    usage = left[least]
    return f"The disk that holds {least} is full ({_amount(usage.free)} of {_amount(usage.total)} left)."


@contextmanager
def naming_full_disk(*folders: Path) -> Iterator[None]:
    """Turn "no space left" into a sentence that names the disk; other errors pass.

    Parameters
    ----------
    *folders : Path
        What is written into; of several the one whose disk has least left is named.

    Raises
    ------
    DiskFullError
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, SynthError) or not is_full(error):
            raise
        raise disk_full(*folders) from None


def _existing(folder: Path) -> Path:
    return next(path for path in (folder.absolute(), *folder.absolute().parents) if path.is_dir())


def _amount(count: int) -> str:
    value, unit = float(count), _UNITS[0]
    for larger in _UNITS[1:]:
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} {unit}" if unit == _UNITS[0] else f"{value:.1f} {unit}"
