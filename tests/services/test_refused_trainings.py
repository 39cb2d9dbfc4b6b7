"""Trainings that cannot be are refused by the service that reserves them: one sentence, nothing recorded or charged."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from synth.application import Application
from synth.errors import SynthError
from synth.schema import CategoryColumn, IdentifierColumn, NumberColumn, PrivacyUnit, RunConfig, Schema

AGE, WARD = NumberColumn("age", 0, 99, 1, fallback=0), CategoryColumn("ward", ("a", "b", "c"), fallback="a")
CONFIG = RunConfig(
    schema=Schema((AGE, WARD, CategoryColumn("outcome", ("well", "ill"), fallback="well")), row_count="private"),
    account="town",
    epsilon=1.0,
    delta=1e-6,
    people_at_most=500,
    rows=40,
    label="outcome",
    holdout=0.0,
)
GANS = ("dp-gan", "dp-cgan")
VISITS = Schema(
    (IdentifierColumn("person"), *CONFIG.schema.columns),
    PrivacyUnit(rows_per_unit=3, id_column="person"),
    row_count="private",
    people="separate_rows",
)
SEVERAL = replace(CONFIG.schema, unit=PrivacyUnit(rows_per_unit=3))
SINGLE = Schema((AGE, WARD, CategoryColumn("outcome", ("well",), fallback="well")), row_count="private")


@pytest.fixture
def application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Application]:
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    with Application.from_environment() as opened:
        yield opened


def reserve(application: Application, folder: Path, config: RunConfig) -> None:
    table = folder / "people.csv"
    with table.open("w", encoding="utf-8", newline="") as stream:
        names = [column.name for column in config.schema.columns]
        csv.writer(stream).writerows([names, *[[row, 3, "a", "well"][-len(names) :] for row in range(40)]])
    with table.open("rb") as stream:
        table_id = application.intake.receive(stream, account="town", name="people.csv").table_id
    application.reserve(config, table_id=table_id)


def asked(generator: str, options: dict[str, Any], **changes: Any) -> RunConfig:
    return replace(CONFIG, generator=generator, options=options, **changes)


REFUSED: dict[str, tuple[RunConfig, str]] = {
    **{
        f"{name}: {case}": (asked(name, options, **changes), f"^{words.replace('NAME', name)}")
        for name in GANS
        for case, options, changes, words in (
            (
                "a batch of more rows than there can be",
                {"batch_size": 501},
                {},
                r"NAME reads about 501 rows in a step, and the table has at most 500\. Choose a smaller batch_size",
            ),
            (
                "a batch of more visits than there can be",
                {"batch_size": 1501},
                {"schema": VISITS},
                r"NAME reads about 1,501 rows in a step, and the table has at most 1,500\. ",
            ),
            ("a clip of zero", {"clip": 0.0}, {}, "option 'clip' must lie between .* got 0"),
            (
                "more steps than are counted",
                {"steps": 20_001},
                {},
                "option 'steps' must lie between 1 and 20000, got 20001",
            ),
            (
                "more steps than noise can pay for",
                {"steps": 20_000, "hidden": 1, "batch_size": 500},
                {"epsilon": 0.01},
                "'NAME' cannot train with epsilon 0.01: No noise multiplier up to .* keeps 20,000 steps",
            ),
            (
                "more noisy numbers than can be released",
                {"steps": 20_000, "hidden": 128},
                {},
                r"20,000 steps of a critic with [\d,]+ weights are [\d,]+ noisy numbers; at most [\d,]+ can be",
            ),
            (
                "a public number of rows",
                {},
                {"schema": replace(CONFIG.schema, row_count="public", number_of_units=40)},
                "generator 'NAME' needs .*a private number of rows",
            ),
            ("rows of nobody known", {}, {"schema": SEVERAL}, "generator 'NAME' needs .*an id column"),
        )
    },
    "dp-cgan: no label": (
        asked("dp-cgan", {}, label=None),
        "^generator 'dp-cgan' needs a label of at least two values",
    ),
    "dp-cgan: a label of one value": (
        asked("dp-cgan", {}, schema=SINGLE),
        "^generator 'dp-cgan' needs a label of at least two values",
    ),
    "gs-wgan: a batch of more rows than there can be": (
        asked("gs-wgan", {"batch_size": 600}),
        r"^gs-wgan asks about 600 synthetic rows in a turn, and the table has at most 500\. Choose a smaller batch",
    ),
    "gs-wgan: more parts than there can be people": (
        asked("gs-wgan", {"parts": 5000}, people_at_most=1000),
        r"^gs-wgan divides people into 5,000 parts, and the table has at most 1,000\. Choose a smaller number of parts",
    ),
    "gs-wgan: more parts than there can be people with visits": (
        asked("gs-wgan", {"parts": 501}, schema=VISITS),
        r"^gs-wgan divides people into 501 parts, and the table has at most 500\. ",
    ),
    "gs-wgan: a clip of zero": (asked("gs-wgan", {"clip": 0.0}), "^option 'clip' must lie between .* got 0"),
    "gs-wgan: more turns than are counted": (
        asked("gs-wgan", {"turns": 100_001}),
        "^option 'turns' must lie between 1 and 100000, got 100001",
    ),
}


@pytest.mark.four_cases
@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_in_one_sentence_and_nothing_is_reserved(
    name: str, application: Application, tmp_path: Path
) -> None:
    config, words = REFUSED[name]
    with pytest.raises(SynthError, match=words) as refused:
        reserve(application, tmp_path, config)
    assert "\n" not in str(refused.value)
    assert application.store.runs.all() == ()
    assert [list(application.ledger.rows(one.id)) for one in application.store.accounts.all()] in ([], [[]])


@pytest.mark.parametrize(
    ("generator", "options"),
    [*((name, {"batch_size": 500}) for name in GANS), ("gs-wgan", {"batch_size": 500, "parts": 500})],
)
def test_what_just_fits_is_reserved(
    generator: str, options: dict[str, Any], application: Application, tmp_path: Path
) -> None:
    reserve(application, tmp_path, asked(generator, options))
    (account,) = application.store.accounts.all()
    assert len(list(application.ledger.rows(account.id))) == 1
