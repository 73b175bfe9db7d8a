"""Generates run_raw, run_recorded and run_adding of the nodes: they unpack, call the rules and free the buffers."""

from __future__ import annotations

from typing import Any

from ...modes import GRAD_OFF, TRANSFORMED
from ..declare.op import OpDef
from .node_source import leading_back, readers, slot
from .source import Source


def make_run(op: OpDef, name: str) -> Any:
    """Makes run_raw, run_recorded or run_adding: unpacks what is needed, calls the rules, frees the buffers."""
    w = Source()
    recorded = name == "run_recorded"
    w(f"def {name}(self, g, need, release{', into' if name == 'run_adding' else ''}):")
    w.depth = 1
    if op.outputs == ("*",):
        w("if self.outputs == 1: g = (g,)  # a list of one is stored bare")
    elif op.nondiff_outputs:
        w(f"g = {_for_all_outputs(op)}")
    released, scalars = [], []
    for (kind, what), bits in readers(op).items():
        if kind in ("input", "out"):
            w(f"{what} = None")
        _load(w, op, kind, what, bits, recorded)
        if kind == "input" and what in op.scalars:
            scalars.append(f"self.{slot(kind, what)}")
        elif kind in ("input", "out", "extra"):
            released.append(f"self.{slot(kind, what)}")
    scope: dict[str, Any] = {"reads": op.reads}
    if op.joint is not None:
        _call_joint(w, op, recorded, scope)
    else:
        _call_rules(w, op, name, scope)
    if released or scalars:
        w("if release:")
        if released:
            w(f"{' = '.join(released)} = FREED", 1)
        for kept in scalars:
            w(f"if isinstance({kept}, SavedTensor): {kept} = FREED", 1)
    w("return grads")
    return w.compile(name, scope)


def _for_all_outputs(op: OpDef) -> str:
    """The gradients that rules get, as text, from those that the node gets: None for non-differentiable outputs."""
    leading = leading_back(op)
    texts = {i: "g" if len(leading) == 1 else f"g[{k}]" for k, i in enumerate(leading)}
    return f"({''.join(texts.get(i, 'None') + ', ' for i in range(len(op.outputs or ())))})"


def _local(kind: str, what: str) -> str:
    return f"{what}_{kind}" if kind in ("shape", "dtype") else what


def _load(w: Source, op: OpDef, kind: str, what: str, bits: int, recorded: bool) -> None:
    source = f"self.{slot(kind, what)}"
    local = _local(kind, what)
    if kind == "extra":
        w(f"{local} = {source}")
        w(f"if isinstance({local}, SavedTensor): {local} = {local}.unpack(self)._array  # freed, or behind a hook")
        if recorded:
            w(f"if is_array({local}): {local} = wrap({local})")
    elif kind not in ("input", "out"):
        w(f"{local} = {source}")
    elif op.variadic and (kind == "input" or op.lists):
        w(f"s = {source}")
        w("if s is FREED: s.unpack(self)")
        value = "k.unpack(self)"
        if not recorded:  # without a call, but where the tensor was written to or is behind a hook
            fresh = "(t := k.tensor) is not None and (t._storage is None or t._storage.version == k.version)"
            value = f"(t if {fresh} else k.unpack(self))._array"
        if op.reads is None:
            w(f"{local} = [{value} for k in s]")
            return
        attrs = "".join(f", self.{slot('attribute', name)}" for name in op.attributes)
        read = f"reads({what!r}, {_needs(op)}{attrs})"
        w(f"{local} = [{value} if read else None for k, read in zip(s, {read}, strict=True)]")
    else:
        w(f"if need & {bits}:" if not op.variadic else "if need:")
        w.depth += 1
        w(f"s = {source}")
        if kind == "input" and (op.numbers or what in op.optional):
            w(f"if type(s) is not SavedTensor: {local} = s")
            w("else:")
            w.depth += 1
            _unpack(w, local, recorded)
            w.depth -= 1
        else:
            _unpack(w, local, recorded)
        w.depth -= 1


def _unpack(w: Source, local: str, recorded: bool) -> None:
    if recorded:
        w(f"{local} = s.unpack(self)")
        return
    w(f"{local} = s.tensor")
    w(f"if {local} is None or {local}._storage is not None and {local}._storage.version != s.version:")
    w(f"{local} = s.unpack(self)  # raises, or a hook answers", 1)
    w(f"{local} = {local}._array")


def _arguments(op: OpDef, rule: Any) -> str:
    return "".join(f", {_local(kind, what)}" for _, kind, what in op.asked(rule))


def _call_rules(w: Source, op: OpDef, run: str, scope: dict[str, Any]) -> None:
    space = "RECORD" if run == "run_recorded" else "RAW"
    parts = []
    for bit, name in enumerate(op.inputs):
        rule = op.rules.get(name)
        if rule is None:
            parts.append("None")
            continue
        in_wide = op.wide_rules and op.single
        scope[f"grad_{name}"] = vars(rule)["__wrapped__"] if in_wide else rule
        call = f"grad_{name}({space}, g{_arguments(op, rule)})"
        if in_wide:
            scope[f"wide_{name}"] = rule
            call = f"{call} if g.dtype.itemsize > 2 else wide_{call[5:]}"
        adder = op.adders.get(name) if run == "run_adding" else None
        if adder is not None:
            scope[f"add_{name}"] = adder
            call = f"add_{name}({space}, into[{bit}], g{_arguments(op, adder)}) if {bit} in into else {call}"
        parts.append(f"({call}) if need & {1 << bit} else None")
    if run != "run_adding":
        _call_fused(w, op, scope, recorded=run == "run_recorded")
    w(f"grads = ({', '.join(parts)},)")
    w.depth = 1


def _call_joint(w: Source, op: OpDef, recorded: bool, scope: dict[str, Any]) -> None:
    scope["joint"] = op.joint
    _call_fused(w, op, scope, recorded)
    w(f"grads = joint({'RECORD' if recorded else 'RAW'}, g, {_needs(op)}{_arguments(op, op.joint)})")
    w.depth = 1


def _call_fused(w: Source, op: OpDef, scope: dict[str, Any], recorded: bool) -> None:
    """Calls the fused rule, if there is one; what follows runs if it returns None.

    Where rules run on tensors a trace that records nothing calls it: see core/interpret/tracing.py.
    """
    fused = {name: rule for name, rule in (("fused", op.fused), ("fused_cuda", op.fused_cuda)) if rule is not None}
    if not fused:
        return
    scope.update(fused)
    if recorded:
        scope["fused_rules"] = (op.fused, op.fused_cuda)
        arguments = _arguments(op, op.fused or op.fused_cuda)
        bits = GRAD_OFF | TRANSFORMED
        w(f"traced = MODES.bits & {bits} == {bits} and MODES.stack[-1].is_trace")
        w(f"grads = MODES.stack[-1].fused({op.name!r}, fused_rules, g, {_needs(op)}{arguments}) if traced else None")
        w("if grads is None:")
        w.depth += 1
        return
    calls = [f"{name}(RAW, g, {_needs(op)}{_arguments(op, rule)})" for name, rule in fused.items()]
    if op.fused is op.fused_cuda:
        w(f"grads = {calls[0]}")
    else:
        in_numpy = "type(g) is ndarray or namespace(g) is numpy" if op.single else "namespace(*g) is numpy"
        on_cpu, on_cuda = [calls.pop(0) if name in fused else "None" for name in ("fused", "fused_cuda")]
        w(f"grads = {on_cpu} if {in_numpy} else {on_cuda}")
    w("if grads is None:")
    w.depth += 1


def _needs(op: OpDef) -> str:
    """The `need` that a joint or fused rule gets, as text."""
    if op.variadic:
        return "bits_of(need, len(self.edges))"
    return f"({''.join(f'need & {1 << bit} != 0, ' for bit in range(len(op.inputs)))})"
