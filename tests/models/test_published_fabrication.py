import pytest
import torch
from kahm_reference import TOLERANCE, blobs, furthest, tensor, vectors
from published_fabrication import (
    draw_noise,
    fabricate_as_published,
    fabricate_blocks_as_published,
    modelling_error,
    noise_of_uniforms,
)

from synth.errors import InputError
from synth.models.fabrication import fabrications

CASES = {case["name"]: case for case in vectors()["cases"]}
NOISE = vectors()["noise"]


def named(law):
    return f"{law['eps']:g}-{law['delta']:g}-{law['d']:g}"


def parameters(law):
    return {"epsilon": law["eps"], "delta": law["delta"], "change": law["d"]}


@pytest.mark.parametrize("law", NOISE, ids=named)
def test_reference_values_of_the_noise(law):
    uniforms, want = tensor(law["pairs"]).T
    assert furthest(noise_of_uniforms(uniforms, **parameters(law)), want) < 1e-8
    mirrored = noise_of_uniforms(1 - uniforms, **parameters(law))
    assert furthest(mirrored, -noise_of_uniforms(uniforms, **parameters(law))) < 1e-8


@pytest.mark.parametrize("law", NOISE, ids=named)
def test_the_noise_has_its_law(law):
    n = 200_000
    noise = draw_noise((n,), **parameters(law), generator=torch.Generator().manual_seed(7))
    spread = law["var"] ** 0.5 / n**0.5
    assert float(noise.mean()) == pytest.approx(0, abs=6 * spread)
    assert float(noise.abs().mean()) == pytest.approx(law["mean_abs"], abs=6 * spread)
    share, allowed = float((noise == 0).double().mean()), (law["delta"] * (1 - law["delta"]) / n) ** 0.5
    assert share == pytest.approx(law["delta"], abs=6 * allowed + 1e-12)
    # A scale that is off by 30 % is told apart.
    assert abs(1.3 * float(noise.abs().mean()) - law["mean_abs"]) > 6 * spread


def test_the_same_seed_draws_the_same_noise():
    law = {"epsilon": 1.0, "delta": 0.1}
    first = draw_noise((5, 2), **law, generator=torch.Generator().manual_seed(1))
    assert torch.equal(first, draw_noise((5, 2), **law, generator=torch.Generator().manual_seed(1)))
    assert not torch.equal(first, draw_noise((5, 2), **law, generator=torch.Generator().manual_seed(2)))


@pytest.mark.parametrize("name", sorted(CASES))
def test_reference_values_of_the_stopping_rule(name):
    case, want = CASES[name], CASES[name]["smoother"]
    rows = tensor(case["Y"])
    noise = noise_of_uniforms(tensor(want["uniforms"]), epsilon=want["eps"], delta=want["delta"], change=want["d"])
    noisy = rows + noise
    assert furthest(noisy, want["Y_plus"]) < TOLERANCE[torch.float64]
    error = modelling_error(rows, n=want["n"])
    assert error == pytest.approx(want["r"], abs=1e-8)
    made = fabricate_as_published(noisy, n=want["n"], error=error)
    assert made.steps == want["M_tilde"]
    assert made.reached
    assert made.errors == pytest.approx([step["err"] for step in want["steps"][: made.steps]], abs=1e-8)
    assert furthest(made.rows, want["steps"][made.steps - 1]["fabricated_if_stop_here"]) < 1e-8
    assert furthest(made.rows, next(fabrications([noisy], n=want["n"], steps=made.steps)).rows) < 1e-8


def test_a_goal_out_of_reach_ends_at_the_cap_and_says_so():
    made = fabricate_as_published(blobs(30, 4), n=3, error=0.0, most_steps=4)
    assert not made.reached
    assert made.steps == len(made.errors) == 4


def test_a_goal_that_is_met_at_once_takes_one_step():
    noisy = blobs(30, 4)
    made = fabricate_as_published(noisy, n=3, error=1e9)
    assert made.reached
    assert made.steps == 1
    assert furthest(made.rows, next(fabrications([noisy], n=3, steps=1)).rows) < 1e-12


def test_the_released_rows_depend_on_the_original_beyond_the_noisy_rows():
    """Why this is not private: the same noisy rows, another original, another release."""
    noisy = blobs(60, 4) + draw_noise((60, 4), epsilon=1.0, delta=0.0, generator=torch.Generator().manual_seed(0))
    steps = {fabricate_as_published(noisy, n=3, error=error).steps for error in (10.0, 3.0, 1.0)}
    assert len(steps) == 3


def test_blocks_hold_every_row_once():
    rows = blobs(90, 4)
    made = fabricate_blocks_as_published(
        rows, n=3, epsilon=8.0, delta=0.0, block=40, generator=torch.Generator().manual_seed(0)
    )
    assert sorted(row for numbers, _ in made for row in numbers.tolist()) == list(range(90))
    assert all(block.rows.shape == (len(numbers), 4) for numbers, block in made)
    assert all(block.reached for _, block in made)


@pytest.mark.parametrize(
    "arguments",
    [
        {"epsilon": 0.0, "delta": 0.1},
        {"epsilon": 1.0, "delta": 1.0},
        {"epsilon": 1.0, "delta": -0.1},
        {"epsilon": 1.0, "delta": 0.1, "change": 0.0},
    ],
    ids=["epsilon", "certain atom", "negative atom", "change"],
)
def test_parameters_out_of_range_are_refused(arguments):
    with pytest.raises(InputError):
        noise_of_uniforms(torch.tensor([0.5], dtype=torch.float64), **arguments)


def test_ends_of_the_unit_interval_are_refused():
    with pytest.raises(InputError, match="strictly between"):
        noise_of_uniforms(torch.tensor([0.0, 0.5]), epsilon=1.0, delta=0.0)
    with pytest.raises(InputError, match="most_steps"):
        fabricate_as_published(blobs(5, 2), n=2, error=1.0, most_steps=0)
