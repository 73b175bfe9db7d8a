"""In-place writes inside of transforms.

A write to a lifted tensor runs the function on a clone of what the tensor was, and writes the result into what lies
below. Tangents are written into the memory of the tangent, so that the tangents of views see the write as the views do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from ... import backend
from ...backend.arrays.dtypes import FLOATS
from ...modes import GRAD_OFF, MODES
from ..declare.op import RECORD
from ..history.rebase import refresh_if_stale
from ..saved.saved_tensor import plain
from ..tensor import Tensor, wrap
from .batched import Batched, Batching
from .duals import Forward, attach, home_of, tangent_of
from .interpreters import Interpreter, below
from .level_tensor import LevelTensor, belongs, zeros_like
from .new_tensors import lifted_like
from .recorded import Recorded, Recording
from .tape import Taping
from .tracing import Tracing

Level = TypeVar("Level", Forward, Taping)

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


def concerns_level(x: Tensor, others: Iterable[Any]) -> bool:
    """Whether an interpreter must see a write to x of values that depend on `others`."""
    levels = [level for level in MODES.stack if isinstance(level, (Forward, Taping))]
    if any(isinstance(level, Tracing) for level in MODES.stack):
        return True
    for t in (x, *others):
        if isinstance(t, (list, tuple)):
            if any(concerns_level(x, (element,)) for element in t):
                return True
        elif isinstance(t, LevelTensor):
            return True
        elif isinstance(t, Tensor):
            for level in levels:
                if (level.place_of(t) if isinstance(level, Taping) else tangent_of(t, level)) is not None:
                    return True
    return False


def write_lifted(name: str, x: LevelTensor, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Any) -> Tensor:
    """Writes function(x, ...) into a tensor of a level."""
    level = x._level
    records = isinstance(x, Recorded) and not MODES.bits & GRAD_OFF
    if records:
        x.check_writable(name, (*args, *kwargs.values()))  # type: ignore[attr-defined]
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
    result = value_for(x, result)
    refuse_inner(name, x, (result,))
    value = result._value if belongs(result, level) else result
    with _as_below(level):
        if isinstance(level, Batching) and value is result:
            value = RECORD.expand(result, (level.n, *result.shape))
        x._value.copy_(value)
    push_written(x, result)
    if records:
        x.relink((result._fn, result._nr) if belongs(result, level) else (None, 0))  # type: ignore[attr-defined]
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
    for t in others:
        t = value_for(x, t)
        if isinstance(t, LevelTensor) and t._level in MODES.stack and MODES.stack.index(t._level) > _depth_of(x):
            raise RuntimeError((UNBATCHED if isinstance(t, Batched) else CAPTURED).format(name))


def value_for(x: Tensor, value: Any) -> Any:
    """`value` as it is written into x, which a constant of an inner level of reverse mode may be."""
    own, has_derivative = _depth_of(x), x._array.dtype in FLOATS
    while type(value) is Recorded and value._level in MODES.stack and MODES.stack.index(value._level) > own:
        if has_derivative and value._fn is not None:
            break
        value = value._value
    return value


def _depth_of(x: Tensor) -> int:
    """The place of the level of x on the stack; -1 for an ordinary tensor."""
    return MODES.stack.index(x._level) if isinstance(x, LevelTensor) and x._level in MODES.stack else -1


def set_apart(original: Tensor, x: Tensor) -> None:
    """Makes the levels keep `original`, a copy of what x was: it gets copies of the tangents of x."""
    _copy_tangents(original, x)
    for tape in _levels(Taping):
        before = [(x, original)]
        for t in tape.at_risk(x):
            before.append((t, old := _copied(t)))
            _copy_tangents(old, t)
        tape.keep(before)


def _copied(x: Tensor) -> Tensor:
    """A tensor with the values and the history of x."""
    if isinstance(x, LevelTensor):
        with _as_below(x._level):
            return x.copied()
    refresh_if_stale(x)
    copy = plain(x)
    copy._array, copy._storage = x._array.copy(), None
    return copy


def _copy_tangents(original: Tensor, x: Tensor) -> None:
    if hasattr(original, "_tangents"):
        del original._tangents
    for level in _levels(Forward):
        if (t := tangent_of(x, level)) is not None:
            with below(level):
                attach(original, level, RECORD.clone(t))


def push_written(x: Tensor, result: Tensor) -> None:
    """Writes the tangents of `result`, which was written into x, into those of x."""
    for tape in _levels(Taping):
        tape.written(x, result)
    for level in _levels(Forward):
        t, own = tangent_of(result, level), tangent_of(x, level)
        if own is None and t is None:
            continue
        home = home_of(x)
        with below(level):
            if home is x and id(x) not in level.viewed and not (own is not None and MODES.bits & GRAD_OFF):
                attach(x, level, None if t is None else _laid_as(x, t))
                continue
            if own is None or not _batching(t) <= _batching(own):
                _widen_tangent(home, level, t)
                own = tangent_of(x, level)
            own.zero_() if t is None else own.copy_(t)


def _batching(t: Any) -> set[Any]:
    """The levels of vmap in whose examples t may differ."""
    levels = set()
    while isinstance(t, LevelTensor):
        if isinstance(t, Batched):
            levels.add(t._level)
        t = t._value
    return levels


def _widen_tangent(home: Tensor, level: Forward, t: Any) -> None:
    """Gives `home` a tangent with memory for each example of t; the tangents of its views are taken from there."""
    old = tangent_of(home, level)
    wide = _laid_as(home, lifted_like(zeros_like(home), home, t, *([] if old is None else [old])))
    if old is not None:
        wide.copy_(old)
    for view in [x for ref in level.duals if (x := ref()) is not None and x is not home and home_of(x) is home]:
        view._tangents.pop(level, None)
    attach(home, level, wide)


def adopt_view(x: Tensor, result: Tensor) -> None:
    """Makes x, of which `result` is a view, that view: for in-place changes of the shape."""
    for tape in _levels(Taping):
        old = x._alias() if isinstance(x, LevelTensor) else plain(x)
        _copy_tangents(old, x)
        tape.keep([(x, old), *[(t, t) for t in tape.at_risk(x)]])  # of the others only the version changes
        tape.renumber(x, result)
    if isinstance(x, LevelTensor):
        x.replace(result._value)  # type: ignore[attr-defined]
        x._fn, x._nr = result._fn, result._nr
    for level in _levels(Forward):
        level.viewed.pop(id(x), None)
        if (t := tangent_of(result, level)) is not None:
            attach(x, level, t)


def to_detach(x: Any) -> Any:
    """Detaches x from the innermost transform other than vmap if that holds tangents; else the tensor with history."""
    for level in reversed(MODES.stack):
        if isinstance(level, Batching):
            x = level.value(x)
        elif isinstance(level, Recording):
            return x if belongs(x, level) else None
        elif isinstance(level, (Forward, Taping)):
            if isinstance(level, Taping):
                level.check_detached(x)
            if hasattr(x, "_tangents"):  # which the node that saved x may share
                x._tangents = {other: t for other, t in x._tangents.items() if other is not level}
            if level.is_transform:
                return None
    return x


def _levels(kind: type[Level]) -> list[Level]:
    """The levels of a kind that are on, the outermost first."""
    return [level for level in MODES.stack if isinstance(level, kind)]


def _laid_as(x: Tensor, t: Tensor) -> Tensor:
    """A copy of t in new memory that lies as that of x does, where x is an ordinary tensor."""
    if isinstance(x, LevelTensor) or isinstance(t, LevelTensor):
        copy: Tensor = RECORD.clone(t)
        return copy
    zeros = wrap(backend.namespace(x._array).zeros_like(x._array))
    return zeros.copy_(t)
