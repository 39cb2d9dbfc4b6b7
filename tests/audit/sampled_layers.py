"""The layers of the audit for trainings on random samples. Each raises AssertionError where the promise is broken.

What a step should answer is worked out number by number from the units that were drawn, and what a training costs from
the noise and the samples that were really asked for, by an accountant of this file.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import layers
import numpy as np
import oracle
import worlds
from scipy import stats
from trained_here import ChosenSamples, Walk, step_by_hand
from transcripts import Answered, TappedNoise, Told, record, replay, start
from worlds import DELTA, LABEL, WORLDS, Row, World, far_rows, neighbours_of, ordinary_rows

from synth.generators import GeneratorTask, make
from synth.privacy import accounting
from synth.privacy.answers import AnswerSource
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.sampled_gradients import SampledGradients
from synth.privacy.more.training_steps import NoisySteps
from synth.privacy.noise import SystemNoise
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress
from synth.schema import Schema

BY_HAND = "samples by hand"
ASKERS = (BY_HAND, "dp-gan", "dp-cgan")
PRIVATE = {name: world for name, world in WORLDS.items() if world.row_count == "private"}
"""Where samples may be drawn: the number of units is private, and rows say whose they are."""

UNITS = 40
QUICK = {"steps": 5, "batch_size": 14, "hidden": 3, "generated": 16, "clip": 0.25}


def asker(name: str, schema: Schema) -> Callable[[AnswerSource], Any]:
    """Return who asks: a generator, or two trainings of critics that wander."""
    if name != BY_HAND:
        task = GeneratorTask(schema, LABEL, seed=0, device="cpu")
        return lambda session: make(name, task, QUICK).fit(session, NullProgress())
    sizes = dict(zip(schema.names, schema.sizes, strict=True))
    rng = np.random.default_rng(4)
    tables = (
        Lookup("age", rng.normal(size=(7, 3)), np.arange(sizes["age"]) * 7 // sizes["age"]),
        Lookup("job", np.eye(sizes["job"])[:, -4:]),
        Lookup("income", np.linspace(-1, 1, sizes["income"])[:, None]),
    )

    def ask(session: AnswerSource) -> list[np.ndarray]:
        found = []
        for loss, clip, rate, steps in (("logistic", 0.125, 2**32 // 3, 5), ("wasserstein", 1.0, 2**30, 6)):
            question = SampledGradients(tables, (4, 3), loss, clip, rate, steps)  # type: ignore[arg-type]
            walk = Walk(np.random.default_rng(6).normal(size=question.dimension), rate=0.1)
            share = session.remaining_share * (0.5 if loss == "logistic" else 1.0)
            asked = dataclasses.replace(question, training=walk)
            session.noisy_steps(asked, share=share, query=loss, source="audit").train(walk)
            found.append(walk.at().copy())
        return found

    return ask


def units_of(table: PrivateTable) -> list[list[Row]]:
    """The codes of every unit's rows, in the order in which units are numbered."""
    numbers = range(table._rows) if table._units is None else table._units.tolist()
    found: dict[int, list[Any]] = {}
    for place, number in enumerate(numbers):
        own = {name: int(table._column(name)[place]) for name in table.schema.names}
        found.setdefault(number, []).append(own)
    return [found[number] for number in sorted(found)]


def trainings_of(answered: Sequence[Answered]) -> list[Answered]:
    found = [one for one in answered if isinstance(one.answer, NoisySteps)]
    assert found, "nothing was trained"
    return found


# T0 calibration


def t0_calibration(name: str, world: World) -> None:
    """Every step reads its own sample of whole units, and nothing else; noise and samples are worth the budget."""
    table = world.table(ordinary_rows(UNITS, world.rows_each))
    transcript, made, session, tapped = record(asker(name, world.schema), world, table)
    units, several = units_of(table), world.rows_per_unit > 1
    samples = iter(tapped.samples)
    draws = dict(zip((id(one) for one in transcript.answered), tapped.draws, strict=True))
    for answered in trainings_of(transcript.answered):
        question, receipt = answered.question, answered.receipt
        assert isinstance(question, SampledGradients)
        assert draws[id(answered)].reshape(question.steps, -1).any(axis=1).all(), "a step has no noise"
        exact = answered.whole.reshape(question.steps, question.dimension)
        shift = round(-math.log2(receipt.grid)) - 24
        own = list(itertools.islice(samples, question.steps))
        assert len(own) == receipt.steps == question.steps, "a step drew no sample of its own"
        if 0.2 < receipt.sampling_rate < 0.8:
            # At a small epsilon the noisy number of rows may be so far off that nobody or everybody is drawn.
            assert len({tuple(drawn.tolist()) for _, _, drawn in own}) == len(own), "a sample was used twice"
        for (size, rate, drawn), point, found in zip(own, question.training.points, exact, strict=True):
            assert size == len(units), "something else than whole units was drawn"
            assert rate == receipt.sampling_rate * 2**32, "units were drawn with another probability"
            wanted = step_by_hand(question, point.tolist(), [units[one] for one in drawn], several=several)
            assert (found >> shift).tolist() == wanted, "a step is not the sum over the units that it drew"
    assert next(samples, None) is None, "more samples were drawn than steps were charged"
    assert_cost_is_the_budget(transcript.answered, tapped, world)
    for answered, variance in zip(transcript.answered, tapped.variances, strict=True):
        receipt = answered.receipt
        least = 1.0 if isinstance(answered.answer, NoisySteps) else oracle.sensitivity(answered.question, world)
        assert receipt.sensitivity >= least * (1 - 1e-9)
        assert math.isclose(receipt.noise_scale, math.sqrt(variance) * receipt.grid, rel_tol=1e-9)
        accounting.require_honest(receipt)
    reached = Private([*tapped.draws, *(drawn for _, _, drawn in tapped.samples)])
    layers.assert_nothing_private_is_reachable([made, transcript.answered], reached, table, skip=(tapped, reached))
    layers.assert_budget_is_used_up(session)


@dataclass
class Private:
    """What nobody may reach besides the table."""

    draws: list[np.ndarray]


def assert_cost_is_the_budget(answered: Sequence[Answered], tapped: TappedNoise, world: World) -> None:
    samples, others, runs = iter(tapped.samples), 0.0, []
    for one, variance in zip(answered, tapped.variances, strict=True):
        if isinstance(one.answer, NoisySteps):
            own = list(itertools.islice(samples, one.question.steps))
            runs.append((own[0][1] / 2**32, len(own), math.sqrt(variance) * one.receipt.grid))
        else:
            others += oracle.mu_of(one, world, variance) ** 2
    assert delta_of_runs(math.sqrt(others), runs) <= DELTA, "more is spent than the budget"
    # At a large epsilon a few amplified steps are further below the curve of mu by which they are charged.
    part = 0.93 if worlds.EPSILON <= 1 else 0.75
    less = [(rate, steps, part * noise) for rate, steps, noise in runs]
    assert delta_of_runs(math.sqrt(others) / part, less) > DELTA, "the noise is larger than the budget asks for"


def delta_of_runs(mu: float, runs: Sequence[tuple[float, int, float]]) -> float:
    """The delta at epsilon of Gaussian answers and runs of sampled ones (rate, steps, noise), in the worse direction.

    From the distribution of the privacy loss on a fine grid, convolved by Fourier transforms (Koskela 2020).
    """
    points, step = 2**17, 5e-4
    losses = step * np.where(np.arange(points) < points // 2, np.arange(points), np.arange(points) - points)
    worst = 0.0
    for removed in (True, False):
        total = np.ones(points // 2 + 1, dtype=complex)
        for rate, steps, noise in [*runs, *([(1.0, 1, 1 / mu)] if mu else [])]:
            at = np.linspace(-12 * noise, 1 + 12 * noise, 400_001)
            none, one = (np.exp(-0.5 * ((at - centre) / noise) ** 2) for centre in (0, 1))
            mixed = (1 - rate) * none + rate * one
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = np.log1p(rate * np.expm1((2 * at - 1) / (2 * noise**2)))
            mass, loss = (mixed, ratio) if removed else (none, -ratio)
            kept = mass > 1e-300
            cells = np.rint(loss[kept] / step).astype(np.int64) % points
            found = np.bincount(cells, mass[kept], points)
            total = total * np.fft.rfft(found / found.sum()) ** steps
        masses = np.fft.irfft(total, points)
        above = losses > worlds.EPSILON
        worst = max(worst, float(masses[above] @ -np.expm1(worlds.EPSILON - losses[above])))
    return worst


# T1 neighbours


def t1_neighbours(name: str, world: World, *, place: int = 3) -> None:
    """One unit more changes a step by what it adds, at most the clip norm, and only where it is drawn."""
    world = dataclasses.replace(world, holdout=0.0)
    rows = ordinary_rows(UNITS, 1)
    tables = world.table(rows), world.table(neighbours_of(world, rows, far_rows(), place))
    earlier, _, _, _ = record(asker(name, world.schema), world, tables[0])
    before, after = (units_of(table) for table in tables)
    (new,) = (rank for rank, unit in enumerate(after) if unit[0]["job"] == 40)
    assert len(after) == len(before) + 1
    kept = [rank for rank in range(len(after)) if rank != new]
    same = [next(rank for rank, unit in enumerate(before) if unit == after[other]) for other in kept]
    rng = np.random.default_rng(place)
    for answered in trainings_of(earlier.answered):
        question = answered.question
        assert isinstance(question, SampledGradients)
        chosen = [sorted(rng.choice(len(kept), 30, replace=False).tolist()) for _ in range(question.steps)]
        samples = (
            [sorted(same[one] for one in some) for some in chosen],
            [sorted([kept[one] for one in some] + [new] * (step % 2)) for step, some in enumerate(chosen)],
        )
        found = []
        for table, units, drawn in zip(tables, (before, after), samples, strict=True):
            source = ChosenSamples(lambda step, size, drawn=drawn: drawn[step])
            asked = dataclasses.replace(question, training=Told(question.training.points))
            session = start(world, table, source)
            answer = session.noisy_steps(asked, share=0.9, query="again", source="audit")
            assert source.asked == [(len(units), question.rate)] * question.steps, "something else was drawn"
            found.append(answer.whole)
        shift = round(-math.log2(answer.receipt.grid)) - 24
        for step, change in enumerate((found[1] - found[0]) >> shift):
            if step % 2 == 0:
                assert not change.any(), "a step moved by somebody who was not drawn"
                continue
            length = math.sqrt(sum(int(entry) ** 2 for entry in change)) * 2.0**-24
            assert length <= answered.receipt.sensitivity, f"a unit moved a step by {length:.6g}"
            point = question.training.points[step].tolist()
            own = step_by_hand(question, point, [after[new]], several=world.rows_per_unit > 1)
            assert change.tolist() == own, "somebody else's part of a step changed"


def t1_beside_many(units: int = 2000) -> None:
    """Somebody with several rows beside thousands with one, all of them drawn: to the last bit nobody else changes."""
    world = dataclasses.replace(PRIVATE["add or remove several rows"], holdout=0.0)
    rows = ordinary_rows(units, 1)
    tables = world.table(rows), world.table(neighbours_of(world, rows, far_rows()))
    sizes = dict(zip(world.schema.names, world.schema.sizes, strict=True))
    rng = np.random.default_rng(8)
    lookups = tuple(Lookup(name, rng.normal(size=(sizes[name], 3))) for name in ("age", "income"))
    question = SampledGradients(lookups, (5,), "wasserstein", 0.125, 2**32, 2)
    points = list(rng.normal(size=(2, question.dimension)))
    found = []
    for table in tables:
        session = start(world, table, ChosenSamples(lambda step, size: range(size)))
        asked = dataclasses.replace(question, training=Told(points))
        answer = session.noisy_steps(asked, share=0.9, query="again", source="audit")
        found.append(answer.whole)
    (new,) = (unit for unit in units_of(tables[1]) if unit[0]["job"] == 40)
    assert len(new) == world.rows_per_unit
    shift = round(-math.log2(answer.receipt.grid)) - 24
    for point, change in zip(points, (found[1] - found[0]) >> shift, strict=True):
        own = step_by_hand(question, point.tolist(), [new], several=True)
        assert change.tolist() == own, "somebody else's part of a step changed"


def t1_made(name: str, world: World) -> None:
    """With the answers forced to be equal, nothing else differs: questions, receipts, and what is made of them."""
    world = dataclasses.replace(world, holdout=0.0)
    rows = ordinary_rows(UNITS, world.rows_each)
    ask = asker(name, world.schema)
    earlier, made, _, _ = record(ask, world, world.table(rows))
    later, made_again = replay(ask, world, world.table(neighbours_of(world, rows, far_rows())), earlier)
    assert [one.receipt.to_dict() for one in earlier.answered] == [one.receipt.to_dict() for one in later.answered]
    assert layers.same_bytes(made, made_again), "what was made depends on more than the answers"


# T2 law of samples


@dataclass
class Watched:
    """The product's own noise, with the samples that it drew."""

    private: bool = False
    samples: list[np.ndarray] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._noise = SystemNoise()

    def gaussian(self, variance: int, size: int) -> np.ndarray:
        return self._noise.gaussian(variance, size)

    def sample(self, size: int, *, rate: int) -> np.ndarray:
        self.samples.append(self._noise.sample(size, rate=rate))
        return self.samples[-1].copy()


def t2_samples(steps: int = 120) -> None:
    """Samples of the product's own noise: each unit by itself, with the stated probability, at every step anew.

    Two runs of one seed draw other samples. A law that is a third off would be noticed.
    """
    world = dataclasses.replace(PRIVATE["add or remove"], holdout=0.0)
    table = world.table(ordinary_rows(UNITS, 1))
    question = SampledGradients((Lookup("smoker", np.eye(3)),), (2,), "logistic", 1.0, 2**30, steps)
    runs = []
    for _ in range(2):
        noise = Watched()
        walk = Walk(np.zeros(question.dimension))
        start(world, table, noise).noisy_steps(
            dataclasses.replace(question, training=walk), share=1.0, query="q", source="audit"
        )
        drawn = np.zeros((steps, UNITS), dtype=bool)
        for row, some in zip(drawn, noise.samples, strict=True):
            row[some] = True
        runs.append(drawn)
    assert (runs[0] != runs[1]).any(), "the seed decides who is drawn"
    for drawn in runs:
        total = int(drawn.sum())
        assert stats.binomtest(total, drawn.size, 0.25).pvalue > 1e-7, "units are drawn with another probability"
        assert stats.binomtest(total, drawn.size, 1 / 3).pvalue < 1e-7, "the test cannot tell"
        each = (drawn.sum(axis=0) - steps / 4) ** 2 / (steps * 3 / 16)
        assert stats.chi2.sf(float(each.sum()), UNITS) > 1e-7, "some are drawn more often than others"
        again = int((drawn[1:] & drawn[:-1]).sum())
        assert stats.binomtest(again, (steps - 1) * UNITS, 1 / 16).pvalue > 1e-7, "a sample is like the one before"
        sizes = (drawn.sum(axis=1) - UNITS / 4) ** 2 / (UNITS * 3 / 16)
        assert 0.4 < float(sizes.mean()) < 2.0, "samples have one size"
