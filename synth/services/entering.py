"""Enter releases that are missing from the ledger, from their bundles, after an older database was restored."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from synth.bundle.archive import Archive, open_archive, parse_canonical
from synth.bundle.certificate import Certificate, certificate_from_dict, signature_problem
from synth.bundle.finding import Finding
from synth.errors import AlreadyEnteredError, InputError
from synth.privacy.accounting import PrivacyBudget
from synth.schema import RunConfig, config_to_mapping, parse_config
from synth.schema.documents import read_mapping
from synth.services import run_folder
from synth.services.finding import bring_back
from synth.services.installation import Installation
from synth.services.previewing import bring_back_previews
from synth.system.paths import path_of

__all__ = ["Entered", "enter_bundles", "enter_upload"]


@dataclass(frozen=True, slots=True)
class Entered:
    """A release that was entered into the ledger, or that ``was_there`` already."""

    account: str
    certificate_id: str
    epsilon: float
    delta: float
    was_there: bool = False

    @property
    def sentence(self) -> str:
        """What was entered, as a sentence."""
        if self.was_there:
            return (
                f"Not entered: certificate {self.certificate_id} of account '{self.account}' is already in the ledger."
            )
        return (
            f"Entered certificate {self.certificate_id}: epsilon {self.epsilon:g} at delta {self.delta:g} for account "
            f"'{self.account}'."
        )


@dataclass(frozen=True, slots=True)
class _Checked:
    bundle: Path | BinaryIO
    certificate: Certificate
    config: RunConfig
    certificate_json: bytes
    finding: Finding | None = None


def _files(certificate: Certificate) -> tuple[str, ...]:
    """Return the files to bring back besides the certificate and the bundle."""
    files = run_folder.publishable(certificate.files)
    return tuple(name for name in files if name not in ("bundle.zip", "certificate.json"))


def enter_bundles(installation: Installation, paths: Sequence[str | Path], *, who: str) -> list[Entered]:
    """Enter releases of this installation into its ledger, with their runs and files.

    All are checked before the first is entered. An account that is missing from the ledger is opened again, frozen.

    Parameters
    ----------
    installation : Installation
    paths : sequence of path
        Bundles, folders that contain one, or certificates beside their bundle, which contains the signature.
    who : str
        The name of the person who enters them.

    Raises
    ------
    InputError
        If a file is not a bundle of this installation.
    LedgerError
        If a chain is broken.
    """
    checked = [_checked_path(installation, path_of(path, "the release")) for path in paths]
    return [_enter(installation, one, who=who) for one in checked]


def enter_upload(installation: Installation, bundle: BinaryIO, *, who: str) -> Entered:
    """Enter one release as :func:`enter_bundles` does, from the bytes of its bundle, which are not stored elsewhere.

    Raises
    ------
    InputError
        If ``who`` is empty, or the file is not a bundle of this installation.
    """
    if not who.strip():
        raise InputError("Give your name: it is kept with what you enter.")
    return _enter(installation, _checked(installation, bundle, "bundle.zip"), who=who.strip())


def _checked_path(installation: Installation, path: Path) -> _Checked:
    found = _checked(installation, _bundle_of(path), path.name)
    if path.suffix == ".json" and path.read_bytes() != found.certificate_json:
        raise InputError(f"'{path.name}' is not the certificate of the bundle beside it. Name the bundle instead.")
    return found


def _checked(installation: Installation, bundle: Path | BinaryIO, name: str) -> _Checked:
    with open_archive(bundle) as archive:
        data = archive.read("certificate.json")
        problem = signature_problem(
            data, archive.read("certificate.json.sig"), archive.read("public-key.pem"), installation.keys.public_key_pem
        )
        if problem is not None:
            raise InputError(f"The bundle '{name}' was not signed by this installation, which has no ledger for it.")
        certificate = certificate_from_dict(parse_canonical(data, name="certificate.json"))
        found = () if certificate.found is None else run_folder.FOUND
        for member in ("config.yaml", *_files(certificate), *found):
            if member not in archive.members or _digest(archive, member) != certificate.files.get(member):
                raise InputError(f"{member} in '{name}' is not the certified file. Name the complete, original bundle.")
        config = parse_config(read_mapping(archive.read("config.yaml").decode("utf-8"), sealed=True))
        finding = Finding.of_files({name: archive.read(name) for name in found}) if found else None
    return _Checked(bundle, certificate, config, data, finding)


def _bundle_of(path: Path) -> Path:
    if path.is_dir() and (path / "bundle.zip").is_file():
        return path / "bundle.zip"
    if path.suffix != ".json":
        return path
    if (path.parent / "bundle.zip").is_file():
        return path.parent / "bundle.zip"
    raise InputError(
        f"There is no bundle.zip beside '{path.name}', and the bundle contains the signature. Name the bundle."
    )


def _digest(archive: Archive, name: str) -> str:
    found = hashlib.sha256()
    with archive.open(name) as stream:
        while block := stream.read(2**20):
            found.update(block)
    return found.hexdigest()


def _enter(installation: Installation, one: _Checked, *, who: str) -> Entered:
    certificate, ledger, store = one.certificate, installation.ledger, installation.store
    identity, _ = run_folder.certificate_id(one.certificate_json)
    account = store.accounts.named(certificate.account)
    if account is None:
        account, _ = store.accounts.ensure(certificate.account, certificate.neighbours, certificate.unit)
        # Other releases of this account may be missing too.
        ledger.freeze(account.id, because="restored", who=who)
    position, head = certificate.ledger.get("charges"), certificate.ledger.get("head")
    budget = PrivacyBudget(one.config.epsilon, one.config.delta, certificate.neighbours)
    try:
        charge = ledger.enter_certificate(
            account.id,
            budget,
            certificate_id=identity,
            who=who,
            config=json.dumps(config_to_mapping(one.config.published())),
            charged_at=(position, head) if isinstance(position, int) and isinstance(head, str) else None,
        )
    except AlreadyEnteredError:
        _enter_what_came_before(installation, one, account_id=account.id, who=who)
        known = [row.run_id for row in ledger.rows(account.id) if row.certificate_id == identity]
        if known and store.runs.find(known[0]) is not None:
            # Its files may be missing, for example after a crash between the ledger and the files.
            _bring_back(installation, one, account_id=account.id, run_id=known[0], who=who)
        return Entered(account.name, identity, budget.epsilon, budget.delta, was_there=True)
    _enter_what_came_before(installation, one, account_id=account.id, who=who)
    _bring_back(installation, one, account_id=account.id, run_id=charge.run_id, who=who)
    return Entered(account.name, identity, charge.epsilon, charge.delta)


def _enter_what_came_before(installation: Installation, one: _Checked, *, account_id: str, who: str) -> None:
    """Enter finding and previews too: they were charged separately from the run, once for all releases after them."""
    bring_back_previews(installation, one.config, account_id=account_id, who=who)
    if one.finding is not None:
        bring_back(installation, one.finding, account_id=account_id, who=who)


def _bring_back(installation: Installation, one: _Checked, *, account_id: str, run_id: str, who: str) -> None:
    """Restore the missing files and the record of a released run, without overwriting any file."""
    identity, digest = run_folder.certificate_id(one.certificate_json)
    folder = run_folder.make(installation.settings, run_id)
    with open_archive(one.bundle) as archive:
        for name in (*_files(one.certificate), "certificate.json"):
            if not (folder / name).exists():
                with archive.open(name) as stream, (folder / name).open("wb") as target:
                    shutil.copyfileobj(stream, target)
    if not (folder / "bundle.zip").exists():
        with _bytes_of(one.bundle) as stream, (folder / "bundle.zip").open("wb") as target:
            shutil.copyfileobj(stream, target)
    if not installation.store.releases.of_run(run_id):
        installation.store.releases.add(
            run_id=run_id,
            account_id=account_id,
            certificate_id=identity,
            certificate_digest=digest,
            attestations={"1": "entered from its certificate"},
            who=who,
        )


@contextmanager
def _bytes_of(bundle: Path | BinaryIO) -> Iterator[BinaryIO]:
    if isinstance(bundle, Path):
        with bundle.open("rb") as stream:
            yield stream
        return
    bundle.seek(0)
    yield bundle
