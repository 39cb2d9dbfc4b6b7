"""Noise has exactly the law it claims, also where float64 cannot tell, and its key belongs to nobody."""

from __future__ import annotations

import ast
import copy
import inspect
import math
import os
import pickle
from collections import Counter
from pathlib import Path

import mpmath
import numpy as np
import pytest
from recorded_noise import NoiseCall, RecordedNoise
from scipy import stats
from timing import require_within

from synth.errors import PrivacyError
from synth.privacy import noise as sampling
from synth.privacy.noise import NoiseSource, SystemNoise, discrete_gaussian, discrete_laplace, exponential_choice

SYNTH = Path(__file__).parents[2] / "synth"
ALPHA = 1e-6
EXACT = 2.0  # every comparison is "too close", so all of them are decided in rational arithmetic


def source(key: int) -> object:
    return RecordedNoise(key)._stream


def gaussian_law(variance: float, reach: int) -> np.ndarray:
    weights = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * variance))
    return weights / weights.sum()


def laplace_law(scale: float, reach: int) -> np.ndarray:
    weights = np.exp(-np.abs(np.arange(-reach, reach + 1)) / scale)
    return weights / weights.sum()


def p_value(draws: np.ndarray, law: np.ndarray) -> float:
    """Chi-square of integer draws against a law on -reach .. reach; rare cells are pooled."""
    reach = len(law) // 2
    seen = np.bincount(np.clip(draws, -reach, reach) + reach, minlength=len(law)).astype(float)
    expected = law * draws.size
    often = expected >= 10
    seen = np.append(seen[often], seen[~often].sum())
    expected = np.append(expected[often], expected[~often].sum())
    if expected[-1] < 10:  # fold the pooled rest into its neighbour rather than divide by next to nothing
        seen[-2] += seen[-1]
        expected[-2] += expected[-1]
        seen, expected = seen[:-1], expected[:-1]
    return float(stats.chisquare(seen, expected * seen.sum() / expected.sum()).pvalue)


# ------------------------------------------------------------------------------------------------- the Gaussian law


@pytest.mark.parametrize("variance", [1, 2, 3, 7, 50, 400])
def test_small_variances_follow_the_exact_probabilities_and_no_other_scale(variance: int) -> None:
    draws = discrete_gaussian(source(variance), variance, 200_000)
    reach = 12 * math.isqrt(variance) + 12
    assert p_value(draws, gaussian_law(variance, reach)) > ALPHA
    for wrong in (0.7, 1.3):
        assert p_value(draws, gaussian_law(variance * wrong**2, reach)) < ALPHA


@pytest.mark.parametrize("variance", [10**6, 3 * 2**40 + 1, 2**60 + 12345, 2**90 - 7, (2**46 - 1) ** 2])
def test_large_variances_follow_the_law_and_no_other_scale(variance: int) -> None:
    draws = discrete_gaussian(source(5), variance, 100_000) / math.sqrt(variance)
    assert stats.kstest(draws, "norm").pvalue > ALPHA
    for wrong in (0.7, 1.3):
        assert stats.kstest(draws, stats.norm(scale=wrong).cdf).pvalue < ALPHA


@pytest.mark.parametrize("variance", [2**40, 2**90])
def test_low_bits_are_even_at_every_size(variance: int) -> None:
    low = discrete_gaussian(source(6), variance, 200_000) % 64
    assert stats.chisquare(np.bincount(low, minlength=64)).pvalue > ALPHA


def test_draws_follow_each_other_independently() -> None:
    draws = discrete_gaussian(source(7), 2**40, 400_000) / 2**20
    for lag in (1, 2, 3):
        assert abs(np.mean(draws[lag:] * draws[:-lag])) < 5 / math.sqrt(draws.size)
    assert abs(draws.mean()) < 5 / math.sqrt(draws.size)


@pytest.mark.parametrize("variance", [0, -4, (2**46) ** 2])
def test_a_variance_out_of_range_is_refused(variance: int) -> None:
    with pytest.raises(PrivacyError, match="variance of discrete Gaussian noise"):
        discrete_gaussian(source(0), variance, 1)


def test_no_draws_are_an_empty_array_of_integers() -> None:
    draws = SystemNoise().gaussian(9, 0)
    assert draws.shape == (0,)
    assert draws.dtype == np.int64


# -------------------------------------------------------------------------------------------------- the Laplace law


@pytest.mark.parametrize("scale", [1, 2, 5, 40])
def test_laplace_follows_the_exact_probabilities_and_no_other_scale(scale: int) -> None:
    draws = discrete_laplace(source(scale), scale, 200_000)
    assert p_value(draws, laplace_law(scale, 30 * scale)) > ALPHA
    for wrong in (0.7, 1.3):
        assert p_value(draws, laplace_law(scale * wrong, 30 * scale)) < ALPHA


@pytest.mark.parametrize("scale", [2**20 + 3, 2**46])
def test_wide_laplace_follows_the_law_and_no_other_scale(scale: int) -> None:
    draws = discrete_laplace(source(8), scale, 100_000) / scale
    assert stats.kstest(draws, "laplace").pvalue > ALPHA
    for wrong in (0.7, 1.3):
        assert stats.kstest(draws, stats.laplace(scale=wrong).cdf).pvalue < ALPHA


@pytest.mark.parametrize("scale", [0, 2**46 + 1])
def test_a_scale_out_of_range_is_refused(scale: int) -> None:
    with pytest.raises(PrivacyError, match="scale of discrete Laplace noise"):
        discrete_laplace(source(0), scale, 1)


# --------------------------------------------------------------------------------------------------------- exactness


@pytest.mark.parametrize("variance", [1, 10, 2**40 + 1, 2**90 + 3])
def test_float64_decides_every_coin_as_rational_arithmetic_does(variance: int) -> None:
    quick = discrete_gaussian(source(11), variance, 3000)
    exact = discrete_gaussian(source(11), variance, 3000, doubt=EXACT)
    np.testing.assert_array_equal(quick, exact)


def test_float64_decides_laplace_coins_as_rational_arithmetic_does() -> None:
    quick = discrete_laplace(source(12), 2**45 + 1, 3000)
    np.testing.assert_array_equal(quick, discrete_laplace(source(12), 2**45 + 1, 3000, doubt=EXACT))


@pytest.mark.thorough
def test_exact_decisions_alone_give_the_law() -> None:
    draws = discrete_gaussian(source(13), 5, 20_000, doubt=EXACT)
    assert p_value(draws, gaussian_law(5, 40)) > ALPHA
    assert p_value(draws, gaussian_law(5 * 1.3**2, 40)) < ALPHA


@pytest.mark.parametrize("variance", [1, 2, 1000, 2**52 + 1, 2**80 + 12345, (2**46 - 1) ** 2])
def test_the_float64_probability_is_closer_than_the_margin_assumes(variance: int) -> None:
    scale = math.isqrt(variance) + 1
    generator = np.random.default_rng(variance % 2**32)
    remainder = generator.integers(0, scale, 400)
    magnitude = remainder + generator.integers(0, 5, 400) * scale
    found = np.exp(-sampling._exponent(remainder, magnitude, scale, variance))
    with mpmath.workdps(60):
        for probability, low, whole in zip(found, remainder.tolist(), magnitude.tolist(), strict=True):
            numerator, denominator = sampling._exact_exponent(low, whole, scale, variance)
            direct = mpmath.mpf(low) / scale + (whole - mpmath.mpf(variance) / scale) ** 2 / (2 * variance)
            assert abs(mpmath.mpf(numerator) / denominator - direct) < mpmath.mpf(10) ** -40
            assert abs(mpmath.exp(-direct) - mpmath.mpf(float(probability))) < 2.0**-46


@pytest.mark.parametrize("fraction", [(1, 10**30), (1, 3), (1, 1), (44, 1), (10**40 + 7, 10**39), (701, 1), (10**9, 1)])
@pytest.mark.parametrize("bits", [64, 128, 320])
def test_integer_bounds_enclose_exp(fraction: tuple[int, int], bits: int) -> None:
    low, high = sampling._bounds_of_exp(*fraction, bits)
    with mpmath.workdps(400):
        true = mpmath.exp(-mpmath.mpf(fraction[0]) / fraction[1]) * mpmath.mpf(2) ** bits
        assert low <= true <= high
    assert high - low <= 2


class Words:
    """Given words in order, then zeros; counts what was asked for."""

    def __init__(self, *values: int) -> None:
        self.values, self.taken = list(values), 0

    def words(self, count: int) -> np.ndarray:
        self.taken += count
        return np.array([self.values.pop(0) if self.values else 0 for _ in range(count)], dtype=np.uint64)


def test_a_borderline_coin_takes_more_bits_until_it_is_decided() -> None:
    with mpmath.workdps(100):
        threshold = int(mpmath.floor(mpmath.exp(-1) * mpmath.mpf(2) ** 192))
    first, second, third = threshold >> 128, (threshold >> 64) % 2**64, threshold % 2**64
    below, above = Words(second, third - 5), Words(second, third + 5)
    assert sampling.LazyUniform(first, below).below_exp(1, 1)
    assert not sampling.LazyUniform(first, above).below_exp(1, 1)
    assert below.taken == above.taken == 2
    assert sampling.LazyUniform(first - 1, Words()).below_exp(1, 1)
    assert not sampling.LazyUniform(first + 1, Words()).below_exp(1, 1)


def test_a_coin_of_probability_one_always_shows_heads() -> None:
    assert sampling.LazyUniform(2**64 - 1, Words()).below_exp(0, 7)


def test_the_whole_part_is_exact_at_its_thresholds_and_in_its_far_tail() -> None:
    with mpmath.workdps(60):
        thresholds = [int(mpmath.floor(mpmath.exp(-k) * 2**64)) for k in range(1, 6)]
    above, below = [value + 1 for value in thresholds], [value - 1 for value in thresholds]
    found = sampling._geometric(Words(), np.array([*above, *below, 2**64 - 1, 3], np.uint64), sampling.DOUBT)
    assert found.tolist() == [0, 1, 2, 3, 4, 1, 2, 3, 4, 5, 0, math.floor(-math.log(3 / 2**64))]
    # of a word of zeros only the bits that follow tell whether -log U is 44 or more
    assert sampling._geometric(Words(2**64 - 1), np.zeros(1, np.uint64), sampling.DOUBT).tolist() == [44]
    assert sampling._geometric(Words(2**62), np.zeros(1, np.uint64), sampling.DOUBT).tolist() == [45]


def test_remainders_of_the_incomplete_run_are_refused() -> None:
    bound = 3
    last = 2**63 // bound * bound
    words = np.array([0, last - 1, last, 2**63 - 1, 2**63 + 5], np.uint64)
    remainder, unbiased = sampling._uniform(words, bound)
    assert unbiased.tolist() == [True, True, False, False, True]
    assert remainder[[0, 1, 4]].tolist() == [0, 2, 2]


def test_a_refused_remainder_is_never_kept() -> None:
    kept = [sampling._accepted(Words(first, 2**64 - 1, 1), 3, None, 1, sampling.DOUBT).size for first in (4, 2**63 - 1)]
    assert kept == [1, 0]
    words = Words(2**63 - 1, *([2] * 27), *([0] * 28))
    assert exponential_choice(words, np.zeros(3, np.int64), numerator=1, denominator=1) == 2
    words = Words(*([2**63 - 1] * 28), *([0] * 28), *([5] * 28), *([0] * 28))
    assert exponential_choice(words, np.zeros(3, np.int64), numerator=1, denominator=1) == 2
    assert words.taken == 112


# --------------------------------------------------------------------------------------------------------- selection


def choices(key: int, scores: list[int], numerator: int, denominator: int, times: int, **options: float) -> np.ndarray:
    words = source(key)
    array = np.array(scores, np.int64)
    found = Counter(
        exponential_choice(words, array, numerator=numerator, denominator=denominator, **options) for _ in range(times)
    )
    return np.array([found[index] for index in range(len(scores))], float)


def exponential_law(scores: list[int], parameter: float) -> np.ndarray:
    weights = np.exp(parameter * (np.array(scores) - max(scores)))
    return weights / weights.sum()


@pytest.mark.parametrize(
    ("scores", "numerator", "denominator"),
    [([0, 1, 2, 3, 4], 1, 2), ([7, 7, 7], 5, 1), ([-(2**60), 2**60, 2**60 - 2**55], 3, 2**56), ([3], 1, 1)],
)
def test_selection_follows_the_exponential_law_and_no_other(
    scores: list[int], numerator: int, denominator: int
) -> None:
    seen = choices(21, scores, numerator, denominator, 8000)
    for factor in (1.0, 0.5, 2.0):
        law = exponential_law(scores, factor * numerator / denominator)
        kept = law * 8000 > 5
        assert seen[~kept].sum() < 60 or factor != 1.0
        if kept.sum() < 2:
            continue
        expected = law[kept] / law[kept].sum() * seen[kept].sum()
        accepted = stats.chisquare(seen[kept], expected).pvalue > ALPHA
        assert accepted == (factor == 1.0 or len(set(scores)) == 1)


def test_selection_is_not_permute_and_flip() -> None:
    scores = [0, 0, 0, 0, 0, 0, 6]
    seen = choices(22, scores, 1, 2, 8000)
    exponential = exponential_law(scores, 0.5)
    assert stats.binomtest(int(seen[-1]), 8000, exponential[-1]).pvalue > ALPHA
    # permute-and-flip gives the best candidate an average over its place in a random order instead
    flip = math.exp(-3)
    permuted = float(np.mean([(1 - flip) ** place for place in range(7)]))
    assert stats.binomtest(int(seen[-1]), 8000, permuted).pvalue < ALPHA


def test_selection_decides_exactly_as_float64_does() -> None:
    scores = [0, 5, 9, 10]
    np.testing.assert_array_equal(choices(23, scores, 1, 7, 300), choices(23, scores, 1, 7, 300, doubt=EXACT))


def test_every_candidate_can_be_chosen_when_all_are_equal_and_many() -> None:
    found = {exponential_choice(source(key), np.zeros(5000, np.int64), numerator=1, denominator=1) for key in range(40)}
    assert len(found) > 35
    assert max(found) > 2500


@pytest.mark.parametrize(
    ("scores", "numerator", "denominator", "words"),
    [
        (np.zeros(0, np.int64), 1, 1, "at least one score"),
        (np.zeros(3), 1, 1, "int64 array"),
        (np.zeros((2, 2), np.int64), 1, 1, "one-dimensional"),
        (np.array([2**62]), 1, 1, "coarser grid"),
        (np.array([-(2**62)]), 1, 1, "coarser grid"),
        (np.array([1]), 0, 1, "positive fraction"),
        (np.array([1]), 1, 0, "positive fraction"),
        (np.array([1]), 2**1000, 1, "between 2\\^-900 and 2\\^900"),
    ],
)
def test_a_selection_that_cannot_be_made_is_refused(
    scores: np.ndarray, numerator: int, denominator: int, words: str
) -> None:
    with pytest.raises(PrivacyError, match=words):
        exponential_choice(source(0), scores, numerator=numerator, denominator=denominator)


# ------------------------------------------------------------------------------------------------------------- keys


def test_two_sources_never_draw_the_same() -> None:
    one, two = SystemNoise(), SystemNoise()
    assert not np.array_equal(one.gaussian(2**60, 100), two.gaussian(2**60, 100))
    assert not np.array_equal(one.gaussian(2**60, 100), one.gaussian(2**60, 100))


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_draws_noise_of_its_own() -> None:
    noise = SystemNoise()
    noise.gaussian(2**60, 10)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - runs in the child
        os.write(write, noise.gaussian(2**60, 20).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = np.frombuffer(os.read(read, 160), np.int64)
    os.close(read)
    os.close(write)
    assert theirs.size == 20
    assert not np.isin(theirs, noise.gaussian(2**60, 20)).any()


@pytest.mark.parametrize("keep", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_source_cannot_be_kept_or_copied(keep: object) -> None:
    noise = SystemNoise()
    for secret in (noise, noise._stream):
        with pytest.raises(PrivacyError, match="cannot be copied, pickled"):
            keep(secret)


def test_no_key_can_be_given_or_seen() -> None:
    noise = SystemNoise()
    assert not inspect.signature(SystemNoise).parameters
    assert (repr(noise), repr(noise._stream)) == ("SystemNoise()", "CipherStream()")
    assert not hasattr(noise, "__dict__")
    assert not hasattr(noise._stream, "__dict__")
    assert {type(getattr(noise._stream, name)).__name__ for name in noise._stream.__slots__}.isdisjoint(
        {"bytes", "str"}
    )
    with pytest.raises(AttributeError):
        noise.key = b"0" * 32


def test_the_key_is_of_the_operating_system_and_drawn_for_each_source(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(os, "urandom", lambda size: asked.append(size) or bytes(size))
    SystemNoise()
    SystemNoise()
    assert asked == [32, 16, 32, 16]


# -------------------------------------------------------------------------------------------------------- for tests


def test_recorded_noise_repeats_and_writes_down_every_request() -> None:
    one, two, other = RecordedNoise(3), RecordedNoise(3), RecordedNoise(4)
    for noise in (one, two, other):
        noise.gaussian(2**60, 5)
        noise.laplace(8, 2)
        noise.choose(np.array([1, 2]), numerator=1, denominator=3)
    assert one.calls == two.calls
    assert one.calls == [
        NoiseCall("gaussian", 2**60, 5),
        NoiseCall("laplace", 8, 2),
        NoiseCall("choose", (1, 3), 2, (1, 2)),
    ]
    np.testing.assert_array_equal(one.gaussian(2**60, 5), two.gaussian(2**60, 5))
    assert not np.array_equal(one.gaussian(2**60, 5), other.gaussian(2**60, 5))
    assert "NOT PRIVATE" in repr(one)


def test_zero_noise_is_zero_and_chooses_the_best() -> None:
    noise = RecordedNoise(None)
    assert not noise.gaussian(10, 3).any()
    assert not noise.laplace(10, 3).any()
    assert noise.choose(np.array([1, 9, 9]), numerator=1, denominator=1) == 1


def test_system_noise_draws_from_each_law() -> None:
    noise = SystemNoise()
    assert p_value(noise.laplace(3, 50_000), laplace_law(3, 90)) > ALPHA
    assert p_value(noise.gaussian(9, 50_000), gaussian_law(9, 50)) > ALPHA
    assert noise.choose(np.array([0, 10**6]), numerator=1, denominator=1000) == 1


def test_only_system_noise_is_private() -> None:
    sources: list[NoiseSource] = [SystemNoise(), RecordedNoise()]
    assert [noise.private for noise in sources] == [True, False]


def test_the_product_never_imports_known_noise_and_no_setting_reaches_noise() -> None:
    for path in SYNTH.rglob("*.py"):
        text = path.read_text()
        if "recorded_noise" not in text and "RecordedNoise" not in text:
            continue
        names = {
            name
            for node in ast.walk(ast.parse(text))
            for name in (
                [alias.name for alias in node.names] + [getattr(node, "module", "") or ""]
                if isinstance(node, ast.Import | ast.ImportFrom)
                else []
            )
        }
        assert not any("recorded_noise" in name or "RecordedNoise" in name for name in names), path
    text = (SYNTH / "privacy" / "noise.py").read_text()
    assert "os.environ" not in text
    assert "getenv" not in text
    assert "synth.schema.config" not in text


# ------------------------------------------------------------------------------------------------ oracle and speed


@pytest.mark.parametrize("variance", [4, 900])
def test_opendp_draws_from_the_same_law(variance: int) -> None:
    dp = pytest.importorskip("opendp.prelude", reason="OpenDP is an optional oracle: pip install opendp")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    draw = dp.m.make_gaussian(*space, scale=math.sqrt(variance))
    theirs = np.array(draw([0] * 5000))
    ours = SystemNoise().gaussian(variance, 50_000)
    assert stats.ks_2samp(ours, theirs).pvalue > ALPHA
    assert p_value(theirs, gaussian_law(variance, 12 * math.isqrt(variance))) > ALPHA


def test_a_million_draws_take_less_than_half_a_second() -> None:
    noise = SystemNoise()
    require_within(0.5, lambda: noise.gaussian(2**60, 10**6))
