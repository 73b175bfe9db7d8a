"""Tracing: the interpreter below all others, which notes what a call does for `ag.compile`.

It changes nothing: results, graph and memory are what they are without it. Functions of the library that act beside
the ops tell it what they do: writes, draws, checks of values, `.grad`, steps of optimizers. What cannot be noted is
refused, and the call stays eager. `autograd_gpu/compilation/tracer.py` says what becomes of the notes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any, TypeVar

from ...modes import MODES, SAVING
from ..declare.op import RECORD, OpDef
from ..graph import journals
from ..graph.leaf import AccumulateGrad
from ..graph.storage import before_write, bump_version
from ..graph.tensor_base import TensorBase
from .interpreters import Interpreter, Result, lower, replaced

# What a trace has to know of modules: reader(module) gives its name, its attributes, and what holds its hooks.
Reader = Callable[[Any], tuple[str, dict[str, Any], tuple[Any, ...]]]
MODULE_CLASSES: dict[type, Reader] = {}
MODULE_CALLS: dict[CodeType, Reader] = {}  # by the code that calls a module, which is `self` there


class ModuleChanges:
    """How often an attribute of any module was set or deleted. While the number stays, every module is as it was."""

    count = 0


F = TypeVar("F", bound=Callable[..., Any])


class Tracing(Interpreter):
    """The seams between the library and a trace; a subclass defines what is done with the notes."""

    is_transform = nests_reverse = False
    is_trace = True
    region, regions = 0, 0  # the recomputation of a checkpoint that runs, and how many there were

    def run(
        self, op: OpDef, args: Sequence[Any], attributes: dict[str, Any], wrap: Callable[..., Any] | None = None
    ) -> Result:
        if MODES.bits & SAVING:
            self.saves(MODES.saving[-1])
        MODES.bits &= ~SAVING  # `general` hands over what was saved with the tracer on, which sees the ops of a hook
        if wrap is not None:
            self.refuse("a checkpoint's policy replaces the forward of ops", "compile what is inside of the checkpoint")
        again = op.random and any(block.again for block in MODES.drawing)
        if again:
            self.refuse("a checkpoint draws random numbers a second time", "pass preserve_rng_state=False, or "
                        "leave the checkpoint out")
        args = list(args)
        before = self.arguments(args)
        outs, extras = lower(op, args, attributes, *(() if wrap is None else (wrap,)))
        self.call(op, before, op.filled(attributes), (outs,) if op.single else tuple(outs), extras)
        return outs, extras

    def function(self, cls: Any, args: tuple[Any, ...]) -> Any:
        if MODES.bits & SAVING:
            self.saves(MODES.saving[-1])
        with replaced((*MODES.stack, self)):
            return cls._call(args, below=False)

    def accumulate(self, leaf: AccumulateGrad, variable: Any, g: Any) -> None:
        """Adds `g` to `.grad` as eager code does, in place if there is one."""
        grad = variable._grad
        if grad is None or grad._fn is not None or grad._array.dtype != g._array.dtype or grad.shape != g.shape:
            leaf.accumulate(variable, g, True)
            return
        total = RECORD.add(grad, g)
        with leaf.standstill():
            if journals.OPEN:
                journals.note(variable, adds=True)
            before_write([grad])
            grad._array[...] = total._array
            bump_version(grad)
        self.wrote(grad, total)

    # ---- what a subclass does with the notes -----------------------------------------------------

    def arguments(self, args: list[Any]) -> list[Any]:
        """What `call` gets for the arguments of an op; called before the op runs."""
        raise NotImplementedError

    def call(self, op: OpDef, args: list[Any], attributes: dict[str, Any], outs: Sequence[Any], extras: Any) -> None:
        """A call of an op has run."""
        raise NotImplementedError

    def fused(self, op: str, rules: tuple[Any, Any], g: Any, need: tuple[bool, ...], *given: Any) -> Any:
        """Runs one of the fused rules, for NumPy and for CUDA, on arrays; the gradients as tensors, or None."""
        raise NotImplementedError

    def copied(self, source: Any, copy: Any) -> None:
        """The array `copy` was made of the array `source`."""
        raise NotImplementedError

    def wrote(self, x: TensorBase, source: TensorBase) -> None:
        """The values of `source` were written into x, and the version of x incremented."""
        raise NotImplementedError

    def drew(self, draw: Callable[..., Any], shape: tuple[int, ...], value: TensorBase) -> None:
        """draw(shape) gave `value`."""
        raise NotImplementedError

    def checked(self, test: Callable[..., None], x: TensorBase, *shown: TensorBase) -> None:
        """test(values of x, *shown) raised nothing."""
        raise NotImplementedError

    def routine(
        self, name: str, run: Callable[[], Any], reads: Sequence[Any], writes: Sequence[Any], owner: Any = None
    ) -> Any:
        """Runs a part of the library as a whole, and returns its result, a tensor or None.

        reads, writes: the tensors that it reads and writes. owner: the optimizer whose options it reads.
        """
        raise NotImplementedError

    def saves(self, pair: Any) -> None:
        """What a call saves is about to be given to a pair of hooks."""
        raise NotImplementedError

    def read(self, x: TensorBase) -> None:
        """The values of x are read beside the ops."""
        raise NotImplementedError

    def asked_grad(self, x: TensorBase) -> None:
        """The `.grad` of x is asked for."""
        raise NotImplementedError

    def relies_on(self, *modules: Any) -> None:
        """The attributes of modules are read without a call of them, or are about to be replaced and put back."""
        raise NotImplementedError

    def refuse(self, cause: str, instead: str) -> None:
        """The call cannot be compiled."""
        raise NotImplementedError


def tracer() -> Tracing | None:
    """The tracer of this thread, if one is on and what runs is not the inside of an op."""
    for level in MODES.stack:
        if isinstance(level, Tracing):
            return level
    return None


def inlineable(hook: F) -> F:
    """Marks a pack or unpack hook as made of operations only: calls inside of such a pair are compiled with it.

    >>> pack = ag.compile.inlineable(lambda tensor: tensor.half())
    >>> unpack = ag.compile.inlineable(lambda packed: packed.float())
    >>> with ag.autograd.graph.saved_tensors_hooks(pack, unpack):
    ...     y = ag.ones(2, requires_grad=True).exp()
    """
    hook._ag_inlineable = True  # type: ignore[attr-defined]
    return hook


def refuse(cause: str, instead: str) -> None:
    """A call that is being traced stays eager; nothing happens outside of a trace."""
    level = tracer()
    if level is not None:
        level.refuse(cause, instead)
