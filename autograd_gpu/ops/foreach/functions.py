"""The functions of ag.foreach: torch._foreach_*'s, without the prefix.

Each function below turns its arguments into the call of a list op; its decorator declares that op, and makes the public
function and the in-place form.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any

from ...core.extend import RECORD, REGISTRY, Tensor, as_number, public
from .arguments import ListCall, column, listed, numbers, prepared, tensors
from .columns import LIST, Each
from .derive import derived
from .inplace import in_place


def run(call: ListCall) -> tuple[Tensor, ...]:
    call = prepared(call)
    outs: tuple[Tensor, ...] = getattr(RECORD, f"foreach_{call.op.name}")(call.tensors, call.columns)
    return outs


def _function(of: str, inplace: bool = True) -> Callable[[Callable[..., ListCall]], Callable[..., ListCall]]:
    """Decorates a function that returns a call of the op on lists of `of`: makes ag.foreach's functions of its name."""

    def decorate(call: Callable[..., ListCall]) -> Callable[..., ListCall]:
        if f"foreach_{of}" not in REGISTRY:
            derived(of, call.__doc__ or "", __name__)

        def function(*args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
            return run(call(*args, **kwargs))

        public(f"foreach.{call.__name__}")(_shown(function, call, "tuple[Tensor, ...]"))
        if inplace:
            written = _shown(in_place(call), call, "list[Tensor]")
            written.__name__ = written.__qualname__ = f"{call.__name__}_"
            written.__doc__ = f"`{call.__name__}`, written into the tensors of the first list; returns them."
            public(f"foreach.{call.__name__}_")(written)
        return call

    return decorate


def _shown(function: Callable[..., Any], call: Callable[..., ListCall], result: str) -> Any:
    """`function` with the name, parameters and docstring of `call`."""
    functools.update_wrapper(function, call)
    function.__signature__ = inspect.signature(call).replace(return_annotation=result)  # type: ignore[attr-defined]
    return function


def _call(of: str, listed: list[Tensor], *columns: Any, **attributes: Any) -> ListCall:
    op = REGISTRY[of]
    return ListCall(op, listed, (*columns, *op.filled(attributes).values()))


# ---- functions of one list --------------------------------------------------------------------------

_UNARY = (
    "abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac", "lgamma",
    "log", "log10", "log1p", "log2", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt",
    "tan", "tanh", "trunc",
)  # fmt: skip


def _unary(name: str) -> Callable[..., ListCall]:
    """A function of one list, with the text and the example of the op on one tensor."""

    def call(input: Sequence[Tensor]) -> ListCall:
        return _call(name, listed(name, input), LIST)

    call.__name__ = call.__qualname__ = name
    text, _, example = inspect.cleandoc(REGISTRY[name].doc or "").partition("\n>>> ")
    example = example.partition("\n>>> ")[0]  # one is enough
    example = re.sub(rf"\bag\.(special\.)?{name}\((.*)\)\n(.*)", rf"ag.foreach.{name}([\2])\n(\3,)", example)
    call.__doc__ = f"For each tensor: {text}\n>>> {example}"
    return call


for _name in _UNARY:
    _function(_name)(_unary(_name))


@_function("clone", inplace=False)
def clone(input: Sequence[Tensor]) -> ListCall:
    """A copy of each tensor; differentiable.

    >>> ag.foreach.clone([ag.ones(2), ag.zeros(1)])
    (tensor([1., 1.]), tensor([0.]))
    """
    return _call("clone", listed("clone", input), LIST)


@_function("amax", inplace=False)
def max(input: Sequence[Tensor]) -> ListCall:
    """The largest element of each tensor; ties share the gradient equally.

    >>> ag.foreach.max([ag.tensor([1.0, 2.0]), ag.tensor([[3.0]])])
    (tensor(2.), tensor(3.))
    """
    return _call("amax", listed("max", input), LIST)


@_function("norm", inplace=False)
def norm(input: Sequence[Tensor], ord: float = 2, dtype: Any = None) -> ListCall:
    """The norm of order `ord` of each tensor: sum(|x| ** ord) ** (1 / ord), of inf the largest |x|; see ag.norm.

    >>> ag.foreach.norm([ag.tensor([3.0, 4.0]), ag.tensor([-2.0])])
    (tensor(5.), tensor(2.))
    """
    return _call("norm", listed("norm", input), LIST, p=float(as_number("foreach.norm", "ord", ord)), dtype=dtype)


@_function("sum", inplace=False)
def sum(input: Sequence[Tensor]) -> ListCall:
    """The sum of each tensor.

    >>> ag.foreach.sum([ag.tensor([3.0, 4.0]), ag.tensor([-2.0])])
    (tensor(7.), tensor(-2.))
    """
    return _call("sum", listed("sum", input), LIST)


# ---- functions of several lists ---------------------------------------------------------------------


def _two(of: str, name: str, input: Sequence[Tensor], other: Any, tensor: bool = False, **attributes: Any) -> ListCall:
    first = listed(name, input)
    entry, more = column(name, other, len(first), tensor)
    return _call(of, [*first, *more], LIST, entry, **attributes)


@_function("add")
def add(input: Sequence[Tensor], other: Any, *, alpha: float = 1) -> ListCall:
    """input + alpha * other of each element; `other`: a list of tensors or numbers, a number or a 0-d tensor.

    >>> ag.foreach.add([ag.ones(2), ag.zeros(1)], [ag.ones(2), ag.ones(1)], alpha=2)
    (tensor([3., 3.]), tensor([2.]))
    """
    return _two("add", "add", input, other, tensor=True, alpha=as_number("foreach.add", "alpha", alpha))


@_function("sub")
def sub(input: Sequence[Tensor], other: Any, *, alpha: float = 1) -> ListCall:
    """input - alpha * other of each element; `other`: a list of tensors or numbers, a number or a 0-d tensor.

    >>> ag.foreach.sub([ag.ones(2), ag.zeros(1)], 0.5)
    (tensor([0.5, 0.5]), tensor([-0.5]))
    """
    return _two("sub", "sub", input, other, tensor=True, alpha=as_number("foreach.sub", "alpha", alpha))


@_function("mul")
def mul(input: Sequence[Tensor], other: Any) -> ListCall:
    """input * other of each element; `other`: a list of tensors or numbers, a number or a 0-d tensor.

    >>> ag.foreach.mul([ag.ones(2), ag.ones(1)], [2.0, 3.0])
    (tensor([2., 2.]), tensor([3.]))
    """
    return _two("mul", "mul", input, other, tensor=True)


@_function("div")
def div(input: Sequence[Tensor], other: Any) -> ListCall:
    """input / other of each element; `other`: a list of tensors or numbers, a number or a 0-d tensor.

    >>> ag.foreach.div([ag.ones(2), ag.ones(1)], 2.0)
    (tensor([0.5, 0.5]), tensor([0.5]))
    """
    return _two("div", "div", input, other, tensor=True)


@_function("maximum")
def maximum(input: Sequence[Tensor], other: Any) -> ListCall:
    """The larger of input and other, of each element; `other`: a list of tensors or numbers, a number or a 0-d tensor.

    >>> ag.foreach.maximum([ag.tensor([1.0, 3.0])], 2.0)
    (tensor([2., 3.]),)
    """
    return _two("maximum", "maximum", input, other)


@_function("minimum")
def minimum(input: Sequence[Tensor], other: Any) -> ListCall:
    """The smaller of input and other, of each element; `other`: a list of tensors or numbers, a number or a 0-d tensor.

    >>> ag.foreach.minimum([ag.tensor([1.0, 3.0])], 2.0)
    (tensor([1., 2.]),)
    """
    return _two("minimum", "minimum", input, other)


def _limited(name: str, input: Sequence[Tensor], other: Any, is_low: bool) -> ListCall:
    first = listed(name, input)
    entry, more = column(name, other, len(first))
    return _call("clamp", [*first, *more], LIST, *((entry, None) if is_low else (None, entry)))


@_function("clamp")
def clamp_min(input: Sequence[Tensor], other: Any) -> ListCall:
    """`maximum`, but where both are equal the gradient goes to input.

    >>> ag.foreach.clamp_min([ag.tensor([1.0, 3.0])], 2.0)
    (tensor([2., 3.]),)
    """
    return _limited("clamp_min", input, other, is_low=True)


@_function("clamp")
def clamp_max(input: Sequence[Tensor], other: Any) -> ListCall:
    """`minimum`, but where both are equal the gradient goes to input.

    >>> ag.foreach.clamp_max([ag.tensor([1.0, 3.0])], 2.0)
    (tensor([1., 2.]),)
    """
    return _limited("clamp_max", input, other, is_low=False)


@_function("pow")
def pow(input: Any, exponent: Any) -> ListCall:
    """input ** exponent of each element; one of both may be a number, `exponent` also a list of numbers.

    >>> ag.foreach.pow([ag.tensor([2.0]), ag.tensor([3.0])], 2), ag.foreach.pow(2, [ag.tensor([3.0])])
    ((tensor([4.]), tensor([9.])), (tensor([8.]),))
    """
    if isinstance(input, (int, float)):
        return _call("pow", listed("pow", exponent), input, LIST)
    return _two("pow", "pow", input, exponent)


@_function("lerp")
def lerp(input: Sequence[Tensor], end: Sequence[Tensor], weight: Any) -> ListCall:
    """input + weight * (end - input) of each element; `weight`: a number, a list of numbers or of tensors.

    >>> ag.foreach.lerp([ag.zeros(1), ag.ones(1)], [ag.ones(1), ag.ones(1)], 0.25)
    (tensor([0.25]), tensor([1.]))
    """
    first = listed("lerp", input)
    ends = tensors("lerp", end, len(first))
    entry, more = column("lerp", weight, len(first))
    return _call("lerp", [*first, *ends, *more], LIST, LIST, entry)


def _with_value(
    name: str, input: Sequence[Tensor], tensor1: Sequence[Tensor], tensor2: Sequence[Tensor], value: Any
) -> ListCall:  # fmt: skip
    first = listed(name, input)
    n = len(first)
    if isinstance(value, Tensor) and value.ndim:
        if value.ndim > 1 or len(value) != n:
            raise RuntimeError(f"foreach.{name}(): Expected length of scalars to match input of length {n} but got "
                               f"{list(value.shape)} instead.")
        value = value.tolist()
    entry: float | Each = (numbers(name, value, n) if isinstance(value, (list, tuple))
                           else as_number(f"foreach.{name}", "value", value))
    lists = [*first, *tensors(name, tensor1, n), *tensors(name, tensor2, n)]
    return _call(name, lists, LIST, LIST, LIST, value=entry)


@_function("addcmul")
def addcmul(input: Sequence[Tensor], tensor1: Sequence[Tensor], tensor2: Sequence[Tensor], value: Any = 1) -> ListCall:
    """input + value * tensor1 * tensor2 of each element; `value`: a number, or one per element in a list or vector.

    Beside integers a value is cut to an integer, as in PyTorch.

    >>> ag.foreach.addcmul([ag.ones(1)], [ag.tensor([2.0])], [ag.tensor([3.0])], value=0.5)
    (tensor([4.]),)
    """
    call = _with_value("addcmul", input, tensor1, tensor2, value)
    if all(x.is_floating_point() for x in call.tensors[: len(input)]):
        return call
    values = call.columns[3] if type(call.columns[3]) is Each else [call.columns[3]] * len(input)
    whole = [not any(x.is_floating_point() for x in row) for row in zip(input, tensor1, tensor2, strict=True)]
    values = Each([int(v) if cut else v for v, cut in zip(values, whole, strict=True)])
    return call._replace(columns=(*call.columns[:3], values))


@_function("addcdiv")
def addcdiv(input: Sequence[Tensor], tensor1: Sequence[Tensor], tensor2: Sequence[Tensor], value: Any = 1) -> ListCall:
    """input + value * tensor1 / tensor2 of each element; `value`: a number, or one per element in a list or vector.

    >>> ag.foreach.addcdiv([ag.ones(1)], [ag.tensor([2.0])], [ag.tensor([4.0])], value=[2.0])
    (tensor([2.]),)
    """
    return _with_value("addcdiv", input, tensor1, tensor2, value)


@_function("mm", inplace=False)
def mm(input: Sequence[Tensor], mat2: Sequence[Tensor]) -> ListCall:
    """The product of the matrices of each element.

    >>> ag.foreach.mm([ag.ones(1, 2)], [ag.ones(2, 1)])
    (tensor([[2.]]),)
    """
    first = listed("mm", input)
    return _call("mm", [*first, *tensors("mm", mat2, len(first))], LIST, LIST)


# ---- made of list ops --------------------------------------------------------------------------------


@public("foreach.powsum")
def powsum(input: Sequence[Tensor], ord: float = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    """sum(|x| ** ord) of each tensor x, as `norm` without the root; converted to `dtype` first.

    >>> ag.foreach.powsum([ag.tensor([3.0, 4.0]), ag.tensor([-2.0])])
    (tensor(25.), tensor(4.))
    """
    inputs = listed("powsum", input) if dtype is None else [x.to(dtype) for x in listed("powsum", input)]
    powers = run(_two("pow", "powsum", run(_call("abs", inputs, LIST)), as_number("foreach.powsum", "ord", ord)))
    return run(sum(powers))
