"""The key of a call: what of the arguments and of the thread's modes decides about what it does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..backend.arrays import strides
from ..backend.arrays.device import get_default_device
from ..backend.arrays.dtypes import get_default_dtype
from ..core.codegen.source import Source
from ..core.graph.storage import INFERENCE_STORAGE
from ..core.interpret.interpreters import only_watched
from ..core.tensor import Float8Tensor, Parameter, Tensor
from ..core.thread_state import THREAD
from ..modes import MODES, RECORDING_MASK, float32_matmul
from .graph import root_of


class Unfit(Exception):
    """Why a call cannot be compiled."""


def key_of(leaves: Sequence[Any], spec: Any, hooks: Any) -> Any:
    """The key, with what it has of saved-tensor hooks; Unfit if there is none."""
    words = [_tensor_word(x) if isinstance(x, Tensor) else word(x) for x in leaves]
    key = (spec, hooks, *modes(), *words, *shared_memory(leaves))
    try:
        hash(key)
    except TypeError:
        raise Unfit("an argument, or what a saved-tensor hook closes over, is neither a tensor nor hashable; pass "
                    "tensors, numbers and strings") from None
    return key


def modes() -> tuple[Any, ...]:
    """The settings of the thread and of the process that decide about what a call does."""
    bits = MODES.bits & RECORDING_MASK if only_watched() else MODES.bits  # a profile changes nothing
    return bits, get_default_dtype(), str(get_default_device()), float32_matmul.precision


def matcher(leaves: Sequence[Any]) -> Callable[[Sequence[Any]], bool] | None:
    """A function that says whether tensors have the key that these have now, and nothing forbids a replay.

    It may say False where the key is the same; then the key decides. None if there is no such function: for views,
    tensors that are not in host memory, and modes beside those of recording. It takes a tenth of the time of a key.
    """
    plain = all(type(x) in (Tensor, Parameter) and x._base is None and type(x._array) is np.ndarray for x in leaves)
    if not plain or MODES.bits > RECORDING_MASK or shared_memory(leaves):
        return None
    w = Source()
    scope: dict[str, Any] = {
        "MODES": MODES, "THREAD": THREAD, "dtype_now": get_default_dtype, "device_now": get_default_device,
        "matmul": float32_matmul, "shared_memory": shared_memory, "Tensor": Tensor, "ndarray": np.ndarray,
        "INFERENCE": INFERENCE_STORAGE, "dtype": get_default_dtype(), "device": get_default_device(),
    }  # fmt: skip
    w("def matches(leaves):")
    w.depth = 1
    arrays = [f"a{i}" for i in range(len(leaves))]
    for i, (x, a) in enumerate(zip(leaves, arrays, strict=True)):
        scope[f"d{i}"] = x._array.dtype
        if type(x) is Parameter:
            scope[f"x{i}"] = x
        kind = f"type(x) is not Tensor or (x._storage is INFERENCE) is not {x.is_inference()}"
        w(f"x = leaves[{i}]; {a} = x._array")
        w(f"if {f'x is not x{i}' if type(x) is Parameter else kind} or type({a}) is not ndarray: return False")
        w(f"if {a}.shape != {x.shape!r} or {a}.strides != {x._array.strides!r} or {a}.dtype is not d{i}: return False")
        w(f"if x._base is not None or (x._fn is None) is {x.requires_grad}: return False")
    if len(arrays) > 1:
        bases = " or ".join(f"{a}.base is not None" for a in arrays)
        pairs = "".join(f" or {a} is {b}" for i, a in enumerate(arrays) for b in arrays[:i])
        w(f"if ({bases}{pairs}) and shared_memory(leaves): return False")
    w(f"return MODES.bits == {MODES.bits} and not THREAD.state.start_hooks and dtype_now() is dtype and "
      f"device_now() is device and matmul.precision == {float32_matmul.precision!r}")
    function: Callable[[Sequence[Any]], bool] = w.define_as("matches", scope, "<compiled key>")
    return function


def word(x: Any) -> Any:
    """What tells a value that is no tensor from others: 1 from True, 0.0 from -0.0."""
    return type(x), x.hex() if type(x) is float else x


def _tensor_word(x: Tensor) -> Any:
    array = x._array
    kind = type(x)
    if kind is Float8Tensor:
        raise Unfit("an argument is a float8 tensor; convert it before the call")
    home = 0 if isinstance(array, np.ndarray) else array.device.id + 1
    named = id(x) if kind is Parameter else kind
    return named, array.shape, array.strides, array.dtype, home, x.requires_grad, x.is_inference()


def shared_memory(leaves: Sequence[Any]) -> tuple[tuple[int, int, bool, bool], ...]:
    """(i, j, whether they are one array, whether they are one tensor) for leaves that share memory."""
    arrays = [(i, x._array) for i, x in enumerate(leaves) if isinstance(x, Tensor)]
    if len(arrays) < 2 or (all(type(a) is not np.ndarray or a.base is None for _, a in arrays)
                           and len({root_of(a) for _, a in arrays}) == len(arrays)):
        return ()
    extents = [(i, array, *strides.extent(array)) for i, array in arrays]
    found = []
    for n, (i, a, begin, end) in enumerate(extents):
        for j, b, other_begin, other_end in extents[n + 1 :]:
            if a is b or (begin < other_end and other_begin < end):
                found.append((i, j, a is b, leaves[i] is leaves[j]))
    return tuple(found)
