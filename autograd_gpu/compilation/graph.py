"""The record of a call: values, which are arrays by identity, and what was done with them, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from ..backend import namespace
from ..backend.arrays.dtypes import short_name
from ..backend.arrays.strides import strided
from ..backend.cpu.pool import owns
from ..core.declare.op import OpDef

OUTSIDE = "outside"  # the phase of the nodes of a backward that comes after the call
ARGUMENT, CAPTURED, CONSTANT, GRAD, RESULT, TANGENT = "argument", "captured", "constant", "grad", "result", "tangent"


class CompileError(RuntimeError):
    """A call that cannot be compiled; the text says why, where, and what to do instead."""


@dataclass(eq=False)
class Value:
    """An array of a traced call.

    kind        ARGUMENT: of leaf `place` of the arguments; CAPTURED: of a tensor from outside, read anew at each call;
                CONSTANT: equal in all calls; GRAD: of the `.grad` that `tensor` has when a call begins; RESULT;
                TANGENT: the gradient of output `place`, which a backward outside of the call gets
    tensor      of a value from outside: the tensor that holds the array
    content     a copy of what a constant was when it was first seen; of a dropout mask on CUDA: the `Mask`
    node        of a value from outside: the node of the tensor when it was first seen
    fixed       whether it is a constant, or computed from constants only
    layout      of an array whose size varies, in a program for many sizes: shape and strides, as formulas of sizes
    """

    name: str
    kind: str
    array: Any
    tensor: Any = None
    place: int = -1
    content: Any = None
    node: Any = None
    fixed: bool = False
    layout: tuple[tuple[Any, ...], tuple[Any, ...]] | None = None
    _known: tuple[int, bool, bool] | None = None  # root, is_whole and is_view of the array that `forget` has dropped

    def keep(self) -> None:
        """Puts a copy in the place of the array of a constant, which whoever got it from a traced call may write to."""
        self._known = self.root, self.is_whole, self.is_view
        self.array = self.content = self.content.copy("K")

    def forget(self) -> None:
        """Drops the array of the trace, and leaves one element with its shape and strides in its place."""
        if self._known is None:
            self._known = self.root, self.is_whole, self.is_view
            self.stand_in(self.shape, self.array.strides)

    def stand_in(self, shape: tuple[int, ...], steps: tuple[int, ...]) -> None:
        """Has one element with that shape and those strides in place of the array."""
        xp = namespace(self.array)
        unchecked = np.lib.stride_tricks.as_strided if xp is np else partial(strided, xp)
        self.array = unchecked(xp.empty(1, self.dtype), shape, steps)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def dtype(self) -> np.dtype:
        return self.array.dtype

    @property
    def root(self) -> int:
        """Identifies the memory: views of one array have the same root."""
        return root_of(self.array) if self._known is None else self._known[0]

    @property
    def is_whole(self) -> bool:
        """Whether the array is all of its memory."""
        return owns(self.array) if self._known is None else self._known[1]

    @property
    def is_view(self) -> bool:
        """Whether another array owns the memory, be it as large."""
        return getattr(self.array, "base", None) is not None if self._known is None else self._known[2]

    def described(self) -> str:
        """Name, dtype and shape, such as `mul: f32[8, 4]`; strides that are not row-major, too."""
        strides = "" if self.array.flags.c_contiguous else f" strides {list(self.array.strides)}"
        shape = self.shape if self.layout is None else self.layout[0]
        return f"{self.name}: {short_name(self.dtype)}[{', '.join(map(str, shape))}]{strides}"


def root_of(array: Any) -> int:
    """The id of what owns the memory of an array."""
    if not isinstance(array, np.ndarray):
        return id(array.data.mem)  # CuPy's arrays with strides of their own have no base
    while getattr(array, "base", None) is not None:
        array = array.base
    return id(array)


@dataclass(eq=False, repr=False)
class Node:
    """An instruction. It needs `reads`, makes `outs`, and changes the memory of `writes`."""

    outs: list[Value] = field(default_factory=list)
    phase: str = "forward"
    region: int = 0  # the number of the recomputation of a checkpoint that it belongs to
    where: str = ""  # file and line of the user's code that it came from
    name = "?"

    @property
    def reads(self) -> list[Value]:
        return []

    @property
    def writes(self) -> list[Value]:
        return []

    @property
    def has_effect(self) -> bool:
        """Whether it has to run though nobody needs its results."""
        return bool(self.writes)

    def made(self) -> list[Value]:
        """All values that it makes, also those that an op keeps for its derivative."""
        return self.outs

    def __str__(self) -> str:
        made = ", ".join(v.described() for v in self.made())
        return f"  {f'{made} = ' if made else ''}{self.name}({', '.join(v.name for v in self.reads)})"

    def replace(self, of: Callable[[Any], Any]) -> None:
        """Replaces each value v that it reads by of(v)."""

    def word(self) -> Any:
        """What two traces must have in common besides the values: plain data, and objects that are compared by id."""
        return ()


@dataclass(eq=False, repr=False)
class Call(Node):
    """outs, extras = op.forward(args, attributes)."""

    op: OpDef = None  # type: ignore[assignment]
    args: list[Any] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    extras: dict[str, Any] = field(default_factory=dict)  # by name: values, or what is no array

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.op.name

    @property
    def reads(self) -> list[Value]:
        return [a for a in (*self.args, *self.attributes.values()) if isinstance(a, Value)]

    @property
    def has_effect(self) -> bool:
        return bool(self.op.random)

    def replace(self, of: Callable[[Any], Any]) -> None:
        self.args = [of(a) if isinstance(a, Value) else a for a in self.args]
        self.attributes = {key: of(x) if isinstance(x, Value) else x for key, x in self.attributes.items()}

    def word(self) -> Any:
        return self.op.name, *mapped((tuple(self.args), tuple(self.attributes.items())), lambda v: None)

    def made(self) -> list[Value]:
        """The results and the extras that are arrays."""
        return [*self.outs, *(x for x in self.extras.values() if isinstance(x, Value))]


@dataclass(eq=False, repr=False)
class Group(Node):
    """outs = code(*args): the nodes `parts` in one pass. `lines`: its formula, for readers."""

    args: list[Value] = field(default_factory=list)
    parts: list[Node] = field(default_factory=list)
    code: Any = None
    lines: list[str] = field(default_factory=list)
    name = "group"

    @property
    def reads(self) -> list[Value]:
        return self.args


@dataclass(eq=False, repr=False)
class FusedRule(Node):
    """outs = the gradients of a fused rule of `op`; None in `gives` where there is none."""

    op: str = ""
    rule: Callable[..., Any] = None  # type: ignore[assignment]
    given: tuple[Any, ...] = ()  # g, need and what the rule asks for; values in place of arrays
    gives: tuple[bool, ...] = ()

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{self.op}.fused"

    @property
    def reads(self) -> list[Value]:
        return list(values_in(self.given))

    def replace(self, of: Callable[[Any], Any]) -> None:
        self.given = mapped(self.given, of)

    def word(self) -> Any:
        return self.op, mapped(self.given, lambda v: None), self.gives


@dataclass(eq=False, repr=False)
class Copy(Node):
    """outs[0] = a copy of `source`."""

    source: Value = None  # type: ignore[assignment]
    name = "copy"

    @property
    def reads(self) -> list[Value]:
        return [self.source]

    def replace(self, of: Callable[[Any], Any]) -> None:
        self.source = of(self.source)


@dataclass(eq=False, repr=False)
class Write(Node):
    """target[...] = source, in the memory of the target."""

    target: Value = None  # type: ignore[assignment]
    source: Value = None  # type: ignore[assignment]
    name = "write"

    @property
    def reads(self) -> list[Value]:
        return [self.target, self.source]

    @property
    def writes(self) -> list[Value]:
        return [self.target]

    def replace(self, of: Callable[[Any], Any]) -> None:
        self.source = of(self.source)


@dataclass(eq=False, repr=False)
class Draw(Node):
    """outs[0] = draw(shape): random numbers."""

    draw: Callable[..., Any] = None  # type: ignore[assignment]
    shape: tuple[int, ...] = ()
    name, has_effect = "draw", True

    def word(self) -> Any:
        cells = tuple([cell.cell_contents for cell in self.draw.__closure__ or ()])
        return self.shape, self.draw.__code__, cells


@dataclass(eq=False, repr=False)
class Check(Node):
    """test(value, *shown), which raises what eager code raises; it gets the values of `shown` as tensors."""

    test: Callable[..., None] = None  # type: ignore[assignment]
    value: Value = None  # type: ignore[assignment]
    shown: list[Value] = field(default_factory=list)
    name, has_effect = "check", True

    @property
    def reads(self) -> list[Value]:
        return [self.value, *self.shown]

    def replace(self, of: Callable[[Any], Any]) -> None:
        self.value, self.shown = of(self.value), [of(v) for v in self.shown]

    def word(self) -> Any:
        return (getattr(self.test, "__code__", None),)


@dataclass(eq=False, repr=False)
class Look(Node):
    """The values of a constant are read while a call is traced; nothing is left to do in a replay."""

    value: Value = None  # type: ignore[assignment]
    name = "look"

    @property
    def reads(self) -> list[Value]:
        return [self.value]


@dataclass(eq=False, repr=False)
class SetGrad(Node):
    """tensor.grad = value, or None. place: that of the tensor among the arguments, or -1.

    inside: whether the tensor was made in the call, so that nobody sees its `.grad` but by its value.
    """

    tensor: Any = None
    place: int = -1
    value: Value | None = None
    inside: bool = False
    name = "set grad"

    @property
    def has_effect(self) -> bool:
        return not self.inside

    @property
    def reads(self) -> list[Value]:
        return [] if self.value is None else [self.value]

    def replace(self, of: Callable[[Any], Any]) -> None:
        self.value = None if self.value is None else of(self.value)


@dataclass(eq=False, repr=False)
class Routine(Node):
    """A part of the library that runs as a whole: a step of an optimizer, clipping of gradients."""

    title: str = ""
    run: Callable[[], Any] = None  # type: ignore[assignment]
    read: list[Value] = field(default_factory=list)
    written: list[Value] = field(default_factory=list)
    owner: Any = None
    has_effect = True

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.title

    @property
    def reads(self) -> list[Value]:
        return [*self.read, *self.written]

    @property
    def writes(self) -> list[Value]:
        return self.written

    def replace(self, of: Callable[[Any], Any]) -> None:
        self.read = [of(v) for v in self.read]

    def word(self) -> Any:
        return self.title, id(self.owner)


@dataclass(eq=False, repr=False)
class Output:
    """A leaf of the result: a value, or something that is no tensor."""

    value: Value | None
    constant: Any = None
    tensor: Any = None  # the result of the traced call
    requires_grad: bool = False


@dataclass(eq=False, repr=False)
class Trace:
    """What a call did."""

    arguments: list[Value]
    values: list[Value]
    nodes: list[Node]
    outputs: list[Output] = field(default_factory=list)
    spec: Any = None
    grads_at_entry: dict[int, tuple[Any, Any]] = field(default_factory=dict)  # by id of the leaf: it, and its .grad
    refused: str | None = None
    guards: list[Any] = field(default_factory=list)
    tangents: list[tuple[int, Value]] = field(default_factory=list)  # number of a result, and its gradient
    gradients: list[tuple[Value, Value | None]] = field(default_factory=list)  # a leaf and its gradient, if it has one
    zeros: list[Value] = field(default_factory=list)  # the leaves that only ZERO edges reach
    freed: bool = False  # whether a backward inside has freed the graph of the results
    tensors: dict[int, tuple[Any, Any]] = field(default_factory=dict)  # by id: a tensor, its node at first
    outside: list[Any] = field(default_factory=list)  # those of them that two traces have in common
    settings: dict[int, Any] = field(default_factory=dict)  # by id of an optimizer: it, and its options
    simplified: bool = False  # whether the passes have run


def values_in(structure: Any) -> Iterator[Value]:
    """The values in nested tuples and lists."""
    if isinstance(structure, Value):
        yield structure
    elif isinstance(structure, (tuple, list)):
        for part in structure:
            yield from values_in(part)


def mapped(structure: Any, function: Callable[[Any], Any], kind: type = Value) -> Any:
    """The same nested tuples and lists with function(x) for each x of that kind."""
    if isinstance(structure, kind):
        return function(structure)
    if type(structure) in (tuple, list):
        return type(structure)([mapped(part, function, kind) for part in structure])
    return structure
