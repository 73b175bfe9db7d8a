"""In-place clipping of gradients by norm or value. On CUDA only `error_if_nonfinite` synchronizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from ...backend import device_of, namespace, sum_of_squares, to_device
from ...backend.arrays.dtypes import wide
from ...backend.cuda import foreach as cuda_foreach
from ...core.graph.storage import before_write, bump_version
from ...core.interpret.tracing import tracer
from ...core.tensor import Tensor, wrap
from ...errors import ArgumentError, warn_user
from ...modes import MODES, no_grad
from ...ops.creation.factories import zeros
from ...ops.foreach.arrays import launched

Tensors = Tensor | Iterable[Tensor]


def _as_list(tensors: Tensors) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _gradients(parameters: Tensors) -> list[Tensor]:
    return [p.grad for p in _as_list(parameters) if p.grad is not None]


def _power_sum(array: Any, p: float) -> Any:
    """sum(|x| ** p), for p = inf the maximum of |x|, for -inf the minimum; a 0-d array, float32 for half types."""
    xp = namespace(array)
    array = array.astype(wide(array.dtype), copy=False)
    if p == 2:
        return xp.asarray(sum_of_squares(xp, array))
    size = xp.absolute(array)
    if math.isinf(p):
        return xp.asarray(_extreme(size, p) if array.size else 0 if p > 0 else math.inf, array.dtype)
    return xp.asarray((size**p).sum())


def _norm(arrays: list[Any], p: float) -> Any:
    """The norm of all elements of `arrays`, a 0-d array on the device of the first one."""
    norms, left = cuda_foreach.list_norms(arrays, p)
    if len(norms) == 1 and not left:
        return norms[0]
    xp, home = namespace(arrays[0]), device_of(arrays[0])
    sums = [norm if math.isinf(p) else norm**p for norm in norms] + [_power_sum(arrays[i], p) for i in left]
    parts = xp.stack([to_device(part, home) for part in sums])
    return xp.asarray(_extreme(parts, p) if math.isinf(p) else parts.sum() ** (1 / p))


def _extreme(array: Any, p: float) -> Any:
    return array.max() if p > 0 else array.min()


def get_total_norm(
    tensors: Tensors, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """The norm of all elements of `tensors` together, a 0-d tensor on the device of the first; 0 for no tensors.

    float32 for half types, so that it does not overflow. `norm_type` may be inf or -inf; ValueError for 0. With
    `error_if_nonfinite` RuntimeError if the norm is not finite. `foreach` has no effect.

    >>> ag.nn.utils.get_total_norm([ag.tensor([3.0]), ag.tensor([[4.0]])])
    tensor(5.)
    """
    arrays, p = [t._array for t in _as_list(tensors)], float(norm_type)
    if p == 0:
        raise ArgumentError("get_total_norm: a norm of order 0, the number of elements that are not 0, limits nothing; "
                            "norm_type is another number or inf")
    if not arrays:
        return zeros(())
    total = wrap(_norm(arrays, p))
    if error_if_nonfinite and not math.isfinite(total.item()):
        raise RuntimeError(f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it "
                           "cannot be clipped. To disable this error and scale the gradients by the non-finite norm "
                           "anyway, set `error_if_nonfinite=False`")
    return total


def clip_grads_with_norm_(
    parameters: Tensors, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scales the gradients of `parameters` in place by max_norm / (total_norm + 1e-6) if that is below 1.

    >>> p = ag.nn.Parameter(ag.zeros(1))
    >>> p.grad = ag.tensor([8.0])
    >>> ag.nn.utils.clip_grads_with_norm_([p], 1.0, ag.tensor(4.0))
    >>> p.grad
    tensor([2.])
    """
    if not isinstance(total_norm, Tensor):
        raise TypeError(f"clip_grads_with_norm_: total_norm must be a Tensor, such as get_total_norm's result, not "
                        f"{type(total_norm).__name__}; wrap it in autograd_gpu.tensor")
    grads = _gradients(parameters)
    if total_norm.is_cuda and total_norm.numel() == 1:
        grads = _left(grads, lambda arrays: cuda_foreach.limit_norms(arrays, total_norm.array, float(max_norm)))
    if not grads:
        return
    with no_grad():
        share = (float(max_norm) / (total_norm + 1e-6)).clamp(None, 1.0)
        if not share.is_cuda and share.item() == 1.0:
            return
        for g in grads:
            g.mul_(share.to(g.device))


def _left(grads: list[Tensor], write: Callable[[list[Any]], list[int]]) -> list[Tensor]:
    """The gradients that write(arrays) did not process; it returns their indices."""
    if any(type(g) is not Tensor for g in grads):
        return grads
    before_write(grads)
    left = write([g.array for g in grads])
    for i in set(range(len(grads))).difference(left):
        bump_version(grads[i])
    return [grads[i] for i in left]


def clip_grad_norm(
    parameters: Tensors, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:  # fmt: skip
    """`clip_grad_norm_` by its old name; warns as PyTorch does."""
    warn_user("`nn.utils.clip_grad_norm` is now deprecated in favor of `nn.utils.clip_grad_norm_`.", FutureWarning)
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_norm_(
    parameters: Tensors, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:  # fmt: skip
    """Scales the gradients of `parameters` in place so that their total norm is at most `max_norm`.

    Returns the norm before scaling. See `get_total_norm` for the other arguments.

    >>> p = ag.nn.Parameter(ag.zeros(2))
    >>> p.grad = ag.tensor([3.0, 4.0])
    >>> ag.nn.utils.clip_grad_norm_([p], 1.0)
    tensor(5.)
    >>> p.grad
    tensor([0.6, 0.8])
    """
    listed = _as_list(parameters)

    def clip() -> Tensor:
        total = get_total_norm(_gradients(listed), norm_type, error_if_nonfinite)
        clip_grads_with_norm_(listed, max_norm, total)
        return total

    if MODES.stack and (level := tracer()) is not None:
        grads = _gradients(listed)
        total: Tensor = level.routine(f"clip_grad_norm_ to {max_norm!r} of order {norm_type!r}", clip, grads, grads)
        return total
    return clip()


def clip_grad_value_(parameters: Tensors, clip_value: float, foreach: bool | None = None) -> None:
    """Clamps the gradients of `parameters` in place to [-clip_value, clip_value].

    >>> p = ag.nn.Parameter(ag.zeros(2))
    >>> p.grad = ag.tensor([3.0, -0.5])
    >>> ag.nn.utils.clip_grad_value_([p], 1.0)
    >>> p.grad
    tensor([ 1. , -0.5])
    """
    limit = float(clip_value)
    if MODES.stack and (level := tracer()) is not None:
        listed = _as_list(parameters)
        grads = _gradients(listed)
        level.routine(f"clip_grad_value_ to {limit!r}", lambda: clip_grad_value_(listed, limit), grads, grads)
        return
    with no_grad():
        for g in _left(_gradients(parameters), lambda gs: launched("clamp", gs, gs, -limit, limit)):
            g.clamp_(-limit, limit)
