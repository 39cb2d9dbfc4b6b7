"""The owner-only report: exact numbers about synthetic and private rows, written where only the owner reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from synth.config import RunConfig
from synth.forecast import one_way_noise
from synth.privacy.owner_view import OwnerView
from synth.privacy.vault import Vault
from synth.progress import Progress
from synth.reports.document import owner_document
from synth.reports.owner_marginals import owner_marginals
from synth.services.run_folder import write_owner_json
from synth.store import Run
from synth.writing import read_table

__all__ = ["build_owner_report"]


def build_owner_report(config: RunConfig, run: Run, folder: Path, *, vault: Vault, progress: Progress) -> Path | None:
    """Compare a run's synthetic rows with its private rows and write ``owner/report.json`` (mode 0600).

    Returns
    -------
    Path, or None where the private table has no rows to compare with
    """
    if run.table_id is None:
        return None
    view = OwnerView.open(
        vault,
        run.table_id,
        config.schema,
        config.format,
        account_key=vault.split_key(run.account_id),
        holdout=config.holdout,
        undeclared=config.undeclared,
    )
    if view.rows("train") == 0:
        return None
    path = folder / "owner" / "report.json"
    write_owner_json(path, _document(config, view, folder, progress))
    return path


def _document(config: RunConfig, view: OwnerView, folder: Path, progress: Progress) -> dict[str, Any]:
    synthetic = np.asarray(read_table(folder / "synthetic.csv", config.schema))
    evidence = owner_marginals(
        # Column by column, as small as they are: millions of rows as one matrix of int64 would need gigabytes.
        [view.column(name) for name in config.schema.names],
        list(synthetic.T),
        config.schema,
        control_noise=one_way_noise(config),
        seed=config.seed,
        on_step=progress.step,
    )
    return owner_document(evidence)
