"""Functions that are made of several ops against PyTorch: values, result dtypes, first and second gradients."""

from __future__ import annotations

import numpy as np
import pytest

import autograd_gpu as ag

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)
X, Y = RNG.uniform(0.3, 3.0, (2, 3)), RNG.normal(size=(2, 3))
HOLES = np.where(RNG.integers(0, 4, (4, 5)) == 0, np.nan, RNG.normal(size=(4, 5)))
WHOLE = RNG.integers(1, 5, (2, 3))


class Case:
    """name(*args, **kwargs) of ag and of torch; arrays become tensors, floating ones that require grad."""

    def __init__(self, name, *args, **kwargs):
        self.name, self.args, self.kwargs = name, args, kwargs

    def __repr__(self):
        shown = [f"{a.dtype}{list(a.shape)}" if isinstance(a, np.ndarray) else str(a) for a in self.args]
        return f"{self.name}({', '.join([*shown, *(f'{k}={v}' for k, v in self.kwargs.items())])})"

    def call(self, module, dtype="float64", requires_grad=False):
        """The floating tensors among the arguments, and the outputs as a list."""
        inputs = []

        def convert(value):
            if isinstance(value, (list, tuple)):
                return type(value)(map(convert, value))
            if not isinstance(value, np.ndarray):
                return value
            if value.dtype != np.float64:
                return module.tensor(value)
            inputs.append(module.tensor(value, dtype=getattr(module, dtype), requires_grad=requires_grad))
            return inputs[-1]

        function = module
        for part in self.name.split("."):
            function = getattr(function, part)
        args, kwargs = convert(self.args), {k: convert(v) for k, v in self.kwargs.items()}
        out = function(*args, **kwargs)
        return inputs, list(out) if isinstance(out, (list, tuple)) else [out]


ELEMENTWISE = [
    Case("ldexp", X, WHOLE), Case("ldexp", WHOLE, WHOLE), Case("float_power", X, 2), Case("float_power", 2.0, Y),
    Case("float_power", X, Y), Case("float_power", WHOLE, WHOLE), Case("div", X, Y), Case("div", WHOLE, WHOLE),
    Case("div", WHOLE, 2, rounding_mode="floor"), Case("div", -WHOLE, WHOLE, rounding_mode="trunc"),
    Case("divide", Y, X, rounding_mode="trunc"), Case("divide", Y, X, rounding_mode="floor"),
    Case("clip", Y, -0.5, 0.5), Case("clamp_min", Y, 0.1), Case("clamp_max", Y, X), Case("polygamma", 2, X),
    Case("mvlgamma", X + 2, 3),
    Case("special.multigammaln", WHOLE + 1, 2), Case("special.psi", X), Case("special.gammaln", X),
    Case("special.expit", Y), Case("special.softmax", Y, 1), Case("special.logsumexp", Y, 1), Case("fix", Y),
    Case("nanmean", HOLES), Case("nanmean", HOLES, 0), Case("nanmean", HOLES, (0, 1), True), Case("sgn", Y),
    Case("isclose", X, Y, equal_nan=True), Case("arctan2", Y, X), Case("subtract", Y, X, alpha=2),
    Case("greater_equal", Y, X),
]  # fmt: skip
VALUES = [Case("nanmean", np.full((2, 2), np.nan), 1)]  # the gradients of these differ
CASES = [*ELEMENTWISE]


def of_all(cases):
    return pytest.mark.parametrize("case", cases, ids=repr)


def assert_same(ours, theirs, tolerance, what):
    if ours is None or theirs is None:  # None stands for zeros
        for g in (ours, theirs):
            assert g is None or not np.any(np.nan_to_num(np.asarray(g.detach()))), f"{what}: not zero"
        return
    found, expected = ours.numpy(force=True), theirs.numpy(force=True)
    assert found.shape == expected.shape, f"{what}: {found.shape}, PyTorch {expected.shape}"
    np.testing.assert_allclose(found, expected, tolerance, tolerance, err_msg=what)


@of_all([*CASES, *VALUES])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_values_and_dtypes(case, dtype, device):
    try:
        _, theirs = case.call(torch, dtype)
    except (RuntimeError, TypeError) as error:  # NotImplementedError is a RuntimeError
        pytest.skip(f"PyTorch: {error}")
    _, ours = case.call(ag, dtype)
    assert len(ours) == len(theirs)
    tolerance = {"float64": 1e-10, "float32": 1e-5, "float16": 2e-2, "bfloat16": 0.1}[dtype]
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        assert str(a.dtype) == str(b.dtype).removeprefix("torch."), f"output {i}"
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
    outs, given = weights(outs, module.tensor)
    if not outs:
        return [], []
    first = module.autograd.grad(outs, inputs, given, create_graph=True, allow_unused=True)
    again, given = weights([g for g in first if g is not None], module.tensor)
    if not again:
        return first, [None] * len(inputs)
    return first, module.autograd.grad(again, inputs, given, allow_unused=True)


@of_all(CASES)
def test_gradients(case, device):
    try:
        theirs = both_orders(torch, case)
    except (RuntimeError, TypeError) as error:
        pytest.skip(f"PyTorch: {error}")
    ours = both_orders(ag, case)
    for order, found, expected in zip(("first", "second"), ours, theirs, strict=True):
        assert len(found) == len(expected)
        for i, (a, b) in enumerate(zip(found, expected, strict=True)):
            assert_same(a, b, 1e-9, f"{order} gradient {i}")


def test_truth_of_whole_tensors(device):
    a = ag.tensor([1.0, 2.0, float("nan")])
    assert ag.allclose(a, a + 1e-7, equal_nan=True) is True
    assert ag.allclose(a, a) is False
    assert a[:2].equal(ag.tensor([1, 2])) is True
    assert ag.equal(a, a) is False
    assert ag.equal(a, a[:2]) is False
    with pytest.raises(TypeError, match=r"equal\(\): argument 'b' must be Tensor, not float"):
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
