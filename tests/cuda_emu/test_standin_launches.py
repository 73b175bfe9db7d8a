"""The stand-in counts the kernels that CuPy would launch: no more for what is free there, no fewer for what is not."""

import numpy as np
import pytest

pytestmark = pytest.mark.emulated


class Arrays:
    """What the cases below work on."""

    def __init__(self, cp):
        self.x, self.y = cp.ones((4, 6), "float32"), cp.full((4, 6), 2, "float32")
        self.half, self.bfloat16 = self.x.astype("float16"), self.x.astype("bfloat16")
        self.numbers, self.mask = cp.arange(4), self.x > 0
        self.none = cp.ones((0, 6), "float32")
        self.scalar = cp.asarray(3.0)


FREE = [
    "cp.empty((3, 3))", "cp.empty_like(a.x)", "a.x.reshape(6, 4)", "a.x.T", "a.x[1:, 2]", "a.x[:, None].squeeze(1)",
    "cp.broadcast_to(a.x, (2, 4, 6))", "cp.asarray(a.x)", "cp.ascontiguousarray(a.x)",
    "a.x.astype('float32', copy=False)", "a.x.ravel()", "a.none + 1", "a.none.copy()", "a.none.fill(1)",
    "cp.moveaxis(a.x, 0, 1)", "cp.diagonal(a.x)",
    "cp.cuda.Device().synchronize()", "a.x.__setitem__(..., a.x)",
]  # fmt: skip

# Kernels by name, read off CuPy 14.2's source.
CASES = {
    "a.x + a.y": {"add": 1},
    "a.x * 2 + a.y": {"multiply": 1, "add": 1},
    "cp.add(a.x, a.y, out=a.x)": {"add": 1},
    "cp.add(a.x, a.x[:1], out=a.x)": {"add": 2},  # what overlaps the result is copied first
    "cp.exp(a.half)": {"exp": 1},
    "a.x.astype('float16')": {"copy": 1},
    "a.x.copy()": {"copy": 1},
    "cp.ascontiguousarray(a.x.T)": {"copy": 1},
    "a.x.T.reshape(-1)": {"reshape": 1},
    "a.x.T.ravel()": {"ravel": 1},
    "a.x.flatten()": {"flatten": 1},
    "cp.zeros((3, 3))": {"fill": 1},
    "cp.ones_like(a.x)": {"fill": 1},
    "a.x.fill(a.scalar)": {"fill": 2},  # compared with 0 first
    "cp.eye(3)": {"eye": 2},
    "cp.fill_diagonal(a.x, 3)": {"fill": 1, "fill_diagonal": 1},  # the number goes to the device first
    "cp.arange(5)": {"arange": 1},
    "a.x.__setitem__((slice(1), 0), 3.0)": {"fill": 1},
    "a.x.__setitem__(0, a.y[1])": {"assignment": 1},
    "cp.copyto(a.x, a.y)": {"copyto": 1},
    "a.x.sum()": {"sum": 1},
    "cp.sum(a.x, axis=-1)": {"sum": 1},
    "cp.sum(a.x, axis=1, out=a.x[:, 0])": {"sum": 2},  # CUB's result is copied
    "cp.sum(a.x, axis=0, out=a.x[0])": {"sum": 1},
    "a.bfloat16.sum(axis=1, out=a.bfloat16[:, 0])": {"sum": 1},
    "a.x.T.sum()": {"sum": 2},
    "a.x.max(axis=1, keepdims=True)": {"max": 1},
    "(a.x > 0).any()": {"greater": 1, "any": 1},
    "a.x.mean(axis=1)": {"mean": 2},  # CUB's sum, and a division
    "a.x.mean(axis=0)": {"mean": 1},
    "a.half.mean(axis=1)": {"mean": 2},  # in float32, then converted
    "a.x.var(axis=1)": {"var": 4},
    "a.x.argmax(axis=1)": {"argmax": 1},
    "a.x.argmax()": {"argmax": 2},
    "cp.where(a.mask, a.x, a.y)": {"where": 1},
    "cp.where(a.x, a.x, a.y)": {"copy": 1, "where": 1},
    "cp.clip(a.x, 0, 1)": {"clip": 1},
    "cp.concatenate([a.x, a.y, a.x])": {"concatenate": 3},
    "cp.stack([a.x] * 8)": {"stack": 8},
    "a.x[a.numbers]": {"indexing": 1},
    "a.x[a.numbers, a.numbers]": {"indexing": 4},
    "a.x.__setitem__(a.numbers, a.y)": {"assignment": 1},
    "cp.add.at(a.x, a.numbers, a.y)": {"add.at": 1},
    "cp.take(a.x, a.numbers, axis=0)": {"take": 1},
    "cp.take_along_axis(a.x, a.numbers[:, None], 1)": {"take_along_axis": 5},
    "cp.diff(a.x)": {"diff": 1},
    "a.x ** 2": {"square": 1},
}
# Kernels, after how many transfers. From nine arrays on one kernel reads their addresses, and sizes, from tables.
TRANSFERS = {
    "cp.asarray(np.ones(3))": ({}, 1), "a.x.get()": ({}, 1), "float(a.scalar)": ({}, 1),
    "a.x[::2, ::2].get()": ({"copy": 1}, 1), "a.x[[0, 1]]": ({"indexing": 1}, 1),
    "cp.stack([a.x] * 9)": ({"stack": 1}, 1), "cp.concatenate([a.x] * 9, 1)": ({"concatenate": 1}, 1),
    "cp.concatenate([a.x[i % 2 :] for i in range(9)])": ({"concatenate": 1}, 3),
    "cp.stack([a.x.T] * 9)": ({"stack": 1}, 3), "cp.vstack([a.x[0]] * 9)": ({"vstack": 1}, 1),
    "cp.hstack([a.x[0]] * 9)": ({"hstack": 1}, 1), "cp.concatenate([a.x[0]] * 9, None)": ({"concatenate": 1}, 1),
}  # fmt: skip


def found_in(cp, launches, expression):
    arrays = Arrays(cp)
    with launches() as found:
        eval(expression, {"cp": cp, "np": np, "a": arrays})
    return found


@pytest.mark.parametrize("expression", FREE)
def test_launches_nothing(cp, launches, expression):
    found = found_in(cp, launches, expression)
    assert (found.total, found.transfers) == (0, 0)


@pytest.mark.parametrize("expression", CASES)
def test_kernels(cp, launches, schedule, expression):
    found = found_in(cp, launches, expression)
    assert found.kernels == CASES[expression]
    assert found.total == sum(CASES[expression].values())
    assert found.transfers == 0


@pytest.mark.parametrize("expression", TRANSFERS)
def test_transfers(cp, launches, expression):
    found = found_in(cp, launches, expression)
    assert (found.kernels, found.transfers) == TRANSFERS[expression]


def test_products_are_counted_apart(cp, launches):
    from autograd_gpu.backend.cuda import cublas

    a, b = cp.ones((2, 3, 4), "float32"), cp.ones((2, 5, 4), "float32")
    with launches() as found:
        cublas.matmul(a[0], b[0].T)
        cublas.matmul(a, b.swapaxes(1, 2))
    assert (found.products, found.kernels, found.total) == (2, {}, 2)
    with launches() as found:
        cublas.matmul(a[0, :, ::2], b[0, :, ::2].T)
    assert (found.products, found.kernels) == (1, {"copy": 2})


def test_our_kernels_are_counted_by_name(cp, launches):
    from autograd_gpu.backend import kernels

    x = cp.ones((3, 5), "float32")
    with launches() as found:
        kernels.column_sum(x)
    assert found.kernels == {"column_sum<float, float, 1>": 1}


def test_what_nobody_has_looked_up_has_no_total(cp, launches):
    with launches() as found:
        cp.sort(cp.arange(3)[::-1])
    assert found.guessed == {"sort"}
    with pytest.raises(LookupError, match=r"for sort is not known: .*_rules.py"):
        _ = found.total


def test_graph_counts_when_it_is_launched(cp, launches):
    x, stream = cp.ones(3), cp.cuda.Stream(non_blocking=True)
    cp.cuda.Device().synchronize()
    with launches() as found:
        with stream:
            stream.begin_capture()
            cp.add(x, 1, out=x)
            graph = stream.end_capture()
        assert found.total == 0
        graph.launch(stream)
        assert found.total == 1
    stream.synchronize()


def test_blocks_nest_and_nothing_is_counted_outside(cp, launches):
    x = cp.ones(3)
    with launches() as outer:
        x + 1
        with launches() as inner:
            x * 2
    x - 1
    assert (outer.kernels, inner.kernels) == ({"add": 1, "multiply": 1}, {"multiply": 1})
