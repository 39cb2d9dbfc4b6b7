"""The owner's report: exact comparisons with the private rows, for the owner's eyes only."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from synth.config import RunConfig
from synth.forecast import one_way_noise
from synth.privacy.owner_view import OwnerPart, OwnerView
from synth.progress import Progress
from synth.reports.evidence import OwnerOnlyEvidence
from synth.reports.owner_marginals import owner_marginals

__all__ = ["owner_evidence"]


def owner_evidence(
    view: OwnerView,
    codes: NDArray[np.int64],
    config: RunConfig,
    *,
    part: OwnerPart = "train",
    progress: Progress | None = None,
) -> tuple[OwnerOnlyEvidence, ...]:
    """Compare synthetic with private rows.

    Parameters
    ----------
    view : OwnerView
        The private rows.
    codes : array of shape (n_rows, n_modelled)
        Synthetic codes, columns in ``schema.names`` order.
    config : RunConfig
        The run.
    part : {"train", "holdout", "test"}
        Which private rows.
    progress : Progress, optional
        Told the steps; may stop the report.

    Returns
    -------
    tuple of OwnerOnlyEvidence
        Empty when the part has no row.
    """
    if view.rows(part) == 0:
        return ()
    schema = config.schema
    return owner_marginals(
        [view.column(name, part) for name in schema.names],
        [codes[:, place] for place in range(codes.shape[1])],
        schema,
        control_noise=one_way_noise(config),
        seed=config.seed,
        on_step=None if progress is None else progress.step,
    )
