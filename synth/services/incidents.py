"""Failures nobody foresaw: an id for the user, the type and the place in the code for the log, never the message.

Messages of libraries quote cells ("could not convert string to float: ..."), so none is shown, logged or stored.
"""

from __future__ import annotations

import logging
import traceback
from pathlib import Path
from uuid import uuid4

__all__ = ["code_location", "record_incident"]

logger = logging.getLogger(__name__)

_ROOT = Path(__file__).resolve().parents[2]


def record_incident(error: BaseException) -> str:
    """Log the type of an error and where it came from, and return the incident's id (8 hexadecimal digits)."""
    incident = uuid4().hex[:8]
    logger.error("incident %s: %s at %s", incident, type(error).__name__, code_location(error))
    return incident


def code_location(error: BaseException) -> str:
    """Return "file:line in function" of the innermost frame of ours, without the text of any line."""
    frames = traceback.extract_tb(error.__traceback__, limit=None)
    ours = [frame for frame in frames if Path(frame.filename).is_relative_to(_ROOT / "synth")]
    chosen = (ours or frames)[-1:]
    return " ".join(f"{Path(frame.filename).name}:{frame.lineno} in {frame.name}" for frame in chosen) or "nowhere"
