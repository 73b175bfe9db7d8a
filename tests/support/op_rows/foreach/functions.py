"""Rows of ops/foreach/functions.py, made of the rows of the ops on one tensor: their samples, two to a list."""

import dataclasses

import numpy as np
from op_db import Row, Sample
from op_rows.creation import convert
from op_rows.elementwise import arithmetic, clamp, division, erf, gamma, logarithm, rounding, trigonometric, unary
from op_rows.linalg import matmul
from op_rows.nn import activation
from op_rows.reduction import minmax, norm
from op_rows.reduction import sum as sums

from autograd_gpu.core.declare.op import FLOAT, REGISTRY
from autograd_gpu.ops.foreach.arguments import ListCall, listed
from autograd_gpu.ops.foreach.columns import LIST, elements
from autograd_gpu.ops.foreach.functions import run

HOMES = (
    arithmetic, clamp, convert, division, erf, gamma, logarithm, rounding, trigonometric, unary, matmul, activation,
    minmax, norm, sums,
)  # fmt: skip
SINGLE = {row.op: row for module in HOMES for row in module.ROWS}
NAMES = [name.removeprefix("foreach_") for name in REGISTRY if name.startswith("foreach_")]
PYTORCH = {"amax": "max"}  # where the name differs; clamp is clamp_min and clamp_max
VALUE = ("addcmul", "addcdiv")


def lists_of(op, samples):
    """Samples of the list op: two elements each, of samples of the op on one tensor with the same numbers."""
    seen = {}
    for sample in samples:
        inputs = [*sample.args, *[None] * (len(op.inputs) - len(sample.args))]
        columns = [LIST if isinstance(a, np.ndarray) else a for a in inputs]
        attributes = op.filled(sample.kwargs)
        if LIST in columns and _is_public(op.name, columns, attributes):
            key = (*columns, *attributes.values())
            seen.setdefault(repr(key), (key, []))[1].append([a for a in inputs if isinstance(a, np.ndarray)])
    for columns, rows in seen.values():
        for k in range(0, len(rows), 2):
            yield Sample([a for pair in zip(*rows[k : k + 2], strict=True) for a in pair], columns=columns)


def _is_public(name, columns, attributes):
    """Whether torch._foreach_* has the op for these numbers: of the inputs the first is a list, but of pow."""
    others = {"dim": None, "keepdim": False, "decimals": 0}
    if any(attributes.get(key, default) != default for key, default in others.items()):
        return False
    if name == "clamp":
        return columns[0] is LIST and columns.count(None) == 1
    lists = {"lerp": 2, "addcmul": 3, "addcdiv": 3}.get(name, 1)
    return name == "pow" or columns[:lists] == [LIST] * lists


def reference_of(row):
    def reference(tensors, columns):
        op = row.definition
        seen = []
        for values in elements(columns, tensors):
            inputs = values[: len(op.inputs)]
            while inputs[-1] is None:
                inputs = inputs[:-1]
            attributes = zip(op.attributes.items(), values[len(op.inputs) :], strict=True)
            seen.append(row.reference(*inputs, **{name: v for (name, default), v in attributes if v != default}))
        return tuple(seen)

    return reference


def theirs_of(op):
    def theirs(torch, tensors, columns):
        n = len(tensors) // sum(column is LIST for column in columns)
        rest = iter([tensors[k : k + n] for k in range(0, len(tensors), n)])
        inputs = [next(rest) if column is LIST else column for column in columns[: len(op.inputs)]]
        attributes = dict(zip(op.attributes, columns[len(op.inputs) :], strict=True))
        if op.name == "clamp":
            x, low, high = inputs
            return torch._foreach_clamp_min(x, low) if high is None else torch._foreach_clamp_max(x, high)
        if op.name in ("add", "sub"):
            x, other = inputs
            if other is not columns[1]:
                return getattr(torch, f"_foreach_{op.name}")(x, other, alpha=attributes["alpha"])
            return getattr(torch, f"_foreach_{op.name}")(x, other * attributes["alpha"])
        if op.name in VALUE and len({x.shape for x in tensors}) > 1:  # PyTorch's derivative of such lists raises
            calls = zip(*inputs, strict=True)
            return tuple([getattr(torch, op.name)(*values, value=attributes["value"]) for values in calls])
        if op.name in VALUE:
            return getattr(torch, f"_foreach_{op.name}")(*inputs, attributes["value"])
        if op.name == "norm":
            return torch._foreach_norm(*inputs, 2 if attributes["p"] == "fro" else attributes["p"], attributes["dtype"])
        if op.name == "sum":
            return tuple([x.sum() for x in inputs[0]])
        return getattr(torch, f"_foreach_{PYTORCH.get(op.name, op.name)}")(*inputs)

    return theirs


def samples_of(row, rng):
    results = list(lists_of(row.definition, row.samples(rng)))
    if row.op in ("norm", "sum"):  # there the empty samples name a dimension
        results.append(Sample([np.zeros((0, 2)), np.ones(3)], columns=results[0].kwargs["columns"]))
    return results


def skipped(row):
    more = {}
    if all(rule is None for rule in row.definition.rules.values()):
        more["gradgradcheck"] = "the derivative is a list of zeros, which depend on nothing"
    if row.op == "amax":
        more["empty"] = "the largest of no elements"
    return row.skip | more


def row_of(name):
    single = SINGLE[name]
    op, fields = single.definition, {f.name: getattr(single, f.name) for f in dataclasses.fields(single)}
    integers = "float32" if op.types == FLOAT and single.integers == "auto" else single.integers
    more = single.integer_samples
    return Row(**fields | {
        "op": f"foreach_{name}", "reference": reference_of(single), "torch": theirs_of(op), "points": (), "errors": (),
        "samples": lambda rng: samples_of(single, rng), "skip": skipped(single),
        "integer_samples": None if more is None else lambda rng: list(lists_of(op, more(rng))),
        "fn": lambda tensors, columns: run(ListCall(op, listed(name, tensors), columns)), "integers": integers,
    })  # fmt: skip


ROWS = [row_of(name) for name in NAMES if name in SINGLE]
