"""grad and backward: check the arguments and run a GraphTask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import backend
from ..backend import is_array
from ..backend.arrays.dtypes import STORAGE
from ..core.declare.op import RECORD
from ..core.engine.execute import execute
from ..core.engine.grad_buffers import zeros
from ..core.engine.task_state import Capture, Root
from ..core.graph.leaf import AccumulateGrad
from ..core.graph.node import Node
from ..core.interpret.batched import Batching, batched
from ..core.interpret.interpreters import below, entered, in_transform
from ..core.interpret.level_tensor import LevelTensor
from ..core.tensor import Tensor, wrap, wrap_given
from ..modes import MODES, TRANSFORMED
from .edges import GradientEdge, capture_of, internal_nr

Output = Tensor | GradientEdge
Outputs = Output | Sequence[Output]
Grads = Tensor | None | Sequence[Tensor | None]


def grad(
    outputs: Outputs,
    inputs: Outputs,
    grad_outputs: Grads = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """The gradients of `outputs` with respect to `inputs`, one per input; computes no other gradients.

    outputs, inputs: tensors or GradientEdges, one or a sequence. `.grad` of leaves is not changed.
    grad_outputs: the cotangent of each output, of the output's shape; None for a one-element output means 1.
    retain_graph: keep the saved tensors for another call; default: the value of create_graph.
    create_graph: record the computation, so that the result can be differentiated.
    only_inputs: for compatibility with PyTorch; must be True, since other gradients are never accumulated.
    allow_unused: return None for an input that is not reached, instead of a RuntimeError.
    is_grads_batched: dimension 0 of every grad_output is a batch of cotangents; so is dimension 0 of the result. Each
        rule runs once, on the whole batch, so hooks see the gradients of all cotangents as one (see `ag.func.vmap`).
    materialize_grads: zeros instead of None; with create_graph they require grad.

    >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
    >>> ag.autograd.grad((x ** 3).sum(), x)
    (tensor([ 3., 12.]),)
    """
    if not only_inputs:
        raise ValueError("grad: only_inputs=False is not supported; use backward() to accumulate gradients in leaves")
    if allow_unused is None:
        allow_unused = materialize_grads
    elif materialize_grads and not allow_unused:
        raise ValueError("Expected allow_unused to be True or not passed when materialize_grads=True, "
                         "but got: allow_unused=False.")
    outputs, inputs = _several(outputs), _several(inputs)
    if not inputs:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    if is_grads_batched:
        return _batched(outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused, materialize_grads)
    roots = _roots(outputs, grad_outputs)
    captures = _captures(inputs)
    grads = execute(roots, captures, False, create_graph if retain_graph is None else retain_graph, create_graph)
    for i, g in enumerate(grads):
        if g is None:
            grads[i] = _unused(i, captures[i], allow_unused, materialize_grads, create_graph)
    return tuple(grads)


def _unused(
    i: int, capture: Capture, allowed: bool, materialize: bool, create_graph: bool, batch: tuple[int, ...] = ()
) -> Tensor | None:
    """The result of `grad` for input `i`, which was not reached; `batch` is the size of a batch of cotangents."""
    if not allowed:
        raise RuntimeError(f"The differentiated Tensor at index {i} appears to not have been used in the graph. "
                           "Set allow_unused=True if this is the desired behavior.")
    if not materialize:
        return None
    result = wrap(zeros(capture[2]))
    return (result.new_zeros((*batch, *result.shape)) if batch else result).requires_grad_(create_graph)


def backward(
    tensors: Outputs,
    grad_tensors: Grads = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Outputs | None = None,
) -> None:
    """Adds the gradients of `tensors` to `.grad` of the leaves, or of `inputs` only.

    Arguments as in `grad`. A leaf's `.grad` is complete, and its hooks run, after its last contribution. A non-leaf
    tensor among `inputs` gets `retain_grad()`; for the GradientEdge of one backward only runs down to it. RuntimeError
    inside of a function transform: `ag.func.grad` and `ag.func.vjp` compute gradients there.

    >>> x = ag.tensor(3.0, requires_grad=True)
    >>> ag.autograd.backward(x * x)
    >>> x.grad
    tensor(6.)
    """
    if MODES.bits & TRANSFORMED and in_transform():
        raise RuntimeError("backward() called inside of a function transform. This is not supported, please use "
                           "ag.func.grad or ag.func.vjp instead or call backward() outside of function transforms.")
    tensors = _several(tensors)
    keep = create_graph if retain_graph is None else retain_graph
    roots = _roots(tensors, grad_tensors)
    if inputs is None:
        execute(roots, None, True, keep, create_graph)
        return
    inputs = _several(inputs)
    if not inputs:
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    captures = _captures(inputs)
    leaves: set[Node] = {node for node, _, _ in captures if isinstance(node, AccumulateGrad)}
    for item, capture in zip(inputs, captures, strict=True):
        if isinstance(item, Tensor) and capture[0] not in leaves:
            item.retain_grad()
    execute(roots, [capture for capture in captures if capture[0] not in leaves], True, keep, create_graph, leaves)


def tensor_backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Outputs | None = None,
) -> None:
    """Adds the gradients of this tensor to `.grad` of the leaves of its graph; see `ag.autograd.backward`."""
    backward(self, gradient, retain_graph, create_graph, inputs)


Tensor.backward = tensor_backward  # type: ignore[method-assign]


def _several(items: Outputs) -> Sequence[Output]:
    """One tensor or edge, or a sequence of them, as a sequence."""
    if type(items) is list:
        return items
    return (items,) if isinstance(items, (Tensor, GradientEdge)) else tuple(items)


def _captures(inputs: Sequence[Output]) -> list[Capture]:
    captures: list[Capture] = []
    for item in inputs:
        if isinstance(item, Tensor):
            node = item._fn if item._base is None else item._node
            if node is None:
                raise RuntimeError("One of the differentiated Tensors does not require grad")
            captures.append((node, item._nr, item._array))
        elif type(item) is GradientEdge:
            captures.append(capture_of(item))
        else:
            raise TypeError(f"all inputs have to be Tensors or GradientEdges, but got {type(item).__name__}")
    return captures


def _roots(outputs: Sequence[Output], grads: Grads) -> list[Root]:
    """(node, nr, gradient) per output, gradients checked."""
    if grads is None:
        grads = (None,) * len(outputs)
    elif isinstance(grads, Tensor) or is_array(grads):
        grads = (grads,)  # type: ignore[assignment]
    elif isinstance(grads, (bool, int, float)):
        grads = (_gradient(grads, 0),)
    if len(grads) != len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(grads)} gradients")
    roots: list[Root] = []
    for i, output in enumerate(outputs):
        g = grads[i]
        if g is not None and not isinstance(g, Tensor):
            g = _gradient(g, i)
        if isinstance(output, Tensor):
            if type(output) is not Tensor and isinstance(output, LevelTensor):
                raise RuntimeError(f"element {i} of tensors belongs to a function transform (vmap, or grad inside of "
                                   "another one), which autograd cannot run through; use ag.func.grad or ag.func.vjp "
                                   "there, or differentiate the result of the transform")
            node = output._fn if output._base is None else output._node
            if node is None:
                raise RuntimeError(f"element {i} of tensors does not require grad and does not have a grad_fn")
            array = output._array
            if g is None:
                g = _implicit(array)
            elif g._array.shape != array.shape:
                raise _mismatch(i, g.shape, array.shape)
            elif g._array.dtype is not array.dtype:
                g = _cast(g, array.dtype)
            roots.append((node, output._nr, g))
        elif type(output) is GradientEdge:
            roots.append((output.node, internal_nr(output), _edge_gradient(output, g, i)))
        else:
            raise TypeError(f"element {i} of tensors must be a Tensor or a GradientEdge, not {type(output).__name__}")
    return roots


def _gradient(value: Any, i: int) -> Tensor:
    if not is_array(value):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(value).__name__} for output {i}")
    return wrap_given(value)


def _implicit(array: Any) -> Tensor:
    if array.size != 1:
        raise RuntimeError("grad can be implicitly created only for scalar outputs")
    if type(array) is np.ndarray and not array.ndim:
        return wrap(np.array(1, array.dtype))  # in a tenth of the time of ones_like
    return wrap(backend.namespace(array).ones_like(array))


def _cast(g: Tensor, dtype: np.dtype) -> Tensor:
    if g.dtype in STORAGE:
        raise RuntimeError(f"expected a gradient to compute with for an output of dtype {dtype}, got {g.dtype}")
    return RECORD.cast(g, dtype) if g.dtype != dtype else g


def _mismatch(i: int, shape: tuple[int, ...], expected: tuple[int, ...]) -> RuntimeError:
    return RuntimeError(f"Mismatch in shape: grad_output[{i}] has a shape of {shape} and output[{i}] has a shape of "
                        f"{expected}.")


def _edge_gradient(edge: GradientEdge, g: Tensor | None, i: int) -> Tensor:
    if g is not None:
        if edge.shape is not None and g.shape != edge.shape:
            raise _mismatch(i, g.shape, edge.shape)
        return g if edge.dtype is None else _cast(g, edge.dtype)
    if edge.shape is None or int(np.prod(edge.shape)) != 1:
        raise RuntimeError("grad can be implicitly created only for scalar outputs")
    return wrap(backend.make(edge.device or backend.CPU, "ones", edge.shape, edge.dtype))


def _batched(
    outputs: Sequence[Output], inputs: Sequence[Output], grads: Grads, retain_graph: bool | None, create_graph: bool,
    allow_unused: bool, materialize_grads: bool,
) -> tuple[Any, ...]:
    """`grad` with is_grads_batched: one task for all cotangents, under a level of vmap."""
    several = (grads,) if isinstance(grads, Tensor) else tuple(grads or ())
    gs = [g if g is None or isinstance(g, Tensor) else _gradient(g, i) for i, g in enumerate(several)]
    sizes = {g.shape[0] for g in gs if g is not None and g.ndim}
    if len(sizes) != 1:
        raise RuntimeError("is_grads_batched=True needs grad_outputs whose dimension 0 is the same batch size; "
                           f"got sizes {sorted(sizes)}")
    size = sizes.pop()
    if size == 0:
        raise IndexError("index 0 is out of bounds for dimension 0 with size 0: is_grads_batched=True needs at least "
                         "one cotangent; without one, take zeros of shape (0, *input.shape)")
    for i, (output, g) in enumerate(zip(outputs, gs, strict=False)):
        if g is not None and isinstance(output, (Tensor, GradientEdge)) and output.shape not in (None, g.shape[1:]):
            raise _batch_mismatch(i, g.shape, output.shape)
    keep = create_graph if retain_graph is None else retain_graph
    with entered(Batching(size)) as level:
        roots = _roots(outputs, [None if g is None else batched(level, g) for g in gs])
        captures = _captures(inputs)
        results = execute(roots, captures, False, keep, create_graph)
        with below(level):
            return tuple([
                _unused(i, captures[i], allow_unused, materialize_grads, create_graph, (size,)) if g is None
                else level.whole(g) if level.holds(g) else RECORD.contiguous_copy(level.whole(g))
                for i, g in enumerate(results)
            ])


def _batch_mismatch(i: int, shape: tuple[int, ...], expected: tuple[int, ...] | None) -> RuntimeError:
    return RuntimeError("If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch "
                        "dimension. The sizes of the remaining dimensions are expected to match the shape of "
                        f"corresponding output, but a mismatch was detected: grad_output[{i}] has a shape of {shape} "
                        f"and output[{i}] has a shape of {expected}. Cotangents that are not batched go to a call of "
                        "their own.")
