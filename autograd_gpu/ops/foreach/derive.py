"""Derives ops on lists from the ops on one tensor: foreach_add from add.

Forward, joint rule, jvp and batch rule follow from the block of the op on one tensor. Where that is elementwise its
rules run on Rows, so that they are calls of list ops themselves; otherwise, and in backward on NumPy arrays, they run
element by element.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress, islice, repeat, starmap
from typing import Any, NamedTuple

from ...core.extend import BROADCASTING, EACH, RAW, REGISTRY, Call, OpDef, aligned, defop, push_forward, run_batched
from .arrays import computed, on_cpu
from .columns import LIST, Columns, Each, elements, groups, length
from .rows import RowFunctions


def derived(name: str, doc: str, module: str) -> Any:
    """Declares foreach_<name>, with this docstring and in this module."""
    op = REGISTRY[name]
    body = {"__doc__": doc, "__module__": module, "outputs": ("*",), "types": EACH, "broadcasts": op.broadcasts}

    def forward(xp: Any, *tensors: Any, columns: Columns) -> list[Any]:
        return computed(op, tensors, columns)

    def batch(F: Any, n: int, batched: Sequence[bool], *tensors: Any, columns: Columns) -> Any:
        return _batch(op, F, n, batched, tensors, columns)

    body["no_lossy_save"], body["keeps_layout"] = bool(op.no_lossy_save), not op.contiguous
    body |= {"forward": forward, "grads": _joint(op), "reads": _reads(op), "jvp": _jvp(op), "batch": batch}
    return defop(type(f"foreach_{name}", (), body))


# ---- what the rules of the op on one tensor read --------------------------------------------------------


def _readers(op: OpDef) -> dict[str, frozenset[str]]:
    """Maps inputs and "out" to the inputs whose rules read them; a shape or dtype counts as the input itself."""
    readers: dict[str, set[str]] = {}
    for name, rule in op.rules.items():
        for _, kind, what in op.asked(rule) if rule is not None else ():
            if kind != "attribute":
                readers.setdefault(what, set()).add(name)
    return {what: frozenset(names) for what, names in readers.items()}


def _reads(op: OpDef) -> Callable[..., list[bool]]:
    """`reads` of the list op: what the rules of the needed elements read."""
    readers = _readers(op)

    def reads(name: str, need: Sequence[bool], columns: Columns) -> list[bool]:
        listed = [what for what, column in zip(op.inputs, columns, strict=False) if column is LIST]
        n = len(need) // len(listed)
        needs = {what: need[k * n : k * n + n] for k, what in enumerate(listed)}
        flags: list[bool] = []
        for what in listed if name == "tensors" else ["out"]:
            asking = [needs[reader] for reader in readers.get(what, ()) if reader in needs]
            if len(asking) < 2:
                flags += asking[0] if asking else [False] * n
            else:
                flags += map(any, zip(*asking, strict=True))
        return flags

    return reads


def _asking(op: OpDef, function: Callable[..., Any]) -> Callable[..., Any]:
    """function(*leading, tensors, out, columns) with those parameters only that rules of the op read.

    `leading` are F, g and need of a joint rule.
    """
    readers = _readers(op)
    reads_out, reads_inputs = "out" in readers, any(name in readers for name in op.inputs)
    if reads_out and reads_inputs:
        return lambda F, g, need, tensors, out, columns: function(F, g, need, tensors, out, columns)
    if reads_out:
        return lambda F, g, need, out, columns: function(F, g, need, None, out, columns)
    if reads_inputs:
        return lambda F, g, need, tensors, columns: function(F, g, need, tensors, None, columns)
    return lambda F, g, need, columns: function(F, g, need, None, None, columns)


# ---- rules on groups of elements ------------------------------------------------------------------------


class Part(NamedTuple):
    """Elements on which a rule of the op on one tensor runs in one call."""

    F: Any
    rows: list[int]
    columns: Columns  # of the rows
    together: bool  # whether they run as Rows, or it is one element

    def pack(self, values: Sequence[Any] | None) -> Any:
        """The values of the rows, from those of all elements."""
        if values is None:
            return None
        chosen = [values[i] for i in self.rows]
        return self.F.rows(chosen) if self.together else chosen[0]

    def unpack(self, packed: Any) -> Sequence[Any]:
        """One value per row."""
        return [None] * len(self.rows) if packed is None else packed.values if self.together else [packed]

    def arguments(self, op: OpDef, lists: Sequence[Sequence[Any] | None]) -> list[Any]:
        """The inputs of the op: the lists, packed, and the numbers."""
        rest = iter(lists)
        return [self.pack(next(rest)) if column is LIST else column for column in self.columns[: len(op.inputs)]]

    def attributes(self, op: OpDef) -> dict[str, Any]:
        return dict(zip(op.attributes, self.columns[len(op.inputs) :], strict=True))


def _parts(op: OpDef, F: Any, columns: Columns, n: int, *alike: Sequence[Any]) -> Iterator[Part]:
    """Splits the elements such that those of a part have the same numbers, and the same values in the lists `alike`."""
    together = op.batch is BROADCASTING
    for rows, values in groups(columns, n, *alike):
        if together:
            yield Part(RowFunctions(F), rows, values, True)
        else:
            yield from [Part(F, [i], values, False) for i in rows]


def _lists(columns: Columns, tensors: Sequence[Any] | None, n: int) -> list[Sequence[Any] | None]:
    """The lists that lie end to end in `tensors`; None for each if no rule reads them."""
    count = sum([column is LIST for column in columns])
    return [None if tensors is None else tensors[k * n : k * n + n] for k in range(count)]


def _joint(op: OpDef) -> Callable[..., Any]:
    def grads(F: Any, g: Sequence[Any], need: Any, tensors: Any, out: Any, columns: Columns) -> list[Any]:
        n = len(g)
        lists = _lists(columns, tensors, n)
        results: list[Any] = []
        present = [x is not None for x in g]
        one_by_one = op.batch is not BROADCASTING or (F is RAW and on_cpu(list(compress(g, present))))
        listed = [what for what, column in zip(op.inputs, columns, strict=False) if column is LIST]
        for k, name in enumerate(listed):
            flags = need[k * n : k * n + n]
            if not all(present):
                flags = [a and b for a, b in zip(flags, present, strict=True)]
            if one_by_one:
                results += _by_element(op, name, F, g, flags, lists, out, columns)
            else:
                results += _by_parts(op, name, F, g, flags, lists, out, columns)
        return results

    return _asking(op, grads)


def _by_element(
    op: OpDef, name: str, F: Any, g: Sequence[Any], need: Sequence[bool], lists: Any, out: Any, columns: Columns
) -> Iterable[Any]:
    """The gradients of the wanted elements by input `name`, None for the others: a call of the rule for each.

    Zeros where its derivative is ZERO. Python code per element only in the rule itself: this is backward on the CPU.
    """
    rule = op.rules[name]
    if rule is None:
        calls, rule = zip(g), lambda F, g: F.constant_like(g, 0.0)
    else:
        calls = zip(g, *_answers(op, rule, lists, out, columns), strict=False)
    if all(need):
        return starmap(functools.partial(rule, F), calls)
    results = starmap(functools.partial(rule, F), compress(calls, need))
    return [next(results) if flag else None for flag in need]


def _answers(op: OpDef, rule: Callable[..., Any], lists: Any, out: Any, columns: Columns) -> list[Iterable[Any]]:
    """As Call.answers, but for each parameter of the rule its values for all elements."""
    rest, values = iter(lists), {}
    for what, column in zip((*op.inputs, *op.attributes), columns, strict=True):
        values[what] = next(rest) if column is LIST else column if type(column) is Each else repeat(column)
    answers: list[Iterable[Any]] = []
    for _, kind, what in op.asked(rule):
        if kind == "out":
            answers.append(out)
        elif kind in ("shape", "dtype"):
            answers.append([getattr(value, kind, None) for value in islice(values[what], len(lists[0]))])
        else:
            answers.append(values[what])
    return answers


def _by_parts(
    op: OpDef, name: str, F: Any, g: Sequence[Any], need: Sequence[bool], lists: Any, out: Any, columns: Columns
) -> Iterable[Any]:
    """What `_by_element` returns, by a call of the rule on Rows for all elements that have the same numbers."""
    grads: list[Any] = [None] * len(g)
    for part in _parts(op, F, columns, len(g), need):
        if need[part.rows[0]]:
            values = part.unpack(_gradient(op, name, part, part.pack(g), lists, out))
            for i, value in zip(part.rows, values, strict=True):
                grads[i] = value
    return grads


def _gradient(op: OpDef, name: str, part: Part, g: Any, lists: Any, out: Any) -> Any:
    """The gradients of the elements of a part by input `name`; zeros where its derivative is ZERO."""
    rule = op.rules[name]
    if rule is None:
        return part.F.constant_like(g, 0.0)
    # Elements of which nothing was saved are None; the rule does not ask for them.
    asked = {what for _, kind, what in op.asked(rule) if kind != "attribute"}
    listed = [what for what, column in zip(op.inputs, part.columns, strict=False) if column is LIST]
    chosen = [values if what in asked else None for what, values in zip(listed, lists, strict=True)]
    results = (part.pack(out),) if "out" in asked else (None,)
    call = Call(op, part.arguments(op, chosen), part.attributes(op), results)
    return rule(part.F, g, *call.answers(rule))


def _jvp(op: OpDef) -> Callable[..., Any]:
    def jvp(F: Any, t: Sequence[Any], tensors: Any, out: Any, columns: Columns) -> tuple[Any, ...]:
        n = length(columns, tensors)
        lists, tangents = _lists(columns, tensors, n), _lists(columns, t, n)
        results: list[Any] = [None] * n
        for part in _parts(op, F, columns, n, *[[x is None for x in t_list or ()] for t_list in tangents]):
            rest = iter(tangents)
            moved = [next(rest) if column is LIST else None for column in columns[: len(op.inputs)]]
            pushed = [None if t_list is None or t_list[part.rows[0]] is None else part.pack(t_list) for t_list in moved]
            call = Call(op, part.arguments(op, lists), part.attributes(op), (part.pack(out),))
            for i, value in zip(part.rows, part.unpack(push_forward(part.F, call, pushed)[0]), strict=True):
                results[i] = value
        return tuple(results)

    return jvp


# ---- batches ----------------------------------------------------------------------------------------


def _batch(
    op: OpDef, F: Any, n: int, batched: Sequence[bool], tensors: Sequence[Any], columns: Columns
) -> Sequence[Any]:
    """Runs elementwise ops on all elements at once, others element by element."""
    count = len(op.inputs)
    flags = [entry[:count] for entry in elements(columns, batched)]
    rows = [list(entry) for entry in elements(columns, tensors)]
    for i, (values, own_flags) in enumerate(zip(rows, flags, strict=True)):
        flags[i] = tuple([flag is True and column is LIST for flag, column in zip(own_flags, columns, strict=False)])
        if True not in flags[i]:  # the results have the batch dimension also where no input does
            at = next(k for k, column in enumerate(columns) if column is LIST)
            values[at] = F.expand(values[at], (n, *values[at].shape))
            flags[i] = tuple([k == at for k in range(count)])
    if op.batch is not BROADCASTING:
        names = tuple(op.attributes)
        return tuple([
            run_batched(F, op, n, own_flags, values[:count], dict(zip(names, values[count:], strict=True)))
            for values, own_flags in zip(rows, flags, strict=True)
        ])  # fmt: skip
    inputs = [aligned(F, own_flags, values[:count]) for values, own_flags in zip(rows, flags, strict=True)]
    listed = [k for k in range(count) if columns[k] is LIST]
    result: Sequence[Any] = getattr(F, f"foreach_{op.name}")([row[k] for k in listed for row in inputs], columns)
    return result
