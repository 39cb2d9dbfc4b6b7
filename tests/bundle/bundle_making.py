"""Small bundles made by the real session, generators and writers, for the tests of this folder."""

from __future__ import annotations

import datetime
import io
import json
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from synth.bundle import measurements
from synth.bundle.archive import canonical_json, sha256_of, signed_by_hash, write_zip, zip_of
from synth.bundle.certificate import certify, current_versions
from synth.bundle.checks import check
from synth.bundle.model_file import ModelCard
from synth.bundle.replay import replay
from synth.bundle.table_files import write_table
from synth.bundle.verify import Verdict, verdict_of
from synth.bundle.writer import Contents, SealedBundle, write_bundle
from synth.estimators import drawn_rows, make, restore
from synth.generators import GeneratorTask
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.noise import NoiseSource
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress
from synth.reports.document import published_evidence
from synth.reports.forecast import budget_parts
from synth.reports.measured import EVALUATION_QUERY, evaluation_question
from synth.schema import (
    CategoryColumn,
    Column,
    DateColumn,
    DateStep,
    DropColumn,
    IdentifierColumn,
    NumberColumn,
    PrivacyUnit,
    RunConfig,
    Schema,
    YesNoColumn,
)
from synth.system.machine import device_name

COLUMNS: tuple[Column, ...] = (
    IdentifierColumn("person"),
    NumberColumn("age", 0, 120, 1, missing=True),
    NumberColumn("=weight", -20, 250, 0.5, special=(-1.25, 999.0), fallback=999.0),
    CategoryColumn("region", ("north", '=south, "east"', "west"), other=True, missing=True),
    YesNoColumn("smoker", yes="yes", no="-no", missing=True),
    DateColumn("visited", datetime.date(2020, 1, 15), datetime.date(2022, 12, 31), missing=True),
    DateColumn(
        "month",
        datetime.date(2020, 3, 15),
        datetime.date(2021, 2, 1),
        step=DateStep.MONTH,
        fallback=datetime.date(2020, 6, 1),
    ),
    DropColumn("notes"),
    CategoryColumn("outcome", ("none", "mild", "severe"), fallback="none"),
)


class Key:
    """An Ed25519 key as the writer wants it."""

    def __init__(self) -> None:
        self._key = Ed25519PrivateKey.generate()

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message)

    @property
    def public_key_pem(self) -> bytes:
        return self._key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def config_of(columns: tuple[Column, ...] = COLUMNS, **changes: Any) -> RunConfig:
    unit = changes.pop("unit", PrivacyUnit())
    schema = Schema(
        columns,
        unit=unit,
        row_count=changes.pop("row_count", "public"),
        number_of_units=changes.pop("number_of_units", None),
    )
    settings: dict[str, Any] = {
        "account": "survey people",
        "epsilon": 1.0,
        "delta": 1e-6,
        "rows": 700,
        "people_at_most": 5000,
        "generator": "independent",
        "seed": 5,
        "table": "/elsewhere/private.csv",
        "domain_source": {"age": "read from the private rows"} if "age" in schema.names else {},
    }
    return RunConfig(schema=schema, **settings | changes)


def simulated_codes(schema: Schema, rows: int, *, seed: int = 0) -> dict[str, np.ndarray]:
    """Codes with skewed columns that depend on a common cause."""
    random = np.random.default_rng(seed)
    cause = random.random(rows)
    codes = {}
    for column in schema.modelled:
        place = (0.7 * cause + 0.3 * random.random(rows)) ** 2
        codes[column.name] = np.minimum((column.size * place).astype(int), column.size - 1)
    return codes


def run(
    config: RunConfig, folder: Path, *, rows: int = 2000, noise: NoiseSource | None = None
) -> tuple[Contents, PrivateSession]:
    """Ask, fit, sample and write as a run does; the bundle is left to the test."""
    schema = config.schema
    budget = PrivacyBudget(epsilon=config.epsilon, delta=config.delta, neighbours=schema.neighbours)
    units = None if schema.unit.id_column is None else range(rows)
    table = PrivateTable.from_codes(schema, simulated_codes(schema, rows), unit_ids=units, account_key=bytes(32))
    session = PrivateSession(table, budget, noise=noise)
    shares = {part.name: part.share for part in budget_parts(config)}
    if "row count" in shares:
        session.count_rows(share=shares["row count"])
    if "evaluation" in shares:
        asked = {"share": shares["evaluation"], "query": EVALUATION_QUERY, "source": "report"}
        session.noisy_sum(evaluation_question(schema), **asked)
    task = GeneratorTask.of(config)
    fitted = make(config.generator, task, config.options).fit(
        session.sub_session(session.remaining_share), NullProgress()
    )
    # Rows are drawn on the processor, so that everyone can draw them again.
    sealed = fitted
    if fitted.device != "cpu":
        sealed = restore(config.generator, ModelCard.of(config).task, config.options, fitted.state())
    drawn = drawn_rows(sealed, config)
    codes, facts, pictures = drawn.codes, (*sealed.facts(), *drawn.facts), sealed.pictures()
    folder.mkdir(parents=True, exist_ok=True)
    write_table(codes, schema, folder / "synthetic.csv", folder / "synthetic.parquet", config.seed)
    certificate = certify(
        session.receipts,
        delta=config.delta,
        neighbours=schema.neighbours,
        unit=schema.unit,
        account=config.account,
        generator=config.generator,
        options=config.options,
        rows=config.rows,
        seed=config.seed,
        assumptions=[*config.format.assumptions, *fitted.assumptions],
        domain_source={column.name: config.domain_source.get(column.name, "declared") for column in schema.modelled},
        versions=current_versions(),
        ledger={"charges": 1, "head": "ab" * 32},
        device=device_name(fitted.device),
        previews=config.previews,
    )
    contents = Contents(
        config=config,
        synthetic_csv=folder / "synthetic.csv",
        synthetic_parquet=folder / "synthetic.parquet",
        answers=session.answers,
        state=fitted.state(),
        evidence=published_evidence(
            codes,
            session.sums,
            config,
            rows=session.rows,
            facts=facts,
            pictures=pictures,
            receipts=session.receipts,
        ),
        certificate=certificate,
        rows=session.rows,
    )
    return contents, session


def seal(config: RunConfig, folder: Path, key: Key, **changes: Any) -> SealedBundle:
    contents, _ = run(config, folder)
    return write_bundle(folder / "bundle.zip", replace(contents, **changes), signer=key)


def checked(bundle: Path, public_key: bytes | None = None, **how: bool) -> Verdict:
    """Check a bundle as ``verify`` does, in this process: a process for each of hundreds of forgeries takes minutes."""
    return verdict_of(check(bundle, expected_key=public_key, **how), key_given=public_key is not None)


def require_verified_and_replayed(bundle: Path, key: Key, folder: Path) -> None:
    """Require that a bundle holds, and that its table comes out the same, drawn again and fitted again."""
    verdict = checked(bundle, key.public_key_pem)
    assert verdict.ok, verdict.lines
    for number, changes in enumerate(({}, {"refit": True})):
        again = replay(bundle, folder / str(number), **changes)
        assert again.identical, again.lines


def members_of(bundle: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(bundle) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def npz_with(data: bytes, change: Callable[[dict[str, bytes]], None]) -> bytes:
    """The file of answers with other members, packed as it has to be."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    return b"".join(zip_of(members, attributes=0o600))


def npz_with_index(data: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """The file of answers with another index, written as it has to be."""

    def rewrite(members: dict[str, bytes]) -> None:
        index = json.loads(np.load(io.BytesIO(members["index.npy"]), allow_pickle=False).tobytes())
        change(index)
        members["index.npy"] = npy(np.frombuffer(json.dumps(index, sort_keys=True).encode(), dtype=np.uint8))

    return npz_with(data, rewrite)


def npy(array: np.ndarray) -> bytes:
    """An array as it has to be written."""
    return measurements._head(array) + array.tobytes()


def altered(
    bundle: Path,
    target: Path,
    *,
    files: Mapping[str, Callable[[bytes], bytes]] | None = None,
    certificate: Callable[[dict[str, Any]], None] | None = None,
    sign_with: Key | None = None,
) -> Path:
    """Copy a bundle with some files changed; with a key, hashes and signature are made to fit again."""
    members = members_of(bundle)
    for name, change in (files or {}).items():
        members[name] = change(members[name])
    # A certificate that is altered byte by byte need not be a document any more.
    document = json.loads(members["certificate.json"]) if sign_with is not None or certificate is not None else {}
    if sign_with is not None:
        document["files"] = {name: sha256_of(io.BytesIO(members[name])) for name in signed_by_hash(tuple(members))}
    if certificate is not None:
        certificate(document)
    if certificate is not None or sign_with is not None:
        members["certificate.json"] = canonical_json(document)
    if sign_with is not None:
        members["certificate.json.sig"] = sign_with.sign(members["certificate.json"])
        members["public-key.pem"] = sign_with.public_key_pem
    write_zip(target, members)
    return target
