"""Functions that are made of several ops against PyTorch: values, result dtypes, first and second gradients."""

from __future__ import annotations

import numpy as np
import pytest
from composite_cases import CASES, COUNTS, VALUES

import autograd_gpu as ag

torch = pytest.importorskip("torch")


def of_all(cases):
    return pytest.mark.parametrize("case", cases, ids=repr)


def assert_same(ours, theirs, tolerance, what):
    if ours is None or theirs is None:  # None stands for zeros
        for g in (ours, theirs):
            assert g is None or not np.any(np.nan_to_num(np.asarray(g.detach()))), f"{what}: not zero"
        return
    result, expected = ours.numpy(force=True), theirs.numpy(force=True)
    assert result.shape == expected.shape, f"{what}: {result.shape}, PyTorch {expected.shape}"
    np.testing.assert_allclose(result, expected, tolerance, tolerance, err_msg=what)


@of_all([*CASES, *COUNTS, *VALUES])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_values_and_dtypes(case, dtype, device):
    try:
        _, theirs = case.call(torch, dtype)
    except (RuntimeError, TypeError) as error:  # NotImplementedError is a RuntimeError
        pytest.skip(f"PyTorch: {error}")
    _, ours = case.call(ag, dtype)
    assert len(ours) == len(theirs)
    tolerances = {"float64": 1e-10, "float32": 1e-5, "float16": 2e-2, "bfloat16": 0.1}
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        assert str(a.dtype) == str(b.dtype).removeprefix("torch."), f"output {i}"
        tolerance = tolerances.get(str(a.dtype), 0)
        assert_same(a.float() if dtype == "bfloat16" else a, b.float() if dtype == "bfloat16" else b, tolerance, f"{i}")


def weights(outs, make):
    """A cotangent per output that has a gradient, the same for both sides."""
    rng = np.random.default_rng(1)
    drawn = [np.asarray(rng.uniform(0.5, 1.5, tuple(out.shape))) for out in outs]
    kept = [(out, make(w)) for out, w in zip(outs, drawn, strict=True) if out.requires_grad]
    return [out for out, _ in kept], [w for _, w in kept]


def both_orders(module, case):
    """The first gradients, and those of a weighted sum of them; [] for each where there is none."""
    inputs, outs = case.call(module, requires_grad=True)
    outs, cotangents = weights(outs, module.tensor)
    if not outs:
        return [], []
    first = module.autograd.grad(outs, inputs, cotangents, create_graph=True, allow_unused=True)
    again, cotangents = weights([g for g in first if g is not None], module.tensor)
    if not again:
        return first, [None] * len(inputs)
    return first, module.autograd.grad(again, inputs, cotangents, allow_unused=True)


@of_all(CASES)
def test_gradients(case, device):
    try:
        theirs = both_orders(torch, case)
    except (RuntimeError, TypeError) as error:
        pytest.skip(f"PyTorch: {error}")
    ours = both_orders(ag, case)
    for order, actual, expected in zip(("first", "second"), ours, theirs, strict=True):
        assert len(actual) == len(expected)
        for i, (a, b) in enumerate(zip(actual, expected, strict=True)):
            assert_same(a, b, 1e-9, f"{order} gradient {i}")


def test_lerp_starts_from_the_nearer_end(device):
    far, near = ag.tensor([1e8, -float("inf")]), ag.tensor([1.0, 0.0])
    assert ag.lerp(far[0], near[0], 1.0).item() == ag.lerp(far[0], near[0], 1).item() == 1.0
    for weight in (0.9, ag.tensor(0.9), ag.tensor([1.0, 0.9])):
        assert ag.lerp(far, near, weight)[1].item() == -float("inf")
    assert ag.lerp(far, near, ag.tensor([1.0, 0.9]))[0].item() == 1.0
    for function in (ag.quantile, ag.nanquantile):
        assert function(ag.tensor([0.0, -float("inf"), 1.0]), 0.45).item() == -float("inf")


def test_truth_of_whole_tensors(device):
    a = ag.tensor([1.0, 2.0, float("nan")])
    assert ag.allclose(a, a + 1e-7, equal_nan=True) is True
    assert ag.allclose(a, a) is False
    assert a[:2].equal(ag.tensor([1, 2])) is True
    assert ag.equal(a, a) is False
    assert ag.equal(a, a[:2]) is False
    with pytest.raises(TypeError, match=r"equal\(\): argument 'other' must be Tensor, not float"):
        ag.equal(a, 1.0)


def test_rounding_mode_must_be_known(device):
    with pytest.raises(RuntimeError, match="expected rounding_mode to be one of None, 'trunc', or 'floor' but found"):
        ag.div(ag.ones(2), 2, rounding_mode="ceil")


def test_special_has_the_names_of_torch(device):
    """Those with a derivative there, and what is left of the others is the Bessel functions and polynomials."""
    theirs = {name for name in dir(torch.special) if not name.startswith("_")}
    missing = theirs - set(ag.special.__all__) - {"Tensor", "common_args", "multi_dim_common", "torch", "annotations"}
    assert {n for n in missing if not any(part in n for part in ("bessel", "polynomial", "airy"))} == set()
    assert not set(ag.special.__all__) - theirs


BAD = [
    ("trace", (ag.ones(2),), {}, RuntimeError, "expected a matrix, but got tensor with dim 1"),
    ("diff", (ag.ones(()),), {}, RuntimeError, "at least one-dimensional"),
    ("diff", (ag.ones(2), -1), {}, RuntimeError, "order must be non-negative"),
    ("gradient", (ag.ones(1),), {}, RuntimeError, r"expected each dimension size to be at least edge_order\+1"),
    ("gradient", (ag.ones(2),), {"edge_order": 3}, RuntimeError, "only supports edge_order"),
    ("gradient", (ag.ones(2, 2),), {"spacing": [1.0]}, RuntimeError, "length equal to 'dim'"),
    ("trapezoid", (ag.ones(3), ag.ones(3)), {"dx": 1.0}, TypeError, "not both"),
    ("trapezoid", (ag.ones(3, 2), ag.ones(3)), {}, RuntimeError, "one `x` value for each sample point"),
    ("cdist", (ag.ones(3), ag.ones(3, 2)), {}, RuntimeError, "at least 2D tensors, X1 got: 1D"),
    ("cdist", (ag.ones(3, 1), ag.ones(3, 2)), {}, RuntimeError, "same number of columns. X1: 1 X2: 2"),
    ("cdist", (ag.ones(3, 1), ag.ones(3, 1), -1), {}, RuntimeError, "non-negative p"),
    ("cdist", (ag.ones(3, 1), ag.ones(3, 1)), {"compute_mode": "mm"}, ValueError, "mm is not a valid value"),
    ("pdist", (ag.ones(3),), {}, RuntimeError, "only supports 2D tensors, got: 1D"),
    ("renorm", (ag.ones(3), 2, 0, 1.0), {}, RuntimeError, "at least 2 dimensions, got 1"),
    ("renorm", (ag.ones(3, 2), 0, 0, 1.0), {}, RuntimeError, "non-positive norm"),
    ("renorm", (ag.ones(3, 2), 1, 0, -1.0), {}, RuntimeError, "maxnorm to be >= 0"),
    ("cov", (ag.ones(2, 2, 2),), {}, RuntimeError, "two or fewer dimensions"),
    ("cov", (ag.ones(2, 2),), {"fweights": ag.ones(2)}, RuntimeError, "fweights to have integral dtype"),
    ("cov", (ag.ones(2, 2),), {"aweights": ag.ones(3)}, RuntimeError, "same numel as there are observations"),
    ("cov", (ag.ones(2, 2),), {"aweights": -ag.ones(2)}, RuntimeError, "aweights cannot be negative"),
    ("corrcoef", (ag.ones(2, 2, 2),), {}, RuntimeError, "two or fewer dimensions"),
    ("nanmean", (ag.arange(3),), {}, RuntimeError, "expected input to have floating point dtype but got int64"),
    ("quantile", (ag.ones(3), 1.5), {}, RuntimeError, r"q must be in the range \[0, 1\] but got 1.5"),
    ("quantile", (ag.ones(3), ag.ones(1, 1)), {}, RuntimeError, "q must be a scalar or 1D tensor"),
    ("quantile", (ag.ones(3), ag.ones(1).double()), {}, RuntimeError, "same dtype as the input"),
    ("quantile", (ag.ones(0), 0.5), {}, RuntimeError, "must be non-empty"),
    ("quantile", (ag.arange(3), 0.5), {}, RuntimeError, "either float or double"),
    ("nanquantile", (ag.ones(3), 0.5), {"interpolation": "cubic"}, RuntimeError, "must be one of linear, lower"),
    ("aminmax", (ag.ones(0),), {}, RuntimeError, "over an empty dimension as the operation has no identity"),
    ("searchsorted", (ag.ones(3), 1.0), {"side": "up"}, RuntimeError, "can only be 'left' or 'right' but got up"),
    ("searchsorted", (ag.ones(3), 1.0), {"side": "left", "right": True}, RuntimeError, "set to opposites"),
    ("searchsorted", (ag.ones(2, 3), ag.ones(3, 3)), {}, RuntimeError, "first N-1 dimensions"),
    ("searchsorted", (ag.ones(()), 1.0), {}, RuntimeError, "should have positive dimension"),
    ("searchsorted", (ag.ones(2), 1.0), {"sorter": ag.arange(3)}, RuntimeError, "boundary and sorter"),
    ("bucketize", (1.0, ag.ones(2, 2)), {}, RuntimeError, r"must be 1 dimension, but got dim\(2\)"),
    ("histogram", (ag.arange(3), 2), {}, RuntimeError, "not implemented for int64"),
    ("histogram", (ag.ones(3), 0), {}, RuntimeError, "bins must be > 0"),
    ("histogram", (ag.ones(3), ag.ones(2, 2)), {}, RuntimeError, "one dimension"),
    ("histogram", (ag.ones(3), ag.ones(2).double()), {}, RuntimeError, "must have one dtype"),
    ("histogram", (ag.ones(3), 2), {"weight": ag.ones(2)}, RuntimeError, "same shape and dtype"),
    ("mvlgamma", (ag.ones(3), 0), {}, RuntimeError, "p has to be greater than or equal to 1"),
    ("positive", (ag.tensor([True]),), {}, RuntimeError, "on a bool tensor is not supported"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args", "kwargs", "exception", "match"), BAD, ids=lambda value: str(value)[:30])
def test_errors(name, args, kwargs, exception, match, device):
    with pytest.raises(exception, match=match):
        getattr(ag, name)(*args, **kwargs)


@pytest.mark.cpu
def test_asarray_shares_or_copies():
    array = np.ones(2)
    assert ag.asarray(array, copy=False).array is array
    assert not np.shares_memory(ag.asarray(array, copy=True).array, array)
    assert ag.asarray([1.0], requires_grad=True).requires_grad
    with pytest.raises(ValueError, match="sharing memory with the given data is impossible"):
        ag.asarray([1.0], copy=False)


def test_coordinates(device):
    numbers = ag.tensor([[5, 1], [0, 3]], device=device)
    assert [t.tolist() for t in ag.unravel_index(numbers, (2, 3))] == [[[1, 0], [0, 1]], [[2, 1], [0, 0]]]
    assert ag.unravel_index(ag.tensor(4, device=device), 6)[0].item() == 4
    with pytest.raises(TypeError, match="expects indices of integers"):
        ag.unravel_index(ag.ones(1, device=device), (2,))
    with pytest.raises(ValueError, match="cannot have negative values"):
        ag.unravel_index(numbers, (2, -3))


def test_small_names(device):
    x = ag.tensor([1.0, 2.0], device=device, requires_grad=True)
    assert ag.rsub(x, x, alpha=3).tolist() == [-2.0, -4.0]
    assert reversed(x).tolist() == [2.0, 1.0]
    assert x.conj() is x
    assert not x.is_sparse
    assert not ag.detach(x).requires_grad


@pytest.mark.cpu
def test_quantiles_out_of_range():
    """On CUDA nobody looks at the values, as in PyTorch."""
    with pytest.raises(RuntimeError, match="q values must be in the range"):
        ag.quantile(ag.ones(3), ag.ones(1) * 2)
