"""Answers kept until their run ends, so that a run that lost its worker can continue without asking twice.

Every answer is on disk, encrypted, before it is returned. A continued run gets the kept answers again, strictly in
order, and only for exactly the questions to which they belong; later questions are asked about the rows as if nothing
had happened. An answer that was drawn but not stored was never returned. So all answers that are ever returned have the
same distribution as in a run that was never stopped (``docs/guarantee.md``).

The file is a header and one record for each answer, sealed under a key for this run only, with their positions
authenticated: records cannot be altered, exchanged, reordered, or copied from another run. The length of a record is
sealed too, so only the remains of one unfinished write at the end count as incomplete. The size of an answer depends
only on its question, so a write cannot fail because of what was drawn.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from synth.errors import JobError, TableError
from synth.system.disk import naming_full_disk, sync_directory
from synth.vault.sealing import SEAL_BYTES, seal, unseal

__all__ = [
    "ANSWERS_FILE",
    "AnswerFile",
    "KeptQuestion",
    "answers_path",
    "forget_answers",
    "sweep_answers",
]

_Numbers = tuple[NDArray[np.int64], ...]
"""An answer before it is scaled."""

ANSWERS_FILE = "answers.kept"

PIECE_BYTES = 2**20
LENGTHS_BYTES = 3 * 8
"""Of the three parts of a record: its JSON, and one or two arrays of numbers."""

ITSELF = "file"
"""Name of the fact that distinguishes the file from copies."""

HEAD_BYTES = LENGTHS_BYTES + SEAL_BYTES

LOCK_SECONDS = 120.0
"""How long to wait for a worker that is about to end, or for a file server to give up a machine that is gone."""

OTHER_QUESTION = (
    "The run was interrupted, and now asks a different question from the one that its next kept answer belongs to. "
    "It cannot continue, because a question that was answered is never asked again."
)
UNREADABLE = "The kept answers of this run were altered or damaged, so it cannot continue. Start a new run."
GONE = "The kept answers of this run are missing, so it cannot continue. Start a new run."
COPIED = (
    "The kept answers of this run are a copy, and so may be this whole installation. It does not continue, because "
    "the original may have asked the remaining questions. Start a new run."
)
ANOTHER_WORKER = "Another process is still working on this run. Wait until it has ended."


class KeptQuestion(Protocol):
    """A question as it was planned, before a row is read."""

    def to_dict(self) -> dict[str, Any]:
        """Return JSON types that are equal if, and only if, the questions are."""
        ...


class AnswerFile:
    """The kept answers of one run, used by one process at a time.

    Opening it takes a lock for as long as the process keeps the file open; then :meth:`begin` starts a new list, or
    :meth:`go_on` reads what an earlier worker left.

    Parameters
    ----------
    path : Path
    key : bytes of length 32
        For this run only.
    run_id : str

    Raises
    ------
    JobError
        If another process has it, or it cannot be created.
    """

    def __init__(self, path: Path, *, key: bytes, run_id: str) -> None:
        self._path, self._key, self._run = path, key, UUID(run_id).bytes
        self._places: list[int] = []
        self._next, self._end = 0, 0
        self._stopped = False
        self._file = _locked(path)

    @property
    def remaining(self) -> int:
        """Number of kept answers that were not repeated yet."""
        return len(self._places) - self._next

    def begin(self, facts: Mapping[str, str]) -> None:
        """Start an empty list, only for a run whose charge is not spent, so no row was ever read.

        Parameters
        ----------
        facts : mapping
            What a continuing worker needs to know, for example the configuration.
        """
        with self._writing():
            os.ftruncate(self._file, 0)
            self._append(0, json.dumps({**facts, ITSELF: self._itself()}, sort_keys=True).encode(), ())
            sync_directory(self._path.parent)

    def go_on(self) -> dict[str, str]:
        """Find the kept answers and return the facts they began with; an unfinished last record is dropped.

        Raises
        ------
        JobError
            If there is no list, it was altered, or it is not in the original file: a run in a backup of the disk or a
            copied installation cannot continue.
        """
        if not self._exists(0, 0):
            raise JobError(GONE)
        facts = {str(name): str(value) for name, value in self._body(0, 0)[0].items()}
        if facts.pop(ITSELF, None) != self._itself():
            raise JobError(COPIED)
        place = self._after(0, 0)
        while self._exists(len(self._places) + 1, place):
            self._places.append(place)
            place = self._after(len(self._places), place)
        # The answer in an unfinished record was never returned.
        os.ftruncate(self._file, place)
        self._end = place
        return facts

    def repeated(self, asked: KeptQuestion) -> _Numbers | None:
        """Return the next kept answer if it belongs to this question, as ``questions.KeptAnswers`` says."""
        self._require_working()
        if not self.remaining:
            return None
        # Until the answer proves right: a question refused here must not be asked about the rows instead.
        self._stopped = True
        body, numbers = self._body(self._next + 1, self._places[self._next])
        if {name: body[name] for name in ("receipts", "digest")} != asked.to_dict():
            raise JobError(OTHER_QUESTION)
        self._next, self._stopped = self._next + 1, False
        return numbers

    def keep(self, asked: KeptQuestion, answer: _Numbers) -> None:
        """Append an answer and wait until it is on disk, as ``questions.KeptAnswers`` says."""
        self._require_working()
        if self.remaining:
            raise JobError(OTHER_QUESTION)
        body = asked.to_dict() | {"shapes": [list(numbers.shape) for numbers in answer]}
        with self._writing():
            place = self._end
            self._append(len(self._places) + 1, json.dumps(body, allow_nan=False).encode(), answer)
            self._places.append(place)
            self._next += 1

    def require_all_repeated(self) -> None:
        """Refuse to end a run that asked less than it had asked before.

        Raises
        ------
        JobError
            If kept answers are left.
        """
        if self.remaining:
            raise JobError(OTHER_QUESTION)

    def forget(self) -> None:
        """Delete the answers: the run has ended."""
        self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file; another process may continue the run."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _itself(self) -> str:
        """Return the inode number of the file, which a copy does not have."""
        return str(os.fstat(self._file).st_ino)

    # Records --------------------------------------------------------------------------------------------------------

    def _append(self, number: int, body: bytes, answer: _Numbers) -> None:
        """Write a record: the lengths of its parts, its JSON, then its arrays, each piece sealed with its position."""
        arrays = [np.ascontiguousarray(numbers, dtype="<i8").reshape(-1).view(np.uint8) for numbers in answer]
        parts = [memoryview(body), *(array.data for array in arrays)]
        lengths = b"".join(len(part).to_bytes(8, "big") for part in parts).ljust(LENGTHS_BYTES, b"\0")
        os.lseek(self._file, self._end, os.SEEK_SET)
        pieces = [memoryview(lengths), *(part[start:stop] for part in parts for start, stop in _cuts(len(part)))]
        for place, piece in enumerate(pieces):
            sealed = memoryview(seal(self._key, piece, context=self._context(number, place)))
            while sealed:
                sealed = sealed[os.write(self._file, sealed) :]
        os.fsync(self._file)
        self._end = os.lseek(self._file, 0, os.SEEK_CUR)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Allow no more questions after a failed write: the end of the file is unknown."""
        self._stopped = True
        try:
            with naming_full_disk(self._path.parent):
                yield
        except OSError as error:
            raise JobError(
                f"The answers of this run cannot be written to disk ({error.strerror}). Check HERMITAGE_HOME."
            ) from None
        self._stopped = False

    def _exists(self, number: int, place: int) -> bool:
        """Whether a complete record begins here; an incomplete one is left by an unfinished write."""
        size = os.fstat(self._file).st_size
        return size >= place + HEAD_BYTES and size >= self._after(number, place)

    def _after(self, number: int, place: int) -> int:
        cuts = [cut for length in self._lengths(number, place) for cut in _cuts(length)]
        return place + HEAD_BYTES + sum(stop - start + SEAL_BYTES for start, stop in cuts)

    def _lengths(self, number: int, place: int) -> list[int]:
        lengths = self._opened(number, 0, place, LENGTHS_BYTES)
        return [int.from_bytes(lengths[start : start + 8], "big") for start in range(0, LENGTHS_BYTES, 8)]

    def _body(self, number: int, place: int) -> tuple[dict[str, Any], _Numbers]:
        parts = []
        piece, place, lengths = 1, place + HEAD_BYTES, self._lengths(number, place)
        for length in lengths:
            part = np.empty(length, dtype=np.uint8)
            for start, stop in _cuts(length):
                part[start:stop] = np.frombuffer(self._opened(number, piece, place, stop - start), dtype=np.uint8)
                piece, place = piece + 1, place + stop - start + SEAL_BYTES
            parts.append(part)
        body: dict[str, Any] = json.loads(parts[0].tobytes())
        shapes = body.get("shapes", [])
        arrays = [part.view("<i8").astype(np.int64, copy=False) for part in parts[1 : len(shapes) + 1]]
        return body, tuple(array.reshape(shape) for array, shape in zip(arrays, shapes, strict=True))

    def _opened(self, number: int, piece: int, place: int, length: int) -> bytes:
        sealed = os.pread(self._file, length + SEAL_BYTES, place)
        try:
            return unseal(self._key, sealed, context=self._context(number, piece))
        except TableError:
            raise JobError(UNREADABLE) from None

    def _context(self, number: int, piece: int) -> bytes:
        return b"hermitage kept answer 1" + self._run + number.to_bytes(8, "big") + piece.to_bytes(8, "big")

    def _require_working(self) -> None:
        if self._stopped:
            raise JobError("The answers of this run can no longer be stored, so nothing more is asked.")


def _locked(path: Path) -> int:
    """Open a private file, and lock it against other processes.

    The kernel releases the lock when the process ends, and not before.
    """
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise JobError(
            f"The answers of this run cannot be stored on disk ({error.strerror}). Check HERMITAGE_HOME."
        ) from None
    end = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The previous owner may have ended the run and deleted the file meanwhile.
            if os.fstat(file).st_nlink:
                return file
        except BlockingIOError:
            if time.monotonic() < end:
                time.sleep(0.05)
                continue
        except OSError as error:
            os.close(file)
            raise JobError(
                f"The disk of HERMITAGE_HOME cannot lock files ({error.strerror}), so two processes could work on one "
                "run. Put HERMITAGE_HOME on a disk that can."
            ) from None
        os.close(file)
        raise JobError(ANOTHER_WORKER)


def _cuts(length: int) -> list[tuple[int, int]]:
    return [(start, min(start + PIECE_BYTES, length)) for start in range(0, length, PIECE_BYTES)]


# Paths -------------------------------------------------------------------------------------------------------


def answers_path(home: Path, run_id: str) -> Path:
    """Return the path of the kept answers of a run, in its folder."""
    return home / "runs" / str(UUID(run_id)) / ANSWERS_FILE


def forget_answers(home: Path, run_id: str) -> None:
    """Delete the kept answers of a run that has ended; safe to repeat."""
    with suppress(ValueError):  # not the id of a run
        answers_path(home, run_id).unlink(missing_ok=True)


def sweep_answers(home: Path, unfinished: Collection[str]) -> int:
    """Delete the kept answers of all runs but the unfinished ones; return how many there were."""
    ended = [path for path in home.glob(f"runs/*/{ANSWERS_FILE}") if path.parent.name not in unfinished]
    for path in ended:
        path.unlink(missing_ok=True)
    return len(ended)
