"""Batches of sequences of different lengths: padded to one length, or packed step by step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...core.tensor import Tensor
from ...ops import cat, stack, tensor


class _Fields(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None = None
    unsorted_indices: Tensor | None = None


class PackedSequence(_Fields):
    """Sequences of different lengths in one tensor: the first elements of all of them, then the second ones, ...

    Made by `pack_padded_sequence` and `pack_sequence`, and taken by nn.RNN, nn.LSTM and nn.GRU, which return one, too.
    `data` is (elements, *). `batch_sizes`, int64 on the CPU, has the number of sequences that reach each step. The
    sequences are sorted by length: `sorted_indices` says which sequence stands where, `unsorted_indices` is the
    inverse; both are None if they were sorted already. ValueError if `batch_sizes` is not on the CPU.

    >>> ag.nn.utils.rnn.pack_sequence([ag.tensor([1, 2, 3]), ag.tensor([4])])
    PackedSequence(data=tensor([1, 4, 2, 3]), batch_sizes=tensor([2, 1, 1]), sorted_indices=None, unsorted_indices=None)
    """

    __slots__ = ()

    def __new__(
        cls, data: Any, batch_sizes: Tensor | None = None, sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:  # fmt: skip
        if batch_sizes is None:
            if not (isinstance(data, (list, tuple)) and len(data) == 2):
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        elif batch_sizes.device.type != "cpu":
            raise ValueError("batch_sizes should always be on CPU; make a PackedSequence by pack_sequence or "
                             "pack_padded_sequence")
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """With `data` on another device or of another dtype, as in Tensor.to; itself if nothing changes."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        indices = [x if x is None else x.to(data.device) for x in self[2:]]
        return type(self)(data, self.batch_sizes, *indices)

    def cpu(self) -> PackedSequence:
        """With `data` on the CPU."""
        return self.to("cpu")

    def cuda(self, device: Any = None) -> PackedSequence:
        """With `data` on a CUDA device, the current one by default."""
        return self.to("cuda" if device is None else device)

    def double(self) -> PackedSequence:
        """With `data` as float64."""
        return self.to(np.float64)

    def float(self) -> PackedSequence:
        """With `data` as float32."""
        return self.to(np.float32)

    def half(self) -> PackedSequence:
        """With `data` as float16."""
        return self.to(np.float16)

    def long(self) -> PackedSequence:
        """With `data` as int64."""
        return self.to(np.int64)

    def int(self) -> PackedSequence:
        """With `data` as int32."""
        return self.to(np.int32)

    def short(self) -> PackedSequence:
        """With `data` as int16."""
        return self.to(np.int16)

    def char(self) -> PackedSequence:
        """With `data` as int8."""
        return self.to(np.int8)

    def byte(self) -> PackedSequence:
        """With `data` as uint8."""
        return self.to(np.uint8)

    def pin_memory(self) -> PackedSequence:
        """With `data` and the indices in page-locked memory, as Tensor.pin_memory has it."""
        indices = [x if x is None else x.pin_memory() for x in self[2:]]
        return type(self)(self.data.pin_memory(), self.batch_sizes, *indices)

    def is_pinned(self) -> bool:
        """Whether `data` is in page-locked memory."""
        return self.data.is_pinned()

    @property
    def is_cuda(self) -> bool:
        """Whether `data` is on a CUDA device."""
        return self.data.is_cuda


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The inverse of a permutation, a vector of indices; None for None.

    >>> ag.nn.utils.rnn.invert_permutation(ag.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    return None if permutation is None else permutation.argsort()


def _lengths(lengths: Tensor | Sequence[int]) -> list[int]:
    """The lengths as numbers; RuntimeError if they are no vector on the CPU."""
    if not isinstance(lengths, Tensor):
        return [int(length) for length in lengths]
    if lengths.ndim != 1 or lengths.device.type != "cpu":
        raise RuntimeError("'lengths' argument should be a 1D CPU int64 tensor, but got "
                           f"{lengths.ndim}D {lengths.device} {lengths.dtype} tensor")
    return [int(length) for length in lengths.tolist()]


def pack_padded_sequence(
    input: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Packs a padded batch (T, B, *), or (B, T, *) with `batch_first`, of sequences of the given lengths.

    The sequences have to be sorted by length, the longest first; with `enforce_sorted=False` they are sorted here.
    RuntimeError if they are not, or if a length is not in [1, T]; PyTorch accepts lengths beyond T, with wrong results.

    >>> padded = ag.tensor([[1, 2, 3], [4, 0, 0]])
    >>> ag.nn.utils.rnn.pack_padded_sequence(padded, [3, 1], batch_first=True).data
    tensor([1, 4, 2, 3])
    """
    counts = _lengths(lengths)
    order = None
    if not enforce_sorted:
        order = np.argsort(-np.asarray(counts, np.int64), kind="stable")
        counts = [counts[i] for i in order]
    batch, steps = (input.shape[0], input.shape[1]) if batch_first else (input.shape[1], input.shape[0])
    _check_lengths(counts, steps, batch)
    sizes = _sizes(counts)
    indices = None if order is None else tensor(order, device=input.device)
    place = np.arange(batch) if order is None else order
    rows = [place[:size] * steps + t if batch_first else t * batch + place[:size] for t, size in enumerate(sizes)]
    flat = input.reshape(batch * steps, *input.shape[2:])
    data = flat.index_select(0, tensor(np.concatenate(rows), device=input.device))
    return PackedSequence(data, tensor(sizes, device="cpu"), indices, None)


def _check_lengths(lengths: list[int], steps: int, batch: int) -> None:
    if not (steps and batch):
        raise RuntimeError("Cannot pack empty tensors.")
    if len(lengths) != batch:
        raise RuntimeError(f"Expected `len(lengths)` to be equal to batch_size, but got {len(lengths)} "
                           f"(batch_size={batch})")
    if min(lengths) <= 0:
        raise RuntimeError("Length of all samples has to be greater than 0, but found an element in 'lengths' that is "
                           "<= 0")
    if lengths != sorted(lengths, reverse=True):
        raise RuntimeError("`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can "
                           "pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this "
                           "requirement if you do not need ONNX exportability.")
    if lengths[0] > steps:
        raise RuntimeError(f"a length is {lengths[0]}, but the padded sequences have only {steps} steps")


def _sizes(lengths: list[int]) -> list[int]:
    """The number of sequences that reach each step; `lengths` decrease."""
    return [sum(length > t for length in lengths) for t in range(lengths[0])]


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """The inverse of `pack_padded_sequence`: a padded batch (T, B, *), or (B, T, *), and the lengths, int64 on the CPU.

    T is `total_length`, by default the longest length; ValueError if it is less.

    >>> packed = ag.nn.utils.rnn.pack_sequence([ag.tensor([1, 2, 3]), ag.tensor([4])])
    >>> ag.nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
    (tensor([[1, 2, 3],
            [4, 0, 0]]), tensor([3, 1]))
    """
    data, sizes = sequence.data, np.asarray(sequence.batch_sizes.tolist(), np.int64)
    steps, batch = len(sizes), int(sizes[0])
    if total_length is not None:
        if total_length < steps:
            raise ValueError("Expected total_length to be at least the length of the longest sequence in input, but "
                             f"got total_length={total_length} and max sequence length being {steps}")
        steps = total_length
    rows = np.full((steps, batch), data.shape[0])  # the row of padding, behind the others
    begin = 0
    for t, size in enumerate(sizes):
        rows[t, :size] = np.arange(begin, begin + size)
        begin += size
    lengths = (rows < data.shape[0]).sum(0)
    if sequence.unsorted_indices is not None:
        order = np.asarray(sequence.unsorted_indices.tolist(), np.int64)
        rows, lengths = rows[:, order], lengths[order]
    if batch_first:
        rows = rows.T
    padded = cat([data, data.new_full((1, *data.shape[1:]), padding_value)])
    out = padded.index_select(0, tensor(rows.reshape(-1), device=data.device))
    return out.reshape(*rows.shape, *data.shape[1:]), tensor(lengths, device="cpu")


def pad_sequence(
    sequences: Iterable[Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Sequences (L, *) as one tensor (T, B, *), or (B, T, *) with `batch_first`, padded on the "right" or "left".

    RuntimeError for an empty list, another side, or sequences whose other sizes differ.

    >>> ag.nn.utils.rnn.pad_sequence([ag.tensor([1, 2, 3]), ag.tensor([4])], batch_first=True)
    tensor([[1, 2, 3],
            [4, 0, 0]])
    """
    if not isinstance(sequences, Iterable):
        raise RuntimeError("pad_sequence: Expected iterable for input sequences, but got arg of type: "
                           f"{type(sequences)}")
    tensors = list(sequences)
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    if not tensors:
        raise RuntimeError("received an empty list of sequences")
    for x in tensors:
        if not x.ndim or x.shape[1:] != tensors[0].shape[1:]:
            raise RuntimeError("pad_sequence: expected sequences (L, *) that differ in L only, but got shapes "
                               f"{list(tensors[0].shape)} and {list(x.shape)}")
    longest = max(x.shape[0] for x in tensors)
    return stack([_padded(x, longest, padding_value, padding_side) for x in tensors], 0 if batch_first else 1)


def _padded(x: Tensor, length: int, value: float, side: str) -> Tensor:
    if x.shape[0] == length:
        return x
    padding = x.new_full((length - x.shape[0], *x.shape[1:]), value)
    return cat([padding, x] if side == "left" else [x, padding])


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False
) -> list[Tensor]:
    """The sequences (L, *) of a batch (T, B, *), or (B, T, *), that was padded on the right; copies.

    Unlike PyTorch's, it leaves `padded_sequences` as it is, which PyTorch transposes in place without `batch_first`.

    >>> ag.nn.utils.rnn.unpad_sequence(ag.tensor([[1, 2, 3], [4, 0, 0]]), [3, 1], batch_first=True)
    [tensor([1, 2, 3]), tensor([4])]
    """
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    counts = lengths.tolist() if isinstance(lengths, Tensor) else lengths
    return [row[: int(length)].clone() for row, length in zip(rows, counts, strict=True)]


def pack_sequence(sequences: Iterable[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Packs sequences (L, *): `pack_padded_sequence` of `pad_sequence`.

    >>> ag.nn.utils.rnn.pack_sequence([ag.tensor([4]), ag.tensor([1, 2])], enforce_sorted=False).sorted_indices
    tensor([1, 0])
    """
    tensors = list(sequences)
    return pack_padded_sequence(pad_sequence(tensors), [x.shape[0] for x in tensors], enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The inverse of `pack_sequence`: the sequences, in their original order.

    >>> ag.nn.utils.rnn.unpack_sequence(ag.nn.utils.rnn.pack_sequence([ag.tensor([1, 2]), ag.tensor([4])]))
    [tensor([1, 2]), tensor([4])]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
