"""The version of this program; whoever needs the number needs nothing else of it."""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.8.0"
