"""Groups on CUDA, with sums and maxima at their end: shapes, layouts, broadcasts, special values against eager code."""

import numpy as np
import pytest
from compiled_groups import groups_of
from formula_bits import SPECIAL
from hypothesis import given, settings
from hypothesis import strategies as st

import autograd_gpu as ag
from autograd_gpu.backend.kernels import GroupKernel, SummingKernel

pytestmark = pytest.mark.cuda
LAYOUTS = {
    "dense": lambda x: x.clone(), "strided": lambda x: x.repeat_interleave(2, -1)[..., ::2],
    "transposed": lambda x: x.mT.contiguous().mT, "expanded": lambda x: x[..., :1].expand(x.shape),
}  # fmt: skip
FUNCTIONS = {
    "arithmetic": lambda x, y: ((x * y + 1) * x.abs(), (x - y) * 0.5),
    "choices": lambda x, y: ag.where(x > y, x * 2, y - 1).maximum(x * y),
    "sum of columns": lambda x, y: ((x * y + 1).sum(0), x * y),
    "sums of columns": lambda x, y: ((x * y + 1).sum(0), (x - y).square().sum(0)),
    "sum of rows": lambda x, y: ((x * y + 1).sum(-1), x * y),
    "mean": lambda x, y: (((x - y) ** 2).mean(), x - y),
    "maxima of columns": lambda x, y: ((x * y + 1).amax(0), (x - y).square().amax(0)),
    "minima of rows": lambda x, y: ((x * y + 1).amin(-1), x * y),
    "maximum": lambda x, y: ((x * y - 1).amax(), x - y),
}  # fmt: skip
NUMBERS = [s for s in SPECIAL if s == 0 or not abs(s) < 1e-30]  # CUDA flushes subnormal numbers
COMPILED = {name: ag.compile(f, fullgraph=True) for name, f in FUNCTIONS.items()}


def compared(made, expected):
    """Values to a few units in the last place of what is summed; NaN, infinities and the sign of zeros."""
    several = isinstance(made, tuple)
    for one, other in zip(made if several else [made], expected if several else [expected], strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        a, b = (t.cpu().double().numpy() for t in (one, other))
        np.testing.assert_allclose(a, b, 2e-5, 2e-5 * max(np.abs(b[np.isfinite(b)]).max(initial=1), 1))
        zero = (a == 0) & (b == 0)
        if one.ndim:
            np.testing.assert_array_equal(np.signbit(a[zero]), np.signbit(b[zero]))


@pytest.mark.more
@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.sampled_from([*FUNCTIONS]), st.sampled_from([(0, 4), (3, 0), (1, 1), (3, 5), (16, 8), (33, 12), (1100, 4)]),
    st.lists(st.sampled_from([*LAYOUTS]), min_size=2, max_size=2), st.sampled_from(["same", "number", "row", "column"]),
    st.integers(0, 99), st.booleans(),
)  # fmt: skip
def test_groups_against_eager_code(name, shape, layouts, other, seed, special):
    random = np.random.default_rng(seed)
    second = {"same": shape, "number": (), "row": shape[-1:], "column": (*shape[:-1], 1)}[other]
    tensors = []
    for size, layout in zip((shape, second), layouts, strict=True):
        array = np.asarray(random.normal(size=size)).astype("f4")
        if name.startswith(("max", "min")) and not np.prod(shape):
            return  # the maximum of no elements is an error
        if special and array.size:
            array.reshape(-1)[random.integers(0, array.size)] = random.choice(NUMBERS)
        x = ag.tensor(array, device="cuda")
        tensors.append(LAYOUTS[layout](x) if x.ndim == 2 and x.numel() else x)
    compiled = COMPILED[name]
    with np.errstate(all="ignore"):
        expected = FUNCTIONS[name](*tensors)
        for _ in range(3):
            made = compiled(*tensors)
        compared(made, expected)


def sums_in(compiled):
    codes = [group.code for group in groups_of(compiled)]
    return [code.functor.sums for code in codes if isinstance(code, (GroupKernel, SummingKernel))]


@pytest.mark.parametrize(("f", "shape", "sums", "launched"), [
    (FUNCTIONS["sum of columns"], (37, 24), [1], {"group": 1}),
    (FUNCTIONS["sums of columns"], (37, 24), [2], {"group": 1}),
    (lambda x, y: (x * y + 1).sum(0), (2100, 8), [1], {"group": 1, "column_sum": 1}),  # in parts
    (FUNCTIONS["mean"], (37, 24), [1], {"group": 1}),
    (lambda x, y: (x * y + 1).sum(), (40,), [1], {"group": 1}),
    (lambda x, y: (x * y + 1).sum(1), (37, 24), [1], {"group": 1}),
    (lambda x, y: (x * y + 1).mean(-1, keepdim=True), (3, 5, 24), [1], {"group": 1}),
    (lambda x, y: (x * y + 1).sum(0), (3, 5, 24), [0], {"group": 1}),  # of no matrix
    (lambda x, y: ((x * y + 1).sum(0), (x * y + 2).mean()), (37, 24), [1], {"group": 1}),  # one kind, the other apart
    (lambda x, y: tuple((x * y + k).sum(0) for k in range(3)), (37, 24), [0], {"group": 1}),  # there is no room for
    (lambda x, y: (x * y + 1).mean(), (400, 50), [0], {"group": 1}),  # too many elements for one block
    (FUNCTIONS["maxima of columns"], (37, 24), [2], {"group": 1}),
    (FUNCTIONS["minima of rows"], (37, 24), [1], {"group": 1}),
    (FUNCTIONS["maximum"], (37, 24), [1], {"group": 1}),
    (lambda x, y: (x * y + 1).amax((0, 1), keepdim=True), (37, 24), [1], {"group": 1}),
    (lambda x, y: (x * y + 1).amax(0), (2100, 8), [0], {"group": 1}),  # would take parts
    (lambda x, y: ((x * y + 1).amax(0), (x * y + 2).amin(0)), (37, 24), [1], {"group": 1}),  # one kind
], ids=["column", "columns", "parts", "mean", "total", "rows", "means of rows", "matrices", "two kinds", "three",
        "many", "maxima", "minima", "maximum", "kept dimensions", "maxima in parts", "maxima and minima"])  # fmt: skip
def test_which_sums_join_a_group(f, shape, sums, launched):
    x, y = (ag.tensor(np.random.default_rng(k).normal(size=shape).astype("f4"), device="cuda") for k in (1, 2))
    compiled = ag.compile(f, fullgraph=True)
    for _ in range(3):
        compared(compiled(x, y), f(x, y))
    assert sums_in(compiled) == sums
    with ag.profiler.count() as counted:
        compiled(x, y)
    assert {name: counted.launches.get(name) for name in launched} == launched


@pytest.mark.emulated
@pytest.mark.parametrize(("name", "eager"), [("maxima of columns", 6), ("minima of rows", 4), ("maximum", 4)])
def test_maxima_take_no_launch_of_their_own(name, eager):
    """As CuPy's stand-in counts launches, those of CuPy's reductions among them."""
    from cupy._emulation import counted

    x, y = (ag.ones(37, 24, device="cuda") + k for k in (1, 2))
    for f, launches in ((FUNCTIONS[name], eager), (ag.compile(FUNCTIONS[name], fullgraph=True), 1)):
        for _ in range(3):
            f(x, y)
        with counted() as asked:
            f(x, y)
        assert asked.total == launches


def test_ties_and_nan_share_the_gradient_as_in_eager_code():
    """Of maxima in a group, whose gradient compares them with what the group has written."""

    def f(x, y):
        z = x * y + x
        return ag.autograd.grad((z * y).amax(0).sum() + (z - x).amin(-1).sum() + (z + y).amax(), (x, y))

    for dtype, special in ((ag.float32, 2.0), (ag.float32, np.nan), (ag.float16, np.inf), (ag.bfloat16, 1.0)):
        numbers = np.random.default_rng(0).integers(-2, 3, (2, 12, 8)).astype("f4")  # many ties
        numbers[0, 3, 5] = special
        x, y = (ag.tensor(a, dtype=dtype, device="cuda").requires_grad_() for a in numbers)
        compiled = ag.compile(f, fullgraph=True)
        with np.errstate(all="ignore"):
            for _ in range(3):
                for made, expected in zip(compiled(x, y), f(x, y), strict=True):
                    a, b = (t.cpu().double().numpy() for t in (made, expected))
                    np.testing.assert_allclose(a, b, 2e-2 if dtype == ag.bfloat16 else 2e-3)
        assert sum(sums_in(compiled)) >= 1


def test_a_summed_result_that_is_read_elsewhere_is_written():
    def f(x, y):
        z = x * y + 1
        return z.sum(0), z @ y.mT

    x, y = (ag.tensor(np.random.default_rng(k).normal(size=(5, 8)).astype("f4"), device="cuda") for k in (1, 2))
    compiled = ag.compile(f, fullgraph=True)
    for _ in range(3):
        compared(compiled(x, y), f(x, y))
    (group,) = groups_of(compiled)
    assert [v.shape for v in group.outs] == [(5, 8), (8,)]


def test_what_is_written_to_later_is_summed_before():
    def f(x, y):
        z = x * y + 1
        total = z.sum(0)
        total.add_(1)
        return total, z * 2

    x, y = (ag.tensor(np.random.default_rng(k).normal(size=(5, 8)).astype("f4"), device="cuda") for k in (1, 2))
    compiled = ag.compile(f, fullgraph=True)
    for _ in range(3):
        compared(compiled(x, y), f(x, y))


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_half_types_are_summed_before_they_are_rounded(mode):
    x, y = (ag.tensor(np.random.default_rng(k).normal(size=(300, 8)), dtype=ag.float16, device="cuda") for k in (1, 2))
    compiled = ag.compile(FUNCTIONS["sum of columns"], fullgraph=True, mode=mode)
    for _ in range(6):
        total, _ = compiled(x, y)
    exact = (x.cpu().double() * y.cpu().double() + 1).sum(0)
    np.testing.assert_allclose(total.cpu().double().numpy(), exact.numpy(), 1e-3)
