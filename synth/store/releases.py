"""Releases: sealed bundles, append-only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import uuid4

from sqlalchemy import RowMapping, insert, select

from synth.store.definitions import RELEASES
from synth.store.engine import Transactions, patient
from synth.store.moments import now
from synth.store.rows import row_values

__all__ = ["Releases", "SealedRelease"]


@dataclass(frozen=True, slots=True)
class SealedRelease:
    """One sealed bundle: its certificate and what the owner attested, by name."""

    id: str
    run_id: str
    account_id: str
    certificate_id: str
    certificate_digest: str
    attestations: Mapping[str, str]
    who: str
    sealed: datetime


class Releases:
    """The rows of ``releases``."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    @patient
    def add(
        self,
        *,
        run_id: str,
        account_id: str,
        certificate_id: str,
        certificate_digest: str,
        attestations: Mapping[str, str],
        who: str,
    ) -> SealedRelease:
        """Record a sealed bundle; ``certificate_digest`` is the SHA-256 of its certificate."""
        release = SealedRelease(
            id=str(uuid4()),
            run_id=run_id,
            account_id=account_id,
            certificate_id=certificate_id,
            certificate_digest=certificate_digest,
            attestations=dict(attestations),
            who=who,
            sealed=now(),
        )
        values = row_values(release)
        values["attestations"] = json.dumps(dict(attestations), sort_keys=True)
        with self._transactions.writing() as connection:
            connection.execute(insert(RELEASES).values(**values))
        return release

    @patient
    def of_account(self, account_id: str) -> tuple[SealedRelease, ...]:
        """Return the account's releases, oldest first."""
        query = select(RELEASES).where(RELEASES.c.account_id == account_id).order_by(RELEASES.c.sealed)
        with self._transactions.reading() as connection:
            return tuple(_release(row) for row in connection.execute(query).mappings())

    @patient
    def of_run(self, run_id: str) -> tuple[SealedRelease, ...]:
        """Return the releases of one run, oldest first."""
        query = select(RELEASES).where(RELEASES.c.run_id == run_id).order_by(RELEASES.c.sealed)
        with self._transactions.reading() as connection:
            return tuple(_release(row) for row in connection.execute(query).mappings())


def _release(row: RowMapping) -> SealedRelease:
    values = dict(row)
    values["attestations"] = json.loads(values["attestations"])
    return SealedRelease(**values)
