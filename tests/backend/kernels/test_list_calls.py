"""The functions over lists of CuPy arrays, on a GPU or emulated: their tables, and what they refuse."""

import math

import kernel_references as references
import numpy as np
import pytest
from emulated import DTYPES, assert_close

from autograd_gpu import profiler
from autograd_gpu.backend import kernels, to_numpy
from autograd_gpu.backend.kernels import tables
from autograd_gpu.backend.kernels.constants import CHUNK
from autograd_gpu.backend.optimizers.formulas import AdamNumbers, SGDNumbers

pytestmark = [pytest.mark.cuda, pytest.mark.smoke]
SIZES = [3, 0, 1, CHUNK + 3, 40]
SGD = SGDNumbers(sign=1.0, lr=0.5, decay=0.0)


@pytest.fixture
def uploads(monkeypatch):
    """How many numbers go to the device for each table; none is kept from earlier."""
    tables._table.cache_clear()
    tables._layout.cache_clear()
    results, upload = [], tables._upload
    monkeypatch.setattr(tables, "_upload", lambda numbers: results.append(numbers.size) or upload(numbers))
    return results


def draw(xp, dtype, sizes=SIZES):
    numbers = [abs(np.random.standard_normal(size)).astype(dtype) for size in sizes]
    return [xp.asarray(array) for array in numbers], numbers


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_results_are_those_of_the_references(xp, dtype):
    epsilon = {"float64": 1e-14, "float32": 1e-5, "float16": 2e-3, "bfloat16": 1.6e-2}[str(dtype)]
    (p, b, g, m, v), numbers = zip(*(draw(xp, dtype) for _ in range(5)), strict=True)
    for order in (1, 2, math.inf):
        total = to_numpy(kernels.list_norm(kernels.tensor_lists([], [g]), order))
        assert_close(total, references.list_norm(numbers[2], order), rtol=1e-5)
        norms = to_numpy(kernels.list_norm(kernels.tensor_lists([], [g]), order, per_tensor=True))
        expected = [references.list_norm([array], order) for array in numbers[2]]
        assert_close(norms, np.array(expected), rtol=1e-5)
    kernels.limit_norm(kernels.tensor_lists([g]), xp.asarray(4.0, kernels.wide(dtype)), 1.0)
    limited = [references.limit_norm(array, 4.0, 1.0) for array in numbers[2]]
    momentum = SGD._replace(momentum=0.9)
    kernels.sgd_step(kernels.tensor_lists([p, b], [g]), True, momentum)
    stepped = [references.sgd_step(row, momentum) for row in zip(numbers[0], numbers[1], limited, strict=True)]
    adam = AdamNumbers(sign=1.0, decay=0.1, keep=0.9, beta1=0.8, beta2=0.95, rate=0.02, eps=1e-3)
    kernels.adam_step(kernels.tensor_lists([b, m, v], [g]), False, adam)
    for i, (parameter, buffer) in enumerate(stepped):
        assert_close(to_numpy(p[i]), parameter, rtol=epsilon, atol=epsilon)
        expected = references.adam_step((buffer, numbers[3][i], numbers[4][i], limited[i]), adam)
        for actual, reference in zip((b[i], m[i], v[i]), expected, strict=True):
            assert_close(to_numpy(actual), reference, rtol=2 * epsilon, atol=2 * epsilon)


def test_launches_are_counted(xp):
    (p, _), (g, _), nothing = draw(xp, "float32"), draw(xp, "float32"), [xp.empty(0, "float32")]
    with profiler.count() as counts:
        kernels.sgd_step(kernels.tensor_lists([p], [g]), False, SGD)
        kernels.sgd_step(kernels.tensor_lists([nothing], [nothing]), False, SGD)
        assert float(kernels.list_norm(kernels.tensor_lists([], [nothing]))) == 0.0
        kernels.list_norm(kernels.tensor_lists([], [g]))
    assert counts.launches == {"sgd_step": 1, "list_norm": 1, "list_norm_total": 2}


def test_tables_are_kept_by_what_they_hold(xp, uploads):
    (p, _), (g, _), (h, _) = [draw(xp, "float32") for _ in range(3)]
    first = kernels.tensor_lists([p], [g])
    assert len(uploads) == 1  # addresses, sizes, and chunks
    same = kernels.tensor_lists([list(p)], [[array[:] for array in g]])
    assert same.addresses is first.addresses
    assert len(uploads) == 1
    other = kernels.tensor_lists([p], [h])
    assert uploads[1:] == [2 * len(p)]  # addresses alone
    assert other.layout is first.layout
    assert to_numpy(other.addresses)[len(p) :].tolist() == [array.data.ptr for array in h]
    assert kernels.tensor_lists([p], [g]).addresses is first.addresses
    shorter = kernels.tensor_lists([[array[1:] for array in p]], [[array[1:] for array in g]])
    assert to_numpy(shorter.layout.sizes).tolist() == [max(size - 1, 0) for size in SIZES]


def test_an_array_at_the_address_of_another_of_another_size(xp):
    """The same addresses twice, with other sizes: as when memory is freed and taken for smaller arrays."""
    memory = xp.ones(100, "float32")
    for size in (100, 10, 100):
        kernels.sgd_step(kernels.tensor_lists([[memory[:size]]], [[xp.ones(size, "float32")]]), False, SGD)
    assert memory.tolist() == [-0.5] * 10 + [0.0] * 90


def test_a_table_belongs_to_a_stream(xp):
    (p, _), (g, _) = draw(xp, "float32"), draw(xp, "float32")
    xp.cuda.get_current_stream().synchronize()
    here = kernels.tensor_lists([p], [g])
    with xp.cuda.Stream(non_blocking=True) as stream:
        there = kernels.tensor_lists([p], [g])
        kernels.sgd_step(there, False, SGD)
        stream.synchronize()
    assert there.addresses is not here.addresses


@pytest.mark.parametrize(
    "columns",
    [
        lambda a: ([[a[:4], a[2:6]]], []),
        lambda a: ([[a[:4], a[:4]]], []),
        lambda a: ([[a[:4]], [a[:4]]], []),
        lambda a: ([[a[:4]]], [[a[1:5]]]),
        lambda a: ([[a[:4], a[4:8]]], [[a[8:12], a[:4]]]),
    ],
    ids=["rows", "same row", "written lists", "shifted", "read by another row"],
)
def test_no_table_where_the_order_counts(xp, columns):
    assert kernels.tensor_lists(*columns(xp.ones(12, "float32"))) is None


@pytest.mark.parametrize(
    "columns",
    [
        lambda a: ([[a[:4], a[4:8]]], [[a[8:], a[8:]]]),  # a gradient that is shared
        lambda a: ([[a[:4], a[4:8]]], [[a[:4], a[4:8]]]),
        lambda a: ([], [[a[:8], a[4:]]]),
        lambda a: ([[a[:0], a[:4]], [a[:0], a[4:8]]], []),
    ],
    ids=["read twice", "read where it is written", "nothing written", "empty"],
)
def test_a_table_where_overlaps_do_no_harm(xp, columns):
    assert kernels.tensor_lists(*columns(xp.ones(12, "float32"))) is not None


def test_no_table_of_what_the_kernels_do_not_take(xp):
    a = xp.ones((4, 6), "float32")
    for other in (a.astype("float64"), a[:2], np.ones((4, 6), "float32"), a[:, ::2], a.T):
        assert kernels.tensor_lists([[a]], [[other]]) is None
    assert kernels.tensor_lists([[a.astype("int32")]]) is None


@pytest.mark.parametrize("known", [True, False])
def test_no_table_while_a_stream_is_captured(xp, uploads, known):
    """Nothing is sent or kept there, and a table that is known may be dropped before the graph is."""
    (p, _), (g, _) = draw(xp, "float32"), draw(xp, "float32")
    xp.cuda.Device().synchronize()
    with xp.cuda.Stream(non_blocking=True) as stream:
        if known:
            kernels.sgd_step(kernels.tensor_lists([p], [g]), False, SGD)
        before = len(uploads), tables._table.cache_info().currsize, tables._layout.cache_info().currsize
        stream.begin_capture()
        assert kernels.tensor_lists([p], [g]) is None
        stream.end_capture()
        stream.synchronize()
        assert (len(uploads), tables._table.cache_info().currsize, tables._layout.cache_info().currsize) == before


def test_only_a_stream_that_may_be_captured_is_asked(xp, uploads, monkeypatch):
    (p, _), (g, _), asked = draw(xp, "float32"), draw(xp, "float32"), []
    is_capturing = xp.cuda.Stream.is_capturing
    monkeypatch.setattr(xp.cuda.Stream, "is_capturing", lambda self: asked.append(self) or is_capturing(self))
    for _ in range(2):
        assert kernels.tensor_lists([p], [g]) is not None
    assert asked == []
    xp.cuda.Device().synchronize()
    for stream in (xp.cuda.Stream(non_blocking=True), xp.cuda.Stream.ptds):
        with stream:
            assert kernels.tensor_lists([p], [g]) is not None
            stream.synchronize()
        assert asked.pop() is stream


def test_what_is_sent_lies_where_the_kernels_read_it(xp, uploads):
    """With an even and an odd number of arrays: 64-bit words before 32-bit ones, in one copy."""
    for sizes in (SIZES, [*SIZES, 2 * CHUNK], []):
        arrays, _ = draw(xp, "float32", sizes or [0])
        result = kernels.tensor_lists([arrays])
        layout, counts = result.layout, [-(-array.size // CHUNK) for array in arrays]
        assert to_numpy(result.addresses).tolist() == [array.data.ptr for array in arrays]
        assert to_numpy(layout.sizes).tolist() == [array.size for array in arrays]
        expected = [[t, chunk] for t, count in enumerate(counts) for chunk in range(count)]
        assert to_numpy(layout.chunks).reshape(-1, 2).tolist() == expected
        assert to_numpy(layout.first).tolist() == [sum(counts[:t]) for t in range(len(counts) + 1)]
        assert to_numpy(layout.whole).tolist() == [0, sum(counts)]
        assert layout.blocks == sum(counts)
        assert {array.data.ptr % 8 for array in (result.addresses, layout.sizes, layout.chunks)} == {0}
    assert len(uploads) == 3


def test_norms_of_other_orders_are_refused(xp):
    with pytest.raises(ValueError, match=r"norms of order 1.0, 2.0, inf, not 3"):
        kernels.list_norm(kernels.tensor_lists([], [[xp.ones(3, "float32")]]), 3)


def test_foreach_on_arrays(xp):
    (x, known), (y, other) = draw(xp, "float32"), draw(xp, "float32")
    out = [xp.empty_like(array) for array in x]
    with profiler.count() as counts:
        assert kernels.foreach("add", out, x, y, a=-0.5)
        assert kernels.foreach("sqrt", x, x)
    assert counts.launches == {"foreach_add": 1, "foreach_sqrt": 1}
    for actual, root, a, b in zip(out, x, known, other, strict=True):
        assert_close(to_numpy(actual), references.foreach("add", a, b, a=-0.5), rtol=1e-6, atol=1e-6)
        assert_close(to_numpy(root), references.foreach("sqrt", a), rtol=1e-6)
    assert not kernels.foreach("sqrt", [x[0], x[0][:2]], [x[0], x[0][:2]])
    with pytest.raises(ValueError, match="foreach: mul takes 2 lists, not 1"):
        kernels.foreach("mul", out, x)
