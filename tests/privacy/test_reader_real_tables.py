"""Real tables as their distributors publish them; ``HERMITAGE_DATA`` names the folder they lie in."""

from __future__ import annotations

import gzip
import io
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from synth.errors import TableError
from synth.privacy.table import PrivateTable
from synth.reading.reader import read_codes
from synth.schema import CategoryColumn, IdentifierColumn, PrivacyUnit, Schema, TableFormat, load_config
from synth.services.inspection import NO_HEADER, inspect_header
from synth.services.recognition import recognise

DATA = os.environ.get("HERMITAGE_DATA")
pytestmark = pytest.mark.skipif(DATA is None, reason="HERMITAGE_DATA does not name a folder of real tables")
ADULT = Path(__file__).parents[2] / "examples" / "adult.yaml"


def real(name: str) -> Path:
    path = Path(DATA or "") / name
    if not path.exists():
        pytest.skip(f"{name} is not in HERMITAGE_DATA")
    return path


@pytest.mark.parametrize(
    ("name", "rows", "missing"), [("adult/adult.data.gz", 32_561, 4_262), ("adult/adult.test.gz", 16_281, 2_203)]
)
def test_adult(name: str, rows: int, missing: int) -> None:
    config = load_config(ADULT)
    assert config.schema.number_of_units == 32_561
    comment = 1 if name.endswith("test.gz") else 0
    form = config.test_format if comment else config.format
    assert form is not None
    table = read_codes(lambda: real(name).open("rb"), form, config.schema)
    # Both files end with a blank line, which is no row.
    assert (table._n_rows, table._reading.blank_lines, table._reading.unreadable_lines) == (rows, 1, 0)
    assert sum(counts.missing for counts in table._reading.cells.values()) == missing
    assert {(counts.malformed, counts.outside) for counts in table._reading.cells.values()} == {(0, 0)}
    frame = pd.read_csv(
        real(name), header=None, names=list(config.schema.names), skipinitialspace=True, skiprows=comment, dtype=str
    )
    for column in config.schema.modelled:
        if column.name != "fnlwgt":  # kept to the nearest thousand
            expected = frame[column.name].replace("?", "").str.removesuffix(".")
            texts = np.array(column.texts())[table._codes[column.name][:rows]]
            assert (texts == expected.to_numpy()).all(), column.name
    weights = table._codes["fnlwgt"][:rows].astype(int) * 1000
    assert np.abs(weights - frame["fnlwgt"].astype(int)).max() <= 500


def test_adult_from_parquet_is_the_same_codes() -> None:
    config = load_config(ADULT)
    path = real("adult/adult.data.gz")
    frame = pd.read_csv(path, header=None, names=list(config.schema.names), skipinitialspace=True, na_values="?")
    typed = io.BytesIO()
    frame.to_parquet(typed)
    from_text = read_codes(lambda: path.open("rb"), config.format, config.schema)
    parquet = replace(config.format, kind="parquet")
    from_parquet = read_codes(lambda: io.BytesIO(typed.getvalue()), parquet, config.schema)
    for name in config.schema.names:
        np.testing.assert_array_equal(from_text._codes[name], from_parquet._codes[name])


def test_adult_is_opened_with_its_declared_number() -> None:
    config = load_config(ADULT)
    path = real("adult/adult.data.gz")
    train, held = PrivateTable.open(
        lambda: path.open("rb"),
        "",
        config.schema,
        config.format,
        account_key=b"k" * 32,
        holdout=0.2,
        parts=("train", "holdout"),
    )
    assert (train._public_rows, held._public_rows) == (32_561 - 6_512, 6_512)
    assert (train._rows, held._rows) == (32_561 - 6_512, 6_512), "the blank line at the end is no row"


def test_several_stays_per_patient_are_capped_and_split_by_patient() -> None:
    path = real("diabetes130/diabetic_data.csv.gz")
    columns = (
        IdentifierColumn("patient_nbr"),
        CategoryColumn("A1Cresult", ("None", "Norm", ">7", ">8")),
        CategoryColumn("readmitted", ("NO", ">30", "<30")),
    )
    form = TableFormat(missing=("", "?"))
    kept = {}
    for cap, row_count in ((1, "public"), (2, "private")):
        number = 71_518 if row_count == "public" else None
        schema = Schema(columns, PrivacyUnit("patient", cap, "patient_nbr"), row_count, number_of_units=number)  # type: ignore[arg-type]
        kept[cap] = [
            PrivateTable.open(
                lambda: path.open("rb"),
                "",
                schema,
                form,
                account_key=b"k",
                holdout=0.2,
                parts=(part,),
                undeclared="drop",
            )[0]._rows
            for part in ("train", "holdout")
        ]
    ids = pd.read_csv(path, usecols=["patient_nbr"])["patient_nbr"].value_counts()
    assert kept[1] == [71_518 - 14_304, 14_304]
    assert sum(kept[2]) == ids.clip(upper=2).sum()


@pytest.mark.parametrize(
    ("name", "rows", "columns"),
    [
        ("titanic/titanic.csv", 891, 12),
        ("insurance/insurance.csv", 1_338, 7),
        ("cervical/risk_factors_cervical_cancer.csv", 858, 36),
        ("wine_quality/winequality-red.csv", 1_599, 12),
        ("covtype_sample/covtype_train.csv.gz", 15_120, 56),
        pytest.param("diabetes130/diabetic_data.csv.gz", 101_766, 50, marks=pytest.mark.thorough),
    ],
)
def test_inspect(name: str, rows: int, columns: int) -> None:
    with real(name).open("rb") as stream:
        header = inspect_header(stream, TableFormat(missing=("", "?")))
    assert (header.n_rows, len(header.names)) == (rows, columns)
    opened = gzip.open if name.endswith("gz") else open
    with opened(real(name), "rt") as text:
        first = text.readline().strip().replace(";", ",").replace('"', "")
    assert list(header.names) == first.split(",")
    assert (header.blank_lines, header.none_readable) == (0, False)
    with real(name).open("rb") as stream:
        looked = recognise(stream, look=True)
    assert all(column.body for column in looked.columns)
    assert (tuple(column.name for column in looked.columns), looked.rows) == (header.names, header.n_rows)


def test_inspect_refuses_a_table_without_a_header_and_shows_nothing_of_it() -> None:
    with real("adult/adult.data.gz").open("rb") as stream, pytest.raises(TableError) as refused:
        inspect_header(stream)
    assert str(refused.value) == NO_HEADER
