"""Check a bundle with the bundle alone: no database, no network, no private table, little memory, little time.

A bundle is an untrusted file. It is read in a separate process that may use one gibibyte and one minute. There are
three outcomes: it holds, it does not, or it could not be checked here. A step that lacks memory, time, a package, or
the versions and the processor that made a file, was not completed, which is neither a pass nor a failure.
"""

from __future__ import annotations

import io
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO, Self

from synth.bundle.fields import Check, stated_only
from synth.errors import NOT_CHECKED, InputError, SynthError, VerificationError
from synth.names import shown
from synth.system.confined import CHUNK, Confined
from synth.system.machine import cuda_library_bytes

__all__ = [
    "CANNOT_SHOW",
    "MEMORY_BYTES",
    "SECONDS",
    "Findings",
    "Limits",
    "Outcome",
    "State",
    "Step",
    "Verdict",
    "cannot_show",
    "key_of",
    "left_out",
    "verdict_of",
    "verify",
]

CANNOT_SHOW = (
    "that the noise was really drawn from the stated distribution at the stated scale, a private choice with the "
    "stated parameter, or random rows with the stated probability",
    "that the receipts are complete: that no other question was asked about the rows",
    "which other candidates a private choice was made from: only the chosen one is kept",
    "that the declared unit is right: that no one has more rows than stated, under one id or several",
    "that bounds and categories marked as declared were chosen without looking at the rows",
    "what else was released about the same account, or about the same people under another: the certificate states the "
    "head of the account's ledger, not its entries",
    "that nobody looked at the rows before choosing the configuration, and that the run was not interrupted: what the "
    "certificate says of that is only stated",
    "that words chosen by the owner (the account, the names of columns, categories, rules, options, signs of the table "
    "format) and the seed reveal nothing about single rows",
    "that what is only stated is true: " + "; ".join(dict.fromkeys(one.what for one in stated_only())),
)
"""What no check of a bundle can establish: for this you rely on the program and on the owner."""


def cannot_show(read_columns: Sequence[str]) -> tuple[str, ...]:
    """Return :data:`CANNOT_SHOW` for one bundle.

    Parameters
    ----------
    read_columns : sequence of str
        The columns whose ranges and categories were taken from the rows.
    """
    if not read_columns:
        return CANNOT_SHOW
    names = ", ".join(map(shown, read_columns))
    told = f"what the ranges and categories of {names} tell about anyone: the owner took them from the rows"
    return (told, *CANNOT_SHOW)


_NOT_FITTED = "that the model was fitted to these answers and to nothing else"
_NOT_ASKED = (
    "that these are the questions that '{}' asks, in this order and with these shares of the budget: some follow from "
    "models that are fitted on the way"
)
_NOT_DRAWN = "that synthetic.csv is what the sealed model draws, and report.json what the rows and the answers give"
_NOT_REPORTED = "that report.json is what the sealed model and the answers give"
_NOT_TRAINED = "that the predictors of held-out rows were trained on these rows"
_REFIT = "synth verify --refit does"
_USUAL = ", and the usual check where that takes seconds"
_SLOW = "; the usual check leaves out what takes longer than seconds"
_ELSEWHERE = (
    ", on a computer like the one that made the bundle; here other last digits prove nothing, as the certificate "
    "states {}"
)
_QUICK = "synth verify without --quick does"


class Outcome(StrEnum):
    """What a check concludes."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNKNOWN = "could not be checked here"

    @property
    def exit_code(self) -> int:
        """The exit code of a command that ends with it."""
        return {Outcome.HOLDS: 0, Outcome.FAILS: VerificationError.exit_code, Outcome.UNKNOWN: NOT_CHECKED}[self]


class State(StrEnum):
    """How a step of a check ended."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_CHECKED = "not checked"


def left_out(
    generator: str,
    *,
    quick: bool = False,
    refit: bool = False,
    predicted: bool = False,
    soon: bool | None = None,
    elsewhere: str = "",
) -> tuple[str, ...]:
    """Return what a check does not recompute, in sentences that end with what does.

    Parameters
    ----------
    generator : str
        Name of the generator or model in the certificate; untrusted.
    quick, refit : bool
        As in :func:`verify`.
    predicted : bool
        Whether predictions of held-out rows were charged.
    soon : bool, optional
        Whether the usual check fitted again, as that takes seconds; None where that is not known.
    elsewhere : str
        If what the usual check fitted proves nothing: how this computer differs from the one that made the bundle.
    """
    from synth.estimators import MODELS, describe

    try:
        card = describe(generator)
    except SynthError:
        return ()
    of_model = generator in MODELS
    left = []
    if quick:
        left.append(f"{_NOT_REPORTED if of_model else _NOT_DRAWN} ({_QUICK})")
    if not refit and not soon:
        does = _REFIT
        if not (quick or card.asks_first or card.fits_at_once):
            does += {None: _USUAL, False: _SLOW}[soon] if not elsewhere else _ELSEWHERE.format(elsewhere)
        if quick and card.asks_first:
            left.append(f"{_NOT_ASKED.partition(':')[0].format(generator)} ({_QUICK})")
        elif not card.asks_first:
            left.append(f"{_NOT_ASKED.format(generator)} ({does})")
        if quick or not card.fits_at_once:
            left.append(f"{_NOT_FITTED} ({does})")
    if not refit and predicted and not of_model:
        left.append(f"{_NOT_TRAINED} ({_REFIT})")
    return tuple(left)


MEMORY_BYTES = 2**30
SECONDS = 60.0

_PATIENCE = 10
"""How much longer than its processor time a check may take by the clock, on a machine that is busy."""

_MOST_GIBIBYTES = 2**20
_MOST_SECONDS = 10**6


@dataclass(frozen=True, slots=True)
class Limits:
    """What a check may use, as a user gives it.

    Attributes
    ----------
    memory : float
        Gibibytes.
    seconds : float
        Of processor time.

    Raises
    ------
    InputError
        If one is not positive, or more than any machine has.
    """

    memory: float = MEMORY_BYTES / 2**30
    seconds: float = SECONDS

    def __post_init__(self) -> None:
        if not (0 < self.memory <= _MOST_GIBIBYTES and 0 < self.seconds <= _MOST_SECONDS):
            raise InputError(
                f"The limits of a check must be positive: at most {_MOST_GIBIBYTES:,} GiB of memory and "
                f"{_MOST_SECONDS:,} seconds, got {self.memory:g} GiB and {self.seconds:g} seconds."
            )

    @property
    def memory_bytes(self) -> int:
        """The memory in bytes, at least one."""
        return max(1, int(self.memory * 2**30))


_LIBRARIES = 192 * 2**20
"""Memory of the libraries' own pages, which the limit on a process does not count."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a check.

    Attributes
    ----------
    name : str
        What is checked.
    state : State
    found : tuple of str
        Sentences: what is wrong, or why it could not be checked here and what that takes.
    """

    name: str
    state: State
    found: tuple[str, ...] = ()


@dataclass(slots=True)
class Findings:
    """What a check has found so far.

    Attributes
    ----------
    promised : list of str
        The promise in words.
    steps : list of Step
        Every step that has ended, in order.
    left : list of str
        What this check does not recompute.
    facts : dict
        Values of the certificate for programs, and the fingerprint of its key.
    step : str
        The current step; empty at the end.
    is_extra : bool
        Whether nobody asked for the current step, so that it may be stopped without harm: what it was to show is in
        ``left`` then.
    """

    promised: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    step: str = "the bundle as a file"
    is_extra: bool = False

    @property
    def checked(self) -> list[str]:
        """Names of the steps that passed."""
        return [step.name for step in self.steps if step.state is State.PASSED]

    @property
    def failures(self) -> list[str]:
        """All differences, each with its reason."""
        return [sentence for step in self.steps if step.state is State.FAILED for sentence in step.found]

    @property
    def not_checked(self) -> list[str]:
        """All steps that could not be checked here, each with its reason."""
        return [sentence for step in self.steps if step.state is State.NOT_CHECKED for sentence in step.found]

    @property
    def outcome(self) -> Outcome:
        """What follows: one failure decides, then one step that could not be checked."""
        if self.failures:
            return Outcome.FAILS
        return Outcome.UNKNOWN if self.not_checked or not self.steps else Outcome.HOLDS

    def end(self, name: str, state: State, *found: str) -> None:
        """Add a step that has ended."""
        self.steps.append(Step(name, state, found))

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Self:
        """Read it back."""
        steps = [Step(one["name"], State(one["state"]), tuple(one["found"])) for one in said["steps"]]
        return cls(**{**said, "steps": steps})


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check found.

    Attributes
    ----------
    outcome : Outcome
        Whether the bundle holds, does not hold, or could not be checked here.
    lines : tuple of str
        What is promised and who is protected, the assumptions, what was checked, what could not be checked and why,
        what was not recomputed, and what no check can show; each difference with its reason.
    json : dict
        The same for programs: outcome, ok, steps, failures, checked, not_checked, epsilon, delta, neighbours,
        row_epsilon (where single cells are hidden), not_covered, fingerprint, signer, cannot_show, left_out.
    """

    outcome: Outcome
    lines: tuple[str, ...]
    json: dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether every check was completed and passed."""
        return self.outcome is Outcome.HOLDS


def verify(
    path: str | Path | BinaryIO,
    public_key: str | Path | bytes | None = None,
    *,
    quick: bool = False,
    refit: bool = False,
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
    quick : bool
        Leave out what draws the rows and makes the report again; the verdict says so.
    refit : bool
        Also fit the generator or model to the noisy answers again.
    memory_bytes : int
        Memory limit; raise it for a large bundle that you trust.
    seconds : float
        Limit on processor time. By the clock a check may take ten times as long, because a machine may be busy.

    Raises
    ------
    InputError
        If there is no such bundle, the file of the public key cannot be read, or a limit is not positive or larger
        than any machine allows.
    """
    memory_bytes = Limits(min(memory_bytes, 2**60) / 2**30, seconds).memory_bytes
    if quick and refit:
        raise InputError("A quick check fits nothing again: use --quick or --refit, not both.")
    if isinstance(path, str | Path) and not Path(path).exists():
        raise InputError(f"There is no bundle '{Path(path).name}'. Check the path.")
    expected = key_of(public_key)
    opened = None if isinstance(path, str | Path) else path
    size = 0 if opened is None else opened.seek(0, io.SEEK_END)
    request = {
        "path": str(Path(path).absolute()) if isinstance(path, str | Path) else None,
        "size": size,
        "public_key": None if expected is None else expected.decode("latin-1"),
        "quick": quick,
        "refit": refit,
        # What holds the bundle, its arrays and their bytes written again does not count, nor what CUDA takes unasked.
        "memory_bytes": max(memory_bytes - _LIBRARIES, _LIBRARIES) + 3 * size + cuda_library_bytes(),
        "cpu_seconds": int(seconds) + 1,
    }
    with Confined("synth.bundle.checks", seconds=_PATIENCE * seconds) as process:
        findings, timed_out = _listen(process, json.dumps(request).encode() + b"\n", opened)
        if findings.step and not findings.is_extra:
            stopped = _stopped(findings.step, timed_out=timed_out or process.used_up_its_time())
            findings.end(findings.step, State.NOT_CHECKED, stopped)
    return verdict_of(findings, key_given=expected is not None)


def verdict_of(findings: Findings, *, key_given: bool) -> Verdict:
    """Return the verdict on what a finished check has found.

    Parameters
    ----------
    findings : Findings
    key_given : bool
        Whether the signature was checked against a key that the reader trusts.
    """
    outcome = findings.outcome
    unshown = cannot_show(findings.facts.get("not_covered", ()))
    signer = "not checked"
    if key_given and outcome is Outcome.FAILS:
        signer = "see failures"
    elif key_given and Check.SIGNATURE in findings.checked:
        signer = "as expected"
    lines = [*findings.promised, *(f"Checked: {what}." for what in findings.checked)]
    fingerprint = findings.facts.get("fingerprint")
    if fingerprint is not None:
        lines.append(f"Signed by the key with fingerprint {fingerprint}.")
    nothing = not (findings.checked or findings.failures)
    if fingerprint is not None and not key_given and not nothing:
        lines.append(
            "Signer not checked: compare this fingerprint with the owner's, or give the owner's key, on the Start page "
            "or with synth verify --public-key."
        )
    lines += [f"NOT CHECKED: {lack}" for lack in findings.not_checked]
    lines += [f"FAILED: {failure}" for failure in findings.failures]
    elsewhere = findings.facts.get("elsewhere")
    if elsewhere:
        lines.append(f"Stated, and different here: {elsewhere}.")
    if not nothing:
        lines += [f"Not recomputed here: {sentence}." for sentence in findings.left]
        lines += [f"No check can show {sentence}." for sentence in unshown]
    lines.append(_last_word(findings))
    # Text from the bundle stays on its own line: no line breaks, nothing that moves the cursor of a terminal, and no
    # runs of blanks that would begin a line of their own on a narrow one.
    lines = [re.sub(" {2,}", " ", line) for line in lines]
    lines = ["".join(mark if mark.isprintable() else "\N{REPLACEMENT CHARACTER}" for mark in line) for line in lines]
    certified = dict.fromkeys(("epsilon", "delta", "neighbours", "row_epsilon", "fingerprint"))
    document = {
        **certified,
        "not_covered": [],
        **findings.facts,
        "outcome": outcome.value,
        "ok": outcome is Outcome.HOLDS,
        "steps": findings.to_json()["steps"],
        "failures": findings.failures,
        "checked": findings.checked,
        "not_checked": findings.not_checked,
        "signer": signer,
        "cannot_show": list(unshown),
        "left_out": list(findings.left),
    }
    return Verdict(outcome, tuple(lines), document)


def _last_word(findings: Findings) -> str:
    if findings.outcome is Outcome.FAILS:
        return "The bundle is NOT what it claims to be."
    if findings.outcome is Outcome.HOLDS:
        return "All checks passed. What they leave out is listed above."
    if not findings.checked:
        return "Nothing in the bundle was checked."
    return "Nothing wrong was found, but not everything could be checked here."


def key_of(public_key: str | Path | bytes | None) -> bytes | None:
    """Return the bytes of a public key that a reader gives, whatever they are.

    Raises
    ------
    InputError
        If its file cannot be read.
    """
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
    return Findings.from_json(json.loads(whole)) if whole else Findings()


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
