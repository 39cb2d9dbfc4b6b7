"""Layers at the edges: small and large budgets, small shares, the far tails of noise, choices between far-apart scores.

What happens once in a billion draws is looked at by giving the samplers random bits that lead there: a sampler that is
exact follows the law given those bits, and how likely the bits were is known.
"""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
import oracle
import pytest
from candidates import candidate_of
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from recorded_noise import RecordedNoise
from row_askers import CELL
from scipy import stats
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtri
from transcripts import Answered, TappedNoise
from worlds import LABEL, World, ordinary_rows

from synth.errors import BudgetExceededError
from synth.privacy import accounting
from synth.privacy import noise as samplers
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.feature_maps import OneHot
from synth.privacy.more.lookups import Lookup
from synth.privacy.noise import SystemNoise
from synth.privacy.receipt import Receipt
from synth.privacy.selection import Candidate
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable

BUDGETS = {
    "epsilon 0.1": (0.1, 1e-5),
    "epsilon 1": (1.0, 1e-5),
    "epsilon 8": (8.0, 1e-5),
    "epsilon 8, mu above 2": (8.0, 1e-2),
}
SHARES = (0.1, 0.15, 0.02, 0.19)
SIGMAS = range(7)
ALLOWED_SLACK, ALLOWED_COORDINATES = 1e-5, 10**9
ALPHA = 1e-6


def one_hot(world: World, *columns: str) -> OneHot:
    sizes = dict(zip(world.schema.names, world.schema.sizes, strict=True))
    return OneHot(columns, (None,) * len(columns), tuple(sizes[column] for column in columns))


def start(world: World, budget: str, noise: Any) -> PrivateSession:
    table = world.table(ordinary_rows(30, world.rows_per_unit))
    return PrivateSession(table, PrivacyBudget(*BUDGETS[budget], world.schema.neighbours), noise=noise)


# What a promise leaves for Gaussians, worked out a second time


def delta_on_a_grid(mu: float, epsilon: float, *, slack: float, coordinates: int) -> float:
    """Delta of Gaussians on a grid by the theorem of ``docs/proofs/discretisation-slack.md``, at its best cut."""
    best = 1.0
    for tail in np.linspace(12, 40, 57):
        cost = slack * (tail / 12) ** 2
        beyond = math.exp(math.log(4 * coordinates) + float(log_ndtr(-tail)) + epsilon - cost)
        best = min(best, math.exp(cost) * oracle.delta_of_gaussian(mu, epsilon - 2 * cost) + beyond)
    return best


def t0_allowance(budget: str) -> None:
    """A budget sets aside what noise on a grid costs beside its Gaussian, and what is stated of receipts adds it."""
    epsilon, delta = BUDGETS[budget]
    allowed: dict[str, Any] = {"slack": ALLOWED_SLACK, "coordinates": ALLOWED_COORDINATES}
    mu = accounting.mu_of_budget(epsilon, delta)
    assert delta_on_a_grid(mu, epsilon, **allowed) <= delta * (1 + 1e-9), "the grid's cost is not set aside"
    assert delta_on_a_grid(mu * (1 + 1e-6), epsilon, **allowed) > delta, "more is set aside than the grid costs"
    stated = accounting.epsilon_of(mu**2, delta, **allowed)
    assert delta_on_a_grid(mu, stated, **allowed) <= delta * (1 + 1e-9), "the grid's cost is not stated"


def t0_small_shares(budget: str, world: World) -> None:
    """However a budget is cut up, questions of any share together cost all of it and no more."""
    tapped = TappedNoise(1)
    session = start(world, budget, tapped)
    label, candidates = one_hot(world, LABEL), _candidates(world, session._table, (0.0, 1.0))
    answered: list[tuple[Receipt, Any]] = []

    def ask(asked: PrivateSession, share: float) -> None:
        name = f"question {len(answered)}"
        if len(answered) % 3 == 1:
            chosen = asked.noisy_max(candidates, share=share, query=name, source="audit")
            answered.append((chosen.receipt, candidates))
        else:
            release = asked.noisy_sum(label, share=share, query=name, source="audit")
            answered.append((release.receipt, label))

    for share in SHARES:
        before = session.remaining_share
        ask(session.sub_session(share), 1.0)
        assert session.remaining_share <= before - share * (1 - 1e-6), f"a part of {share} is not charged"
        ask(session, share / 2)
        assert session.remaining_share <= before - 1.5 * share * (1 - 1e-6), f"a question of {share / 2} is not charged"
    inner = session.sub_session(0.2)
    for share in SHARES:
        ask(inner.sub_session(share), 1.0)
    while len(answered) < 60:
        try:
            ask(session, 0.03)
        except BudgetExceededError:
            break
    ask(session, min(1.0, session.remaining_share))
    choices = sum(isinstance(question, tuple) for _, question in answered)
    assert (len(tapped.rates), len(tapped.variances)) == (choices, len(answered) - choices), "an answer has no noise"
    variances, rates = iter(tapped.variances), iter(tapped.rates)
    mus = [
        oracle.mu_of(_asked(receipt, question), world, next(rates if isinstance(question, tuple) else variances))
        for receipt, question in answered
    ]
    mu = math.sqrt(sum(one**2 for one in mus))
    slack = sum(6 * label.dimension / variance for variance in tapped.variances)
    numbers = label.dimension * len(tapped.variances)
    epsilon, delta = BUDGETS[budget]
    drawn = delta_on_a_grid(mu, epsilon, slack=slack, coordinates=numbers)
    assert drawn <= delta, "more is spent than the budget"
    paid = [Receipt.from_dict({**receipt.to_dict(), "private": True}) for receipt, _ in answered]
    stated = accounting.epsilon_of_receipts(paid, delta)
    least = delta_on_a_grid(mu, stated, slack=slack, coordinates=numbers)
    assert least <= delta * (1 + 1e-6), "the receipts state less than the noise costs"


def _asked(receipt: Receipt, question: Any) -> Answered:
    return Answered(question, 0.0, receipt.query, receipt, np.zeros(0), None)  # type: ignore[arg-type]


# The tails of the noise


class TailBits:
    """Random bits of proposals between k and k + 1 scales, whose coins begin with some zeros.

    A proposal takes three words: sign and remainder, the whole number of scales, and the coin that keeps it.
    """

    def __init__(self, key: int, multiple: int, zeros: int) -> None:
        self._bits = RecordedNoise(key)._stream
        self._low, self._high = (math.ceil(math.exp(-place) * 2**64) for place in (multiple + 1, multiple))
        self._zeros, self._asked = np.uint64(zeros), 0

    def words(self, count: int) -> np.ndarray:
        assert self._bits is not None
        words = self._bits.words(count).copy()
        if count < 3:
            return words
        self._asked += count
        assert self._asked < 10**7, "noise as large as this is never drawn"
        first, second, third = words.reshape(3, count // 3)
        width = self._high - self._low - 2
        scaled = [self._low + 1 + (int(word) * width >> 64) for word in second]
        return np.concatenate([first, np.array(scaled, dtype=np.uint64), third >> self._zeros])


def zeros_of(least_exponent: float) -> int:
    """With how many zeros a coin may begin that shows heads with probability exp(-exponent) or less."""
    return max(0, math.floor(least_exponent / math.log(2) - 1e-9))


class TailNoise:
    """The system's noise, given such bits; orders and labels are drawn as usual."""

    private = True

    def __init__(self, key: int, multiple: int) -> None:
        self.key, self.multiple = key, multiple
        self.scales: list[tuple[int, int | None]] = []
        self._others = RecordedNoise(key)

    def gaussian(self, variance: int, size: int) -> np.ndarray:
        scale = math.isqrt(variance) + 1
        self.scales.append((scale, variance))
        least = 0.0 if self.multiple == 0 else (self.multiple * scale - variance / scale) ** 2 / (2 * variance)
        return self._system(zeros_of(least)).gaussian(variance, size)

    def laplace(self, scale: int, size: int) -> np.ndarray:
        self.scales.append((scale, None))
        return self._system(0).laplace(scale, size)

    def _system(self, zeros: int) -> SystemNoise:
        noise = SystemNoise()
        noise._stream = TailBits(self.key + len(self.scales), self.multiple, zeros)  # type: ignore[assignment]
        return noise

    def respond(self, *arguments: Any, **named: Any) -> np.ndarray:
        return self._others.respond(*arguments, **named)

    def order(self, size: int) -> np.ndarray:
        return np.arange(size)


def t2_tails(budget: str, world: World) -> None:
    """Noise in every answer goes on beyond six standard deviations, with the law's probabilities there."""
    question = one_hot(world, "visited", "smoker")
    for multiple in SIGMAS:
        noise = TailNoise(10 * multiple, multiple)
        asked = {"share": 0.1, "query": "q", "source": "audit"}
        release = start(world, budget, noise).noisy_sum(question, **asked)
        silent = start(world, budget, RecordedNoise(None)).noisy_sum(question, **asked)
        draws = np.rint((release.value - silent.value).reshape(-1) / release.receipt.grid)
        ((scale, variance),) = noise.scales
        assert variance is not None
        assert_tail(draws, multiple * scale, (multiple + 1) * scale, stats.norm(scale=math.sqrt(variance)))


def t2_tails_of_rows() -> None:
    """So does the noise of every number of noisy rows that hide one cell."""
    table = CELL.table(ordinary_rows(400, 1))
    budget = PrivacyBudget(1.0, 1e-5, CELL.schema.neighbours)
    column = CELL.schema.modelled_column("job")
    asked: dict[str, Any] = {"noise": "laplace", "share": 1.0, "query": "q", "source": "audit"}
    question = (Lookup("job", np.eye(column.size)),)
    for multiple in (0, 3, 6, 12):
        noise = TailNoise(multiple, multiple)
        noisy = PrivateSession(table, budget, noise=noise).perturb_rows(question, **asked)
        silent = PrivateSession(table, budget, noise=RecordedNoise(None)).perturb_rows(question, **asked)
        draws = (noisy.numbers - silent.numbers).reshape(-1).astype(np.float64)
        ((scale, _),) = noise.scales
        assert_tail(draws, multiple * scale, (multiple + 1) * scale, stats.laplace(scale=scale))


def assert_tail(draws: np.ndarray, low: int, high: int, law: Any) -> None:
    sizes = np.abs(draws)
    assert sizes.min() >= low, "large noise is cut off"
    assert sizes.max() < high, "noise is not what its bits say"
    assert 0 < (draws < 0).mean() < 1
    assert stats.binomtest(int((draws < 0).sum()), draws.size).pvalue > ALPHA, "noise leans to one side"
    below, within = law.sf(low), law.sf(low) - law.sf(high)
    ranks = (below - law.sf(sizes)) / within
    assert stats.kstest(ranks, "uniform").pvalue > ALPHA, "large noise does not follow its law"


def t2_tail_masses(variance: int = 2**60 + 12345, proposals: int = 6000) -> None:
    """How often large proposals are kept is what the law says: none of them is thinned out."""
    scale = math.isqrt(variance) + 1
    remainders = (np.arange(200_000) + 0.5) / 200_000
    for multiple in SIGMAS:
        exponents = remainders + ((multiple + remainders) * scale - variance / scale) ** 2 / (2 * variance)
        zeros = zeros_of(float(exponents.min()))
        expected = float(np.exp(zeros * math.log(2) - exponents).mean())
        kept = samplers._accepted(TailBits(multiple, multiple, zeros), scale, variance, proposals, samplers.DOUBT).size
        assert stats.binomtest(kept, proposals, expected).pvalue > ALPHA, f"noise beyond {multiple} sigma is thinned"


# Choices between far-apart scores


class CoinBits:
    """Random bits of a choice whose coins begin with some zeros: two words for every proposal, index and coin."""

    def __init__(self, key: int, zeros: int) -> None:
        self._bits = RecordedNoise(key)._stream
        self._zeros = np.uint64(zeros)

    def words(self, count: int) -> np.ndarray:
        assert self._bits is not None
        words = self._bits.words(count).copy()
        if count > 1:
            words[count // 2 :] >>= self._zeros
        return words


class CoinNoise:
    private = True

    def __init__(self, key: int, zeros: int) -> None:
        self._noise = SystemNoise()
        self._noise._stream = CoinBits(key, zeros)  # type: ignore[assignment]

    def gaussian(self, variance: int, size: int) -> np.ndarray:
        raise AssertionError("a choice draws no Gaussian noise")

    def choose(self, scores: np.ndarray, *, numerator: int, denominator: int) -> int:
        return self._noise.choose(scores, numerator=numerator, denominator=denominator)


def _candidates(world: World, table: PrivateTable, above: tuple[float, ...]) -> tuple[Candidate, ...]:
    """Candidates whose scores are these multiples of the sensitivity."""
    jobs = np.bincount(table._column("job"), minlength=41).astype(np.float64)
    found = []
    for place, one in enumerate(above):
        own = jobs.copy()
        own[20 + place] += one * oracle.sensitivity((), world)
        found.append(candidate_of(("job",), own))
    return tuple(found)


def parameter_of(budget: str, share: float = 1.0) -> float:
    """The parameter of a selection that costs a share of a budget, from the definitions."""
    epsilon, delta = BUDGETS[budget]

    def left(mu: float) -> float:
        return delta_on_a_grid(mu, epsilon, slack=ALLOWED_SLACK, coordinates=ALLOWED_COORDINATES) - delta

    mu = math.sqrt(share) * brentq(left, 1e-4, 10)
    return float(brentq(lambda e: 2 * ndtri(1 / (1 + math.exp(-e / 2))) - mu, 1e-6, 60))


def t2b_far_choices(budget: str, world: World, draws: int = 250) -> None:
    """A candidate far behind is chosen as seldom as the law says, and not never; no budget changes the law."""
    table = world.table(ordinary_rows(30, 1))
    promise = PrivacyBudget(*BUDGETS[budget], world.schema.neighbours)
    for share in (0.1, 1.0):
        parameter = parameter_of(budget, share)
        for behind in (3.0, 12.0, 30.0):
            # Weight exp(parameter * score / (2 * sensitivity)); the last candidate is the best one.
            candidates = _candidates(world, table, (0.0, 2 * behind / parameter))
            noise = CoinNoise(round(behind), zeros := zeros_of(behind))
            far = 0
            for _ in range(draws):
                session = PrivateSession(table, promise, noise=noise)
                far += session.noisy_max(candidates, share=share, query="q", source="audit").index == 0
            weight = math.exp(zeros * math.log(2) - behind)
            told = f"a choice between scores {behind:g} apart does not follow its law"
            assert stats.binomtest(far, draws, weight / (1 + weight)).pvalue > ALPHA, told


def t0_choices(budget: str, world: World) -> None:
    """What a choice is asked with costs no more than its share, from the rate that the sampler is given."""
    epsilon, delta = BUDGETS[budget]
    for share in (0.02, 0.1, 1.0):
        tapped = TappedNoise(1)
        session = start(world, budget, tapped)
        candidates = _candidates(world, session._table, (0.0, 40.0, 3.0))
        chosen = session.noisy_max(candidates, share=share, query="q", source="audit")
        assert len(tapped.rates) == 1, "a choice was made without noise"
        mu = oracle.mu_of(_asked(chosen.receipt, candidates), world, tapped.rates[0])
        whole = mu / math.sqrt(share)
        assert oracle.delta_of_gaussian(whole, epsilon) <= delta, "a choice costs more than its share"
        assert oracle.delta_of_gaussian(1.01 * whole, epsilon) > delta, "a choice costs less than its share"


# The key


def t0_key() -> None:
    """Noise is the keystream of AES-256 under bytes of the operating system, and of nothing else."""
    handed: list[bytes] = []
    draw = os.urandom

    def urandom(size: int) -> bytes:
        handed.append(draw(size))
        return handed[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "urandom", urandom)
        drawn = SystemNoise().gaussian(2**60, 32)
    keys = [one for one in handed if len(one) == 32]
    nonces = [one for one in handed if len(one) == 16]
    assert len(keys) == len(nonces) == 1, "the key of the noise is not 32 bytes of the operating system"
    expected = samplers.discrete_gaussian(_Keystream(keys[0], nonces[0]), 2**60, 32)
    assert np.array_equal(drawn, expected), "the key of the noise is not what the operating system gave"


class _Keystream:
    def __init__(self, key: bytes, nonce: bytes) -> None:
        self._encryptor = Cipher(algorithms.AES256(key), modes.CTR(nonce)).encryptor()

    def words(self, count: int) -> np.ndarray:
        return np.frombuffer(self._encryptor.update(bytes(8 * count)), dtype=np.uint64)
