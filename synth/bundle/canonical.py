"""One way to write JSON, so that the same certificate is the same bytes wherever it is written."""

from __future__ import annotations

import hashlib
import json
from typing import Any, BinaryIO

from synth.errors import VerificationError

__all__ = ["canonical_json", "parse_canonical", "sha256_of"]

_BLOCK = 1 << 20


def canonical_json(document: Any) -> bytes:
    """Write JSON with sorted keys, two spaces, plain ASCII, shortest exact numbers and one line feed at the end.

    Raises
    ------
    ValueError
        If a number is not finite: JSON has no word for it.
    """
    text = json.dumps(document, sort_keys=True, indent=2, ensure_ascii=True, allow_nan=False)
    return (text + "\n").encode("ascii")


def parse_canonical(data: bytes, *, name: str) -> Any:
    """Read JSON and insist that it is written as :func:`canonical_json` writes it.

    That excludes keys given twice and numbers two readers could take differently.

    Raises
    ------
    VerificationError
        If it is not JSON, or not in the canonical form; ``name`` is the file named in the message.
    """
    try:
        document = json.loads(data.decode("ascii"))
        again = canonical_json(document)
    except (ValueError, RecursionError):
        raise VerificationError(f"{name} is not valid JSON.") from None
    if again != data:
        raise VerificationError(f"{name} is not in the canonical form in which it was signed; it has been edited.")
    return document


def sha256_of(stream: BinaryIO) -> str:
    """Return the SHA-256 of what is left of a stream, as 64 hexadecimal digits."""
    digest = hashlib.sha256()
    while block := stream.read(_BLOCK):
        digest.update(block)
    return digest.hexdigest()
