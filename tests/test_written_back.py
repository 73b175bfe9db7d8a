"""Every method that writes a function of its tensor back into it, beside PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.ops.methods import WRITTEN_BACK

torch = pytest.importorskip("torch")

OTHER, WHOLE = np.array([0.7, 2.5, -1.5]), np.array([2, 1, 3])
PAIRED = """
    addcdiv addcmul arctan2 atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor clamp_max
    clamp_min copysign divide eq floor_divide fmod gcd ge greater greater_equal gt heaviside hypot igamma igammac lcm
    ldexp le less less_equal logical_and logical_or logical_xor lt multiply ne nextafter not_equal pow remainder
    subtract true_divide xlogy
"""
SQUARE = np.arange(9.0).reshape(3, 3)
ARGUMENTS = {  # those of the method; without an entry it takes none, and those of PAIRED take OTHER
    "addbmm": (np.stack([SQUARE] * 2), np.stack([SQUARE] * 2)),
    "addcdiv": (OTHER, OTHER + 3),
    "addcmul": (OTHER, OTHER + 3),
    "addmm": (SQUARE, SQUARE),
    "addmv": (SQUARE, OTHER),
    "addr": (OTHER, OTHER),
    "baddbmm": (np.stack([SQUARE] * 2), np.stack([SQUARE] * 2)),
    "clip": (0.3, 0.6),
    "cumprod": (0,),
    "cumsum": (0,),
    "index_add": (0, np.array([0, 0]), OTHER[:2]),
    "index_copy": (0, np.array([2, 0]), OTHER[:2]),
    "index_fill": (0, np.array([1]), 4.0),
    "index_put": ((np.array([1]),), OTHER[:1]),
    "index_reduce": (0, np.array([1, 1]), OTHER[:2], "prod"),
    "lerp": (OTHER, 0.3),
    "masked_fill": (OTHER > 1, 4.0),
    "masked_scatter": (OTHER > 1, OTHER),
    "mvlgamma": (1,),
    "polygamma": (0,),
    "put": (np.array([2]), OTHER[:1]),
    "renorm": (2, 0, 0.5),
    "scatter": (0, np.array([2]), OTHER[:1]),
    "scatter_add": (0, np.array([2, 2]), OTHER[:2]),
    "scatter_reduce": (0, np.array([2, 2]), OTHER[:2], "amax"),
}
SELF = {  # else three numbers between 0.2 and 0.8
    **dict.fromkeys(("addmm", "addbmm", "addr", "renorm", "tril", "triu"), SQUARE),
    "arccosh": OTHER + 3,
    "acosh": OTHER + 3,
    "baddbmm": np.stack([SQUARE] * 2),
}
INTEGERS = {"bitwise_not", "gcd", "lcm"} | {name for name in PAIRED.split() if name.startswith("bitwise")}
NAMES = sorted(name for names in WRITTEN_BACK.values() for name in names)


def made(value, module):
    if isinstance(value, tuple):
        return tuple(made(item, module) for item in value)
    return module.tensor(value) if isinstance(value, np.ndarray) else value


def case(name):
    """The tensor's values and the arguments."""
    if name in INTEGERS:
        return WHOLE + 4, () if name == "bitwise_not" else (WHOLE,)
    x = SELF.get(name, np.array([0.3, 0.5, 0.7]))
    return x, ARGUMENTS.get(name, (np.abs(OTHER),) if name in PAIRED.split() else ())


@pytest.mark.filterwarnings("ignore:index_reduce.. is in beta")
@pytest.mark.parametrize("name", NAMES)
def test_values(name, device):
    values, args = case(name)
    x, y = ag.tensor(values), torch.tensor(values)
    result = getattr(x, f"{name}_")(*made(args, ag))
    getattr(y, f"{name}_")(*made(args, torch))
    assert result is x
    assert x._version == 1
    assert str(x.dtype) == str(y.dtype).removeprefix("torch.")
    np.testing.assert_allclose(x.numpy(force=True), y.numpy(), rtol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_refused_where_it_would_be_recorded(name, device):
    values, args = case(name)
    if values.dtype == np.int64:
        pytest.skip("integers have no gradient")
    x = ag.tensor(values, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        getattr(x, f"{name}_")(*made(args, ag))


def test_a_result_that_does_not_fit(device):
    """Floats are not written into integers, nor a broadcast result into a smaller tensor."""
    for write in (lambda x: x.exp_(), lambda x: x.pow_(2.0), lambda x: x.true_divide_(2)):
        x = ag.tensor([1, 2])
        with pytest.raises(RuntimeError, match="result type float32 can't be cast to the desired output type int64"):
            write(x)
        assert x.tolist() == [1, 2]
    assert ag.ones(2).eq_(1).tolist() == [1.0, 1.0]
    assert ag.ones(2).lerp_(ag.zeros(2), 0.25).dtype == ag.float32
    with pytest.raises(RuntimeError, match=r"pow_: output with shape \[2, 1\] doesn't match the broadcast shape"):
        ag.ones(2, 1).pow_(ag.ones(2, 2))
