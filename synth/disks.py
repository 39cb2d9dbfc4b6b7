"""Full disks, by name: which one it is, and how much of it is left."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from synth.errors import DiskFullError

__all__ = ["disk_full", "is_full", "naming_full_disk"]

_FULL = {errno.ENOSPC, errno.EDQUOT}
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def is_full(error: BaseException) -> bool:
    """Whether an error says that a disk is full, or that a quota is used up."""
    return isinstance(error, OSError) and error.errno in _FULL


def disk_full(*folders: Path) -> DiskFullError:
    """Return the error that names the fullest of the disks that hold these folders."""
    held = [_existing(folder) for folder in folders]
    left = {folder: shutil.disk_usage(folder) for folder in held}
    fullest = min(held, key=lambda folder: left[folder].free)
    usage = left[fullest]
    return DiskFullError(
        f"The disk that holds {fullest} is full ({_amount(usage.free)} of {_amount(usage.total)} left). "
        "Free some space, then try again."
    )


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
    except OSError as error:
        if not is_full(error):
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
