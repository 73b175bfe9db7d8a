"""In-place writes inside of transforms.

A write to a lifted tensor runs the function on a clone of what the tensor was, and writes the result into what lies
below. Tangents are written into the memory of the tangent, so that the tangents of views see the write as the views do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from ... import backend
from ...config import GRAD_OFF, MODES
from ..declare.op import RECORD
from ..history.rebase import check_inplace
from ..tensor import Tensor, wrap
from .batched import Batched, Batching, batched
from .duals import Forward, attach, home_of, tangent_of
from .interpreters import Interpreter, below, ended, replaced
from .lifted import Lifted, belongs, zeros_like
from .recorded import Recorded, Recording, recorded
from .tape import Taping

UNBATCHED = (
    "vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a Tensor `other` in extra_args "
    "that has more elements than `self`. This happened due to `other` being vmapped over but `self` not being vmapped "
    "over in a vmap. Please try to use out-of-place operators instead of inplace arithmetic ({})."
)
CAPTURED = (
    "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call in-place operation ({}) "
    "that would mutate a captured Tensor. This is not supported; please rewrite the function being transformed to "
    "explicitly accept the mutated Tensor(s) as inputs, or use an out-of-place operation."
)
VIEW = (
    "{}: inside of nested transforms an in-place operation on {} is not supported by reverse mode. Use an out-of-place "
    "operation, or clone() first."
)


def concerns_level(x: Tensor, others: Iterable[Any]) -> bool:
    """Whether an interpreter must see a write to x of values that depend on `others`."""
    levels = [level for level in MODES.stack if isinstance(level, (Forward, Taping))]
    for t in (x, *others):
        if isinstance(t, (list, tuple)):
            if any(concerns_level(x, (element,)) for element in t):
                return True
        elif isinstance(t, Lifted):
            return True
        elif isinstance(t, Tensor):
            for level in levels:
                if (level.place_of(t) if isinstance(level, Taping) else tangent_of(t, level)) is not None:
                    return True
    return False


def write_lifted(name: str, x: Lifted, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Any) -> Tensor:
    """Writes function(x, ...) into a tensor of a level."""
    level = x._level
    refuse_taped(name)
    relinks = isinstance(x, Recorded) and not MODES.bits & GRAD_OFF
    if relinks:
        check_inplace(name, x)
        if x.is_linked():  # type: ignore[attr-defined]
            raise RuntimeError(VIEW.format(name, "a view, or on a tensor that has views,"))
    with _as_below(level):
        original = x.copied()
    set_apart(original, x)
    result = function(original, *[original if a is x else a for a in args],
                      **{key: original if a is x else a for key, a in kwargs.items()})
    if result is original:
        return x
    if result.shape != x.shape:
        raise RuntimeError(f"{name}: output with shape {list(x.shape)} doesn't match the broadcast shape "
                           f"{list(result.shape)}")
    if result.dtype != x.dtype:
        result = RECORD.cast(result, x.dtype)
    refuse_inner(name, x, (result,))
    value = result._value if belongs(result, level) else result
    with _as_below(level):
        if isinstance(level, Batching) and value is result:
            value = RECORD.expand(result, (level.n, *result.shape))
        x._value.copy_(value)
    push_written(x, result)
    if relinks:
        x._fn, x._nr = (result._fn, result._nr) if belongs(result, level) else (None, 0)
    return x


@contextmanager
def _as_below(level: Interpreter) -> Iterator[None]:
    """What lies below `level`, in the grad mode that holds there."""
    bits = MODES.bits
    with below(level):
        try:
            if isinstance(level, Recording):
                level.enter_outer_grad_mode()
            yield
        finally:
            MODES.bits = bits


def refuse_inner(name: str, x: Tensor, others: Iterable[Any]) -> None:
    """RuntimeError for a write of a value of a level into a tensor from outside of that level."""
    own = MODES.stack.index(x._level) if isinstance(x, Lifted) and x._level in MODES.stack else -1
    for t in others:
        if isinstance(t, Lifted) and t._level in MODES.stack and MODES.stack.index(t._level) > own:
            raise RuntimeError((UNBATCHED if isinstance(t, Batched) else CAPTURED).format(name))


def refuse_taped(name: str) -> None:
    """Raises for an in-place operation `name` of a level, if a tape is being made."""
    for level in MODES.stack:
        if isinstance(level, Taping):
            level.refuse_write(name)


def set_apart(original: Tensor, x: Tensor) -> None:
    """Gives `original`, a copy of what x was, copies of the tangents of x."""
    if hasattr(original, "_tangents"):
        del original._tangents
    for level in forward_levels():
        if (t := tangent_of(x, level)) is not None:
            with below(level):
                attach(original, level, RECORD.clone(t))


def push_written(x: Tensor, result: Tensor) -> None:
    """Writes the tangents of `result`, which was written into x, into those of x."""
    for level in forward_levels():
        t, own = tangent_of(result, level), tangent_of(x, level)
        if own is None and t is None:
            continue
        home = home_of(x)
        with below(level):
            if home is x and id(x) not in level.viewed and not (own is not None and MODES.bits & GRAD_OFF):
                attach(x, level, None if t is None else _laid_as(x, t))
                continue
            if own is None:
                attach(home, level, _laid_as(home, lifted_like(zeros_like(home), home, t)))
                own = tangent_of(x, level)
            own.zero_() if t is None else own.copy_(t)


def adopt_view(x: Tensor, result: Tensor) -> None:
    """Makes x, of which `result` is a view, that view: for in-place changes of the shape."""
    if isinstance(x, Recorded) and x.is_linked(besides=result):
        raise RuntimeError(VIEW.format("an in-place view", "a tensor that has views"))
    if isinstance(x, Lifted):
        x.replace(result._value)  # type: ignore[attr-defined]
        x._fn, x._nr = result._fn, result._nr
    for level in forward_levels():
        level.viewed.pop(id(x), None)
        if (t := tangent_of(result, level)) is not None:
            attach(x, level, t)


def forward_levels() -> list[Forward]:
    return [level for level in MODES.stack if isinstance(level, Forward)]


def lifted_like(value: Tensor, *like: Tensor) -> Tensor:
    """`value`, an ordinary tensor, as a constant of the levels of all of `like`, with memory for each example."""
    found: set[Any] = set()
    for x in like:
        while isinstance(x, Lifted):
            found.add(x._level)
            x = x._value
    if not found:
        return value
    levels = sorted(found, key=_depth_of)
    if sizes := [level.n for level in levels if isinstance(level, Batching)]:
        with replaced(()):
            value = RECORD.contiguous_copy(RECORD.expand(value, (*sizes, *value.shape)))
    for level in levels:  # the outermost first: its examples lie along the first dimension
        value = batched(level, value) if isinstance(level, Batching) else recorded(level, value)
    return value


def _depth_of(level: Interpreter) -> int:
    return MODES.stack.index(level) if level in MODES.stack else ended(level)


def _laid_as(x: Tensor, t: Tensor) -> Tensor:
    """A copy of t in new memory that lies as that of x does, where x is an ordinary tensor."""
    if isinstance(x, Lifted) or isinstance(t, Lifted):
        copy: Tensor = RECORD.clone(t)
        return copy
    zeros = wrap(backend.namespace(x._array).zeros_like(x._array))
    return zeros.copy_(t)
