"""Factories: tensors of a given shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import backend
from ...backend.arrays import dtypes
from ...backend.arrays.device import or_default
from ...backend.arrays.memory_format import is_contiguous_format
from ...core.extend import (
    BROADCASTING,
    RECORD,
    Tensor,
    as_numbers,
    defop,
    made_inside,
    public,
    wrap,
    wrap_codes,
)
from ...random.factories import placed, sizes_of
from .from_data import from_python


def make(name: str, shape: tuple[int, ...], dtype: Any, device: Any, requires_grad: bool, *fill: Any) -> Tensor:
    home = or_default(device)
    target = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    if home.type == "cpu" and target not in dtypes.STORAGE:
        result = made_inside(wrap(in_numpy(name, shape, target, *fill)))
        return result.requires_grad_() if requires_grad else result
    if target in dtypes.STORAGE:
        codes = np.asarray({"zeros": 0.0, "empty": 0.0, "ones": 1.0}.get(name, *fill or (0.0,)), target).view(np.uint8)
        return wrap_codes(backend.make(home, "full", shape, int(codes), np.uint8), target)
    return made_inside(wrap(backend.make(home, name, shape, *fill, dtype=target))).requires_grad_(requires_grad)


def in_numpy(name: str, shape: tuple[int, ...], dtype: np.dtype, fill: Any = 1) -> np.ndarray:
    """np.zeros, np.empty, np.ones and np.full, the last two without NumPy's slow Python wrapper."""
    if name == "zeros":
        return np.zeros(shape, dtype)
    array = np.empty(shape, dtype)
    if name != "empty":
        array.fill(fill)
    return array


@public()
def zeros(
    *sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    out: Tensor | None = None, layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of zeros; the shape as integers or as one tuple.

    >>> ag.zeros(2)
    tensor([0., 0.])
    """
    if layout is not None or pin_memory:
        return placed(zeros, layout, pin_memory, *sizes, size=size, dtype=dtype, device=device,
                      requires_grad=requires_grad, out=out)
    if out is not None:
        return RECORD.filled(zeros, out, *sizes, size=size, requires_grad=requires_grad)
    return make("zeros", sizes_of(sizes, size), dtype, device, requires_grad)


@public()
def ones(
    *sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    out: Tensor | None = None, layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of ones.

    >>> ag.ones((1, 2))
    tensor([[1., 1.]])
    """
    if layout is not None or pin_memory:
        return placed(ones, layout, pin_memory, *sizes, size=size, dtype=dtype, device=device,
                      requires_grad=requires_grad, out=out)
    if out is not None:
        return RECORD.filled(ones, out, *sizes, size=size, requires_grad=requires_grad)
    return make("ones", sizes_of(sizes, size), dtype, device, requires_grad)


@public()
def empty(
    *sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    memory_format: Any = None,
    out: Tensor | None = None, layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """An uninitialized tensor.

    >>> ag.empty(2, 3).shape
    (2, 3)
    """
    if layout is not None or pin_memory:
        return placed(empty, layout, pin_memory, *sizes, size=size, dtype=dtype, device=device,
                      requires_grad=requires_grad, memory_format=memory_format, out=out)
    if memory_format is not None:
        is_contiguous_format("empty", memory_format)
    if out is not None:
        return RECORD.filled(empty, out, *sizes, size=size, requires_grad=requires_grad)
    return make("empty", sizes_of(sizes, size), dtype, device, requires_grad)


@public()
def full(
    size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    out: Tensor | None = None, layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of `fill_value`; the dtype defaults to that of the value.

    >>> ag.full((2,), 7)
    tensor([7, 7])
    """
    if layout is not None or pin_memory:
        return placed(full, layout, pin_memory, size, fill_value, dtype=dtype, device=device,
                      requires_grad=requires_grad, out=out)
    if out is not None:
        return RECORD.filled(full, out, size, fill_value, requires_grad=requires_grad)
    value = fill_value.item() if isinstance(fill_value, (Tensor, np.generic)) else fill_value
    inferred = dtype
    if dtype is None:
        inferred = dtypes.get_default_dtype() if type(value) is float else from_python(value, None).dtype
    value = value if inferred is None else dtypes.fitting(value, dtypes.as_dtype(inferred))
    return make("full", sizes_of((size,)), inferred, device, requires_grad, value)


@public()
def scalar_tensor(
    s: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A 0-d tensor of a number, of the default dtype.

    >>> ag.scalar_tensor(3)
    tensor(3.)
    """
    return full((), s, dtype=dtype or dtypes.get_default_dtype(), device=device, requires_grad=requires_grad,
                layout=layout, pin_memory=pin_memory)  # fmt: skip


@public()
def arange(
    start: Any = None, end: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
    out: Tensor | None = None, layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """start, start + step, ... below `end`; int64 for integers, else the default float dtype.

    >>> ag.arange(1, 7, 2)
    tensor([1, 3, 5])
    """
    if layout is not None or pin_memory:
        return placed(arange, layout, pin_memory, start, end, step, dtype=dtype, device=device,
                      requires_grad=requires_grad, out=out)
    if out is not None:
        return RECORD.filled(arange, out, start, end, step, requires_grad=requires_grad)
    start, end = (start, end) if start is not None and end is not None else (0, start if end is None else end)
    if isinstance(start, Tensor) or isinstance(end, Tensor) or isinstance(step, Tensor):
        start, end, step = as_numbers("arange", start=start, end=end, step=step)
    if end is None:
        raise TypeError("arange() missing 1 required argument: end")
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    whole = all(isinstance(v, (int, np.integer)) for v in (start, end, step))
    target = dtypes.computing(dtype) if dtype is not None else dtypes.int64 if whole else dtypes.get_default_dtype()
    values = backend.make(or_default(device), "arange", start, end, step)
    return made_inside(wrap(values.astype(target, copy=False))).requires_grad_(requires_grad)


@public()
def linspace(
    start: float, end: float, steps: int, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    out: Tensor | None = None, layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """`steps` evenly spaced values from start to end, both included.

    >>> ag.linspace(0, 1, 5)
    tensor([0.  , 0.25, 0.5 , 0.75, 1.  ])
    """
    if layout is not None or pin_memory:
        return placed(linspace, layout, pin_memory, start, end, steps, dtype=dtype, device=device,
                      requires_grad=requires_grad, out=out)
    if out is not None:
        return RECORD.filled(linspace, out, start, end, steps, requires_grad=requires_grad)
    target = dtypes.get_default_dtype() if dtype is None else dtypes.computing(dtype)
    if isinstance(start, Tensor) or isinstance(end, Tensor) or isinstance(steps, Tensor):
        start, end, steps = as_numbers("linspace", start=start, end=end, steps=steps)
    _check_steps(steps)
    values = backend.admitted(backend.make(or_default(device), "linspace", start, end, steps))
    return made_inside(wrap(values.astype(target, copy=False))).requires_grad_(requires_grad)


@public()
def logspace(
    start: float, end: float, steps: int, base: float = 10.0, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
    out: Tensor | None = None, layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """base ** start to base ** end, both included, in `steps` values with evenly spaced exponents.

    >>> ag.logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
    """
    if layout is not None or pin_memory:
        return placed(logspace, layout, pin_memory, start, end, steps, base, dtype=dtype, device=device,
                      requires_grad=requires_grad, out=out)
    if out is not None:
        return RECORD.filled(logspace, out, start, end, steps, base, requires_grad=requires_grad)
    target = dtypes.get_default_dtype() if dtype is None else dtypes.computing(dtype)
    if isinstance(start, Tensor) or isinstance(end, Tensor) or isinstance(steps, Tensor) or isinstance(base, Tensor):
        start, end, steps, base = as_numbers("logspace", start=start, end=end, steps=steps, base=base)
    _check_steps(steps)
    exponents = backend.admitted(backend.make(or_default(device), "linspace", float(start), float(end), steps))
    return made_inside(wrap((float(base) ** exponents).astype(target, copy=False))).requires_grad_(requires_grad)


def _check_steps(steps: int) -> None:
    if steps < 0:
        raise RuntimeError(f"number of steps must be non-negative, got {steps}")


@public()
def eye(
    n: int, m: int | None = None, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    out: Tensor | None = None, layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """The n x m identity matrix.

    >>> ag.eye(2)
    tensor([[1., 0.],
            [0., 1.]])
    """
    if layout is not None or pin_memory:
        return placed(eye, layout, pin_memory, n, m, dtype=dtype, device=device, requires_grad=requires_grad, out=out)
    if out is not None:
        return RECORD.filled(eye, out, n, m, requires_grad=requires_grad)
    target = dtypes.get_default_dtype() if dtype is None else dtypes.computing(dtype)
    if isinstance(n, Tensor) or isinstance(m, Tensor):
        n, m = as_numbers("eye", n=n, m=m)
    return made_inside(wrap(backend.make(or_default(device), "eye", n, m, dtype=target))).requires_grad_(requires_grad)


@defop
class constant_like:
    """A tensor of `value` with the shape, dtype and device of x, for rules.

    >>> from autograd_gpu.ops.creation.factories import constant_like
    >>> constant_like(ag.zeros(2), 3.0)
    tensor([3., 3.])
    """

    def forward(xp, x, *, value):
        out = backend.empty_like(xp, x)
        out.fill(value)
        return out

    nondiff = True
    batch = BROADCASTING
