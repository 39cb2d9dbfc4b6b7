"""synth.Release: a DataFrame goes the way a file goes, and no cell of it comes back but through noise."""

from __future__ import annotations

import copy
import datetime as dt
import json
import pickle
import warnings
import zipfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import synth
from synth.application import Application
from synth.cli.frames import FORMAT, frame_as_table
from synth.cli.local import run_locally
from synth.errors import BudgetExceededError, InputError, NotAsDeclaredError, PrivacyError
from synth.schema import config_of_schema, format_to_mapping

CANARY = "CANARY-7f3a"
SCHEMA: dict[str, Any] = {
    "unit": {"protects": "patient", "rows_per_unit": 1},
    "row_count": "private",
    "columns": {
        "age": {"type": "number", "low": 0, "high": 120, "step": 1, "missing": True},
        "ward": {"type": "category", "values": ["A", "B"], "other": True},
        "since": {"type": "date", "low": "2020-01-01", "high": "2020-12-31", "step": "month", "missing": True},
        "note": {"type": "drop"},
    },
}
HOW: dict[str, Any] = {"epsilon": 2.0, "people_at_most": 1000, "generator": "independent", "rows": 50, "holdout": 0}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def visits(n: int = 80) -> pd.DataFrame:
    rows = {"age": [place % 90 for place in range(n)], "ward": ["A", "B", CANARY, None] * (n // 4)}
    return pd.DataFrame(rows | {"since": pd.Timestamp("2020-05-04"), "note": CANARY}, index=[CANARY] * n)


def town(n: int = 600) -> pd.DataFrame:
    return pd.DataFrame({"age": [place % 90 for place in range(n)], "ward": ["A", "B"] * (n // 2), "left": range(n)})


TOWN = {
    **SCHEMA,
    "columns": {**{name: SCHEMA["columns"][name] for name in ("age", "ward")}, "left": {"type": "find"}},
}


@pytest.mark.usefixtures("without_trial")
def test_a_preview_of_a_frame_is_charged_once_and_stated_by_its_release() -> None:
    release = synth.Release(town(), TOWN, account="town", **HOW)
    counts = release.preview(["ward"], epsilon=0.2)
    assert list(counts["value_1"]) == ["A", "B", "other"]
    assert counts["count"][:2].to_numpy() == pytest.approx([300, 300], abs=6 * counts["standard_error"][0])
    pd.testing.assert_frame_equal(release.preview(["ward"], epsilon=0.2), counts)
    pd.testing.assert_frame_equal(
        synth.Release(town(), TOWN, account="town", **HOW).preview(["ward"], epsilon=0.2), counts
    )
    with pytest.raises(InputError, match="'left' has no declared values to count"):
        release.preview(["left"])
    described = {**TOWN, "columns": {**TOWN["columns"], "left": {"type": "drop"}}}
    after = synth.Release(town(), described, account="town", **HOW).fit()
    assert [(one["epsilon"], one["delta"]) for one in after.certificate_["previews"]] == [(0.2, pytest.approx(5e-8))]
    assert after.certificate_["epsilon"] > 2.0
    assert synth.verify(after.bundle_).ok
    with Application.from_environment() as application:
        assert application.intake.tables() == []
        assert application.account("town").epsilon_spent < 2.2


def test_a_preview_without_an_account_is_of_rows_that_were_not_used_before() -> None:
    release = synth.Release(town(), TOWN, **HOW)
    assert len(release.preview(["ward"], epsilon=0.2)) == len(release.preview(["ward"], epsilon=0.2, anew=True)) == 3
    with pytest.raises(PrivacyError, match="same rows"):
        synth.Release(town(), TOWN, **HOW).preview(["ward"], epsilon=0.2)


def test_a_dataframe_goes_in_and_a_verified_one_comes_out(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    release = synth.Release(visits(), SCHEMA, account="clinic", **HOW)
    assert repr(release) == "Release(4 columns, epsilon=2, delta=1e-06, generator='independent', account='clinic')"
    with pytest.raises(InputError, match="Call fit first"):
        release.sample()
    assert release.fit("release", verbose=True) is release
    said = capsys.readouterr()
    assert "Trying out ...\nReading ...\n" in said.err
    assert not said.out
    assert list(release.table_) == ["age", "ward", "since"]
    assert len(release.table_) == 50
    assert release.table_["since"].dtype == visits()["since"].dtype
    assert set(release.table_["ward"]) <= {"A", "B", "other"}
    assert release.bundle_ == tmp_path / "release" / "bundle.zip"
    assert release.certificate_["epsilon"] == release.spent_[0] <= 2.0
    assert release.account_ == "clinic"
    assert synth.verify(release.bundle_).ok
    # Nothing of the rows stays but what is sealed: no table in the vault, and no cell in any file.
    with Application.from_environment() as application:
        assert application.intake.tables() == []
        spent = application.account("clinic")
    assert (spent.releases, spent.epsilon_spent) == (1, pytest.approx(2.0, abs=0.01))
    files = [path for folder in (home, tmp_path / "release") for path in folder.rglob("*") if path.is_file()]
    assert not [path for path in files if CANARY.encode() in path.read_bytes()]

    drawn, other = release.sample(), release.sample()
    assert list(drawn) == list(release.table_)
    assert len(drawn) == 50
    assert not drawn.equals(other)
    assert release.sample(7, seed=3).equals(release.sample(7, seed=3))
    with pytest.raises(InputError, match="Draw at least one row"):
        release.sample(0)
    for number in (2.5, "7", True):
        with pytest.raises(InputError, match="a whole number"):
            release.sample(number)
    with Application.from_environment() as application:
        assert application.account("clinic") == spent, "to draw costs nothing"
        application.set_cap("clinic", 2.5, 1e-5)
    with pytest.raises(BudgetExceededError):
        release.fit()

    # A file with the same lines makes the same release, but for its noise.
    Path("visits.csv").write_bytes(frame_as_table(visits(), release._config.schema).getvalue())
    asked = {key: HOW[key] for key in ("rows", "people_at_most", "holdout")} | {"account": "elsewhere"}
    asked |= {"budget": {"epsilon": 2.0}, "generator": {"name": "independent"}, "format": format_to_mapping(FORMAT)}
    config = config_of_schema(release._config.schema, asked)
    with pytest.warns(synth.SameTableWarning, match="under the account clinic"):
        result = run_locally(config, "from file", table="visits.csv", owner_report=False)
    assert result.table.dtypes.drop("since").equals(release.table_.dtypes.drop("since"))
    both = [json.loads(Path(folder, "certificate.json").read_text()) for folder in ("release", "from file")]
    assert both[0].keys() == both[1].keys()
    assert [one["assumptions"] for one in both[:1]] == [one["assumptions"] for one in both[1:]]
    names = [set(zipfile.ZipFile(Path(folder, "bundle.zip")).namelist()) for folder in ("release", "from file")]
    assert names[0] == names[1]


def of_many_types(n: int = 400) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Columns of types that ordinary tables have, each value 80 times, and what is declared of them."""
    five = np.arange(n) % 5
    seconds = np.datetime64("2024-01-01", "s") + five * np.timedelta64(1, "D")
    seconds[-1] = np.datetime64(2**62, "s")
    long_ids = 9007199254740993 + five
    number = {"type": "number", "low": 0, "high": 4, "step": 1, "missing": True}
    date = {"type": "date", "low": "2024-01-01", "high": "2024-12-31", "step": "month", "missing": True}
    frame = pd.DataFrame(
        {
            "seen": seconds,
            "code": long_ids,
            "wait": pd.to_timedelta(five, unit="min"),
            "key": [f"k{place}".encode() for place in five],
            "came": pd.Series(five).map(lambda hour: dt.time(hour, 30)),
            "month": pd.PeriodIndex(seconds[:5], freq="M").take(five),
            "group": pd.cut(five, [-1, 2, 4]),
            "paid": pd.Series([Decimal(int(place)) for place in five], dtype=pd.ArrowDtype(pa.decimal128(5, 2))),
            "born": pd.Series(seconds[five]).dt.tz_localize("Europe/Berlin"),
            "small": five.astype("int8"),
            "town": pd.Series([f"t{place}" for place in five], dtype="string[pyarrow]"),
        }
    )
    columns = {
        "seen": date,
        "code": {"type": "category", "values": [9007199254740993 + place for place in range(5)], "missing": True},
        "wait": {**number, "duration": "minutes"},
        "key": {"type": "category", "values": [f"k{place}" for place in range(5)], "missing": True},
        "came": {"type": "time", "step": "quarter", "missing": True},
        "month": date,
        "group": {"type": "category", "values": ["(-1, 2]", "(2, 4]"], "ordered": True, "fallback": "(2, 4]"},
        "paid": number,
        "born": date,
        "small": {**number, "missing": False, "fallback": 0},
        "town": {"type": "category", "values": [f"t{place}" for place in range(5)], "missing": True},
    }
    return frame, {**SCHEMA, "columns": columns}


@pytest.mark.usefixtures("without_trial")
def test_columns_of_many_types_become_a_sealed_release_with_the_same_types() -> None:
    frame, schema = of_many_types()
    release = synth.Release(frame, schema, account="clinic", **HOW)
    with warnings.catch_warnings():
        warnings.simplefilter("error", synth.NotAsDeclaredWarning)  # nothing is lost of any column
        release.fit()
    assert synth.verify(release.bundle_).ok
    same = ["seen", "wait", "month", "paid", "born", "small", "town"]
    for table in (release.table_, release.sample()):
        assert table.dtypes[same].equals(frame.dtypes[same])
        assert table["group"].dtype == pd.CategoricalDtype(["(-1, 2]", "(2, 4]"], ordered=True)
        for name in ("code", "key"):
            assert set(table[name].dropna()) <= set(map(str, schema["columns"][name]["values"]))
        assert set(table["wait"].dropna()) <= set(pd.to_timedelta(range(5), unit="min"))


def test_a_column_that_cannot_be_read_is_refused_by_name_before_anything_is_charged() -> None:
    frame, schema = of_many_types()
    without_unit = {**schema, "columns": {**schema["columns"], "wait": {**schema["columns"]["wait"], "duration": None}}}
    with pytest.raises(InputError, match="'wait' holds durations"):
        synth.Release(frame, without_unit, account="clinic", **HOW)
    lists = visits().assign(ward=[["A"]] * 80)
    # A list is no text, and so one of the undeclared values; an object may be anything, so only its cells tell.
    with pytest.raises(NotAsDeclaredError, match="'ward': 100 %"):
        synth.Release(lists, SCHEMA, account="clinic", **HOW).fit()
    with Application.from_environment() as application:
        assert application.account("clinic").epsilon_spent == 0


@pytest.mark.usefixtures("without_trial")
def test_without_an_account_the_same_rows_are_fitted_once(home: Path) -> None:
    first = synth.Release(visits(), SCHEMA, **HOW).fit()
    assert first.account_.startswith("one release of ")
    assert first.bundle_.is_relative_to(home)
    for again in (first, synth.Release(visits(), SCHEMA, **HOW | {"epsilon": 0.5})):
        with pytest.raises(PrivacyError, match="Name the people they are about"):
            again.fit()
    with Application.from_environment() as application:
        assert len({row.run_id for row in application.ledger_rows()}) == 1
        assert application.intake.tables() == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilon": -1}, "epsilon must be positive"),
        ({"epsilon": "much"}, "epsilon must be a number"),
        ({"generator": "magic"}, "There is no generator called 'magic'"),
        ({"table": "people.csv"}, "has no argument 'table'"),
        ({"rows": 0}, "rows must be between 1"),
        ({"people_at_most": None}, "people_at_most is missing"),
        ({"schema": "people.csv"}, "The schema must come from"),
        ({"schema": SCHEMA | {"columns": {"age": {"type": None}}}}, "'age': type must be one of number"),
        (
            {"schema": SCHEMA | {"columns": {"aged": {"type": "yes_no", "missing": True}} | SCHEMA["columns"]}},
            "no column 'aged'",
        ),
    ],
)
def test_what_cannot_be_used_is_one_sentence_and_costs_nothing(change: dict[str, Any], message: str) -> None:
    schema = change.get("schema", SCHEMA)
    changed = {name: value for name, value in change.items() if name != "schema"}
    with pytest.raises(synth.SynthError, match=message) as caught:
        synth.Release(visits(), schema, account="clinic", **HOW | changed).fit()
    assert CANARY not in str(caught.value)
    with Application.from_environment() as application:
        assert application.ledger_rows() == []


def test_private_rows_are_neither_shown_nor_written_to_a_file() -> None:
    release = synth.Release(visits(), SCHEMA, **HOW)
    assert CANARY not in repr(release) + str(release)
    for keep in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(PrivacyError, match="holds private rows"):
            keep(release)


def test_a_schema_is_what_a_configuration_says_of_its_table(tmp_path: Path) -> None:
    path = tmp_path / "clinic.yaml"
    path.write_text(json.dumps(SCHEMA | {"account": "clinic", "budget": {"epsilon": 1.0}}))
    schema = synth.load_schema(path)
    assert isinstance(schema, synth.Schema)
    assert schema.names == ("age", "ward", "since")
    assert repr(synth.Release(visits(), schema, **HOW)).startswith("Release(4 columns")
    path.write_text(f"{CANARY}: 3\n")
    with pytest.raises(InputError) as caught:
        synth.load_schema(path)
    assert CANARY not in str(caught.value)


OPEN = SCHEMA | {"columns": {name: {"type": "find"} for name in ("age", "ward", "code")} | {"note": {"type": "drop"}}}


def people(n: int = 900) -> pd.DataFrame:
    rows = {"age": [20 + place % 60 for place in range(n)], "ward": ["A", "B", "A"] * (n // 3)}
    return pd.DataFrame(rows | {"code": [f"{CANARY} {place}" for place in range(n)], "note": CANARY})


def charges() -> list[tuple[float, str]]:
    with Application.from_environment() as application:
        account = application.store.accounts.named("clinic")
        return [] if account is None else [(one.epsilon, one.state) for one in application.ledger.current(account.id)]


@pytest.mark.thorough
def test_what_is_open_is_found_first_and_once(home: Path) -> None:
    how = HOW | {"epsilon": 4.0, "find_epsilon": 1.5, "account": "clinic"}
    release = synth.Release(people(), OPEN, **how).fit("release")
    assert release.found_["columns"]["ward"] == {"type": "category", "values": ["A", "B"], "other": True}
    assert release.certificate_["found"]["epsilon"] == 1.5
    assert set(release.certificate_["domain_source"].values()) == {"found privately, epsilon 1.5"}
    assert list(release.table_) == ["age", "ward"]
    # Finding and run as one release: more than what was left for the run, less than both.
    assert 2.5 <= release.spent_[0] < 4.0
    assert synth.verify(release.bundle_).ok
    again = synth.Release(people(), release.found_, account="clinic", **HOW).fit()
    assert again.certificate_["found"] == release.certificate_["found"]
    assert charges() == [(1.5, "released"), (2.5, "released"), (2.0, "released")]
    with Application.from_environment() as application:
        assert application.intake.tables() == []
    assert not [path for path in home.rglob("*") if path.is_file() and CANARY.encode() in path.read_bytes()]


def test_what_was_found_is_kept_where_it_cannot_be_run() -> None:
    how = HOW | {"epsilon": 4.0, "account": "clinic"}
    for change, message in (({"generator": "magic"}, "no generator called"), ({"find_epsilon": 5.0}, "between 0 and")):
        with pytest.raises(synth.SynthError, match=message):
            synth.Release(people(), OPEN, **how | change).fit()
    assert charges() == []
    release = synth.Release(people(), OPEN, label="code", **how)
    for _ in range(2):
        with pytest.raises(synth.SynthError, match=r"code.*is in found_"):
            release.fit()
        assert charges() == [(0.4, "released")], "found once"
    assert release.found_["columns"]["code"] == {"type": "drop"}
