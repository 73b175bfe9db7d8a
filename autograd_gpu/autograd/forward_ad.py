"""Forward mode by dual tensors: torch.autograd.forward_ad.

A level is an interpreter on the stack of this thread, so nothing else is stored about it: `_current_level` is computed,
and an exception that takes the level off the stack leaves nothing behind.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

from ..core.declare.op import RECORD
from ..core.engine.grad_buffers import dense_order, inverse
from ..core.interpret.batched import Batching, batched
from ..core.interpret.duals import Forward, attach, tangent_of
from ..core.interpret.interpreters import below
from ..core.interpret.level_tensor import LevelTensor, belongs
from ..core.tensor import Tensor
from ..modes import MODES, TRANSFORMED, decorated

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]

Fn = TypeVar("Fn")


class UnpackedDualTensor(NamedTuple):
    """What `unpack_dual` returns: a view of the tensor that has no tangent, and the tangent, or None.

    >>> ag.autograd.forward_ad.unpack_dual(ag.ones(2)).tangent is None
    True
    """

    primal: Tensor
    tangent: Tensor | None


def __getattr__(name: str) -> Any:
    """`_current_level`: 0 inside of a dual level of this thread, otherwise -1."""
    if name == "_current_level":
        return 0 if _level() is not None else -1
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def enter_dual_level() -> int:
    """Starts a level of forward mode on this thread, and returns its number, 0. RuntimeError if there is one already.

    Prefer the context manager `dual_level`, which also ends the level after an exception.

    >>> ag.autograd.forward_ad.enter_dual_level()
    0
    >>> ag.autograd.forward_ad.exit_dual_level()
    """
    if _level() is not None:
        raise RuntimeError("Nested forward mode AD is not supported at the moment; exit the dual level first, or take "
                           "ag.func.jvp, which can be nested")
    MODES.stack = (*MODES.stack, Forward(is_transform=False))
    MODES.bits |= TRANSFORMED
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Ends the level: its dual tensors lose their tangents. level: the number of the level, by default the last one.

    >>> with ag.autograd.forward_ad.dual_level():
    ...     dual = ag.autograd.forward_ad.make_dual(ag.ones(2), ag.ones(2))
    >>> ag.autograd.forward_ad.unpack_dual(dual).tangent is None
    True
    """
    current = _level()
    if current is None:
        raise RuntimeError("Dual level must be a positive number: no dual level exists on this thread, make sure to "
                           "enter_dual_level() first.")
    if level not in (None, 0):
        raise RuntimeError("Trying to exit a forward AD level that was not the last one that was created. This is not "
                           f"supported. The last level is 0, but got level={level}.")
    if MODES.stack[-1] is not current:
        raise RuntimeError("Trying to exit a forward AD level inside of a function transform (vmap, grad, jvp, ...) "
                           "that was entered later. Exit the level outside of the transformed function.")
    _end(current)


class dual_level:
    """Context manager and decorator for a level of forward mode, in which dual tensors carry tangents.

    RuntimeError inside of another dual level of the same thread; `ag.func.jvp` can be nested.

    >>> from autograd_gpu.autograd import forward_ad
    >>> with forward_ad.dual_level():
    ...     x = forward_ad.make_dual(ag.tensor([1.0, 3.0]), ag.tensor([1.0, 10.0]))
    ...     forward_ad.unpack_dual(x ** 2).tangent
    tensor([ 2., 60.])
    """

    _entered: tuple[Any, ...] = ()

    def __enter__(self) -> int:
        number = enter_dual_level()
        self._entered = (*self._entered, _level())
        return number

    def __exit__(self, *exc: object) -> None:
        *rest, level = self._entered
        self._entered = tuple(rest)
        if level in MODES.stack:
            _end(level)
        elif exc[0] is None:
            exit_dual_level()

    def __call__(self, fn: Fn) -> Fn:
        """Decorates `fn` to run in a level of its own."""
        return decorated(fn, dual_level)  # type: ignore[type-var]


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """Makes a view of `tensor` that carries `tangent`, of the same shape, through the operations of the level.

    The tangent itself is kept if its strides are those of the tensor. Otherwise it is copied, in the order of the
    tensor's memory if that is dense. Both may require grad: the result and its tangent are differentiable.
    ValueError for a dtype that is not a floating-point dtype; RuntimeError for another shape, outside of a level, and
    for a tensor or a tangent that is dual already.

    >>> from autograd_gpu.autograd import forward_ad
    >>> with forward_ad.dual_level():
    ...     dual = forward_ad.make_dual(ag.zeros(2), ag.tensor([1.0, 2.0]))
    ...     forward_ad.unpack_dual(dual.sin())
    UnpackedDualTensor(primal=tensor([0., 0.]), tangent=tensor([1., 2.]))
    """
    current = _level()
    if (current is None and level is None) or (level is not None and level < 0):
        raise RuntimeError("Trying to create a dual Tensor for forward AD but no level exists, make sure to "
                           "enter_dual_level() first.")
    _check_tensor("make_dual", "tensor", tensor)
    _check_tensor("make_dual", "tangent", tangent)
    if not tensor.is_floating_point():
        raise ValueError(f"Expected primal to be floating point or complex, but got: {tensor.dtype}")
    if not tangent.is_floating_point():
        raise ValueError(f"Expected tangent to be floating point or complex, but got: {tangent.dtype}")
    if current is None or level not in (None, 0):
        raise RuntimeError(f"Invalid level given to make_dual: {level}; leave it out for the current level")
    if MODES.forward_off:
        return RECORD.basic_index(tensor, ...)
    if tangent_of(_lowered(tensor, current)[0], current) is not None:
        raise RuntimeError("Making a dual Tensor based on a Tensor that already has a forward gradient at the same "
                           "level 0 is not supported. Take the primal of unpack_dual(tensor).")
    if tangent_of(_lowered(tangent, current)[0], current) is not None:
        raise RuntimeError("Setting a forward grad that itself has a forward gradient at the same level 0 is not "
                           "supported. Take the primal of unpack_dual(tangent), or nest ag.func.jvp.")
    if tangent.shape != tensor.shape:
        raise RuntimeError("Trying to set a forward gradient that has a different size than that of the original "
                           f"Tensor, this is not supported. Tensor is of size {list(tensor.shape)} while the given "
                           f"forward gradient is of size {list(tangent.shape)}.")
    made: Tensor = RECORD.basic_index(tensor, ...)
    carrier, moving, levels = _both_lowered(made, tangent, current)
    with below(current):
        attach(carrier, current, _in_layout(moving, carrier))
    return _raised(carrier, levels) if levels else made


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """(primal, tangent): a view of the tensor that has no tangent, and its tangent itself, None without one.

    Outside of a level the primal is the tensor itself. Both are differentiable.

    >>> from autograd_gpu.autograd import forward_ad
    >>> with forward_ad.dual_level():
    ...     dual = forward_ad.make_dual(ag.ones(2), ag.tensor([1.0, 2.0]))
    ...     primal, tangent = forward_ad.unpack_dual(dual * 3)
    >>> primal, tangent
    (tensor([3., 3.]), tensor([3., 6.]))
    """
    _check_tensor("unpack_dual", "tensor", tensor)
    current = _level()
    if current is None or level not in (None, 0):
        return UnpackedDualTensor(tensor, None)
    carrier, levels = _lowered(tensor, current)
    tangent = None if MODES.forward_off else tangent_of(carrier, current)
    primal: Tensor = RECORD.basic_index(tensor, ...)
    attach(_lowered(primal, current)[0], current, None)
    return UnpackedDualTensor(primal, None if tangent is None else _raised(tangent, levels))


def _is_fwd_grad_enabled() -> bool:
    """Whether operations of this thread compute tangents in forward mode."""
    return not MODES.forward_off


class _set_fwd_grad_enabled:
    """Sets whether operations of this thread compute tangents; as a context manager, restores it at exit."""

    def __init__(self, mode: bool) -> None:
        self.mode, self.prev = mode, _is_fwd_grad_enabled()
        MODES.forward_off = not mode

    def __enter__(self) -> None:
        """Does nothing: __init__ sets the flag."""

    def __exit__(self, *exc: object) -> None:
        MODES.forward_off = not self.prev

    def __call__(self, fn: Fn) -> Fn:
        """Decorates `fn` to run with the flag."""
        MODES.forward_off = not self.prev  # a decorator switches at the call only
        return decorated(fn, lambda: _set_fwd_grad_enabled(self.mode))  # type: ignore[type-var]


def _level() -> Forward | None:
    """The dual level of this thread."""
    return next((level for level in MODES.stack if type(level) is Forward and not level.is_transform), None)


def _end(level: Forward) -> None:
    """Takes the level, and what an exception has left above it, off the stack."""
    MODES.stack = rest = MODES.stack[: MODES.stack.index(level)]
    if not rest:
        MODES.bits &= ~TRANSFORMED
    level.close()


def _check_tensor(function: str, argument: str, value: Any) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"{function}(): argument '{argument}' must be Tensor, not {type(value).__name__}; use "
                        "ag.as_tensor(...) to make one")


def _above(level: Forward) -> list[Any]:
    """The interpreters inside of the level, innermost first."""
    return list(reversed(MODES.stack[MODES.stack.index(level) + 1 :]))


def _check_level(inner: Any) -> None:
    if not isinstance(inner, Batching):
        raise RuntimeError("a tensor that is differentiated by a function transform inside of a dual level cannot be "
                           "packed or unpacked there; enter the dual level inside of the function, or take ag.func.jvp")


def _lowered(x: Tensor, level: Forward) -> tuple[Tensor, list[Batching]]:
    """x as the dual level sees it, and the levels of vmap inside of it at which x is batched, innermost first."""
    levels = []
    for inner in _above(level):
        if isinstance(x, LevelTensor) and belongs(x, inner):
            _check_level(inner)
            levels.append(inner)
            x = x._value
    return x, levels


def _both_lowered(x: Tensor, tangent: Tensor, level: Forward) -> tuple[Tensor, Tensor, list[Batching]]:
    """A tensor and its tangent as the dual level sees them, and the levels of vmap at which one of them is batched."""
    levels = []
    for inner in _above(level):
        if belongs(x, inner) or belongs(tangent, inner):
            _check_level(inner)
            levels.append(inner)
            with below(inner):
                x, tangent = inner.whole(x), inner.whole(tangent)
    return x, tangent, levels


def _raised(x: Tensor, levels: list[Batching]) -> Tensor:
    """The inverse of lowering."""
    for level in reversed(levels):
        x = batched(level, x)
    return x


def _in_layout(tangent: Tensor, x: Tensor) -> Tensor:
    """The tangent if it lies in memory as x does, otherwise a copy that does, or is row-major if x is not dense."""
    if isinstance(x, LevelTensor) or isinstance(tangent, LevelTensor):
        return tangent
    if all(a == b or n == 1 for a, b, n in zip(tangent.stride(), x.stride(), x.shape, strict=True)):
        return tangent
    order = dense_order(x.array, x.shape)
    if order is None:
        return RECORD.contiguous_copy(tangent)
    return RECORD.permute(RECORD.contiguous_copy(RECORD.permute(tangent, order)), inverse(order))
