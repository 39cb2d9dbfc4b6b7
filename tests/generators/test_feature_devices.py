"""Every kernel gives the same numbers on a CUDA device as on the CPU."""

import pytest
import torch
from gaussian_kernels import (
    fourier_features,
    gaussian_kernel,
    mehler_kernel,
    product_gaussian_kernel,
    product_hermite_features,
    sum_gaussian_kernel,
    sum_hermite_features,
)

from synth.generators.fourier.dp_merf import gaussian_frequencies
from synth.generators.hermite.dp_hp import hermite_features, rho_of_length_scale

RHO = rho_of_length_scale(0.2)

KERNELS = {
    "hermite_features": lambda x: hermite_features(x, order=60, rho=RHO),
    "sum_hermite_features": lambda x: sum_hermite_features(x, order=60, rho=[RHO] * 3),
    "product_hermite_features": lambda x: product_hermite_features(x, order=6, rho=[RHO] * 3),
    "mehler_kernel": lambda x: mehler_kernel(x[:, None, 0], x[None, :, 1], rho=RHO),
    "gaussian_kernel": lambda x: gaussian_kernel(x[:, None, 0], x[None, :, 1], length_scale=0.2),
    "sum_gaussian_kernel": lambda x: sum_gaussian_kernel(x, x, length_scale=[0.2] * 3),
    "product_gaussian_kernel": lambda x: product_gaussian_kernel(x, x, length_scale=[0.2] * 3),
    "fourier_features": lambda x: fourier_features(x, gaussian_frequencies(200, 3, length_scale=0.2, seed=0).to(x)),
}


@pytest.mark.thorough
@pytest.mark.usefixtures("card")
@pytest.mark.parametrize("name", sorted(KERNELS))
def test_cuda_agrees_with_the_cpu_in_float32(name):
    x = 2 * torch.rand(256, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) - 1
    exact = KERNELS[name](x)
    on_device = KERNELS[name](x.float().to("cuda")).cpu().double()
    assert float(torch.linalg.norm(on_device - exact) / torch.linalg.norm(exact)) < 1e-4


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_every_kernel_keeps_the_precision_it_is_given(name):
    assert KERNELS[name](torch.zeros(4, 3)).dtype == torch.float32
    assert KERNELS[name](torch.zeros(4, 3, dtype=torch.float64)).dtype == torch.float64
