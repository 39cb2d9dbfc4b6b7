import pytest
import torch
from kahm_reference import DTYPES, TOLERANCE, blobs, furthest

from synth.errors import InputError
from synth.models import wide_hull
from synth.models.wide_hull import fit_hulls, fit_wide_hulls, k_means, partition_rows


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("n_columns", [3, 30, 90])
def test_padded_batches_equal_machines_fitted_one_by_one(monkeypatch, n_columns, dtype):
    sizes = [40, 1, 17, 40, 2, 33, 5]
    blocks = [blobs(size, n_columns, seed=size).to(dtype) for size in sizes]
    blocks[3] = torch.zeros(40, n_columns, dtype=dtype)
    blocks[5] = torch.full((33, n_columns), 0.1, dtype=dtype)
    points = 2 * blobs(30, n_columns, seed=99).to(dtype) - 0.5
    one_by_one = fit_hulls(blocks, n=6)
    monkeypatch.setattr(wide_hull, "batch_size", lambda device: 4)
    for alone, padded in zip(one_by_one, fit_hulls(blocks, n=6), strict=True):
        assert padded.report.n_effective == alone.report.n_effective
        assert padded.report.n_rows == alone.report.n_rows
        assert padded.report.double_precision == alone.report.double_precision
        tolerance = 1e-10 if dtype == torch.float64 else 1e-4
        assert padded.report.regulariser == pytest.approx(alone.report.regulariser, rel=tolerance)
        assert furthest(padded.image(points), alone.image(points)) < tolerance
        assert furthest(padded.images_of_rows(), alone.images_of_rows()) < tolerance


def test_blocks_that_cannot_share_a_batch_are_refused():
    with pytest.raises(InputError, match="same columns"):
        fit_hulls([blobs(5, 2), blobs(5, 3)], n=2)


@pytest.mark.parametrize("partition", ["k-means", "random"])
def test_a_wide_machine_answers_with_its_nearest_part(partition):
    rows, points = blobs(90, 5), blobs(20, 5, seed=1)
    (wide,) = fit_wide_hulls([rows], n=3, block=40, partition=partition, seed=2)
    assert len(wide.parts) == 3
    assert sorted(part.report.n_rows for part in wide.parts) == sorted(
        len(numbers) for numbers in partition_rows(rows, block=40, partition=partition, seed=2)
    )
    distances = torch.stack([part.distance(points) for part in wide.parts])
    assert furthest(wide.distance(points), distances.amin(dim=0)) == 0


def test_groups_fitted_together_are_those_fitted_alone(monkeypatch):
    groups = [blobs(70, 5), blobs(30, 5, seed=1), blobs(2, 5, seed=2)]
    points = blobs(9, 5, seed=3)
    each = [fit_wide_hulls([rows], n=4, block=25)[0] for rows in groups]
    monkeypatch.setattr(wide_hull, "batch_size", lambda device: 4)
    for alone, wide in zip(each, fit_wide_hulls(groups, n=4, block=25), strict=True):
        assert len(alone.parts) == len(wide.parts)
        assert furthest(wide.distance(points), alone.distance(points)) < 1e-10


@pytest.mark.parametrize("partition", ["k-means", "random"])
@pytest.mark.parametrize(("n_rows", "block", "blocks"), [(1, 10, 1), (10, 10, 1), (11, 10, 2), (95, 10, 10)])
def test_every_row_is_in_one_block(n_rows, block, blocks, partition):
    cut = partition_rows(blobs(n_rows, 3), block=block, partition=partition, seed=0)
    assert sorted(row for numbers in cut for row in numbers.tolist()) == list(range(n_rows))
    assert len(cut) == blocks or partition == "k-means"


def test_rows_that_are_all_alike_are_cut_all_the_same():
    cut = partition_rows(torch.full((100, 3), 0.5), block=10, partition="k-means", seed=0)
    assert max(map(len, cut)) <= 20


def test_k_means_finds_clusters_and_repeats_itself():
    centres = torch.tensor([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]], dtype=torch.float64)
    belongs = torch.arange(60) % 3
    noise = torch.randn(60, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rows = centres[belongs] + 0.3 * noise
    found = k_means(rows, 3, generator=torch.Generator().manual_seed(1))
    assert len({(int(a), int(b)) for a, b in zip(found, belongs, strict=True)}) == 3
    assert torch.equal(found, k_means(rows, 3, generator=torch.Generator().manual_seed(1)))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [({"block": 0}, "at least 1 row"), ({"partition": "halves"}, "'k-means' or 'random'")],
    ids=["block", "partition"],
)
def test_wide_machines_refuse_what_they_cannot_do(arguments, words):
    with pytest.raises(InputError, match=words):
        fit_wide_hulls([blobs(20, 3)], n=2, **arguments)
    with pytest.raises(InputError, match="clusters"):
        k_means(blobs(3, 2), 4, generator=torch.Generator())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_cuda_gives_the_machine_of_the_cpu(dtype):
    groups = [blobs(300, 60).to(dtype), blobs(120, 60, seed=1).to(dtype)]
    points = blobs(50, 60, seed=2).to(dtype)
    here = fit_wide_hulls(groups, n=8, block=100, partition="random")
    there = fit_wide_hulls(groups, n=8, block=100, partition="random", device="cuda")
    for one, other in zip(here, there, strict=True):
        assert furthest(other.distance(points).cpu(), one.distance(points)) < TOLERANCE[dtype]
