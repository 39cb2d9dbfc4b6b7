"""Check a bundle with the bundle alone: no database, no network, no private table, little memory, little time.

A bundle is an untrusted file. It is read in a separate process that may use one gibibyte and one minute. A check that a
limit stops was not completed, which is neither a pass nor a failure.
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
    "that the noise was really drawn from the stated distribution at the stated scale, or a private choice with the "
    "stated parameter",
    "that the receipts are complete: that no other question was asked about the rows",
    "which other candidates a private choice was made from: only the chosen one is kept",
    "that the declared unit is right: that no one has more rows than stated, under one id or several",
    "that bounds and categories marked as declared were chosen without looking at the rows",
    "what else was released about the same account: the certificate states the head of its ledger, not its entries",
    "that words chosen by the owner (the account, the assumptions, the names of columns and questions) reveal nothing "
    "about single rows",
)
"""What no check of a bundle can establish: for this you rely on the program and on the owner."""

_LEFT_TO_REPLAY = (
    "that synthetic.csv was drawn from the model, and that the numbers in report.json were computed from the synthetic "
    "rows and the noisy answers (synth replay recomputes both)",
    "that the model was fitted to the noisy answers only, that the generator asks exactly these questions, and that "
    "each answer cost the share of the budget that the generator gives its question (synth replay --refit fits it "
    "again)",
    "that the predictors of held-out rows, where charged predictions were made, were trained on the synthetic rows "
    "(replay uses them as they are)",
)
_LEFT_TO_REPLAY_OF_MODEL = (
    "that the model was fitted to the noisy answers only, that it asks exactly these questions, and that each answer "
    "cost the share of the budget that the model gives its question (synth replay fits it again)",
    "that the numbers in report.json were computed from the model and the noisy answers (synth replay recomputes them)",
)


def left_to_replay(*, of_model: bool) -> tuple[str, ...]:
    """Return what verifying a table's or a model's bundle leaves to replay, which takes longer."""
    return _LEFT_TO_REPLAY_OF_MODEL if of_model else _LEFT_TO_REPLAY


MEMORY_BYTES = 2**30
SECONDS = 60.0

_LIBRARIES = 192 * 2**20
"""Memory of the libraries' own pages, which the limit on a process does not count."""


@dataclass(slots=True)
class Findings:
    """What a check has found so far, in plain values.

    Attributes
    ----------
    promised : list of str
        The promise in words.
    checked, failures : list of str
        Checks that passed; differences, each with its reason.
    not_compared : list of str
        Files that only the versions in the certificate could reproduce byte for byte.
    not_checked : list of str
        Checks that need a package that is not installed here, or more memory or time than allowed: their result is
        unknown.
    facts : dict
        Values of the certificate for programs, and the fingerprint of its key.
    of_model : bool
        Whether a model is released instead of a table.
    step : str
        The current step.
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
        True if all checks were completed and passed.
    lines : tuple of str
        What is promised and who is protected, the assumptions, what was checked, what was not compared or recomputed,
        and what no check can show; each difference with its reason.
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
    """Check a bundle, a zip or a folder; a failed check is part of the verdict, never an exception.

    Parameters
    ----------
    path : str, Path or binary file
        The bundle. In a folder that contains ``bundle.zip``, that zip is checked, and the loose files next to it too.
        An open file is read from its beginning and piped to the checking process, which keeps it in memory.
    public_key : path or bytes, optional
        PEM of the expected signer's key. Without it the signature is checked only against the key in the bundle, and
        the verdict says "signer not checked".
    memory_bytes : int
        Memory limit; raise it for a large bundle that you trust.
    seconds : float
        Time limit.

    Raises
    ------
    InputError
        If the file of the public key cannot be read, or a limit is not positive.
    """
    if not (memory_bytes > 0 and seconds > 0):
        raise InputError("The memory and time limits must be positive.")
    expected = _key(public_key)
    opened = None if isinstance(path, str | Path) else path
    size = 0 if opened is None else opened.seek(0, io.SEEK_END)
    request = {
        "path": str(Path(path).absolute()) if isinstance(path, str | Path) else None,
        "size": size,
        "public_key": None if expected is None else expected.decode("latin-1"),
        # The memory that holds the bundle itself, with room to grow, does not count.
        "memory_bytes": max(memory_bytes - _LIBRARIES, _LIBRARIES) + size + size // 4,
        "cpu_seconds": int(seconds) + 1,
    }
    with Confined("synth.bundle.checks", seconds=seconds) as process:
        findings, timed_out = _listen(process, json.dumps(request).encode() + b"\n", opened)
        if findings.step:
            findings.not_checked.append(_stopped(findings.step, timed_out=timed_out or process.used_up_its_time()))
    return verdict_of(findings, key_given=expected is not None)


def verdict_of(findings: Findings, *, key_given: bool) -> Verdict:
    """Return the verdict on what a finished check has found.

    Parameters
    ----------
    findings : Findings
    key_given : bool
        Whether the signature was checked against a key that the reader trusts.
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
            "Signer not checked: compare this fingerprint with the owner's, or give the owner's key with synth verify "
            "--public-key."
        )
    lines += [
        f"Not compared: {name} was written by other versions than those installed here (the certificate names them), "
        "and only those could reproduce it byte for byte. It passed the checks above; nothing else in it was checked."
        for name in findings.not_compared
    ]
    lines += [f"NOT CHECKED: {lack}" for lack in findings.not_checked]
    lines += [f"FAILED: {failure}" for failure in findings.failures]
    left = left_to_replay(of_model=findings.of_model)
    if not nothing:
        lines += [f"Not recomputed here: {sentence}." for sentence in left]
        lines += [f"No check can show {sentence}." for sentence in CANNOT_SHOW]
    lines.append(_last_word(findings))
    # Text from the bundle stays on its own line: no line breaks, nothing that moves the cursor of a terminal.
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
        return "The bundle is NOT what it claims to be."
    if findings.not_checked and not findings.checked:
        return "Nothing in the bundle was checked."
    if findings.not_checked:
        return "No check failed, but not all checks could be completed here."
    return "All checks passed. What they leave out is listed above."


def _key(public_key: str | Path | bytes | None) -> bytes | None:
    if public_key is None or isinstance(public_key, bytes):
        return public_key
    try:
        return Path(public_key).read_bytes()
    except OSError:
        raise InputError(f"The public key '{Path(public_key).name}' cannot be read. Check that it exists.") from None


def _listen(process: Confined, request: bytes, bundle: BinaryIO | None) -> tuple[Findings, bool]:
    """Return the last findings that the process reported, and whether it ran out of time before its last report."""
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
            # Each line repeats everything in the line before it.
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
            f"{step[0].upper()}{step[1:]} could not be checked in the time allowed, nor anything after it. If you "
            "trust the source of this bundle, allow more time: synth verify --seconds."
        )
    return (
        f"{step[0].upper()}{step[1:]} could not be checked, nor anything after it: the check stopped. The bundle is "
        "damaged, or needs more memory than allowed. If you trust its source, allow more memory: synth verify --memory."
    )
