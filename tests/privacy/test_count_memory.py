"""Counts that a session remembers: never counted twice, never confused, never shown."""

from __future__ import annotations

import copy
import itertools
import math
import pickle

import numpy as np
import pytest
from candidates import candidate_of
from hypothesis import given, settings
from hypothesis import strategies as st
from questions import SIZES, small_codes, small_schema
from recorded_noise import RecordedNoise

from synth.errors import PrivacyError, SchemaError
from synth.privacy import counting, selection
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.counting import Axis, CountMemory, PrivateRows, joint_counts, tables_of_counts
from synth.privacy.feature_maps import OneHot, Stack
from synth.privacy.more.lookups import Lookup
from synth.privacy.selection import SCORE_STEP, TABLE_BITS, WEIGHT_BITS, Candidate
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable

COARSE = np.arange(301, dtype=np.int32) // 76
OTHER = np.arange(301, dtype=np.int32) % 4


class Watched:
    """A table that writes down which columns are read."""

    def __init__(self, codes: dict[str, np.ndarray]) -> None:
        self.schema, self._rows = small_schema(), len(codes["age"])
        self._table = PrivateTable.from_codes(self.schema, codes)
        self.part, self._units, self._texts = self._table.part, self._table._units, None
        self._keyed = self._table._keyed
        self.read: list[str] = []

    def _column(self, name: str) -> np.ndarray:
        self.read.append(name)
        return self._table._column(name)

    def _counters(self) -> None:
        return None

    def read_since(self) -> list[str]:
        read, self.read = self.read, []
        return sorted(read)


def session_on(table: Watched) -> tuple[PrivateSession, RecordedNoise]:
    noise = RecordedNoise(None)
    return PrivateSession(table, PrivacyBudget(1.0, 1e-5, table.schema.neighbours), noise=noise), noise


def pairs(level: float = 1.0) -> list[Candidate]:
    return [
        candidate_of(two, np.full([SIZES[name] for name in two], level)) for two in itertools.combinations(SIZES, 2)
    ]


def choose(session: PrivateSession, candidates: list[Candidate], query: str) -> Candidate:
    return session.noisy_max(candidates, share=0.05, query=query, source="test").candidate


def score_by_hand(candidate: Candidate, largest: float, codes: dict[str, np.ndarray]) -> int:
    """The formula in whole numbers of Python, cell by cell."""
    counts = np.zeros(candidate.table.shape, dtype=object)
    bins = zip(candidate.columns, candidate.one_hot.bins, strict=True)
    places = [codes[name] if one is None else one[codes[name]] for name, one in bins]
    for cell in zip(*places, strict=True):
        counts[cell] += 1
    gaps = (
        abs(int(count) * 2**TABLE_BITS - round(float(believed) * 2**TABLE_BITS))
        for count, believed in zip(counts.reshape(-1), candidate.table.reshape(-1), strict=True)
    )
    penalty = max(-(2.0**36), min(candidate.penalty / largest, 2.0**36))
    return math.floor(candidate.weight / largest * 2**WEIGHT_BITS) * sum(gaps) - math.floor(penalty / SCORE_STEP)


# Nothing is counted twice


def test_a_round_after_the_first_reads_no_row() -> None:
    table = Watched(small_codes(200))
    session, _ = session_on(table)
    choose(session, pairs(), "first")
    assert table.read_since() == sorted(SIZES)  # each column once, for all six pairs
    chosen = choose(session, pairs(2.0), "second")
    session.noisy_sum(chosen.one_hot, share=0.1, query="sum", source="test")
    choose(session.sub_session(0.5), pairs(3.0), "of a part")
    assert table.read_since() == []


def test_what_was_summed_is_remembered_too() -> None:
    table = Watched(small_codes(200))
    session, _ = session_on(table)
    one_ways = tuple(OneHot((name,), (None,), (SIZES[name],)) for name in SIZES)
    session.noisy_sum(Stack(one_ways, (0.5,) * 4), share=0.1, query="one-ways", source="test")
    assert table.read_since() == sorted(SIZES)
    choose(session, [candidate_of((name,), np.ones(SIZES[name])) for name in SIZES], "choice")
    session.noisy_sum(Lookup("income", np.eye(301)[:, :3]), share=0.1, query="lookup", source="test")
    assert table.read_since() == []


def test_other_bins_are_other_counts() -> None:
    codes = small_codes(200)
    table = Watched(codes)
    session, _ = session_on(table)
    for number, bins in enumerate((None, COARSE, OTHER, COARSE)):
        one_hot = OneHot(("income",), (bins,), (301,))
        release = session.noisy_sum(one_hot, share=0.1, query=f"q{number}", source="test")
        places = codes["income"] if bins is None else bins[codes["income"]]
        assert release.value.tolist() == np.bincount(places, minlength=release.value.size).tolist()
        assert table.read_since() == (["income"] if number < 3 else [])


def test_another_session_remembers_nothing() -> None:
    first, second = Watched(small_codes(200)), Watched(small_codes(90, seed=1))
    region = OneHot(("region",), (None,), (4,))
    for table in (first, second):
        session, _ = session_on(table)
        release = session.noisy_sum(region, share=0.1, query="q", source="test")
        assert release.value.sum() == table._rows
        assert table.read_since() == ["region"]


def test_memory_is_bounded_and_the_oldest_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "MOST_CELLS", 10)
    memory, ones = CountMemory(), np.ones(4, np.int32)
    for key in ("a", "b"):
        memory.keep(key, ones.copy(), wanted=())
    assert memory.recall("a") is not None  # now b was asked for longest ago
    memory.keep("c", ones.copy(), wanted=())
    assert [memory.recall(key) is None for key in "abc"] == [False, True, False]
    memory.keep("d", np.ones(11, np.int32), wanted=("c",))
    assert memory.recall("d") is None
    assert memory.recall("c") is not None


def test_a_question_with_more_tables_than_are_kept_keeps_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "MOST_CELLS", 60)
    codes = small_codes(300)
    axes = [(Axis("age", None, 12),), (Axis("region", None, 4), Axis("age", None, 12)), (Axis("income", None, 301),)]
    read: list[str] = []

    def column(name: str) -> np.ndarray:
        read.append(name)
        return codes[name]

    rows = PrivateRows(column, 300, CountMemory())
    for round_number in range(3):
        counts = list(tables_of_counts(rows, axes))
        for found, table in zip(counts, axes, strict=True):
            assert found.tolist() == joint_counts(PrivateRows(codes.__getitem__, 300), table).tolist()
        if round_number == 0:
            read.clear()
    assert read == ["income", "income"]


# The same numbers as ever


@given(st.data())
@settings(deadline=None, max_examples=60)
def test_scores_are_those_of_the_formula(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    codes = small_codes(int(rng.integers(0, 80)), seed=3)
    candidates = []
    for _ in range(data.draw(st.integers(1, 9))):
        columns = tuple(rng.permutation(list(SIZES))[: rng.integers(1, 4)].tolist())
        bins = tuple(
            None if rng.random() < 0.5 else rng.permutation(np.arange(SIZES[one]) % rng.integers(1, SIZES[one] + 1))
            for one in columns
        )
        shape = [SIZES[one] if b is None else int(b.max()) + 1 for one, b in zip(columns, bins, strict=True)]
        scale = float(10.0 ** rng.integers(-3, 4))
        candidates.append(
            candidate_of(
                columns,
                rng.normal(size=shape) * scale,
                weight=data.draw(st.floats(1e-3, 1e3)),
                penalty=data.draw(st.sampled_from([0.0, 1.5, -2.25, 1e30, -1e30, 1e308])),
                bins=bins,
            )
        )
    session, noise = session_on(Watched(codes))
    sizes = data.draw(st.sampled_from([(1, 1, 7), (400, 300, 64), (2**22, 2**14, 2**20)]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "GROUP_CELLS", sizes[0])
        patch.setattr(selection, "BLOCK_CELLS", sizes[1])
        patch.setattr(counting, "PIECE", sizes[2])
        for query in ("first", "again"):
            choose(session, candidates, query)
    largest = max(candidate.weight for candidate in candidates)
    expected = [score_by_hand(candidate, largest, codes) for candidate in candidates]
    assert [call.scores for call in noise.calls] == [tuple(expected), tuple(expected)]


def test_penalties_beyond_all_numbers_are_cut_off() -> None:
    candidates = [candidate_of(("region",), np.zeros(4), weight=1e-300, penalty=penalty) for penalty in (1e200, -1e200)]
    session, noise = session_on(Watched(small_codes(10)))
    choose(session, candidates, "q")
    assert [score / 2**22 for score in noise.calls[0].scores] == [10 - 2.0**36, 10 + 2.0**36]


# Candidates


def test_a_candidate_keeps_its_bins_and_its_table() -> None:
    bins, table = COARSE.copy(), np.ones(4)
    candidate = candidate_of(("income",), table, bins=(bins,))
    bins[:], table[:] = 0, 7
    assert candidate.one_hot.bins[0].plain().tolist() == COARSE.tolist()
    assert candidate.table.tolist() == [1, 1, 1, 1]
    assert candidate.one_hot.sizes == (301,)
    assert not candidate.one_hot.bins[0].table.flags.writeable
    assert (
        candidate_of(("income",), table, bins=candidate.one_hot.bins).one_hot.bins[0] is candidate.one_hot.bins[0]
    )  # not copied again
    assert candidate.one_hot.shape == (4,)


@pytest.mark.parametrize(
    ("columns", "shape", "bins", "words"),
    [
        pytest.param((), (), (), "one to six", id="no column"),
        pytest.param(("age", "age"), (12, 12), (), "different columns", id="one column twice"),
        pytest.param(tuple("abcdefg"), (1,) * 7, (np.zeros(1, int),) * 7, "one to six", id="seven columns"),
        pytest.param(("age",), (12, 4), (), "shape", id="more axes than columns"),
        pytest.param(("income",), (3,), (COARSE,), "shape", id="fewer cells than bins"),
        pytest.param(("income",), (5,), (COARSE,), "shape", id="more cells than bins"),
        pytest.param(("income",), (4,), (-COARSE,), "whole numbers from 0", id="negative bins"),
        pytest.param(("income",), (4,), (COARSE / 2,), "whole numbers", id="bins between whole numbers"),
        pytest.param(("income",), (4,), (COARSE.astype(np.int64) + 2**40,), "whole numbers", id="bins beyond int32"),
        pytest.param(("age",), (4,), (np.array([0, 1, 3]),), "whole numbers from 0", id="more bins than codes"),
        pytest.param(("age", "income"), (12, 4), (COARSE,), "one entry", id="bins of one column of two"),
        pytest.param(("age",), (4,), (np.zeros((2, 2), np.int32),), "whole numbers", id="bins in a square"),
        pytest.param(("age",), (1,), (np.zeros(0, np.int32),), "at least one code", id="no bins"),
    ],
)
def test_candidates_that_are_no_tables_of_counts_are_refused(
    columns: tuple[str, ...], shape: tuple[int, ...], bins: tuple[np.ndarray, ...], words: str
) -> None:
    with pytest.raises(PrivacyError, match=words):
        candidate_of(columns, np.zeros(shape), bins=bins)


def test_candidates_of_another_table_are_refused_before_they_are_charged() -> None:
    session, _ = session_on(Watched(small_codes(10)))
    fitting = candidate_of(("region",), np.zeros(4))
    for other in (candidate_of(("region",), np.zeros(5)), candidate_of(("income",), np.zeros(4), bins=(OTHER[:9],))):
        with pytest.raises(PrivacyError, match="make it from this schema"):
            choose(session, [fitting, other], "q")
    with pytest.raises(SchemaError, match="nobody"):
        choose(session, [fitting, candidate_of(("nobody",), np.zeros(4))], "q")
    assert session.remaining_share == 1.0


# Never shown


def test_remembered_counts_are_shown_to_nobody() -> None:
    session, _ = session_on(Watched(small_codes(50)))
    choose(session, pairs(), "q")
    memory = session._memory
    assert repr(memory) == "<CountMemory: counts are not shown>"
    assert "CountMemory" not in repr(PrivateRows(lambda name: np.zeros(1), 1, memory))
    assert "emory" not in repr(session)
    assert not hasattr(memory, "__dict__")
    for spread in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(PrivacyError):
            spread(memory)
