r"""What runs of sampled steps cost, beside other accountants; and which part of delta such a run should add.

    python benchmarks/sampled_runs.py beside
    PYTHONPATH=FOLDER python benchmarks/sampled_runs.py references tests/references/sampled_runs.json
    python benchmarks/sampled_runs.py parts

``beside`` compares epsilon with the accountant of privacy loss distributions of dp_accounting. ``references`` writes
what the tests compare with: values of dp_accounting, of Opacus (``pip install --no-deps --target FOLDER opacus``), and
deltas of a single step in 40-digit arithmetic. ``parts`` shows how much more noise a run and all other answers need as
the run adds more or less of delta. No table is read.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import warnings
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mpmath
from dp_accounting.pld import privacy_loss_distribution

from synth.privacy.accounting import PrivacyBudget, units_left_beside
from synth.privacy.costs import mu_squared_of
from synth.privacy.more.sampled_runs import SampledRun, epsilon_of_sampled_run, noise_multiplier_of
from synth.schema import Neighbours

RUNS: tuple[tuple[float, float, int, float], ...] = (
    (0.01, 1.0, 1, 1e-6),
    (0.01, 1.0, 1000, 1e-6),
    (0.01, 1.1, 10_000, 1e-5),
    (0.01, 0.6, 100, 1e-7),
    (0.001, 0.6, 20_000, 1e-6),
    (0.001, 0.8, 5000, 1e-5),
    (0.0005, 0.5, 20_000, 1e-5),
    (0.0001, 0.7, 20_000, 1e-8),
    (0.004, 1.0, 15_000, 1e-5),
    (0.02, 0.7, 500, 1e-5),
    (0.02, 1.5, 5000, 1e-10),
    (0.05, 2.0, 2000, 1e-6),
    (0.05, 0.9, 300, 1e-3),
    (0.1, 1.0, 50, 1e-5),
    (0.1, 4.0, 3000, 1e-6),
    (0.2, 5.0, 300, 1e-9),
    (0.3, 2.0, 20, 1e-5),
    (0.5, 1.0, 2, 1e-6),
    (0.5, 3.0, 100, 1e-6),
    (0.7, 8.0, 200, 1e-7),
    (0.9, 3.0, 10, 1e-5),
    (0.999, 4.0, 5, 1e-6),
    (1.0, 1.0, 1, 1e-5),
    (1.0, 20.0, 100, 1e-6),
    (1.0, 50.0, 3000, 1e-9),
    (0.01, 0.4, 500, 1e-6),
    (0.01, 10.0, 20_000, 1e-6),
    (0.003, 0.5, 2, 1e-5),
    (0.25, 0.5, 5, 1e-4),
    (0.002, 2.0, 20_000, 1e-5),
)
"""Rate, noise multiplier, steps and delta: from one step to 20,000, from one unit in 10,000 to all."""

STEPS: tuple[tuple[float, float], ...] = ((0.01, 1.0), (0.001, 0.5), (0.2, 0.8), (0.5, 3.0), (0.9, 1.0), (0.05, 20.0))
"""Rate and noise multiplier of single steps."""

EPSILONS = (-2.0, -0.3, -0.01, 0.0, 0.003, 0.05, 0.3, 1.0, 3.0, 8.0)
PARTS = tuple(2.0**-k for k in (10, 8, 6, 5, 4, 3, 2, 1))
BUDGETS = ((0.5, 1e-6), (1.0, 1e-6), (3.0, 1e-5), (10.0, 1e-5), (1.0, 1e-9))


def of_dp_accounting(rate: float, multiplier: float, steps: int, delta: float, *, pessimistic: bool) -> float:
    """Return epsilon by dp_accounting on a grid that is fine beside the loss."""
    typical = rate * math.sqrt(steps * math.expm1(multiplier**-2))
    one = privacy_loss_distribution.from_gaussian_mechanism(
        multiplier,
        sampling_prob=rate,
        pessimistic_estimate=pessimistic,
        value_discretization_interval=max(min(1e-4, typical / 1e4), 2e-6),
    )
    return float(one.self_compose(steps).get_epsilon_for_delta(delta))


def of_opacus(rate: float, multiplier: float, steps: int, delta: float) -> float | None:
    """Return epsilon by the accountant of Opacus; None where it gives up."""
    from opacus.accountants import PRVAccountant

    accountant = PRVAccountant()
    accountant.history = [(multiplier, rate, steps)]
    try:
        return float(accountant.get_epsilon(delta, eps_error=1e-3))
    except (RuntimeError, ValueError, MemoryError, IndexError, AssertionError):
        return None


def delta_of_step(rate: float, multiplier: float, epsilon: float, *, removed: bool) -> mpmath.mpf:
    """Return the delta of one step in 40-digit arithmetic, for a unit that is removed or added."""
    q, z, e = mpmath.mpf(rate), mpmath.mpf(multiplier), mpmath.exp(mpmath.mpf(epsilon))

    def above(place: mpmath.mpf, centre: int) -> mpmath.mpf:
        return mpmath.ncdf((centre - place) / z)

    # With and without the unit the densities differ by the factor 1 - q + q exp((2 x - 1) / (2 z^2)), which grows.
    factor = e if removed else 1 / e
    if factor <= 1 - q:
        return 1 - e if removed else mpmath.mpf(0)
    place = z**2 * mpmath.log((factor - 1 + q) / q) + mpmath.mpf(1) / 2
    if removed:
        return (1 - q) * above(place, 0) + q * above(place, 1) - e * above(place, 0)
    none, one = 1 - above(place, 0), 1 - above(place, 1)
    return none - e * ((1 - q) * none + q * one)


def references() -> dict[str, Any]:
    """Return what the tests compare with, and where it comes from."""
    mpmath.mp.dps = 40
    runs = []
    for rate, multiplier, steps, delta in RUNS:
        of_pld = [of_dp_accounting(rate, multiplier, steps, delta, pessimistic=one) for one in (False, True)]
        of_prv = of_opacus(rate, multiplier, steps, delta)
        runs.append(
            {"rate": rate, "noise_multiplier": multiplier, "steps": steps, "delta": delta}
            | {"optimistic": of_pld[0], "pessimistic": of_pld[1], "opacus": of_prv}
        )
        print(runs[-1], flush=True)
    single = [
        {"rate": rate, "noise_multiplier": multiplier, "removed": removed, "epsilon": epsilon}
        | {"delta": mpmath.nstr(delta_of_step(rate, multiplier, epsilon, removed=removed), 20)}
        for (rate, multiplier), removed, epsilon in itertools.product(STEPS, (True, False), EPSILONS)
    ]
    origin = {
        "runs": f"epsilon by privacy loss distributions of dp_accounting {version('dp-accounting')}, rounded down and "
        f"up, and by PRVAccountant of opacus {version('opacus')} with eps_error 0.001 (null where it fails)",
        "single": "delta of one step from both normal distribution functions in 40-digit arithmetic (mpmath "
        f"{version('mpmath')}), 20 digits kept",
        "command": "benchmarks/sampled_runs.py references",
    }
    return {"origin": origin, "runs": runs, "single": single}


def as_text(found: dict[str, Any]) -> str:
    """Return JSON with one line for each entry."""
    lists = ",\n".join(
        f' "{name}": [\n' + ",\n".join(f"  {json.dumps(one)}" for one in found[name]) + "\n ]"
        for name in ("runs", "single")
    )
    return '{\n "origin": ' + json.dumps(found["origin"], indent=1).replace("\n", "\n ") + ",\n" + lists + "\n}\n"


def beside() -> Iterator[str]:
    """Yield our epsilon beside that of dp_accounting."""
    yield "| rate | noise multiplier | steps | delta | epsilon | dp_accounting | ratio |"
    yield "|---|---|---|---|---|---|---|"
    for rate, multiplier, steps, delta in RUNS:
        ours = epsilon_of_sampled_run(SampledRun(rate, steps, multiplier), delta)
        theirs = of_dp_accounting(rate, multiplier, steps, delta, pessimistic=True)
        yield f"| {rate:g} | {multiplier:g} | {steps:,} | {delta:g} | {ours:.5f} | {theirs:.5f} | {ours / theirs:.5f} |"


def parts() -> Iterator[str]:
    """Yield how much more noise a run needs than with the best part of delta, and all other answers than without it."""
    yield "| part of delta | noise of the run: rate .1 and .01 | rate .001 | noise of other answers |"
    yield "|---|---|---|---|"
    more: dict[tuple[float, bool], list[float]] = {}
    others: dict[float, list[float]] = {}
    for rate, steps, (epsilon, delta), share in itertools.product(
        (0.001, 0.01, 0.1), (1000, 5000), BUDGETS, (0.3, 0.9)
    ):
        budget = PrivacyBudget(epsilon, delta, Neighbours.ADD_REMOVE)
        left = {part: units_left_beside(budget, part * delta) for part in PARTS}
        noise = {
            part: noise_multiplier_of(
                rate, steps, mu_squared=mu_squared_of(int(units * share)), additive_delta=part * delta
            )
            for part, units in left.items()
        }
        for part, units in left.items():
            more.setdefault((part, rate < 0.01), []).append(noise[part] / min(noise.values()))
            others.setdefault(part, []).append(math.sqrt(budget.units / units))
    for part in PARTS:
        often, rarely = more[part, False], more[part, True]
        shown = (f"up to {100 * (max(one) - 1):.2f} % more" for one in (often, rarely, others[part]))
        yield f"| 1/{1 / part:g} | {' | '.join(shown)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("beside")
    commands.add_parser("parts")
    commands.add_parser("references").add_argument("file", type=Path)
    asked = parser.parse_args()
    if asked.command == "references":
        warnings.simplefilter("ignore")
        asked.file.write_text(as_text(references()), encoding="utf-8")
        return
    for line in beside() if asked.command == "beside" else parts():
        print(line, flush=True)


if __name__ == "__main__":
    main()
