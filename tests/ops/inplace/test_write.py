"""Numbers that are written: as they are, not through the default dtype; NumPy's as Python's."""

import itertools
import operator

import numpy as np
import pytest
from against_torch import both

import autograd_gpu as ag

NUMBERS = [0.1, 1.7, -1, True, 2**62 + 1, 1e-4]


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int64", "uint8", "bool"])
def test_as_in_pytorch(dtype, number):
    if number == 2**62 + 1 and dtype not in ("int64", "float64"):
        number = 300

    def program(m):
        x = m.zeros(2, dtype=getattr(m, dtype)).copy_(number)
        return repr(x.tolist())

    both(program)


def test_recorded():
    def program(m):
        w = m.ones(2, dtype=m.float64, requires_grad=True)
        x = w * 1
        x.copy_(0.1)
        return repr(x.tolist()), m.autograd.grad(x.sum(), w)

    both(program)


@pytest.mark.cpu
def test_numpy_scalars_are_numbers():
    """Except for np.bool_, which PyTorch reads as a float: here it is a bool (declared)."""
    torch = pytest.importorskip("torch")
    scalars = [np.float64(1.5), np.float32(1.5), np.float16(1.5), np.int64(2), np.int32(2), np.uint8(2)]
    names = ("add_", "sub_", "mul_", "div_", "pow_", "fill_")
    calls = [lambda m, x, s, name=name: getattr(x, name)(s) for name in names]
    calls += [lambda m, x, s: operator.iadd(x, s), lambda m, x, s: operator.imul(x[:1], s),
              lambda m, x, s: x.add_(x.clone(), alpha=s), lambda m, x, s: m.full([2], s),
              lambda m, x, s: m.full_like(x, s), lambda m, x, s: m.logspace(0, s, 3)]  # fmt: skip
    for call, scalar, dtype in itertools.product(calls, scalars, ("float32", "int64", "uint8")):
        results = []
        for m in (torch, ag):
            try:
                y = call(m, m.ones(3, dtype=getattr(m, dtype)), scalar)
                results.append((y.tolist(), str(y.dtype).removeprefix("torch.")))
            except RuntimeError:
                results.append("refused")
        assert results[1] == results[0], (scalar, dtype)
    assert ag.full([2], np.bool_(True)).dtype == ag.bool
