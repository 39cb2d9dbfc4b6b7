"""Authenticated encryption of tables and of small secrets (AES-256-GCM), with no plaintext on disk at any moment.

A table is divided into chunks of 1 MiB. Each is encrypted under the table's own key with its number as nonce, and the
table's id, the number and whether it is the last chunk are authenticated. So a chunk that was altered, moved, repeated,
left out, or taken from another table does not open, and neither does a file that was cut short.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, cast
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from synth.errors import TableError
from synth.system.disk import replace_durably
from synth.vault.keys import KEY_BYTES

__all__ = [
    "CHUNK_BYTES",
    "SEAL_BYTES",
    "TAG_BYTES",
    "DecryptedStream",
    "EncryptingWriter",
    "SealedFiles",
    "encrypt_stream",
    "new_key",
    "seal",
    "unseal",
]

CHUNK_BYTES = 2**20
"""Plaintext bytes of every chunk but the last."""

TAG_BYTES = 16
"""Bytes that encryption adds to every chunk."""

NONCE_BYTES = 12
SEAL_BYTES = NONCE_BYTES + TAG_BYTES
"""Bytes that :func:`seal` adds to its payload."""

READ_BYTES = 2**16

ALTERED = "The encrypted table was altered or damaged on disk, so it was not opened. Upload it again."


def new_key() -> bytes:
    """Return a new random key (32 bytes) from the operating system."""
    return os.urandom(KEY_BYTES)


def seal(key: bytes, payload: bytes | memoryview, *, context: bytes) -> bytes:
    """Encrypt a small secret; it opens only with the same key and context.

    Parameters
    ----------
    key : bytes of length 32
    payload : bytes
    context : bytes
        What the secret is and whose; authenticated, not stored.
    """
    nonce = os.urandom(NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, payload, context)


def unseal(key: bytes, sealed: bytes, *, context: bytes) -> bytes:
    """Return the payload of :func:`seal`.

    Raises
    ------
    TableError
        If it was altered, or belongs to another key or context.
    """
    try:
        return AESGCM(key).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], context)
    except (InvalidTag, ValueError):
        raise TableError(ALTERED) from None


class SealedFiles:
    """Small files of one kind, each sealed by the master key for its table or account.

    Parameters
    ----------
    directory : Path
    master : bytes of length 32
    kind : str
        Ending of the file names.
    """

    def __init__(self, directory: Path, master: bytes, kind: str) -> None:
        self._directory, self._master, self._kind = directory, master, kind

    def path(self, identity: str) -> Path:
        """Return the path of one file; only a UUID can be its name."""
        return self._directory / f"{UUID(identity)}.{self._kind}"

    def identities(self) -> tuple[str, ...]:
        """Return the ids of the existing files."""
        return tuple(sorted(path.stem for path in self._directory.glob(f"*.{self._kind}")))

    def read(self, identity: str) -> dict[str, Any]:
        """Return the content of one file.

        Raises
        ------
        OSError
            If there is no such file.
        TableError
            If it was altered, or belongs to another id.
        """
        facts: dict[str, Any] = json.loads(
            unseal(self._master, self.path(identity).read_bytes(), context=self._context(identity))
        )
        return facts

    def write(self, identity: str, facts: Mapping[str, Any]) -> None:
        """Write one file atomically."""
        payload = json.dumps(facts).encode()
        replace_durably(self.path(identity), seal(self._master, payload, context=self._context(identity)))

    def _context(self, identity: str) -> bytes:
        return f"hermitage {self._kind} 1 ".encode() + UUID(identity).bytes


class EncryptingWriter:
    """Encrypts what it is given, in pieces of any size, with less than two chunks of it in memory.

    Parameters
    ----------
    target : binary stream
        Gets ciphertext only.
    key : bytes of length 32
        Used for this table only, since the nonces are chunk numbers.
    table_id : str
    """

    def __init__(self, target: BinaryIO, *, key: bytes, table_id: str) -> None:
        self._target, self._table_id = target, table_id
        self._cipher = AESGCM(key)
        self._held = bytearray()
        self._index = 0
        self._size = 0

    def write(self, data: bytes) -> None:
        """Encrypt each chunk that ``data`` completes, except the last."""
        self._held += data
        # A full chunk is kept until more follows: it may be the last.
        while len(self._held) > CHUNK_BYTES:
            self._put(bytes(self._held[:CHUNK_BYTES]), is_last=False)
            del self._held[:CHUNK_BYTES]

    def finish(self) -> int:
        """Encrypt the last chunk and return how many plaintext bytes there were."""
        self._put(bytes(self._held), is_last=True)
        self._held.clear()
        return self._size

    def _put(self, chunk: bytes, *, is_last: bool) -> None:
        context = _chunk_context(self._table_id, self._index, is_last=is_last)
        self._target.write(self._cipher.encrypt(_nonce(self._index), chunk, context))
        self._index += 1
        self._size += len(chunk)


def encrypt_stream(
    source: BinaryIO, target: BinaryIO, *, key: bytes, table_id: str, observe: Callable[[bytes], None]
) -> int:
    """Encrypt all of ``source`` into ``target``, with a few chunks in memory.

    Parameters
    ----------
    source, target : binary streams
    key : bytes of length 32
        Used for this table only, since the nonces are chunk numbers.
    table_id : str
    observe : callable
        Gets each plaintext chunk, to hash and count it; may raise to stop.

    Returns
    -------
    int
        Plaintext bytes.
    """
    writer = EncryptingWriter(target, key=key, table_id=table_id)
    while chunk := _read_chunk(source):
        observe(chunk)
        writer.write(chunk)
    return writer.finish()


class DecryptedStream(io.RawIOBase):
    """The plaintext of an encrypted table, readable and seekable, in memory only and one chunk at a time.

    Parameters
    ----------
    source : Path or binary file
        The encrypted chunks; an open file is closed with the stream.
    key : bytes of length 32
    table_id : str
    size : int
        Plaintext bytes, from the authenticated header.

    Raises
    ------
    TableError
        On opening, if the file has the wrong length; on reading, if a chunk does not open.
    """

    def __init__(self, source: Path | BinaryIO, *, key: bytes, table_id: str, size: int) -> None:
        super().__init__()
        self._cipher = AESGCM(key)
        self._table_id = table_id
        self._size = size
        self._last = max(0, (size - 1) // CHUNK_BYTES)
        self._position = 0
        self._index = -1
        self._chunk = b""
        try:
            self._file = cast(BinaryIO, source.open("rb", buffering=0)) if isinstance(source, Path) else source
        except OSError:
            raise TableError("The encrypted table is missing from disk. Upload it again.") from None
        if os.fstat(self._file.fileno()).st_size != size + TAG_BYTES * (self._last + 1):
            self.close()
            raise TableError(ALTERED)
        self._load(self._last)  # the last chunk proves where the table ends

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position in plaintext bytes."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a position in plaintext bytes."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Fill ``buffer`` from the current chunk; return how many bytes were written, 0 at the end."""
        if self._position >= self._size:
            return 0
        index, start = divmod(self._position, CHUNK_BYTES)
        self._load(index)
        piece = self._chunk[start : start + len(buffer)]
        buffer[: len(piece)] = piece
        self._position += len(piece)
        return len(piece)

    def close(self) -> None:
        """Close the file and forget the chunk in memory."""
        self._chunk = b""
        if hasattr(self, "_file"):
            self._file.close()
        super().close()

    def _load(self, index: int) -> None:
        if index == self._index:
            return
        length = min(CHUNK_BYTES, self._size - index * CHUNK_BYTES) + TAG_BYTES
        sealed = os.pread(self._file.fileno(), length, index * (CHUNK_BYTES + TAG_BYTES))
        try:
            self._chunk = self._cipher.decrypt(
                _nonce(index), sealed, _chunk_context(self._table_id, index, is_last=index == self._last)
            )
        except (InvalidTag, ValueError):
            raise TableError(ALTERED) from None
        self._index = index


def _read_chunk(source: BinaryIO) -> bytes:
    pieces, missing = [], CHUNK_BYTES
    while missing:
        piece = source.read(min(READ_BYTES, missing))
        if not piece:
            break
        pieces.append(piece)
        missing -= len(piece)
    return b"".join(pieces)


def _nonce(index: int) -> bytes:
    return index.to_bytes(NONCE_BYTES, "big")


def _chunk_context(table_id: str, index: int, *, is_last: bool) -> bytes:
    return b"hermitage chunk 1" + UUID(table_id).bytes + index.to_bytes(8, "big") + bytes([is_last])
