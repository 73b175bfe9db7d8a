"""Functions of one element take one launch on CUDA, and so do their derivatives."""

import numpy as np
import pytest
from formula_functors import CASES as FORMULAS
from formula_functors import WRITTEN, gradient_of

import autograd_gpu as ag

CASES = [*(case for case in FORMULAS if case[0] != "sine"), *WRITTEN, ("relu6", {})]
TYPED = [(case, dtype) for case in CASES for dtype in (ag.float32, ag.bfloat16)
         if dtype == ag.float32 or case[0] in ("mish", "nan_to_num")]  # each is a compilation
SMOOTH = ("mish", "gelu", "softplus", "hardswish", "nan_to_num", "relu6")


def pulls(case):
    return case[0] == "relu6" or gradient_of(case[0], **case[1]) is not None


def called(case, x):
    return getattr(ag.ops, case[0])(x, **case[1])


def leaf(device, dtype=ag.float32):
    return ag.tensor([[0.5, 1.5, 2.5]], dtype=dtype, device=device, requires_grad=True)


@pytest.mark.emulated
@pytest.mark.parametrize(("case", "dtype"), TYPED, ids=lambda of: of[0] if isinstance(of, tuple) else str(of))
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


@pytest.mark.emulated
def test_derivatives_of_every_order_are_one_launch(launches, device):
    """An order without an op of its own is one more instance, which is compiled when it is first asked for."""
    y = leaf(device)
    x, g = y, ag.ones_like(y)
    for order in range(4):
        with launches() as found:
            y = ag.nn.functional.mish(x) if order == 0 else ag.autograd.grad(y, x, g, create_graph=True)[0]
        names = [name for name in found.kernels if name.startswith("elementwise<Mish")]
        assert len(names) == 1, found.kernels


@pytest.mark.cuda
@pytest.mark.parametrize("case", [case for case in CASES if case[0] in SMOOTH], ids=lambda case: case[0])
def test_second_derivatives_are_those_of_the_cpu(device, case):
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
