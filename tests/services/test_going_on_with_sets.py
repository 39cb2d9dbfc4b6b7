"""Real workers killed within the questions of what many columns tell together; who goes on asks the very same."""

from __future__ import annotations

import io
import itertools
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from test_going_on import application, died, kept_by, require_one_run, settings, stops, until

from synth.application import Application
from synth.bundle.replay import replay
from synth.schema import CategoryColumn, NumberColumn, RunConfig, Schema, YesNoColumn

__all__ = ["application", "settings"]  # fixtures

ROWS = 1500


def flags() -> tuple[Schema, str]:
    """Whether an odd number of the first three is set: sets of columns are asked."""
    names = ("c0", "c1", "c2", "c3", "c4", "odd")
    codes = np.random.default_rng(0).integers(0, 2, (ROWS, 6))
    codes[:, 5] = codes[:, :3].sum(axis=1) % 2
    words = np.array(["no", "yes"])[codes]
    schema = Schema(tuple(YesNoColumn(name, fallback="no") for name in names), row_count="private")
    return schema, text_of(names, words)


def numbers() -> tuple[Schema, str]:
    """Numbers and a class that follow two hidden causes: all pairs are asked at once."""
    random, loads = np.random.default_rng(1), np.random.default_rng(8).normal(size=(2, 6))
    loads[0] = np.abs(loads[0]) + 1.0
    told = random.normal(size=(ROWS, 2)) @ loads / np.linalg.norm(loads, axis=0) + 0.25 * random.normal(size=(ROWS, 6))
    cells = np.clip(np.rint(told * 1.6 + 3.5), 0, 7).astype(int).astype(str)
    cells[:, 5] = np.array(["low", "mid", "high"])[np.digitize(told[:, 5], [-0.45, 0.45])].astype(str)
    columns = (
        *(NumberColumn(name, 0, 7, 1, fallback=3) for name in "abcde"),
        CategoryColumn("kind", ("low", "mid", "high"), fallback="low"),
    )
    return Schema(columns, row_count="private"), text_of((*"abcde", "kind"), cells)


def text_of(names: tuple[str, ...], cells: np.ndarray) -> str:
    return ",".join(names) + "\n" + "".join(",".join(row) + "\n" for row in cells.tolist())


TABLES = {
    "sets": (flags, {}, ("which columns go together", "choice of wide table 1", "wide table 2")),
    "pairs": (numbers, {"bins": 6, "cells": 1000}, ("which columns go together", "all pairs of columns")),
}


@pytest.mark.audit
@pytest.mark.parametrize("name", TABLES)
def test_a_worker_killed_within_what_many_columns_tell_is_followed_by_one_that_goes_on(
    application: Application,
    name: str,
    tmp_path: Path,
) -> None:
    made, options, places = TABLES[name]
    schema, text = made()
    config = RunConfig(
        schema=schema,
        account="town",
        epsilon=40.0,
        delta=1e-5,
        people_at_most=5000,
        rows=100,
        holdout=0.0,
        label=schema.names[-1],
        generator="dp-hp-adaptive",
        options=options,
    )

    accounts = (f"town {number}" for number in itertools.count())

    def started() -> str:
        """Start a run that is the only one of its account."""
        account = next(accounts)
        table = application.intake.receive(io.BytesIO(text.encode()), account=account, name="people.csv").table_id
        return application.start(replace(config, account=account), table_id=table)

    stops(application)
    whole = started()
    until(lambda: application.run(whole).state not in ("queued", "running"))
    asked = [receipt["query"] for receipt in application.certificate(whole)["receipts"]]
    for query in places:
        number = 1 + next(place for place, one in enumerate(asked) if one.startswith(query))
        for stop, answers in (({"in": number}, number - 1), ({"after": number}, number)):
            stops(application, {"how": "kill", **stop})
            run_id = started()
            died(application, run_id)
            kept = kept_by(application, run_id)
            assert len(kept) == answers
            assert [queries for (queries, _) in kept[:3]] == [[one] for one in asked[: min(answers, 3)]]
            until(lambda run_id=run_id: application.run(run_id).state not in ("queued", "running"))
            shutil.rmtree(tmp_path / "replayed", ignore_errors=True)
            require_one_run(application, run_id, kept, tmp_path)
            bundle = application.folder(run_id) / "bundle.zip"
            again = replay(bundle, tmp_path / "refitted", refit=True)
            assert again.as_certified, again.lines
