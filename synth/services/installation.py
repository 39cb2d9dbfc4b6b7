"""One opened installation, which every service works on; services do not know the application."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from synth.ledger.ledger import Ledger
from synth.ledger.rulings import Roles
from synth.schema import RunConfig, parse_config
from synth.services import run_folder
from synth.store import Store
from synth.system.settings import Settings
from synth.vault.keys import Keys, load_keys
from synth.vault.vault import Vault

__all__ = ["Installation"]


@dataclass(frozen=True, slots=True, eq=False)
class Installation:
    """The parts of one installation; they hold no rows.

    Attributes
    ----------
    settings : Settings
        Where the state is kept.
    store : Store
        The database.
    keys : Keys
    ledger : Ledger
        What was spent on each account.
    vault : Vault
        The encrypted tables.
    roles : Roles
        The users, what they may do, and the policy.
    """

    settings: Settings
    store: Store
    keys: Keys
    ledger: Ledger
    vault: Vault
    roles: Roles

    @classmethod
    def open(cls, settings: Settings, *, patience: float = 0.0) -> Self:
        """Open an installation, and create it if it does not exist.

        Parameters
        ----------
        settings : Settings
        patience : float
            Seconds to wait for a database that does not answer; a screen does not wait.
        """
        store = Store(settings, patience=patience)
        keys = load_keys(settings.home)
        ledger = Ledger(store, keys)
        ledger.check_marks()
        return cls(settings, store, keys, ledger, Vault(store, keys, ledger), Roles(store, keys))

    def config_of(self, run_id: str) -> RunConfig:
        """Return the configuration of a run."""
        return parse_config(json.loads(self.store.runs[run_id].config))

    def folder(self, run_id: str) -> Path:
        """Return the folder of a run's files."""
        return run_folder.of(self.settings, run_id)

    def close(self) -> None:
        """Close the database."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()
