"""Writes the instructions of a trace as straight-line Python over arrays, which tracebacks show."""

from __future__ import annotations

import functools
import itertools
import traceback
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np

from ..backend import counters, namespace
from ..backend.arrays import strides
from ..backend.arrays.memory_format import row_major
from ..backend.cpu.blas import on_one_thread
from ..backend.cpu.chains import chained
from ..core.codegen.source import Source
from ..core.declare.op import ALWAYS, RAW
from ..core.interpret.implementation import explained
from ..core.tensor import wrap
from . import graph
from .effects import set_grad, write
from .emitters import emitter_of, write_group
from .graph import ARGUMENT, CAPTURED, CONSTANT, GRAD, Value
from .names import identifier, is_literal
from .native_runs import Run, checking, may_have_runs, run_at
from .passes.facts import last_uses
from .passes.plan import GRAIN, Plan
from .put_off import end_of_chain
from .row_runs import row_run_at, while_shared_alike

_serial = itertools.count()
_EXPLAINED = (ValueError, IndexError, TypeError, OverflowError)


class Program:
    """A function of the tensors of the arguments, or of saved values and tangents; it returns arrays.

    nodes: the instructions in order. parameters: the values that it gets, in order. returns: those that it returns.
    shown: the roots of memory that somebody gets, so that constants there are made anew by each run. saved: values
    that it gets in a list, behind the arguments, and takes out of it, so that they die at their last use.
    """

    def __init__(
        self, name: str, nodes: Sequence[graph.Node], parameters: Sequence[Value], returns: Sequence[Value],
        outside: Iterable[Value], shown: Collection[int], saved: Sequence[Value] | None = None,
    ) -> None:  # fmt: skip
        self.nodes, self.returns, self._w = nodes, returns, Source()
        self._scope: dict[str, Any] = {
            "np": np, "asarray": np.asarray, "generic": np.generic, "row_major": row_major, "set_grad": set_grad,
            "write": write, "wrap": wrap, "RAW": RAW, "chained": chained,
        }  # fmt: skip
        self.names: dict[Value, str] = {}
        self._known: dict[int, str] = {}
        self._lines: dict[int, graph.Node] = {}
        self._sources: dict[str, dict[int, graph.Node]] = {}  # by text: the instructions of its lines
        self.written = {v.root for node in nodes for v in node.writes}
        self._outside = list(outside)
        self.written |= {v.root for v in self._outside if v.kind == CONSTANT and v.root in shown}
        self._owners = {v.root: v for v in self._outside if v.kind in (ARGUMENT, CAPTURED, GRAD)}
        self._set: dict[int, tuple[Any, int]] = {}  # by root: the tensor whose `.grad` an instruction has made of it
        self._arguments = [v for v in parameters if v.kind == ARGUMENT]
        self.emitters = emitters = [self._emitter_of(node) for node in nodes]
        fixed = self.written | {v.root for v in (*self._outside, *parameters, *(saved or ()))}
        self.plan = Plan(nodes, emitters, returns, fixed)
        self.made_once = self._views_made_once()
        self._views: dict[str, str] = {}  # names and texts of views, which a frame has
        self._products = [shape for emitter in emitters if emitter for shape in emitter.products]
        self._groups = [n for n in nodes if isinstance(n, graph.Group) and type(n.outs[0].array) is np.ndarray]
        self._on_one_thread = any(emitter is not None and emitter.threads for emitter in emitters)
        self.makers = {v: i for i, node in enumerate(nodes) for v in node.made()}
        self._waiting, self._has_runs, self.has_row_runs = {id(node) for node in self._groups}, False, False
        self.checks: list[tuple[Value, int, int]] = []  # of the runs: classes, their number, and that to ignore
        self._given, self.run = (name, parameters, saved), self._write(name, parameters, saved)

    # ---- text --------------------------------------------------------------------------------------

    _emitter_of = staticmethod(emitter_of)

    def _write(self, name: str, parameters: Sequence[Value], saved: Sequence[Value] | None) -> Callable[..., Any]:
        w = self._w
        names = [self._parameter(v) for v in parameters]
        if saved is not None:
            names.insert(len(self._arguments), "saved")
        w(f"def {name}({', '.join(names)}):")
        w.depth = 1
        if saved:
            read = {v for node in self.nodes for v in node.reads}.union(self.returns)
            self.names.update((v, identifier(v.name)) for v in saved)
            w(f"{', '.join(self.names[v] if v in read else '_' for v in saved)}, = saved")
            w("saved.clear()")
        for v in parameters:
            self.names[v] = identifier(v.name)
            if v.kind == ARGUMENT:
                w(f"{self.names[v]} = {self._parameter(v)}._array")
        self._begin()
        for v in dict.fromkeys([*(v for node in self.nodes for v in node.reads), *self.returns]):
            self._enter(v)
        w("")
        unpacked = len(w.lines) - 1
        if self._products or self._groups:
            self._scope.update(observers=counters.ACTIVE, count=self._count)
            w("if observers: count()")
        self._instructions()
        self._unpack(unpacked)
        w(f"return ({''.join(f'{self.names[v]}, ' for v in self.returns)})")
        return self._named(name)

    def _instructions(self) -> None:
        last, w, end, end_of_block = last_uses(self.nodes, self.returns), self._w, 0, 0
        while (i := end) < len(self.nodes):
            begin, end = len(w.lines), i + 1
            run: Run | None = row_run_at(self, i, last) if self._has_runs and i >= end_of_block else None
            if run is None and i >= end_of_block and (end_of_block := end_of_chain(self, i)) > i:
                w("with chained(True):")
            w.depth = 2 if i < end_of_block else 1
            if run is None and w.depth == 1 and self._has_runs:
                run = run_at(self, i, last)
            if run is not None:
                run.write()
                end = run.end
            else:
                self.instruction(i)
            self._lines |= {n: self.nodes[i] for n in range(begin + 1, len(w.lines) + 1) if n not in self._lines}
            self.delete([v for k in range(i, end) for v in last.get(k, ()) if run is None or v not in run.freed])
            w.depth = 1

    def delete(self, values: Iterable[Value]) -> None:
        """Writes the line that gives back the memory of values."""
        dying = [self.names[v] for v in values if v not in self.made_once and self.plan.slot(v) is None]
        if dying:
            self._w(f"del {', '.join(dying)}")

    def instruction(self, i: int) -> None:
        """Writes instruction i."""
        self._number, node, begin = i, self.nodes[i], len(self._w.lines)
        getattr(self, f"_{type(node).__name__}")(node)
        self._lines.update(dict.fromkeys(range(begin + 1, len(self._w.lines) + 1), node))

    def _begin(self) -> None:
        """Writes what comes before the instructions."""

    # ---- runs of native code -------------------------------------------------------------------------

    def _settles(self, group: int, name: str, code: Any) -> None:
        """Native code takes the place of a group's NumPy code; after that of the last one, the program is rewritten."""
        self._scope[name] = code
        self._waiting.discard(group)
        if not self._waiting and not self._has_runs and may_have_runs(self):
            self._plain, self.run = self.run, self._run_rewritten

    def _run_rewritten(self, *given: Any) -> Any:
        """Writes the program with runs, and runs it."""
        self._has_runs, self._scope, self._w = True, dict(self._scope), Source()
        self.names, self._lines, self._views, self._set = {}, {}, {}, {}
        run, places = self._write(*self._given), {v: place for place, v in enumerate(self._arguments)}
        run = checking([(places[v], n, ignored) for v, n, ignored in self.checks], run, self._plain)
        self.run = while_shared_alike(run, self._plain) if self.has_row_runs else run
        return self.run(*given)

    def once(self, name: str, text: str) -> str:
        """The name of what is made once for each memory of the program."""
        self._views.setdefault(name, text)
        return name

    def _unpack(self, at: int) -> None:
        """Writes line `at`, which gets the memory and the views of a run, and the last one, which gives them back."""
        names = [*(f"m{number}" for number in range(len(self.plan.arrays))), *self._views]
        if not names:
            del self._w.lines[at]
            self._lines = {number - 1: node for number, node in self._lines.items()}
            return
        self._scope.update(frames=[], new_frame=functools.partial(self._new_frame, self._views, self._scope))
        self._w.lines[at] = f"    {', '.join(names)}, = frame = frames.pop() if frames else new_frame()"
        self._w("frames.append(frame)")

    def _views_made_once(self) -> set[Value]:
        """The views of memory that is the same in all calls, which nobody gets to see."""
        written, once = self.written, set[Value]()
        others = [n for n in self.nodes if not isinstance(n, (graph.Call, graph.Group))]
        shown = {*self.returns, *(v for n in others for v in n.reads)}
        for node in self.nodes:
            if isinstance(node, graph.Call) and node.op.view and node.op.single and not node.extras and node.reads:
                v, source = node.outs[0], node.reads[0]
                stays = source in once or self.plan.slot(source) is not None or source.kind == CAPTURED or (
                    source.kind == CONSTANT and source.root not in written
                )  # fmt: skip
                is_view = v.array is not source.array and (node.op.view == ALWAYS or v.root == source.root)
                if stays and is_view and v.kind == graph.RESULT and v not in shown and len(node.reads) == 1:
                    once.add(v)
        return once

    def _new_frame(self, views: dict[str, str], scope: dict[str, Any]) -> tuple[Any, ...]:
        """The memory of one run of the program, and the views that are the same in all runs, of one of its texts."""
        block = np.empty(self.plan.size + GRAIN, np.uint8)
        block = block[-strides.address(block) % GRAIN :]
        arrays: list[Any] = [np.ndarray(shape, dtype, block, place) for place, shape, dtype in self.plan.arrays]
        scope = dict(scope)
        scope.update((f"m{number}", array) for number, array in enumerate(arrays))
        scope.update((identifier(v.name), arrays[slot.number]) for slot in self.plan.placed for v in slot.values)
        for name, text in views.items():
            scope[name] = eval(text, scope)
        return (*arrays, *(scope[name] for name in views))

    def _count(self) -> None:
        """Tells profilers of the products of emitters, and of the groups that run on the CPU."""
        for shape in self._products:
            counters.matmul(shape)
        for _ in self._groups:
            counters.launch("native")

    def _named(self, name: str) -> Callable[..., Any]:
        filename = f"<compiled {name} {next(_serial)}>"
        self._sources[filename] = self._lines
        function: Callable[..., Any] = self._w.define_as(name, self._scope, filename)
        return function

    @property
    def text(self) -> str:
        """The source."""
        return "\n".join([*self._w.lines, ""])

    def _parameter(self, v: Value) -> str:
        return f"t_{identifier(v.name)}" if v.kind == ARGUMENT else identifier(v.name)

    def _enter(self, v: Value) -> None:
        """Gives a value from outside its name, and reads or copies it where it is read at the beginning."""
        if v in self.names:
            return
        name = self.names[v] = identifier(v.name)
        if v.kind == GRAD:
            self._w(f"{name} = {self._tensor_of(v.tensor)}._grad._array")
        elif v.kind == CAPTURED:
            self._scope[name] = v.array
        elif v.kind == CONSTANT:
            self._scope[name] = v.array
            if v.root in self.written:
                self._scope[f"k_{name}"] = v.content
                self._w(f"{name} = k_{name}.copy('K')")

    def bind(self, value: Any, prefix: str) -> str:
        """The text for an object: a literal, or a global of the function."""
        if is_literal(value):
            return repr(value)
        name = self._known.get(id(value))
        if name is None:
            name = self._known[id(value)] = f"{prefix}{len(self._known)}"
            self._scope[name] = value
        return name

    def _tensor_of(self, tensor: Any, place: int = -1) -> str:
        """The text for a tensor from outside."""
        owner = next((o for o in self._arguments if o.place == place or o.tensor is tensor), None)
        return self.bind(tensor, "t") if owner is None else self._parameter(owner)

    def argument(self, a: Any) -> str:
        if isinstance(a, Value):
            return self.names[a]
        if type(a) in (tuple, list) and any(True for _ in graph.values_in(a)):
            inner = "".join(f"{self.argument(part)}, " for part in a)
            return f"({inner})" if type(a) is tuple else f"[{inner}]"
        return self.bind(a, "a")

    def _fit(self, node: graph.Node, row_major: bool = False) -> None:
        """What the generated functions of ops do with results: no NumPy scalars, row-major where the op says so."""
        for v in dict.fromkeys(v for v in node.outs if v.kind == graph.RESULT):
            name = self.names[v]
            if not v.shape:
                self._w(f"if isinstance({name}, generic): {name} = asarray({name})")
            elif row_major:
                self._w(f"if not {name}.flags.c_contiguous: {name} = row_major({name})")

    def make(self, v: Value) -> str:
        """The name of a new value; "_" for an argument that is given back."""
        if v.kind != graph.RESULT:
            return "_"
        return self.names.setdefault(v, identifier(v.name))

    # ---- what emitters ask for -----------------------------------------------------------------------

    def line(self, text: str) -> None:
        """Writes a line."""
        self._w(text)

    def out(self, v: Value) -> str:
        """The text for the memory of a new value; "" for new memory."""
        if v in self.plan.over:
            return self.names[self.plan.over[v]]
        slot = self.plan.slot(v)
        return "" if slot is None else f"m{slot.number}"

    def scratch(self, k: int) -> str:
        """The text for memory that the instruction has asked for, or ""."""
        slots = self.plan.scratch[self._number]
        return f"m{slots[k].number}" if k < len(slots) and slots[k].place >= 0 else ""

    def transposed(self, v: Value) -> str:
        """The text for the transposed view of a matrix."""
        name = self.names[v]
        if not (v.kind == CAPTURED or v in self.made_once or self.plan.slot(v) is not None):
            return f"{name}.T"
        return self.once(f"{name}_T", f"{name}.T")

    # ---- instructions ------------------------------------------------------------------------------

    def _Call(self, node: graph.Call) -> None:
        op, reads = node.op, node.reads
        emitter = self.emitters[self._number]
        if emitter is not None:
            emitter.write(self)
            return
        xp = namespace(*[v.array for v in reads]) if reads else np
        function = op.forward if op.cuda is None or xp is np else op.cuda
        args = [self.bind(xp, "xp") if xp is not np else "np", *map(self.argument, node.args)]
        args += [f"{key}={self.argument(value)}" for key, value in node.attributes.items()]
        call = f"{self.bind(function, 'f_' + op.name)}({', '.join(args)})"
        names = [self.make(v) for v in node.outs]
        if node.outs[0] in self.made_once:
            self.once(names[0], call)
            return
        target = names[0] if op.single else f"({', '.join(names)},)"
        if op.saved:
            self._w(f"{target}, extras = {call}")
            for key, v in node.extras.items():
                if isinstance(v, Value):
                    self._w(f"{self.make(v)} = extras[{key!r}]")
        else:
            self._w(f"{target} = {call}")
        self._fit(node, op.contiguous)

    def _Group(self, node: graph.Group) -> None:
        for line in node.lines:
            self._w(f"# {line}")
        write_group(self, node)
        self._fit(node)
        node.code.becomes(functools.partial(self._settles, id(node), self._known[id(node.code)]))

    def _FusedRule(self, node: graph.FusedRule) -> None:
        made = iter([self.make(v) for v in node.outs])
        targets = [next(made) if gives else "_" for gives in node.gives]
        call = f"{self.bind(node.rule, 'rule')}(RAW, {', '.join(map(self.argument, node.given))})"
        self._w(f"{', '.join(targets)}, = {call}")
        self._fit(node)

    def _Copy(self, node: graph.Copy) -> None:
        self._w(f"{self.make(node.outs[0])} = {self.names[node.source]}.copy()")

    def _Write(self, node: graph.Write) -> None:
        owner = self._owners.get(node.target.root)
        if owner is None and node.target.root in self._set:
            tensor = f"{self._tensor_of(*self._set[node.target.root])}._grad"
        elif owner is None:
            tensor = "None"
        elif owner.kind == GRAD:
            tensor = f"{self._tensor_of(owner.tensor)}._grad"
        else:
            tensor = self._tensor_of(owner.tensor)
        self._w(f"write({tensor}, {self.names[node.target]}, {self.names[node.source]})")

    def _Draw(self, node: graph.Draw) -> None:
        self._w(f"{self.make(node.outs[0])} = {self.bind(node.draw, 'draw')}({node.shape!r})._array")

    def _Check(self, node: graph.Check) -> None:
        shown = "".join(f", wrap({self.names[v]})" for v in node.shown)
        self._w(f"{self.bind(node.test, 'test')}({self.names[node.value]}{shown})")

    def _Look(self, node: graph.Look) -> None:
        """Does nothing."""

    def _SetGrad(self, node: graph.SetGrad) -> None:
        value = node.value
        array = "None" if value is None else self.names[value]
        if not node.inside:
            self._set = {root: leaf for root, leaf in self._set.items() if leaf[0] is not node.tensor}
            if value is not None:
                self._set[value.root] = node.tensor, node.place
            self._w(f"set_grad({self._tensor_of(node.tensor, node.place)}, {array})")

    def _Routine(self, node: graph.Routine) -> None:
        call = f"{self.bind(node.run, 'routine')}()"
        self._w(f"{self.make(node.outs[0])} = {call}._array" if node.outs else call)

    # ---- runs --------------------------------------------------------------------------------------

    def __call__(self, *given: Any) -> Any:
        """Runs the program; an error of a forward becomes what eager code raises."""
        try:
            return on_one_thread(self.run, *given) if self._on_one_thread else self.run(*given)
        except _EXPLAINED as error:
            raise self._explained(error) from None

    def _explained(self, error: Exception) -> Exception:
        for frame, line in traceback.walk_tb(error.__traceback__):
            if (lines := self._sources.get(frame.f_code.co_filename)) is not None:
                node = lines.get(line)
                if isinstance(node, graph.Call):
                    arrays = [frame.f_locals.get(self.names[a], a.array) for a in node.args if isinstance(a, Value)]
                    return explained(node.op, [*map(wrap, arrays)], error)
        return error
