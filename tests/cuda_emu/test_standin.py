"""What CuPy promises of its arrays, asked of whatever `import cupy` gives: the stand-in in an emulated run, CuPy itself
on a GPU. A test that fails on a GPU shows where the stand-in lies. Nothing here knows which of the two it talks to.
"""

import ml_dtypes
import numpy as np
import pytest

pytestmark = [pytest.mark.cuda, pytest.mark.smoke]

@pytest.fixture(scope="module")
def xp():
    import cupy

    return cupy


def same(found, expected):
    found = found.get()
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == np.asarray(expected).dtype


@pytest.mark.parametrize("other", [2, 2.5, True, np.float32(2), np.float64(2), np.int64(2)], ids=repr)
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int64", "float16", "float32", "float64"])
def test_promotion_is_numpys(xp, dtype, other):
    host = np.ones(3, dtype)
    array = xp.asarray(host)
    for operate in (np.add, np.multiply, np.true_divide, np.maximum, np.less):
        expected = operate(host, other)
        same(getattr(xp, operate.__name__)(array, other), expected)
        same(operate(array, other), expected)  # NumPy's ufuncs on device arrays
    assert (array * other).dtype == (host * other).dtype
    assert (other + array).dtype == (other + host).dtype


def test_integers_beyond_the_dtype_are_refused(xp):
    with pytest.raises(OverflowError):
        xp.ones(2, "uint8") + 256


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "std", "var", "max", "min", "any", "all", "argmax", "argmin"])
@pytest.mark.parametrize("axis", [None, 0, -1])
def test_reductions_give_arrays(xp, name, axis):
    host = np.arange(6.0).reshape(2, 3) / 7
    found = getattr(xp.asarray(host), name)(axis=axis)
    assert isinstance(found, xp.ndarray)
    np.testing.assert_allclose(found.get(), getattr(host, name)(axis=axis), rtol=1e-15)
    np.testing.assert_allclose(getattr(np, name)(xp.asarray(host), axis=axis).get(), getattr(host, name)(axis=axis))


def test_half_sums_are_kept_in_float32(xp):
    assert xp.full((4096, 3), 0.1, "float16").sum(axis=0).tolist() == [np.float16(4096 * float(np.float16(0.1)))] * 3
    ones = xp.ones(300, ml_dtypes.bfloat16)  # counting in bfloat16 stops at 256
    assert ones.sum().dtype == ml_dtypes.bfloat16
    assert float(ones.sum()) == float(ml_dtypes.bfloat16(300))


@pytest.mark.parametrize("operate", [
    lambda xp, a, host: a + host, lambda xp, a, host: host + a, lambda xp, a, host: xp.add(a, host),
    lambda xp, a, host: np.asarray(a), lambda xp, a, host: np.concatenate([host, a]),
])  # fmt: skip
def test_host_and_device_arrays_do_not_mix(xp, operate):
    with pytest.raises(TypeError):
        operate(xp, xp.ones(3), np.ones(3))


@pytest.mark.parametrize(("name", "keywords"), [
    ("sum", {"where": True}), ("sum", {"initial": 0}), ("cumsum", {"initial": 0}), ("argsort", {"order": "x"}),
    ("add", {"where": True}), ("zeros", {"like": 1}), ("reshape", {"newaxis": 1}), ("max", {"initial": 0}),
])  # fmt: skip
def test_keywords_that_cupy_lacks_are_refused(xp, name, keywords):
    arguments = {"add": (1, xp.ones(2)), "zeros": (2,), "reshape": (xp.ones(2), (2,))}.get(name, (xp.ones(2),))
    with pytest.raises(TypeError):
        getattr(xp, name)(*arguments, **keywords)


@pytest.mark.parametrize("name", ["asanyarray_", "bitwise_and_", "emath", "fromregex", "nditer", "str_"])
def test_names_that_cupy_lacks(xp, name):
    assert not hasattr(xp, name)


@pytest.mark.parametrize("data", [np.array(["a"]), np.array([object()]), np.ones(2, ml_dtypes.float8_e4m3fn),
                                  np.ones(2, "datetime64[s]")], ids=lambda data: str(data.dtype))  # fmt: skip
def test_dtypes_that_no_device_has(xp, data):
    with pytest.raises(ValueError, match="Unsupported dtype"):
        xp.asarray(data)


def test_attributes_of_views(xp):
    a = xp.zeros((4, 6), "float32")
    view = a[1:, ::2]
    assert (view.shape, view.strides, view.base is a, a.base) == ((3, 3), (24, 8), True, None)
    assert view.data.ptr - a.data.ptr == 24
    assert view.data.mem is a.data.mem
    assert (a.flags.c_contiguous, a.T.flags.f_contiguous, view.flags.c_contiguous) == (True, True, False)
    assert (a.flags.owndata, view.flags.owndata, a.device.id, a.nbytes) == (True, False, 0, 96)
    view[...] = 1
    assert a.sum() == 9
    assert a.reshape(-1).base is a
    assert a.view("int32").dtype == np.int32
    assert xp.broadcast_to(xp.ones(3), (2, 3)).strides == (0, 8)
    interface = view.__cuda_array_interface__
    assert (interface["shape"], interface["strides"], interface["data"]) == ((3, 3), (24, 8), (view.data.ptr, False))


def test_exchange_without_copies(xp):
    a = xp.arange(6.0).reshape(2, 3)

    class Like:
        __cuda_array_interface__ = a.__cuda_array_interface__

    for other in (xp.from_dlpack(a), xp.asarray(Like())):
        assert (other.data.ptr, other.shape, other.dtype) == (a.data.ptr, a.shape, a.dtype)
    same(xp.add(Like(), 1), a.get() + 1)
    assert a.__dlpack_device__() == (2, 0)
    with pytest.raises(TypeError, match="CPU arrays"):
        xp.from_dlpack(np.ones(2))


def test_elementwise_work_is_offered_to_strangers(xp):
    class Stranger:
        __array_priority__ = 1000

        def __cupy_override_elementwise_kernel__(self, function, *args, **kwargs):
            return function.name, len(args)

        def __rmul__(self, other):
            return "theirs"

    assert xp.add(xp.ones(2), Stranger()) == ("cupy_add", 2)
    assert xp.ones(2) * Stranger() == "theirs"


@pytest.mark.parametrize("key", [
    1, -1, slice(None, None, -1), (..., 0), (None, 1), [2, 0], np.array([1, 1]), (slice(None), [0, 2]),
    ([0, 1], [2, 0]), (0, slice(None), [1, 0]), ([0, 1], slice(None), [1, 0]), (slice(1, 3), None, 2),
], ids=str)  # fmt: skip
def test_indexing(xp, key):
    host = np.arange(60).reshape(3, 4, 5)
    array = xp.asarray(host)
    same(array[key], host[key])
    array[key], host[key] = -1, -1
    same(array, host)
    array[key] = xp.asarray(host[key] * 2)
    host[key] *= 2
    same(array, host)


def test_masks(xp):
    host = np.arange(12.0).reshape(3, 4)
    array = xp.asarray(host)
    same(array[array > 5], host[host > 5])
    same(array[:, xp.asarray([True, False, True, True])], host[:, [True, False, True, True]])
    same(array[xp.asarray(True)], host[np.True_])
    array[array > 5] = 0
    assert array.sum() == 15
    assert [part.tolist() for part in xp.nonzero(array > 3)] == [[1, 1], [0, 1]]
    with pytest.raises(IndexError):
        array[xp.ones(5, bool)]


def test_indices_out_of_range(xp):
    a = xp.arange(3)
    assert a[xp.asarray([3, 4, -4])].tolist() == [0, 1, 2]  # arrays of indices wrap around
    assert a.take(xp.asarray([5])).tolist() == [2]
    a[xp.asarray([3])] = 7
    assert a.tolist() == [7, 1, 2]
    for key in (3, -4, (0, 0)):
        with pytest.raises(IndexError):
            a[key]


def test_assignment_of_host_arrays(xp):
    a = xp.zeros(3)
    a[...] = np.float32(2)
    a[0] = np.array(5.0)  # of no dimensions
    assert a.tolist() == [5, 2, 2]
    with pytest.raises(ValueError, match="non-scalar"):
        a[:2] = np.ones(2)


def test_atomics(xp):
    a = xp.zeros(3, "float32")
    xp.add.at(a, xp.asarray([0, 0, 5]), xp.asarray([1.0, 2.0, 3.0], "float32"))
    assert a.tolist() == [3, 0, 3]
    xp.maximum.at(a, xp.asarray([1, 1]), 4)
    assert a.tolist() == [3, 4, 3]
    with pytest.raises(TypeError, match="only supports"):
        xp.add.at(xp.zeros(3, "int8"), xp.asarray([0]), 1)
    with pytest.raises(NotImplementedError):
        xp.multiply.at(a, xp.asarray([0]), 1)
    with pytest.raises(NotImplementedError):
        xp.maximum.reduce(a)
    with pytest.warns(DeprecationWarning, match="scatter_add"):
        a.scatter_add(xp.asarray([0]), 1)
    assert a[0] == 4


def test_outputs(xp):
    a, out = xp.arange(4.0), xp.empty(4, "float32")
    assert xp.add(a, 1, out) is out
    assert xp.sum(a, out=xp.empty(()), axis=0) == 6
    a += 1
    same(a, np.arange(4.0) + 1)
    with pytest.raises(TypeError, match="Cannot cast"):
        xp.add(a, 0.5, out=xp.empty(4, "int32"))
    with pytest.raises(ValueError, match=r"[Oo]ut|broadcast"):
        xp.add(a, 1, out=xp.empty(3))


def test_layouts(xp):
    a = xp.asarray(np.asfortranarray(np.arange(6.0).reshape(2, 3)))
    assert a.flags.f_contiguous
    assert a.astype("float32").flags.f_contiguous
    assert a.copy().flags.c_contiguous
    assert (a + a).shape == (2, 3)
    assert a.astype(float, copy=False) is a
    assert a.get().flags.c_contiguous
    assert a.get(order="A").flags.f_contiguous
    assert xp.ascontiguousarray(a).flags.c_contiguous
    assert xp.empty_like(a).flags.f_contiguous


def test_negative_integer_powers(xp):
    assert (xp.asarray([1, -1, -1, 2]) ** xp.asarray([-3, -3, -2, -1])).tolist() == [1, -1, 1, 0]


@pytest.mark.parametrize("work", [
    lambda xp, a: xp.sort(a), lambda xp, a: xp.argsort(a, kind="stable"), lambda xp, a: xp.cumsum(a, axis=0),
    lambda xp, a: xp.where(a > 1, a, 0), lambda xp, a: xp.concatenate([a, a], axis=1), lambda xp, a: xp.tril(a),
    lambda xp, a: xp.stack([a, a]), lambda xp, a: xp.einsum("ij,kj->ik", a, a), lambda xp, a: xp.tensordot(a, a.T, 1),
    lambda xp, a: xp.pad(a, 1), lambda xp, a: xp.unique(a), lambda xp, a: xp.roll(a, 1, 0), lambda xp, a: a @ a.T,
    lambda xp, a: xp.linalg.inv(a[:, :2] + 2 * xp.eye(2)), lambda xp, a: xp.clip(a, 1, 2),
    lambda xp, a: a.clip(min=1), lambda xp, a: xp.take_along_axis(a, xp.argsort(a, axis=1), 1),
    lambda xp, a: xp.linalg.norm(a), lambda xp, a: a**2, lambda xp, a: xp.divmod(a, 2)[1],
    lambda xp, a: xp.flip(a, 0), lambda xp, a: xp.diagonal(a), lambda xp, a: xp.tile(a, 2),
    lambda xp, a: xp.repeat(a, 2, axis=1), lambda xp, a: xp.isnan(a), lambda xp, a: xp.linspace(0, 1, 5),
])  # fmt: skip
def test_functions_equal_numpys(xp, work):
    host = np.array([[3.0, 1.0, 2.0], [0.0, 1.0, 5.0]])
    found, expected = work(xp, xp.asarray(host)).get(), work(np, host)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)
    assert found.dtype == expected.dtype


def test_special_functions(xp):
    from cupyx.scipy import special
    from scipy.special import erf, zeta

    x = np.linspace(-2, 2, 9)
    np.testing.assert_allclose(special.erf(xp.asarray(x)).get(), erf(x), rtol=1e-14)
    np.testing.assert_allclose(erf(xp.asarray(x)).get(), erf(x), rtol=1e-14)
    np.testing.assert_allclose(special.zeta(xp.asarray(x + 4), xp.asarray(x + 3)).get(), zeta(x + 4, x + 3), rtol=1e-12)
    assert not hasattr(special, "airye")


def test_distributions(xp):
    generator = xp.random.Generator(xp.random.Philox4x3210(7))
    counts = generator.poisson(xp.asarray([0.0, 4.0]), (500, 2)).get()
    assert counts.dtype == np.int64
    assert not counts[:, 0].any()
    assert abs(counts[:, 1].mean() - 4) < 0.5
    assert abs(generator.standard_exponential(2000, dtype="float32").get().mean() - 1) < 0.1


def test_random_streams(xp):
    def generator():
        return xp.random.Generator(xp.random.Philox4x3210(7))

    first, second = generator(), generator()
    draws = [first.random((3,), dtype="float32"), first.standard_normal(4), first.integers(0, 9, (2, 2))]
    state = first.bit_generator._state.copy()
    draws.append(first.random(2))
    again = [second.random((3,), dtype="float32"), second.standard_normal(4), second.integers(0, 9, (2, 2)),
             second.random(2)]  # fmt: skip
    for a, b in zip(draws, again, strict=True):
        same(a, b.get())
    first.bit_generator._state[...] = state
    same(first.random(2), draws[-1].get())
    assert draws[0].dtype == np.float32
    xp.random.seed(3)
    numbers = xp.random.rand(5)
    xp.random.seed(3)
    same(xp.random.rand(5), numbers.get())


def test_writing_functions(xp):
    a = xp.zeros(4)
    xp.copyto(a, xp.ones(4), where=xp.asarray([True, False, True, False]))
    assert a.tolist() == [1, 0, 1, 0]
    a.put([1, 6], [7.0, 8.0])  # wraps around
    assert a.tolist() == [1, 7, 8, 0]
    a.sort()
    assert a.tolist() == [0, 1, 7, 8]
    with pytest.raises(TypeError, match="Cannot cast"):
        xp.copyto(xp.zeros(4, "int32"), a)
    with pytest.raises(ValueError, match="kind can only be None or 'stable'"):
        xp.sort(a, kind="quicksort")


def test_solvers_report_failures_only_when_asked(xp):
    import cupyx

    singular = xp.zeros((2, 3, 3))
    assert cupyx.geterr()["linalg"] == "ignore"
    assert xp.linalg.inv(singular).shape == (2, 3, 3)
    with cupyx.errstate(linalg="raise"), pytest.raises(np.linalg.LinAlgError):
        xp.linalg.inv(singular)
    assert cupyx.geterr()["linalg"] == "ignore"


def test_triangular_systems_in_batches(xp):
    from cupyx.scipy.linalg import solve_triangular

    rng = np.random.default_rng(0)
    a, b = np.triu(rng.uniform(1, 2, (2, 3, 3))), rng.uniform(1, 2, (2, 3, 4))
    found = solve_triangular(xp.asarray(a), xp.asarray(b)).get()
    np.testing.assert_allclose(a @ found, b, rtol=1e-12)
    with pytest.raises(ValueError, match="incompatible batch count"):
        solve_triangular(xp.asarray(a), xp.asarray(b[:1]))
