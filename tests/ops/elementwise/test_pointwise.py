"""Functions of one element take one launch on CUDA, and so do their derivatives."""

import numpy as np
import pytest
from activation_cases import POINTWISE

import autograd_gpu as ag
from autograd_gpu.backend.kernels.pointwise import WITHOUT_PULL, choose

CASES = [*POINTWISE, ("relu6", {})]
IDS = [name for name, _ in CASES]
DTYPES = ag.float32, ag.bfloat16


def pulls(case):
    return case[0] == "relu6" or choose(case[0], **case[1])[0] not in WITHOUT_PULL


def called(case, x):
    return getattr(ag.ops, case[0])(x, **case[1])


def leaf(device, dtype=ag.float32):
    return ag.tensor([[0.5, 1.5, 2.5]], dtype=dtype, device=device, requires_grad=True)


@pytest.mark.emulated
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_one_launch(launches, device, case, dtype):
    x = leaf(device, dtype)
    with launches() as forward:
        out = called(case, x)
    assert forward.total == 1, forward.kernels
    g = ag.ones_like(out)
    with launches() as backward:
        ag.autograd.grad(out, x, g)
    assert backward.total == 1 or not pulls(case), backward.kernels


@pytest.mark.emulated
def test_halves_of_glu_are_operands_of_one_kernel(launches, device):
    x = ag.ones(4, 3, device=device)
    with launches() as found:
        ag.nn.functional.glu(x, 0)
    assert found.total == 1, found.kernels


@pytest.mark.cuda
@pytest.mark.parametrize("case", [case for case in CASES if pulls(case)], ids=[c[0] for c in CASES if pulls(c)])
def test_second_derivatives_are_those_of_the_cpu(device, case):
    """They come from the rules, also where the first derivative was a kernel."""
    found = []
    for place in (device, "cpu"):
        x = leaf(place, ag.float64)
        (dx,) = ag.autograd.grad(called(case, x).sum(), x, create_graph=True)
        (ddx,) = ag.autograd.grad((dx * dx).sum() + (x * x).sum(), x)
        found.append([dx.detach().cpu().numpy(), ddx.cpu().numpy()])
    for actual, expected in zip(*found, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.cuda
def test_integers_stay_integers(device):
    x = ag.tensor([-3, 0, 3], device=device)
    assert ag.nn.functional.hardtanh(x).tolist() == [-1, 0, 1]
    assert ag.nn.functional.threshold(x, 0, 7).tolist() == [7, 7, 3]
    assert ag.nan_to_num(x).tolist() == [-3, 0, 3]


@pytest.mark.cuda
def test_wrong_limits_are_errors(device):
    x = ag.ones(2, device=device)
    with pytest.raises(ValueError, match="min_val cannot be greater than max_val"):
        ag.nn.functional.hardtanh(x, 2.0, 1.0)
    with pytest.raises(RuntimeError, match="lambda must be greater or equal to 0, but found to be -1"):
        ag.nn.functional.softshrink(x, -1.0)
