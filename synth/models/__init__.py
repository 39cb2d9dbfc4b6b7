"""Models as plain mathematics: of noisy answers, or of arrays that their caller answers for; no session, no upload."""

from __future__ import annotations

from synth.models.marginals import JointModel, NoisyMarginal

__all__ = ["JointModel", "NoisyMarginal"]
