"""All errors, as one tree.

Every message says what is wrong, where, and how to fix it; none ever contains a cell of a private table.

::

    SynthError
    ├── InputError                 what the user gave us                     exit 2
    │   ├── SchemaError            a column, bound or category
    │   ├── MissingPackageError    an extra that is needed is not installed
    │   ├── ConfigError            a configuration file
    │   │   ├── ClusterAwayError   the Ray cluster does not answer
    │   │   └── DatabaseAwayError  the database does not answer
    │   │       └── CommitInDoubtError  it is unknown whether a write succeeded
    │   └── TableError             a table that cannot be read
    │       └── NotAsDeclaredError  one of which most would be lost
    ├── PrivacyError               the promise cannot be kept                exit 2
    │   ├── BudgetExceededError    a cap or a session's budget is used up    exit 3
    │   ├── ApprovalRequiredError  more than the installation allows         exit 4
    │   ├── UnsupportedCostError   an accountant does not know a mechanism
    │   ├── AttackError            an attack on public rows exceeded the proven ceiling
    │   └── LedgerError            the ledger is missing, altered or behind  exit 3
    │       └── AlreadyEnteredError  a release is already in it
    ├── DiskFullError              a disk is full                            exit 74
    ├── VerificationError          a bundle is not what it claims to be      exit 1
    │   └── UnknownFormatError     a version made it that this one cannot read
    └── JobError                   a run stopped
        ├── RunCancelledError      because it was cancelled                  exit 5
        └── UncheckedError         its sealed bundle could not be checked    exit 6

Two warnings are beside the tree: :class:`SameTableWarning` and :class:`NotAsDeclaredWarning`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from synth.names import visible_lines

__all__ = [
    "EXIT_CODES",
    "NOT_CHECKED",
    "AlreadyEnteredError",
    "ApprovalRequiredError",
    "AttackError",
    "BudgetExceededError",
    "ClusterAwayError",
    "CommitInDoubtError",
    "ConfigError",
    "DatabaseAwayError",
    "DiskFullError",
    "InputError",
    "JobError",
    "LedgerError",
    "MissingPackageError",
    "NotAllowedError",
    "NotAsDeclaredError",
    "NotAsDeclaredWarning",
    "PrivacyError",
    "RunCancelledError",
    "SameTableWarning",
    "SchemaError",
    "SynthError",
    "TableError",
    "UncheckedError",
    "UnknownFormatError",
    "UnsupportedCostError",
    "VerificationError",
]


NOT_CHECKED = 6
"""Exit code of a check in which nothing wrong was found, but which could not be completed here."""

EXIT_CODES = {
    0: "done; of a check: everything was checked and holds",
    1: "a check found a difference: a bundle is not what it claims, a table differs, or a ledger is behind",
    2: "an input cannot be used, or the guarantee could not be kept; the message says why",
    3: "a cap would be exceeded, or the ledger of the account is not complete",
    4: "a second person has to approve this, or the policy of this installation does not allow it",
    5: "cancelled",
    NOT_CHECKED: "a bundle could not be checked completely here; nothing wrong was found, and the message says why",
    70: "a run failed, or an internal error occurred; the message names the incident",
    74: "a disk is full",
}
"""Exit codes of the commands, and their meaning."""


class SynthError(Exception):
    """Base of every error whose text may be shown to a user without a traceback."""

    exit_code: ClassVar[int] = 70

    def __str__(self) -> str:
        # A message may quote untrusted text; line breaks are ours.
        return visible_lines(super().__str__())


class InputError(SynthError):
    """An input from the user cannot be used."""

    exit_code = 2

    @property
    def mended(self) -> dict[str, Any]:
        """What would fix it, if a program can offer that."""
        return {}


class SchemaError(InputError):
    """A declared column, bound or category cannot be used."""


class ConfigError(InputError):
    """A configuration cannot be used."""


class MissingPackageError(InputError):
    """A package that is needed is not installed."""


class ClusterAwayError(ConfigError):
    """The Ray cluster that ``HERMITAGE_RAY`` names does not answer, or not to this process."""


class DatabaseAwayError(ConfigError):
    """The database does not answer; the operation has had no effect.

    Parameters
    ----------
    message : str
    final : bool
        Whether the waiting time is over.
    """

    def __init__(self, message: str, *, final: bool = False) -> None:
        super().__init__(message)
        self.final = final


class CommitInDoubtError(DatabaseAwayError):
    """The connection was lost during a commit, and whether it happened is unknown: it must not be repeated."""

    def __init__(self, message: str) -> None:
        super().__init__(message, final=True)


class TableError(InputError):
    """A table cannot be read.

    Parameters
    ----------
    message : str
    key : str
        The key of the declared format that does not fit; empty if it is something else.
    choices : sequence of str
        Possible values for it, if known; public.
    """

    def __init__(self, message: str, *, key: str = "", choices: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.key, self.choices = key, tuple(choices)

    @property
    def mended(self) -> dict[str, Any]:
        """What would fix it, by the names of the arguments."""
        return {"key": self.key, "choices": self.choices}


class NotAsDeclaredError(TableError):
    """Most lines of a table, or most cells of a column, would be lost if it were read as declared.

    Nothing is charged. Change the declaration, or read the table as declared all the same: ``synth.run(...,
    as_declared=True)``, ``synth run --as-declared``. For the owner only, as it depends on exact rows.

    Parameters
    ----------
    lines : sequence of str
        What would be lost, and what to change; no cell is quoted.
    """

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__(
            f"Most would be lost of the table as it is declared, so nothing was spent. {' '.join(lines)} Change what "
            "is declared, or go on as declared: --as-declared, in Python as_declared=True."
        )
        self.lines = tuple(lines)


class PrivacyError(SynthError):
    """A question was refused because the promise could not be kept."""

    exit_code = 2


class BudgetExceededError(PrivacyError):
    """A question, a run or an account would spend more than it may."""

    exit_code = 3


class ApprovalRequiredError(PrivacyError):
    """A second person has to approve such a large epsilon first, or the policy of this installation forbids it."""

    exit_code = 4


class NotAllowedError(SynthError):
    """The person who asks for something has no role that allows it, or it belongs to somebody else."""

    exit_code = 2


class UnsupportedCostError(PrivacyError):
    """An accountant was given a mechanism it does not know."""


class AttackError(PrivacyError):
    """An attack on public or planted rows exceeded the proven ceiling: a bug, so nothing may be released.

    Parameters
    ----------
    message : str
    incident : str
        Id under which it is recorded.
    """

    def __init__(self, message: str, *, incident: str) -> None:
        super().__init__(message)
        self.incident = incident


class LedgerError(PrivacyError):
    """The ledger is missing, altered, or older than what it protects."""

    exit_code = 3


class AlreadyEnteredError(LedgerError):
    """A release to be entered is already in the ledger."""


class DiskFullError(SynthError):
    """A disk is full; the message names it.

    Parameters
    ----------
    message : str
    final : bool
        Whether the waiting time is over.
    """

    exit_code = 74

    def __init__(self, message: str, *, final: bool = False) -> None:
        super().__init__(message)
        self.final = final


class VerificationError(SynthError):
    """A bundle is not what it claims to be."""

    exit_code = 1


class UnknownFormatError(VerificationError):
    """A bundle was made by a version of this program whose bundles this one does not read."""

    exit_code = NOT_CHECKED


class JobError(SynthError):
    """A run stopped before its end."""


class RunCancelledError(JobError):
    """A run was cancelled."""

    exit_code = 5


class UncheckedError(JobError):
    """The bundle of a run is sealed, but could not be checked here; :func:`synth.check_again` does so later.

    Parameters
    ----------
    message : str
    run_id : str
        The run whose bundle waits.
    """

    exit_code = NOT_CHECKED

    def __init__(self, message: str, *, run_id: str) -> None:
        super().__init__(message)
        self.run_id = run_id


class NotAsDeclaredWarning(UserWarning):
    """More than a twentieth of a column, or of the lines of a table, is not as declared and is lost.

    Python gives it before anything is charged; turned into an error, it stops there. It is for the owner only.
    """


class SameTableWarning(UserWarning):
    """A table has the same content as one that was taken in under another account.

    If both are about the same people, neither account's total includes what the other spent. Python gives it before
    anything is charged, at the line that called this program; turned into an error, it stops there.

    It is for the owner only. Whether two tables are equal depends on every row of both, so no bundle says it: leave it
    out when you publish the output of a notebook.
    """
