import pytest
import torch
from kahm_reference import DTYPES, TOLERANCE, blobs, furthest, tensor, vectors
from published_layers import DeepHull, narrowed
from sklearn.datasets import load_digits

from synth.errors import InputError
from synth.models.affine_hull import AffineHull

CASES = {case["name"]: case for case in vectors()["cases"]}


def deep(rows, n, depth):
    return DeepHull.of(AffineHull.fit(rows, n), depth=depth)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", sorted(CASES))
def test_reference_values_of_deep_machines(name, dtype):
    want, tolerance = CASES[name]["deep"], TOLERANCE[dtype]
    hull = deep(tensor(CASES[name]["Y"], dtype), want["n"], want["L"])
    points = tensor([point["y"] for point in want["points"]], dtype)
    reached = points
    for number in range(want["L"]):
        reached = hull.layer(number).image(reached)
        assert furthest(reached, [point["layer_outputs"][number] for point in want["points"]]) < tolerance
    images, distances = hull.image_and_distance(points)
    assert furthest(images, [point["D"] for point in want["points"]]) < tolerance
    assert furthest(distances, [point["Gamma"] for point in want["points"]]) < tolerance
    assert furthest(hull.distance(points), distances) == 0


def test_deep_machines_are_never_further_than_shallow_ones():
    rows, points = blobs(60, 6), 2 * blobs(50, 6, seed=1) - 0.5
    shallow, deeper = deep(rows, 5, 1), deep(rows, 5, 4)
    assert (deeper.distance(points) <= shallow.distance(points)).all()


def test_of_equally_near_layers_the_first_counts():
    left, right = (AffineHull.fit(tensor([[place, 0.5]] * 4), 2) for place in (-0.5, 0.5))
    both = DeepHull([left, right], 2)
    # By symmetry the first point is at exactly the same distance from both.
    points = tensor([[0.0, 0.5], [-0.1, 0.5], [0.1, 0.5]])
    assert both.image(points)[:, 0].tolist() == pytest.approx([-0.5, -0.5, 0.5])


def test_layers_are_built_when_they_are_used():
    hull = deep(blobs(40, 6), 4, 3)
    assert len(hull.layers) == 1
    hull.distance(blobs(3, 6))
    assert [layer.report.n_effective for layer in hull.layers] == [4, 3, 2]


def test_depth_stays_below_the_rank():
    assert deep(blobs(4, 6), 20, 9).depth == 3
    assert deep(blobs(1, 6), 20, 9).depth == 1
    with pytest.raises(InputError, match="depth"):
        deep(blobs(9, 3), 2, 0)


def test_fewer_coordinates_of_the_same_rows():
    rows, points = blobs(40, 7), blobs(5, 7, seed=1)
    fewer = narrowed(AffineHull.fit(rows, 6), 4)
    assert furthest(fewer.image(points), AffineHull.fit(rows, 4).image(points)) < 1e-10
    with pytest.raises(InputError, match="between 1 and 6"):
        narrowed(AffineHull.fit(rows, 6), 7)


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_depth_does_nothing_on_digits(noise):
    """Why the product has one layer."""
    images, labels = load_digits(return_X_y=True)
    rows = torch.from_numpy(images[labels == 3] / 16)
    rows = rows + noise * torch.randn(rows.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    points = torch.from_numpy(images[::3] / 16)
    assert furthest(deep(rows, 20, 3).distance(points), deep(rows, 20, 1).distance(points)) == 0
