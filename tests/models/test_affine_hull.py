import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kahm_reference import DTYPES, TOLERANCE, SlowMachine, blobs, furthest, tensor, vectors

from synth.errors import InputError
from synth.models.affine_hull import AffineHull
from synth.models.kahm_classifier import matching_scores
from synth.models.ridge_search import _error_by_gram, _error_by_rows
from synth.models.whitening import encoded_kernel

FITS = [(case["name"], fit["n"]) for case in vectors()["cases"] for fit in case["fits"]]


def reference(name, n):
    case = next(case for case in vectors()["cases"] if case["name"] == name)
    return case["Y"], next(fit for fit in case["fits"] if fit["n"] == n)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("name", "n"), FITS)
def test_reference_values(name, n, dtype):
    rows, want = reference(name, n)
    hull, tolerance = AffineHull.fit(tensor(rows, dtype), n), TOLERANCE[dtype]
    assert hull.report.regulariser == pytest.approx(want["lam_star"], abs=tolerance)
    assert hull.report.excess == pytest.approx(want["e_hat"], abs=tolerance)
    assert furthest(hull.encoded.var(dim=0), np.ones(n)) < tolerance
    kernel = torch.exp(-torch.cdist(hull.encoded, hull.encoded).square() / (2 * n))
    assert furthest(kernel[0], want["K_row0"]) < tolerance
    assert furthest(1 - hull.ridge * hull.ones, want["h_sum_train"]) < tolerance
    assert furthest(hull.images_of_rows(), want["A_train"]) < tolerance
    assert furthest(hull.image(tensor(rows, dtype)), want["A_train"]) < tolerance
    points = tensor([point["y"] for point in want["points"]], dtype)
    assert furthest(hull.image(points), [point["A"] for point in want["points"]]) < tolerance
    assert furthest(hull.distance(points), [point["Gamma"] for point in want["points"]]) < tolerance
    error = float(hull.distance(tensor(rows, dtype)).sum())
    assert error == pytest.approx(want["model_error_r"], abs=len(rows) * tolerance)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("name", "n"), FITS)
def test_reference_values_of_the_parts(name, n, dtype):
    rows, want = reference(name, n)
    hull, tolerance = AffineHull.fit(tensor(rows, dtype), n), TOLERANCE[dtype]
    lengths = torch.linalg.vector_norm(hull.directions, dim=0)
    assert furthest(lengths**-2, want["eig_theta"]) < tolerance
    axes = (hull.directions / lengths).T
    signs = torch.sign((axes * tensor(want["P"])).sum(dim=1, keepdim=True))
    assert furthest(signs * axes, want["P"]) < tolerance
    kernel = encoded_kernel(hull.encoded[None], tensor([n]), torch.ones(1, len(rows), dtype=torch.bool))
    if want["K"] is not None:
        assert furthest(kernel[0], want["K"]) < tolerance
    assert float(torch.linalg.eigvalsh(kernel[0])[-1]) == pytest.approx(want["mu_max"], abs=tolerance)
    # Memberships h, by the encoding and lambda of the machine.
    points = (tensor([point["y"] for point in want["points"]]) - hull.centre) @ hull.directions
    near = torch.exp(-torch.cdist(points, hull.encoded).square() / (2 * n))
    weights = torch.linalg.solve(kernel[0] + hull.ridge * torch.eye(len(rows)), near.T).T
    assert furthest(weights, [point["h"] for point in want["points"]]) < tolerance
    assert furthest(weights.sum(dim=1), [point["h_sum"] for point in want["points"]]) < tolerance


@pytest.mark.parametrize(("name", "n"), FITS)
def test_reference_values_of_the_smoothing_error(name, n):
    rows, want = reference(name, n)
    table, encoded = tensor(rows)[None], AffineHull.fit(tensor(rows), n).encoded[None]
    kernel = encoded_kernel(encoded, tensor([n]), torch.ones(1, len(rows), dtype=torch.bool))
    entries, level = tensor([table.numel()]), float(table.square().mean())
    for error in (_error_by_rows(kernel, table, entries), _error_by_gram(kernel, table @ table.mT, entries)):
        for part, value in want["R_of_e"].items():
            excess = float(part) * level
            found, slope, _ = error(tensor([excess + 2 * level]))
            assert float(found) == pytest.approx(value, abs=1e-8)
            step = 1e-4 * level
            above, below = (float(error(tensor([excess + 2 * level + move]))[0]) for move in (step, -step))
            assert float(slope) == pytest.approx((above - below) / (2 * step), abs=1e-6)
            assert 0 < float(slope) < 1
        excess = level / 2
        for iterate in want["iterates_from_half"]:
            assert excess == pytest.approx(iterate, abs=1e-8)
            excess = float(error(tensor([excess + 2 * level]))[0])


@pytest.mark.parametrize(("name", "n"), FITS)
def test_the_regulariser_is_the_fixed_point_to_twelve_digits(name, n):
    rows, want = reference(name, n)
    report = AffineHull.fit(tensor(rows), n).report
    assert report.residual < 1e-12
    assert report.regulariser == pytest.approx(want["lam_star"], rel=1e-12)
    level = np.square(rows).mean()
    assert 0 < report.excess < level
    assert 2 * level < report.regulariser < 3 * level


@pytest.mark.parametrize(("n_rows", "n_columns"), [(40, 5), (30, 70), (20, 90), (25, 25)])
def test_every_route_gives_the_machine_of_the_definition(n_rows, n_columns):
    rows, points = blobs(n_rows, n_columns), blobs(7, n_columns, seed=1)
    hull, slow = AffineHull.fit(rows, 4), SlowMachine(rows, 4)
    assert hull.report.regulariser == pytest.approx(slow.regulariser, rel=1e-10)
    assert furthest(hull.image(points), slow.image(points)) < 1e-9
    assert furthest(hull.images_of_rows(), slow.image(rows)) < 1e-9


def test_a_warm_start_changes_nothing():
    rows = blobs(60, 90)
    cold = AffineHull.fit(rows, 5)
    warm = AffineHull.fit(rows, 5, start=1.3 * cold.report.excess)
    assert warm.report.regulariser == pytest.approx(cold.report.regulariser, rel=1e-12)
    assert furthest(warm.values, cold.values) < 1e-10


def test_order_of_rows_and_rotation_of_columns():
    rows, points = blobs(50, 8), blobs(9, 8, seed=1)
    hull = AffineHull.fit(rows, 5)
    order = torch.randperm(50, generator=torch.Generator().manual_seed(2))
    shuffled = AffineHull.fit(rows[order], 5)
    assert furthest(shuffled.image(points), hull.image(points)) < 1e-10
    assert furthest(shuffled.images_of_rows(), hull.images_of_rows()[order]) < 1e-10
    rotation, _ = torch.linalg.qr(torch.randn(8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(3)))
    turned = AffineHull.fit(rows @ rotation, 5)
    assert furthest(turned.image(points @ rotation), hull.image(points) @ rotation) < 1e-10


def test_images_lie_in_the_affine_hull():
    # Rows of a plane that does not hold the origin: weights that sum to 1 stay on it.
    rows = torch.cat([blobs(30, 4), torch.full((30, 1), 0.75, dtype=torch.float64)], dim=1)
    assert furthest(AffineHull.fit(rows, 3).image(blobs(9, 5, seed=4))[:, 4], [0.75] * 9) < 1e-12


def test_scale_and_shift_change_the_machine():
    rows, points = blobs(40, 6), blobs(5, 6, seed=1)
    hull = AffineHull.fit(rows, 4)
    assert furthest(AffineHull.fit(10 * rows, 4).image(10 * points) / 10, hull.image(points)) > 1e-3
    assert furthest(AffineHull.fit(rows + 10, 4).image(points + 10) - 10, hull.image(points)) > 1e-3
    # Small numbers are learned by heart, large ones are averaged over their neighbours.
    assert furthest(AffineHull.fit(1e-4 * rows, 4).images_of_rows() / 1e-4, rows) < 0.1
    assert AffineHull.fit(1e2 * rows, 4).report.regulariser > 1e3


# Degenerate rows


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_constant_columns(dtype):
    rows = torch.zeros(200, 784, dtype=dtype)
    rows[:, 300:340] = blobs(200, 40).to(dtype)
    rows[:, 700:] = 0.1
    hull = AffineHull.fit(rows, 20)
    assert hull.report.n_effective == 20
    images = hull.images_of_rows()
    assert furthest(images[:, :300], torch.zeros(200, 300)) == 0
    assert furthest(images[:, 700:], rows[:, 700:]) < TOLERANCE[dtype]


@pytest.mark.parametrize(
    ("n_rows", "n_columns", "n", "used"), [(30, 6, 50, 3), (30, 40, 50, 3), (3, 6, 20, 2), (2, 9, 20, 1)]
)
def test_no_more_dimensions_than_the_rank(n_rows, n_columns, n, used):
    mix = torch.randn(3, n_columns, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    rows = torch.rand(n_rows, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) @ mix
    hull = AffineHull.fit(rows, n)
    assert hull.report.n_effective == used
    assert torch.isfinite(hull.image(blobs(5, n_columns))).all()


def test_duplicated_rows():
    rows = blobs(12, 4).repeat(4, 1)
    hull = AffineHull.fit(rows, 3)
    assert furthest(hull.images_of_rows()[:12], hull.images_of_rows()[36:]) < 1e-12
    assert furthest(hull.image(rows[:12]), hull.images_of_rows()[:12]) < 1e-12


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("row", "n_rows"), [([0.0, 0.0], 5), ([0.1, 0.7], 5), ([0.1, 0.7], 3), ([0.1, 0.7], 1), ([0.0, 0.0], 1)]
)
def test_rows_that_are_all_equal_give_a_constant_map(row, n_rows, dtype):
    hull = AffineHull.fit(tensor([row] * n_rows, dtype), 20)
    assert hull.report.n_effective == 0
    points = tensor([[0.3, 0.4], [1e30, -5.0]], dtype)
    assert furthest(hull.image(points), [row] * 2) < 1e-6
    assert furthest(hull.images_of_rows(), [row] * n_rows) < 1e-6


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("away", [3.0, 20.0, 1e3, 1e10, 1e30])
def test_far_points_have_images(away, dtype):
    hull = AffineHull.fit(blobs(100, 2).to(dtype), 2)
    points = away * tensor([[1.0, 1.0], [-1.0, 0.5], [0.0, -1.0]], dtype)
    images = hull.image(points)
    assert torch.isfinite(images).all()
    assert torch.isfinite(hull.distance(points)).all()
    # Where the weights cancel a row stands in, so images never run away: at worst 1000 times the rows' own size.
    assert float(images.abs().max()) < 2e3


@pytest.mark.thorough
def test_many_points_no_points_and_points_that_float32_cannot_hold():
    hull = AffineHull.fit(blobs(2000, 4), 3)
    points = 3 * blobs(1500, 4, seed=1) - 1
    one_by_one = torch.cat([hull.image(point[None]) for point in points[::100]])
    assert furthest(hull.image(points)[::100], one_by_one) < 1e-10
    assert hull.image(points[:0]).shape == (0, 4)
    assert hull.distance(points[:0]).shape == (0,)
    with pytest.raises(InputError, match="not finite"):
        AffineHull.fit(blobs(9, 4).float(), 3).distance(points * 1e300)


def test_taking_out_the_largest_exponent_changes_nothing_where_the_plain_formula_works():
    rows, points = blobs(60, 3), 2 * blobs(20, 3, seed=1) - 0.5
    assert furthest(AffineHull.fit(rows, 3).image(points), SlowMachine(rows, 3).image(points)) < 1e-10


def test_the_counterexample_to_theorem_2():
    """Kumar 2024 claims that weights sum to a positive number and images are bounded (eq. 46, 148). They do not."""
    case = vectors()["counterexample_sum_h"]
    hull, slow = AffineHull.fit(tensor(case["Y"]), case["n"]), SlowMachine(case["Y"], case["n"])
    assert hull.report.regulariser == pytest.approx(case["lam_star"], rel=1e-9)
    negative, near_zero = slow.weights([case["y_negative"], case["y_near_zero"]])
    assert negative.sum() < 0
    assert negative.sum() / np.abs(negative).sum() == pytest.approx(case["rel"], rel=1e-4)
    assert np.linalg.norm(near_zero @ slow.rows / near_zero.sum()) > 1e5 > 1000 * case["bound46"]
    images, guarded = hull.images(tensor([case["y_negative"], case["y_near_zero"], case["Y"][0]]))
    assert guarded.tolist() == [True, True, False]
    rows = {tuple(row) for row in case["Y"]}
    assert {tuple(image) for image in images[:2].tolist()} <= rows


@pytest.mark.parametrize("scale", [1e-3, 1e-2, 1.0])
@pytest.mark.parametrize("n", [2, 3])
def test_the_guard_acts_exactly_where_the_weights_nearly_cancel(n, scale):
    rows = scale * torch.rand(40, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    hull, slow = AffineHull.fit(rows, n), SlowMachine(rows, n)
    spread = torch.randn(400, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(6))
    points = rows.mean(dim=0) + scale * spread
    weights = slow.weights(points)
    share = weights.sum(axis=1) / np.abs(weights).sum(axis=1)
    clear = np.abs(share - 1e-3) > 1e-5
    images, guarded = hull.images(points)
    guarded = guarded.numpy()
    assert (guarded == (share <= 1e-3))[clear].all()
    nearest = torch.from_numpy(slow.kernel_of(points[guarded].numpy() @ slow.encoder.T)).argmax(dim=1)
    assert torch.equal(images[guarded], rows[nearest])
    assert not guarded.all()
    if scale == 1e-3:
        assert guarded.any()


def test_float32_is_left_where_it_has_too_few_digits():
    small = 1e-4 * blobs(300, 10)
    hull = AffineHull.fit(small.float(), 6)
    assert hull.report.double_precision
    assert hull.report.regulariser == pytest.approx(AffineHull.fit(small.float().double(), 6).report.regulariser)
    assert not AffineHull.fit(blobs(300, 10).float(), 6).report.double_precision


def test_rows_of_one_hot_columns_say_how_little_they_are_smoothed():
    codes = torch.randint(0, 30, (400, 12), generator=torch.Generator().manual_seed(0))
    sparse = torch.nn.functional.one_hot(codes, 30).flatten(start_dim=1).double()
    report = AffineHull.fit(sparse, 20).report
    assert 2 / 30 < report.regulariser < 3 / 30
    assert report.condition == pytest.approx(1 + 400 / report.regulariser)


def test_rows_near_zero_do_not_stop_the_fit():
    hull = AffineHull.fit(1e-9 * blobs(400, 3), 2)
    assert hull.report.raised
    assert torch.isfinite(hull.images_of_rows()).all()
    assert hull.report.regulariser < 1e-15 < hull.ridge


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_any_rows_give_finite_images(data):
    n_rows = data.draw(st.integers(1, 9))
    n_columns = data.draw(st.integers(1, 5))
    entries = st.sampled_from([0.0, 0.1, 0.5, 1.0]) | st.floats(-1e6, 1e6)
    rows = data.draw(
        st.lists(st.lists(entries, min_size=n_columns, max_size=n_columns), min_size=n_rows, max_size=n_rows)
    )
    hull = AffineHull.fit(tensor(rows), data.draw(st.integers(1, 6)))
    assert torch.isfinite(hull.images_of_rows()).all()
    assert torch.isfinite(hull.image(tensor(rows))).all()
    assert math.isfinite(hull.report.regulariser)
    assert hull.report.n_effective <= min(n_rows - 1, n_columns)


@pytest.mark.parametrize(
    ("rows", "n", "words"),
    [
        (torch.zeros(0, 3), 2, "at least one row"),
        (torch.zeros(3, 0), 2, "at least one row"),
        (torch.zeros(3), 2, "at least one row"),
        (torch.full((3, 2), torch.nan), 2, "not finite"),
        (torch.eye(3), 0, "at least 1, got 0"),
        (torch.zeros(20_001, 1), 2, "at most 20000 rows"),
    ],
    ids=["no rows", "no columns", "a vector", "not a number", "no dimension", "too many rows"],
)
def test_what_cannot_be_a_machine_is_refused(rows, n, words):
    with pytest.raises(InputError, match=words):
        AffineHull.fit(rows, n)


@pytest.mark.parametrize(
    ("points", "words"),
    [
        (torch.zeros(2, 4), "with 3 columns"),
        (torch.zeros(3), "with 3 columns"),
        (torch.full((1, 3), torch.inf), "not finite"),
    ],
    ids=["columns", "a vector", "infinite"],
)
def test_points_that_do_not_fit_are_refused(points, words):
    with pytest.raises(InputError, match=words):
        AffineHull.fit(blobs(9, 3), 2).distance(points)


# Matching scores


def test_matching_scores():
    want = vectors()["match_score"]
    scores = matching_scores(tensor(want["Gamma"]))
    assert furthest(scores, want["ms"]) < 1e-12
    assert scores.argmax(dim=1).tolist() == want["argmin"]
    assert furthest(scores.prod(dim=1), [math.exp(-1)] * 2) < 1e-12


def test_matching_scores_at_the_ends():
    scores = matching_scores(tensor([[0.0, 0.0], [1e-300, 2e-300], [1e300, 2e300]]))
    assert torch.isfinite(scores).all()
    assert scores[0].tolist() == pytest.approx([math.exp(-0.5)] * 2)
    assert scores[1].tolist() == pytest.approx(scores[2].tolist())
    assert scores[:, 0].tolist()[:1] != [0.0]
