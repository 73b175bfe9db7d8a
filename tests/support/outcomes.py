"""What a call gives in PyTorch and here: results with their gradients, or the error; for inputs that hold nothing."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import autograd_gpu as ag

torch = pytest.importorskip("torch")


class Result(NamedTuple):
    """Shape, dtype and values of each output, and whether it requires grad; gradients of what can be differentiated."""

    outputs: list[tuple[tuple[int, ...], str, np.ndarray, bool]]
    gradients: list[np.ndarray | None]


def array_of(tensor: Any) -> np.ndarray:
    return tensor.detach().numpy() if isinstance(tensor, torch.Tensor) else tensor.numpy(force=True)


def tensor_of(m: Any, value: Any) -> Any:
    """An array as a tensor, a floating one requiring grad; a list of arrays as a list of tensors."""
    if isinstance(value, list):
        return [tensor_of(m, item) for item in value]
    if not isinstance(value, np.ndarray):
        return value
    tensor = torch.tensor(value) if m is torch else ag.tensor(value)
    return tensor.requires_grad_() if value.dtype.kind == "f" else tensor


def tensors_in(m: Any, value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors_in(m, item)]
    if isinstance(value, dict):
        return tensors_in(m, list(value.values()))
    return [value] if isinstance(value, m.Tensor) else []


def outcome(m: Any, program: Any, *values: Any) -> Result | Exception:
    """What `program(m, *tensors)` gives: a Result, or the exception that it or its backward raised."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            arguments = [tensor_of(m, value) for value in values]
            outputs = tensors_in(m, program(m, *arguments))
            inputs = [t for t in tensors_in(m, arguments) if t.requires_grad]
            roots = [o for o in outputs if o.requires_grad]
            gradients: Any = [None] * len(inputs)
            if roots and inputs:
                gradients = m.autograd.grad([o.sum() for o in roots], inputs, allow_unused=True)
            dtypes = [str(o.dtype).removeprefix("torch.") for o in outputs]
            metadata = [(tuple(o.shape), dtype) for o, dtype in zip(outputs, dtypes, strict=True)]
            described = [(*known, array_of(o), o.requires_grad) for known, o in zip(metadata, outputs, strict=True)]
            return Result(described, [None if g is None else array_of(g) for g in gradients])
        except Exception as error:
            return error


def difference(ours: Result | Exception, theirs: Result | Exception) -> str | None:
    """What differs: its kind, and the rest in words. An error agrees with one of its type's bases, None with zeros.

    The kinds are "refused" (by PyTorch alone), "raises" (here alone), "error" (another type), "output" and "gradient".
    What PyTorch cuts off may have a gradient here, of zeros then.
    """
    if isinstance(theirs, Exception):
        if isinstance(ours, type(theirs)):
            return None
        result = ours.outputs if isinstance(ours, Result) else f"{type(ours).__name__}: {ours}"
        kind = "refused" if isinstance(ours, Result) else "error"
        return f"{kind}: PyTorch raises {type(theirs).__name__}: {theirs}; here {result}"
    if isinstance(ours, Exception):
        return f"raises: PyTorch gives {theirs.outputs}; here {type(ours).__name__}: {ours}"
    if len(ours.outputs) != len(theirs.outputs):
        return f"output: PyTorch gives {len(theirs.outputs)} tensors, here {len(ours.outputs)}"
    for i, (mine, other) in enumerate(zip(ours.outputs, theirs.outputs, strict=True)):
        if mine[:2] != other[:2] or other[3] > mine[3] or not _equal(mine[2], other[2]):
            return f"output: number {i}, PyTorch {other}, here {mine}"
    for i, (g, e) in enumerate(zip(ours.gradients, theirs.gradients, strict=True)):
        if not _equal(0 if g is None else g, 0 if e is None else e):
            return f"gradient: number {i}, PyTorch {e}, here {g}"
    return None


def _equal(mine: Any, other: Any) -> bool:
    return np.allclose(mine, other, rtol=1e-5, atol=1e-6, equal_nan=True)


# ---- arguments of other sizes -----------------------------------------------------------------------


def _resized(value: Any, old: int, new: int) -> Any:
    if isinstance(value, list):
        return [_resized(item, old, new) for item in value]
    if not isinstance(value, np.ndarray):
        return value
    return np.asarray(value[tuple([slice(new) if size == old else slice(None) for size in value.shape])])


def variants(args: Any) -> Iterator[list[Any]]:
    """Arguments with one size 0 or 1 everywhere, with one dimension of one array empty, and without dimensions."""
    arrays = [a for arg in args for a in (arg if isinstance(arg, list) else [arg]) if isinstance(a, np.ndarray)]
    for old in sorted({size for a in arrays for size in a.shape if size > 1}):
        for new in (0, 1):
            yield [_resized(a, old, new) for a in args]
    for i, value in enumerate(args):
        for axis in range(value.ndim if isinstance(value, np.ndarray) else 0):
            yield [*args[:i], value[(*(slice(None),) * axis, slice(0))], *args[i + 1 :]]
    yield [a.reshape(-1)[:1].reshape(()) if isinstance(a, np.ndarray) and a.size else a for a in args]


def shapes(args: Any) -> str:
    """The arguments as a line of text."""
    return ", ".join([f"{a.dtype}{list(a.shape)}" if isinstance(a, np.ndarray) else repr(a) for a in args])
