"""Authenticated encryption of tables and of small secrets (AES-256-GCM), with no plaintext on disk at any moment.

A table is cut into chunks of 1 MiB. Each is encrypted under the table's own key with its number as nonce; the table's
id, the number and whether it is the last chunk are authenticated with it. So a chunk that was altered, moved, repeated,
left out, or taken from another table does not open, and neither does a file that was cut short.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from synth.errors import TableError

__all__ = ["CHUNK_BYTES", "SEAL_BYTES", "DecryptedStream", "encrypt_stream", "seal", "unseal"]

CHUNK_BYTES = 2**20
"""Plaintext bytes of every chunk but the last."""

TAG_BYTES = 16
NONCE_BYTES = 12
SEAL_BYTES = NONCE_BYTES + TAG_BYTES
"""Bytes that :func:`seal` adds to its payload."""

READ_BYTES = 2**16

ALTERED = "The encrypted table was altered or damaged on disk and was not opened. Upload it again."


def seal(key: bytes, payload: bytes | memoryview, *, context: bytes) -> bytes:
    """Encrypt a small secret; it opens only with the same key and context.

    Parameters
    ----------
    key : bytes of length 32
    payload : bytes
    context : bytes
        What the secret is and whose; authenticated, not kept.
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


def encrypt_stream(
    source: BinaryIO, target: BinaryIO, *, key: bytes, table_id: str, observe: Callable[[bytes], None]
) -> int:
    """Encrypt everything ``source`` gives into ``target``, holding two chunks in memory.

    Parameters
    ----------
    source, target : binary streams
    key : bytes of length 32
        Used for this table alone, since the nonces are chunk numbers.
    table_id : str
    observe : callable
        Is shown each plaintext chunk, to hash and to count it; may raise to stop.

    Returns
    -------
    int
        Plaintext bytes.
    """
    cipher = AESGCM(key)
    size, index, chunk, is_last = 0, 0, _read_chunk(source), False
    while not is_last:
        following = _read_chunk(source) if len(chunk) == CHUNK_BYTES else b""
        is_last = not following
        observe(chunk)
        target.write(cipher.encrypt(_nonce(index), chunk, _chunk_context(table_id, index, is_last=is_last)))
        size += len(chunk)
        index, chunk = index + 1, following
    return size


class DecryptedStream(io.RawIOBase):
    """The plaintext of an encrypted table, readable and seekable; it exists in memory only, one chunk at a time.

    Parameters
    ----------
    path : Path
        Of the encrypted chunks.
    key : bytes of length 32
    table_id : str
    size : int
        Plaintext bytes, from the authenticated header.

    Raises
    ------
    TableError
        On opening, if the file is longer or shorter than it must be; on reading, if a chunk does not open.
    """

    def __init__(self, path: Path, *, key: bytes, table_id: str, size: int) -> None:
        super().__init__()
        self._cipher = AESGCM(key)
        self._table_id = table_id
        self._size = size
        self._last = max(0, (size - 1) // CHUNK_BYTES)
        self._position = 0
        self._index = -1
        self._chunk = b""
        try:
            self._file = path.open("rb", buffering=0)
        except OSError:
            raise TableError("The encrypted table is missing from disk. Upload it again.") from None
        if os.fstat(self._file.fileno()).st_size != size + TAG_BYTES * (self._last + 1):
            self.close()
            raise TableError(ALTERED)
        self._load(self._last)  # the last chunk is the one that proves where the table ends

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
