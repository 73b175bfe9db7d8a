"""Tensors and arrays of random numbers from fixed distributions."""

from __future__ import annotations

from operator import index
from typing import Any

import numpy as np

from ..backend.arrays import dtypes
from ..backend.arrays.device import CPU
from ..backend.arrays.memory_format import check_strided, is_contiguous_format, memory_order
from ..core.declare.op import RECORD
from ..core.interpret.level_tensor import LevelTensor
from ..core.interpret.new_tensors import drawn
from ..core.tensor import Tensor, wrap
from .generator import Generator, source

# ---- arrays ------------------------------------------------------------------------------------------


def floats(
    distribution: str, shape: tuple[int, ...], dtype: Any, stream: Generator, scale: float = 1.0, shift: float = 0.0
) -> Any:
    """shift + scale * numbers of the standard `distribution`, as an array; half types are drawn in float32."""
    out_dtype = dtypes.get_default_dtype() if dtype is None else dtypes.computing(dtype)
    if out_dtype not in dtypes.FLOATS:
        raise RuntimeError(f"random numbers of dtype {out_dtype} are not implemented; draw float32 and convert")
    if stream.device != CPU:
        return stream.draw("numbers", distribution, shape, out_dtype, scale, shift)
    wide = out_dtype if out_dtype.itemsize > 2 else dtypes.float32
    array = stream.draw(distribution, shape, dtype=wide)
    if distribution == "random" and wide is not out_dtype:  # truncated: rounding could give 1
        steps = 2.0 ** dtypes.DIGITS[out_dtype]
        array = np.floor(array * steps) / steps
    if scale != 1.0:
        array *= scale
    if shift != 0.0:
        array += shift
    return array if wide is out_dtype else array.astype(out_dtype)


def bernoulli_mask(shape: tuple[int, ...], keep: float, device: Any = None, generator: Generator | None = None) -> Any:
    """A bool array (not a tensor) of `shape`, each element True with probability `keep`.

    >>> ag.random.bernoulli_mask((2,), 1.0)
    array([ True,  True])
    """
    stream = source(device, generator)
    if stream.device != CPU:
        return stream.draw("bits", keep, shape)
    mask = stream.draw("random", shape, dtype=dtypes.float32) < keep
    return np.asarray(mask) if isinstance(mask, (bool, np.bool_)) else mask  # NumPy returns a scalar for shape ()


# ---- tensors -----------------------------------------------------------------------------------------


def uniform(
    shape: tuple[int, ...], dtype: Any = None, device: Any = None, low: float = 0.0, high: float = 1.0,
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """A tensor of numbers uniform on [low, high).

    >>> ag.random.uniform((2,), low=1.0, high=1.0)
    tensor([1., 1.])
    """
    stream = source(device, generator)
    return drawn(tuple(shape), lambda shape: wrap(floats("random", shape, dtype, stream, high - low, low)))


def normal(
    shape: tuple[int, ...], dtype: Any = None, device: Any = None, mean: float = 0.0, std: float = 1.0,
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """A tensor of normally distributed numbers.

    >>> ag.random.normal((2,), mean=3.0, std=0.0)
    tensor([3., 3.])
    """
    if std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    stream = source(device, generator)
    return drawn(tuple(shape), lambda shape: wrap(floats("standard_normal", shape, dtype, stream, std, mean)))


def placed(function: Any, layout: Any, pin_memory: bool, *args: Any, requires_grad: bool = False, **others: Any) -> Any:
    """The result of a factory for its arguments `layout`, which has to be strided, and `pin_memory`."""
    check_strided(function.__name__, layout)
    result = function(*args, **others)
    result = result.pin_memory() if pin_memory else result
    return result.requires_grad_() if requires_grad else result


def sizes_of(sizes: tuple[Any, ...], size: Any = None) -> tuple[int, ...]:
    """The shape in the arguments of rand(2, 3), rand((2, 3)) or rand(size=(2, 3)), integers or 0-d tensors of them."""
    if size is None:
        size = sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], (int, np.integer)) else sizes
    elif sizes:
        raise TypeError(f"got the shape twice: {', '.join(map(str, sizes))} and size={size}")
    if type(size) is tuple:
        for n in size:
            if type(n) is not int or n < 0:
                break
        else:
            return size
    return _checked(size)


def _checked(size: Any) -> tuple[int, ...]:
    """The shape in a sequence of integers and 0-d tensors, or in one of them; an error says what is wrong."""
    try:
        shape = tuple([index(n) for n in size])
    except TypeError:
        shape = (index(size),)  # a 0-d tensor, or an error that names the type
    _refuse_negative(shape)
    return shape


def _refuse_negative(shape: tuple[int, ...]) -> None:
    if shape and min(shape) < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(shape)}: {list(shape)}")


def rand(
    *sizes: Any, size: Any = None, generator: Generator | None = None, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
    out: Tensor | None = None, layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Numbers uniform on [0, 1); the shape as integers or as one tuple.

    >>> ag.rand(2, 3).shape
    (2, 3)
    """
    if layout is not None or pin_memory:
        return placed(rand, layout, pin_memory, *sizes, size=size, generator=generator, dtype=dtype, device=device,
                      requires_grad=requires_grad, out=out)
    if out is not None:
        return RECORD.filled(rand, out, *sizes, size=size, generator=generator, requires_grad=requires_grad)
    shape, stream = sizes_of(sizes, size), source(device, generator)
    result = drawn(shape, lambda shape: wrap(floats("random", shape, dtype, stream)))
    return result.requires_grad_() if requires_grad else result


def randn(
    *sizes: Any, size: Any = None, generator: Generator | None = None, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
    out: Tensor | None = None, layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Standard normal numbers; the shape as integers or as one tuple.

    >>> ag.randn((2, 3), dtype=ag.float64).dtype
    dtype('float64')
    """
    if layout is not None or pin_memory:
        return placed(randn, layout, pin_memory, *sizes, size=size, generator=generator, dtype=dtype, device=device,
                      requires_grad=requires_grad, out=out)
    if out is not None:
        return RECORD.filled(randn, out, *sizes, size=size, generator=generator, requires_grad=requires_grad)
    shape, stream = sizes_of(sizes, size), source(device, generator)
    result = drawn(shape, lambda shape: wrap(floats("standard_normal", shape, dtype, stream)))
    return result.requires_grad_() if requires_grad else result


def rand_like(
    input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, memory_format: Any = None,
    layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """`rand` with the shape, dtype and device of input.

    >>> ag.rand_like(ag.ones(2)).shape
    (2,)
    """
    if layout is not None or pin_memory:
        return placed(rand_like, layout, pin_memory, input, dtype=dtype, device=device, requires_grad=requires_grad,
                      memory_format=memory_format)
    result = rand(input.shape, dtype=dtype or input.dtype, device=device or input.device)
    return _laid_out("rand_like", result, input, memory_format).requires_grad_(requires_grad)


def randn_like(
    input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, memory_format: Any = None,
    layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """`randn` with the shape, dtype and device of input.

    >>> ag.randn_like(ag.ones(2)).shape
    (2,)
    """
    if layout is not None or pin_memory:
        return placed(randn_like, layout, pin_memory, input, dtype=dtype, device=device, requires_grad=requires_grad,
                      memory_format=memory_format)
    result = randn(input.shape, dtype=dtype or input.dtype, device=device or input.device)
    return _laid_out("randn_like", result, input, memory_format).requires_grad_(requires_grad)


def randint(
    low: Any = None, high: Any = None, size: Any = None, *, generator: Generator | None = None, dtype: Any = None,
    device: Any = None, requires_grad: bool = False,
    out: Tensor | None = None, layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Integers in [low, high) as int64, or in another `dtype`: randint(low, high, size) or randint(high, size).

    >>> ag.randint(3, 4, (2,))
    tensor([3, 3])
    """
    if layout is not None or pin_memory:
        return placed(randint, layout, pin_memory, low, high, size, generator=generator, dtype=dtype, device=device,
                      requires_grad=requires_grad, out=out)
    if out is not None:
        return RECORD.filled(randint, out, low, high, size, generator=generator, requires_grad=requires_grad)
    if size is None:
        low, high, size = 0, low, high
    low = 0 if low is None else low
    if high is None or size is None:
        raise TypeError("randint() takes randint(low, high, size) or randint(high, size)")
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    stream = source(device, generator)
    out_dtype = dtypes.int64 if dtype is None else dtypes.computing(dtype)

    def draw(shape: tuple[int, ...]) -> Tensor:
        array = stream.draw("integers", low, high, shape, dtype=dtypes.int64)
        return wrap(array.astype(out_dtype, copy=False))

    return drawn(sizes_of((size,)), draw).requires_grad_(requires_grad)


def randint_like(
    input: Tensor, low: int | None = None, high: int | None = None, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False, memory_format: Any = None, layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Integers in [low, high), or [0, low), with the shape, dtype and device of input.

    >>> ag.randint_like(ag.zeros(2), 3, 4)
    tensor([3., 3.])
    """
    if layout is not None or pin_memory:
        return placed(randint_like, layout, pin_memory, input, low, high, dtype=dtype, device=device,
                      requires_grad=requires_grad, memory_format=memory_format)
    low, high = (0, low) if high is None else (0 if low is None else low, high)
    if high is None:
        raise TypeError("randint_like() takes randint_like(input, low, high) or randint_like(input, high)")
    result = randint(low, high, input.shape, dtype=dtype or input.dtype, device=device or input.device)
    return _laid_out("randint_like", result, input, memory_format).requires_grad_(requires_grad)


def _laid_out(function: str, result: Tensor, like: Tensor, memory_format: Any) -> Tensor:
    """`result`, which is in C order, with its dimensions in memory as those of `like`, unless C order is asked for.

    Under vmap, where memory has no order of its own, it stays in C order.
    """
    if is_contiguous_format(function, memory_format) or any(isinstance(t, LevelTensor) for t in (result, like)):
        return result
    if like.is_contiguous():
        return result
    order = memory_order(like.array)
    dense = result.array.transpose(order).copy()
    return wrap(dense.transpose(tuple(order.index(d) for d in range(len(order)))))


def randperm(
    n: int, *, generator: Generator | None = None, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    out: Tensor | None = None, layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """The integers 0 ... n - 1 in random order, as int64 or in another `dtype`.

    >>> ag.randperm(4).sum()
    tensor(6)
    """
    if layout is not None or pin_memory:
        return placed(randperm, layout, pin_memory, n, generator=generator, dtype=dtype, device=device,
                      requires_grad=requires_grad, out=out)
    if out is not None:
        return RECORD.filled(randperm, out, n, generator=generator, requires_grad=requires_grad)
    n = index(n)
    _refuse_negative((n,))
    stream = source(device, generator)
    out_dtype = dtypes.int64 if dtype is None else dtypes.computing(dtype)

    def draw(shape: tuple[int, ...]) -> Tensor:
        if len(shape) == 1 and stream.device == CPU:
            array = stream.draw("permutation", n)
        else:
            array = stream.draw("random", shape).argsort(-1)  # the order of random keys
        return wrap(array.astype(out_dtype, copy=False))

    return drawn((n,), draw).requires_grad_(requires_grad)
