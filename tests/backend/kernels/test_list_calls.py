"""The functions over lists of CuPy arrays, on a GPU or emulated: their addresses, and what they refuse."""

import math

import kernel_references as references
import numpy as np
import pytest
from emulated import DTYPES, assert_close
from updates import ADAM, SGD, VARIANTS

from autograd_gpu import profiler
from autograd_gpu.backend import kernels, to_numpy
from autograd_gpu.backend.kernels import array_lists
from autograd_gpu.backend.kernels.constants import CHUNK, MOST_ARRAYS
from autograd_gpu.ops.foreach.arrays import on_cuda

pytestmark = [pytest.mark.cuda, pytest.mark.smoke]
SIZES = [3, 0, 1, CHUNK + 3, 40]
PLAIN = {**SGD, "lr": 0.5}


def step(label, written, read, numbers):
    kernels.over(kernels.update_of(VARIANTS[label].general), kernels.tensor_lists(written, [read]), numbers)


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
    kernels.limit_norm(kernels.tensor_lists([g]), xp.asarray(4.0, kernels.wide(dtype)), 1.0)
    limited = [references.limit_norm(array, 4.0, 1.0) for array in numbers[2]]
    step("sgd_momentum_buffer", [p, b], g, PLAIN)
    adam = {**ADAM, "decay": 0.1, "keep": 0.9}
    step("adam", [b, m, v], g, adam)
    for i, row in enumerate(zip(numbers[0], limited, numbers[1], strict=True)):
        parameter, _, buffer = references.updated(VARIANTS["sgd_momentum_buffer"], row, PLAIN)
        assert_close(to_numpy(p[i]), parameter, rtol=epsilon, atol=epsilon)
        row = (buffer, limited[i], numbers[3][i], numbers[4][i])
        expected, _, *states = references.updated(VARIANTS["adam"], row, adam)
        for found, wanted in zip((b[i], m[i], v[i]), (expected, *states), strict=True):
            assert_close(to_numpy(found), wanted, rtol=2 * epsilon, atol=2 * epsilon)


def test_launches_are_counted(xp):
    (p, _), (g, _), nothing = draw(xp, "float32"), draw(xp, "float32"), [xp.empty(0, "float32")]
    with profiler.count() as counts:
        step("sgd", [p], g, PLAIN)
        step("sgd", [nothing], nothing, PLAIN)
        assert float(kernels.list_norm(kernels.tensor_lists([], [nothing]))) == 0.0
        kernels.list_norm(kernels.tensor_lists([], [g]))
    assert counts.launches == {"sgd_step": 1, "list_norm": 1, "list_norm_total": 2}


def test_nothing_is_sent_to_the_device_before_a_launch(xp, monkeypatch):
    (p, _), (g, _) = draw(xp, "float32"), draw(xp, "float32")
    for name in ("asarray", "array", "empty", "zeros"):
        monkeypatch.setattr(xp, name, lambda *arguments, name=name: pytest.fail(name))
    step("sgd", [p], g, PLAIN)


def test_an_array_at_the_address_of_another_of_another_size(xp):
    """The same addresses twice, with other sizes: as when memory is freed and taken for smaller arrays."""
    memory = xp.ones(100, "float32")
    for size in (100, 10, 100):
        step("sgd", [[memory[:size]]], [xp.ones(size, "float32")], PLAIN)
    assert memory.tolist() == [-0.5] * 10 + [0.0] * 90


@pytest.mark.parametrize("lists", range(1, 6))
def test_a_launch_has_as_many_arrays_as_its_parameters_hold(lists):
    most, type_ = MOST_ARRAYS[lists], array_lists.lists_parameter(lists).dtype
    assert type_.itemsize <= 4096 - (10 + 2) * 8  # of the numbers of NAdam in float64, and two addresses
    assert type_.itemsize + 8 * lists + 6 > 4096 - 112  # and no room for another array
    addresses = [np.arange(2 * most + 1, dtype=np.uint64) + i for i in range(lists)]
    parts = array_lists.packed(addresses, (1,) * (2 * most + 1))
    assert [part.shape for part in parts] == [((n, 1), (256, 1)) for n in (most, most, 1)]
    assert [array.item() for part in parts for array in part.packed["at"][0, 0, :1]] == [0, most, 2 * most]


@pytest.mark.emulated
def test_more_arrays_than_a_launch_takes(xp):
    """Results of every launch, in arrays of several chunks and empty ones, at both sides of each boundary."""
    most = MOST_ARRAYS[2]
    sizes = [1 + i % 3 for i in range(2 * most + 3)]
    for i in (0, most - 1, most, 2 * most - 1, 2 * most):
        sizes[i] = CHUNK + 1 + i % 2
    sizes[most + 1] = sizes[-1] = 0
    (p, mine), (g, theirs) = draw(xp, "float32", sizes), draw(xp, "float32", sizes)
    with profiler.count() as counts:
        step("sgd", [p], g, PLAIN)
        norm = kernels.list_norm(kernels.tensor_lists([], [g]))
    assert counts.launches == {"sgd_step": 3, "list_norm": -(-len(sizes) // MOST_ARRAYS[1]), "list_norm_total": 1}
    for found, a, b in zip(p, mine, theirs, strict=True):
        assert_close(to_numpy(found), a - np.float32(0.5) * b, rtol=1e-6, atol=1e-6)
    assert_close(to_numpy(norm), references.list_norm(theirs, 2), rtol=1e-5)


def test_a_captured_step_works_on_what_lies_at_the_addresses(xp):
    """It replays after the lists and the arguments of its launch are gone."""
    (p, numbers), (g, grads) = draw(xp, "float32"), draw(xp, "float32")
    step("sgd", [[x.copy() for x in p]], g, PLAIN)  # compiles
    xp.cuda.Device().synchronize()
    with xp.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        step("sgd", [p], g, PLAIN)
        graph = stream.end_capture()
        for _ in range(3):
            graph.launch()
        stream.synchronize()
    for found, number, grad in zip(p, numbers, grads, strict=True):
        expected = number - np.float32(0.5) * grad - np.float32(0.5) * grad - np.float32(0.5) * grad
        assert_close(to_numpy(found), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.emulated
@pytest.mark.parametrize("captured", [False, True])
def test_another_stream_must_wait_for_a_step(xp, captured):
    """The addresses by value are known when a launch is enqueued, which is where a race is found."""
    from cupy._emulation import RaceError

    (p, _), (g, _) = draw(xp, "float32"), draw(xp, "float32")
    xp.cuda.Device().synchronize()
    with xp.cuda.Stream(non_blocking=True) as first:
        if captured:
            first.begin_capture()
        step("sgd", [p], g, PLAIN)
        if captured:
            first.end_capture().launch()
    with xp.cuda.Stream(non_blocking=True), pytest.raises(RaceError, match="SgdStep"):
        step("sgd", [p], g, PLAIN)
    xp.cuda.Device().synchronize()


@pytest.mark.emulated
def test_an_address_of_freed_memory_is_found(xp):
    from cupy._emulation import HazardError

    p, g = [xp.ones(4, "float32")], [xp.ones(4, "float32")]
    lists = kernels.tensor_lists([p], [g])._replace(lists=[g, g])
    xp.cuda.Device().synchronize()
    p.clear()
    xp.get_default_memory_pool().free_all_blocks()
    with pytest.raises(HazardError):
        kernels.over(kernels.update_of(VARIANTS["sgd"].general), lists, PLAIN)


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
def test_no_lists_where_the_order_counts(xp, columns):
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
def test_lists_where_overlaps_do_no_harm(xp, columns):
    assert kernels.tensor_lists(*columns(xp.ones(12, "float32"))) is not None


def test_no_lists_of_what_the_kernels_do_not_take(xp):
    a = xp.ones((4, 6), "float32")
    for other in (a.astype("float64"), a[:2], np.ones((4, 6), "float32"), a[:, ::2], a.T):
        assert kernels.tensor_lists([[a]], [[other]]) is None
    assert kernels.tensor_lists([[a.astype("int32")]]) is None


def test_norms_of_other_orders_are_refused(xp):
    with pytest.raises(ValueError, match=r"norms of order 1.0, 2.0, inf, not 3"):
        kernels.list_norm(kernels.tensor_lists([], [[xp.ones(3, "float32")]]), 3)


def test_foreach_on_arrays(xp):
    (x, known), (y, other) = draw(xp, "float32"), draw(xp, "float32")
    out = [xp.empty_like(array) for array in x]
    with profiler.count() as counts:
        assert kernels.foreach(on_cuda("add"), out, x, y, -0.5)
        assert kernels.foreach(on_cuda("sqrt"), x, x)
    assert counts.launches == {"foreach_add": 1, "foreach_sqrt": 1}
    for found, root, a, b in zip(out, x, known, other, strict=True):
        assert_close(to_numpy(found), references.foreach("add", a, b, -0.5), rtol=1e-6, atol=1e-6)
        assert_close(to_numpy(root), references.foreach("sqrt", a), rtol=1e-6)
    assert not kernels.foreach(on_cuda("sqrt"), [x[0], x[0][:2]], [x[0], x[0][:2]])
    assert not kernels.foreach(on_cuda("pow"), out, x, y)
    assert on_cuda("erf") is None
