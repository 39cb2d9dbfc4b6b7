"""One pass in several local processes: from the bytes of a file to the sealed bundle, the sums are those of one.

Tables are of people with several rows, which lie in different parts of the file, so that whatever is decided part by
part shows: which rows of a person count, and on which side of the split the person is.
"""

from __future__ import annotations

import gc
import io
import pickle
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from recorded_noise import RecordedNoise

from synth.cli.local import run_locally
from synth.errors import JobError, PrivacyError, TableError
from synth.privacy import counting_processes, session
from synth.privacy import table as tables
from synth.privacy.counting import CountMemory, PrivateRows
from synth.privacy.feature_maps import OneHot, Stack, exact_sum
from synth.privacy.table import PrivateTable
from synth.reading import reader
from synth.schema import RunConfig, TableFormat, parse_config
from synth.services import intake, runs
from synth.system.settings import ReaderLimits

KEY = b"k" * 32
CAP = 2
PEOPLE, ROWS, GROUP = 40, 240, 16

DECLARED: dict[str, Any] = {
    "account": "village-2026",
    "unit": {"protects": "person", "rows_per_unit": CAP, "id_column": "person"},
    "row_count": "private",
    "people_at_most": 1000,
    "budget": {"epsilon": 1.0},
    "holdout": 0.25,
    "generator": {"name": "independent"},
    "columns": {
        "person": {"type": "identifier"},
        "age": {"type": "number", "low": 0, "high": 99, "step": 1, "missing": True},
        "ward": {"type": "category", "values": ["a", "b", "c"], "missing": True},
        "cost": {"type": "number", "low": 0, "high": 500, "step": 1, "missing": True},
    },
}
SEPARATE = parse_config({**DECLARED, "people": "separate_rows", "rows": 100})
WHOLE = parse_config({**DECLARED, "people": 50})


def file_of(rows: int = ROWS, many: int = PEOPLE) -> bytes:
    """A Parquet file in which the rows of every person lie in several groups; some rows are nobody's."""
    random = np.random.default_rng(4)
    people = np.arange(rows) % many
    held = io.BytesIO()
    cells = pa.table(
        {
            "person": pa.array([None if place % 31 == 7 else f"p{one}" for place, one in enumerate(people)]),
            "age": pa.array(random.integers(0, 130, rows)),  # some are out of range
            "ward": pa.array(np.array(["a", "b", "c", "elsewhere"])[random.integers(0, 4, rows)]),
            "cost": pa.array(random.integers(0, 501, rows), mask=random.random(rows) < 0.1),
        }
    )
    pq.write_table(cells, held, row_group_size=GROUP)
    return held.getvalue()


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even a small table is cut into parts."""
    monkeypatch.setattr(reader, "PART_BYTES", 1)
    monkeypatch.setattr(tables, "ROWS_OF_PROCESS", 1)


def opened(processes: int, config: RunConfig = SEPARATE, **named: Any) -> tuple[PrivateTable, ...]:
    data = file_of()
    return PrivateTable.open(
        lambda: io.BytesIO(data),
        "",
        config.schema,
        TableFormat(),
        account_key=KEY,
        processes=processes,
        **named,
    )


def exact_sums(processes: int, config: RunConfig = SEPARATE) -> list[list[int]]:
    """The sums of one question without noise, over the rows to learn from and over those that are held out."""
    found = []
    for table in opened(processes, config, holdout=config.holdout, parts=("train", "holdout")):
        sizes = {column.name: column.size for column in table.schema.modelled}
        pairs = [("age", "ward"), ("ward", "cost"), ("age",)]
        maps = [OneHot(names, (None,) * len(names), tuple(sizes[name] for name in names)) for names in pairs]
        rows = PrivateRows(table._column, table._rows, counters=table._counters())
        question = Stack(tuple(maps), (3**-0.5,) * 3)
        found.append(exact_sum(question.blocks(), rows, half_bits=12).tolist())
        assert (table._counting is not None) == (processes > 1)
    return found


# What must hold -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "config", [SEPARATE, pytest.param(WHOLE, marks=pytest.mark.thorough)], ids=["rows of people", "whole people"]
)
def test_the_exact_sums_are_the_same_in_one_process_and_in_several(config: RunConfig) -> None:
    assert exact_sums(1, config) == exact_sums(2, config) == exact_sums(4, config)


def test_of_a_person_whose_rows_lie_in_several_parts_no_more_rows_count_than_declared() -> None:
    (table,) = opened(4)
    there = pq.read_table(io.BytesIO(file_of()))["person"].to_pylist()
    of_person = Counter(filter(None, there))
    assert table._rows == sum(min(CAP, rows) for rows in of_person.values())
    assert table._units is not None
    assert np.bincount(table._units).max() == CAP


class Known(RecordedNoise):
    """The same noise in every run, which a receipt calls private so that a bundle can be sealed."""

    private: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__(3)


def sealed(
    processes: int, folder: Path, patch: pytest.MonkeyPatch, table: Path, config: RunConfig = SEPARATE
) -> dict[str, bytes]:
    """The noisy answers and the rows in the bundle of a whole run, and that so many processes took part."""
    started: list[int] = []
    right = counting_processes.CountingProcesses._start

    def start(self: counting_processes.CountingProcesses) -> None:
        right(self)
        started.append(len(self._started))

    with patch.context() as patched:
        for module in (runs, intake):
            patched.setattr(module, "local_processes", lambda wanted=0: processes)
        patched.setattr(session, "SystemNoise", Known)
        patched.setattr(counting_processes.CountingProcesses, "_start", start)
        result = run_locally(config, folder, table=table, owner_report=False)
    assert started == ([] if processes == 1 else [processes])
    with zipfile.ZipFile(result.bundle) as bundle:
        return {name: bundle.read(name) for name in ("measurements.npz", "synthetic.csv", "report.json")}


@pytest.mark.thorough
@pytest.mark.usefixtures("without_trial")
@pytest.mark.filterwarnings("ignore::synth.NotAsDeclaredWarning")
def test_the_sealed_bundle_is_the_same_whatever_the_number_of_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    path = tmp_path / "village.parquet"
    path.write_bytes(file_of())
    one, two, four = (sealed(many, tmp_path / f"out{many}", monkeypatch, path) for many in (1, 2, 4))
    assert one == two == four
    # What was encrypted is gone, and nothing else of the codes or counts was ever written there.
    assert list((tmp_path / "home" / "vault").glob("*.table")) == []


@pytest.mark.thorough
@pytest.mark.usefixtures("without_trial")
@pytest.mark.filterwarnings("ignore::synth.NotAsDeclaredWarning")
@pytest.mark.parametrize("config", [SEPARATE, WHOLE], ids=["rows of people", "whole people"])
def test_so_it_is_where_one_question_follows_from_another(
    config: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    path = tmp_path / "village.parquet"
    path.write_bytes(file_of(4_000, 1_800))
    adaptive = replace(config, generator="dp-hp-adaptive", epsilon=20.0)
    one, two = (sealed(many, tmp_path / f"out{many}", monkeypatch, path, adaptive) for many in (1, 2))
    assert one == two


def test_what_was_counted_before_is_not_counted_again() -> None:
    (table,) = opened(2)
    rows = PrivateRows(table._column, table._rows, CountMemory(), counters=table._counters())
    question = OneHot(("ward",), (None,), (4,)).blocks()
    first = exact_sum(question, rows, half_bits=12)
    assert table._counting is not None
    table._counting._started[0].kill()  # so nothing can be counted any more
    np.testing.assert_array_equal(exact_sum(question, rows, half_bits=12), first)


# Bugs that are planted ------------------------------------------------------------------------------------------------

PLANTED: dict[str, Callable[[pytest.MonkeyPatch], None]] = {}


def planted(name: str) -> Callable[[Callable[[pytest.MonkeyPatch], None]], None]:
    def keep(plant: Callable[[pytest.MonkeyPatch], None]) -> None:
        PLANTED[name] = plant

    return keep


def cut_into(patch: pytest.MonkeyPatch, change: Callable[[tuple[tuple[int, int], ...]], Any]) -> None:
    right = counting_processes.parts_of_rows
    patch.setattr(counting_processes, "parts_of_rows", lambda rows, parts: change(right(rows, parts)))


@planted("the last part is never counted")
def _(patch: pytest.MonkeyPatch) -> None:
    cut_into(patch, lambda parts: parts[:-1])


@planted("a part is counted twice")
def _(patch: pytest.MonkeyPatch) -> None:
    cut_into(patch, lambda parts: (*parts, parts[-1]))


@planted("a part is counted twice in place of another")
def _(patch: pytest.MonkeyPatch) -> None:
    cut_into(patch, lambda parts: (parts[0], *parts[:-1]))


@planted("a row at the edge is in both parts")
def _(patch: pytest.MonkeyPatch) -> None:
    cut_into(patch, lambda parts: (parts[0], *((first - 1, end) for first, end in parts[1:])))


@planted("what one process counted is left out of the sum")
def _(patch: pytest.MonkeyPatch) -> None:
    right = counting_processes._answer

    def answer(process: Any, wanted: Any) -> Any:
        counted, found = right(process, wanted)
        return counted, found if counted[0] == 0 else [np.zeros_like(one) for one in found]

    patch.setattr(counting_processes, "_answer", answer)


@planted("every process reads the first part")
def _(patch: pytest.MonkeyPatch) -> None:
    asked_of(patch, lambda request: replace(request, part=(0, request.part[1])))


@planted("every process reads all rows")
def _(patch: pytest.MonkeyPatch) -> None:
    asked_of(patch, lambda request: replace(request, part=(0, 1)))


@planted("the rows of a person are another person's in every part")
def _(patch: pytest.MonkeyPatch) -> None:
    asked_of(patch, lambda request: replace(request, key=bytes([request.part[0]]) * 16))


@planted("parts are put together in another order than their hashes")
def _(patch: pytest.MonkeyPatch) -> None:
    right = reader._Collected.joined.__func__  # type: ignore[attr-defined]

    def joined(cls: Any, parts: Any) -> Any:
        hashes = [one._hashes for one in parts]
        for one, other in zip(parts, reversed(hashes), strict=True):
            one._hashes = other
        return right(cls, parts)

    patch.setattr(reader._Collected, "joined", classmethod(joined))


@planted("the rows of a person are capped in every part by themselves")
def _(patch: pytest.MonkeyPatch) -> None:
    right = tables.kept_rows

    def kept(hashes: Any, **named: Any) -> Any:
        halves = np.array_split(hashes, 2)
        return np.concatenate([right(np.ascontiguousarray(half), **named) for half in halves])

    patch.setattr(tables, "kept_rows", lambda hashes, **named: kept(hashes, **named))


def asked_of(patch: pytest.MonkeyPatch, change: Callable[[Any], Any]) -> None:
    right = reader.ask

    def ask(stream: Any, request: Any, *rest: Any, **named: Any) -> Any:
        return right(stream, change(request) if request.part[1] > 1 else request, *rest, **named)

    patch.setattr(reader, "ask", ask)


REFUSED = {
    "the last part is never counted",
    "a part is counted twice",
    "a part is counted twice in place of another",
    "a row at the edge is in both parts",
    "what one process counted is left out of the sum",
    "every process reads the first part",
    "every process reads all rows",
}
"""What a run itself notices; the others are for this test to notice."""


@pytest.fixture(scope="module")
def right_sums() -> list[list[int]]:
    return exact_sums(1)


QUICK = {"a part is counted twice in place of another", "the rows of a person are another person's in every part"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.thorough]) for name in PLANTED]
)
def test_a_planted_bug_is_caught(name: str, right_sums: list[list[int]], monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED[name](monkeypatch)
    if name in REFUSED:
        with pytest.raises((JobError, TableError), match=r"The run cannot go on|could not be read to its end"):
            exact_sums(2)
    else:
        assert exact_sums(2) != right_sums


# How it ends ----------------------------------------------------------------------------------------------------------


def test_processes_end_with_the_table_and_nothing_is_shown_or_copied() -> None:
    (table,) = opened(2)
    rows = PrivateRows(table._column, table._rows, counters=table._counters())
    exact_sum(OneHot(("ward",), (None,), (4,)).blocks(), rows, half_bits=12)
    counting = table._counting
    assert counting is not None
    assert repr(counting) == "<CountingProcesses: counts are not shown>"
    with pytest.raises(PrivacyError, match="cannot be copied"):
        pickle.dumps(counting)
    children = [one.process for one in counting._started]
    assert [child.poll() for child in children] == [None, None]
    del table, rows, counting
    gc.collect()
    assert all(child.poll() is not None for child in children)


def test_a_process_that_ends_ends_the_run_in_one_sentence() -> None:
    (table,) = opened(2)
    rows = PrivateRows(table._column, table._rows, counters=table._counters())
    question = OneHot(("ward",), (None,), (4,)).blocks()
    exact_sum(question, rows, half_bits=12)
    assert table._counting is not None
    table._counting._started[1].kill()
    with pytest.raises(JobError, match="A process that counts rows has ended"):
        exact_sum(question, rows, half_bits=12)


def test_a_code_that_was_never_declared_is_counted_by_no_process() -> None:
    codes = {"x": np.array([5, 0, 1, 1], np.uint8)}
    counting = counting_processes.CountingProcesses(codes, 2)
    rows = PrivateRows(codes.__getitem__, 4, counters=counting)
    with pytest.raises(JobError, match="has ended"):
        exact_sum(OneHot(("x",), (None,), (4,)).blocks(), rows, half_bits=12)


def test_a_part_that_fails_ends_the_others_with_its_own_sentence() -> None:
    data = file_of()
    broken = data.replace(b"elsewhere", b"elsewher\xff", 1)
    assert broken != data
    limits = ReaderLimits(wall_seconds=0.0)
    with pytest.raises(TableError, match="took longer than 0 seconds"):
        opened(4, limits=limits)
