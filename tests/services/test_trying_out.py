"""A run is tried out on made-up rows before it is charged: every generator, one row and none, and nothing stays."""

from __future__ import annotations

import io
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from choosing import few
from suited import suited
from test_going_on import FAST

from synth import verify
from synth.application import Application
from synth.errors import ConfigError, JobError, RunCancelledError, SynthError
from synth.generators import GENERATORS
from synth.generators.neural import NeuralGenerator
from synth.privacy.session import PrivateSession
from synth.progress import NullProgress, Progress
from synth.reading.reader import read_codes
from synth.schema import (
    CategoryColumn,
    IdentifierColumn,
    NumberColumn,
    PrivacyUnit,
    RunConfig,
    Schema,
    TableFormat,
    YesNoColumn,
)
from synth.services import trying_out
from synth.services.trying_out import simulated_file, try_out
from synth.system.settings import Settings

COLUMNS = (
    NumberColumn("age", 0, 99, 1, missing=True),
    CategoryColumn('town, "old"', ("Ayr", "=1+1", "Cork"), other=True),
    YesNoColumn("ill", fallback="no"),
)
CONFIG = RunConfig(
    schema=Schema(COLUMNS, number_of_units=500),
    account="town",
    epsilon=1.0,
    delta=1e-6,
    people_at_most=10_000,
    rows=100_000,
    label="ill",
    generator="independent",
)
WITH_IDS = Schema(
    (IdentifierColumn("who"), *COLUMNS), PrivacyUnit("person", 3, "who"), row_count="private", number_of_units=None
)
ONE_CELL: dict[str, Any] = {
    "schema": Schema(COLUMNS, protection="cell"),
    "generator": "kahm",
    "options": {"mode": "cell"},
    "evaluation_share": 0.0,
}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", database_url="sqlite://")


def left(settings: Settings) -> list[Path]:
    return [path for path in settings.home.rglob("*") if path.is_file()]


@pytest.mark.parametrize("generator", few(sorted(GENERATORS), kept=("dp-hp-adaptive", "kahm")))
@pytest.mark.parametrize("schema", [CONFIG.schema, WITH_IDS], ids=["replace one", "add or remove, with ids"])
def test_every_generator_ends_in_a_bundle_on_one_row_and_on_none(
    generator: str, schema: Schema, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    opened = PrivateSession.__init__

    def counted(self: PrivateSession, table: Any, *arguments: Any, **how: Any) -> None:
        asked.append(table._rows)
        opened(self, table, *arguments, **how)

    monkeypatch.setattr(PrivateSession, "__init__", counted)
    schema = suited(generator, schema, CONFIG.label)
    config = replace(CONFIG, generator=generator, options=FAST.get(generator, {}), schema=schema)
    try_out(config, settings, NullProgress())
    assert asked == [1, 0]
    assert left(settings) == []


@pytest.mark.thorough
@pytest.mark.parametrize(
    "changes",
    [ONE_CELL, {**ONE_CELL, "holdout": 0.6}, {"prediction_share": 0.3}, {"evaluation_share": 0.999}, {"rows": 1}],
    ids=["one cell", "one cell, most held out", "predictions", "little for the generator", "one row made"],
)
def test_odd_shares_and_one_cell_end_in_a_bundle(changes: dict[str, Any], settings: Settings) -> None:
    try_out(replace(CONFIG, **changes), settings, NullProgress())
    assert left(settings) == []


def test_the_bundle_of_a_trial_passes_for_none_wherever_it_is_found(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "found.zip"
    check = trying_out.check

    def copied(path: Path) -> Any:
        shutil.copyfile(path, kept)
        return check(path)

    monkeypatch.setattr(trying_out, "check", copied)
    try_out(CONFIG, settings, NullProgress())
    verdict = verify(kept)
    assert not verdict.ok
    assert verdict.json["failures"] == [
        "The signature does not match: certificate.json was altered after it was signed.",
        f"The certificate assumes what nothing in the bundle gives: {trying_out.NOT_PRIVATE}",
    ]
    assert f"Assumed: {trying_out.NOT_PRIVATE}" in verdict.lines


def test_a_trial_that_passed_as_a_real_bundle_would_stop_the_run(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    from synth.vault.keys import Keys

    monkeypatch.setattr(trying_out, "ThrowawayKey", lambda: Keys(bytes(32), bytes(32), bytes(32)))
    with pytest.raises(SynthError, match="passes for a real one"):
        try_out(CONFIG, settings, NullProgress())
    assert left(settings) == []


def test_a_fault_of_the_program_is_an_incident_and_leaves_nothing(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: Any, **how: Any) -> None:
        raise KeyError("a library's words")

    monkeypatch.setattr("synth.services.pipeline.write_table", broken)
    with pytest.raises(JobError, match="stops the program") as caught:
        try_out(CONFIG, settings, NullProgress())
    assert "library" not in str(caught.value)
    assert left(settings) == []


def test_whoever_stops_a_run_stops_its_trial(settings: Settings) -> None:
    class Stopped(NullProgress):
        def check_cancelled(self) -> None:
            raise RunCancelledError("stopped")

    with pytest.raises(RunCancelledError):
        try_out(CONFIG, settings, Stopped())
    assert left(settings) == []


def test_what_a_killed_trial_left_is_swept_while_none_is_at_work(settings: Settings, tmp_path: Path) -> None:
    settings = replace(settings, database_url=f"sqlite:///{settings.home / 'hermitage.sqlite'}")
    trials = settings.home / trying_out.TRIALS
    with Application(settings) as application:
        application.purge()  # nobody tried anything out yet
        (trials / "killed").mkdir(parents=True)
        (trials / "killed" / "bundle.zip").write_bytes(b"made up")

        class AtWork(NullProgress):
            def check_cancelled(self) -> None:
                application.purge()
                assert (trials / "killed" / "bundle.zip").exists()
                assert len(list(trials.iterdir())) == 2, "the trial that is at work"
                raise RunCancelledError("seen enough")

        with pytest.raises(RunCancelledError):
            try_out(CONFIG, settings, AtWork())
        application.purge()
    assert list(trials.iterdir()) == []


@pytest.mark.parametrize(
    "form",
    [
        TableFormat(),
        TableFormat(separator=";", encoding="utf-16", missing=("NA", "")),
        TableFormat(kind="tsv", encoding="latin-1"),
        TableFormat(kind="parquet"),
        TableFormat(header=False, separator="|", names=("ill", "nobody's", *(column.name for column in COLUMNS[:2]))),
        TableFormat(skip_rows=3, comment="#", strip=False),
    ],
    ids=["plain", "UTF-16", "TSV", "Parquet", "no header", "lines before the header"],
)
def test_made_up_rows_are_read_as_the_format_says(form: TableFormat) -> None:
    made = simulated_file(CONFIG.schema, form)
    read = read_codes(lambda: io.BytesIO(made), form, CONFIG.schema, undeclared="drop")
    codes = {name: values.tolist() for name, values in read._codes.items()}
    assert codes == {"age": [100, 0], 'town, "old"': [3, 0], "ill": [0, 0]}
    assert read._reading is not None
    assert read._reading.unreadable_lines == 0


def test_made_up_rows_have_their_positions() -> None:
    form = TableFormat(fields=(("ill", 10, 12), ("age", 2, 4), ('town, "old"', 14, 20)))
    made = simulated_file(CONFIG.schema, form)
    read = read_codes(lambda: io.BytesIO(made), form, CONFIG.schema)
    # A line of missing cells alone is blank, and no row.
    assert {name: values.tolist() for name, values in read._codes.items()} == {
        "age": [0],
        'town, "old"': [0],
        "ill": [0],
    }


@pytest.mark.parametrize("form", [TableFormat(kind="sav", labels=("ill",)), TableFormat(kind="xls", sheet="Answers")])
def test_what_is_only_read_is_tried_in_a_format_that_is_written(form: TableFormat, settings: Settings) -> None:
    try_out(replace(CONFIG, format=form), settings, NullProgress())
    assert left(settings) == []


@pytest.mark.parametrize("name", ["two\nlines", "carriage\rreturn", "nothing\0"])
def test_names_that_no_text_holds_are_tried_as_parquet(name: str) -> None:
    schema = Schema((NumberColumn(name, 0, 9, 1, missing=True),), number_of_units=5)
    made = simulated_file(schema, TableFormat())
    assert pa.parquet.read_table(io.BytesIO(made)).column_names == [name]


def test_the_whole_description_is_tried_and_not_only_the_model(settings: Settings) -> None:
    with pytest.raises(SynthError, match="path of a machine"):
        try_out(replace(CONFIG, groups=("age",), account="/home/somebody/x"), settings, NullProgress())
    with pytest.raises((SynthError, ConfigError), match="too small"):
        try_out(replace(CONFIG, epsilon=1e-9), settings, NullProgress())


@pytest.mark.parametrize("generator", ["dp-hp", "dp-merf"])
def test_trying_out_trains_for_a_moment_also_where_the_generator_chooses_the_steps(
    generator: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[int] = []
    train = NeuralGenerator.train

    def counted(self: NeuralGenerator, models: Any, released: Any, progress: Progress) -> None:
        trained.append(self.steps)
        train(self, models, released, progress)

    monkeypatch.setattr(NeuralGenerator, "train", counted)
    try_out(replace(CONFIG, generator=generator), settings, NullProgress())
    assert len(trained) == 2
    assert max(trained) <= 100
