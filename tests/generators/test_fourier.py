import math

import numpy as np
import pytest
import torch
from gaussian_kernels import fourier_features, gaussian_kernel, product_gaussian_kernel
from hermite_reference import TOLERANCE, double, largest_difference, vectors

from synth.errors import InputError
from synth.generators.fourier.dp_merf import gaussian_frequencies


def test_features_of_given_frequencies():
    want = vectors()["rff"]
    got = fourier_features(double(want["X0"]), double(want["W"]))
    assert largest_difference(got, want["feature"]) < TOLERANCE
    assert float(torch.linalg.norm(got)) == pytest.approx(want["norm"], abs=TOLERANCE)


@pytest.mark.thorough
def test_figure_1_errors_of_fourier_features():
    figure = vectors()["fig1"]
    x, y = double(figure["x"]), double(figure["x_prime"])
    length_scale = math.sqrt(figure["sigma2"])
    exact = gaussian_kernel(x[:, None], y[None, :], length_scale=length_scale)
    for n_features, (mean, spread) in figure["rff_features_mean_std_over_100_draws_seed_RandomState_0_99"].items():
        errors = []
        for draw in range(100):
            # The reference drew its frequencies from numpy's legacy generator.
            normal = np.random.RandomState(draw).randn(int(n_features) // 2, 1)
            frequencies = torch.from_numpy(normal) / length_scale
            features = fourier_features(torch.cat([x, y])[:, None], frequencies)
            errors.append(float((features[:100] @ features[100:].T - exact).abs().mean()))
        assert np.mean(errors) == pytest.approx(mean, abs=TOLERANCE)
        assert np.std(errors) == pytest.approx(spread, abs=TOLERANCE)


def test_features_approach_the_kernel():
    rows = torch.rand(40, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    frequencies = gaussian_frequencies(5000, 3, length_scale=0.5, seed=1)
    features = fourier_features(rows, frequencies)
    error = features @ features.T - product_gaussian_kernel(rows, rows, length_scale=[0.5] * 3)
    assert float(error.mean().abs()) < 0.01  # close to unbiased
    assert float(error.abs().max()) < 0.1  # nothing too far off
    torch.testing.assert_close(features.square().sum(dim=1), torch.ones(40, dtype=torch.float64))


def test_frequencies_follow_the_public_seed_and_the_length_scale():
    first = gaussian_frequencies(4000, 2, length_scale=0.1, seed=7)
    assert torch.equal(first, gaussian_frequencies(4000, 2, length_scale=0.1, seed=7))
    assert not torch.equal(first, gaussian_frequencies(4000, 2, length_scale=0.1, seed=8))
    assert float(first.std()) == pytest.approx(10.0, rel=0.05)


def test_numbers_must_fit_the_frequencies():
    with pytest.raises(InputError, match="do not fit"):
        fourier_features(torch.zeros(4, 3), torch.zeros(5, 2))
