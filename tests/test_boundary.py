"""No word of a library and no value that was given by mistake passes the boundary: Python and the command line.

Every public entry point gets arguments that hold rows: objects of wrong types, texts of a table instead of its path,
the table instead of the configuration. What comes back is one sentence of ours, and no canary is in its text, in what
caused it, in the logs, or on the screen.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from choosing import each_once
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import synth
from synth.application import Application
from synth.cli import main
from synth.cli.commands import config_of
from synth.errors import InputError, SynthError
from synth.schema import RunConfig
from synth.services.table_paths import open_table
from synth.system.paths import path_of

CANARY = "CANARY-7f3a"
CONFIG = """
table: people.csv
account: town
unit: {protects: person, rows_per_unit: 1}
row_count: public
number_of_units: 1000
budget: {epsilon: 1.0}
holdout: 0
generator: {name: independent}
rows: 20
columns:
  age: {type: number, low: 0, high: 100, step: 1, fallback: 40}
  town: {type: category, values: [north, south], other: true}
"""
ROWS = f"age,town\n3,north\n4,{CANARY}\n"


class Row:
    """An object that is its row wherever it is written."""

    def __repr__(self) -> str:
        return CANARY

    __str__ = __repr__

    def __format__(self, form: str) -> str:
        return CANARY


class PathThatFails(os.PathLike[str]):
    def __fspath__(self) -> str:
        raise ValueError(CANARY)

    def __repr__(self) -> str:
        return CANARY


class PathOfBytes(os.PathLike[bytes]):
    def __fspath__(self) -> bytes:
        return CANARY.encode()


WRONG_OBJECTS: dict[str, Callable[[], Any]] = {
    "table in memory": lambda: pd.DataFrame({"age": [3, 4], "town": ["north", CANARY]}),
    "column in memory": lambda: pd.Series(["north", CANARY]),
    "rows": lambda: [{"age": 4, "town": CANARY}],
    "row": lambda: {"age": 4, "town": CANARY},
    "bytes": ROWS.encode,
    "object": Row,
    "class of objects": lambda: type("Row", (Row,), {}),
    "path that fails": PathThatFails,
    "path of bytes": PathOfBytes,
    "number": lambda: 4.5,
}
WRONG_TEXTS: dict[str, str] = {
    "rows as text": ROWS,
    "rows as text, carriage returns": ROWS.replace("\n", "\r"),
    "NUL": f"{CANARY}\0.csv",
    "NUL alone": "\0",
    "too long": CANARY * 60,
    "long path": "/".join([CANARY] * 900),
    "lone surrogate": f"{CANARY}\udcff\udc80\ud800",
}


@pytest.fixture(autouse=True)
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text(ROWS)
    (tmp_path / "town.yaml").write_text(CONFIG)


@pytest.fixture
def config() -> RunConfig:
    return synth.load_config("town.yaml")


@contextlib.contextmanager
def one_sentence_of_ours(caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]) -> Iterator[None]:
    """Expect a refusal in one line, and no canary in it, behind it, in the logs or on the screen."""
    with caplog.at_level(logging.DEBUG), pytest.raises(SynthError) as caught:
        yield
    error = caught.value
    assert isinstance(error, InputError), "bad input is the user's to mend, not an incident"
    assert "\n" not in str(error)
    assert CANARY not in words_of(error)
    assert error.__cause__ is None
    assert error.__context__ is None
    captured = capsys.readouterr()
    assert CANARY not in caplog.text + captured.out + captured.err


def words_of(error: BaseException | None) -> str:
    """Everything that a log, a debugger or a report of errors would print of an exception and what led to it."""
    seen, words = set(), ""
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        words += f"{error!s} {error!r} {error.args!r} {getattr(error, '__notes__', '')} {vars(error)!r}"
        words += "".join(traceback.format_exception(error))
        error = error.__cause__ or error.__context__
    return words


@pytest.mark.parametrize(
    ("entry", "wrong"),
    each_once(
        [
            *("load_config", "load_schema", "verify", "replay", "replay: out", "Release: out"),
            *("run: table", "run: out", "run: table of the configuration", "run: test table"),
        ],
        [*WRONG_OBJECTS, *WRONG_TEXTS],
        others=pytest.mark.slow,
    ),
)
def test_what_is_no_path_is_refused_by_its_type(
    entry: str,
    wrong: str,
    config: RunConfig,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = WRONG_TEXTS[wrong] if wrong in WRONG_TEXTS else WRONG_OBJECTS[wrong]()
    entries: dict[str, Callable[[], object]] = {
        "load_config": lambda: synth.load_config(given),
        "load_schema": lambda: synth.load_schema(given),
        "Release: out": lambda: synth.Release(pd.DataFrame({"age": [3]}), config.schema, account="a").fit(given),
        "verify": lambda: synth.verify(given),
        "replay": lambda: synth.replay(given, "out"),
        "replay: out": lambda: synth.replay("bundle.zip", given),
        "run: table": lambda: synth.run(config, "out", table=given),
        "run: out": lambda: synth.run(config, given),
        "run: table of the configuration": lambda: synth.run(replace(config, table=given), "out"),
        "run: test table": lambda: synth.run(replace(config, test_table=given), "out"),
    }
    with one_sentence_of_ours(caplog, capsys):
        entries[entry]()
    with Application.from_environment() as application:
        assert application.ledger_rows() == []
        assert application.intake.tables() == []


ROWS_OF_ANY_SHAPE = st.recursive(
    st.just(CANARY) | st.binary(max_size=5) | st.floats() | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.just(CANARY), inner) | st.tuples(inner, inner),
    max_leaves=6,
).filter(lambda value: not isinstance(value, str | None))
TEXTS_THAT_ARE_NO_PATHS = st.builds(
    lambda before, control, after: f"{before}{CANARY}{control}{after}",
    st.text(max_size=5),
    st.characters(categories=["Cc", "Cs", "Zl", "Zp"]),
    st.text(max_size=5),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(given_for_a_path=ROWS_OF_ANY_SHAPE | TEXTS_THAT_ARE_NO_PATHS)
def test_nothing_that_is_no_path_comes_back_from_any_entry_point(given_for_a_path: Any, config: RunConfig) -> None:
    entries: list[Callable[[Any], object]] = [
        synth.load_config,
        synth.load_schema,
        synth.verify,
        lambda given: synth.replay(given, "out"),
        lambda given: synth.run(config, "out", table=given),
        lambda given: synth.run(config, given),
        lambda given: synth.run(given, "out", table="people.csv"),
        lambda given: path_of(given, "the table"),
    ]
    for entry in entries:
        with pytest.raises(InputError) as caught:
            entry(given_for_a_path)
        assert CANARY not in words_of(caught.value)
        assert caught.value.__context__ is None


@pytest.mark.parametrize("wrong", [*WRONG_OBJECTS, "path"])
def test_what_is_no_configuration_is_refused_by_its_type(
    wrong: str, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    given: Any = "town.yaml" if wrong == "path" else WRONG_OBJECTS[wrong]()
    with one_sentence_of_ours(caplog, capsys):
        synth.run(given, "out", table="people.csv")


NOT_CONFIGURATIONS: dict[str, bytes] = {
    "a table": ROWS.encode(),
    "a table that looks like keys": f"{CANARY}: 3\n{CANARY}-2: 4\n".encode(),
    "a table with one line twice": f"{CANARY}: 3\n{CANARY}: 3\n".encode(),
    "a table of lists": f"[age, {CANARY}]\n".encode(),
    "broken YAML": f"account: [{CANARY}\nrows: }}{CANARY}".encode(),
    "a tag": f"!!python/object/apply:os.system ['{CANARY}']".encode(),
    "a tag of ours": f"account: !{CANARY} x".encode(),
    "an alias to nothing": f"account: *{CANARY}".encode(),
    "a list as a key": f"? [{CANARY}]\n: 3\n".encode(),
    "not UTF-8": b"account: " + CANARY.encode() + b"\xff\xfe",
    "UTF-16": f"account: {CANARY}".encode("utf-16"),
    "NUL": f"account: {CANARY}\0".encode(),
    "nested deeply": b"{a: " * 3000 + CANARY.encode(),
    "nothing": b"",
}


@pytest.mark.parametrize("kind", NOT_CONFIGURATIONS)
def test_what_is_given_instead_of_a_configuration_is_not_quoted(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mistaken.yaml"
    path.write_bytes(NOT_CONFIGURATIONS[kind])
    with one_sentence_of_ours(caplog, capsys):
        synth.load_config(path)
    for command in (["run", str(path), "--out", "out"], ["forecast", str(path)], ["rehearse", str(path), "--simulate"]):
        assert main(command) == 2
        assert said_in_one_line(capsys, caplog)


def test_an_error_inside_a_library_is_an_incident_without_its_words(
    config: RunConfig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(*_: object, **__: object) -> None:
        try:
            raise KeyError(CANARY)
        except KeyError as error:
            raise ValueError(f"could not convert string to float: '{CANARY}'") from error

    monkeypatch.setattr("synth.cli.local.carry_out", failing)
    with caplog.at_level(logging.DEBUG), pytest.raises(SynthError, match="Something failed inside Hermitage") as caught:
        synth.run(config, "out")
    assert CANARY not in words_of(caught.value) + caplog.text
    assert caught.value.__context__ is None
    incident = str(caught.value).rstrip(".").rsplit(" ", 1)[1]
    assert incident in caplog.text


COMMANDS: dict[str, list[Callable[[str], list[str]]]] = {
    "demo": [lambda text: ["demo", text]],
    "run": [
        lambda text: ["run", text, "--out", "out"],
        lambda text: ["run", "town.yaml", "--out", text],
        lambda text: ["run", "town.yaml", "--out", "out", "--table", text],
        lambda text: ["run", "town.yaml", "--out", "out", "--test-table", text],
    ],
    "forecast": [lambda text: ["forecast", text]],
    "find": [
        lambda text: ["find", text],
        lambda text: ["find", "town.yaml", "--table", text],
        lambda text: ["find", "town.yaml", "--out", text],
    ],
    "check-again": [lambda text: ["check-again", "none", "--out", text]],
    "report": [lambda text: ["report", text]],
    "rehearse": [
        lambda text: ["rehearse", text, "--simulate"],
        lambda text: ["rehearse", "town.yaml", "--stand-in", text],
        lambda text: ["rehearse", "town.yaml", "--simulate", text],
        lambda text: ["rehearse", "town.yaml", "--simulate", "--out", text],
    ],
    "compare": [lambda text: ["compare", text, text]],
    "verify": [lambda text: ["verify", text]],
    "rows": [lambda text: ["rows", text, "--out", "rows.csv"], lambda text: ["rows", "b.zip", "--out", text]],
    "preview": [
        lambda text: ["preview", text, "--columns", "age"],
        lambda text: ["preview", "c.yaml", "--columns", "age", "--table", text],
        lambda text: ["preview", "c.yaml", "--columns", "age", "--out", text],
    ],
    "answers": [
        lambda text: ["answers", text],
        lambda text: ["answers", "b.zip", "--out", text],
        lambda text: ["answers", "b.zip", "--public-key", text],
    ],
    "estimate": [
        lambda text: ["estimate", text, "mean age"],
        lambda text: ["estimate", "b.zip", "mean age", "--out", text],
    ],
    "replay": [lambda text: ["replay", text, "--out", "out"], lambda text: ["replay", "b.zip", "--out", text]],
    "model": [
        lambda text: ["model", "fit", text, "--out", "out"],
        lambda text: ["model", "predict", text, "rows.csv", "--out", "foretold.csv"],
        lambda text: ["model", "predict", "b.zip", text, "--out", "foretold.csv"],
        lambda text: ["model", "predict", "b.zip", "rows.csv", "--out", text],
    ],
    "parties": [
        lambda text: ["parties", text, "--out", "machines"],
        lambda text: ["parties", "b.zip", "--out", text],
        lambda text: ["parties", "rows.csv", "--models", text, "--like", "b.zip", "--out", "classes.csv"],
        lambda text: ["parties", "rows.csv", "--models", "m", "--like", text, "--out", "classes.csv"],
    ],
    "schema": [lambda text: ["schema", text]],
    "account": [
        lambda text: ["account", "--enter", text],
        lambda text: ["account", "--check-heads", text],
    ],
    "backup": [lambda text: ["backup", text]],
    "restore": [lambda text: ["restore", text]],
}
WITHOUT_PATHS = {"app", "incidents", "ledger", "generators", "uninstall", "user", "policy", "approvals"}
"""Commands that take no file; ``account`` and ``incidents`` say the name or the incident that was typed."""


def commands_of(parser: argparse.ArgumentParser) -> set[str]:
    (named,) = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return set(named.choices)


def test_every_command_is_tried() -> None:
    from synth.cli.commands import _parser

    assert commands_of(_parser()) == {*COMMANDS, *WITHOUT_PATHS}
    assert config_of  # the options that change a configuration are those of run, forecast and rehearse


@pytest.mark.parametrize(("command", "wrong"), each_once(COMMANDS, WRONG_TEXTS))
def test_no_command_repeats_rows_that_are_given_for_a_path(
    command: str, wrong: str, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in COMMANDS[command]:
        assert main(arguments(WRONG_TEXTS[wrong])) in (1, 2), arguments("")
        assert said_in_one_line(capsys, caplog)


def said_in_one_line(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> bool:
    captured = capsys.readouterr()
    assert CANARY not in captured.out + captured.err + caplog.text
    assert "Traceback" not in captured.err
    assert "Incident" not in captured.err
    said = captured.err or captured.out
    return bool(said.strip())


@pytest.mark.four_cases
@pytest.mark.parametrize("command", COMMANDS)
def test_folders_and_missing_files_are_named_in_a_sentence(
    command: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a-folder").mkdir()
    (tmp_path / "a-folder" / "x").write_text(CANARY)
    for named in ("a-folder", "nowhere/at-all", "people.csv/inside"):
        for arguments in COMMANDS[command]:
            if command == "demo" and named != "people.csv/inside":
                continue  # a new folder, or one that exists, is what it writes into
            if "--out" in arguments("") and named == "nowhere/at-all" and arguments(named)[-1] == named:
                continue  # a new folder is what --out is for
            assert main(arguments(named)) in (1, 2, 70), arguments(named)
            assert said_in_one_line(capsys, caplog)


@pytest.mark.parametrize("name", ["people 2026.csv", "Bild\u202fum 12.csv", "\u00a0.csv", "人.csv", "a'b\"c.csv"])
def test_unusual_names_are_names(name: str, tmp_path: Path, config: RunConfig) -> None:
    (tmp_path / name).write_text(ROWS)
    assert path_of(name, "the table") == Path(name)
    with open_table(name, config.format) as (_, stream):
        assert stream.read() == ROWS.encode()


@pytest.mark.usefixtures("without_trial")
@pytest.mark.parametrize("kind", [str, Path])
def test_paths_as_texts_and_as_objects_are_taken(kind: Callable[[str], Any], tmp_path: Path, config: RunConfig) -> None:
    done = synth.run(synth.load_config(kind("town.yaml")), kind("out"), table=kind("people.csv"))
    assert synth.verify(kind(str(done.bundle))).ok
    assert (tmp_path / "out" / "synthetic.csv").exists()
