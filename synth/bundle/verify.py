"""Check a bundle with nothing but the bundle: no database, no network, no private table, little memory, little time.

A bundle is a stranger's file. It is read in a process of its own that may use a gibibyte and a minute; what a limit
stops could not be checked, which is neither "holds" nor "does not hold".
"""

from __future__ import annotations

import io
import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from synth.errors import InputError
from synth.system.confined import CHUNK, Confined

__all__ = ["CANNOT_SHOW", "MEMORY_BYTES", "SECONDS", "Findings", "Verdict", "left_to_replay", "verdict_of", "verify"]

CANNOT_SHOW = (
    "that the noise was really drawn from the stated law and at the stated scale, nor that a private choice was drawn "
    "with the stated parameter",
    "that the receipts are complete, so that no other question was asked of the rows",
    "which other candidates a private choice was made among: the chosen one alone is kept",
    "that the declared unit is true, so that nobody has more rows than stated under one id or under several",
    "that bounds and categories marked as declared were written down without looking at the rows",
    "what else the account has released: the head of its ledger is stated, not shown",
    "that words which the owner chose (the account, what is assumed, names of columns and questions) say nothing about "
    "single rows",
)
"""What no check of a bundle can establish; it rests on the program and on the owner's word."""

_LEFT_TO_REPLAY = (
    "that synthetic.csv was drawn from the model and the numbers of report.json were worked out from the synthetic "
    "rows and the noisy answers (synth replay makes both again)",
    "that the model was fitted to the noisy answers and to nothing else, that the questions are those that the "
    "generator asks, and that each answer cost the share of the budget that the generator gives to its question (synth "
    "replay --refit fits it again)",
    "that the trees which predict held-out rows, where predictions were paid for, were trained on the synthetic "
    "rows (replay takes them as they are)",
)
_LEFT_TO_REPLAY_OF_MODEL = (
    "that the model was fitted to the noisy answers and to nothing else, that the questions are those that the model "
    "asks, and that each answer cost the share of the budget that the model gives to its question (synth replay fits "
    "it again)",
    "that the numbers of report.json were worked out from the model and the noisy answers (synth replay makes them "
    "again)",
)


def left_to_replay(*, of_model: bool) -> tuple[str, ...]:
    """Return what verifying the bundle of a table or of a model leaves to a replay, which takes longer."""
    return _LEFT_TO_REPLAY_OF_MODEL if of_model else _LEFT_TO_REPLAY


MEMORY_BYTES = 2**30
SECONDS = 60.0

_LIBRARIES = 192 * 2**20
"""What the libraries' own pages take, which the limit on a process does not count."""


@dataclass(slots=True)
class Findings:
    """What a check has found so far; all of it plain values.

    Attributes
    ----------
    promised : list of str
        The promise in words.
    checked, failures : list of str
        Steps that found nothing; what differs, with its reason.
    not_compared : list of str
        Files whose bytes only the versions of the certificate could make again.
    not_checked : list of str
        Steps that need a package which is not installed here, or more memory or time than is allowed: nobody knows what
        they would find.
    facts : dict
        Numbers of the certificate for programs, and the fingerprint of its key.
    of_model : bool
        Whether a model is released, and no table.
    step : str
        What is being done.
    """

    promised: list[str] = field(default_factory=list)
    checked: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    not_compared: list[str] = field(default_factory=list)
    not_checked: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    of_model: bool = False
    step: str = "the bundle as a file"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check found.

    Attributes
    ----------
    ok : bool
        True when everything was checked, and nothing differs from what the certificate states.
    lines : tuple of str
        What is promised, to whom, under which assumptions, what was checked, what was not compared and what cannot be
        shown; each difference with its reason.
    json : dict
        The same for programs: ok, failures, checked, not_compared, not_checked, epsilon, delta, neighbours, row_epsilon
        (where single cells are hidden), not_covered, fingerprint, signer, cannot_show, left_to_replay.
    """

    ok: bool
    lines: tuple[str, ...]
    json: dict[str, Any] = field(default_factory=dict)


def verify(
    path: str | Path | BinaryIO,
    public_key: str | Path | bytes | None = None,
    *,
    memory_bytes: int = MEMORY_BYTES,
    seconds: float = SECONDS,
) -> Verdict:
    """Check a bundle, a zip or a folder; a bundle that differs is a verdict, never an exception.

    Parameters
    ----------
    path : str, Path or binary file
        The bundle. A folder that holds ``bundle.zip`` is checked through that zip, and the loose files beside it too.
        A file that is open is read from its beginning and piped to the checking process, which holds it in memory.
    public_key : path or bytes, optional
        PEM of the signer you expect; without it the signature is checked against the key in the bundle only, and the
        verdict says "signer not checked".
    memory_bytes : int
        What checking may take; more for a large bundle that you trust.
    seconds : float
        How long it may take.

    Raises
    ------
    InputError
        If the file of the public key cannot be read, or a limit is not positive.
    """
    if not (memory_bytes > 0 and seconds > 0):
        raise InputError("Checking needs some memory and some time: give positive limits.")
    expected = _key(public_key)
    opened = None if isinstance(path, str | Path) else path
    size = 0 if opened is None else opened.seek(0, io.SEEK_END)
    request = {
        "path": str(Path(path).absolute()) if isinstance(path, str | Path) else None,
        "size": size,
        "public_key": None if expected is None else expected.decode("latin-1"),
        # What holds the bundle itself, with room to grow, is not what checking it may take.
        "memory_bytes": max(memory_bytes - _LIBRARIES, _LIBRARIES) + size + size // 4,
        "cpu_seconds": int(seconds) + 1,
    }
    with Confined("synth.bundle.checks", seconds=seconds) as process:
        findings, timed_out = _listen(process, json.dumps(request).encode() + b"\n", opened)
        if findings.step:
            findings.not_checked.append(_stopped(findings.step, timed_out=timed_out or process.used_up_its_time()))
    return verdict_of(findings, key_given=expected is not None)


def verdict_of(findings: Findings, *, key_given: bool) -> Verdict:
    """Put what was found into words.

    Parameters
    ----------
    findings : Findings
        Of a check that has ended.
    key_given : bool
        Whether the signer was compared with a key that the reader trusts.
    """
    ok = not (findings.failures or findings.not_checked)
    signer = "not checked" if not key_given else ("as expected" if ok else "see failures")
    lines = [*findings.promised, *(f"Checked: {what}." for what in findings.checked)]
    fingerprint = findings.facts.get("fingerprint")
    if fingerprint is not None:
        lines.append(f"Signed by the key with fingerprint {fingerprint}.")
    nothing = not (findings.checked or findings.failures)
    if not key_given and not nothing:
        lines.append(
            "Signer not checked: compare this fingerprint with the owner's, or give the owner's key: synth verify "
            "--public-key."
        )
    lines += [
        f"Not compared: {name} was written by other versions than those installed here (the certificate names them), "
        "and they would have to make it again. What is checked above holds for it; the rest of it was not looked at."
        for name in findings.not_compared
    ]
    lines += [f"NOT CHECKED: {lack}" for lack in findings.not_checked]
    lines += [f"FAILED: {failure}" for failure in findings.failures]
    left = left_to_replay(of_model=findings.of_model)
    if not nothing:
        lines += [f"Not recomputed here: {sentence}." for sentence in left]
        lines += [f"No check can show {sentence}." for sentence in CANNOT_SHOW]
    lines.append(_last_word(findings))
    # What a stranger wrote stays within its own line: no line break, nothing that moves the cursor of a terminal.
    lines = ["".join(mark if mark.isprintable() else "\N{REPLACEMENT CHARACTER}" for mark in line) for line in lines]
    certified = dict.fromkeys(("epsilon", "delta", "neighbours", "row_epsilon", "fingerprint"))
    document = {
        **certified,
        "not_covered": [],
        **findings.facts,
        "ok": ok,
        "failures": list(findings.failures),
        "checked": list(findings.checked),
        "not_compared": list(findings.not_compared),
        "not_checked": list(findings.not_checked),
        "signer": signer,
        "cannot_show": list(CANNOT_SHOW),
        "left_to_replay": list(left),
    }
    return Verdict(ok, tuple(lines), document)


def _last_word(findings: Findings) -> str:
    if findings.failures:
        return "The bundle does NOT hold what it claims."
    if findings.not_checked and not findings.checked:
        return "Nothing of the bundle was checked."
    if findings.not_checked:
        return "Nothing differs in what was checked, but not everything could be checked here."
    return "The bundle holds what it claims."


def _key(public_key: str | Path | bytes | None) -> bytes | None:
    if public_key is None or isinstance(public_key, bytes):
        return public_key
    try:
        return Path(public_key).read_bytes()
    except OSError:
        raise InputError(f"The public key '{Path(public_key).name}' cannot be read. Check that it exists.") from None


def _listen(process: Confined, request: bytes, bundle: BinaryIO | None) -> tuple[Findings, bool]:
    """Return the last findings that the process told, and whether time ran out before its last word."""
    try:
        process.questions.write(request)
        if bundle is not None:
            bundle.seek(0)
            shutil.copyfileobj(bundle, process.questions, CHUNK)
        process.questions.close()
    except BrokenPipeError:
        return Findings(), False
    told = bytearray()
    try:
        while block := process.read(CHUNK):
            told += block
            # Each line holds all that the one before it held.
            del told[: told.rfind(b"\n", 0, max(told.rfind(b"\n"), 0)) + 1]
    except TimeoutError:
        return _last(told), True
    return _last(told), False


def _last(told: bytearray) -> Findings:
    whole = bytes(told).rpartition(b"\n")[0].rpartition(b"\n")[2]
    return Findings(**json.loads(whole)) if whole else Findings()


def _stopped(step: str, *, timed_out: bool) -> str:
    if timed_out:
        return (
            f"{step[0].upper()}{step[1:]} could not be checked here in the time allowed, nor what comes after it. If "
            "you trust where the bundle comes from, allow more: synth verify --seconds."
        )
    return (
        f"{step[0].upper()}{step[1:]} could not be checked here, nor what comes after it: the check broke off. The "
        "bundle is damaged, or needs more memory than is allowed. If you trust where it comes from, allow more: synth "
        "verify --memory."
    )
