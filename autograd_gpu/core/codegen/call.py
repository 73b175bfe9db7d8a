"""Generates the functions of an op, as dataclasses does: straight-line code, no loop over arguments in the hot path.

Each op gets `raw` (on arrays), the public function, one core per combination of tensor / number / None arguments,
and the node class with `run_raw` and `run_recorded`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ...modes import RECORDING_MASK
from ..declare.op import ANY, FLOAT, OpDef
from . import keywords
from .list_call import write_list_call
from .node_class import node_class
from .node_source import write_record
from .source import Source, chosen_forward, deferred, write_outputs, write_result

REQUIRED = inspect.Parameter.empty


def shown_signature(op: OpDef) -> inspect.Signature:
    """The signature of the public function for help(): the defaults as declared, `out` by keyword only."""
    kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(op.parameter_names[name], kind, default=None if name in op.optional else REQUIRED)
                  for name in op.inputs]
    defaulted = bool(op.optional) and not op.variadic
    for name, default in op.attributes.items():
        if default is REQUIRED and defaulted:
            kind = inspect.Parameter.KEYWORD_ONLY
        defaulted = defaulted or default is not REQUIRED
        parameters.append(inspect.Parameter(name, kind, default=default))
    parameters += [inspect.Parameter(word, kind, default=None) for word, _ in op.keyword_redirects]
    if op.takes_out:
        parameters.append(inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None))
    return inspect.Signature(parameters)


def operator_signature(op: OpDef) -> inspect.Signature:
    """The signature of the operator for help(): without `out`."""
    shown = shown_signature(op)
    return shown.replace(parameters=[p for name, p in shown.parameters.items() if name != "out"])


def signature(op: OpDef, names: dict[str, str], words: bool = False) -> str:
    """The parameter list as text: the inputs, called `names`, then the attributes; with `words` also their aliases."""
    changed, added = keywords.written_defaults(op.attributes) if words else ({}, {})
    numbers = keywords.numbers_of(op.attributes)
    parts = [names[name] + ("=None" if name in op.optional else "") for name in op.inputs]
    defaulted = bool(op.optional) and not op.variadic
    for name, default in op.attributes.items():
        required = default is REQUIRED
        if required and defaulted and "*" not in parts:
            parts.append("*")
        defaulted = defaulted or not required
        written = f"DEFAULT_{name}" if words and name in numbers else repr(default)  # one object, for `is`
        text = changed.get(name) or ("" if required else written)
        parts.append(f"{name}={text}" if text else name)
    own = [f"{word}=None" for word, _ in op.keyword_redirects] if words else []
    return ", ".join([*parts, *own, *(f"{word}={default}" for word, default in added.items())])


def inputs_tuple(op: OpDef) -> str:
    return "(" + "".join(f"{name}, " for name in op.inputs) + ")"


def attributes_tuple(op: OpDef) -> str:
    return "(" + "".join(f"{name}, " for name in op.attributes) + ")"


def keyword_attributes(op: OpDef) -> str:
    return "".join(f", {name}={name}" for name in op.attributes)


def make_raw(op: OpDef) -> Callable[..., Any]:
    """Makes `raw`: forward without xp, on arrays, numbers and NumPy scalars; it drops the saved extras."""

    def write(w: Source) -> dict[str, Any]:
        star = "*" if op.variadic else ""  # a list input is one argument: cat([a, b], dim)
        names = ", ".join(op.inputs)
        w(f"def {op.name}({signature(op, {name: name for name in op.inputs})}):")
        first = op.inputs[0] + ("[0]" if op.variadic else "")
        w(f"xp = numpy if type({first}) is ndarray else namespace({star}{names})", 1)
        call = f"{chosen_forward(op)}(xp, {star}{names}{keyword_attributes(op)})"
        result = f"{call}[0]" if op.saved else call
        if not op.contiguous:
            w(f"return {result}", 1)
        elif op.single:
            w(f"out = {result}", 1)
            w("return out if out.flags.c_contiguous else row_major(out)", 1)
        else:
            w(f"outs = [out if out.flags.c_contiguous else row_major(out) for out in {result}]", 1)
            w(f"return {'outs' if op.outputs == ('*',) else 'tuple(outs)'}", 1)
        return {"forward": op.forward, "cuda": op.cuda}

    return deferred(op.name, write)


def make_public(op: OpDef, general: Callable[..., Any], is_operator: bool = False) -> Callable[..., Any]:
    """Makes the public function: calls with only tensors run inline, other calls use a variant or `general`.

    An operator takes just its two operands.
    """

    def write(w: Source) -> dict[str, Any]:
        _write_public(w, op, is_operator)
        return _scope(op, general)

    return deferred(op.name, write)


def _write_public(w: Source, op: OpDef, is_operator: bool) -> None:
    listed = signature(op, op.parameter_names, words=not is_operator)
    out = op.takes_out and not is_operator
    w(f"def {op.name}({listed}{', _by_name=None, out=None' if out else ''}):")
    w.depth = 1
    if not is_operator:
        _write_other_words(w, op)
    if renamed := [name for name in op.inputs if op.parameter_names[name] != name]:
        w(f"{', '.join(renamed)} = {', '.join(op.parameter_names[name] for name in renamed)}")
    if "keepdim" in op.attributes:  # sum(x, 0, 1) is not a sum over two dimensions
        w("if keepdim is not False and keepdim is not True: check_bool(OP.name, 'keepdim', keepdim)")
    attrs = attributes_tuple(op)
    if out:  # a keyword-only parameter would cost 20 ns per call, two parameters with defaults cost 4
        w("if out is not None or _by_name is not None:")
        inputs = op.inputs[0] if op.variadic else inputs_tuple(op)
        w(f"return RECORD.to_out(OP, _by_name, out, general, {inputs}, {attrs})", 1)
    if op.variadic:
        write_list_call(w, op, f"general(OP, {op.inputs[0]}, {attrs})", keyword_attributes(op))
        return
    w("if " + " and ".join(f"(type({n}) is Tensor or type({n}) is Parameter)" for n in op.inputs) + ":")
    w.depth = 2
    _checked_body(w, op, ("T",) * len(op.inputs))
    w.depth = 1
    if op.numbers or op.optional:
        types = "(" + "".join(f"type({n}), " for n in op.inputs) + ")"
        w("else:")
        w(f"variant = VARIANTS.get({types})", 1)
        w("if variant is not None:", 1)
        w(f"return variant({', '.join([*op.inputs, *op.attributes])})", 2)
    w(f"return general(OP, {inputs_tuple(op)}, {attrs})")


def _write_other_words(w: Source, op: OpDef) -> None:
    """Writes the handling of `keyword_redirects`, aliases and 0-d tensors for numbers (core/codegen/keywords.py)."""
    for i, (word, _) in enumerate(op.keyword_redirects):
        w(f"if {word} is not None: return ELSEWHERE[{i}][1]({', '.join([*op.parameter_names.values(), word])})")
    keywords.write_words(w, op.name, op.attributes)
    if op.numbers_first:
        listed = ", ".join([*op.parameter_names.values(), *op.attributes])
        changed = " or ".join(f"{name} is not DEFAULT_{name} and isinstance({name}, Tensor)" for name in op.attributes)
        w(f"if {changed}: {listed} = numbers_last({op.name!r}, {len(op.inputs)}, {listed})")
    for number in keywords.numbers_of(op.attributes):  # most calls leave the default
        guard = "" if op.attributes[number] is REQUIRED else f"{number} is not DEFAULT_{number} and "
        w(f"if {guard}isinstance({number}, Tensor): {number} = as_number({op.name!r}, {number!r}, {number})")


def make_variant(op: OpDef, kinds: tuple[str, ...], general: Callable[..., Any]) -> Callable[..., Any]:
    """Makes the fast path for one combination of argument kinds: T tensor, N number, 0 None."""
    w = Source()
    w(f"def {op.name}({', '.join([*op.inputs, *op.attributes])}):")
    w.depth = 1
    _checked_body(w, op, kinds)
    w(f"return general(OP, {inputs_tuple(op)}, {attributes_tuple(op)})")
    return w.compile(op.name, {**_scope(op, general), "NodeClass": node_class(op, kinds)})


def make_core(
    op: OpDef, kinds: tuple[str, ...], keep_saved: bool = False, given_forward: bool = False
) -> Callable[..., Any]:
    """Makes the function without checks, for arguments that the general path has prepared.

    With `keep_saved` it also returns `extras`; with `given_forward` its first argument is the `forward` to run.
    """
    w = Source()
    first = ["forward"] if given_forward else []
    w(f"def {op.name}({', '.join([*first, *op.inputs, *op.attributes])}):")
    w.depth = 1
    w(f"mode = MODES.bits & {RECORDING_MASK}")
    _unwrap(w, op, kinds)
    _body(w, op, kinds, "forward" if given_forward else chosen_forward(op), keep_saved=keep_saved)
    return w.compile(op.name, {**_scope(op, None), "NodeClass": node_class(op, kinds)})


def _scope(op: OpDef, general: Any) -> dict[str, Any]:
    return {
        "general": general, "OP": op, "VARIANTS": op.variants, "forward": op.forward, "cuda": op.cuda,
        "NodeClass": op.node, "differentiable": op.differentiable, "in_numpy": op.in_numpy,
        "RESULT": op.result, "reads": op.reads,
        **{f"DEFAULT_{name}": default for name, default in op.attributes.items()}, "ELSEWHERE": op.keyword_redirects,
        **keywords.SCOPE,
    }  # fmt: skip


def tensors(op: OpDef, kinds: tuple[str, ...]) -> list[str]:
    return [name for name, kind in zip(op.inputs, kinds, strict=True) if kind == "T"]


def _unwrap(w: Source, op: OpDef, kinds: tuple[str, ...]) -> None:
    for name, kind in zip(op.inputs, kinds, strict=True):
        w(f"x_{name} = {name}._array" if kind == "T" else f"x_{name} = {name}")


def _checked_body(w: Source, op: OpDef, kinds: tuple[str, ...]) -> None:
    w("mode = MODES.bits")
    _unwrap(w, op, kinds)
    w("if " + " and ".join([f"mode <= {RECORDING_MASK}", *_dtype_checks(op, kinds)]) + ":")
    w.depth += 1
    _body(w, op, kinds, chosen_forward(op), guarded=True)
    w.depth -= 1


def _dtype_checks(op: OpDef, kinds: tuple[str, ...]) -> list[str]:
    """The conditions under which no cast is needed."""
    if op.types == ANY:
        return []
    promoted = [n for n in tensors(op, kinds) if n in op.promoted]
    if not promoted:
        return ["False"]  # where(mask, 1.0, 0.0): `general` chooses the dtype
    checks = [f"x_{promoted[0]}.dtype is x_{n}.dtype" for n in promoted[1:]]
    if "N" in kinds:  # NumPy rounds the number to float16, widens bfloat16, makes int * 2.0 a float64
        numbers = [name for name, kind in zip(op.inputs, kinds, strict=True) if kind == "N"]
        whole = " and ".join([f"x_{promoted[0]}.dtype in INTEGERS", *(f"type({n}) is int" for n in numbers)])
        checks.append(f"(x_{promoted[0]}.dtype in FULL_FLOATS{f' or {whole}' if op.types != FLOAT else ''})")
    elif op.types == FLOAT:
        checks.append(f"({' or '.join(f'{n}._fn is not None' for n in promoted)} or x_{promoted[0]}.dtype in FLOATS)")
    return checks


def _body(
    w: Source, op: OpDef, kinds: tuple[str, ...], forward: str, guarded: bool = False, keep_saved: bool = False
) -> None:
    """Writes the call of `forward`, the result and its node. With `guarded`, `general` reports an error of forward."""
    live = tensors(op, kinds)
    w(f"xp = numpy if type(x_{live[0]}) is ndarray else namespace({', '.join('x_' + n for n in live)})")
    arrays = ", ".join("x_" + n for n in op.inputs)
    target = "_out" if op.single else "outs"
    target += ", extras" if op.saved else ""
    call = f"{target} = {forward}(xp, {arrays}{keyword_attributes(op)})"
    if guarded:
        w(f"try: {call}")
        again = f"general(OP, {inputs_tuple(op)}, {attributes_tuple(op)})"
        w(f"except (ValueError, IndexError, TypeError, OverflowError): return {again}")
    else:
        w(call)
    if op.single:
        write_result(w, op, live[0])
    else:
        _wrap_outputs(w, op, live[0])
    if op.has_rules:
        write_record(w, op, kinds, live)
    w(f"return {'t' if op.single else 'ts'}{', extras' if keep_saved else ''}")


def _wrap_outputs(w: Source, op: OpDef, first: str) -> None:
    if op.result is not None:
        indices = range(len(op.outputs or ()))
        w(f"{', '.join(f'_out{i}' for i in indices)} = outs")
        for i in indices:
            w(f"_out = _out{i}")
            write_result(w, op, first)
            w(f"t{i} = t")
        w(f"ts = new_tuple(RESULT, ({', '.join(f't{i}' for i in indices)}))")
        return
    write_outputs(w, op, first)
