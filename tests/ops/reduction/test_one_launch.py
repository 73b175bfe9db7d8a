"""Statistics of few numbers each take one launch on CUDA, and long rows give the same results."""

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.backend import kernels

LONG = kernels.LONGEST_ROW
CALLS = {
    "mean": lambda x: ag.mean(x),
    "mean of rows": lambda x: ag.mean(x, -1, True),
    "norm": lambda x: ag.linalg.norm(x),
    "vector_norm": lambda x: ag.linalg.vector_norm(x, dim=(1, 2)),
    "matrix_norm": lambda x: ag.linalg.matrix_norm(x),
    "nansum": lambda x: ag.nansum(x, -1),
    "argmax": lambda x: ag.argmax(x),
    "argmin": lambda x: ag.argmin(x, keepdim=True),
    "var": lambda x: ag.var(x),
    "std of rows": lambda x: ag.std(x, -1),
    "var_mean": lambda x: ag.var_mean(x, correction=0),
    "std_mean": lambda x: ag.std_mean(x, (-1, -2), keepdim=True),
}


@pytest.mark.emulated
@pytest.mark.parametrize("dtype", [ag.float32, ag.float16, ag.bfloat16], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_one_launch(launches, device, name, dtype):
    x = ag.tensor(np.random.randn(2, 3, 5), dtype=dtype, device=device)
    with launches() as found:
        CALLS[name](x)
    assert found.total == 1, found.kernels


@pytest.mark.emulated
def test_other_dimensions_take_a_copy(launches, device):
    x = ag.tensor(np.random.randn(2, 3, 5), device=device)
    with launches() as found:
        ag.var(x, 0)
    assert found.total == 2, found.kernels


@pytest.mark.cuda
@pytest.mark.parametrize("dim", [0, 1, -1, (0, 2), (2, 1), None], ids=str)
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("shape", [(3, 4, 5), (3, 2, LONG // 2 + 1)], ids=str)
def test_dimensions(device, shape, keepdim, dim):
    """Also of rows that are longer than one launch takes."""
    x = np.random.randn(*shape)
    there, here = ag.tensor(x, device=device), ag.tensor(x, device="cpu")
    for function in (ag.var, ag.std, ag.var_mean, ag.std_mean, ag.mean, ag.nansum, ag.linalg.vector_norm):
        found, expected = [function(place, dim=dim, keepdim=keepdim) for place in (there, here)]
        for a, b in zip(*[v if isinstance(v, tuple) else (v,) for v in (found, expected)], strict=True):
            np.testing.assert_allclose(a.cpu().numpy(), b.numpy(), rtol=1e-12, atol=1e-12, strict=True)


@pytest.mark.cuda
def test_longer_rows_are_refused_by_the_kernel(device):
    x = ag.zeros(1, LONG + 1, device=device).detach()
    with pytest.raises(ValueError, match="row_mean: rows have at most 4096 elements, not 4097; sum them by row_sum"):
        kernels.row_statistic("mean", x.array, (1,))
