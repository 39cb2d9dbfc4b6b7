"""Who may do what in an installation, and what its policy is: decisions in a chain of their own.

Every decision is an entry with who made it and when, linked to the one before it by a digest under a key of the
installation, as the entries of an account are (:mod:`synth.ledger.chain`). Someone who can write to the database, but
does not have the key, can neither give a role nor change the policy without being noticed; only heads kept elsewhere
(:mod:`synth.ledger.heads`) show that the latest entries were cut off.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from typing import Any

from synth.errors import ConfigError, InputError, LedgerError
from synth.ledger.chain import keyed
from synth.names import shown
from synth.store import SINGLE_USER, LedgerHead, Ruling, RulingKind, Store, display_name, now
from synth.vault.keys import Keys

__all__ = ["INSTALLATION", "POLICY_NAME", "Policy", "Role", "Roles", "roles_called"]

INSTALLATION = "installation"
"""What stands for the id of an account in heads of the chain of decisions about the whole installation."""

POLICY_NAME = "policy"
"""The name under which limits that follow from the policy are recorded."""


class Role(StrEnum):
    """What a user of an installation may be."""

    OWNER = "owner"
    """Takes in tables, declares, spends, and releases what comes of it."""

    APPROVER = "approver"
    """Says yes or no where a second person has to."""

    AUDITOR = "auditor"
    """Sees the ledger, certificates and decisions, and no row."""

    ADMIN = "admin"
    """Gives roles, sets the policy and limits, and keeps the installation in order; sees no row either."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What an installation allows. None means that nothing is set.

    Attributes
    ----------
    release_epsilon : float, optional
        The largest epsilon of one release.
    approval_epsilon : float, optional
        Above this, a second person has to approve a release.
    account_epsilon, account_delta : float, optional
        The limit of every account that has none of its own; both or neither.
    """

    release_epsilon: float | None = None
    approval_epsilon: float | None = None
    account_epsilon: float | None = None
    account_delta: float | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise ConfigError(f"In the policy, {field.name} must be a number above 0, or be left out.")
        if (self.account_epsilon is None) != (self.account_delta is None):
            raise ConfigError("A limit for accounts needs both numbers: epsilon and delta.")
        if self.account_delta is not None and self.account_delta >= 1:
            raise ConfigError("In the policy, account_delta must be below 1.")

    @property
    def lines(self) -> tuple[str, ...]:
        """The policy in words, a line for each part."""

        def most(value: float | None, words: str) -> str:
            return "no limit" if value is None else f"epsilon {value:g}{words}"

        approval = "never" if self.approval_epsilon is None else f"above epsilon {self.approval_epsilon:g}"
        delta = "" if self.account_delta is None else f" at delta {self.account_delta:g}"
        return (
            f"One release: {most(self.release_epsilon, '')}",
            f"A second person has to approve: {approval}",
            f"An account without a limit of its own: {most(self.account_epsilon, delta)}",
        )


class Roles:
    """The users of one installation, their roles, and its policy.

    Parameters
    ----------
    store : Store
    keys : Keys
    """

    def __init__(self, store: Store, keys: Keys) -> None:
        self._store, self._key = store, keys.ledger_key

    def all(self) -> dict[str, frozenset[Role]]:
        """Return the roles of every user who has one, by name.

        Raises
        ------
        LedgerError
            If an entry was altered.
        """
        found: dict[str, frozenset[Role]] = {}
        for ruling in self.rulings():
            if ruling.kind is RulingKind.USER:
                found[ruling.body["name"]] = frozenset(map(Role, ruling.body["roles"]))
        return {name: found[name] for name in sorted(found) if found[name]}

    def policy(self) -> Policy:
        """Return the policy. Errors as :meth:`all`."""
        bodies = [ruling.body for ruling in self.rulings() if ruling.kind is RulingKind.POLICY]
        return Policy(**bodies[-1]) if bodies else Policy()

    def rulings(self) -> tuple[Ruling, ...]:
        """Return every decision, oldest first. Errors as :meth:`all`."""
        return self._checked(self._store.rulings.all())

    def heads(self) -> tuple[LedgerHead, ...]:
        """Return every head that this chain ever had, oldest first; none before the first decision."""
        return tuple(LedgerHead(INSTALLATION, 0, one.digest, one.id) for one in self.rulings())

    def give(self, name: str, roles: Iterable[Role], *, who: str) -> None:
        """Give a user exactly these roles; none takes the last away, and what the user has begun goes to nobody.

        Parameters
        ----------
        name : str
            As the login says it, or the name of an account of this machine.
        roles : iterable of Role
        who : str
            Who decides it.

        Raises
        ------
        InputError
            If the name is empty, or one under which the program itself records something.
        """
        body = {"name": display_name(name, what="The user"), "roles": sorted(set(roles))}
        if body["name"] == SINGLE_USER:
            raise InputError(
                f"'{SINGLE_USER}' stands for whoever uses an installation without a login: no user can have that name."
            )
        if body["name"] == POLICY_NAME:
            raise InputError(f"'{POLICY_NAME}' stands for limits that the policy has set: no user can have that name.")
        self._append(RulingKind.USER, body, who=who)

    def set_policy(self, policy: Policy, *, who: str) -> None:
        """Change the policy, which holds from the next charge on."""
        self._append(RulingKind.POLICY, asdict(policy), who=who)

    def _append(self, kind: RulingKind, body: Mapping[str, Any], *, who: str) -> None:
        with self._store.writing() as connection:
            before = self._checked(self._store.rulings.all_locked(connection))
            previous = before[-1].digest if before else ""
            ruling = Ruling(len(before) + 1, kind, dict(body), who, now(), previous, "")
            self._store.rulings.append(connection, replace(ruling, digest=self._digest(ruling)))

    def _checked(self, rulings: Sequence[Ruling]) -> tuple[Ruling, ...]:
        previous = ""
        for place, ruling in enumerate(rulings, start=1):
            if ruling.id != place or ruling.previous != previous or ruling.digest != self._digest(ruling):
                raise LedgerError(
                    f"The users or the policy of this installation were altered outside the program, at decision "
                    f"{place}. Nobody can sign in, and no run can start, until they are restored from a backup."
                )
            previous = ruling.digest
        return tuple(rulings)

    def _digest(self, ruling: Ruling) -> str:
        facts = {
            # An entry of an account cannot pass for one of these: it has no such field.
            "ruling": ruling.id,
            "kind": ruling.kind,
            "body": dict(ruling.body),
            "who": ruling.who,
            "time": int(ruling.time.timestamp()),
            "previous": ruling.previous,
        }
        return keyed(self._key, facts)


def roles_called(names: Iterable[str]) -> tuple[Role, ...]:
    """Return the roles with these names.

    Raises
    ------
    InputError
        If there is no such role.
    """
    known = [role.value for role in Role]
    wanted = [name.strip().lower() for name in names if name.strip()]
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise InputError(f"There is no role '{shown(unknown[0])}'. The roles are {', '.join(known)}.")
    return tuple(map(Role, dict.fromkeys(wanted)))
