"""`assert_close`: comparison of results with tolerances; and `make_tensor`: random tensors as test inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .backend import is_array
from .backend.arrays import dtypes
from .backend.arrays.dtype_limits import finfo
from .core.tensor import Tensor
from .errors import warn_user
from .missing_names import getattr_of
from .ops import as_tensor
from .random import rand, randint

# dtype -> PyTorch's relative and absolute tolerance; integers and bools must be equal.
TOLERANCES = {
    dtypes.float16: (1e-3, 1e-5), dtypes.bfloat16: (1.6e-2, 1e-5), dtypes.float32: (1.3e-6, 1e-5),
    dtypes.float64: (1e-7, 1e-7),
}  # fmt: skip
# Those of assert_allclose.
OLD_TOLERANCES = {dtypes.float16: (1e-3, 1e-3), dtypes.float32: (1e-4, 1e-5), dtypes.float64: (1e-5, 1e-8)}
_NUMBERS = (bool, int, float, np.generic)


def assert_close(
    actual: Any, expected: Any, *, allow_subclasses: bool = True, rtol: float | None = None, atol: float | None = None,
    equal_nan: bool = False, check_device: bool = True, check_dtype: bool = True, check_layout: bool = True,
    check_stride: bool = False, msg: str | Callable[[str], str] | None = None,
) -> None:  # fmt: skip
    """AssertionError unless |actual - expected| <= atol + rtol |expected| for all elements.

    Both are tensors, arrays or numbers, or sequences and mappings of them. rtol and atol must be given together; by
    default they are those of the wider dtype: 1.3e-6 and 1e-5 for float32, 1e-7 and 1e-7 for float64. Shape, dtype and
    device must be equal, too, and strides with `check_stride`. `msg` is the error text, or a function of it.

    >>> ag.testing.assert_close(ag.tensor([1.0, 2.0]), ag.tensor([1.0, 2.0 + 1e-6]))
    >>> ag.testing.assert_close(1.0, 1.5, rtol=0.0, atol=1.0)
    """
    if (rtol is None) != (atol is None):
        lacking = "rtol" if rtol is None else "atol"
        raise ValueError(f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {lacking}.")
    checks = {"dtype": check_dtype, "device": check_device, "stride()": check_stride, "subclass": not allow_subclasses}
    for where, a, b in _pairs(actual, expected, ""):
        text = _difference(a, b, rtol, atol, equal_nan, checks)
        if text is not None:
            text += f"\n\nThe failure occurred for item {where}" if where else ""
            raise AssertionError(text if msg is None else msg(text) if callable(msg) else msg)


def assert_allclose(
    actual: Any, expected: Any, rtol: float | None = None, atol: float | None = None, equal_nan: bool = True,
    msg: str = "",
) -> None:  # fmt: skip
    """`assert_close` by its old name: NaNs are equal, dtypes and devices may differ; FutureWarning.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     ag.testing.assert_allclose(ag.ones(2), [1.0, 1.0])
    """
    warn_user("`torch.testing.assert_allclose()` is deprecated since 1.12 and will be removed in a future release. "
              "Please use `torch.testing.assert_close()` instead.", FutureWarning)
    actual = actual if isinstance(actual, Tensor) else as_tensor(actual)
    expected = expected if isinstance(expected, Tensor) else as_tensor(expected, dtype=actual.dtype)
    if rtol is None and atol is None:
        dtypes_of = [x.dtype for x in (actual, expected)]
        pairs = [OLD_TOLERANCES.get(dtype, (0.0, 0.0)) for dtype in dtypes_of]
        rtol, atol = max(r for r, _ in pairs), max(a for _, a in pairs)
    assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_device=False, check_dtype=False,
                 msg=msg or None)  # fmt: skip


def _pairs(actual: Any, expected: Any, where: str) -> Any:
    """(path, actual, expected) for each leaf of nested sequences and mappings."""
    if _is_leaf(actual) or _is_leaf(expected):
        yield where, actual, expected
    elif isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if actual.keys() != expected.keys():
            raise AssertionError("The keys of the mappings do not match:\n"
                                 f"Missing keys in the actual mapping: {[k for k in expected if k not in actual]}\n"
                                 f"Additional keys in the actual mapping: {[k for k in actual if k not in expected]}")
        for key in actual:
            yield from _pairs(actual[key], expected[key], f"{where}[{key!r}]")
    elif isinstance(actual, Sequence) and isinstance(expected, Sequence) and not isinstance(actual, str):
        if len(actual) != len(expected):
            raise AssertionError(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}")
        for i, (a, b) in enumerate(zip(actual, expected, strict=True)):
            yield from _pairs(a, b, f"{where}[{i}]")
    else:
        raise TypeError(f"assert_close compares tensors, arrays, numbers, sequences and mappings of them; got "
                        f"{type(actual).__name__} and {type(expected).__name__}")


def _is_leaf(value: Any) -> bool:
    return value is None or isinstance(value, (Tensor, *_NUMBERS)) or is_array(value)


def _difference(a: Any, b: Any, rtol: Any, atol: Any, equal_nan: bool, checks: dict[str, bool]) -> str | None:
    """The error text for one pair; None if it matches."""
    if a is None and b is None:
        return None
    numbers = isinstance(a, _NUMBERS)
    if numbers != isinstance(b, _NUMBERS) or a is None or b is None or not (_is_leaf(a) and _is_leaf(b)):
        raise TypeError("assert_close compares tensors with tensors and numbers with numbers; got "
                        f"{type(a).__name__} and {type(b).__name__}")
    if type(a) is not type(b) and ((numbers and checks["dtype"]) or checks["subclass"]):
        return f"The (d)types do not match: {type(a)} != {type(b)}."
    x, y = ((t if isinstance(t, Tensor) else as_tensor(np.asarray(t) if numbers else t)).detach() for t in (a, b))
    if x.shape != y.shape:
        return f"The values for attribute 'shape' do not match: {x.shape} != {y.shape}."
    values = {"device": (x.device, y.device), "dtype": (x.dtype, y.dtype), "stride()": _strides(x, y)}
    for what, (mine, theirs) in values.items():
        if mine != theirs and checks[what] and not numbers:
            return f"The values for attribute '{what}' do not match: {mine} != {theirs}."
    return _mismatch(x, y, rtol, atol, equal_nan)


def _strides(*tensors: Any) -> tuple[Any, ...]:
    return tuple([t.stride() for t in tensors])


def _mismatch(x: Tensor, y: Tensor, rtol: Any, atol: Any, equal_nan: bool) -> str | None:
    """The error text for elements that differ, compared in float64 on the CPU; None if none does."""
    if rtol is None:
        pairs = [TOLERANCES.get(t.dtype, (0.0, 0.0)) for t in (x, y)]
        rtol, atol = (max(values) for values in zip(*pairs, strict=True))
    kinds = {t.dtype for t in (x, y)}
    exact = kinds <= dtypes.INTEGERS | {dtypes.bool_}
    actual, expected = (t.numpy(force=True).astype(np.int64 if exact else np.float64) for t in (x, y))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        away = np.abs(actual - expected)
        close = (actual == expected) | (np.isfinite(expected) & (away <= atol + rtol * np.abs(expected)))
        if equal_nan and not exact:
            close |= np.isnan(actual) & np.isnan(expected)
        relative = away / np.abs(expected)
    if close.all():
        return None
    return _report(actual, expected, close, away, relative, rtol, atol)


def _report(actual: Any, expected: Any, close: Any, away: Any, relative: Any, rtol: float, atol: float) -> str:
    """The error text for elements that differ."""
    kind = "equal" if rtol == atol == 0 else "close"
    if actual.ndim == 0:
        up_to = "" if kind == "equal" else f" (up to {atol} allowed)"
        rel_to = "" if kind == "equal" else f" (up to {rtol} allowed)"
        return (f"Scalars are not {kind}!\n\nExpected {expected.item()} but got {actual.item()}.\n"
                f"Absolute difference: {away.item()}{up_to}\nRelative difference: {relative.item()}{rel_to}")
    count = int(close.size - close.sum())
    lines = [f"Tensor-likes are not {kind}!", "",
             f"Mismatched elements: {count} / {close.size} ({100 * count / close.size:.1f}%)"]
    for name, values, allowed in (("absolute", away, atol), ("relative", relative, rtol)):
        bad = np.where(close, -1.0, np.where(np.isnan(values), np.inf, values))
        at = tuple(int(i) for i in np.unravel_index(int(np.argmax(bad)), bad.shape))
        limit = "" if kind == "equal" else f" (up to {allowed} allowed)"
        lines.append(f"Greatest {name} difference: {values[at]} at index {at}{limit}")
    return "\n".join(lines)


# ---- inputs -------------------------------------------------------------------------------------------


def make_tensor(
    *shape: Any, dtype: Any, device: Any, low: float | None = None, high: float | None = None,
    requires_grad: bool = False, noncontiguous: bool = False, exclude_zero: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """A tensor of uniform random values in [low, high), seeded by `ag.manual_seed`.

    By default floating-point values are in [-9, 9), signed integers in [-9, 10), unsigned ones in [0, 10), bools both.
    `noncontiguous` takes every other element of a larger tensor, `exclude_zero` replaces zeros by the smallest positive
    number. ValueError for an empty range, and for `requires_grad` of integers.

    >>> x = ag.testing.make_tensor(2, 3, dtype=ag.int64, device="cpu", low=0, high=5)
    >>> x.shape, bool(((x >= 0) & (x < 5)).all())
    ((2, 3), True)
    """
    sizes = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
    dtype = dtypes.as_dtype(dtype)
    exact = dtype in dtypes.INTEGERS or dtype == dtypes.bool_
    if requires_grad and exact:
        raise ValueError("`requires_grad=True` is not supported for boolean and integral dtypes, but got "
                         f"dtype={dtype}")
    if noncontiguous and memory_format is not None:
        raise ValueError("The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got "
                         f"noncontiguous={noncontiguous} and memory_format={memory_format}")
    low, high = _range(dtype, low, high)
    doubled = (*sizes[:-1], 2 * sizes[-1]) if noncontiguous and sizes and math.prod(sizes) > 1 else sizes
    if exact:
        result = randint(math.ceil(low), math.ceil(high), doubled, device=device).to(dtype)
    else:
        wide = dtypes.float64 if dtype == dtypes.float64 else dtypes.float32
        result = (rand(doubled, dtype=wide, device=device) * (high - low) + low).to(dtype)
    result = result[..., ::2] if doubled != sizes else result
    if exclude_zero:
        result[result == 0] = True if exact else float(finfo(dtype).tiny)
    return result.requires_grad_() if requires_grad else result


def _range(dtype: np.dtype, low: float | None, high: float | None) -> tuple[float, float]:
    """The limits of random values, by default the dtype's, within what it can hold."""
    default = (0, 2) if dtype == dtypes.bool_ else (0, 10) if dtype.kind == "u" else (-9, 10)
    if dtype in dtypes.FLOATS:
        default, info = (-9, 9), finfo(dtype)
    low, high = default[0] if low is None else low, default[1] if high is None else high
    if math.isnan(low) or math.isnan(high):
        raise ValueError(f"`low` and `high` cannot be NaN, but got low={low} and high={high}")
    if low >= high:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    if dtype in dtypes.FLOATS:
        least, most = float(info.min), float(info.max)
    else:
        least, most = (0, 2) if dtype == dtypes.bool_ else (np.iinfo(dtype).min, np.iinfo(dtype).max + 1)
    return max(low, least), min(high, most)


__all__ = ["assert_allclose", "assert_close", "make_tensor"]
__getattr__ = getattr_of(__name__)
