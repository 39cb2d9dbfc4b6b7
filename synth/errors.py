"""What can go wrong, as one tree.

Every message says what is wrong, where, and how to mend it; none ever holds a cell of a private table.

::

    SynthError
    ├── InputError                 what the user gave us                     exit 2
    │   ├── SchemaError            a column, bound or category
    │   ├── MissingPackageError    an extra is not installed that something needs
    │   ├── ConfigError            a configuration file
    │   │   └── DatabaseAwayError  the database does not answer
    │   │       └── CommitInDoubtError  nor whether it has what was written
    │   └── TableError             a table that cannot be read
    ├── PrivacyError               the promise cannot be kept                exit 2
    │   ├── BudgetExceededError    a cap or a session's budget is used up    exit 3
    │   ├── ApprovalRequiredError  more than the installation allows         exit 4
    │   ├── UnsupportedCostError   an accountant does not know a mechanism
    │   ├── AttackError            an attack on public rows did better than the proof allows
    │   └── LedgerError            the ledger is missing, altered or behind  exit 3
    │       └── AlreadyEnteredError  a release is in it already
    ├── DiskFullError              nothing more can be written           exit 74
    ├── VerificationError          a bundle does not say what it claims      exit 1
    │   └── UnknownFormatError     another version of this program made it
    └── JobError                   a run stopped
        └── RunCancelledError      because somebody asked for it             exit 5
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from synth.names import visible_lines

__all__ = [
    "EXIT_CODES",
    "AlreadyEnteredError",
    "ApprovalRequiredError",
    "AttackError",
    "BudgetExceededError",
    "CommitInDoubtError",
    "ConfigError",
    "DatabaseAwayError",
    "DiskFullError",
    "InputError",
    "JobError",
    "LedgerError",
    "MissingPackageError",
    "PrivacyError",
    "RunCancelledError",
    "SchemaError",
    "SynthError",
    "TableError",
    "UnknownFormatError",
    "UnsupportedCostError",
    "VerificationError",
]


EXIT_CODES = {
    0: "done",
    1: "a check found a difference: a bundle is not what it claims, a table differs, or a ledger is behind",
    2: "an input cannot be used, or the guarantee could not be kept; the message says why",
    3: "a cap would be exceeded, or the ledger of the account is not complete",
    4: "epsilon is larger than this installation allows",
    5: "cancelled",
    70: "a run stopped, or something failed inside Hermitage; the message names the incident",
    74: "a disk is full",
}
"""What a command ends with, and what it means."""


class SynthError(Exception):
    """Base of every error whose text may be shown to a user without a traceback."""

    exit_code: ClassVar[int] = 70

    def __str__(self) -> str:
        # A message may name what a stranger wrote; line breaks are ours.
        return visible_lines(super().__str__())


class InputError(SynthError):
    """Something the user gave us cannot be used."""

    exit_code = 2

    @property
    def mended(self) -> dict[str, Any]:
        """What would mend it, where a program can offer that."""
        return {}


class SchemaError(InputError):
    """A declared column, bound or category cannot be used."""


class ConfigError(InputError):
    """A configuration cannot be used."""


class MissingPackageError(InputError):
    """A package is not installed that something asked for needs."""


class DatabaseAwayError(ConfigError):
    """The database does not answer now; what was being done is as if it had never begun.

    Parameters
    ----------
    message : str
    final : bool
        Whether it was waited for as long as it may be.
    """

    def __init__(self, message: str, *, final: bool = False) -> None:
        super().__init__(message)
        self.final = final


class CommitInDoubtError(DatabaseAwayError):
    """The database went away during a commit, and nobody can tell yet whether it happened: it must not be repeated."""

    def __init__(self, message: str) -> None:
        super().__init__(message, final=True)


class TableError(InputError):
    """A table cannot be read.

    Parameters
    ----------
    message : str
    key : str
        What of its declared format does not fit, by the key of a configuration; empty where it is something else.
    choices : sequence of str
        What that may be instead, where it is known; public.
    """

    def __init__(self, message: str, *, key: str = "", choices: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.key, self.choices = key, tuple(choices)

    @property
    def mended(self) -> dict[str, Any]:
        """What would mend it, by the names of the arguments."""
        return {"key": self.key, "choices": self.choices}


class PrivacyError(SynthError):
    """A question was refused because the promise could not be kept."""

    exit_code = 2


class BudgetExceededError(PrivacyError):
    """A question, a run or an account would spend more than it may."""

    exit_code = 3


class ApprovalRequiredError(PrivacyError):
    """The installation allows no epsilon so large (``HERMITAGE_APPROVAL_EPSILON``); nobody can approve one yet."""

    exit_code = 4


class UnsupportedCostError(PrivacyError):
    """An accountant was given a mechanism it does not know."""


class AttackError(PrivacyError):
    """An attack on public or planted rows did better than the proof allows: a bug, and nothing may be released.

    Parameters
    ----------
    message : str
    incident : str
        Under which id it is recorded.
    """

    def __init__(self, message: str, *, incident: str) -> None:
        super().__init__(message)
        self.incident = incident


class LedgerError(PrivacyError):
    """The ledger is missing, altered, or older than what it protects."""

    exit_code = 3


class AlreadyEnteredError(LedgerError):
    """A release that was to be entered is in the ledger already."""


class DiskFullError(SynthError):
    """A disk is full; the message names it.

    Parameters
    ----------
    message : str
    final : bool
        Whether it was waited for as long as it may be.
    """

    exit_code = 74

    def __init__(self, message: str, *, final: bool = False) -> None:
        super().__init__(message)
        self.final = final


class VerificationError(SynthError):
    """A bundle does not say what it claims."""

    exit_code = 1


class UnknownFormatError(VerificationError):
    """A bundle was made by another version of this program, whose bundles this one does not read."""


class JobError(SynthError):
    """A run stopped before its end."""


class RunCancelledError(JobError):
    """A run stopped because somebody asked for it."""

    exit_code = 5
