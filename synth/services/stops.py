"""Releases that a rehearsal stopped: which configuration, since which incident, and whether somebody cleared it.

A rehearsal reads public rows alone, so that it stops tells nothing of private ones. Stops are events of the store: they
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
from synth.schema import RunConfig, schema_from_document, schema_to_document
from synth.store import EventKind, Store
from synth.version import __version__

__all__ = ["Stop", "Stops", "configuration_digest"]


@dataclass(frozen=True, slots=True)
class Stop:
    """One stop: the incident, the configuration it stops, and who cleared it and why, where somebody did."""

    incident: str
    configuration: str
    generator: str
    attacks: str
    time: datetime
    cleared_by: str | None = None
    because: str | None = None

    @property
    def line(self) -> str:
        """When it was, what it is about, and whether it stands."""
        state = "stands" if self.cleared_by is None else f"cleared by {self.cleared_by}: {self.because}"
        return f"{self.time:%Y-%m-%d %H:%M}  {self.incident}  {self.generator}  {self.attacks}  {state}"

    @property
    def sentence(self) -> str:
        """What is said where it stops something."""
        return (
            f"Stopped: in a rehearsal of this configuration an attack did better than the proof allows (incident "
            f"{self.incident}). Choose another configuration, or find the bug and clear the incident on the page Admin "
            f"or with: synth incidents --clear {self.incident} --because TEXT."
        )


def configuration_digest(config: RunConfig) -> str:
    """Return the SHA-256 of what a stop is about: generator, options, budget, schema, and the version of this program.

    What changes nothing in the promise is left out: rows to make, seed, label, account, files; and how many units the
    table has, because a stand-in has a number of its own.
    """
    card = describe(config.generator)
    schema = replace(config.schema, number_of_units=None)
    body = {
        "generator": config.generator,
        # With every default written out: an option typed at its default is the same configuration.
        "options": asdict(build_options(card.options, config.options, of=config.generator)),
        "epsilon": float(config.epsilon),
        "delta": float(config.delta),
        # As it reads when it comes back from a file: 18 and 18.0 are one bound.
        "schema": schema_to_document(schema_from_document(schema_to_document(schema))),
        "version": __version__,
    }
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


class Stops:
    """The stops of one installation.

    Parameters
    ----------
    store : Store
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def record(self, config: RunConfig, incident: str, attacks: str) -> None:
        """Stop every release with this configuration, until somebody clears the incident."""
        detail = {
            "incident": incident,
            "configuration": configuration_digest(config),
            "generator": config.generator,
            "attacks": attacks,
        }
        self._store.events.add(EventKind.RELEASE_STOPPED, detail=detail)

    def all(self) -> tuple[Stop, ...]:
        """Return every stop, oldest first, those that were cleared included."""
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

    def of(self, config: RunConfig) -> Stop | None:
        """Return what stops a configuration, or None."""
        standing = [stop for stop in self.all() if stop.cleared_by is None]
        if not standing:
            return None
        digest = configuration_digest(config)
        return next((stop for stop in standing if stop.configuration == digest), None)

    def check(self, config: RunConfig) -> None:
        """Refuse what a rehearsal has stopped.

        Raises
        ------
        AttackError
            With the incident, and how it is cleared.
        """
        stop = self.of(config)
        if stop is not None:
            raise AttackError(stop.sentence, incident=stop.incident)

    def clear(self, incident: str, *, who: str, because: str) -> None:
        """Let the configuration of an incident be released again; who and why are kept.

        Raises
        ------
        InputError
            If nothing is stopped under this incident, or no reason is given.
        """
        if not because.strip():
            raise InputError("Say after --because why the incident is cleared; it is kept with it.")
        if not any(stop.incident == incident and stop.cleared_by is None for stop in self.all()):
            raise InputError(f"Nothing is stopped by an incident '{incident}'. synth incidents lists what is.")
        self._store.events.add(
            EventKind.STOP_CLEARED, who=who, detail={"incident": incident, "because": because.strip()}
        )
