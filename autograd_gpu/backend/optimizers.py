"""Optimizer steps on lists of arrays, in place: SGD, Adam and AdamW with PyTorch's arithmetic.

On NumPy a large parameter is updated chunk by chunk: a chunk passes through the whole formula while it is
in the cache, and every intermediate goes into a scratch that the thread keeps, because a fresh array above
128 KiB is mapped, page-faulted and unmapped each time, which costs more than the arithmetic on it.
`y += a * x` is one pass of BLAS instead of two ufuncs, see Note [axpy].
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from . import cuda
from .dtypes import bfloat16, float16, float32

Array = Any  # numpy.ndarray or cupy.ndarray
Axpy = Callable[[Array, Array, float, Array], None]  # (y, x, a, work): y += a * x, with x * a in work at will
Kernel = Callable[[Any, Axpy, tuple, tuple, tuple, tuple, tuple], None]

CHUNK = 1 << 16  # elements; fewer cost more in calls than the L2 cache (1 MiB) gives back (Adam: +5 %)
_REMEMBERED = 256  # shapes and numbers kept per thread

# Note [axpy]
# NumPy has no y += a * x; SciPy's BLAS does, and takes 0.6 of the time of two ufuncs. But SciPy brings an
# OpenBLAS of its own, and when both libraries run threads, each waits spinning for cores that the other one
# holds (a step of 50 us was measured to take 5 ms). OpenBLAS leaves axpy on one thread up to 10,000
# elements: hence blocks.
_AXPY_BLOCK = 8192
_HALVES = (bfloat16, float16)


class _Scratch(threading.local):
    """The thread's memory for intermediates, and the 0-d arrays that stand for numbers."""

    def __init__(self) -> None:
        self.memory: dict[str, np.ndarray] = {}
        self.views: dict[tuple[tuple[int, ...], str], tuple[np.ndarray, np.ndarray]] = {}
        self.scalars: dict[tuple[tuple[float, ...], str], tuple[np.ndarray, ...]] = {}

    def pair(self, array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Two work arrays like `array`, which has at most CHUNK elements; they hold rubbish."""
        key = (array.shape, array.dtype.char)
        found = self.views.get(key)
        if found is None:
            if array.dtype.char not in self.memory:
                self.memory[array.dtype.char] = np.empty((2, CHUNK), array.dtype)
            if len(self.views) >= _REMEMBERED:
                self.views.clear()
            first, second = self.memory[array.dtype.char]
            found = first[: array.size].reshape(array.shape), second[: array.size].reshape(array.shape)
            self.views[key] = found
        return found

    def numbers(self, values: tuple[float, ...], dtype: np.dtype) -> tuple[np.ndarray, ...]:
        """`values` as 0-d arrays: a ufunc takes one in half the time that a Python float costs it."""
        key = (values, dtype.char)
        found = self.scalars.get(key)
        if found is None:
            if len(self.scalars) >= _REMEMBERED:
                self.scalars.clear()
            found = self.scalars[key] = tuple([np.array(value, dtype) for value in values])
        return found


_SCRATCH = _Scratch()


def sgd_step(
    params: list[Array],
    grads: list[Array],
    buffers: list[Array | None],
    *,
    lr: float,
    momentum: float = 0.0,
    dampening: float = 0.0,
    weight_decay: float = 0.0,
    nesterov: bool = False,
    maximize: bool = False,
) -> None:
    """One SGD step on each of `params`, in place.

    With momentum, `buffers` holds the momentum buffers; a None among them is a first step, and is replaced
    by a new buffer that holds the gradient. Without momentum it is not looked at.
    """
    sign = -1.0 if maximize else 1.0
    factors = (sign, lr, 1.0 - dampening, momentum)
    constants = (sign, weight_decay, momentum)
    for i, param in enumerate(params):
        if not momentum:
            if weight_decay or not _descend(param, grads[i], -lr * sign):
                _each_chunk(_sgd, (param, grads[i]), factors, constants, (False, weight_decay, nesterov))
            continue
        buffer = buffers[i]
        first = buffer is None
        if first:
            buffer = buffers[i] = _empty_like(param)
        _each_chunk(_sgd, (param, grads[i], buffer), factors, constants, (first, weight_decay, nesterov))


def adam_step(
    params: list[Array],
    grads: list[Array],
    exp_avgs: list[Array],
    exp_avg_sqs: list[Array],
    max_exp_avg_sqs: list[Array],
    steps: list[int],
    *,
    lr: float,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    decoupled: bool = False,
    maximize: bool = False,
) -> None:
    """One Adam step on each of `params`, in place; with `decoupled` weight decay it is AdamW.

    `steps` counts from 1 and includes this step. `max_exp_avg_sqs` is empty unless amsgrad is wanted.
    """
    beta1, beta2 = betas
    decay = 1.0 - lr * weight_decay if decoupled else weight_decay
    flags = (weight_decay, decoupled, maximize)
    step = -1
    for i, param in enumerate(params):
        if steps[i] != step:  # one value for all parameters, as a rule
            step = steps[i]
            root2 = (1.0 - beta2**step) ** 0.5
            # lr / correction1 * m / (sqrt(v) / root2 + eps), multiplied through by root2: one pass less.
            factors = (lr * root2 / (1.0 - beta1**step), 1.0 - beta1, 1.0 - beta2)
            constants = (beta1, beta2, eps * root2, decay)
        arrays: tuple[Array, ...] = (param, grads[i], exp_avgs[i], exp_avg_sqs[i])
        if max_exp_avg_sqs:
            arrays = (*arrays, max_exp_avg_sqs[i])
        _each_chunk(_adam, arrays, factors, constants, flags)


def _descend(param: Array, grad: Array, a: float) -> bool:
    """Plain SGD is one axpy, which needs no chunks; False where the arrays are not for BLAS."""
    if type(param) is not np.ndarray or param.dtype.char not in "fd":
        return False
    if not (param.flags.carray and grad.flags.c_contiguous and grad.dtype is param.dtype):
        return False
    _axpy_by_blas(param.reshape(-1), grad.reshape(-1), a)
    return True


def _sgd(xp: Any, axpy: Axpy, arrays: tuple, work: tuple, factors: tuple, constants: tuple, flags: tuple) -> None:
    """One chunk: arrays = (param, gradient[, momentum buffer])."""
    p, g, *buffer = arrays
    s, u = work
    factor, lr, damped, momentum = factors
    sign, decay, friction = constants
    first, decays, nesterov = flags
    if decays:  # g = decay p +- g
        xp.multiply(p, decay, s)
        axpy(s, g, factor, u)
        g, factor = s, 1.0
    if buffer:  # b = momentum b + (1 - dampening) g
        (b,) = buffer
        if first:
            xp.multiply(g, sign, b) if factor < 0 else xp.copyto(b, g)
        else:
            xp.multiply(b, friction, b)
            axpy(b, g, factor * damped, u)
        if nesterov:  # g + momentum b
            if g is not s:
                xp.multiply(g, sign, s)
            axpy(s, b, momentum, u)
            g = s
        else:
            g = b
        factor = 1.0
    axpy(p, g, -lr * factor, u)


def _adam(xp: Any, axpy: Axpy, arrays: tuple, work: tuple, factors: tuple, constants: tuple, flags: tuple) -> None:
    """One chunk: arrays = (param, gradient, exp_avg, exp_avg_sq[, max_exp_avg_sq])."""
    p, g, m, v, *largest = arrays
    s, u = work
    scale, one_minus_beta1, one_minus_beta2 = factors
    beta1, beta2, eps, decay = constants
    decays, decoupled, maximize = flags
    if maximize:
        g = xp.negative(g, u)
    if decays and decoupled:
        xp.multiply(p, decay, p)
    elif decays:
        g = xp.add(g, xp.multiply(p, decay, s), u)
    xp.multiply(m, beta1, m)
    axpy(m, g, one_minus_beta1, s)
    xp.multiply(v, beta2, v)
    xp.multiply(g, g, s)
    axpy(v, s, one_minus_beta2, s)
    if largest:
        (top,) = largest
        v = xp.maximum(top, v, out=top)
    # p -= scale m / (sqrt(v) + eps)
    xp.add(xp.sqrt(v, s), eps, s)
    axpy(p, xp.divide(m, s, s), -scale, s)


def _each_chunk(kernel: Kernel, arrays: tuple, factors: tuple, constants: tuple, flags: tuple) -> None:
    """Runs `kernel` over `arrays`, all of one shape, dtype and device; it writes into them."""
    head = arrays[0]
    dtype = head.dtype
    for array in arrays:
        if array.dtype is not dtype or type(array) is not type(head):
            _check_alike(head, array)
    if dtype in _HALVES:
        _in_float32(kernel, arrays, factors, constants, flags)
    elif type(head) is not np.ndarray:
        xp = cuda.cupy()
        work = (xp.empty_like(head), xp.empty_like(head))
        kernel(xp, functools.partial(_axpy_by_ufuncs, xp), arrays, work, factors, constants, flags)
    else:
        constants = _SCRATCH.numbers(constants, dtype)
        arrays, axpy = _flat(arrays)
        if head.size <= CHUNK:
            kernel(np, axpy, arrays, _SCRATCH.pair(arrays[0]), factors, constants, flags)
            return
        for chunk in _chunks(arrays):
            kernel(np, axpy, chunk, _SCRATCH.pair(chunk[0]), factors, constants, flags)


def _check_alike(param: Array, other: Array) -> None:
    """A state of another dtype would be updated in a copy by BLAS, and the update be lost."""
    if type(param) is not type(other) or param.dtype != other.dtype:
        raise RuntimeError(
            f"the optimizer holds {type(other).__module__} arrays of {other.dtype} for a parameter that is "
            f"{type(param).__module__} {param.dtype}: it was moved or converted after the first step; "
            "make a new optimizer, or load_state_dict(state_dict()) to convert the state"
        )


def _in_float32(kernel: Kernel, arrays: tuple, factors: tuple, constants: tuple, flags: tuple) -> None:
    """Half types: computed in float32 and rounded once, since a half loses its share 1 - beta2 of g^2."""
    wide = tuple(array.astype(float32) for array in arrays)
    _each_chunk(kernel, wide, factors, constants, flags)
    for array, result in zip(arrays, wide, strict=True):
        if array is not arrays[1]:  # the gradient is only read
            array[...] = result.astype(array.dtype)


def _flat(arrays: tuple[np.ndarray, ...]) -> tuple[tuple[np.ndarray, ...], Axpy]:
    """`arrays` as vectors where their layouts agree, else as they are; and the axpy that can take them."""
    if not arrays[0].flags.c_contiguous:
        arrays = tuple([array.T for array in arrays])
    for array in arrays:
        if not array.flags.carray:  # BLAS would work on a copy, or write to read-only memory
            return arrays, functools.partial(_axpy_by_ufuncs, np)
    return tuple([array.reshape(-1) for array in arrays]), _axpy_by_blas


def _chunks(arrays: tuple[np.ndarray, ...]) -> Iterator[tuple[np.ndarray, ...]]:
    """Views of at most CHUNK elements, those of one tuple alike in shape, that cover `arrays` once."""
    head = arrays[0]
    row = head.size // len(head)
    if row > CHUNK:
        for i in range(len(head)):
            yield from _chunks(tuple([array[i] for array in arrays]))
        return
    rows = CHUNK // row
    for start in range(0, len(head), rows):
        yield tuple([array[start : start + rows] for array in arrays])


def _axpy_by_ufuncs(xp: Any, y: Array, x: Array, a: float, work: Array) -> None:
    xp.add(y, xp.multiply(x, a, work), y)


def _axpy_by_blas(y: np.ndarray, x: np.ndarray, a: float, work: np.ndarray | None = None) -> None:
    axpy = _blas()[y.dtype.char]
    size = y.size
    if 0 < size <= _AXPY_BLOCK:
        axpy(x, y, size, a)
        return
    for start in range(0, size, _AXPY_BLOCK):
        axpy(x, y, min(_AXPY_BLOCK, size - start), a, start, 1, start, 1)


@functools.cache
def _blas() -> dict[str, Callable[..., Any]]:
    """axpy by dtype; imported at the first step, since SciPy would double the package's import time."""
    from scipy.linalg import blas

    return {"f": blas.saxpy, "d": blas.daxpy}


def _empty_like(array: Array) -> Array:
    return np.empty_like(array) if type(array) is np.ndarray else cuda.cupy().empty_like(array)
