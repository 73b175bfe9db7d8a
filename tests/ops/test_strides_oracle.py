"""Strides of results, of `.grad` and of grad(), beside those of PyTorch, for inputs in other layouts than row-major."""

import numpy as np
import pytest
from op_db import Call, as_tuple, values
from op_oracle import torch_call
from op_rows import ROWS
from public_calls import CALLS, flat

import autograd_gpu as ag
from autograd_gpu.autograd.backward import backward, grad
from autograd_gpu.core.declare.op import REGISTRY

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.cpu, pytest.mark.filterwarnings("ignore::UserWarning")]


def row_major(array):
    return array


def permuted(array):
    """The last dimension is the outermost in memory."""
    return np.moveaxis(np.moveaxis(array, -1, 0).copy(), 0, -1) if array.ndim else array


def stepped(array):
    """Every second element in each dimension of a block whose dimensions are reversed in memory."""
    block = np.zeros([2 * n for n in reversed(array.shape)], array.dtype).T
    view = block[(*[slice(None, None, 2)] * array.ndim, ...)]
    view[...] = array
    return view


def expanded(array):
    return np.broadcast_to(array[:1].copy(), array.shape) if array.ndim and array.size else array


LAYOUTS = (permuted, stepped, expanded)


def to_torch(array):
    """The array as a tensor with the same strides in memory of its own."""
    steps = [0 if n < 2 else step // array.itemsize for n, step in zip(array.shape, array.strides, strict=True)]
    size = 1 + sum((n - 1) * step for n, step in zip(array.shape, steps, strict=True)) if array.size else 0
    dtype = torch.from_numpy(np.empty(0, array.dtype)).dtype
    tensor = torch.zeros(size, dtype=dtype).as_strided(array.shape, steps)
    once = (*[slice(0, 1) if step == 0 else slice(None) for step in steps], ...)
    tensor[once] = torch.from_numpy(np.array(array[once], order="C"))
    return tensor


def order(tensor):
    """The strides of the dimensions that have several elements."""
    return [step for n, step in zip(tensor.shape, tensor.stride(), strict=True) if n != 1] if tensor.numel() else []


def run(row, sample, layout):
    """(A call of the op, PyTorch's inputs, PyTorch's results); None if PyTorch does not take it."""
    call, inputs = Call(row, sample, layout=layout), []

    def convert(value):
        if isinstance(value, list):
            return [convert(item) for item in value]
        if not hasattr(value, "_array"):
            return value
        tensor = to_torch(value._array)
        if any(value is x for x in call.inputs):
            inputs.append(tensor.requires_grad_())
        return tensor

    args = [convert(value) for value in call.args]
    try:
        outs = as_tuple(torch_call(row, args, sample.kwargs))
    except (RuntimeError, TypeError):
        return None
    return call.run(), inputs, outs


def runs(row, *layouts):
    """The runs of up to ten samples that have a matrix, which differ in shapes or attributes."""
    samples = list({repr(s): s for s in row.draw() if any(a.size > 1 < a.ndim for a in s.arrays)}.values())
    chosen = samples[:: -(-len(samples) // 10) or 1]
    return [result for s in chosen for layout in layouts if (result := run(row, s, layout))]


def differentiable(call, outs):
    """Results with a gradient in both libraries, as two lists; those of the call are its only ones from then on."""
    pairs = [(o, t) for o, t in zip(call.outs, outs, strict=True) if o.requires_grad and t.requires_grad]
    call.outs = tuple(o for o, _ in pairs)
    return call.outs, [t for _, t in pairs]


REAL_SPECTRUM = ("eig", "eigvals")  # expanded matrices have complex eigenvalues
OF_STREAMS = ("activation_jet", "chain_stream")  # not in PyTorch; the result lies in memory as the stream does
ROWS = [row for row in ROWS if row.op in REGISTRY and row.compared("oracle_forward") == "yes"
        and row.op not in (*REAL_SPECTRUM, *OF_STREAMS)]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=[row.op for row in ROWS])
def test_an_op(row):
    """Results of ops that keep the layout have PyTorch's strides, all others too or are row-major; `.grad` always."""
    op = row.definition
    for call, inputs, outs in runs(row, *LAYOUTS):
        for ours, theirs in zip(call.outs, outs, strict=True):
            itself = not op.view and any(theirs is x or theirs._base is x for x in inputs)  # here it is a copy
            if ours.shape != tuple(theirs.shape) or itself or order(ours) == order(theirs):
                continue
            broadcast = len({t.shape for _, t in call.tensors}) > 1 and not theirs.is_contiguous()
            assert broadcast or (op.contiguous and ours.is_contiguous()), call.sample
        mine, others = differentiable(call, outs)
        if mine and row.compared("oracle_grad") == "yes":
            gradients = call.cotangents()
            with np.errstate(all="ignore"):  # an expanded matrix has equal singular values
                backward(mine, gradients)
            torch.autograd.backward(others, [torch.tensor(values(g)) for g in gradients])
            for ours, theirs in zip(call.inputs, inputs, strict=True):
                if ours.grad is not None and theirs.grad is not None:
                    assert order(ours.grad) == order(theirs.grad), call.sample


@pytest.mark.parametrize("row", ROWS, ids=[row.op for row in ROWS])
def test_gradients_by_row_major_inputs(row):
    """grad() returns contiguous tensors wherever PyTorch does, for contiguous cotangents."""
    for call, inputs, outs in runs(row, row_major) if row.compared("oracle_grad") == "yes" else ():
        mine, others = differentiable(call, outs)
        gradients = call.cotangents()
        grads = grad(mine, call.inputs, gradients, allow_unused=True)
        expected = torch.autograd.grad(others, inputs, [torch.tensor(values(g)) for g in gradients], allow_unused=True)
        for ours, theirs in zip(grads, expected, strict=True):
            if ours is not None and theirs is not None:
                assert ours.is_contiguous() or not theirs.is_contiguous(), call.sample


@pytest.mark.parametrize("name", CALLS)
def test_a_function_made_of_ops(name):
    """It returns row-major tensors wherever PyTorch does."""
    for function, *shapes in CALLS[name]:
        for layout in (permuted, stepped):
            arrays = [layout(np.random.default_rng(3).normal(size=shape)) for shape in shapes]
            try:
                expected = flat(function(torch, *map(to_torch, arrays)))
            except RuntimeError:  # .view of such a tensor
                continue
            for ours, theirs in zip(flat(function(ag, *map(ag.from_numpy, arrays))), expected, strict=True):
                if isinstance(ours, ag.Tensor):
                    assert ours.is_contiguous() or not theirs.is_contiguous(), shapes
