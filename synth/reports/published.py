"""The publishable report of a run: everything that goes into its bundle and onto the page without a warning."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from synth.generators.protocol import Fact
from synth.privacy.accounting import worth_for_a_row
from synth.privacy.answers import ROW_COUNT_QUERY, RowCount
from synth.privacy.noisy_sums import NoisyAnswer
from synth.privacy.receipt import Receipt
from synth.progress import Progress
from synth.reports.accuracy import expected_accuracy, group_accuracy
from synth.reports.charged_predictions import charged_predictions
from synth.reports.charts import Table
from synth.reports.compared import compare_measured
from synth.reports.drawing import rounded_up
from synth.reports.evidence import Publishable, SafeEvidence
from synth.reports.measured import MeasuredTable, measured_tables
from synth.reports.published_fidelity import published_fidelity
from synth.reports.published_groups import smallest_groups
from synth.reports.published_marginals import published_marginals
from synth.reports.published_subsample import published_subsample
from synth.schema import RunConfig

__all__ = ["published_evidence", "published_rows"]


def published_evidence(
    codes: NDArray[np.int64],
    releases: Sequence[NoisyAnswer],
    config: RunConfig,
    *,
    rows: RowCount | None = None,
    facts: Sequence[Fact] = (),
    receipts: Iterable[Receipt] = (),
    progress: Progress | None = None,
) -> tuple[Publishable, ...]:
    """Build the report that may be published.

    Parameters
    ----------
    codes : array of shape (n_rows, n_modelled)
        Synthetic codes, columns in ``schema.names`` order.
    releases : sequence of NoisyAnswer
        The paid answers of the run.
    config : RunConfig
        Declared facts.
    rows : RowCount, optional
        What the session said about the number of rows; without it the paid answers are asked.
    facts : sequence of Fact
        What the fitted generator says of itself.
    receipts : iterable of Receipt
        All of the run: where it hides one cell they say what that is worth for a whole row.
    progress : Progress, optional
        Told when the report begins and ends.
    """
    if progress is not None:
        progress.step(0, 1)
    columns = [codes[:, place] for place in range(codes.shape[1])]
    count = published_rows(releases) if rows is None else rows
    found: list[Publishable] = [*_overview(codes, config), *_worth_for_a_row(config, receipts), *map(_of_fact, facts)]
    if count is not None:
        fine, coarse = (
            compare_measured(columns, config.schema, releases, count, coarse=merged, seed=config.seed)
            for merged in (False, True)
        )
        found += published_subsample(coarse)
        found += expected_accuracy(fine)
        found += published_marginals(fine, coarse, config.schema)
        found += published_fidelity(fine, config.schema)
        found += group_accuracy(fine, config.schema, config.groups)
        found += smallest_groups(fine, config.schema, config.groups)
    found += charged_predictions(releases, config)
    if progress is not None:
        progress.step(1, 1)
    return tuple(found)


def published_rows(releases: Sequence[NoisyAnswer]) -> RowCount | None:
    """Return what the paid answers say about the number of private rows, or None where they say nothing.

    It is the measured number of rows, or else the total of the measured table that knows it best.
    """
    for release in releases:
        if release.receipt.query == ROW_COUNT_QUERY:
            value = float(np.asarray(release.value).reshape(-1)[0])
            return RowCount(max(value, 1.0), release.noise_std, public=False)
    tables = measured_tables(releases)
    if not tables:
        return None
    best = min(tables, key=_total_noise)
    return RowCount(max(float(best.counts.sum()), 1.0), _total_noise(best), public=False)


def _total_noise(table: MeasuredTable) -> float:
    return table.noise_std * math.sqrt(table.counts.size)


def _of_fact(fact: Fact) -> SafeEvidence:
    figures = (Table(fact.title, fact.header, fact.rows),) if fact.header else ()
    return SafeEvidence(
        id=f"generator.{fact.name}", title=fact.title, value=fact.value, sentence=fact.sentence, figures=figures
    )


def _worth_for_a_row(config: RunConfig, receipts: Iterable[Receipt]) -> tuple[SafeEvidence, ...]:
    """Say what an epsilon of one cell is worth for a whole row: it is never shown without that."""
    worth = worth_for_a_row(receipts, config.delta)
    if worth is None:
        return ()
    return (
        SafeEvidence(
            id="overview.row_epsilon",
            title="Epsilon for a whole row",
            value=rounded_up(worth),
            sentence=f"At delta {config.delta:g}, for replacing a row by one with the same label; a changed label has "
            f"no protection. The entered epsilon, {config.epsilon:g}, is for one cell: compare other releases with "
            "this number, not with that one.",
        ),
    )


def _overview(codes: NDArray[np.int64], config: RunConfig) -> tuple[SafeEvidence, ...]:
    columns, learned = len(config.schema.printed), len(config.schema.modelled)
    made = columns - learned
    which = "All of them learned." if not made else f"{learned} of them learned; {made} filled with fresh identifiers."
    return (
        SafeEvidence(
            id="overview.columns",
            title="Columns",
            value=columns,
            sentence=which,
        ),
        SafeEvidence(
            id="overview.rows_made",
            title="Rows made",
            value=len(codes),
            sentence="As many as the owner asked for; not counted in the private table.",
        ),
        SafeEvidence(
            id="overview.unit",
            title="Protected",
            value=config.schema.hidden,
            sentence=f"{config.schema.sentence}. Account {config.account}.",
        ),
    )
