"""vmap's interpreter: runs an op on all examples of a batch at once, by the `batch` rule of its block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from ... import backend
from ...modes import MODES
from ..declare.batch_rules import run_batched, run_drawing_once
from ..declare.op import RECORD, OpDef
from ..graph.tensor_base import TensorBase
from ..tensor import Tensor, alias
from .interpreters import Interpreter, Result, lower
from .level_tensor import LevelTensor, Outline, lift
from .tracing import tracer

RANDOMNESS = ("error", "different", "same")
REFUSED = ("vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' "
           "randomness flags on vmap or perform the randomness operation out of vmap")


class Batched(LevelTensor):
    """One example of many: `_value` holds all of them along its dimension 0."""

    __slots__ = ()

    _level: Batching

    @property
    def requires_grad(self) -> bool:
        return self._value.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    @property
    def array(self) -> Any:
        raise _unreadable("attempting to read the values of a Tensor")

    def _layout(self) -> Any:
        if not self._level.n:
            return backend.make(self.device, "empty", self._array.shape, self._array.dtype)
        return self._value._layout()[0, ...]

    def _alias(self) -> Tensor:
        return batched(self._level, alias(self._value))

    def copied(self) -> Tensor:
        return batched(self._level, RECORD.clone(self._value))

    def replace(self, value: Tensor) -> None:
        self._value = value
        self._array = Outline(value._array.shape[1:], value)

    def item(self) -> NoReturn:
        raise _unreadable("calling .item() on a Tensor")

    def __bool__(self) -> NoReturn:
        raise _unreadable("attempting to use a Tensor in some data-dependent control flow")

    def __repr__(self) -> str:
        return self._described("Batched")


def _unreadable(what: str) -> RuntimeError:
    return RuntimeError(f"vmap: It looks like you're {what}. This is not possible, since the values differ from "
                        "example to example. Compute with operations, such as ag.where, or take this out of vmap.")


def _without_history(op: OpDef, values: list[Any]) -> list[Any]:
    """Detaches the inputs that have no derivative: the ops of which the batch rule consists may have one."""
    return [alias(x) if isinstance(x, Tensor) and (op.variadic or name in op.without_rule) and _has_history(x) else x
            for name, x in zip(op.inputs * len(values) if op.variadic else op.inputs, values, strict=True)]


def _has_history(x: Tensor) -> bool:
    return x.requires_grad or hasattr(x, "_tangents")


_NO_EXTRAS: dict[str, Any] = {}


class Batching(Interpreter):
    """A level of vmap over `n` examples; `randomness` is one of RANDOMNESS.

    `tapes` below it keep what its batch rules run on all examples, and hear which results it has lifted.
    """

    def __init__(self, n: int, randomness: str = "error", is_transform: bool = True) -> None:
        self.n, self.randomness, self.is_transform = n, randomness, is_transform

    def run(self, op: OpDef, args: Sequence[Any], attributes: dict[str, Any]) -> Result:
        flags = [type(x) is Batched and x._level is self for x in args]
        run = run_batched
        if op.random:
            self.check_randomness()
            if self.randomness == "same":
                run = run_drawing_once
            elif True not in flags:
                args = [batched(self, self.whole(x)) if isinstance(x, TensorBase) else x for x in args]
                flags = [isinstance(x, TensorBase) for x in args]
        if True not in flags:
            return lower(op, args, attributes)
        values = [x._value if flag else x for x, flag in zip(args, flags, strict=True)]
        if op.without_rule:
            values = _without_history(op, values)
        outs, extras = run(RECORD, op, self.n, flags, values, attributes), _NO_EXTRAS
        if op.saved:
            outs, extras = outs
            extras = {name: batched(self, x) if isinstance(x, Tensor) else x for name, x in extras.items()}
        for tape in self.tapes:
            tape.note_lifted((outs,) if op.single else outs)
        if op.single:
            return batched(self, outs), extras
        made = [batched(self, out) for out in outs]
        return tuple(made) if op.result is None else op.result._make(made), extras

    def check_randomness(self) -> None:
        """RuntimeError, with PyTorch's words, if random numbers are refused at this level."""
        if self.randomness == "error":
            raise RuntimeError(REFUSED)

    def function(self, cls: Any, args: tuple[Any, ...]) -> Any:
        for tape in self.tapes:
            tape.refuse_function(cls)
        return cls._call_batched(self, args)

    def holds(self, x: Any) -> bool:
        """Whether x is batched at this level."""
        return type(x) is Batched and x._level is self

    def value(self, x: Any) -> Any:
        """What x is below this level: all examples, along dimension 0, if it is batched."""
        return x._value if self.holds(x) else x

    def whole(self, x: Any) -> Any:
        """All examples of x along dimension 0; what is not batched at this level is expanded to all examples."""
        if self.holds(x):
            return x._value
        return RECORD.expand(x, (self.n, *x.shape)) if isinstance(x, TensorBase) else x


def is_batched(x: Any) -> bool:
    """Whether the values of x differ between the examples of a level of vmap, so that nobody can read them."""
    while isinstance(x, LevelTensor):
        if type(x) is Batched:
            return True
        x = x._value
    return False


def every_value(x: Tensor) -> Any:
    """The array of x; that of all examples, with leading dimensions, under vmap. A call that reads it stays eager."""
    if MODES.stack and (tracing := tracer()) is not None:
        tracing.read(x)
    return x._every_value()


def check_values(x: Tensor, test: Callable[..., None], *shown: Tensor) -> None:
    """Runs `test`, which may raise, on the values of x, under vmap of all examples; a compiled call does the same.

    shown: tensors that `test` gets besides, for its message.
    """
    test(x._every_value(), *shown)
    if MODES.stack and (tracing := tracer()) is not None:
        tracing.checked(test, *map(_lowest, (x, *shown)))


def _lowest(x: Tensor) -> Tensor:
    """What x is below all levels."""
    while isinstance(x, LevelTensor):
        x = x._value
    return x


def refuse_batched(name: str, x: Any, instead: str) -> None:
    """RuntimeError if x, on whose values the size of the result of `name` depends, is batched."""
    if is_batched(x):
        raise RuntimeError(f"{name} cannot run under vmap: the size of its result depends on the values; {instead}")


def batched(level: Batching, value: Tensor) -> Batched:
    """Makes the tensor of `level` whose examples lie along dimension 0 of `value`."""
    result: Batched = lift(Batched, level, value, value._array.shape[1:])
    return result
