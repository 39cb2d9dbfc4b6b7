"""Models of a joint distribution: fitted to noisy tables, never to rows."""

from __future__ import annotations

from synth.models.marginals import JointModel, NoisyMarginal

__all__ = ["JointModel", "NoisyMarginal"]
