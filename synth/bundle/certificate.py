"""The certificate: what is promised and who is protected, the receipts that prove it, and the signature."""

from __future__ import annotations

import functools
import hashlib
import math
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from pathlib import Path
from types import UnionType
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from synth.bundle.archive import (
    FORMAT,
    Archive,
    canonical_json,
    parse_canonical,
    require_format,
    sha256_of,
    signed_by_hash,
)
from synth.errors import ConfigError, PrivacyError, SynthError, VerificationError
from synth.privacy.accounting import epsilon_of_receipts, worth_for_a_row
from synth.privacy.more.together import budgets_of
from synth.privacy.receipt import Receipt
from synth.reports.wording import rounded_up
from synth.schema import (
    DECLARED,
    READ_FROM_ROWS,
    Neighbours,
    OptionValue,
    PreviewSpent,
    PrivacyUnit,
    RunConfig,
    is_found,
    parse_config,
    unit_from_mapping,
    unit_to_mapping,
)
from synth.schema.documents import read_mapping
from synth.system.machine import processor_kind
from synth.version import __version__

__all__ = [
    "CERTIFICATE_KEYS",
    "CERTIFICATE_KEYS_OF_MODEL",
    "DECLARED",
    "FOUND",
    "PROCESSOR",
    "READ_FROM_ROWS",
    "SOURCE",
    "STATED",
    "Certificate",
    "FoundReceipts",
    "certificate_from_bytes",
    "certificate_from_dict",
    "certificate_of",
    "certificate_to_bytes",
    "certify",
    "config_of",
    "current_versions",
    "fingerprint_of",
    "hash_problems",
    "is_public_key",
    "option_of",
    "promise",
    "signature_problem",
]

_LARGEST_EXPONENT = 700.0
"""Beyond which e^epsilon is too large for a float."""

FOUND = "found"
"""Key of a certificate whose configuration uses a finding: its digest, the budget asked for, its receipts."""

PEOPLE = "people"
"""Key of a certificate of people who are kept whole: a receipt is then about one row for each of them."""

PREVIEWS = "previews"
"""Key of a certificate of people of whom previews were paid for before: the budget of each."""

ROW_EPSILON = "row_epsilon"
"""Key of a certificate that protects one cell: epsilon of the same noise for a whole row."""

CERTIFICATE_KEYS = frozenset(
    {
        "version", "epsilon", "delta", "neighbours", "unit", "account", "generator", "options", "rows", "seed",
        "receipts", "assumptions", "domain_source", "files", "versions", "ledger", "device",
    }
)  # fmt: skip
CERTIFICATE_KEYS_OF_MODEL = CERTIFICATE_KEYS - {"generator", "rows"} | {"model"}
"""The same where the fitted model itself is released, and no rows."""

_PACKAGES = ("autodp", "numpy", "pandas", "pyarrow", "safetensors", "scipy", "torch")

SOURCE = "source"
"""Key of the hash of this program's source files: a version number alone does not fix the words that it prints."""

PROCESSOR = "processor"
"""Key of the kind of processor, on which the last digits of sums depend."""

STATED = frozenset({"python", "hermitage", *_PACKAGES, SOURCE, PROCESSOR})
"""Names whose versions a certificate may state."""


@dataclass(frozen=True, slots=True)
class FoundReceipts:
    """The part of a certificate's promise that was spent on finding what was not declared.

    ``digest`` is the SHA-256 of ``found.json``; ``epsilon`` and ``delta`` are what was asked for. The ledger was
    charged once, however many certificates contain it.
    """

    digest: str
    epsilon: float
    delta: float
    receipts: tuple[Receipt, ...]

    def to_dict(self) -> dict[str, Any]:
        """Write it as JSON values."""
        return {
            "digest": self.digest,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "receipts": [receipt.to_dict() for receipt in self.receipts],
        }

    @classmethod
    def from_dict(cls, document: Any) -> FoundReceipts:
        """Read it back; raise ``ValueError``, ``TypeError`` or ``KeyError`` if it is malformed."""
        if set(document) != {"digest", "epsilon", "delta", "receipts"}:
            raise ValueError
        return cls(
            digest=_text(document["digest"]),
            epsilon=_number(document["epsilon"]),
            delta=_number(document["delta"]),
            receipts=tuple(Receipt.from_dict(receipt) for receipt in document["receipts"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A statement about one synthetic table, or one private model, that anyone can recompute.

    Attributes
    ----------
    epsilon, delta : float
        What the receipts below compose to; ``epsilon`` is computed, not requested.
    neighbours, unit
        Which change of the table is hidden: the neighbouring relation, and the privacy unit.
    account : str
        The people whose ledger was charged.
    generator, options, rows, seed
        What was trained and sampled. ``rows`` is 0 where ``generator`` names a model that is itself released. The seed
        is public and has nothing to do with the privacy noise.
    receipts : tuple of Receipt
        Every private question of the run, in order.
    found : FoundReceipts, optional
        What was found privately before the run, with its receipts, which ``epsilon`` includes.
    people : {"whole", "separate_rows"}
        Whether the rows of one unit are kept together: then each has one row in the table that receipts are about.
    previews : tuple of PreviewSpent
        What previews were charged before the run, which ``epsilon`` includes: the run may have been chosen by them.
    assumptions : tuple of str
        What must be true for the promise to hold, in sentences.
    domain_source : mapping
        For every column, where its bounds or categories come from.
    files : mapping
        SHA-256 of every other file of the bundle.
    versions : mapping
        Versions of the packages that compute the numbers above.
    ledger : mapping
        The account's number of charges and the head of its hash chain after this run's charge.
    device : str
        What fitted the model, and drew the rows if the card does that: "cpu" or the name of a graphics card. It is
        stated, not promised.
    row_epsilon : float, optional
        Only where one cell is protected: epsilon at ``delta`` for replacing a whole row with one that has the same
        label, also computed from the receipts.
    """

    epsilon: float
    delta: float
    neighbours: Neighbours
    unit: PrivacyUnit
    account: str
    generator: str
    options: Mapping[str, OptionValue]
    rows: int
    seed: int
    receipts: tuple[Receipt, ...]
    assumptions: tuple[str, ...] = ()
    domain_source: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    ledger: Mapping[str, str | int] = field(default_factory=dict)
    row_epsilon: float | None = None
    found: FoundReceipts | None = None
    people: str = "separate_rows"
    previews: tuple[PreviewSpent, ...] = ()
    device: str = "cpu"

    def __post_init__(self) -> None:
        if not self.receipts or (self.found is not None and not self.found.receipts):
            raise PrivacyError("A certificate needs at least one receipt: nothing was measured privately.")
        for receipt in self.all_receipts:
            if not receipt.private:
                raise PrivacyError(
                    f"The receipt of '{receipt.query}' was made with test noise, which protects nobody, so it cannot "
                    "be certified. Run again with the randomness of the operating system."
                )
        is_delta = 0 <= self.delta < 1 and math.copysign(1.0, self.delta) > 0  # -0 would be printed
        if not (math.isfinite(self.epsilon) and self.epsilon > 0 and is_delta):
            raise PrivacyError("A certificate needs a positive, finite epsilon and a delta of at least 0, below 1.")
        if (self.row_epsilon is None) != (self.neighbours is not Neighbours.CELL):
            raise PrivacyError("A certificate states a row epsilon if, and only if, it protects single cells.")
        if self.row_epsilon is not None and not (math.isfinite(self.row_epsilon) and self.row_epsilon > 0):
            raise PrivacyError("The row epsilon of a certificate must be positive and finite.")

    @property
    def rows_asked(self) -> int:
        """The most rows of one unit in the table that receipts of the run are about."""
        return 1 if self.people == "whole" else self.unit.rows_per_unit

    @property
    def is_model(self) -> bool:
        """Whether a model is released instead of a table."""
        return self.rows == 0

    @property
    def predicts(self) -> bool:
        """Whether predictions of held-out rows were charged."""
        return any(receipt.part == "holdout" for receipt in self.receipts)

    @property
    def all_receipts(self) -> tuple[Receipt, ...]:
        """The receipts of all questions asked about the rows, those of a finding first."""
        return (*(() if self.found is None else self.found.receipts), *self.receipts)

    @property
    def read_columns(self) -> tuple[str, ...]:
        """Columns whose domain was read from the private rows; the promise does not cover it."""
        return tuple(sorted(name for name, source in self.domain_source.items() if source == READ_FROM_ROWS))


def certify(
    receipts: Sequence[Receipt],
    *,
    delta: float,
    neighbours: Neighbours,
    assumptions: Sequence[str] = (),
    found: FoundReceipts | None = None,
    previews: tuple[PreviewSpent, ...] = (),
    **stated: Any,
) -> Certificate:
    """Return the certificate of a run; the writer of the bundle adds the hashes of its files.

    Parameters
    ----------
    receipts, delta, neighbours, found, previews, **stated
        As in :class:`Certificate`, but for what is computed from them.
    assumptions : sequence of str
        Those that no receipt states.

    Raises
    ------
    PrivacyError
        If a receipt was made with test noise, or there is none.
    """
    paid = (*(() if found is None else found.receipts), *receipts)
    for receipt in paid:
        if receipt.neighbours is not neighbours:
            raise PrivacyError(f"The receipt of '{receipt.query}' uses a different neighbouring relation.")
    return Certificate(
        epsilon=epsilon_of_receipts(paid, delta, budgets_of(previews, neighbours)) if receipts else math.inf,
        delta=delta,
        neighbours=neighbours,
        receipts=tuple(receipts),
        assumptions=tuple(dict.fromkeys(chain(assumptions, *(receipt.assumptions for receipt in paid)))),
        row_epsilon=worth_for_a_row(receipts, delta),
        found=found,
        previews=previews,
        **stated,
    )


# In words ------------------------------------------------------------------------------------------------------------


def promise(certificate: Certificate) -> tuple[str, ...]:
    """Return in words what a certificate promises, whom it protects, and what it assumes.

    The first line names the columns that are not covered, if there are any: epsilon is never stated without it.
    """
    names = ", ".join(certificate.read_columns)
    return (
        *([f"NOT covered by the guarantee: the domain of {names}, read from the private rows."] if names else []),
        *(_promise_of_a_row(certificate) if certificate.row_epsilon is None else _promise_of_a_cell(certificate)),
        *(f"Assumed: {sentence}" for sentence in certificate.assumptions),
    )


def _promise_of_a_row(certificate: Certificate) -> tuple[str, ...]:
    unit, relation = certificate.unit, certificate.neighbours
    rows = "one row" if unit.rows_per_unit == 1 else f"up to {unit.rows_per_unit} rows"
    change = (
        f"replacing {rows} of one {unit.protects} with another's"
        if relation is Neighbours.REPLACE
        else f"adding or removing one {unit.protects} with {rows}"
    )
    return (
        f"Promised: epsilon = {certificate.epsilon:.6g} at delta = {certificate.delta:.3g}, for {change}.",
        f"Who is protected: every {unit.protects} in the table of account '{certificate.account}'.",
        f"In words: whatever someone believed about one {unit.protects}, this release changes their odds by at most a "
        f"factor of {_odds(certificate)}{_except_with(certificate)}.",
        *_found_words(certificate),
        *_preview_words(certificate),
    )


def _found_words(certificate: Certificate) -> tuple[str, ...]:
    """Return which part of the promise was spent before the run, in words; nothing if none was."""
    found = certificate.found
    if found is None:
        return ()
    names = sorted(name for name, source in certificate.domain_source.items() if is_found(source))
    columns = f"{len(names)} column{'' if len(names) == 1 else 's'}"
    return (
        f"Within that epsilon: {found.epsilon:.6g} at delta = {found.delta:.3g} was spent on finding bounds and "
        f"categories of {columns} privately. The ledger counts it once, however many releases use the result.",
    )


def _preview_words(certificate: Certificate) -> tuple[str, ...]:
    """Return which part of the promise was spent on previews, in words; nothing if there was none."""
    return tuple(
        f"Within that epsilon: {one.epsilon:.6g} at delta = {one.delta:.3g} was spent on a preview: noisy histograms "
        "that the owner saw before this run, not in this bundle. The ledger counts it once, however many "
        "releases follow."
        for one in certificate.previews
    )


def _promise_of_a_cell(certificate: Certificate) -> tuple[str, ...]:
    return (
        f"Protects ONE CELL: pure epsilon = {certificate.epsilon:.6g} for a change of one cell in the table of account "
        f"'{certificate.account}'.",
        "Class labels, class sizes and the number of rows are not protected.",
        f"For a whole row: epsilon = {certificate.row_epsilon:.6g} at delta = {certificate.delta:.3g} for replacing it "
        "with one that has the same label. A changed label is not protected.",
        "In words: whatever someone believed about one cell, this release changes their odds by at most a factor of "
        f"{_odds(certificate)}. It makes no such promise about a whole {certificate.unit.protects}.",
    )


def _except_with(certificate: Certificate) -> str:
    """Return how often the promise may not hold; nothing with a delta of 0, at which it always does."""
    return f", except with a chance of about {certificate.delta:.3g}" if certificate.delta else ""


def _odds(certificate: Certificate) -> str:
    """Return e^epsilon as text, rounded up."""
    if certificate.epsilon > _LARGEST_EXPONENT:
        return f"e^{math.ceil(certificate.epsilon)}"
    return f"{rounded_up(math.exp(certificate.epsilon)):.4g}"


# As a file -----------------------------------------------------------------------------------------------------------


def certificate_to_bytes(certificate: Certificate) -> bytes:
    """Return the bytes of a certificate, which are what is signed."""
    document = {
        "version": FORMAT,
        "epsilon": certificate.epsilon,
        "delta": certificate.delta,
        "neighbours": str(certificate.neighbours),
        "unit": unit_to_mapping(certificate.unit),
        "account": certificate.account,
        **(
            {"model": certificate.generator}
            if certificate.is_model
            else {"generator": certificate.generator, "rows": certificate.rows}
        ),
        "options": dict(certificate.options),
        "seed": certificate.seed,
        "receipts": [receipt.to_dict() for receipt in certificate.receipts],
        "assumptions": list(certificate.assumptions),
        "domain_source": dict(certificate.domain_source),
        "files": dict(certificate.files),
        "versions": dict(certificate.versions),
        "ledger": dict(certificate.ledger),
        "device": certificate.device,
        **({} if certificate.row_epsilon is None else {ROW_EPSILON: certificate.row_epsilon}),
        **({} if certificate.found is None else {FOUND: certificate.found.to_dict()}),
        **({PEOPLE: certificate.people} if certificate.people == "whole" else {}),
        **({PREVIEWS: [asdict(one) for one in certificate.previews]} if certificate.previews else {}),
    }
    return canonical_json(document)


def certificate_from_bytes(data: bytes) -> Certificate:
    """Read a certificate back.

    Raises
    ------
    VerificationError
        If :func:`certificate_to_bytes` would not write it.
    UnknownFormatError
        If a version of this program made it whose bundles this one does not read.
    """
    certificate = certificate_from_dict(parse_canonical(data, name="certificate.json"))
    if certificate_to_bytes(certificate) != data:
        raise VerificationError("certificate.json is not in the one form in which a certificate is written.")
    return certificate


def certificate_from_dict(document: object) -> Certificate:
    """Read a certificate from its JSON values.

    Raises
    ------
    VerificationError
        If a key is missing or unknown, a value has the wrong type, or a version of this program made it whose bundles
        this one does not read.
    """
    require_format(document)
    keys = set(document) - {ROW_EPSILON, FOUND, PEOPLE, PREVIEWS} if isinstance(document, dict) else set()
    if not isinstance(document, dict) or keys not in (CERTIFICATE_KEYS, CERTIFICATE_KEYS_OF_MODEL):
        raise VerificationError("certificate.json has missing or unknown keys.")
    if document["version"] != FORMAT:
        raise VerificationError("A value in certificate.json has the wrong type.")
    try:
        return Certificate(
            epsilon=_number(document["epsilon"]),
            delta=_number(document["delta"]),
            neighbours=Neighbours(document["neighbours"]),
            unit=unit_from_mapping(document["unit"]),
            account=_text(document["account"]),
            generator=_text(document["model" if "model" in keys else "generator"]),
            options={name: option_of(value) for name, value in document["options"].items()},
            rows=0 if "model" in keys else _whole(document["rows"], least=1),
            seed=_whole(document["seed"], least=0),
            receipts=tuple(Receipt.from_dict(receipt) for receipt in document["receipts"]),
            assumptions=tuple(map(_text, document["assumptions"])),
            domain_source={name: _text(source) for name, source in document["domain_source"].items()},
            files={name: _text(digest) for name, digest in document["files"].items()},
            versions={name: _text(version) for name, version in document["versions"].items()},
            ledger={name: _of_kind(entry, str | int) for name, entry in document["ledger"].items()},
            row_epsilon=_number(document[ROW_EPSILON]) if ROW_EPSILON in document else None,
            found=FoundReceipts.from_dict(document[FOUND]) if FOUND in document else None,
            people="whole" if document.get(PEOPLE) == "whole" else "separate_rows",
            previews=tuple(_preview(one) for one in document.get(PREVIEWS, ())),
            device=_text(document["device"]),
        )
    except PrivacyError as refusal:
        raise VerificationError(f"certificate.json: {refusal}") from None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise VerificationError("A value in certificate.json has the wrong type.") from None


def _preview(said: Any) -> PreviewSpent:
    if set(said) != {"id", "epsilon", "delta"}:
        raise ValueError
    try:
        return PreviewSpent(_text(said["id"]), _number(said["epsilon"]), _number(said["delta"]))
    except ConfigError:
        raise ValueError from None


def option_of(value: Any) -> OptionValue:
    """Return an option of a generator from its JSON value; raise ``ValueError`` if it cannot be one."""
    if isinstance(value, list):
        return tuple(option_of(entry) for entry in value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ValueError


def _of_kind(value: Any, kind: type | UnionType) -> Any:
    if isinstance(value, bool) or not isinstance(value, kind):
        raise ValueError
    return value


def _number(value: Any) -> float:
    return float(_of_kind(value, int | float))


def _whole(value: Any, *, least: int) -> int:
    if _of_kind(value, int) < least:
        raise ValueError
    return int(value)


def _text(value: Any) -> str:
    return str(_of_kind(value, str))


def certificate_of(archive: Archive, expected: bytes | None = None) -> Certificate:
    """Read the certificate of a bundle, which is not verified, but whole: what was signed is what is there.

    Parameters
    ----------
    archive : Archive
    expected : bytes, optional
        PEM of the key that the reader trusts.

    Raises
    ------
    VerificationError
        If the signature does not match, another key made it, or a file is not the certified one.
    """
    data = archive.read("certificate.json")
    signature, key = archive.read("certificate.json.sig"), archive.read("public-key.pem")
    certificate = certificate_from_bytes(data)
    problem = signature_problem(data, signature, key, expected) or next(hash_problems(archive, certificate), None)
    if problem is not None:
        raise VerificationError(f"The bundle is not what it claims to be: {problem}")
    return certificate


def hash_problems(archive: Archive, certificate: Certificate) -> Iterator[str]:
    """Yield files of a bundle that are not those in its certificate."""
    signed = signed_by_hash(archive.members)
    if set(certificate.files) != set(signed):
        yield "The certificate does not list exactly the files in the bundle."
    for name in signed:
        with archive.open(name) as stream:
            if sha256_of(stream) != certificate.files.get(name):
                yield f"{name} is not the certified file: its hash differs."


def config_of(archive: Archive) -> RunConfig:
    """Read the configuration of a bundle.

    Raises
    ------
    VerificationError
        If it cannot be read.
    """
    try:
        return parse_config(read_mapping(archive.read("config.yaml").decode("utf-8"), sealed=True))
    except (UnicodeDecodeError, SynthError):
        raise VerificationError("config.yaml cannot be read.") from None


# Versions of what computes a certificate, a table and a report -------------------------------------------------------


def current_versions() -> dict[str, str]:
    """Return the versions to print in a certificate, without packages that are not installed, and the processor."""
    installed = {package: _version_of(package) for package in _PACKAGES}
    known = {package: found for package, found in installed.items() if found is not None}
    return {
        "python": platform.python_version(),
        "hermitage": __version__,
        **known,
        SOURCE: _source_hash(),
        PROCESSOR: processor_kind(),
    }


@functools.cache
def _version_of(package: str) -> str | None:
    """Return the version of a package, or None; looked up once per process."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


@functools.cache
def _source_hash() -> str:
    """Return the first 32 hexadecimal digits of the SHA-256 of all source files and templates, names included."""
    root = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256()
    templates = root / "reports" / "templates"
    for path in sorted((*root.rglob("*.py"), *templates.iterdir())):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:32]


# Signatures, as the recipient checks them -----------------------------------------------------------------------------


def fingerprint_of(public_pem: bytes) -> str:
    """Return the SHA-256 of the 32 bytes of an Ed25519 public key, in groups of four hexadecimal digits.

    Raises
    ------
    VerificationError
        If it is not an Ed25519 public key in PEM format.
    """
    digits = hashlib.sha256(_raw_key(public_pem)).hexdigest()
    return " ".join(digits[start : start + 4] for start in range(0, len(digits), 4))


def is_public_key(pem: bytes) -> bool:
    """Whether a text is an Ed25519 public key in PEM format."""
    try:
        _public_key(pem)
    except VerificationError:
        return False
    return True


def signature_problem(message: bytes, signature: bytes, inside: bytes, expected: bytes | None) -> str | None:
    """Return what is wrong with a signature, or None.

    Parameters
    ----------
    message, signature : bytes
        The certificate as it was signed, and the 64 bytes of its signature.
    inside : bytes
        PEM of the key in the bundle.
    expected : bytes, optional
        PEM of the key the reader trusts.
    """
    if inside != _public_key(inside).public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo):
        return "public-key.pem contains more than a public key."
    if expected is not None and _raw_key(expected) != _raw_key(inside):
        return "The bundle was not signed with the key that you gave: it may have been altered and signed again."
    try:
        Ed25519PublicKey.from_public_bytes(_raw_key(inside)).verify(signature, message)
    except InvalidSignature:
        return "The signature does not match: certificate.json was altered after it was signed."
    return None


def _raw_key(public_pem: bytes) -> bytes:
    return _public_key(public_pem).public_bytes(Encoding.Raw, PublicFormat.Raw)


def _public_key(public_pem: bytes) -> Ed25519PublicKey:
    try:
        key = load_pem_public_key(public_pem)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise VerificationError("A public key cannot be read; it must be an Ed25519 key in PEM format.") from None
    if not isinstance(key, Ed25519PublicKey):
        raise VerificationError("A public key is not an Ed25519 key.")
    return key
