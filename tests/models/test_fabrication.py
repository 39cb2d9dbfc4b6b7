import pytest
import torch
from kahm_reference import DTYPES, TOLERANCE, blobs, furthest, tensor, vectors

from synth.errors import InputError
from synth.models.affine_hull import AffineHull
from synth.models.fabrication import _smoothed, fabrications, in_blocks

CASES = {case["name"]: case["smoother"] for case in vectors()["cases"]}
STEPS = [(name, step["M"]) for name, case in CASES.items() for step in case["steps"]]


def fabrication(noisy, *, n, steps=2):
    (made,) = fabrications([noisy], n=n, steps=steps)
    return made


def fabricate(noisy, *, n, steps=2):
    return fabrication(noisy, n=n, steps=steps).rows


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("name", "m"), STEPS)
def test_reference_values_of_the_smoother(name, m, dtype):
    case = CASES[name]
    want, noisy = case["steps"][m - 1], tensor(case["Y_plus"], dtype)
    smoothed = _smoothed([noisy], n=case["n"], times=m)[0][0]
    hull = AffineHull.fit(smoothed, case["n"])
    assert hull.report.regulariser == pytest.approx(want["lam"], abs=TOLERANCE[dtype])
    assert float(hull.distance(smoothed).sum()) == pytest.approx(want["err"], abs=len(noisy) * TOLERANCE[dtype])
    if want["Yhat_M_minus_1"] is not None:
        assert furthest(smoothed, want["Yhat_M_minus_1"]) < TOLERANCE[dtype]
        assert furthest(fabricate(noisy, n=case["n"], steps=m), want["fabricated_if_stop_here"]) < TOLERANCE[dtype]


def test_one_step_smooths_nothing():
    noisy = blobs(30, 5) + torch.randn(30, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert torch.equal(_smoothed([noisy], n=3, times=1)[0][0], noisy)
    assert furthest(fabricate(noisy, n=3, steps=1), AffineHull.fit(noisy, 3).images_of_rows()) < 1e-12


def test_fabricated_rows_are_nearer_to_what_was_hidden():
    rows = blobs(400, 30)
    noisy = rows + torch.randn(400, 30, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    made = fabrication(noisy, n=10, steps=2)
    assert made.rows.shape == noisy.shape
    assert len(made.regularisers) == 2
    assert made.n_effective == 10
    assert made.guarded == 0
    assert float((made.rows - rows).square().mean()) < 0.3 * float((noisy - rows).square().mean())


@pytest.mark.parametrize("n_rows", [1, 2, 5])
def test_few_rows(n_rows):
    noisy = torch.randn(n_rows, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    made = fabricate(noisy, n=20)
    assert made.shape == noisy.shape
    assert torch.isfinite(made).all()


def test_equal_rows_shrink_only_in_smoothing_steps():
    rows = torch.full((6, 3), 0.5, dtype=torch.float64)
    assert furthest(fabricate(rows, n=2, steps=1), rows) < 1e-12
    made = fabrication(rows, n=2, steps=2)
    assert furthest(made.rows, rows * 6 / (6 + made.regularisers[0])) < 1e-12
    assert furthest(fabricate(0 * rows, n=2), 0 * rows) == 0


def test_no_steps_are_refused():
    with pytest.raises(InputError, match="at least 1, got 0"):
        fabricate(blobs(5, 2), n=2, steps=0)


@pytest.mark.parametrize(
    ("n_rows", "block", "sizes"), [(0, 10, []), (7, 10, [7]), (21, 10, [7, 7, 7]), (10, 3, [3, 3, 2, 2])]
)
def test_blocks_hold_every_row_once(n_rows, block, sizes):
    blocks = in_blocks(n_rows, block=block, generator=torch.Generator().manual_seed(0))
    assert [len(rows) for rows in blocks] == sizes
    assert sorted(row for rows in blocks for row in rows.tolist()) == list(range(n_rows))


def test_blocks_are_random_and_the_same_for_a_seed():
    def cut(seed):
        blocks = in_blocks(100, block=40, generator=torch.Generator().manual_seed(seed))
        return [rows.tolist() for rows in blocks]

    assert cut(1) == cut(1)
    assert cut(1) != cut(2)
    assert cut(1)[0] != list(range(34))


def test_blocks_of_nothing_are_refused():
    with pytest.raises(InputError, match="block at least 1"):
        in_blocks(10, block=0, generator=torch.Generator())
