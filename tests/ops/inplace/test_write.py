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


# What is written, and `c`, which may copy the value first.
OVERLAPS = {
    "x[1:] = x[:-1]": lambda x, c: operator.setitem(x, slice(1, None), c(x[:-1])),
    "copy_": lambda x, c: x[1:].copy_(c(x[:-1])),
    "rows": lambda x, c: x.view(4, 3)[1:].copy_(c(x.view(4, 3)[:-1])),
    "reversed": lambda x, c: x.copy_(c(x.flip(0))),
    "columns": lambda x, c: x.view(3, 4)[:, 1:].copy_(c(x.view(3, 4)[:, :-1])),
    "x[indices] = x[1:4]": lambda x, c: operator.setitem(x, ag.tensor([2, 1, 0]), c(x[1:4])),
    "x[mask] = x[1:4]": lambda x, c: operator.setitem(x[:4], ag.tensor([True, False, True, True]), c(x[1:4])),
    "index_put_": lambda x, c: x.index_put_((ag.tensor([2, 1, 0]),), c(x[1:4])),
    "index_copy_": lambda x, c: x.index_copy_(0, ag.tensor([2, 1, 0]), c(x[1:4])),
    "index_add_": lambda x, c: x.index_add_(0, ag.tensor([2, 1, 0]), c(x[1:4])),
    "scatter_": lambda x, c: x.scatter_(0, ag.tensor([2, 1, 0]), c(x[1:4])),
    "masked_scatter_": lambda x, c: x[:4].masked_scatter_(ag.tensor([True, False, True, True]), c(x[1:4])),
    "other strides": lambda x, c: operator.setitem(x, slice(None, None, 2), c(x[:6])),
    "copy_ to other strides": lambda x, c: x[::2].copy_(c(x[:6])),
    "copy_ from other strides": lambda x, c: x[6:].copy_(c(x[::2])),
    "add_": lambda x, c: x[1:].add_(c(x[:-1]), alpha=2),
    "lerp_": lambda x, c: x[1:].lerp_(c(x[:-1]), 0.5),
    "itself": lambda x, c: operator.setitem(x, slice(1, None), c(x[1:])),
    "itself by indices": lambda x, c: operator.setitem(x, ag.arange(12).flip(0), c(x)),
}
UNRECORDED = {
    "foreach_copy_": lambda x, c: ag._foreach_copy_([x[1:]], [c(x[:-1])]),
    "out=": lambda x, c: ag.add(c(x[:-1]), 1, out=x[1:]),
    "out= of views": lambda x, c: ag.cat([c(x[:3]), c(x[3:6])], out=x[1:7]),
    "data": lambda x, c: x.data[1:].copy_(c(x.data[:-1])),
}


def written_over(write, copies, recorded):
    w = ag.ones(12, requires_grad=recorded)
    x = w * ag.arange(12.0)
    write(x, (lambda value: value.clone()) if copies else (lambda value: value))
    return x.tolist(), ag.autograd.grad((x * ag.arange(1.0, 13)).sum(), w)[0].tolist() if recorded else None


@pytest.mark.parametrize(("name", "recorded"), [*itertools.product(OVERLAPS, [False, True]),
                                                *itertools.product(UNRECORDED, [False])])  # fmt: skip
def test_values_that_overlap_what_is_written(device, name, recorded):
    """As if the value had been copied first; CuPy does so for ufuncs only."""
    write = (OVERLAPS | UNRECORDED)[name]
    assert written_over(write, False, recorded) == written_over(write, True, recorded)


@pytest.mark.emulated
def test_only_values_that_overlap_are_copied(device, launches):
    x = ag.arange(12.0)
    for write in (lambda: x[:6].copy_(x[6:]), lambda: operator.setitem(x, slice(6), x[6:])):
        with launches() as found:
            write()
        assert found.total == 1
    with launches() as found:
        x[1:] += 1
    assert found.kernels == {"add": 1}
