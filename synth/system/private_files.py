"""Files that only their owner may read, and that are on disk when the call returns."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

__all__ = ["locked", "private_file", "replace_durably", "sync_directory"]


@contextmanager
def private_file(path: Path) -> Iterator[BinaryIO]:
    """Open a new file of mode 0600 for writing; it is on disk when the block ends."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def replace_durably(path: Path, content: bytes) -> None:
    """Give a file new content at once: a reader, or a crash, sees the old content or the new, never a part."""
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
    """Hold a lock on a directory between processes for the length of a block; it ends with the process at the latest.

    Parameters
    ----------
    directory : Path
    alone : bool
        Whether nobody else may hold it; otherwise others that are not alone may.

    Yields
    ------
    bool
        Whether the lock is held. Who would be alone does not wait for others, who is not alone always holds it.
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
