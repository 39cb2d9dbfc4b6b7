"""Kept answers: written before they are heard, repeated in order and to the same questions alone, never asked again."""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import multiprocessing
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from candidates import candidate_of
from questions import every_kind_of_map, small_codes, small_schema
from recorded_noise import RecordedNoise

from synth.bundle.answers import from_description
from synth.errors import BudgetExceededError, DiskFullError, JobError
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.answers import NoisyAnswer, NoisySum
from synth.privacy.more.lookups import Lookup
from synth.privacy.questions import Digest
from synth.privacy.selection import Candidate
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.schema import NumberColumn, PrivacyUnit, Schema, YesNoColumn
from synth.vault import kept_answers
from synth.vault.kept_answers import AnswerFile, answers_path, sweep_answers

KEY = bytes(range(32))
RUN = "6f1f9a0e-0f6b-4f5c-9d1c-0c9a4f5d3b11"
MAPS = every_kind_of_map()
REGION, AGE = MAPS["one-hot"], MAPS["lookup"]


class Untouchable:
    """Rows that nobody may read and noise that nobody may draw: everything has to come from kept answers."""

    private = False

    def __init__(self, table: PrivateTable) -> None:
        self.schema, self.part, self._public_rows, self._rows = table.schema, table.part, table._public_rows, 0

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was used although the answer is kept")


def opened(path: Path, *, key: bytes = KEY, run_id: str = RUN, begin: bool = False) -> AnswerFile:
    file = AnswerFile(path, key=key, run_id=run_id)
    try:
        if begin:
            file.begin({"config": "c"})
        else:
            assert file.go_on() == {"config": "c"}
    except BaseException:
        file.close()
        raise
    return file


def table_of(schema: Schema | None = None, part: str = "train", seed: int = 0) -> PrivateTable:
    schema = schema or small_schema()
    return PrivateTable.from_codes(schema, small_codes(400, seed), holdout=0.25, part=part)


def session_with(file: AnswerFile | None, table: Any = None, *, noise: Any = None) -> PrivateSession:
    table = table or table_of()
    budget = PrivacyBudget(1.0, 1e-5, table.schema.neighbours)
    return PrivateSession(table, budget, noise=noise or RecordedNoise(1), kept=file)


def candidates() -> list[Candidate]:
    return [candidate_of(("region",), np.full(4, 50.0 + k), weight=1.0 + k, penalty=float(k)) for k in range(3)]


def ask_all(session: PrivateSession, *, holdout: PrivateTable | None = None) -> list[np.ndarray]:
    """A sum, a choice, a sum in a part of a part, and a sum over the hold-out."""
    held = session.holdout_session(holdout or table_of(part="holdout"), share=0.2)
    heard = [session.noisy_sum(REGION, share=0.2, query="regions", source="test").value]
    chosen = session.noisy_max(candidates(), share=0.1, query="choice", source="test")
    heard.append(np.array([chosen.index]))
    part = session.sub_session(0.3).sub_session(0.5)
    heard.append(part.noisy_sum(AGE, share=1.0, query="ages", source="test").value)
    heard.append(held.noisy_sum(REGION, share=1.0, query="held", source="test").value)
    return heard


def cut(path: Path, answers: int) -> None:
    """Leave so many answers, as a worker does that is killed before it keeps the next one."""
    with opened(path) as file:
        size = file._places[answers] if answers < len(file._places) else file._end
    os.truncate(path, size)


# --- what is written ------------------------------------------------------------------------------------------------


def test_an_answer_is_on_the_disk_before_anybody_hears_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    heard: list[tuple[int, bytes, NoisyAnswer]] = []
    right = os.fsync

    def fsync(file: int) -> None:
        right(file)
        synced.append(os.fstat(file).st_size)

    monkeypatch.setattr(kept_answers.os, "fsync", fsync)
    with opened(tmp_path / "answers", begin=True) as file:
        session = session_with(file)
        for place, query in enumerate(("first", "second")):
            before = len(synced)
            release = session.noisy_sum(REGION, share=0.3, query=query, source="test")
            assert len(synced) == before + 1
            assert synced[-1] == (tmp_path / "answers").stat().st_size
            heard.append((place, (tmp_path / "answers").read_bytes(), release))
    for place, at_that_moment, release in heard:
        (tmp_path / "answers").write_bytes(at_that_moment)
        with opened(tmp_path / "answers") as file:
            assert file.remaining == place + 1
            numbers = file._body(place + 1, file._places[place])[1]
        assert (numbers[0] * release.receipt.grid == release.value.reshape(-1)).all()


def test_an_answer_that_cannot_be_kept_is_told_to_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = opened(tmp_path / "answers", begin=True)
    session = session_with(file)
    heard = session.noisy_sum(REGION, share=0.2, query="kept", source="test")

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(kept_answers.os, "write", full)
        with pytest.raises(DiskFullError, match=r"The disk that holds .* is full"):
            session.noisy_sum(AGE, share=0.2, query="lost", source="test")
    with pytest.raises(JobError, match="nothing more is asked"):
        session.noisy_sum(AGE, share=0.2, query="another", source="test")
    assert [receipt.query for receipt in session.receipts] == ["kept"]
    assert session.remaining_share == pytest.approx(0.4), "what was asked stays charged"
    file.close()
    with opened(tmp_path / "answers") as again:
        repeated = session_with(again, Untouchable(table_of())).noisy_sum(
            REGION, share=0.2, query="kept", source="test"
        )
    assert (repeated.value == heard.value).all()


def test_the_file_is_private_and_encrypted(tmp_path: Path) -> None:
    with opened(tmp_path / "answers", begin=True) as file:
        ask_all(session_with(file))
    assert stat.S_IMODE((tmp_path / "answers").stat().st_mode) == 0o600
    data = (tmp_path / "answers").read_bytes()
    assert not [word for word in (b"regions", b"discrete", b"config", b"train") if word in data]


def test_its_size_follows_from_the_questions_and_not_from_the_answers(tmp_path: Path) -> None:
    """Else a disk that is nearly full would refuse some answers, and those that are drawn instead would tell."""
    sizes = set()
    for key in range(6):
        with opened(tmp_path / f"{key}", begin=True) as file:
            ask_all(session_with(file, table_of(seed=key), noise=RecordedNoise(key)))
        sizes.add((tmp_path / f"{key}").stat().st_size)
    assert len(sizes) == 1


# --- what goes on ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answers", range(5))
def test_what_was_answered_is_repeated_and_the_rest_is_asked(tmp_path: Path, answers: int) -> None:
    path = tmp_path / "answers"
    with opened(path, begin=True) as file:
        first = session_with(file)
        heard = ask_all(first)
    cut(path, answers)
    with opened(path) as file:
        second = session_with(file, noise=RecordedNoise(2))
        again = ask_all(second)
        file.require_all_repeated()
    for place, (one, other) in enumerate(zip(heard, again, strict=True)):
        if place < answers:
            assert (one == other).all(), place
        elif one.size > 1:  # a choice may fall on the same candidate twice
            assert (one != other).any(), place
    assert second.receipts == first.receipts
    assert second.remaining_share == first.remaining_share
    assert (second._spent_units, second._record.coordinates) == (first._spent_units, first._record.coordinates)
    with opened(path) as file:  # and whoever goes on from there hears all of that
        third = ask_all(session_with(file, Untouchable(table_of())), holdout=Untouchable(table_of(part="holdout")))  # type: ignore[arg-type]
    assert all((one == other).all() for one, other in zip(again, third, strict=True))


def test_repeated_answers_cost_what_they_did(tmp_path: Path) -> None:
    path = tmp_path / "answers"
    with opened(path, begin=True) as file:
        session_with(file).noisy_sum(REGION, share=0.7, query="q", source="test")
    with opened(path) as file:
        session = session_with(file)
        session.noisy_sum(REGION, share=0.7, query="q", source="test")
        with pytest.raises(BudgetExceededError):
            session.noisy_sum(AGE, share=0.4, query="more", source="test")
        session.noisy_sum(AGE, share=session.remaining_share, query="rest", source="test")
        total = sum(receipt.mu_squared_units for receipt in session.receipts)
    assert total <= session.budget.units


def test_every_kind_of_map_comes_back_bit_for_bit(tmp_path: Path) -> None:
    share = 1 / (len(MAPS) + 1)

    def ask(session: PrivateSession) -> dict[str, NoisyAnswer]:
        return {
            name: session.noisy_sum(one, share=share, query=name, source="test")
            for name, one in MAPS.items()
            if name != "constant"
        }

    with opened(tmp_path / "answers", begin=True) as file:
        heard = ask(session_with(file))
    with opened(tmp_path / "answers") as file:
        again = ask(session_with(file, Untouchable(table_of())))
    for name, release in heard.items():
        assert release.value.tobytes() == again[name].value.tobytes(), name
        assert (release.receipt, release.value.shape) == (again[name].receipt, again[name].value.shape)


@pytest.mark.parametrize("label", [None, "ill"])
@pytest.mark.parametrize("protection", ["record", "cell"])
def test_noisy_rows_come_back_bit_for_bit(
    tmp_path: Path, label: str | None, protection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_answers, "PIECE_BYTES", 1000)  # in many pieces, as large answers are
    schema = Schema((NumberColumn("age", 0, 99, 1), YesNoColumn("ill")), PrivacyUnit(), protection=protection)
    random = np.random.default_rng(0)
    codes = {"age": random.integers(0, 100, 300), "ill": random.integers(0, 2, 300)}
    table = PrivateTable.from_codes(schema, codes)
    ages = Lookup("age", np.linspace(0, 1, schema.modelled_column("age").size)[:, None])

    def ask(session: PrivateSession) -> Any:
        return session.perturb_rows([ages], label=label, noise="laplace", share=1.0, query="rows", source="test")

    with opened(tmp_path / "answers", begin=True) as file:
        heard = ask(session_with(file, table))
    with opened(tmp_path / "answers") as file:
        other = Untouchable(table)
        again = ask(session_with(file, other))
    assert (heard.numbers == again.numbers).all()
    assert (heard.labels is None) == (again.labels is None) == (label is None)
    assert heard.labels is None or (heard.labels == again.labels).all()
    assert heard.receipts == again.receipts
    assert [receipt.sequence for receipt in again.receipts] == list(range(len(again.receipts)))


def test_a_private_number_of_rows_is_measured_once(tmp_path: Path) -> None:
    schema = small_schema("private")
    with opened(tmp_path / "answers", begin=True) as file:
        first = session_with(file, table_of(schema))
        first.count_rows(share=0.1)
    with opened(tmp_path / "answers") as file:
        second = session_with(file, Untouchable(table_of(schema)))
        second.count_rows(share=0.1)
        assert second.rows == first.rows


# --- what is refused ------------------------------------------------------------------------------------------------


def other_order(session: PrivateSession) -> None:
    session.noisy_max(candidates(), share=0.2, query="second", source="test")


def other_map(session: PrivateSession) -> None:
    tables, arrays = REGION.describe()
    session.noisy_sum(from_description(tables | {"columns": ["outcome"], "sizes": [2]}, arrays), **FIRST)


def other_share(session: PrivateSession) -> None:
    session.noisy_sum(REGION, **FIRST | {"share": 0.2000001})


def other_name(session: PrivateSession) -> None:
    session.noisy_sum(REGION, **FIRST | {"query": "another"})


def other_asker(session: PrivateSession) -> None:
    session.noisy_sum(REGION, **FIRST | {"source": "somebody else"})


def other_side(session: PrivateSession) -> None:
    session.holdout_session(table_of(part="holdout"), share=0.2).noisy_sum(REGION, **FIRST | {"share": 1.0})


def system_noise(session: PrivateSession) -> None:
    PrivateSession(table_of(), session.budget, kept=session._kept).noisy_sum(REGION, **FIRST)


FIRST: dict[str, Any] = {"share": 0.2, "query": "first", "source": "test"}


@pytest.mark.parametrize(
    "differently", [other_order, other_map, other_share, other_name, other_asker, other_side, system_noise]
)
def test_another_question_stops_the_run_and_is_never_asked(
    tmp_path: Path, differently: Callable[[PrivateSession], None]
) -> None:
    path = tmp_path / "answers"
    with opened(path, begin=True) as file:
        session = session_with(file)
        session.noisy_sum(REGION, **FIRST)
        session.noisy_max(candidates(), share=0.2, query="second", source="test")
    before = path.read_bytes()
    with opened(path) as file:
        session = session_with(file)
        with pytest.raises(JobError, match="never asked again"):
            differently(session)
        # Nor is anything asked afterwards, not even the right question, whatever a generator does with the refusal.
        with pytest.raises(JobError, match="nothing more is asked"):
            session.noisy_sum(REGION, share=0.1, query="later", source="test")
    assert path.read_bytes() == before


@pytest.mark.parametrize("changed", ["table", "weight", "penalty", "one less", "order"])
def test_a_choice_among_other_candidates_stops_the_run(tmp_path: Path, changed: str) -> None:
    with opened(tmp_path / "answers", begin=True) as file:
        session_with(file).noisy_max(candidates(), **FIRST)
    first, *rest = candidates()
    table = first.table.copy()
    table[2] = np.nextafter(table[2], 0)
    other = {
        "table": [candidate_of(first.columns, table, first.weight, first.penalty), *rest],
        "weight": [candidate_of(first.columns, first.table, 1.5, first.penalty), *rest],
        "penalty": [candidate_of(first.columns, first.table, first.weight, 0.5), *rest],
        "one less": rest,
        "order": [*rest, first],
    }[changed]
    with opened(tmp_path / "answers") as file, pytest.raises(JobError, match="never asked again"):
        session_with(file).noisy_max(other, **FIRST)


def test_maps_have_one_digest_exactly_where_they_are_the_same() -> None:
    digests = {name: NoisySum(one).digest() for name, one in MAPS.items()}
    assert len(set(digests.values())) == len(MAPS)
    assert digests == {name: NoisySum(one).digest() for name, one in every_kind_of_map().items()}


@pytest.mark.parametrize("shape", [(), (3,), (2, 5, 1), (0, 4)])
@pytest.mark.parametrize("kind", ["<f8", "<i4", "|u1", "|b1"])
def test_a_digest_holds_the_type_and_shape_of_an_array_as_json_and_then_its_bytes(shape, kind) -> None:
    """As files of answers that other versions kept have it."""
    array = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape).astype(kind)
    found = Digest("kind")
    said = json.dumps([kind, list(shape)], sort_keys=True).encode()
    once = len(said).to_bytes(8, "big") + said + array.tobytes()
    for times in (1, 2):
        found.add_array(array)
        assert found.hexdigest() == hashlib.sha256(b"kind" + times * once).hexdigest()
    found.add_array(array + array.dtype.type(1))
    other = len(said).to_bytes(8, "big") + said + (array + array.dtype.type(1)).tobytes()
    assert found.hexdigest() == hashlib.sha256(b"kind" + 2 * once + other).hexdigest()


def test_a_run_that_asks_less_than_it_had_asked_does_not_end(tmp_path: Path) -> None:
    with opened(tmp_path / "answers", begin=True) as file:
        ask_all(session_with(file))
    with opened(tmp_path / "answers") as file, pytest.raises(JobError, match="never asked again"):
        file.require_all_repeated()


# --- the file -------------------------------------------------------------------------------------------------------


@pytest.fixture
def kept(tmp_path: Path) -> tuple[Path, list[int]]:
    """A file with four answers, and where each of its records ends."""
    path = tmp_path / "answers"
    with opened(path, begin=True) as file:
        ask_all(session_with(file))
        ends = [*file._places, file._end]
    return path, ends


def test_a_torn_last_record_is_dropped_and_one_that_is_whole_is_not(kept: tuple[Path, list[int]]) -> None:
    path, ends = kept
    whole = path.read_bytes()
    for record, (start, end) in enumerate(itertools.pairwise(ends)):
        for size in {start, start + 1, start + 11, start + 60, (start + end) // 2, end - 17, end - 1}:
            path.write_bytes(whole[:size])
            with opened(path) as file:
                assert file.remaining == record
                assert path.stat().st_size == start, "what nobody heard is gone"
    path.write_bytes(whole)
    with opened(path) as file:
        assert file.remaining == 4


def test_what_follows_a_torn_record_is_kept_in_its_place(kept: tuple[Path, list[int]]) -> None:
    path, ends = kept
    os.truncate(path, ends[2] - 5)
    with opened(path) as file:
        heard = ask_all(session_with(file, noise=RecordedNoise(9)))
    with opened(path) as file:
        assert file.remaining == 4
        again = ask_all(session_with(file, Untouchable(table_of())), holdout=Untouchable(table_of(part="holdout")))  # type: ignore[arg-type]
    assert all((one == other).all() for one, other in zip(heard, again, strict=True))


def test_an_altered_byte_stops_the_run_wherever_it_is(kept: tuple[Path, list[int]]) -> None:
    path, ends = kept
    whole = path.read_bytes()
    for place in [*range(0, ends[0], 7), *range(ends[0], len(whole), 41), len(whole) - 1]:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(JobError, match="altered or damaged"), opened(path) as file:
            ask_all(session_with(file))


def test_records_cannot_be_exchanged_repeated_or_left_out(kept: tuple[Path, list[int]]) -> None:
    path, ends = kept
    whole = path.read_bytes()
    head, first, second, third, fourth = (whole[start:end] for start, end in itertools.pairwise([0, *ends]))
    for forged in (
        [head, second, first, third, fourth],
        [head, first, first, third, fourth],
        [head, second, third, fourth],
        [first, second],
    ):
        path.write_bytes(b"".join(forged))
        with pytest.raises(JobError, match="altered or damaged"):
            opened(path)


def test_answers_of_another_run_are_not_accepted(tmp_path: Path) -> None:
    other = str(uuid4())
    for run_id in (RUN, other):
        with opened(tmp_path / run_id, run_id=run_id, begin=True) as file:
            ask_all(session_with(file))
            ends = [*file._places, file._end]
    with pytest.raises(JobError, match="altered or damaged"):
        opened(tmp_path / other)
    with pytest.raises(JobError, match="altered or damaged"):
        opened(tmp_path / RUN, key=bytes(32))
    mixed = (tmp_path / RUN).read_bytes()[: ends[0]] + (tmp_path / other).read_bytes()[ends[0] :]
    (tmp_path / RUN).write_bytes(mixed)
    with pytest.raises(JobError, match="altered or damaged"):
        opened(tmp_path / RUN)


@pytest.mark.parametrize("content", [None, b"", b"\0" * 20])
def test_without_its_beginning_nothing_goes_on(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "answers").write_bytes(content)
    with pytest.raises(JobError, match="are missing"):
        opened(tmp_path / "answers")


def hold(path: Path, ready: Any) -> None:
    with AnswerFile(path, key=KEY, run_id=RUN):
        ready.send(True)
        ready.recv()


@pytest.mark.thorough
def test_two_processes_never_hold_one_file(kept: tuple[Path, list[int]], monkeypatch: pytest.MonkeyPatch) -> None:
    path, _ = kept
    monkeypatch.setattr(kept_answers, "LOCK_SECONDS", 0.2)
    mine, theirs = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=hold, args=(path, theirs))
    process.start()
    try:
        assert mine.recv()
        with pytest.raises(JobError, match="Another process is still working"):
            opened(path)
    finally:
        process.kill()
        process.join()
    with opened(path) as file:  # the lock of a process that was killed is gone with it
        assert file.remaining == 4


def test_a_file_that_its_worker_deleted_is_not_gone_on_with(
    kept: tuple[Path, list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one before ended the run and deleted the answers while this one waited for them."""
    path, _ = kept
    right = kept_answers.fcntl.flock

    def flock(file: int, how: int) -> None:
        path.unlink(missing_ok=True)
        right(file, how)

    monkeypatch.setattr(kept_answers.fcntl, "flock", flock)
    with pytest.raises(JobError, match="Another process"):
        opened(path)


def test_files_of_runs_that_ended_are_swept(tmp_path: Path) -> None:
    ended, at_work = str(uuid4()), str(uuid4())
    for run_id in (ended, at_work):
        path = answers_path(tmp_path, run_id)
        path.parent.mkdir(parents=True)
        opened(path, run_id=run_id, begin=True).close()
    assert sweep_answers(tmp_path, {at_work}) == 1
    assert not answers_path(tmp_path, ended).exists()
    assert answers_path(tmp_path, at_work).exists()


def test_a_disk_that_cannot_lock_files_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As some network disks and shared folders of virtual machines: not taken for a file that nobody holds."""

    def without_locks(file: int, how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(kept_answers.fcntl, "flock", without_locks)
    with pytest.raises(JobError, match="cannot lock files"):
        opened(tmp_path / "answers", begin=True)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"something of the owner's")
    (tmp_path / "answers").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(JobError, match="cannot be stored on disk"):
        opened(tmp_path / "answers", begin=True)
    assert (tmp_path / "elsewhere").read_bytes() == b"something of the owner's"


def test_keeping_changes_no_answer(tmp_path: Path) -> None:
    with opened(tmp_path / "answers", begin=True) as file:
        kept = ask_all(session_with(file))
    plain = ask_all(session_with(None))
    assert all((one == other).all() for one, other in zip(kept, plain, strict=True))
