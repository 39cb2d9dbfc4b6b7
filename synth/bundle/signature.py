"""Ed25519 signatures of certificates, as a stranger checks them."""

from __future__ import annotations

import hashlib

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from synth.errors import VerificationError

__all__ = ["fingerprint_of", "signature_problem"]


def fingerprint_of(public_pem: bytes) -> str:
    """Return SHA-256 of the 32 bytes of an Ed25519 public key, as groups of four hexadecimal digits.

    Raises
    ------
    VerificationError
        If it is not an Ed25519 public key in PEM form.
    """
    digits = hashlib.sha256(_raw(public_pem)).hexdigest()
    return " ".join(digits[start : start + 4] for start in range(0, len(digits), 4))


def signature_problem(message: bytes, signature: bytes, inside: bytes, expected: bytes | None) -> str | None:
    """Say what is wrong with a signature, or None.

    Parameters
    ----------
    message, signature : bytes
        The certificate as it was signed, and the 64 bytes of its signature.
    inside : bytes
        PEM of the key in the bundle.
    expected : bytes, optional
        PEM of the key the reader trusts.
    """
    if inside != _key(inside).public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo):
        return "public-key.pem holds more than a public key."
    if expected is not None and _raw(expected) != _raw(inside):
        return "The bundle was signed with another key than the one you gave: it may have been altered and signed anew."
    try:
        Ed25519PublicKey.from_public_bytes(_raw(inside)).verify(signature, message)
    except InvalidSignature:
        return "The signature does not belong to this certificate: certificate.json was altered after it was signed."
    return None


def _raw(public_pem: bytes) -> bytes:
    return _key(public_pem).public_bytes(Encoding.Raw, PublicFormat.Raw)


def _key(public_pem: bytes) -> Ed25519PublicKey:
    try:
        key = load_pem_public_key(public_pem)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise VerificationError("A public key cannot be read; it must be an Ed25519 key in PEM form.") from None
    if not isinstance(key, Ed25519PublicKey):
        raise VerificationError("A public key is not an Ed25519 key.")
    return key
