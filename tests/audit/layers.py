"""The layers of the audit. Each raises AssertionError where the promise is broken, for any asker in any world."""

from __future__ import annotations

import gc
import math
import os
import types
import warnings
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import oracle
import pytest
from askers import CRITICS, asker, worst_gradients
from candidates import candidate_of
from recorded_noise import RecordedNoise
from scipy import stats
from scipy.optimize import brentq
from scipy.special import ndtri
from suited import suited
from transcripts import (
    SUMS,
    Answered,
    Followed,
    Recording,
    TappedNoise,
    Told,
    Transcript,
    asked_again,
    record,
    replay,
    run,
    start,
    values_of,
)
from worlds import DELTA, EPSILON, LABEL, Row, World, far_rows, neighbours_of, ordinary_rows

from synth.errors import BudgetExceededError, PrivacyError
from synth.generators import GENERATORS
from synth.privacy import accounting, answers, noise
from synth.privacy.answers import NoisyAnswer, NoisySum, RowCount
from synth.privacy.counting import CountMemory
from synth.privacy.feature_maps import Constant, FeatureMap, OneHot
from synth.privacy.more import gradients
from synth.privacy.more.critic_turns import CriticTurns
from synth.privacy.more.critic_turns import _Turns as Turns
from synth.privacy.more.gradients import NoisyGradient, UnitQuestion
from synth.privacy.more.private_critics import PrivateCritic
from synth.privacy.more.training_steps import NoisySteps, StepsQuestion
from synth.privacy.selection import Selection
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable

UNITS = 48


# T0 calibration


def t0_calibration(name: str, world: World) -> None:
    """Noise asked for, drawn and added equals what an oracle works out from the questions; nothing else was read."""
    table = world.table(ordinary_rows(UNITS, world.rows_each))
    transcript, made, session, tapped = record(asker(name, world.schema), world, table)
    sums = [answered for answered in transcript.answered if isinstance(answered.answer, SUMS)]
    choices = [answered for answered in transcript.answered if isinstance(answered.answer, Selection)]
    assert [draws.size for draws in tapped.draws] == [answered.receipt.dimension for answered in sums]
    assert [answered.receipt.dimension for answered in sums] == [values_of(answered.answer).size for answered in sums]
    assert len(tapped.rates) == len(choices)
    for one in range(len(sums)):
        assert_answer_is_sum_plus_noise(sums[one], tapped.draws[one], table)
        for other in range(one):
            steps = values_of(sums[other].answer) / sums[other].receipt.grid
            shared = np.intersect1d(tapped.draws[one][:50], steps)
            assert shared.size == 0, "noise is used twice"
    assert_cost_is_the_budget(sums, choices, tapped, world)
    assert_receipts_are_honest(transcript, tapped, world)
    assert_nothing_private_is_reachable([made, transcript.answered], tapped, table, skip=(tapped,))
    assert_nothing_private_is_reachable([session], tapped, table, skip=(tapped, session._table, session._memory))
    assert_budget_is_used_up(session)


def assert_answer_is_sum_plus_noise(answered: Answered, draws: np.ndarray, table: PrivateTable) -> None:
    codes = {name: np.asarray(table._column(name)) for name in table.schema.names}
    if isinstance(answered.question, CriticTurns):
        assert_gradients_are_clipped(answered, draws)
        return
    if isinstance(answered.question, UnitQuestion):
        expected = oracle.exact_gradient(answered.question, codes, table)
    else:
        expected = oracle.exact_sums(answered.question, codes)
    found = answered.answer.value.reshape(-1) - draws * answered.receipt.grid
    tolerance = 5e-4 * max(1, len(codes[table.schema.names[0]]))
    assert np.abs(found - expected).max() <= tolerance, (
        f"'{answered.query}' is not the sum plus the noise that was drawn"
    )
    assert draws.any(), f"'{answered.query}' has no noise"


def assert_gradients_are_clipped(answered: Answered, draws: np.ndarray) -> None:
    """What critics answer cannot be known from outside, but for this."""
    gradients_found = (values_of(answered.answer) - draws * answered.receipt.grid).reshape(-1, answered.question.width)
    assert (np.linalg.norm(gradients_found, axis=1) <= 1.0).all(), "a gradient is longer than the clip norm"
    assert gradients_found.any(), "critics answer nothing"
    assert draws.any(), f"'{answered.query}' has no noise"


def assert_cost_is_the_budget(sums: list[Answered], choices: list[Answered], tapped: TappedNoise, world: World) -> None:
    mus = [oracle.mu_of(one, world, variance) for one, variance in zip(sums, tapped.variances, strict=True)]
    mus += [oracle.mu_of(one, world, rate) for one, rate in zip(choices, tapped.rates, strict=True)]
    mu = math.sqrt(sum(one**2 for one in mus))
    assert oracle.delta_of_gaussian(mu, EPSILON) <= DELTA, "more is spent than the budget"
    assert oracle.delta_of_gaussian(1.03 * mu, EPSILON) > DELTA, "the noise is larger than the budget asks for"


def assert_receipts_are_honest(transcript: Transcript, tapped: TappedNoise, world: World) -> None:
    variances = iter(tapped.variances)
    for answered in transcript.answered:
        receipt = answered.receipt
        bound = oracle.sensitivity(answered.question, world)
        assert bound * (1 - 1e-9) <= receipt.sensitivity <= max(1.01 * bound, 2.0**-6)
        assert receipt.rows_per_unit == world.rows_per_unit
        assert receipt.neighbours is world.schema.neighbours
        assert not receipt.private
        if isinstance(answered.answer, SUMS):
            variance = next(variances)
            assert receipt.noise_scale == pytest.approx(math.sqrt(variance) * receipt.grid, rel=1e-9)
            assert receipt.slack >= 6 * receipt.dimension / variance
        accounting.require_honest(receipt)


def assert_nothing_private_is_reachable(
    roots: list[Any], tapped: TappedNoise, table: PrivateTable, *, skip: tuple[Any, ...]
) -> None:
    """Walk everything that can be reached: no table, no codes, no counts, no noise draw, no exact sum."""
    codes = [np.asarray(table._column(name)) for name in table.schema.names]
    codes += [] if table._units is None else [table._units]
    private = [draws for draws in tapped.draws if draws.size > 1] + [column for column in codes if column.size > 1]
    seen, waiting = {id(one) for one in skip}, list(roots)
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen or isinstance(thing, types.ModuleType | type | types.FunctionType | types.FrameType):
            continue
        seen.add(id(thing))
        if isinstance(thing, Answered):  # the audit's own notes hold the exact sums
            waiting += [thing.answer, thing.receipt]
            continue
        assert not isinstance(thing, PrivateTable | CountMemory), "a table or its counts can be reached"
        assert not isinstance(thing, PrivateCritic | Turns), "a critic can be reached"
        if isinstance(thing, np.ndarray):
            for one in private:
                same = thing.size == one.size and np.array_equal(thing.reshape(-1), one)
                assert not same, "private numbers can be reached"
        waiting += gc.get_referents(thing)


def assert_budget_is_used_up(session: PrivateSession) -> None:
    label = OneHot((session.schema.names[0],), (None,), (session.schema.sizes[0],))
    assert session.remaining_share < 1e-3
    with pytest.raises(BudgetExceededError):
        session.noisy_sum(label, share=0.01, query="one more", source="audit")


def t0_charges(world: World) -> None:
    """A question is charged before rows are read and never given back; receipts carry every part of the cost."""

    class Failing:
        schema = world.schema

        def __getattr__(self, name: str) -> Any:
            raise PrivacyError("these rows cannot be read")

    session = PrivateSession(Failing(), world.budget, noise=RecordedNoise(1))
    first = session.schema.modelled[0]
    question = OneHot((first.name,), (None,), (first.size,))
    with pytest.raises(PrivacyError, match="cannot be read"):
        session.noisy_sum(question, share=0.6, query="q", source="audit")
    assert session.remaining_share <= 0.4 + 1e-9, "a question that read rows was given back"
    with pytest.raises(BudgetExceededError):
        session.noisy_sum(question, share=0.6, query="r", source="audit")
    paid = accounting.epsilon_of(0.05, 1e-5)
    assert accounting.epsilon_of(0.05, 1e-5, additive_delta=9e-6) > 1.05 * paid, "an additive delta is forgotten"


def t0_keys() -> None:
    """Two sources, and a process and its fork, never draw the same noise."""
    one, other = noise.SystemNoise(), noise.SystemNoise()
    assert (one.gaussian(2**40, 64) != other.gaussian(2**40, 64)).all(), "the noise key is fixed"
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # later Pythons warn of threads; the child only writes
        child = os.fork()
    if child == 0:
        os.write(writer, one.gaussian(2**40, 64).tobytes())
        os._exit(0)
    mine = one.gaussian(2**40, 64)
    theirs = np.frombuffer(os.read(reader, 512), dtype=np.int64)
    os.waitpid(child, 0)
    assert (mine != theirs).all(), "a forked process repeats its parent's noise"


# T1 sensitivity


def t1_sensitivity(
    name: str, world: World, brought: list[Row], *, place: int = 3, seed: int = 0, device: str = "cpu"
) -> None:
    """On neighbours, with the answers forced to be equal, exact numbers differ by at most the receipt's sensitivity."""
    ask = asker(name, world.schema)
    rows = ordinary_rows(UNITS, world.rows_each, seed)
    changed = neighbours_of(world, rows, brought, place)
    earlier, made, _, _ = record(ask, world, world.table(rows), device=device)
    later, made_again = replay(ask, world, world.table(changed), earlier, device=device)
    for before, after in zip(earlier.answered, later.answered, strict=True):
        change = (before.whole - after.whole).astype(np.float64) * before.receipt.grid
        distance = np.linalg.norm(change) if isinstance(before.answer, SUMS) else np.abs(change).max()
        assert distance <= before.receipt.sensitivity, (
            f"'{before.query}' moved by {distance:.6g}, its receipt says {before.receipt.sensitivity:.6g}"
        )
    assert same_bytes(made, made_again), "what was made depends on more than the answers"


def t1_exactness(name: str, world: World) -> None:
    """A sum is what its rows add, to the last digit: alone, beside any rows, in any order, in blocks of any size."""
    ask = asker(name, world.schema)
    open_world = World(world.row_count, world.rows_per_unit, ids=False, holdout=0.0)
    earlier, _, _, _ = record(ask, open_world, open_world.table(ordinary_rows(UNITS, 1)))
    few = [*ordinary_rows(11, 1, seed=1), *far_rows(1)]
    alone = [open_world.table([row]) for row in few]
    drawn = [np.random.default_rng(size).integers(0, len(few), size) for size in (1, 7, 48, 4096)]
    tables = [open_world.table([few[place] for place in chosen]) for chosen in drawn]
    for answered in earlier.answered:
        if not isinstance(answered.answer, SUMS) or isinstance(answered.question, StepsQuestion):
            continue
        own = np.stack([exact_numbers(answered, open_world, table) for table in alone])
        for chosen, table in zip(drawn, tables, strict=True):
            np.testing.assert_array_equal(
                exact_numbers(answered, open_world, table),
                np.bincount(chosen, minlength=len(few)) @ own,
                err_msg=f"'{answered.query}' of {len(chosen)} rows is not the sum of what its rows add",
            )


def exact_numbers(answered: Answered, world: World, table: PrivateTable) -> np.ndarray:
    tapped = TappedNoise(None)
    source = Recording(start(world, table, tapped), tapped, Transcript())
    asked_again(source, answered.question, share=0.5)
    return source.transcript.answered[0].whole


def t1_split(world: World) -> None:
    """A unit lies on one side of the split, and its cap is applied without looking at anybody else."""
    rows = ordinary_rows(40, world.rows_per_unit)
    for number, row in enumerate(rows):
        row["job"] = f"job {int((row['person'] or '0').split()[-1]) % 40}" if world.ids else f"job {number % 40}"
    train, held = (set(world.table(rows, part)._column("job").tolist()) for part in ("train", "holdout"))
    if world.ids:
        assert not train & held, "a unit lies on both sides of the split"
        _t1_without_id(world, rows)
    else:
        moved = [rows[place] for place in np.random.default_rng(2).permutation(len(rows))]
        again = Counter(world.table(moved)._column("job").tolist())
        assert again == Counter(world.table(rows)._column("job").tolist()), "where a row stands decides on its side"
    if world.holdout and (world.ids or world.rows_per_unit == 1):
        sizes = {_split(world, 200, 200, bytes([key]))._rows for key in range(40)}
        fixed = world.row_count == "public"
        assert (len(sizes) == 1) == fixed, "the split has a fixed size exactly where the number of units is public"
        if fixed:
            _t1_declared(world)


def _t1_without_id(world: World, rows: list[Row]) -> None:
    """Rows that are nobody's are on no side, and take nobody's place under the cap."""
    for part in ("train", "holdout"):
        before = world.table(rows, part)
        for unknown in (1, 5):
            nobodys: list[Row] = [{**far_rows(1)[0], "person": None} for _ in range(unknown)]
            after = world.table([*nobodys[1:], *rows, nobodys[0]], part)
            for name in world.schema.names:
                np.testing.assert_array_equal(
                    after._column(name), before._column(name), err_msg="a row without an id is read"
                )


def _t1_declared(world: World) -> None:
    """Under a public number of units that number splits and is printed, and no other, whatever the table holds."""
    declared, held = 200, round(world.holdout * 200)
    for there in (180, 200, 220):
        table = _split(world, there, declared)
        assert there - table._rows == held, "another number of units than the declared one splits"
        assert table._public_rows in (None, declared - held), "another number than the declared one is printed"


def _split(world: World, units: int, declared: int, key: bytes = b"a key") -> PrivateTable:
    schema = world.schema
    if world.row_count == "public":
        schema = replace(schema, number_of_units=declared)
    codes = {column.name: np.arange(units) % column.size for column in schema.modelled}
    return PrivateTable.from_codes(
        schema,
        codes,
        unit_ids=[f"person {unit}" for unit in range(units)] if world.ids else None,
        account_key=key,
        holdout=world.holdout,
    )


# T2 noise law


def t2_noise_law(name: str, world: World, coordinates: int = 1500) -> None:
    """Noise of the operating system follows the claimed law, and would not follow one that is 30 % off."""
    table = world.table(ordinary_rows(UNITS, world.rows_each))
    ask = asker(name, world.schema)
    residuals: list[np.ndarray] = []
    while sum(one.size for one in residuals) < coordinates:
        twin = Twin(start(world, table, noise.SystemNoise()), start(world, table, RecordedNoise(None)), world)
        run(ask, twin)
        for one in twin.residuals:
            # Within a run no two answers share noise.
            assert not any(np.array_equal(one[:8], other[:8]) for other in residuals), "noise is used twice"
            residuals.append(one)
    noises = np.concatenate(residuals)
    assert_law(noises)
    for wrong in (0.7, 1.3):
        with pytest.raises(AssertionError):
            assert_law(noises * wrong)


def assert_law(noises: np.ndarray) -> None:
    assert stats.kstest(noises, "norm").pvalue > 1e-6, "noise is not Gaussian with the claimed standard deviation"
    low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], noises.size)
    assert low <= (noises**2).sum() <= high, "noise does not have the claimed variance"


class Twin(Recording):
    """Asks a noisy session and a noiseless one the same, and keeps the noise in units of what the budget asks for."""

    def __init__(self, session: PrivateSession, silent: PrivateSession, world: World) -> None:
        super().__init__(session, TappedNoise(None), Transcript())
        self.silent, self.world = silent, world
        self.residuals: list[np.ndarray] = []

    @property
    def rows(self) -> RowCount:
        return self.session.rows

    def sub_session(self, share: float) -> Twin:
        part = Twin(self.session.sub_session(share), self.silent.sub_session(share), self.world)
        part.residuals = self.residuals
        return part

    def count_rows(self, *, share: float) -> NoisyAnswer:
        return self._both(Constant(), self.session.count_rows(share=share), self.silent.count_rows(share=share))

    def noisy_sum(self, feature_map: Any, *, share: float, query: str, source: str) -> NoisyAnswer:
        asked = {"share": share, "query": query, "source": source}
        noisy, silent = (one.noisy_sum(feature_map, **asked) for one in (self.session, self.silent))
        return self._both(feature_map, noisy, silent)

    def noisy_gradient(self, question: Any, *, share: float, query: str, source: str) -> NoisyGradient:
        asked = {"share": share, "query": query, "source": source}
        noisy, silent = (one.noisy_gradient(question, **asked) for one in (self.session, self.silent))
        return self._both(question, noisy, silent)

    def noisy_steps(self, question: Any, *, share: float, query: str, source: str) -> NoisySteps:
        asked = {"share": share, "query": query, "source": source}
        followed = Followed(question.training)
        noisy = self.session.noisy_steps(replace(question, training=followed), **asked)
        silent = self.silent.noisy_steps(replace(question, training=Told(followed.points)), **asked)
        return self._both(question, noisy, silent)

    def noisy_max(self, candidates: Any, *, share: float, query: str, source: str) -> Selection:
        asked = {"share": share, "query": query, "source": source}
        self.silent.noisy_max(candidates, **asked)
        return self.session.noisy_max(candidates, **asked)

    def _both(self, question: Any, noisy: Any, silent: Any) -> Any:
        # The claimed law comes from the oracle: its sensitivity and the cost on the receipt.
        cost = math.sqrt(noisy.receipt.mu_squared_units * accounting.MU_UNIT)
        claimed = max(oracle.sensitivity(question, self.world), 2.0**-6) / cost
        self.residuals.append((values_of(noisy) - values_of(silent)) / claimed)
        assert noisy.receipt.mu_squared_units == silent.receipt.mu_squared_units
        return noisy


# T3 metadata


def t3_metadata(name: str, world: World, tmp_path: Any) -> None:
    """With the answers forced to be equal, an outlier changes not one byte of what leaves a run."""
    from synth.bundle.table_files import write_table

    ask = asker(name, world.schema)
    rows = ordinary_rows(UNITS, world.rows_each)
    tables = [world.table(rows), world.table(neighbours_of(world, rows, far_rows()))]
    earlier, made, _, _ = record(ask, world, tables[0])
    later, made_again = replay(ask, world, tables[1], earlier)
    assert [one.receipt.to_dict() for one in earlier.answered] == [one.receipt.to_dict() for one in later.answered]
    assert same_bytes(made, made_again), "the fitted model depends on an outlier"
    written = []
    for number, one in enumerate((made, made_again)):
        paths = tmp_path / f"{number}.csv", tmp_path / f"{number}.parquet"
        schema = suited(name, world.schema, LABEL) if name in GENERATORS else world.schema
        codes = one.sample(50, 0) if hasattr(one, "sample") else np.zeros((50, len(schema.names)), np.int64)
        write_table(codes, schema, *paths, seed=0)
        written.append([path.read_bytes() for path in paths])
    assert written[0] == written[1], "the written table depends on an outlier"


def same_bytes(one: Any, other: Any) -> bool:
    if isinstance(one, list):
        return all(np.array_equal(first, second) for first, second in zip(one, other, strict=True))
    first, second = dict(one.state()), dict(other.state())
    return first.keys() == second.keys() and all(first[name].tobytes() == second[name].tobytes() for name in first)


# T2b selection law


def t2b_selection_law(world: World, draws: int = 3000) -> None:
    """The chosen index follows the exponential law of a parameter and a sensitivity that the oracle works out."""
    rows = ordinary_rows(30, 1)
    table = world.table(rows)
    jobs = np.bincount(table._column("job"), minlength=41).astype(np.float64)
    smokers = np.bincount(table._column("smoker"), minlength=3).astype(np.float64)
    # Scores lie a few sensitivities apart, so that the law is as far from uniform under either relation.
    unit = oracle.sensitivity((), world)
    near, far = jobs.copy(), jobs.copy()
    near[20] += 4 * unit
    far[20] += 15 * unit
    candidates = (
        candidate_of(("job",), near, weight=3.0),
        candidate_of(("job",), far, weight=3.0, penalty=3.0 * unit),
        candidate_of(("smoker",), smokers + np.array([18.0 * unit, 0, 0]), weight=1.5),
    )
    scores = np.array([4.0 * unit, 15.0 * unit - unit, 9.0 * unit])
    counts = np.zeros(3)
    for _ in range(draws):
        session = start(world, table, None)
        chosen = session.noisy_max(candidates, share=1.0, query="best", source="audit")
        counts[chosen.index] += 1
    # The budget is one number, mu; the parameter is what makes 2 Phi^-1(1 / (1 + exp(-e/2))) equal to it.
    mu = brentq(lambda mu: oracle.delta_of_gaussian(mu, EPSILON) - DELTA, 1e-3, 10)
    parameter = brentq(lambda e: 2 * ndtri(1 / (1 + math.exp(-e / 2))) - mu, 1e-3, 50)
    rate = parameter / (2 * unit)
    assert stats.chisquare(counts, draws * law(rate * scores)).pvalue > 1e-6, "a selection does not follow its law"
    for wrong in (0.5, 2.0):
        assert stats.chisquare(counts, draws * law(wrong * rate * scores)).pvalue < 1e-6, "the test cannot tell"


def law(exponents: np.ndarray) -> np.ndarray:
    weights = np.exp(exponents - exponents.max())
    return weights / weights.sum()


# T4 distinguishing


def t4_distinguishing(name: str, world: World, runs: int = 6000) -> float:
    """Guess from all answers of a run which of two neighbours it was; return the mu that the guesses prove.

    The score is the exact log-likelihood ratio of the two tables. A threshold is chosen on the first half of the runs;
    its error rates are bounded on the second half, so that mu is exceeded by chance once in ten million times.
    """
    with pytest.MonkeyPatch.context() as patch:
        if name == CRITICS:
            patch.setattr(Turns, "_gradients", worst_gradients)
        return _told_apart(name, world, runs)


def _told_apart(name: str, world: World, runs: int) -> float:
    rows = ordinary_rows(12, world.rows_each)
    pair = worst_pair(world, rows)
    earlier, _, _, _ = record(asker(name, world.schema), world, pair[0])
    questions = [answered for answered in earlier.answered if isinstance(answered.answer, SUMS)]
    whole = [[_noiseless(answered, world, table) for answered in questions] for table in pair]
    guesses = np.array([_likelihoods(questions, whole, world, table, runs) for table in pair])
    half = runs // 2
    thresholds = np.quantile(guesses[:, :half], np.linspace(0.1, 0.9, 33))
    rates = [[(row > threshold).mean() for row in guesses[:, :half]] for threshold in thresholds]
    best = int(np.argmax([abs(ndtri(hit) - ndtri(alarm)) for alarm, hit in np.clip(rates, 0.01, 0.99)]))
    alarms, hits = (int((row > thresholds[best]).sum()) for row in guesses[:, half:])
    n = runs - half
    alarm, hit = stats.beta.ppf(1 - 1e-4, alarms + 1, n - alarms), stats.beta.ppf(1e-4, hits, n - hits + 1)
    proven = float(ndtri(hit) - ndtri(alarm))
    assert proven <= 0 or oracle.delta_of_gaussian(proven, EPSILON) <= DELTA, (
        f"two neighbours are told apart: mu is at least {proven:.3g}, more than epsilon {EPSILON} allows"
    )
    return proven


def worst_pair(world: World, rows: list[Row]) -> tuple[PrivateTable, PrivateTable]:
    """Neighbours that differ by an outlier in the training part."""
    tables = world.table(rows), None
    for place in range(len(rows)):
        # What a row holds, or whose it is, decides its side: somebody as far away, another day.
        brought = [{**row, "visited": f"2024-12-{place % 28 + 1:02d}"} for row in far_rows()]
        far = world.table(neighbours_of(world, rows, brought, place, f"somebody new {place}"))
        if (far._column("job") == 40).any():
            return tables[0], far
    raise AssertionError("the outlier is always held out; use another account key")


def _noiseless(answered: Answered, world: World, table: PrivateTable) -> np.ndarray:
    silent = start(world, table, RecordedNoise(None))
    return values_of(asked_again(silent, answered.question, share=0.5))


def _likelihoods(
    questions: list[Answered], whole: list[list[np.ndarray]], world: World, table: PrivateTable, runs: int
) -> list[float]:
    with pytest.MonkeyPatch.context() as patch:
        # Plans and exact sums are the same in every run; only the noise is new.
        for one in {type(answered.question) for answered in questions if isinstance(answered.question, FeatureMap)}:
            patch.setattr(one, "blocks", _remembered(one.blocks))
        patch.setattr(gradients, "sum_of_gradients", _remembered(gradients.sum_of_gradients))
        patch.setattr(Turns, "__call__", _turns_remembered())
        right = NoisySum.plan
        plan = _remembered(lambda feature_map, allowed: right(NoisySum(feature_map), allowed))
        patch.setattr(NoisySum, "plan", lambda question, allowed: plan(question.feature_map, allowed))
        patch.setattr(answers, "exact_sum", _remembered(answers.exact_sum))
        return [_likelihood(questions, whole, world, table) for _ in range(runs)]


def _remembered(function: Any) -> Any:
    kept: dict[Any, Any] = {}

    def call(subject: Any, *others: Any, **named: Any) -> Any:
        key = id(subject), *sorted(named.items())
        if key not in kept:
            kept[key] = subject, function(subject, *others, **named)  # the subject is kept, so its id stays its own
        return kept[key][1]

    return call


def _turns_remembered() -> Any:
    """Take every turn once: rows and fake rows are the same in every run."""
    right, kept = Turns.__call__, {}

    def call(self: Turns, number: int, at: np.ndarray) -> np.ndarray:
        key = self._question.seed, id(self._question.tables), number
        if key not in kept:
            kept[key] = self._question.tables, right(self, number, at)
        return kept[key][1]

    return call


def _likelihood(questions: list[Answered], whole: list[list[np.ndarray]], world: World, table: PrivateTable) -> float:
    session = start(world, table, None)
    paid = sum(answered.receipt.mu_squared_units for answered in questions)
    total = 0.0
    for place, answered in enumerate(questions):
        share = answered.receipt.mu_squared_units / paid * (1 - 1e-9)
        release = asked_again(session, answered.question, share=share, query=f"q{place}")
        change = whole[1][place] - whole[0][place]
        middle = (whole[1][place] + whole[0][place]) / 2
        total += float((values_of(release) - middle) @ change) / release.receipt.noise_scale**2
    return total
