"""Models of a joint distribution: fitted to noisy tables, never to rows."""

from __future__ import annotations

from synth.models.answers import JointModel, Measured

__all__ = ["JointModel", "Measured"]
