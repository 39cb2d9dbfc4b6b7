"""Preview columns of a table privately, in this process: ``synth preview`` and ``synth.preview``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from synth.application import Application
from synth.cli.received import Rows, as_stored, closing, kept_reading, received, require_rows
from synth.cli.speaking import Say, StoredAndSpokenProgress
from synth.errors import InputError
from synth.jobs.processes import birth_of
from synth.schema import RunConfig
from synth.services.databases import as_read_from_source
from synth.services.intake import Reading
from synth.services.previewing import Preview, carry_out
from synth.system.machine import this_host
from synth.system.paths import path_of

__all__ = ["preview_locally"]


def preview_locally(
    config: RunConfig,
    columns: Sequence[str],
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    anew: bool = False,
    table: str | Path | None = None,
    rows: Rows | None = None,
    first: bool = False,
    keep_table: bool = False,
    password: str | None = None,
    reading: Reading | None = None,
    say: Say | None = None,
    warn: Say | None = None,
) -> Preview:
    """Count some columns with noise, before a release of them is paid for.

    Parameters
    ----------
    config : RunConfig
        The planned release; only the chosen columns need to be described.
    columns : sequence of str
    epsilon, delta : float, optional
        What to spend, by default a twentieth of the configuration's budget.
    anew : bool
        Charge it although the same preview of these people was paid for.
    table : path, optional
        The private table, instead of ``config.table``.
    rows : binary file, or tuple of two, optional
        The private table itself, or two that belong together, in the format of ``config.format``, instead of a path.
    first : bool
        Refuse a table that was taken in before, under another account.
    keep_table : bool
        Keep the encrypted copy of the table; otherwise it is always deleted at the end.
    password : str, optional
        The password of the database in ``config.source``; it is not stored.
    reading : Reading, optional
        As in :func:`synth.cli.local.run_locally`, of the chosen columns.
    say : callable, optional
        Called with what the preview costs and shows, before it begins, and with a line for every phase.
    warn : callable, optional
        As in :func:`synth.cli.local.run_locally`.

    Raises
    ------
    InputError
        If an argument cannot be used; nothing is charged.
    NotAsDeclaredError
        If most of the table would be lost; nothing is charged.
    BudgetExceededError
        If the account's cap would be exceeded.
    PrivacyError
        If ``first`` is set and the table was taken in before.
    """
    if not isinstance(config, RunConfig):
        raise InputError("The configuration must come from synth.load_config. Load it from its file first.")
    if table is not None:
        config = replace(config, table=str(path_of(table, "the table")), source=None)
    require_rows(config, rows)
    config = as_read_from_source(config)
    stored = as_stored(config, rows)
    tell = say or (lambda line: None)
    with Application.for_local_user() as application:
        # Before the table is taken in, so that what cannot start leaves nothing behind.
        plan = application.previews.plan(stored, columns, epsilon=epsilon, delta=delta, anew=anew)
        alone = replace(config, test_table=None)
        with received(application, alone, rows, password=password, first=first, keep=keep_table, warn=warn) as (
            table_id,
            _,
        ):
            tell(f"{plan.cost} {plan.shows}")
            work_id = application.previews.reserve(
                stored,
                columns,
                table_id=table_id,
                epsilon=epsilon,
                delta=delta,
                anew=anew,
                reading=kept_reading(reading),
            )
            known = application.previews.result(work_id)
            if known is not None:
                return known
            with closing(application, work_id):
                store = application.store
                store.work.claim(work_id, host=this_host(), pid=os.getpid(), pid_created=birth_of(os.getpid()))
                preview = carry_out(
                    application.installation, work_id, StoredAndSpokenProgress(store.work, work_id, tell)
                )
        account = application.account(config.account)
        tell(
            f"Spent in total on '{config.account}': epsilon {account.epsilon_spent:.4g}{account.at_delta}. A release "
            "states this preview together with its own budget; for at most "
            f"{config.epsilon:g} in all, run it with --epsilon {plan.epsilon_left:g}."
        )
    return preview
