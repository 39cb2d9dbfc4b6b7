"""The three secrets of one installation, kept next to the database and never in it.

``keys/`` in the home directory has mode 0700 and contains, each with mode 0600:

- ``master.key``: AES-256, seals the headers of encrypted tables (each has its own data key); the key of the ledger's
  chain and the keys for kept answers are derived from it;
- ``fingerprint.key``: HMAC-SHA-256, fingerprints of tables and of unit ids;
- ``signing.key``: Ed25519, signs certificates; ``public-key.pem`` is its public half.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from synth.errors import ConfigError
from synth.system.disk import disk_full, is_full, private_file

__all__ = ["Keys", "ThrowawayKey", "load_keys"]

logger = logging.getLogger(__name__)

KEY_BYTES = 32
SECRET_FILES = ("master.key", "fingerprint.key", "signing.key")
PUBLIC_FILE = "public-key.pem"


@dataclass(frozen=True, slots=True, repr=False)
class Keys:
    """The secrets in memory; they have no printable form.

    ``master``, ``fingerprint_key`` and ``signing_seed`` are 32 bytes each.
    """

    master: bytes
    fingerprint_key: bytes
    signing_seed: bytes

    def __repr__(self) -> str:
        return "Keys(secret)"

    def __reduce__(self) -> str:
        raise TypeError("Keys stay in the process that read them.")

    def hmac(self, message: bytes, *, purpose: str) -> bytes:
        """Return a keyed hash (32 bytes) of a message; different purposes give unrelated hashes."""
        purpose_key = hmac.digest(self.fingerprint_key, purpose.encode(), hashlib.sha256)
        return hmac.digest(purpose_key, message, hashlib.sha256)

    @property
    def ledger_key(self) -> bytes:
        """The key (32 bytes) of the ledger's chain, derived from the master key for this purpose only."""
        return hmac.digest(self.master, b"hermitage ledger 1", hashlib.sha256)

    def answers_key(self, run_id: str) -> bytes:
        """Return the key (32 bytes) for the kept answers of one run, derived for that run only."""
        return hmac.digest(self.master, b"hermitage kept answers 1" + UUID(run_id).bytes, hashlib.sha256)

    def sign(self, message: bytes) -> bytes:
        """Return the Ed25519 signature (64 bytes) of a message."""
        return Ed25519PrivateKey.from_private_bytes(self.signing_seed).sign(message)

    @property
    def public_key_pem(self) -> bytes:
        """The public half of the signing key, as PEM."""
        public = Ed25519PrivateKey.from_private_bytes(self.signing_seed).public_key()
        return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


class ThrowawayKey:
    """A key for what must never pass as a bundle: its signature does not match its public half."""

    def __init__(self) -> None:
        self._signing, self._shown = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()

    def sign(self, message: bytes) -> bytes:
        """Return an Ed25519 signature (64 bytes) that does not match :attr:`public_key_pem`."""
        return self._signing.sign(message)

    @property
    def public_key_pem(self) -> bytes:
        """A public key, as PEM."""
        return self._shown.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def load_keys(home: Path) -> Keys:
    """Read the keys of an installation; create them at its first start.

    Parameters
    ----------
    home : Path
        The installation's directory (``HERMITAGE_HOME``).

    Raises
    ------
    ConfigError
        If a key is missing, unreadable or of the wrong length, or all are missing and the vault is not empty.
    """
    directory = home / "keys"
    if not directory.exists():
        if any((home / "vault").glob("*.*")):
            raise ConfigError(
                f"The keys are missing from {directory}, and only they can open the tables and the ledger of this "
                "installation. Restore them from a backup, or set HERMITAGE_HOME to a new folder to start again."
            )
        _make(home, directory)
    return Keys(*(_read(directory / name) for name in SECRET_FILES))


def _make(home: Path, directory: Path) -> None:
    # All files appear at once, with one rename: a process that starts at the same time sees all of them or none.
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = home / f"keys.{os.urandom(8).hex()}"
    try:
        draft.mkdir(mode=0o700)
        made = (os.urandom(KEY_BYTES), os.urandom(KEY_BYTES), _new_signing_seed())
        contents = (*made, Keys(*made).public_key_pem)
        for name, content in zip((*SECRET_FILES, PUBLIC_FILE), contents, strict=True):
            with private_file(draft / name) as file:
                file.write(content)
        draft.rename(directory)
    except OSError as error:
        if is_full(error):
            raise disk_full(home) from None
        if not directory.exists():
            raise ConfigError(
                f"The keys cannot be written to {directory} ({error.strerror}). Check that HERMITAGE_HOME is writable."
            ) from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _new_signing_seed() -> bytes:
    return Ed25519PrivateKey.generate().private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())


def _read(path: Path) -> bytes:
    try:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            path.chmod(0o600)
            logger.warning("Others could read the key file %s; its mode is now 0600.", path.name)
        content = path.read_bytes()
    except FileNotFoundError:
        raise ConfigError(f"The key {path.name} is missing from {path.parent}. Restore it from a backup.") from None
    except OSError as error:
        raise ConfigError(
            f"The key {path.name} in {path.parent} cannot be read ({error.strerror}). Give this user access to it."
        ) from None
    if len(content) != KEY_BYTES:
        raise ConfigError(f"The key {path.name} in {path.parent} is damaged. Restore it from a backup.")
    return content
