"""GradScaler: scales a loss so that gradients in half precision do not vanish, and skips steps that overflowed."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from enum import Enum
from functools import partial
from typing import Any

import numpy as np

from .. import foreach
from ..backend.arrays.dtypes import float16, float32, float64
from ..backend.cuda import live_numbers
from ..backend.cuda.foreach import list_norms
from ..backend.cuda.live_numbers import LiveNumbers, Skip
from ..backend.cuda.runtime import is_available
from ..core.graph.storage import before_write, bump_version
from ..core.interpret.tracing import refuse as refuse_traced
from ..core.tensor import Tensor, wrap
from ..modes import no_grad
from ..ops import isfinite, maximum
from ..ops.foreach.arrays import launched


class _Stage(Enum):
    READY = 0
    UNSCALED = 1
    STEPPED = 2


class _Books:
    """What is known of each optimizer since the last update, by its id."""

    def __init__(self) -> None:
        self.stages: dict[int, _Stage] = {}
        self.overflows: dict[int, Any] = {}  # whether it has; in a capture an array, not 0 where it has


def _extremes(grads: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """For each device a number that is infinite or NaN if an element is, and whether the other elements are finite."""
    norms, left = list_norms([grad.array for grad in grads], math.inf)
    largest: dict[Any, Tensor] = {}
    for norm in map(wrap, norms):
        largest[norm.device] = maximum(largest[norm.device], norm) if norm.device in largest else norm
    flags: dict[Any, Tensor] = {}
    for flag in [isfinite(grads[i]).all() for i in left]:
        flags[flag.device] = flags[flag.device] & flag if flag.device in flags else flag
    return list(largest.values()), list(flags.values())


def _finite(grads: list[Tensor]) -> bool:
    """Whether all elements of all gradients are finite; reads one number from each device."""
    largest, flags = _extremes(grads)
    return all(math.isfinite(float(norm)) for norm in largest) and all(map(bool, flags))


def _overflowed(grads: list[Tensor]) -> Any:
    """An array of a float64 number in device memory that is 0 if `_finite(grads)`."""
    largest, flags = _extremes(grads)
    finite, *others = [*map(isfinite, largest), *flags]
    for flag in others:
        finite = finite & flag
    return (~finite).array.reshape(1).astype(float64)


class GradScaler:
    """Scales losses, unscales gradients, and steps unless a gradient is infinite or NaN; then it lowers the scale.

    GradScaler(device="cuda", init_scale=65536, growth_factor=2, backoff_factor=0.5, growth_interval=2000,
    enabled=True). After `growth_interval` steps in a row without infinities the scale grows. Without `enabled`, and on
    "cuda" without CUDA (with a warning), every call passes its arguments through. A step reads one number from the
    device, as in PyTorch. In a CUDA graph the optimizer's kernel skips the step, and each replay waits for its end,
    when the host counts the step or lowers the scale.

    >>> w = ag.nn.Parameter(ag.ones(1))
    >>> optimizer, scaler = ag.optim.SGD([w], lr=0.5), ag.amp.GradScaler("cpu")
    >>> scaler.scale(w.sum()).backward()
    >>> _ = scaler.step(optimizer)
    >>> scaler.update()
    >>> w.item()
    0.5
    """

    def __init__(
        self, device: str = "cuda", init_scale: float = 2.0**16, growth_factor: float = 2.0,
        backoff_factor: float = 0.5, growth_interval: int = 2000, enabled: bool = True,
    ) -> None:  # fmt: skip
        if enabled and device == "cuda" and not is_available():
            warnings.warn("GradScaler is enabled, but CUDA is not available. Disabling.", UserWarning, stacklevel=2)
            enabled = False
        self._device, self._enabled = device, enabled
        if not enabled:
            return
        if growth_factor <= 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if backoff_factor >= 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._scale, self._growth_factor, self._backoff_factor = float(init_scale), growth_factor, backoff_factor
        self._growth_interval, self._growth_tracker = growth_interval, 0
        self._books = _Books()

    def _open_books(self, live: LiveNumbers | None) -> _Books:
        """Those of the capture, or of now."""
        refuse_traced("a step of GradScaler", "call it outside of the compiled function")
        if live is None:
            return self._books
        if self not in live.held and self._books.stages:
            raise RuntimeError("a step of GradScaler that has begun cannot be captured in a CUDA graph: call update() "
                               "before the capture")
        books: _Books = live.held.setdefault(self, _Books())
        return books

    # ---- a step --------------------------------------------------------------------------------

    def scale(self, outputs: Any) -> Any:
        """`outputs`, a tensor or an iterable of them, times the scale. ValueError for anything else."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._factor(outputs)
        if not isinstance(outputs, Iterable):
            raise ValueError("outputs must be a Tensor or an iterable of Tensors")
        scaled = map(self.scale, outputs)
        return type(outputs)(scaled) if isinstance(outputs, (list, tuple)) else scaled

    def _factor(self, outputs: Tensor) -> Any:
        """The scale; in a CUDA graph a tensor that each replay fills."""
        refuse_traced("GradScaler.scale", "call it outside of the compiled function")
        live = live_numbers.current()
        if live is None:
            return self._scale
        if outputs.dtype not in (float32, float64):
            raise RuntimeError(f"a CUDA graph scales losses in float32 or float64, since {outputs.dtype} may not hold "
                               "the scale: scale(loss.float())")
        return wrap(live.array(lambda: np.array([self._scale]), 1).reshape(()).astype(outputs.dtype))

    def unscale_(self, optimizer: Any) -> None:
        """Divides the gradients of the optimizer's parameters by the scale, in place, for example to clip them.

        RuntimeError the second time before `update`, and after `step`; ValueError for gradients in float16.
        """
        if not self._enabled:
            return
        live, key = live_numbers.current(), id(optimizer)
        books = self._open_books(live)
        stage = books.stages.get(key, _Stage.READY)
        if stage is _Stage.UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if stage is _Stage.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        grads = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        if any(grad.dtype == float16 for grad in grads):
            raise ValueError("Attempting to unscale FP16 gradients.")
        if grads:
            with no_grad():
                books.overflows[key] = self._unscaled(grads) if live is None else self._captured(live, key, grads)
        books.stages[key] = _Stage.UNSCALED

    def _unscaled(self, grads: list[Tensor]) -> bool:
        """Divides by the scale; whether one of `grads` overflows."""
        foreach.mul_(grads, 1.0 / self._scale)
        return not _finite(grads)

    def _captured(self, live: LiveNumbers, key: int, grads: list[Tensor]) -> Any:
        """Captures `_unscaled`; the array that tells the result."""
        if not all(grad.is_cuda for grad in grads):
            raise RuntimeError("a CUDA graph unscales gradients on CUDA only, and a replay would leave one on the CPU "
                               "as it is: call unscale_() after the replay")
        before_write(grads)
        arrays = [grad.array for grad in grads]
        left = launched("mul", arrays, arrays, live.array(lambda: (1.0 / self._scale,), 1).reshape(()))
        for i in left:
            arrays[i] *= live.array(lambda: np.array([1.0 / self._scale]), 1).astype(arrays[i].dtype)
        for grad in grads:
            bump_version(grad)
        overflowed = _overflowed(grads)
        told = live.read_back(overflowed)

        def learn() -> None:
            self._books.overflows[key], self._books.stages[key] = told() != 0, _Stage.UNSCALED

        live.after(learn)
        return overflowed

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Unscales the gradients, unless that is done, and calls optimizer.step(*args, **kwargs) if all are finite.

        Returns what that call returns, or None. RuntimeError for a second step before `update`, and for a closure.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        live, key = live_numbers.current(), id(optimizer)
        books = self._open_books(live)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        stage = books.stages.get(key, _Stage.READY)
        if stage is _Stage.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if stage is _Stage.READY:
            self.unscale_(optimizer)
        if key not in books.overflows:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        if live is not None:
            result = self._captured_step(live, books.overflows[key], optimizer, args, kwargs)
        else:
            result = None if books.overflows[key] else optimizer.step(*args, **kwargs)
        books.stages[key] = _Stage.STEPPED
        return result

    def _captured_step(self, live: LiveNumbers, overflowed: Any, optimizer: Any, args: Any, kwargs: Any) -> Any:
        """Captures a step that its kernels skip if `overflowed`; the host learns of it behind the replay."""
        live.skip = skip = Skip(overflowed)
        try:
            result = optimizer.step(*args, **kwargs)
        finally:
            live.skip = None
        if not skip.undos:
            raise RuntimeError(f"a captured step of GradScaler is skipped on the device, which step() of "
                               f"{type(optimizer).__name__} cannot: capture forward, scale() and backward, and call it "
                               "after the replay")
        key = id(optimizer)

        def learn() -> None:
            if self._books.overflows[key]:
                for undo in skip.undos:
                    undo()
            self._books.stages[key] = _Stage.STEPPED

        live.after(learn)
        return result

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Lowers the scale if a gradient overflowed since the last call, else counts towards its growth.

        With `new_scale` it becomes the scale. AssertionError if no gradients were unscaled.
        """
        if not self._enabled:
            return
        live = live_numbers.current()
        books = self._open_books(live)
        new_scale = None if new_scale is None else float(new_scale)
        if new_scale is None and not books.overflows:
            raise AssertionError("No inf checks were recorded prior to update.")
        if live is not None:
            live.held[self] = _Books()
            live.after(partial(self.update, new_scale))
            return
        if new_scale is not None:
            self._scale = new_scale
        elif any(books.overflows.values()):
            self._scale, self._growth_tracker = self._scale * self._backoff_factor, 0
        else:
            self._growth_tracker += 1
            if self._growth_tracker == self._growth_interval:
                self._scale, self._growth_tracker = self._scale * self._growth_factor, 0
        self._books = _Books()

    # ---- settings ------------------------------------------------------------------------------

    def get_scale(self) -> float:
        """The scale; 1.0 where scaling is disabled."""
        return self._scale if self._enabled else 1.0

    def get_growth_factor(self) -> float:
        """What the scale is multiplied by after `growth_interval` steps without infinities."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Sets the growth factor."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """What the scale is multiplied by after a step with infinities."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Sets the backoff factor."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """The number of steps in a row without infinities after which the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Sets the growth interval."""
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Whether losses are scaled."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """The scale and the settings, with PyTorch's keys; empty where scaling is disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self._scale, "growth_factor": self._growth_factor, "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval, "_growth_tracker": self._growth_tracker,
        }  # fmt: skip

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores what `state_dict` returned; RuntimeError if that was empty and scaling is enabled."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError("The source state dict is empty, possibly because it was saved from a disabled instance "
                               "of GradScaler.")
        for key in ("scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker"):
            setattr(self, f"_{key}" if key != "_growth_tracker" else key, state_dict[key])


__all__ = ["GradScaler"]
