"""Where a file is not written as most are, `synth run` without a configuration asks how, and nothing is typed twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from sheets import xlsx, xlsx_row

from synth.cli.asking import ask_configuration
from synth.errors import InputError, TableError
from synth.schema import load_config

OF_PEOPLE = ["town", "person", "1", "n", "1000", "2", "50"]
NUMBER = ["number", "y", "0", "9000", "1", ""]


def asking(answers: list[str], said: list[str]) -> tuple[Callable[[str, str], str], Callable[[str], None]]:
    left = iter(answers)

    def ask(question: str, default: str) -> str:
        said.append(question)
        typed = next(left, None)
        if typed is None:
            raise InputError("Not every question was answered, so nothing was started.")
        return typed or default

    return ask, said.append


def asked(table: Path, monkeypatch: pytest.MonkeyPatch, *answers: str) -> tuple[dict[str, object], list[str]]:
    monkeypatch.chdir(table.parent)
    said: list[str] = []
    written = ask_configuration(str(table), *asking(list(answers), said))
    form = load_config(written).format
    return {key: getattr(form, key) for key in ("encoding", "sheet", "separator", "header", "names", "skip_rows")}, said


def test_an_encoding_is_asked_until_it_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "wages.csv"
    table.write_bytes("âge,paye\n34,1200\n".encode("latin-1"))
    form, said = asked(table, monkeypatch, "windows", "latin-1", *OF_PEOPLE, *NUMBER, *NUMBER)
    assert form["encoding"] == "latin-1"
    assert any(
        "The first line is not UTF-8. Its bytes read as Western Europe, Windows (cp1252)." in line for line in said
    )
    assert "format: the encoding 'windows' is not supported. Use for example utf-8 or latin-1." in said


def test_the_sheet_of_a_workbook_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "wages.xlsx"
    table.write_bytes(xlsx(xlsx_row(["age"]) + xlsx_row(["34"]) * 3, sheets={"Notes": "visible"}))
    form, said = asked(table, monkeypatch, "People", *OF_PEOPLE, *NUMBER)
    assert form["sheet"] == "People"
    assert any("The workbook has 2 sheets: 'People' and 'Notes'." in line for line in said)


def test_names_are_asked_where_the_first_line_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "wages.csv"
    table.write_bytes(b"34;1200\n35;1300\n36;1400\n")
    answers = ["comma", "age, pay", "0", ";", "age, pay", "0", *OF_PEOPLE, *NUMBER, *NUMBER]
    form, said = asked(table, monkeypatch, *answers)
    assert (form["header"], form["names"], form["separator"]) == (False, ("age", "pay"), ";")
    assert any("separator must be one character" in line for line in said)
    assert not any("1200" in line for line in said)


def test_what_no_answer_mends_is_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "wages.csv"
    table.write_bytes(b"")
    with pytest.raises(TableError, match="empty"):
        asked(table, monkeypatch)
