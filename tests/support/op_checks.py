"""What the checks on every row of the op table share."""

from __future__ import annotations

import contextlib
import itertools

import pytest
from op_db import Call
from op_rows import ROWS

from autograd_gpu.core.codegen import node_class
from autograd_gpu.core.declare.op import REGISTRY


def rows_of(name):
    """The rows that do not skip a check."""
    return [row for row in ROWS if row.op in REGISTRY and name not in row.skip]


def check(name, applies=lambda op: True, *, rules=False):
    """Parametrises a check over the rows that do not skip it, and whose op it applies to.

    With `rules` it is one of the op's rules only, which on an emulated device are those of the CPU unless the block has
    code for CUDA (`has_own_code`).
    """
    rows = [row for row in rows_of(name) if applies(row.definition)]
    return over(rows, lambda op: not has_own_code(op)) if rules else over(rows)


def over(rows, same_on_cpu=lambda op: False):
    """Parametrises a test over rows; an emulated device leaves out the ops of which `same_on_cpu` holds."""
    return pytest.mark.parametrize(
        "row", [pytest.param(row, id=row.op, marks=[pytest.mark.same_on_cpu] if same_on_cpu(row.definition) else [])
                for row in rows]
    )  # fmt: skip


def has_own_code(op):
    """Whether the block has code for CUDA."""
    return op.cuda is not None or op.fused_cuda is not op.fused


def calls(row, device, **options):
    """Each sample as a call, ready to run."""
    return [Call(row, sample, device, **options) for sample in row.draw()]


def subsets(count):
    """The non-empty subsets of range(count)."""
    return [s for size in range(1, count + 1) for s in itertools.combinations(range(count), size)]


TOGETHER = ("fused", "fused_cuda", "joint")  # the rules that give all gradients


class Spy:
    """Records which rules of an op really run, and their dtypes: wraps them where the generated code finds them."""

    def __init__(self, op):
        self.op, self.called, self.dtypes = op, [], []

    def __enter__(self):
        self.undo, node = contextlib.ExitStack(), self.op.node
        for name in ("run_raw", "run_recorded"):
            if name not in vars(node):  # they are written at their first run
                setattr(node, name, node_class.make_run(self.op, name))
            scope = getattr(node, name).__globals__
            for key in [k for k in scope if k.startswith("grad_") or k in TOGETHER]:
                self.undo.callback(scope.__setitem__, key, scope[key])
                scope[key] = self._watch(key, scope[key])
        return self

    def __exit__(self, *exc):
        self.undo.close()

    def _watch(self, key, rule):
        together = key in TOGETHER

        def watched(F, g, *args):
            result = rule(F, g, *args)
            if together and result is None:  # the rules are called instead
                return None
            if together:
                names = self.op.inputs * len(args[0]) if self.op.variadic else self.op.inputs
                self.called += [name for name, need in zip(names, args[0], strict=True) if need]
            else:
                self.called.append(key[5:])
            self.dtypes += [str(x.dtype) for x in (result if together else (result,)) if x is not None]
            return result

        return watched


def asked(call, wants):
    """Arrays, and names of what forward computed besides, that the rules of the inputs numbered `wants` read."""
    op, slots, extras = call.row.definition, set(), set()
    if op.reads is not None:
        return _read(call, wants), extras
    names = [call.names[i] for i in wants]
    for name in names:
        rule = op.rule_of(name)
        for _, kind, what in op.asked(rule) if rule is not None else []:
            if kind == "extra":
                extras.add(what)
            elif kind in ("input", "out"):
                slots.add((kind, what))
    arrays = []
    for kind, what in slots:
        if kind == "input":
            arrays += [t._array for name, t in call.tensors if name == what]
        else:
            arrays.append(call.outs[0 if op.outputs is None else op.outputs.index(what)]._array)
    return arrays, extras


def _read(call, wants):
    """The arrays that the joint rule of a list op reads."""
    op, tensors = call.row.definition, [t for _, t in call.tensors]
    needed = {call.bits[i] for i in wants}
    need = [1 << k in needed for k in range(len(tensors))]
    attributes = op.filled(call.sample.kwargs).values()
    kinds = {kind for _, kind, _ in op.asked(op.joint)}
    lists = {op.inputs[0]: tensors} | ({"out": call.outs} if "out" in kinds else {})
    return [x._array for name, values in lists.items() if kinds & {"input", "out"}
            for x, read in zip(values, op.reads(name, need, *attributes), strict=True) if read]
