"""The state of a generator as a uint8 tensor on the CPU, as PyTorch has it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.generator import StreamPosition
from ..core.tensor import Tensor, wrap

_ON_CPU = np.dtype([("seed", "<u8"), ("state", "V16"), ("inc", "V16"), ("has_uint32", "<u4"), ("uinteger", "<u4")])


def as_bytes(position: StreamPosition) -> Tensor:
    """The seed and the state of PCG64, or of Philox, whose state has the seed."""
    seed, state = position
    if isinstance(state, dict):
        words = [state["state"][name].to_bytes(16, "little") for name in ("state", "inc")]
        state = np.array([(seed, *words, state["has_uint32"], state["uinteger"])], _ON_CPU)
    return wrap(np.frombuffer(state.tobytes(), np.uint8).copy())


def from_bytes(state: Any, on_cpu: bool) -> StreamPosition:
    """What `as_bytes` was given; TypeError or RuntimeError for another object or number of bytes."""
    if not isinstance(state, Tensor) or state.dtype != np.uint8:
        what = state.dtype if isinstance(state, Tensor) else type(state).__name__
        raise TypeError(f"RNG state must be a torch.ByteTensor, as get_state returns it, but is {what}")
    raw, size = state.numpy(force=True).tobytes(), _ON_CPU.itemsize if on_cpu else 16
    if len(raw) != size:
        raise RuntimeError(f"RNG state is wrong size: that of a generator on {'the CPU' if on_cpu else 'CUDA'} has "
                           f"{size} bytes, got {len(raw)}; use a state of a generator on such a device")
    if not on_cpu:
        words = np.frombuffer(raw, np.uint64)
        return int(words[0]), words
    entry = np.frombuffer(raw, _ON_CPU)[0]
    numbers = {name: int.from_bytes(entry[name].tobytes(), "little") for name in _ON_CPU.names or ()}
    inner = {name: numbers[name] for name in ("state", "inc")}
    rest = {name: numbers[name] for name in ("has_uint32", "uinteger")}
    return numbers["seed"], {"bit_generator": "PCG64", "state": inner, **rest}
