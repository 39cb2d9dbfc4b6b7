"""Configurations that a rehearsal stopped: by which incident, and who cleared it.

A rehearsal reads only public rows, so a stop reveals nothing about private ones. Stops are events of the store: they
are added and cleared, never deleted.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from datetime import datetime

from synth.errors import AttackError, InputError
from synth.estimators import describe
from synth.generators.options import build_options
from synth.ledger.rulings import Role
from synth.schema import RunConfig, schema_from_document, schema_to_document
from synth.services.access import ITSELF, Access, internal, use_case
from synth.store import EventKind, Store
from synth.version import __version__

__all__ = ["Stop", "Stops", "configuration_digest"]


@dataclass(frozen=True, slots=True)
class Stop:
    """One stop: the incident, the configuration that it stops, and who cleared it and why."""

    incident: str
    configuration: str
    generator: str
    attacks: str
    time: datetime
    cleared_by: str | None = None
    because: str | None = None

    @property
    def line(self) -> str:
        """The time of the stop, what it is about, and whether it was cleared."""
        state = "not cleared" if self.cleared_by is None else f"cleared by {self.cleared_by}: {self.because}"
        return f"{self.time:%Y-%m-%d %H:%M}  {self.incident}  {self.generator}  {self.attacks}  {state}"

    @property
    def sentence(self) -> str:
        """The message where it stops a run or a release."""
        return (
            f"Stopped: in a rehearsal of this configuration, an attack did better than the proof allows (incident "
            f"{self.incident}). Choose another configuration, or find the bug and clear the incident, on the Admin "
            f"page or with synth incidents --clear {self.incident} --because TEXT."
        )


def configuration_digest(config: RunConfig) -> str:
    """Return the SHA-256 of what a stop is about: generator, options, budget, schema, and version of this program.

    It leaves out what does not affect the guarantee: rows to make, seed, label, account and files; and the number of
    units, because a stand-in has its own.
    """
    card = describe(config.generator)
    schema = replace(config.schema, number_of_units=None)
    body = {
        "generator": config.generator,
        # With all defaults, so that an option set to its default is the same configuration.
        "options": asdict(build_options(card.options, config.options, of=config.generator)),
        "epsilon": float(config.epsilon),
        "delta": float(config.delta),
        # As it is read from a file, so that 18 and 18.0 are the same bound.
        "schema": schema_to_document(schema_from_document(schema_to_document(schema))),
        "version": __version__,
    }
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


class Stops:
    """The stops of one installation.

    Parameters
    ----------
    store : Store
    access : Access
        Who asks; by default the program itself.
    """

    def __init__(self, store: Store, *, access: Access = ITSELF) -> None:
        self._store, self.access = store, access

    @internal
    def record(self, config: RunConfig, incident: str, attacks: str) -> None:
        """Stop every release with this configuration, until someone clears the incident."""
        detail = {
            "incident": incident,
            "configuration": configuration_digest(config),
            "generator": config.generator,
            "attacks": attacks,
        }
        self._store.events.add(EventKind.RELEASE_STOPPED, detail=detail)

    @use_case(Role.ADMIN, Role.AUDITOR)
    def all(self) -> tuple[Stop, ...]:
        """Return all stops, oldest first, including cleared ones."""
        return self._all()

    def _all(self) -> tuple[Stop, ...]:
        cleared = {event.detail["incident"]: event for event in self._store.events.of_kind(EventKind.STOP_CLEARED)}
        found = []
        for event in self._store.events.of_kind(EventKind.RELEASE_STOPPED):
            detail, lifted = event.detail, cleared.get(event.detail["incident"])
            found.append(
                Stop(
                    detail["incident"],
                    detail["configuration"],
                    detail["generator"],
                    detail["attacks"],
                    event.time,
                    cleared_by=None if lifted is None else lifted.who,
                    because=None if lifted is None else lifted.detail["because"],
                )
            )
        return tuple(found)

    @use_case(Role.OWNER)
    def of(self, config: RunConfig) -> Stop | None:
        """Return the stop of a configuration, or None."""
        return self._of(config)

    def _of(self, config: RunConfig) -> Stop | None:
        standing = [stop for stop in self._all() if stop.cleared_by is None]
        if not standing:
            return None
        digest = configuration_digest(config)
        return next((stop for stop in standing if stop.configuration == digest), None)

    @internal
    def check(self, config: RunConfig) -> None:
        """Refuse a configuration that a rehearsal has stopped.

        Raises
        ------
        AttackError
            With the incident, and how to clear it.
        """
        stop = self._of(config)
        if stop is not None:
            raise AttackError(stop.sentence, incident=stop.incident)

    @use_case(Role.ADMIN)
    def clear(self, incident: str, *, who: str, because: str) -> None:
        """Allow releases with the configuration of an incident again; who cleared it and why is kept.

        Raises
        ------
        InputError
            If the incident stops nothing, or no reason is given.
        """
        if not because.strip():
            raise InputError("Give the reason for clearing the incident after --because; it is kept with the incident.")
        if not any(stop.incident == incident and stop.cleared_by is None for stop in self._all()):
            raise InputError(f"The incident '{incident}' stops nothing. synth incidents lists those that do.")
        self._store.events.add(
            EventKind.STOP_CLEARED,
            who=self.access.signed(who),
            detail={"incident": incident, "because": because.strip()},
        )
