"""Unexpected failures: an id for the user, the type and the place in the code for the log, never the message.

Messages of libraries may quote cells ("could not convert string to float: ..."), so they are never shown, logged or
stored.
"""

from __future__ import annotations

import logging
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar
from uuid import uuid4

from synth.errors import NotAsDeclaredWarning, SameTableWarning, SynthError
from synth.system.disk import disk_full, is_full
from synth.system.packages import missing_package
from synth.system.settings import Settings

__all__ = ["code_location", "in_own_words", "own_error", "record_incident"]

logger = logging.getLogger(__name__)

_P = ParamSpec("_P")
_R = TypeVar("_R")

_ROOT = Path(__file__).resolve().parents[2]


def record_incident(error: BaseException) -> str:
    """Log the type and the origin of an error, and return the id of the incident (8 hexadecimal digits)."""
    incident = uuid4().hex[:8]
    logger.error("incident %s: %s at %s", incident, type(error).__name__, code_location(error))
    return incident


def in_own_words(function: Callable[_P, _R], /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
    """Call a function; return its result, or raise only errors of this program.

    An error of a library becomes an incident. An error of ours loses its cause and context: ``from None`` only hides
    the exception of the library, and a program that logs or forwards errors might show it with the cell that it quotes.

    Raises
    ------
    SynthError
        The error that the function raised, or one with the id of an incident.
    """
    try:
        return function(*args, **kwargs)
    except (SynthError, SameTableWarning, NotAsDeclaredWarning) as error:  # warnings that the caller has made errors
        failure: Exception = error
    except Exception as error:
        failure = own_error(error) or SynthError(
            f"Something failed inside Hermitage. Incident {record_incident(error)}."
        )
    # Raised out here, where no other exception is active that would become its context.
    failure.__cause__ = failure.__context__ = None
    raise failure.with_traceback(None)


def own_error(error: BaseException, *folders: Path) -> SynthError | None:
    """Return our own error for a full disk or a package that is not installed, or None for other errors.

    Parameters
    ----------
    error : BaseException
    *folders : Path
        Folders that were written into, besides the home of this installation, the working and the temporary folder.
    """
    if not is_full(error):
        return missing_package(error)
    home = Settings.from_environment().home
    return disk_full(*folders, home, Path.cwd(), Path(tempfile.gettempdir()))


def code_location(error: BaseException) -> str:
    """Return "file:line in function" of our innermost frame, without any text of the code.

    Of an error that was found and not raised, it is the place where that was noticed.
    """
    frames = traceback.extract_tb(error.__traceback__) or traceback.extract_stack()[:-2]
    ours = [frame for frame in frames if Path(frame.filename).is_relative_to(_ROOT / "synth")]
    chosen = (ours or frames)[-1:]
    return " ".join(f"{Path(frame.filename).name}:{frame.lineno} in {frame.name}" for frame in chosen)
