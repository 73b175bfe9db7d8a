"""Arrays that users hand in: of subclasses, read-only, of other byte orders, and of dtypes that nothing is made of."""

import numpy as np
import pytest
from copying_codec import Copy

import autograd_gpu as ag
from autograd_gpu.hooks.base import MemoryHook
from autograd_gpu.hooks.codec import Codec, Stage

pytestmark = pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")

FUNCTIONS = {"tensor": ag.tensor, "as_tensor": ag.as_tensor, "from_numpy": ag.from_numpy, "asarray": ag.asarray}


class Kept(np.ndarray):
    """Stays itself through NumPy's functions."""


def mapped(path, array):
    """`array` as a file that is mapped for reading."""
    array.tofile(path)
    return np.memmap(path, array.dtype, "r", shape=array.shape)


# ---- subclasses ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", FUNCTIONS.values(), ids=FUNCTIONS)
def test_a_matrix_multiplies_element_by_element(make):
    x = make(np.matrix([[1.0, 2.0], [3.0, 4.0]]))
    assert (x * x).tolist() == [[1, 4], [9, 16]]
    assert x.sum(0).shape == (2,)


@pytest.mark.parametrize("make", FUNCTIONS.values(), ids=FUNCTIONS)
def test_masked_elements_are_refused_and_others_taken(make):
    array = np.ma.array([1.0, 2.0], mask=[True, False])
    with pytest.raises(ValueError, match=r"masked array has no values.*\.filled"):
        make(array)
    with pytest.raises(ValueError, match="masked"):
        make(np.ma.masked)
    assert make(np.ma.array([1.0, 2.0])).sum().item() == 3


def test_masked_elements_are_refused_at_every_other_door():
    masked = np.ma.array([1.0, 2.0], mask=[True, False])
    x = ag.zeros(2, dtype=ag.float64)
    leaf = ag.zeros(2, dtype=ag.float64, requires_grad=True)
    for door in (
        lambda: x + masked, lambda: ag.stack([x, masked]), lambda: x.add_(masked),
        lambda: x.copy_(masked), lambda: x.__setitem__(0, masked), lambda: x[masked > 1],
        lambda: ag.nn.Parameter(masked), lambda: x.new_tensor(masked),
        lambda: ag.nn.Buffer(masked), lambda: (leaf * 1).backward(masked), lambda: ag.from_dlpack(masked),
        lambda: ag.autograd.grad(leaf * 1, leaf, masked), lambda: ag.tensor([masked, masked]),
        lambda: ag.utils.data.default_collate([masked, masked]), lambda: ag.nn.Linear(1, 1).load_state_dict(
            {"weight": masked[:1].reshape(1, 1), "bias": masked[1:]}),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="masked"):
            door()
    assert x.tolist() == [0, 0]


@pytest.mark.cpu
def test_a_mapped_file_is_shared_and_computed_with(tmp_path):
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    data = mapped(tmp_path / "rows", rows)
    x = ag.as_tensor(data)
    assert np.shares_memory(x.array, data)
    layer = ag.nn.Linear(3, 2)
    layer(x).sum().backward()
    np.testing.assert_allclose(layer.weight.grad.numpy(), np.tile(rows.sum(0), (2, 1)))
    np.testing.assert_allclose((x.T @ x).numpy(), rows.T @ rows)
    np.testing.assert_allclose(ag.einsum("ij,kj->ik", x, data).numpy(), rows @ rows.T)
    copy = ag.tensor(data)
    copy.add_(1)
    assert np.array_equal(data, rows)


def test_a_mapped_file_as_value_key_gradient_and_state(tmp_path):
    ones = mapped(tmp_path / "ones", np.ones(3, np.float32))
    keys = mapped(tmp_path / "keys", np.array([2, 0]))
    x = ag.zeros(3)
    x[:] = x.new_tensor(ones)
    x.copy_(ones).add_(x.new_tensor(ones))
    assert x[keys].tolist() == [2, 2]
    leaf = ag.zeros(3, requires_grad=True)
    (leaf * 1).backward(x.new_tensor(ones))
    parameter = ag.nn.Parameter(ones.copy())
    (parameter * 1).backward(ones)
    optimizer = ag.optim.Adam([parameter], lr=0.5)
    optimizer.step()
    assert all(type(t.array) is not np.memmap for t in (leaf.grad, parameter, parameter.grad))
    np.testing.assert_allclose(parameter.detach().cpu().numpy(), 0.5, rtol=1e-5)
    layer = ag.nn.Linear(3, 1, bias=False)
    layer.load_state_dict({"weight": ones.reshape(1, 3)})
    assert layer.weight.tolist() == [[1, 1, 1]]


@pytest.mark.cpu
def test_results_of_users_may_be_of_subclasses(tmp_path):
    class Square(ag.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return np.matrix(x.detach().numpy() ** 2)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return (2 * x * g).detach().numpy().view(np.matrix)

    x = ag.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = Square.apply(x)
    assert type(y.array) is np.ndarray
    (y * y).sum().backward()
    assert type(x.grad.array) is np.ndarray
    assert x.grad.tolist() == [[4, 32], [108, 256]]


@pytest.mark.cpu
def test_a_codec_may_unpack_mapped_files(tmp_path):
    class Mapping(Codec):
        def pack(self, array):
            return Copy(mapped(tmp_path / str(array.size), array))

        def unpack(self, handle):
            return handle.array

    layer, x = ag.nn.Linear(3, 2), ag.ones(4, 3)
    with MemoryHook((Stage(Mapping()),)):
        y = layer(x * 2)
    y.sum().backward()
    assert type(layer.weight.grad.array) is np.ndarray
    assert layer.weight.grad.tolist() == [[8, 8, 8], [8, 8, 8]]


@pytest.mark.cpu
def test_samples_of_subclasses_make_batches():
    batch = ag.utils.data.default_collate([np.matrix([[1.0, 2.0]]), np.matrix([[3.0, 4.0]])])
    assert type(batch.array) is np.ndarray
    assert batch.tolist() == [[[1, 2]], [[3, 4]]]


def test_cupy_samples_make_batches(device):
    batch = ag.utils.data.default_collate([ag.ones(2, device=device).array, ag.zeros(2, device=device).array])
    assert batch.device.type == device
    assert batch.tolist() == [[1, 1], [0, 0]]


@pytest.mark.parametrize("kind", [np.matrix, np.array, np.atleast_1d])
def test_options_of_optimizers_are_numbers(kind):
    """A matrix as a learning rate went to BLAS as it was, which ended the process."""
    p = ag.nn.Parameter(ag.ones(2, 2))
    for make in (
        lambda: ag.optim.SGD([p], lr=kind(0.5)), lambda: ag.optim.SGD([{"params": [p], "lr": kind(0.5)}]),
        lambda: ag.optim.SGD([p], lr=0.5, momentum=kind(0.0)),
        lambda: ag.optim.Adam([p], lr=0.5, betas=(kind(0.0), kind(0.0)), eps=kind(0.0)),
    ):  # fmt: skip
        p.data.fill_(1.0)
        p.grad = ag.ones(2, 2)
        optimizer = make()
        assert type(optimizer.param_groups[0]["lr"]) is float
        optimizer.step()
        assert p.tolist() == [[0.5, 0.5], [0.5, 0.5]]
        state = optimizer.state_dict()
        state["param_groups"][0]["lr"] = kind(0.25)
        optimizer.load_state_dict(state)
        optimizer.param_groups[0]["lr"] = kind(0.5)
        optimizer.step()
        assert p.tolist() == [[0, 0], [0, 0]]


def test_an_option_is_one_number():
    p = ag.nn.Parameter(ag.ones(2))
    with pytest.raises(ValueError, match=r"option 'lr' must be a number, got an array of shape \[2\]"):
        ag.optim.SGD([p], lr=np.ones(2))
    with pytest.raises(ValueError, match="masked"):
        ag.optim.SGD([p], lr=np.ma.masked)


@pytest.mark.cpu
def test_ends_of_a_range_are_numbers():
    for make in (ag.linspace, ag.logspace):
        assert type(make(np.array(0.0).view(Kept), np.array(1.0).view(Kept), 3).array) is np.ndarray


# ---- memory --------------------------------------------------------------------------------------------


def test_memory_of_other_libraries_is_copied_by_tensor_alone():
    class Exporter:
        def __init__(self):
            self.array = np.ones(2)

        def __array__(self, dtype=None, copy=None):
            return self.array

    exporter = Exporter()
    ag.tensor(exporter).zero_()
    ag.asarray(exporter, copy=True).zero_()
    assert exporter.array.tolist() == [1, 1]


@pytest.mark.cpu
def test_asarray_knows_what_it_shares():
    array = np.zeros((2, 2)).view(np.matrix)
    assert np.shares_memory(ag.asarray(array, copy=False).array, array)
    assert not np.shares_memory(ag.asarray(array, copy=True).array, array)
    codes = np.zeros(3, ag.float8_e5m2)
    copy = ag.asarray(codes, copy=True)
    assert copy.dtype == ag.float8_e5m2
    assert not np.shares_memory(copy.array, codes)
    with pytest.raises(ValueError, match="sharing memory"):
        ag.asarray(array, dtype=ag.float32, copy=False)


@pytest.mark.cpu
def test_a_write_to_read_only_memory_is_refused_in_words():
    array = np.broadcast_to(np.ones(1), (3,))
    ones = ag.ones(3, dtype=ag.float64)
    for write in (
        lambda x: x.add_(1), lambda x: x.zero_(), lambda x: x.fill_(2.0), lambda x: x.copy_(ones), lambda x: x.sqrt_(),
        lambda x: x.__setitem__(0, 1.0), lambda x: x[1:].mul_(2), lambda x: x.detach().add_(1),
    ):  # fmt: skip
        x = ag.as_tensor(readonly(3))
        with pytest.raises(RuntimeError, match=r"read-only.*clone\(\)"):
            write(x)
        assert x._version == 0
        assert x.tolist() == [1, 1, 1]
    assert (ag.as_tensor(array) * 2).clone().add_(1).tolist() == [3, 3, 3]
    parameter = ag.nn.Parameter(readonly(3))
    (parameter * parameter).sum().backward()
    for kind in (ag.optim.SGD, ag.optim.Adam, ag.optim.LBFGS):
        with pytest.raises(RuntimeError, match="read-only"):
            kind([parameter], lr=0.1).step(lambda: (parameter * parameter).sum())
    leaf = ag.zeros(3, dtype=ag.float64, requires_grad=True)
    leaf.grad = ag.as_tensor(readonly(3))
    with pytest.raises(RuntimeError, match="read-only"):
        leaf.sum().backward()


def readonly(count):
    array = np.ones(count)
    array.flags.writeable = False
    return array


# ---- dtypes --------------------------------------------------------------------------------------------

@pytest.mark.cpu
def test_fields_of_records_are_copied_by_the_user():
    records = np.zeros(3, [("a", "i4"), ("b", "f8")])
    for door in (*FUNCTIONS.values(), lambda field: ag.zeros(3) + field):
        with pytest.raises(ValueError, match=r"strides \(12,\).*\.copy\(\)"):
            door(records["b"])
    even = np.ones(3, [("a", "f4"), ("b", "f4")])
    x = ag.as_tensor(even["b"])
    assert np.shares_memory(x.array, even)
    assert (x * 2).sum().item() == 6
    assert x.as_strided((2,), (4,)).tolist() == [1, 1]


UNFIT = {
    "objects": np.array([1, None]), "records": np.zeros(2, [("a", "f4")]).view(np.recarray),
    "complex": np.zeros(2, complex), "text": np.array(["a"]),
    "times": np.zeros(2, "M8[s]"), "long double": np.zeros(2, np.longdouble),
}  # fmt: skip


@pytest.mark.parametrize("array", UNFIT.values(), ids=UNFIT)
def test_dtypes_that_nothing_is_made_of_are_refused(array):
    if array.dtype == np.float64:
        pytest.skip("on this machine np.longdouble is float64")
    x = ag.zeros(2)
    doors = [lambda make=make: make(array) for make in FUNCTIONS.values()]
    doors += [lambda: x + array, lambda: x.add_(array), lambda: x.copy_(array), lambda: x.__setitem__(0, array),
              lambda: x[array], lambda: ag.nn.Parameter(array), lambda: ag.nn.Buffer(array)]
    refused = r"can't convert an array of dtype .*; supported are"
    for door in doors:
        with pytest.raises(TypeError, match=refused):
            door()
    with pytest.raises(TypeError, match=rf"{refused}|batch must contain tensors, numpy arrays"):  # PyTorch's text
        ag.utils.data.default_collate([array, array])


def test_a_foreign_byte_order_is_refused_with_the_way_out():
    array = np.arange(3.0).astype(">f4")
    for door in (*[lambda make=make: make(array) for make in FUNCTIONS.values()], lambda: ag.zeros(3) + array,
                 lambda: ag.from_dlpack(array), lambda: ag.zeros(3).copy_(array)):
        with pytest.raises(ValueError, match=r"byte order .*\.astype\(np\.float32\)"):
            door()


@pytest.mark.cpu
def test_equal_dtypes_become_one_object():
    for array in (np.zeros(2, np.longlong), np.zeros(2, np.dtype("f4", metadata={"unit": "m"}))):
        x = ag.as_tensor(array)
        assert np.shares_memory(x.array, array)
        assert x.dtype is ag.int64 or x.dtype is ag.float32


@pytest.mark.cpu
def test_float8_arrays_are_codes_wherever_they_come_in():
    codes = np.ones(2, ag.float8_e4m3fn)
    for door in (lambda: ag.ones(2) + codes, lambda: ag.ones(2).add_(codes), lambda: ag.nn.Parameter(codes),
                 lambda: ag.nn.Buffer(codes)):
        with pytest.raises(TypeError, match=r"storage dtype|pass other tensors"):
            door()


@pytest.mark.cuda
def test_subclasses_of_cupys_array_become_plain(cp):
    class Image(cp.ndarray):
        pass

    image = cp.ones(2, dtype="float32").view(type=Image)
    assert type(image) is Image
    for make in (ag.tensor, ag.as_tensor, ag.nn.Parameter, ag.from_dlpack):
        assert type(make(image).array) is cp.ndarray
    assert (ag.ones(2, device="cuda") + image).tolist() == [2, 2]
