"""Reproduce a table or a model from its bundle alone, or fit another generator to the same noisy answers, for free.

Rows are drawn again from the fitted generator. A model draws no rows, so it is fitted again to the answers.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from synth.bundle.archive import Archive, open_archive, sha256_of
from synth.bundle.certificate import Certificate, certificate_of, config_of, is_public_key
from synth.bundle.measurements import Measurements, measurements_from_bytes
from synth.bundle.model_file import ModelCard, model_from_bytes, model_to_bytes, model_to_json, restored_model
from synth.bundle.recorded_session import DerivedSession
from synth.bundle.remaking import (
    agreement_of_models,
    asked_again,
    device_again,
    differs_elsewhere,
    distance_of_tables,
    report_of,
    restored,
    rows_again,
    rows_measured,
)
from synth.bundle.table_files import linked_files, read_table, write_parquet, write_table
from synth.bundle.verify import Outcome, key_of
from synth.errors import ConfigError, InputError, VerificationError
from synth.estimators import make, restore
from synth.generators import Generator, GeneratorTask, PrivateModel, State
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.questions import Answer
from synth.progress import NullProgress, Progress
from synth.schema import RunConfig
from synth.system.machine import resolved_device

__all__ = ["Replay", "drawn_table", "replay", "saved_generator"]


@dataclass(frozen=True, slots=True)
class Replay:
    """What a replay made.

    Attributes
    ----------
    identical : bool
        Whether ``synthetic.csv``, or ``model.json`` where a model is released, is the certified one, byte for byte.
    lines : tuple of str
        What was made and how it compares, in words.
    report_identical : bool, optional
        Whether ``report.json`` is the certified one, byte for byte. None if another generator was fitted.
    distance : float, optional
        Mean total variation over columns and pairs between the new table and the one in the bundle, if they differ.
    differing : tuple of str
        One sentence for each thing that should be as certified and is not.
    elsewhere : str
        How this computer differs from the one that made the bundle; empty if everything should be the same to the last
        bit. What differs then only counts as not checked, unless a model that was fitted again is far away.
    far : bool
        Whether a model that was fitted again is further from the sealed one than other versions can explain.
    """

    identical: bool
    lines: tuple[str, ...]
    report_identical: bool | None = None
    distance: float | None = None
    differing: tuple[str, ...] = ()
    elsewhere: str = ""
    far: bool = False

    @property
    def outcome(self) -> Outcome:
        """Whether everything is as certified that should be; another generator may make another table."""
        if not self.differing:
            return Outcome.HOLDS
        return Outcome.UNKNOWN if self.elsewhere and not self.far else Outcome.FAILS

    @property
    def as_certified(self) -> bool:
        """Whether everything is as certified that should be."""
        return self.outcome is Outcome.HOLDS


def replay(
    bundle: str | Path,
    out: str | Path,
    *,
    refit: bool = False,
    generator: str | None = None,
    public_key: str | Path | bytes | None = None,
    progress: Progress | None = None,
) -> Replay:
    """Reproduce the table of a bundle, or its model.

    Parameters
    ----------
    bundle : path
        A zip or a folder.
    out : path
        Folder for ``synthetic.csv``, ``synthetic.parquet``, the files of two tables that belong together and, unless
        the answers are fitted again, ``report.json``; or for ``model.json`` and ``report.json``. Created if it does
        not exist.
    refit : bool
        Fit the noisy answers again instead of sampling from the saved generator; a model is always fitted again.
    generator : str, optional
        Fit another generator to the answers; implies ``refit``. Tables of counts that it asks for are derived from
        those that were measured; it must need nothing else.
    public_key : path or bytes, optional
        PEM of the expected signer's key, as in :func:`synth.bundle.verify.verify`.
    progress : Progress, optional
        Reports on fitting.

    Raises
    ------
    VerificationError
        If the bundle cannot be read, another key signed it, or no rows can be drawn from its model.
    InputError
        If the public key cannot be read, or is of another kind.
    PrivacyError
        If the generator asks a question that was not answered and does not follow from any answer.
    ConfigError
        If another generator were to be fitted to the answers of a model, or a model to those of a generator.
    """
    folder = Path(out)
    expected = key_of(public_key)
    if expected is not None and not is_public_key(expected):
        raise InputError(
            "The public key that you gave is not an Ed25519 key in PEM format. Give the file that the owner sent you, "
            "such as public-key.pem."
        )
    with _opened(bundle, expected) as (archive, certificate, config, card, state):
        known = measurements_from_bytes(archive.read("measurements.npz"))
        if generator is not None and generator != config.generator:
            return _by_another(archive, config, card, known, generator, folder, progress)
        device = device_again(certificate, config)
        sealed = restored(card, state)
        lines = [] if expected is None else ["The certificate was signed with the key that you gave."]
        differing: list[str] = []
        far, fitted = False, sealed
        if refit or generator is not None or config.is_model:
            again, repeated = asked_again(known, config, device=device, fit=True, progress=progress)
            if again is None:
                raise VerificationError("The answers in measurements.npz are not those of a whole run.")
            agreement = agreement_of_models(again, sealed, config)
            differing += repeated.differences
            differing += [f"'{query}' was answered, but the run does not ask it." for query in sorted(repeated.left)]
            (lines if agreement.identical else differing).append(agreement.sentence)
            far, fitted = not agreement.is_close, _on_processor(again, config)
        elsewhere = differs_elsewhere(certificate, device=None if fitted is sealed else resolved_device(device))
        drawn = rows_again(fitted, config)
        folder.mkdir(parents=True, exist_ok=True)
        distance = None
        linked: list[tuple[str, bool]] = []
        if config.is_model:
            made, name = _told_again(fitted, config), "model.json"
            (folder / name).write_bytes(made)
            identical = made == archive.read(name)
        else:
            name = "synthetic.csv"
            table = (drawn.codes, config.schema, folder / name, folder / "synthetic.parquet", config.seed)
            write_table(*table, units=drawn.units)
            identical = _is_certified(folder / name, certificate)
            linked = [(other, _is_certified(folder / other, certificate)) for other in linked_files(config.schema)]
            distance = None if identical else _distance(archive, folder / name, config)
        report = report_of(known, config, fitted, drawn)
        (folder / "report.json").write_bytes(report)
        report_identical = report == archive.read("report.json")
    for what, same in ((name, identical), *linked, ("report.json", report_identical)):
        (lines if same else differing).append(_compared(what, same, distance if what == "synthetic.csv" else None))
    lines += differing
    if differing and elsewhere:
        lines.append(f"This computer is not like the one that made the bundle: the certificate states {elsewhere}.")
    return Replay(
        identical,
        tuple(lines),
        report_identical,
        distance,
        differing=tuple(differing),
        elsewhere=elsewhere,
        far=far,
    )


def _is_certified(path: Path, certificate: Certificate) -> bool:
    with path.open("rb") as stream:
        return sha256_of(stream) == certificate.files.get(path.name)


def _compared(what: str, same: bool, distance: float | None) -> str:
    if same:
        return f"{what} is the certified one, byte for byte."
    far = "" if distance is None else f" The total variation distance between the two tables is {distance:.4f}."
    return f"{what}, made again, is not the certified one.{far}"


def _by_another(
    archive: Archive,
    config: RunConfig,
    card: ModelCard,
    known: Measurements,
    generator: str,
    folder: Path,
    progress: Progress | None,
) -> Replay:
    """Fit another generator to tables of counts that follow from the answers, and draw its rows."""
    if config.is_model:
        raise ConfigError(
            f"This is the bundle of the model '{card.generator}': no generator can be fitted to its answers."
        )
    fresh = make(generator, GeneratorTask.of(config), {})
    if fresh.card.kind != "generator":
        raise ConfigError(f"'{generator}' is a {fresh.card.kind}, which cannot be fitted to the answers of a table.")
    budget = PrivacyBudget(epsilon=config.epsilon, delta=config.delta, neighbours=config.schema.neighbours)
    session = DerivedSession(config.asked.schema, budget, rows=rows_measured(known), answers=known.answers)
    drawn = rows_again(fresh.fit(session, progress or NullProgress()), config)
    folder.mkdir(parents=True, exist_ok=True)
    written = folder / "synthetic.csv"
    table = (drawn.codes, config.schema, written, folder / "synthetic.parquet", config.seed)
    write_table(*table, units=drawn.units)
    distance = _distance(archive, written, config)
    lines = (
        f"The table of '{generator}' is another one than the certified table; nothing more was spent.",
        f"The total variation distance between the two is {distance:.4f}, averaged over columns and pairs (at most 32 "
        "public bins for numbers and dates).",
    )
    return Replay(False, lines, distance=distance)


def drawn_table(bundle: str | Path, *, rows: int, seed: int) -> io.BytesIO:
    """Draw other rows from the generator of a bundle, for free; no certificate covers them.

    Parameters
    ----------
    bundle : path
        A zip or a folder.
    rows : int
        How many rows.
    seed : int
        Public. The seed and the number of rows in the certificate give the certified table.

    Returns
    -------
    file
        The rows as Parquet.

    Raises
    ------
    VerificationError
        If the bundle cannot be read, or no rows can be drawn from its model.
    ConfigError
        If it is the bundle of a model, or there cannot be so many rows.
    """
    with _opened(bundle) as (_, _, config, card, state):
        _require_rows(config)
        again = replace(config, rows=rows, seed=seed)
        if again.is_model:
            raise ConfigError("Draw at least one row.")
        drawn = rows_again(restored(card, state), again)
    made = io.BytesIO()
    write_parquet(drawn.codes, config.schema, made, seed, units=drawn.units)
    made.seek(0)
    return made


def saved_generator(bundle: str | Path) -> tuple[Generator, RunConfig, tuple[Answer, ...], float]:
    """Read the generator of a bundle, which draws its rows again.

    Parameters
    ----------
    bundle : path
        A zip or a folder.

    Returns
    -------
    fitted : Generator
    config : RunConfig
        Of the run.
    answers : tuple of Answer
        All noisy answers.
    rows : float
        The number of private rows that the answers are about, public or noisy.

    Raises
    ------
    VerificationError
        If the bundle cannot be read, or no rows can be drawn from its model.
    ConfigError
        If it is the bundle of a model.
    """
    with _opened(bundle) as (archive, _, config, card, state):
        known = measurements_from_bytes(archive.read("measurements.npz"))
        _require_rows(config)
        rows = rows_measured(known)
        fitted = restored(card, state)
    if not isinstance(fitted, Generator):
        raise ConfigError(f"'{card.generator}' draws no rows.")
    return fitted, config, known.answers, rows.value


@contextmanager
def _opened(
    bundle: str | Path, expected: bytes | None = None
) -> Iterator[tuple[Archive, Certificate, RunConfig, ModelCard, State]]:
    """Open a bundle, and read what every replay needs from it."""
    with open_archive(Path(bundle)) as archive:
        card, state = model_from_bytes(archive.read("model.safetensors"))
        yield archive, certificate_of(archive, expected), replace(config_of(archive), schema=card.schema), card, state


def _require_rows(config: RunConfig) -> None:
    if config.is_model:
        raise ConfigError(f"This is the bundle of the model '{config.generator}', which draws no rows.")


def _on_processor(fitted: PrivateModel, config: RunConfig) -> PrivateModel:
    """Return a fitted generator or model as it is read from a bundle: its rows are drawn on the processor."""
    return restore(config.generator, ModelCard.of(config).task, config.options, fitted.state())


def _told_again(fitted: PrivateModel, config: RunConfig) -> bytes:
    """Return ``model.json`` of a released model, as it is written when a bundle is sealed."""
    card, state = model_from_bytes(model_to_bytes(ModelCard.of(config), fitted.state()))
    return model_to_json(card, restored_model(card, state))


def _distance(archive: Archive, written: Path, config: RunConfig) -> float:
    with archive.open("synthetic.csv") as original:
        one, other = (read_table(table, config.schema) for table in (original, written))
    return distance_of_tables(one, other, config.schema, seed=config.seed)
