"""Thread-local modes: whether operations are recorded, and which interpreters listen.

An operation reads `MODES.bits` once. 0 is the common case (record, nobody listens); the lowest bit says that
recording is off; every higher bit sends the call through the general path of `core.dispatch`.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable
from typing import Any, TypeVar

GRAD_OFF = 1
ANOMALY = 8

Fn = TypeVar("Fn", bound=Callable[..., Any])


class _Modes(threading.local):
    bits = 0


MODES = _Modes()


class _GradMode:
    """Base of `no_grad` and `enable_grad`: context manager and decorator, also of generators."""

    _off: bool
    _previous: list[int]

    def __new__(cls, fn: Callable[..., Any] | None = None) -> Any:
        """no_grad() is the mode; `@no_grad` without parentheses decorates at once."""
        return object.__new__(cls) if fn is None else object.__new__(cls)(fn)

    def __enter__(self) -> None:
        previous = MODES.bits
        self.__dict__.setdefault("_previous", []).append(previous)  # one instance may be entered twice
        MODES.bits = previous | GRAD_OFF if self._off else previous & ~GRAD_OFF

    def __exit__(self, *exc: object) -> None:
        MODES.bits = MODES.bits & ~GRAD_OFF | self._previous.pop() & GRAD_OFF

    def _clone(self) -> _GradMode:
        return type(self)()

    def __call__(self, fn: Fn) -> Fn:
        """Decorates `fn`; a generator function holds the mode only while its own body runs."""
        if inspect.isgeneratorfunction(fn):
            return _wrap_generator(self._clone, fn)

        @functools.wraps(fn)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self._clone():
                return fn(*args, **kwargs)

        return wrapped  # type: ignore[return-value]


def _wrap_generator(mode: Callable[[], _GradMode], fn: Any) -> Any:
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
                except BaseException as error:  # thrown in by the caller: hand it to the wrapped body
                    resume, value = generator.throw, error
        finally:
            with mode():
                generator.close()

    return wrapped


class no_grad(_GradMode):
    """Turns recording off: results do not require grad. Thread-local; context manager or decorator.

    >>> x = ag.ones(2, requires_grad=True)
    >>> with ag.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    _off = True


class enable_grad(_GradMode):
    """Turns recording on, also inside `no_grad`. Thread-local; context manager or decorator.

    >>> x = ag.ones(2, requires_grad=True)
    >>> with ag.no_grad(), ag.enable_grad():
    ...     y = x * 2
    >>> y.requires_grad
    True
    """

    _off = False


class set_grad_enabled(_GradMode):
    """Sets recording to `mode`, at once; as a context manager it is undone at the end.

    >>> with ag.set_grad_enabled(False):
    ...     ag.is_grad_enabled()
    False
    """

    def __new__(cls, mode: bool) -> Any:
        return object.__new__(cls)

    def __init__(self, mode: bool) -> None:
        self._off = not mode
        self._before = MODES.bits
        MODES.bits = self._before | GRAD_OFF if self._off else self._before & ~GRAD_OFF

    def __enter__(self) -> None:
        super().__enter__()
        self._previous[-1] = self._before  # the call itself has switched already

    def _clone(self) -> _GradMode:
        return set_grad_enabled(not self._off)

    def __call__(self, fn: Fn) -> Fn:
        MODES.bits = MODES.bits & ~GRAD_OFF | self._before & GRAD_OFF  # a decorator switches at the call only
        return super().__call__(fn)


def is_grad_enabled() -> bool:
    """Whether operations of this thread are recorded.

    >>> ag.is_grad_enabled()
    True
    """
    return not MODES.bits & GRAD_OFF


PRECISIONS = ("highest", "high", "medium")


class _Float32Matmul:
    """One setting for the process, as in PyTorch: backward runs on other threads too. Read at each product."""

    precision = "highest"


float32_matmul = _Float32Matmul()


def set_float32_matmul_precision(precision: str) -> None:
    """Sets how float32 matrix products run on CUDA, from the next one on.

    "highest" is float32 throughout, the default. "high" and "medium" let the tensor cores round the operands to TF32
    (10 bits of mantissa instead of 23) and sum in float32. Each product carries the setting with it: CuPy's own
    process-wide switch is not touched. On the CPU products are always float32.

    >>> ag.set_float32_matmul_precision("highest")
    """
    if precision not in PRECISIONS:
        allowed = ", ".join(PRECISIONS)
        raise ValueError(f"set_float32_matmul_precision: precision is one of {allowed}; got {precision!r}")
    float32_matmul.precision = precision


def get_float32_matmul_precision() -> str:
    """What `set_float32_matmul_precision` has set.

    >>> ag.get_float32_matmul_precision()
    'highest'
    """
    return float32_matmul.precision
