"""Thread-local modes: recording, inference, anomaly detection, saved-tensor hooks, interpreters.

An operation reads `MODES.bits` once. 0 is the common case (recording only); GRAD_OFF and INFERENCE stay on the fast
path; any higher bit sends the call through the general path.
"""

from __future__ import annotations

import functools
import inspect
import threading
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

GRAD_OFF = 1
INFERENCE = 2  # no recording, and results cannot be used in a graph later
SAVING = 4  # saved tensors are passed to hooks
ANOMALY = 8  # nodes store the traceback of their creation
TRANSFORMED = 16  # every call of an op goes to the innermost interpreter of `MODES.stack`
RECORDING_MASK = GRAD_OFF | INFERENCE  # the bits of the fast path

Fn = TypeVar("Fn", bound=Callable[..., Any])


class _Modes(threading.local):
    bits = 0
    saving: tuple[Any, ...] = ()  # pairs of saved-tensor hooks, innermost last
    saving_refused: str | None = None  # why hooks may not be set
    withheld: list[Any] | None = None  # outputs that wait to be handed to hooks, see core/saved/saved_tensor_hooks.py
    stack: tuple[Any, ...] = ()  # interpreters, innermost last, see core/interpret/interpreters.py
    forward_off = False  # whether forward mode is disabled
    drawing: tuple[Any, ...] = ()  # blocks of random numbers, innermost last, see random/replay.py


MODES = _Modes()


def current_modes() -> dict[str, Any]:
    """This thread's modes, for a helper thread that goes on with its work: `MODES.__dict__.update(...)` there."""
    return dict(MODES.__dict__)


_NONE = {name: value for name, value in vars(_Modes).items() if not name.startswith("__")}


def restore_modes(modes: dict[str, Any]) -> None:
    """Sets this thread's modes to what `current_modes` answered once."""
    MODES.__dict__.update({**_NONE, **modes})


class _Mode:
    """Base of the recording modes: context manager and decorator, also of generators. `_mask` are its bits."""

    _on: int
    _mask = GRAD_OFF
    _previous: list[int]

    def __new__(cls, fn: Callable[..., Any] | None = None) -> Any:
        """Makes the mode for `no_grad()`, or decorates `fn` for `@no_grad` without parentheses."""
        return object.__new__(cls) if fn is None else decorated(fn, cls)

    def __enter__(self) -> None:
        previous = MODES.bits
        self.__dict__.setdefault("_previous", []).append(previous)  # one instance may be entered twice
        MODES.bits = previous & ~self._mask | self._on

    def __exit__(self, *exc: object) -> None:
        MODES.bits = MODES.bits & ~self._mask | self._previous[-1] & self._mask
        del self._previous[-1]  # last, so that an interrupt in between leaves the mode right

    def _clone(self) -> _Mode:
        return type(self)()

    def __call__(self, fn: Fn) -> Fn:
        """Decorates `fn`; a generator function holds the mode only while its own body runs."""
        return decorated(fn, self._clone)


def decorated(fn: Fn, mode: Callable[[], Any]) -> Fn:
    """`fn` wrapped to run in `mode()`; of a class only the constructor is wrapped, with a warning."""
    if inspect.isclass(fn):
        warnings.warn(
            "Decorating classes is deprecated and will be disabled in future versions. You should only decorate "
            "functions or methods. To preserve the current behavior of class decoration, you can directly decorate the "
            "`__init__` method and nothing else.", FutureWarning, stacklevel=3,
        )
    if inspect.isgeneratorfunction(fn):
        return _wrap_generator(mode, fn)

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with mode():
            return fn(*args, **kwargs)

    return wrapped  # type: ignore[return-value]


def _wrap_generator(mode: Callable[[], Any], fn: Any) -> Any:
    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        generator = fn(*args, **kwargs)
        resume, value = generator.send, None
        try:
            while True:
                try:
                    with mode():
                        item = resume(value)
                except StopIteration as stop:
                    return stop.value
                try:
                    value = yield item
                    resume = generator.send
                except GeneratorExit:
                    raise
                except BaseException as error:  # thrown by the caller: pass it to the generator
                    resume, value = generator.throw, error
        finally:
            with mode():
                generator.close()

    return wrapped


class no_grad(_Mode):
    """Disables recording: results do not require grad. Thread-local; context manager or decorator.

    >>> x = ag.ones(2, requires_grad=True)
    >>> with ag.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    _on = GRAD_OFF


class enable_grad(_Mode):
    """Enables recording, also inside `no_grad`. Thread-local; context manager or decorator.

    >>> x = ag.ones(2, requires_grad=True)
    >>> with ag.no_grad(), ag.enable_grad():
    ...     y = x * 2
    >>> y.requires_grad
    True
    """

    _on = 0


class set_grad_enabled(_Mode):
    """Sets recording to `mode` at the call; as a context manager, restores it at exit.

    >>> with ag.set_grad_enabled(False):
    ...     ag.is_grad_enabled()
    False
    """

    def __new__(cls, mode: bool) -> Any:
        return object.__new__(cls)

    def __init__(self, mode: bool) -> None:
        self._on = 0 if mode else GRAD_OFF
        self._before = MODES.bits
        MODES.bits = self._before & ~GRAD_OFF | self._on

    def __enter__(self) -> None:
        super().__enter__()
        self._previous[-1] = self._before  # __init__ has set the mode already

    def _clone(self) -> _Mode:
        return set_grad_enabled(not self._on)

    def __call__(self, fn: Fn) -> Fn:
        MODES.bits = MODES.bits & ~GRAD_OFF | self._before & GRAD_OFF  # a decorator sets the mode only during calls
        return decorated(fn, self._clone)


def is_grad_enabled() -> bool:
    """Whether operations of this thread are recorded.

    >>> ag.is_grad_enabled()
    True
    """
    return not MODES.bits & GRAD_OFF


class inference_mode(_Mode):
    """Disables recording and version counting: tensors made inside cannot be used in a graph later.

    inference_mode(mode=True): thread-local; context manager or decorator; inference_mode(False) disables it
    temporarily. RuntimeError for saving a tensor made inside for backward, and outside for writing to it or setting its
    requires_grad: `clone()` it there. A view of an ordinary tensor is an ordinary tensor.

    >>> with ag.inference_mode():
    ...     y = ag.ones(2) * 2
    >>> y.is_inference(), y.requires_grad
    (True, False)
    """

    _mask = RECORDING_MASK

    def __new__(cls, mode: Any = True) -> Any:
        """Makes the mode for `inference_mode()`, or decorates for `@inference_mode` without parentheses."""
        return object.__new__(cls) if isinstance(mode, bool) else decorated(mode, cls)

    def __init__(self, mode: bool = True) -> None:
        self._on = RECORDING_MASK if mode else 0

    def _clone(self) -> _Mode:
        return inference_mode(bool(self._on))


def is_inference_mode_enabled() -> bool:
    """Whether this thread is in `inference_mode`.

    >>> ag.is_inference_mode_enabled()
    False
    """
    return bool(MODES.bits & INFERENCE)


PRECISIONS = ("highest", "high", "medium")


class _Float32Matmul:
    """The process-wide setting, as in PyTorch, since backward may run on other threads; read at each product."""

    precision = "highest"


float32_matmul = _Float32Matmul()


def set_float32_matmul_precision(precision: str) -> None:
    """Sets the precision of float32 matrix products on CUDA.

    "highest", the default, is float32. "high" and "medium" allow tensor cores to round the operands to TF32 (10
    mantissa bits instead of 23) and accumulate in float32. Does not change CuPy's own switch. On the CPU products are
    always float32. ValueError for another value.

    >>> ag.set_float32_matmul_precision("highest")
    """
    if precision not in PRECISIONS:
        allowed = ", ".join(PRECISIONS)
        raise ValueError(f"set_float32_matmul_precision: precision is one of {allowed}; got {precision!r}")
    float32_matmul.precision = precision


def get_float32_matmul_precision() -> str:
    """The setting of `set_float32_matmul_precision`.

    >>> ag.get_float32_matmul_precision()
    'highest'
    """
    return float32_matmul.precision
