"""Jacobians and Hessians of a function at a point, and their products with vectors: torch.autograd.functional."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..core.declare.op import RECORD
from ..core.engine.grad_buffers import zeros
from ..core.tensor import Tensor, wrap
from ..modes import enable_grad
from .backward import grad
from .strict_checks import check_reached, check_requires_grad, filled
from .vectorized import by_columns, by_rows

Tensors = tuple[Tensor, ...]
Function = Callable[..., Any]
Structure = Tensor | Tensors

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


def vjp(
    func: Function, inputs: Structure, v: Structure | None = None, create_graph: bool = False, strict: bool = False
) -> tuple[Structure, Structure]:
    """(func(*inputs), v @ J): the vector-Jacobian product, in one backward.

    func: takes the inputs, a tensor or a tuple of them, and returns a tensor or a tuple. v: like the outputs; optional
    for one output of one element. The product has the structure, shapes and dtypes of the inputs.
    create_graph: outputs and product are differentiable, also with respect to inputs that require grad; else they are
    detached. strict: RuntimeError for an input that no output depends on, instead of zeros.

    >>> x = ag.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> ag.autograd.functional.vjp(lambda x: (x * x).sum(1), x, ag.tensor([1.0, 10.0]))
    (tensor([ 5., 25.]), tensor([[ 2.,  4.],
            [60., 80.]]))
    """
    with enable_grad():
        point, several_in = _point(inputs, "vjp", create_graph)
        outputs, several_out = _outputs(func, point, "vjp", strict)
        cotangents = _vector(v, outputs, several_out, "vjp")
    results = _gradients(outputs, point, cotangents, create_graph)
    if strict:
        check_reached(results, "vjp", create_graph)
    return _unpacked(_cut(outputs, create_graph), several_out), _unpacked(filled(results, point), several_in)


def jvp(
    func: Function, inputs: Structure, v: Structure | None = None, create_graph: bool = False, strict: bool = False
) -> tuple[Structure, Structure]:
    """(func(*inputs), J @ v): the Jacobian-vector product, by double backward.

    v: like the inputs; optional for one input of one element. The product is like the outputs. Other arguments as in
    `vjp`. Runs two backwards: w @ J is linear in w, and the vector-Jacobian product of that with v is J @ v.

    >>> ag.autograd.functional.jvp(lambda x: x ** 2, ag.tensor([1.0, 3.0]), ag.tensor([1.0, 10.0]))
    (tensor([1., 9.]), tensor([ 2., 60.]))
    """
    with enable_grad():
        point, several_in = _point(inputs, "jvp", create_graph)
        tangents = _vector(v, point, several_in, "jvp")
        outputs, several_out = _outputs(func, point, "jvp", strict)
        dummies = _dummies(outputs)  # any finite values give the same result
        grad_inputs = _gradients(outputs, point, dummies, create_graph=True)
        if strict:
            check_requires_grad(grad_inputs, "grad_inputs")
    results = _gradients(grad_inputs, dummies, tangents, create_graph)
    if strict:
        check_reached(results, "jvp", create_graph)
    return _unpacked(_cut(outputs, create_graph), several_out), _unpacked(filled(results, outputs), several_out)


def jacobian(
    func: Function, inputs: Structure, create_graph: bool = False, strict: bool = False, vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of func at the inputs, by one backward per output element, or all at once.

    func: takes the inputs, a tensor or a tuple of them, and returns a tensor or a tuple. The result has shape
    output.shape + input.shape and the input's dtype. It is a tuple over the inputs, or over the outputs, if those are a
    tuple, and indexed [i][j] by output i and input j if both are.
    create_graph: the result is differentiable, also with respect to inputs that require grad; else it is detached.
    strict: RuntimeError if an output does not depend on an input, instead of zeros.
    vectorize: one backward for all output elements, on a batch of cotangents: faster, with more memory.
    strategy: "reverse-mode", or "forward-mode", which is faster for few input elements and many output elements. It
        needs vectorize=True, and gives the outputs' dtype; NotImplementedError with create_graph.

    >>> ag.autograd.functional.jacobian(lambda x: x ** 2, ag.tensor([1.0, 3.0]))
    tensor([[2., 0.],
            [0., 6.]])
    """
    _check_strategy(strategy)
    if strategy == "forward-mode":
        return _by_forward_mode(func, inputs, create_graph, strict, vectorize, False)
    with enable_grad():
        point, several_in = _point(inputs, "jacobian", create_graph)
        outputs, several_out = _outputs(func, point, "jacobian", strict)
        _check_vectorize(vectorize, strict)
        if vectorize:
            rows = by_rows(outputs, point, create_graph)
        else:
            rows = [_rows(i, out, point, create_graph, strict) for i, out in enumerate(outputs)]
    return _unpacked([_unpacked(row, several_in) for row in rows], several_out)


def hessian(
    func: Function, inputs: Structure, create_graph: bool = False, strict: bool = False, vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The Hessian of func at the inputs; func returns a tensor of one element.

    The result has shape input.shape + input.shape; for a tuple of inputs it is a tuple of tuples, indexed [i][j] by
    inputs i and j, with the dtype of input j. Runs one backward, and a double backward per element of the inputs, or
    one for all with vectorize=True. outer_jacobian_strategy="forward-mode" runs forward mode over reverse mode.
    Gradients for the weights of `func` are not computed, nor structural zeros, such as the derivative of relu's slope,
    which have no graph even with create_graph. strict: RuntimeError if the gradient for an input does not depend on the
    inputs, instead of zeros. Other arguments as in `jacobian`.

    >>> ag.autograd.functional.hessian(lambda x: x[0] ** 2 * x[1], ag.tensor([1.0, 3.0]))
    tensor([[6., 2.],
            [2., 0.]])
    """
    _check_tensors(inputs, "inputs", "hessian")
    _check_strategy(outer_jacobian_strategy)
    backward_again = outer_jacobian_strategy == "reverse-mode"

    def gradient(*point: Tensor) -> Tensors:
        output = _scalar(func, point, "hessian", strict)
        grads = filled(_gradients((output,), point, None, create_graph=backward_again), point)
        if strict:
            check_requires_grad(grads, "jacobian")
        return grads

    if backward_again:
        rows = jacobian(gradient, inputs, create_graph, strict, vectorize)
    else:
        rows = _by_forward_mode(gradient, inputs, create_graph, strict, vectorize, True)
    return rows if isinstance(inputs, tuple) else rows[0]


def vhp(
    func: Function, inputs: Structure, v: Structure | None = None, create_graph: bool = False, strict: bool = False
) -> tuple[Tensor, Structure]:
    """(func(*inputs), v @ H): the vector-Hessian product of a function with a one-element result, in two backwards.

    v: like the inputs; optional for one input of one element. The product is like the inputs. create_graph and strict
    as in `hessian`.

    >>> x, v = ag.tensor([1.0, 3.0]), ag.tensor([1.0, 0.0])
    >>> ag.autograd.functional.vhp(lambda x: x[0] ** 2 * x[1], x, v)
    (tensor(3.), tensor([6., 2.]))
    """
    with enable_grad():
        point, several = _point(inputs, "vhp", create_graph)
        cotangents = _vector(v, point, several, "vhp")
        output = _scalar(func, point, "vhp", strict)
        gradient = _gradients((output,), point, None, create_graph=True)
        if strict:
            check_requires_grad(gradient, "jacobian")
    results = _gradients(gradient, point, cotangents, create_graph)
    if strict:
        check_reached(results, "vhp", create_graph)
    return _cut((output,), create_graph)[0], _unpacked(filled(results, point), several)


def hvp(
    func: Function, inputs: Structure, v: Structure | None = None, create_graph: bool = False, strict: bool = False
) -> tuple[Tensor, Structure]:
    """(func(*inputs), H @ v): the Hessian-vector product, in three backwards.

    For a twice continuously differentiable function it equals `vhp`, which is faster. Arguments as in `vhp`.

    >>> x, v = ag.tensor([1.0, 3.0]), ag.tensor([1.0, 0.0])
    >>> ag.autograd.functional.hvp(lambda x: x[0] ** 2 * x[1], x, v)
    (tensor(3.), tensor([6., 2.]))
    """
    with enable_grad():
        point, several = _point(inputs, "hvp", create_graph)
        tangents = _vector(v, point, several, "hvp")
        output = _scalar(func, point, "hvp", strict)
        gradient = _gradients((output,), point, None, create_graph=True)
        if strict:
            check_requires_grad(gradient, "jacobian")
        dummies = _dummies(point)
        product = _gradients(gradient, point, dummies, create_graph=True)
    results = _gradients(product, dummies, tangents, create_graph)
    if strict:
        check_reached(results, "hvp", create_graph)
    return _cut((output,), create_graph)[0], _unpacked(filled(results, point), several)


def _check_tensors(values: Any, what: str, function: str) -> None:
    for i, value in enumerate(values if isinstance(values, tuple) else (values,)):
        if not isinstance(value, Tensor):
            subject = f"the value at index {i}" if isinstance(values, tuple) else f"the given {what}"
            raise TypeError(f"The {what} given to {function} must be either a Tensor or a tuple of Tensors but "
                            f"{subject} has type {type(value)}.")


def _tensors(values: Any, what: str, function: str) -> tuple[Tensors, bool]:
    """`values` as a tuple, and whether it was one; TypeError for values that are not tensors."""
    _check_tensors(values, what, function)
    return (values, True) if isinstance(values, tuple) else ((values,), False)


def _unpacked(values: Sequence[Any], several: bool) -> Any:
    return tuple(values) if several else values[0]


def _point(inputs: Structure, function: str, create_graph: bool) -> tuple[Tensors, bool]:
    """The inputs as new tensors that require grad, and whether they were a tuple.

    New tensors, so that an input that the function also uses directly is a constant there.
    """
    tensors, several = _tensors(inputs, "inputs", function)
    linked = [x.view_as(x) if create_graph and x.requires_grad else x.detach().requires_grad_() for x in tensors]
    return tuple(linked), several


def _outputs(func: Function, point: Tensors, function: str, strict: bool) -> tuple[Tensors, bool]:
    """func(*point) as a tuple, and whether it was one."""
    outputs, several = _tensors(func(*point), "outputs of the user-provided function", function)
    if strict:
        check_requires_grad(outputs, "outputs")
    return outputs, several


def _scalar(func: Function, point: Tensors, function: str, strict: bool) -> Tensor:
    outputs, several = _outputs(func, point, function, strict)
    if several:
        raise RuntimeError(f"The function given to {function} should return a single Tensor")
    if outputs[0].numel() != 1:
        raise RuntimeError(f"The Tensor returned by the function given to {function} should contain a single element")
    return outputs[0]


def _vector(v: Structure | None, like: Tensors, several: bool, function: str) -> Tensors | None:
    """v as a tuple, checked against the tensors `like`; None, which means 1, is returned as it is."""
    if v is None:
        if len(like) == 1 and like[0].numel() == 1:
            return None
        source = "user-provided function returns" if function == "vjp" else "input to the user-provided function is"
        raise RuntimeError(f"The vector v can only be None if the {source} a single Tensor with a single element.")
    vectors, _ = _tensors(v, "v", function)
    if len(vectors) != len(like):
        raise RuntimeError(f"v is a tuple of invalid length: should be {len(like)} but got {len(vectors)}." if several
                           else "The given v should contain a single Tensor.")
    for i, (vector, x) in enumerate(zip(vectors, like, strict=True)):
        if vector.shape != x.shape:
            raise RuntimeError(f"{f'Entry {i} in ' if several else ''}v has invalid size: should be "
                               f"torch.Size({list(x.shape)}) but got torch.Size({list(vector.shape)}).")
    return vectors


def _dummies(like: Tensors) -> Tensors:
    """Zeros to differentiate by: what is linear in them has a derivative that does not depend on their values."""
    return tuple([wrap(zeros(x.array)).requires_grad_() for x in like])


def _cut(outputs: Tensors, create_graph: bool) -> Tensors:
    return outputs if create_graph else tuple([out.detach() for out in outputs])


def _gradients(
    outputs: Sequence[Tensor | None], inputs: Tensors, cotangents: Tensors | None, create_graph: bool,
    retain_graph: bool | None = None,
) -> Sequence[Tensor | None]:
    """`grad` of the outputs that require grad, with None for an input that is not reached."""
    kept = [i for i, out in enumerate(outputs) if out is not None and out.requires_grad]
    roots: list[Any] = [outputs[i] for i in kept]
    gs = None if cotangents is None else [cotangents[i] for i in kept]
    return grad(roots, inputs, gs, retain_graph, create_graph, allow_unused=True)


def _rows(i: int, out: Tensor, point: Tensors, create_graph: bool, strict: bool) -> Tensors:
    """The Jacobian of output i for each input: one backward per element, none for a constant output."""
    columns: list[list[Tensor | None]] = [[] for _ in point]
    for one in _basis(out) if out.requires_grad else ():
        grads = _gradients((out,), point, (one,), create_graph, retain_graph=True)
        if strict:
            check_reached(grads, "jacobian", create_graph, i)
        for column, g in zip(columns, grads, strict=True):
            column.append(g)
    shapes = [out.shape + x.shape for x in point]
    return tuple([x.new_zeros(shape) if (rows := _stacked(column)) is None else rows.reshape(shape)
                  for column, x, shape in zip(columns, point, shapes, strict=True)])  # fmt: skip


def _stacked(rows: Sequence[Tensor | None]) -> Tensor | None:
    """The stacked gradients of one input, zeros for a row of None; None if all rows are None."""
    like = next((g for g in rows if g is not None), None)
    return None if like is None else RECORD.stack([like.new_zeros(like.shape) if g is None else g for g in rows])


def _construct_standard_basis_for(tensors: Sequence[Tensor], tensor_numels: Sequence[int]) -> Tensors:
    """The columns of the identity that belong to each tensor, by PyTorch's private name, which libraries use."""
    total = sum(tensor_numels)
    starts = [sum(tensor_numels[:i]) for i in range(len(tensors))]
    chunks = [x.new_zeros((total, n)) for x, n in zip(tensors, tensor_numels, strict=True)]
    for chunk, start, n in zip(chunks, starts, tensor_numels, strict=True):
        chunk.diagonal(-start)[:n].fill_(1)
    return tuple(chunks)


def _as_tuple(inp: Any, arg_name: str, fn_name: str) -> tuple[bool, Tensors]:
    """Whether `inp` was a tuple, and its tensors as one, by PyTorch's private name, like the two that follow."""
    tensors, several = _tensors(inp, arg_name, fn_name)
    return several, tensors


def _grad_postprocess(inputs: Any, create_graph: bool) -> Any:
    """The tensors, in a tuple or in a tuple of tuples, detached unless `create_graph` is true."""
    return tuple([x if create_graph or x is None else x.detach() if isinstance(x, Tensor) else
                  _grad_postprocess(x, create_graph) for x in inputs])  # fmt: skip


def _tuple_postprocess(res: Any, to_unpack: bool | tuple[bool, bool]) -> Any:
    """`res` without the tuples of one element for which `to_unpack` is false: outer and inner ones, if it is a pair."""
    if isinstance(to_unpack, tuple):
        outer, inner = to_unpack
        return _unpacked([_unpacked(row, inner) for row in res], outer)
    return _unpacked(res, to_unpack)


def _basis(out: Tensor) -> Iterator[Tensor]:
    """For each element of `out`, a tensor like it that is 1 at the element and 0 elsewhere."""
    for j in range(out.numel()):
        array = zeros(out.array)
        array.reshape(-1)[j] = 1
        yield wrap(array)


def _by_forward_mode(
    func: Function, inputs: Structure, create_graph: bool, strict: bool, vectorize: bool, has_backward: bool
) -> Any:
    """`jacobian` with strategy="forward-mode". has_backward: func runs a backward, so the inputs require grad."""
    for name, flag in (("create_graph", create_graph), ("strict", strict)):
        if flag:
            raise (NotImplementedError if name == "create_graph" else RuntimeError)(
                f'autograd.functional.jacobian: `{name}=True` and `strategy="forward-mode"` are not supported together '
                f'(yet). Please either set `{name}=False` or `strategy="reverse-mode"`.')
    if not vectorize:
        raise NotImplementedError("Computing Jacobian using forward-AD or forward-over-reverse Hessian is only "
                                  "implemented for `vectorize=True`.")
    tensors, several_in = _tensors(inputs, "inputs", "jacobian")
    point = [x.detach().requires_grad_() if has_backward else x.detach() for x in tensors]
    several_out = False

    def outputs_at(*duals: Tensor) -> Tensors:
        nonlocal several_out
        outputs, several_out = _outputs(func, duals, "jacobian", False)
        return outputs

    rows = [_unpacked(row, several_in) for row in by_columns(outputs_at, point)]
    return _unpacked(rows, several_out)


def _check_strategy(strategy: str) -> None:
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(f'Expected strategy to be either "forward-mode" or "reverse-mode". Got {strategy!r}.')


def _check_vectorize(vectorize: bool, strict: bool) -> None:
    if vectorize and strict:
        raise RuntimeError("autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported "
                           "together. Please either set `strict=False` or `vectorize=False`.")
