"""Packed and padded sequences against PyTorch's, with gradients; devices and dtypes of a PackedSequence; errors."""

import itertools
import pickle

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.nn.utils import rnn

torch = pytest.importorskip("torch")
LENGTHS = [3, 1, 2]


def sequences(lib, lengths=LENGTHS, rest=(2,), **kwargs):
    rng = np.random.default_rng(0)
    return [lib.tensor(rng.normal(size=(length, *rest)), **kwargs) for length in lengths]


def values(x):
    """Tensors in tuples and lists as arrays."""
    if isinstance(x, (tuple, list)):
        return [values(row) for row in x]
    return None if x is None else x.numpy(force=True)


def same(ours, theirs):
    result, expected = values(ours), values(theirs)
    assert len(result) == len(expected)
    for a, b in zip(result, expected, strict=True):
        if isinstance(a, list):
            same(a, b)
        else:
            assert (a is None) == (b is None)
            if a is not None:
                np.testing.assert_allclose(a, b, rtol=1e-12, strict=True)


def compared(program):
    """program(library, its nn.utils.rnn, sequences): the same results, and the same gradients of a weighted sum."""
    results = []
    for lib in (ag, torch):
        leaves = sequences(lib, requires_grad=True)
        result = program(lib, lib.nn.utils.rnn, leaves)
        parts = [x for x in (result if isinstance(result, (tuple, list)) else [result]) if x is not None]
        parts = [x for x in parts if x.dtype == lib.float64]
        sum((x * x).sum() for x in parts).backward()
        results.append((result, [x.grad for x in leaves]))
    for a, b in zip(*results, strict=True):
        same([a], [b]) if not isinstance(a, (tuple, list)) else same(a, b)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("side", ["left", "right"])
def test_pad_sequence(batch_first, side, device):
    compared(lambda lib, u, x: u.pad_sequence(x, batch_first, 7.0, side))


@pytest.mark.parametrize("batch_first", [False, True])
def test_pack_and_pad(batch_first, device):
    def pack(lib, u, x, tensors=False):
        lengths = lib.tensor(LENGTHS, device="cpu") if tensors else LENGTHS
        return u.pack_padded_sequence(u.pad_sequence(x, batch_first), lengths, batch_first, enforce_sorted=False)

    for tensors in (False, True):
        compared(lambda lib, u, x: pack(lib, u, x, tensors))  # noqa: B023
    for value, length in itertools.product((0.0, -1.0), (None, 5)):
        compared(lambda lib, u, x: u.pad_packed_sequence(pack(lib, u, x), batch_first, value, length))  # noqa: B023


def test_pack_sequence_and_back(device):
    compared(lambda lib, u, x: u.pack_sequence(x, enforce_sorted=False))
    compared(lambda lib, u, x: u.pack_sequence([x[0], x[2], x[1]]))
    compared(lambda lib, u, x: u.unpack_sequence(u.pack_sequence(x, enforce_sorted=False)))
    compared(lambda lib, u, x: u.unpack_sequence(u.pack_sequence([x[0], x[2], x[1]])))


def test_unpad_sequence(device):
    """And the padded sequences stay as they are, which PyTorch transposes."""
    x = sequences(ag)
    for batch_first in (False, True):
        padded = rnn.pad_sequence(x, batch_first)
        shape = padded.shape
        same(rnn.unpad_sequence(padded, ag.tensor(LENGTHS, device="cpu"), batch_first), x)
        assert padded.shape == shape


@pytest.mark.parametrize("rest", [(), (2,), (2, 3)])
def test_other_sizes(rest, device):
    """Labels without further dimensions, and images; integers stay integers."""
    for convert in (lambda x: x, lambda x: x.round().int()):
        ours, theirs = ([convert(x) for x in sequences(lib, rest=rest)] for lib in (ag, torch))
        same(rnn.pack_sequence(ours, False), torch.nn.utils.rnn.pack_sequence(theirs, False))
        same(rnn.pad_packed_sequence(rnn.pack_sequence(ours, False))[:1], [torch.nn.utils.rnn.pad_sequence(theirs)])


def test_fields_and_conversions(device):
    packed = rnn.pack_sequence(sequences(ag), enforce_sorted=False)
    data, sizes, order, inverse = packed
    assert packed.data is data
    assert (sizes.tolist(), order.tolist(), inverse.tolist()) == ([3, 2, 1], [0, 2, 1], [0, 2, 1])
    assert (sizes.device.type, sizes.dtype, order.device) == ("cpu", ag.int64, data.device)
    assert packed.is_cuda == (device == "cuda")
    assert packed.to(ag.float64) is packed
    assert packed.float().data.dtype == ag.float32
    assert packed.half().double().data.dtype == ag.float64
    assert (packed.long().data.dtype, packed.int().data.dtype) == (ag.int64, ag.int32)
    assert (packed.short().data.dtype, packed.char().data.dtype) == (ag.int16, ag.int8)
    assert packed.byte().data.dtype == ag.uint8
    there = packed.cpu()
    same(pickle.loads(pickle.dumps(there)), packed)
    assert (there.data.device.type, there.sorted_indices.device.type) == ("cpu", "cpu")
    same(there, packed)
    assert type(there) is rnn.PackedSequence
    assert isinstance(rnn.PackedSequence((data, sizes)), tuple)
    assert rnn.PackedSequence(data, sizes, order).unsorted_indices.tolist() == [0, 2, 1]
    assert rnn.invert_permutation(None) is None
    assert repr(rnn.PackedSequence(ag.ones(1, device="cpu"), ag.tensor([1], device="cpu"))) == (
        "PackedSequence(data=tensor([1.]), batch_sizes=tensor([1]), sorted_indices=None, unsorted_indices=None)"
    )


@pytest.mark.cuda
def test_to_the_device_and_back(device):
    packed = rnn.pack_sequence(sequences(ag, device="cpu"), enforce_sorted=False)
    assert packed.cuda().is_cuda
    assert packed.cuda().sorted_indices.is_cuda
    pinned = packed.pin_memory()
    assert pinned.is_pinned()
    assert not packed.is_pinned()
    assert pinned.sorted_indices.is_pinned()
    same(pinned, packed)
    assert packed.to(device).batch_sizes.device.type == "cpu"
    with pytest.raises(ValueError, match="batch_sizes should always be on CPU"):
        rnn.PackedSequence(packed.data, packed.batch_sizes.cuda())


def test_vmap(device):
    """The lengths are those of every example."""
    x = ag.tensor(np.random.default_rng(0).normal(size=(4, 3, 2, 2)))

    def program(row):
        packed = rnn.pack_padded_sequence(row, [1, 3], enforce_sorted=False)
        return rnn.pad_packed_sequence(packed)[0]

    result = ag.func.vmap(program)(x)
    same(result, ag.stack([program(row) for row in x]))


ERRORS = {
    "length 0": lambda m, u: u.pack_padded_sequence(m.zeros(4, 2), [4, 0]),
    "unsorted": lambda m, u: u.pack_padded_sequence(m.zeros(4, 2), [3, 4]),
    "too few": lambda m, u: u.pack_padded_sequence(m.zeros(4, 2), [4]),
    "empty": lambda m, u: u.pack_padded_sequence(m.zeros(0, 2), [0, 0]),
    "no sequences": lambda m, u: u.pad_sequence([]),
    "no list": lambda m, u: u.pad_sequence(3),
    "side": lambda m, u: u.pad_sequence([m.zeros(2), m.zeros(3)], padding_side="up"),
    "short": lambda m, u: u.pad_packed_sequence(u.pack_padded_sequence(m.zeros(4, 2), [3, 2]), total_length=2),
    "fields": lambda m, u: u.PackedSequence(m.zeros(3)),
}


@pytest.mark.parametrize("what", ERRORS)
def test_errors_are_those_of_pytorch(what):
    seen = []
    for lib in (ag, torch):
        with pytest.raises(Exception) as caught:  # noqa: PT011
            ERRORS[what](lib, lib.nn.utils.rnn)
        seen.append((caught.type, str(caught.value)))
    assert seen[0] == seen[1]


def test_other_errors():
    with pytest.raises(RuntimeError, match="a length is 5, but the padded sequences have only 4 steps"):
        rnn.pack_padded_sequence(ag.zeros(4, 2), [5, 4])
    with pytest.raises(RuntimeError, match="'lengths' argument should be a 1D CPU int64 tensor, but got 2D cpu"):
        rnn.pack_padded_sequence(ag.zeros(4, 2), ag.tensor([[4, 4]], device="cpu"))
    with pytest.raises(RuntimeError, match="differ in L only"):
        rnn.pad_sequence([ag.zeros(2, 1), ag.zeros(3, 2)])
