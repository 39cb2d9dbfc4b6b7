"""Recognising a table that was taken in before, without keeping anything that confirms a guess of it."""

from __future__ import annotations

import hashlib
import hmac

from synth.vault.keys import Keys

__all__ = ["Fingerprint"]

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Fingerprint:
    """A keyed hash of a table's bytes, blind to line endings, a byte-order mark and blank lines at the end.

    Keyed, because a bare hash would let anybody who has seen the hash confirm a guess of the table.

    Parameters
    ----------
    keys : Keys
        The same table has another fingerprint in another installation.
    """

    def __init__(self, keys: Keys) -> None:
        self._hash = hmac.new(keys.hmac(b"", purpose="table fingerprint"), digestmod=hashlib.sha256)
        self._held_back = b""
        self.seen = 0
        """Bytes shown so far."""

    def update(self, chunk: bytes) -> None:
        """Go on with the next bytes; how they are cut into chunks does not matter beyond the first three bytes."""
        start = chunk if self.seen else chunk.removeprefix(BYTE_ORDER_MARK)
        self.seen += len(chunk)
        content = self._held_back + start.replace(b"\r", b"")
        body = content.rstrip(b"\n")
        self._held_back = content[len(body) :]
        self._hash.update(body)

    def hexdigest(self) -> str:
        """Return the fingerprint as 64 hexadecimal digits."""
        return self._hash.hexdigest()
