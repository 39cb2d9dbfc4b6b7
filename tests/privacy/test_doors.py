"""Who can reach an unnoised value: reading, privacy and the owner's one door; shown by imports, by types, by trying."""

from __future__ import annotations

import ast
import dataclasses
import io
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from questions import every_kind_of_map, small_codes, small_schema
from recorded_noise import RecordedNoise

from synth.errors import PrivacyError
from synth.privacy import counting, counting_processes, table
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.answers import FEATURE_MAPS, KINDS
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.reading.reader import EncodedTable, read_codes
from synth.reports.owner_view import OWNER_ONLY_READERS
from synth.schema import NumberColumn, Schema, TableFormat

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("synth.reading", "synth.privacy")
"""Where rows are read and answered about."""

DOOR = "synth.reports.owner_view"
"""Where exact values pass, for the owner's eyes alone."""

OF_ROWS = {
    "synth.reading.reader": {"read_codes", "EncodedTable", "with_id"},
    "synth.privacy.table": {"read_table", "rows_of", "chosen_rows", "units_to_split"},
    "synth.privacy.counting": set(counting.__all__),
    "synth.privacy.counting_processes": set(counting_processes.__all__),
    "synth.privacy.feature_maps": {"exact_sum"},
    "synth.privacy.selection": {"scores_of"},
    "synth.privacy.more.gradients": {"sum_of_gradients"},
    "synth.privacy.more.perturbed_rows": {"draw_rows"},
}
"""By module, the names that hand out rows, or what was counted or added up on them."""


@cache
def imported() -> Sequence[tuple[str, str, str]]:
    """Every import of the program, wherever it stands: the module, what it imports from, and the name."""
    return tuple(_imported())


def _imported() -> Iterator[tuple[str, str, str]]:
    for path in [ROOT / "app.py", *(ROOT / "synth").rglob("*.py"), *(ROOT / "pages").rglob("*.py")]:
        here = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                yield from ((here, node.module, name.name) for name in node.names)
            elif isinstance(node, ast.Import):
                yield from ((here, name.name, "") for name in node.names)


def test_names_that_hand_out_rows_are_imported_by_the_rooms_of_the_promise_and_the_owners_door_alone() -> None:
    for module, names in OF_ROWS.items():
        assert names <= set(__import__(module, fromlist=["x"]).__dict__), f"{module} has other names now"
    outside = {
        (here, module, name)
        for here, module, name in imported()
        if not here.startswith(ROOMS) and (name in OF_ROWS.get(module, ()) or f"{module}.{name}" in OF_ROWS)
    }
    assert {here for here, _, _ in outside} == {DOOR}


def test_no_whole_module_of_the_rooms_is_imported_from_which_anything_could_be_taken() -> None:
    for here, module, name in imported():
        whole = module if not name else f"{module}.{name}"
        assert here.startswith(ROOMS) or whole not in OF_ROWS, f"{here} imports all of {whole}"


def test_the_owners_door_is_opened_by_those_it_lists_alone() -> None:
    users = {here for here, module, name in imported() if DOOR in (module, f"{module}.{name}")}
    assert users <= {*OWNER_ONLY_READERS}


def test_private_attributes_are_refused_everywhere_but_in_privacy_and_at_the_door() -> None:
    lint = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]["lint"]
    exempt = {files for files, rules in lint["per-file-ignores"].items() if {"SLF", "SLF001"} & set(rules)}
    assert "SLF" in lint["select"]
    assert {files for files in exempt if not files.startswith("tests")} == {
        "synth/privacy/**",
        f"{DOOR.replace('.', '/')}.py",
    }


def public_values(thing: object) -> Iterator[tuple[str, Any]]:
    for name in dir(thing):
        if not name.startswith("_"):
            value = getattr(thing, name)
            if not callable(value):
                yield name, value


def arrays_in(value: Any) -> Iterator[np.ndarray]:
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, list | tuple | set | frozenset):
        for one in value:
            yield from arrays_in(one)
    elif isinstance(value, dict):
        yield from arrays_in(list(value.values()))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from arrays_in([getattr(value, field.name) for field in dataclasses.fields(value)])


def test_no_public_attribute_of_a_table_or_a_session_is_made_of_rows() -> None:
    schema = small_schema()
    rows = PrivateTable.from_codes(schema, small_codes(50))
    session = PrivateSession(rows, PrivacyBudget(1.0, 1e-5, schema.neighbours), noise=RecordedNoise(3))
    assert {name for name, _ in public_values(rows)} == {"schema", "part"}
    for thing in (rows, session):
        assert not [name for name, value in public_values(thing) if list(arrays_in(value))]
    answer = session.noisy_sum(every_kind_of_map()["one-hot"], share=0.5, query="q", source="test")
    assert [array.tolist() for array in arrays_in(session.answers)] == [answer.value.tolist()]
    with pytest.raises(PrivacyError):
        PrivateTable()


def test_nothing_of_a_table_that_was_read_is_public() -> None:
    content = b"age\n1\n2\n"
    read = read_codes(lambda: io.BytesIO(content), TableFormat(), Schema((NumberColumn("age", 0, 9, 1),)))
    assert list(public_values(read)) == []
    assert {field.name for field in dataclasses.fields(EncodedTable)} == set(EncodedTable.__slots__)
    assert all(name.startswith("_") for name in EncodedTable.__slots__)


@pytest.mark.slow
def test_the_type_checker_lets_no_private_codes_pass_for_codes(tmp_path: Path) -> None:
    """Their own classes have no array that anything else could be handed, and are none themselves."""
    lines = (
        "from synth.privacy.session import PrivateSession",
        "from synth.privacy.table import PrivateTable",
        "from synth.reading.reader import EncodedTable",
        "from synth.schema import ModelledColumn",
        "from synth.schema.encoding import decode_column",
        "def leak(read: EncodedTable, table: PrivateTable, session: PrivateSession, column: ModelledColumn) -> None:",
        "    decode_column(column, [0])",
        "    decode_column(column, read)",
        "    decode_column(column, table)",
        "    decode_column(column, session)",
        "    decode_column(column, read.codes)",
        "    decode_column(column, table.columns)",
    )
    snippet = tmp_path / "snippet.py"
    snippet.write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports", "silent", str(snippet)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    refused = [int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error: " in line]
    assert refused == [8, 9, 10, 11, 12], done.stdout + done.stderr


def test_what_sees_rows_is_of_the_closed_classes_alone() -> None:
    """Only a question's ``draw`` and a map's ``sums_by_cell`` are handed rows, and sessions check their exact class."""
    functions = [
        node
        for path in (ROOT / "synth" / "privacy").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    ]
    annotated = {(one.name, ast.unparse(a.annotation)) for one in functions for a in one.args.args if a.annotation}
    methods = {name for name, annotation in annotated if annotation == "PrivateRows"}
    assert {"draw", "sums_by_cell"} <= methods
    for kind in (*KINDS, *FEATURE_MAPS):
        assert kind.__module__.startswith("synth.privacy.")
    assert table.PrivateTable.__slots__ == (
        "_columns",
        "_counting",
        "_keyed",
        "_processes",
        "_public_rows",
        "_rows",
        "_texts",
        "_units",
        "part",
        "schema",
    )
