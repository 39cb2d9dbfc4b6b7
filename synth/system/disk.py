"""Private and durable files, locks on folders, and messages about full disks."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from synth.errors import DiskFullError, SynthError
from synth.system.settings import size_text

__all__ = [
    "disk_full",
    "fullest",
    "has_no_room",
    "is_full",
    "locked",
    "naming_full_disk",
    "private_file",
    "replace_durably",
    "require_room",
    "sync_directory",
]


@contextmanager
def private_file(path: Path) -> Iterator[BinaryIO]:
    """Open a new file of mode 0600 for writing; it is on disk when the block ends."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def replace_durably(path: Path, content: bytes) -> None:
    """Replace the content of a file atomically: a reader, or a crash, sees the old content or the new."""
    draft = path.with_name(f"{path.name}.{os.urandom(8).hex()}")
    try:
        with private_file(draft) as file:
            file.write(content)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


@contextmanager
def locked(directory: Path, *, alone: bool) -> Iterator[bool]:
    """Lock a directory against other processes for the length of a block, or until the process ends.

    Parameters
    ----------
    directory : Path
    alone : bool
        Whether the lock is exclusive; otherwise it is shared.

    Yields
    ------
    bool
        Whether the lock was obtained. An exclusive lock does not wait for others; a shared one is always obtained.
    """
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB if alone else fcntl.LOCK_SH)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# Full disks -----------------------------------------------------------------------------------------------------------


_FULL = {errno.ENOSPC, errno.EDQUOT}
_SMALLEST = 2**16


def is_full(error: BaseException | None) -> bool:
    """Whether an error, or one of its causes, says that a disk is full or a quota is used up."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _FULL:
            return True
        if isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL:
            return True
        error = error.__cause__ or error.__context__
    return False


def has_no_room(folder: Path) -> bool:
    """Whether the disk of a folder has no room for even a small file."""
    return shutil.disk_usage(_existing(folder)).free < _SMALLEST


def require_room(folder: Path, size: int, what: str) -> None:
    """Refuse to write so many bytes where there is no room for them.

    Raises
    ------
    DiskFullError
    """
    held = _existing(folder)
    free = shutil.disk_usage(held).free
    if free < size:
        raise DiskFullError(
            f"{what} needs {size_text(size)} on the disk that holds {held}, which has {size_text(free)} left. Free "
            "some space, then try again."
        )


def disk_full(*folders: Path) -> DiskFullError:
    """Return the error that names the fullest of the disks of these folders."""
    return DiskFullError(f"{fullest(*folders)} Free some space, then try again.")


def fullest(*folders: Path) -> str:
    """Return the sentence that names the fullest of the disks of these folders and how full it is."""
    held = [_existing(folder) for folder in folders]
    left = {folder: shutil.disk_usage(folder) for folder in held}
    least = min(held, key=lambda folder: left[folder].free)
    usage = left[least]
    return f"The disk that holds {least} is full ({size_text(usage.free)} of {size_text(usage.total)} left)."


@contextmanager
def naming_full_disk(*folders: Path) -> Iterator[None]:
    """Turn "no space left" into a sentence that names the disk; let other errors pass.

    Parameters
    ----------
    *folders : Path
        Folders that are written to; of several, the one with the least space left is named.

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
