"""Declarations that no generator can carry are refused with the columns at fault, before anything else happens."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from synth.cli import main
from synth.errors import SchemaError
from synth.schema import (
    CategoryColumn,
    Column,
    DateColumn,
    DropColumn,
    ModelledColumn,
    NumberColumn,
    Schema,
    YesNoColumn,
    domain_problem,
    load_config,
)


def category(name: str, values: int) -> CategoryColumn:
    return CategoryColumn(name, tuple(f"v{place}" for place in range(values)))


def number(name: str, places: int) -> NumberColumn:
    return NumberColumn(name, 0, places - 1, 1)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        pytest.param(
            (category("postcode", 9000), category("job", 8000), category("region", 12)),
            "'postcode' (9,000 values) and 'job' (8,000 values) are too wide to be counted together: a table of two of "
            "them has up to 72,000,000 cells, and at most 33,554,432 are allowed. Declare fewer categories (group "
            "them, for example by first digit), or leave columns out.",
            id="two long lists",
        ),
        pytest.param(
            (category("long", 10_000), *(category(f"c{place}", 3500 + place) for place in range(9))),
            "'long' (10,000 values), 'c8' (3,508 values), 'c7' (3,507 values), 'c6' (3,506 values), 'c5' (3,505 "
            "values) and 5 more are too wide",
            id="one long list and nine others",
        ),
        pytest.param(
            tuple(category(f"c{place}", 3000) for place in range(100)),
            "The columns have 300,000 values in total, and a model holds at most 262,144; the widest are 'c0' (3,000 "
            "values), 'c1'",
            id="many long lists",
        ),
        pytest.param(
            (*(number(f"n{place}", 2**24) for place in range(129)), category("region", 12)),
            "The numbers and dates have 135,266,304 values in total (of each at most 1,048,576 are counted), and at "
            "most 134,217,728 are allowed; the finest are 'n0' (16,777,216 values), 'n1' (16,777,216 values), 'n2' "
            "(16,777,216 values), 'n3' (16,777,216 values), 'n4' (16,777,216 values) and 125 more. Choose a larger "
            "step or narrower bounds, or leave columns out.",
            id="many fine numbers",
        ),
    ],
)
def test_the_columns_at_fault_are_named(columns: tuple[Column, ...], words: str) -> None:
    with pytest.raises(SchemaError) as refusal:
        Schema(columns)
    assert words in str(refusal.value)
    assert "'region'" not in str(refusal.value)
    # What is left out counts for nothing.
    Schema((*(DropColumn(column.name) for column in columns[:-1]), columns[-1]))


@pytest.mark.parametrize(
    ("columns", "more"),
    [
        pytest.param((category("a", 8192), category("b", 4096)), category("c", 4097), id="cells of a pair"),
        pytest.param(tuple(category(f"c{place}", 2**12) for place in range(64)), category("d", 1), id="all values"),
        pytest.param(tuple(number(f"n{place}", 2**29) for place in range(128)), number("one", 2), id="all places"),
    ],
)
def test_what_is_just_possible_passes(columns: tuple[ModelledColumn, ...], more: ModelledColumn) -> None:
    assert domain_problem(columns) is None
    assert domain_problem((*columns, more)) is not None


def test_one_column_is_never_too_wide_for_itself() -> None:
    assert domain_problem((category("only", 10_000),)) is None
    assert domain_problem(()) is None


TABLES = {
    "Adult as published": (
        number("age", 121),
        number("fnlwgt", 1_500_001),  # 0 to 1,500,000, one by one
        *(category(f"c{place}", values) for place, values in enumerate((9, 16, 7, 15, 6, 5, 42, 2))),
        number("education years", 17),
        number("gain", 100_000),
        number("loss", 5000),
        number("hours", 100),
    ),
    "census income, 42 columns": (
        *(category(f"c{place}", 60) for place in range(34)),
        *(number(f"n{place}", 100_000) for place in range(8)),
    ),
    "hospital stays with three diagnoses": (
        *(category(f"diagnosis {place}", 1000) for place in range(3)),
        *(YesNoColumn(f"drug {place}") for place in range(40)),
        DateColumn("admitted", datetime.date(1990, 1, 1), datetime.date(2020, 1, 1)),
    ),
    "card payments with fine amounts": tuple(NumberColumn(f"v{place}", -120, 120, 1e-4) for place in range(30)),
    "617 features of speech": tuple(NumberColumn(f"x{place}", -1, 1, 1e-4) for place in range(617)),
    "784 pixels": tuple(number(f"pixel {place}", 256) for place in range(784)),
    "120 columns of 32 bins": tuple(category(f"c{place}", 32) for place in range(120)),
}


@pytest.mark.parametrize("name", TABLES)
def test_sensible_declarations_pass(name: str) -> None:
    assert domain_problem(TABLES[name]) is None


@pytest.fixture
def absurd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    (tmp_path / "people.csv").write_text("street,job\na,b\n")
    body = {
        "table": str(tmp_path / "people.csv"),
        "account": "town",
        "unit": {"protects": "person", "rows_per_unit": 1},
        "row_count": "public",
        "number_of_units": 1,
        "budget": {"epsilon": 1.0},
        "rows": 10,
        "columns": {
            name: {"type": "category", "values": [f"v{place}" for place in range(6000)]} for name in ("street", "job")
        },
    }
    path = tmp_path / "absurd.yaml"
    path.write_text(yaml.safe_dump(body, sort_keys=False))
    return path


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(lambda path: ["run", str(path), "--out", str(path.parent / "out")], id="run"),
        pytest.param(lambda path: ["forecast", str(path)], id="forecast"),
    ],
)
def test_the_command_line_refuses_in_one_line_and_charges_nothing(
    arguments: Callable[[Path], list[str]], absurd: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments(absurd)) == 2
    line = capsys.readouterr().err
    assert line.startswith("synth: 'street' (6,000 values) and 'job' (6,000 values) are too wide")
    assert line.count("\n") == 1
    assert not (absurd.parent / "out").exists()
    assert main(["ledger"]) == 0
    assert capsys.readouterr().out == "Nothing spent yet.\n"


def test_the_example_passes() -> None:
    assert load_config(Path(__file__).parents[1] / "examples" / "adult.yaml").schema.modelled
