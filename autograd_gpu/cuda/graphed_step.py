"""make_graphed_step: a function whose calls are replays of CUDA graphs, one for each kind of inputs."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

from .. import modes, pytrees
from ..backend.cuda import capture, runtime
from ..core.interpret.interpreters import only_watched
from ..core.interpret.tracing import tracer
from ..core.tensor import Float8Tensor, Tensor, wrap
from ..errors import warn_user
from .capture_errors import CaptureError
from .graphs import CUDAGraph, graph

LOGGER = logging.getLogger("autograd_gpu.cuda.graphs")
MOST = 16  # graphs of a step; more mean that a number among its inputs changes with each call
MOST_KINDS = 16 * MOST  # of inputs that are remembered before they are captured
WARMUP = 3  # calls before a capture


class _Unfit(Exception):
    """Why a call cannot be a replay."""


def copied(array: Any, target: Any, stream: Any) -> Any:
    """Copies `array` to `target`, of the same shape and dtype; where it can be, without a ufunc of CuPy's."""
    if runtime.c_contiguous(array) and runtime.c_contiguous(target):
        target.data.copy_from_device_async(array.data, array.nbytes, stream)
    else:
        target[...] = array
    return target


class StaticCall:
    """A captured call: tensors that hold its inputs, its graph, and the results that a replay overwrites."""

    def __init__(self, function: Callable[..., Any], leaves: Sequence[Any], spec: Any, stream: Any, pool: Any) -> None:
        xp = runtime.cupy()
        self._empty = xp.empty
        self.leaves = [_static(xp, leaf) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        self._inputs = [(i, leaf.array) for i, leaf in enumerate(self.leaves) if isinstance(leaf, Tensor)]
        self.graph, self._pool = CUDAGraph(), pool
        args, kwargs = spec.unflatten(self.leaves)
        with graph(self.graph, pool, stream):
            result = function(*args, **kwargs)
        self.graph._journal.restore()  # nothing has run yet
        results, self._spec = pytrees.flatten(result)
        if any(isinstance(leaf, Float8Tensor) for leaf in results):
            raise _Unfit("a result is a tensor in float8, whose codes a graph would take for numbers; return it in "
                         "another dtype")
        self._results = [leaf.array if isinstance(leaf, Tensor) and leaf.is_cuda else None for leaf in results]
        self._constants = [leaf if array is None else None for leaf, array in zip(results, self._results, strict=True)]

    def fits(self) -> bool:
        """Whether a replay would do what the call does: not if `.grad`s that it adds to were replaced."""
        return not self.graph._assumed()

    def __call__(self, leaves: Sequence[Any]) -> Any:
        """Replays the call with other inputs; the results are copies."""
        stream, empty = runtime.current.stream(), self._empty
        self._pool.order(stream)
        for i, static in self._inputs:
            copied(leaves[i]._array, static, stream)
        self.graph._launch(self.graph._recording_of("replay"), stream)
        return self._spec.unflatten([
            constant if array is None else wrap(copied(array, empty(array.shape, array.dtype), stream))
            for array, constant in zip(self._results, self._constants, strict=True)
        ])  # fmt: skip


def _static(xp: Any, tensor: Tensor) -> Tensor:
    return wrap(xp.zeros(tensor.shape, tensor.array.dtype))._set_requires_grad(tensor.requires_grad)


class _Kind:
    """What is known of the calls with one kind of inputs."""

    def __init__(self) -> None:
        self.calls, self.refused = 0, False
        self.captured: list[StaticCall] = []  # one for each state of the .grads that it adds to


class GraphedStep:
    """A function whose calls are replays of CUDA graphs; `make_graphed_step` makes it."""

    def __init__(self, step: Callable[..., Any], warmup: int) -> None:
        functools.update_wrapper(self, step)
        self._step, self._warmup = step, warmup
        self._lock = threading.RLock()
        self.reset()

    def reset(self) -> None:
        """Drops the graphs: the next calls warm up and are captured anew.

        For when what the step uses lies elsewhere: after `load_state_dict` of an optimizer, or `parameter.data = ...`.
        """
        with self._lock:
            self._kinds: dict[Any, _Kind] = {}
            self._warned: set[str] = set()
            self._stream: Any = None
            self._pool: capture.GraphPool | None = None

    @property
    def graphs(self) -> int:
        """The number of graphs that were captured."""
        return sum(len(kind.captured) for kind in self._kinds.values())

    def __repr__(self) -> str:
        return f"<graphed {getattr(self._step, '__qualname__', self._step)}: {self.graphs} graphs>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._is_captured() or tracer() is not None:  # as a part of another graph, or of a compiled call
            return _detached(self._step(*args, **kwargs))
        leaves, structure = _parts(args, kwargs)
        with self._lock:
            try:
                kind = self._kind(leaves, structure)
            except _Unfit as reason:
                return self._eagerly(str(reason), args, kwargs)
            captured = next((captured for captured in kind.captured if captured.fits()), None)
            if captured is not None:
                try:
                    return captured(leaves)
                except capture.StaleGraphError as error:
                    LOGGER.info("%r: captures again: %s", self, error)
                    kind.captured.remove(captured)
            if kind.refused:
                return _detached(self._step(*args, **kwargs))
            if kind.calls < self._warmup:
                kind.calls += 1
                return _detached(self._step(*args, **kwargs))
            try:
                return self._capture(kind, args, kwargs)(leaves)
            except (CaptureError, _Unfit) as error:
                if isinstance(error.__cause__, capture.NotReadyError):
                    LOGGER.info("%r: not captured yet: %s", self, error)
                    return _detached(self._step(*args, **kwargs))
                kind.refused = True
                return self._eagerly(str(error), args, kwargs)

    def _is_captured(self) -> bool:
        if self._pool is None:  # and there may be no device
            return capture.is_capturing()
        return capture.is_captured(runtime.current.stream())

    def warm_up(self, args: tuple[Any, ...]) -> None:
        """Calls the step with `args` as often as a capture wants, and captures it."""
        for _ in range(self._warmup):
            self(*args)
        try:
            kind = self._kind(*_parts(args, {}))
            if not kind.refused:
                self._capture(kind, args, {})
        except (CaptureError, _Unfit) as error:
            kind.refused = True
            self._warn(str(error))

    def _kind(self, leaves: Sequence[Any], structure: Any) -> _Kind:
        """The kind of inputs; _Unfit for those whose calls cannot be replays."""
        if self._pool is None and not runtime.is_available():
            raise _Unfit("there is no CUDA device")
        here, bits = runtime.current.device(), modes.MODES.bits
        if only_watched():  # a profile: the graph is the same without it
            bits &= modes.RECORDING_MASK
        else:
            raise _Unfit("it is called inside a function transform, saved-tensor hooks or anomaly mode; use them "
                         "inside of the step instead")
        words = [_word(i, leaf, here) for i, leaf in enumerate(leaves)]
        key = (structure, here, bits, modes.float32_matmul.precision, *words)
        try:
            kind = self._kinds.get(key)
        except TypeError:
            raise _Unfit("an input is neither a tensor nor hashable") from None
        if kind is None:
            if len(self._kinds) >= MOST_KINDS:
                self._kinds = {key: kind for key, kind in self._kinds.items() if kind.captured}
            kind = self._kinds[key] = _Kind()
        return kind

    def _capture(self, kind: _Kind, args: tuple[Any, ...], kwargs: dict[str, Any]) -> StaticCall:
        if self.graphs >= MOST:
            raise _Unfit(f"it has {MOST} graphs already; what changes with each call must be a tensor, not a number, "
                         "and reset() drops the graphs")
        if self._pool is None:
            self._pool = capture.GraphPool()
            self._stream = runtime.cupy().cuda.Stream(non_blocking=True)
        leaves, spec = pytrees.flatten((args, kwargs))
        try:
            captured = StaticCall(self._step, leaves, spec, self._stream, self._pool)
        except BaseException:
            if not self.graphs:  # else they share its memory
                self._pool = self._stream = None
            raise
        kind.captured.append(captured)
        kind.calls = self._warmup - 1  # for another state of the .grads
        if LOGGER.isEnabledFor(logging.INFO):
            LOGGER.info("%r: captured for (%s); the memory of its graphs is %.1f MiB", self,
                        ", ".join(map(_shown, leaves)), self._pool.memory.total_bytes() / 2**20)
        return captured

    def _eagerly(self, reason: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._warn(reason)
        return _detached(self._step(*args, **kwargs))

    def _warn(self, reason: str) -> None:
        if reason not in self._warned:
            self._warned.add(reason)
            warn_user(f"{self!r} runs without a graph: {reason}")


def _parts(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Sequence[Any], Any]:
    """The leaves of the arguments and what tells their structure; of tensors alone, as in most calls, their number."""
    if not kwargs and all(isinstance(x, Tensor) for x in args):
        return args, len(args)
    return pytrees.flatten((args, kwargs))


def _word(i: int, leaf: Any, here: int) -> Any:
    """What a graph depends on of an input: of a tensor shape and dtype, of anything else the value."""
    if not isinstance(leaf, Tensor):
        return type(leaf), leaf.hex() if type(leaf) is float else leaf  # -0.0 is not 0.0, and NaN is NaN
    array = leaf._array
    if isinstance(leaf, Float8Tensor):
        raise _Unfit(f"input {i} is a tensor in {leaf.dtype}, whose codes a graph would take for numbers; convert it "
                     "before the call, to float16 for example")
    if not isinstance(array, runtime.cupy().ndarray):
        raise _Unfit(f"input {i} is a tensor in host memory; move it to the device first")
    if array.data.device_id != here:
        raise _Unfit(f"input {i} is on cuda:{array.data.device_id}, but the current device is cuda:{here}")
    if not leaf.is_leaf:
        raise _Unfit(f"input {i} has a history, which a graph would cut off; pass input.detach()")
    return array.shape, array.dtype, leaf.requires_grad


def _shown(leaf: Any) -> str:
    return f"{leaf.dtype}{list(leaf.shape)}" if isinstance(leaf, Tensor) else repr(leaf)


def _detached(result: Any) -> Any:
    return pytrees.tree_map(lambda leaf: leaf.detach() if isinstance(leaf, Tensor) else leaf, result)


def make_graphed_step(step: Callable[..., Any], *samples: Any, warmup: int = WARMUP) -> GraphedStep:
    """A function that does what `step` does, by replaying a CUDA graph: one launch instead of one for each operation.

    The first `warmup` calls with inputs of each kind (shapes, dtypes, other values) run `step` itself; the next one is
    captured, and it and all later calls are replays. So every call is one step of the training, and none is lost.
    With `samples` these calls are made at once, with the samples as inputs: they are steps, too, and no call by the
    user is slow.

    Inputs are copied into the graph's memory, and results are copies without a history. What `step` does besides
    (parameters, `.grad`s, states of optimizers) lies where it lay at the capture: see `GraphedStep.reset`. Python code
    runs in the first calls only: what it counts or prints does not happen in a replay. If a step cannot be captured, it
    runs as it is, and one warning says why. The log "autograd_gpu.cuda.graphs" has a line for each graph.

    >>> w = ag.ones(2, requires_grad=True)
    >>> def step(x):
    ...     w.grad = None
    ...     loss = ((x * w).sum() - 1) ** 2
    ...     loss.backward()
    ...     with ag.no_grad():
    ...         w.sub_(0.1 * w.grad)
    ...     return loss
    >>> if ag.cuda.is_available():
    ...     fast = ag.cuda.make_graphed_step(step)
    ...     losses = [float(fast(ag.tensor([1.0, 1.0], device=w.device))) for _ in range(8)]
    """
    if warmup < 1:
        raise ValueError(f"make_graphed_step: warmup must be at least 1, got {warmup}: kernels must be compiled and "
                         "states made before a capture")
    graphed = GraphedStep(step, warmup)
    if samples:
        graphed.warm_up(samples)
    return graphed
