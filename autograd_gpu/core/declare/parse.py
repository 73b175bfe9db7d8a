"""Reads the block of an op into an OpDef, and checks that it does not contradict itself."""

from __future__ import annotations

import inspect
from collections import namedtuple
from collections.abc import Callable
from typing import Any

from ...errors import OpDeclarationError
from .jvp_word import JvpWord
from .op import ANY, EACH, FLOAT, PROMOTE, REGISTRY, SAME, ZERO, OpDef
from .public import Specs
from .uncaptured import refused_in_captures
from .wide_rules import in_float32

# Names reserved by the generated functions that run rules (codegen/node_run.py) and by those of codegen/call.py.
RUNNING = frozenset(("F", "fused", "fused_cuda", "g", "grads", "need", "release", "s", "self"))
GENERATED = frozenset(("extras", "mode", "node", "nr", "outs", "s", "storage", "t", "ts", "xp"))

_WORDS = {
    "types": ANY, "numbers": False, "broadcasts": False, "view": False, "storage_ok": False, "promotes_zero_dim": False,
    "selects_only": False, "random": False, "differentiable": None, "in_numpy": None, "reads": None, "jvp": None,
    "batch": None, "saved": (), "outputs": None, "scalars": (), "keyword_redirects": (), "takes_out": True,
    "no_lossy_save": False, "torch": None, "numbers_first": False, "wide_rules": False, "cuda": None,
    "keeps_layout": None, "no_capture": None, "sizes_by_value": False, "formula": None,
}  # fmt: skip


def parse(block: type) -> OpDef:
    """Parses a block into an OpDef; OpDeclarationError, at import, if the block contradicts itself."""
    name, body = block.__name__, dict(vars(block))
    forward = body.pop("forward", None)
    if forward is None:
        raise OpDeclarationError(f"op {name} has no forward(xp, ...)")
    parameters = list(inspect.signature(forward).parameters.values())[1:]
    inputs = [p for p in parameters if p.kind is not inspect.Parameter.KEYWORD_ONLY]
    words = {key: body.pop(key, default) for key, default in _WORDS.items()}
    rules = {key[5:]: _rule(body.pop(key)) for key in list(body) if key.startswith("grad_")}
    adders = {key[4:]: body.pop(key) for key in list(body) if key.startswith("add_")}
    nondiff, integral = body.pop("nondiff", ()), body.pop("integral", ())
    joint, fused = body.pop("grads", None), body.pop("fused", None)
    nondiff_outputs, promoted = frozenset(body.pop("nondiff_outputs", ())), body.pop("promoted", None)
    fused_cuda = body.pop("fused_cuda", fused)
    if words["wide_rules"]:
        rules = {key: rule and in_float32(rule) for key, rule in rules.items()}
        joint = joint and in_float32(joint)
    specs = _specs(body)
    parameter_names = _parameter_names(name, [p.name for p in inputs], body.pop("parameter_names", ()))
    unknown = [key for key in body if not key.startswith("__")]
    if unknown:
        raise OpDeclarationError(f"op {name}: unknown word(s) {', '.join(unknown)}")
    names = tuple(p.name for p in inputs)
    op = OpDef(
        name=name, doc=block.__doc__, forward=forward, inputs=names,
        variadic=any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in inputs),
        optional=frozenset(p.name for p in inputs if p.default is None),
        attributes={p.name: p.default for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY},
        rules=rules, joint=joint, adders=adders, fused=fused, fused_cuda=fused_cuda, nondiff_outputs=nondiff_outputs,
        nondiff=() if nondiff is True else nondiff,
        promoted=tuple(promoted) if promoted is not None else names, parameter_names=parameter_names, names=specs,
        **words,
    )  # fmt: skip
    _check(op, frozenset(names if nondiff is True else (*nondiff, *integral)))
    op.sizes_by_value = op.sizes_by_value or op.no_capture == "sizes"
    if op.no_capture is not None:
        op.cuda = refused_in_captures(name, op.no_capture, op.cuda or op.forward)
    op.takes_out = op.takes_out and _may_take_out(op)
    if op.outputs is not None and op.outputs != ("*",):
        op.result = namedtuple(f"{name}_result", op.outputs)  # type: ignore[misc]
    return op


def _specs(body: dict[str, Any]) -> Specs:
    """Takes the words that say where users find the op out of the body."""
    return {
        "public": body.pop("public", False), "methods": body.pop("methods", False),
        "inplace": body.pop("inplace", False), "ufunc": body.pop("ufunc", False),
    }  # fmt: skip


def _parameter_names(op: str, names: list[str], declared: tuple[str, ...]) -> dict[str, str]:
    """Maps each input to the name of its parameter in the public function."""
    if declared and len(declared) != len(names):
        raise OpDeclarationError(f"op {op}: `parameter_names` is for every input, {', '.join(names)}; got "
                                 f"{', '.join(declared)}")
    usual = {"x": "input"} if names[:1] == ["x"] else {"a": "input", "b": "other"} if names[:1] == ["a"] else {}
    return dict(zip(names, declared or [usual.get(name, name) for name in names], strict=True))


def _may_take_out(op: OpDef) -> bool:
    """Whether the public function can have `out`: not if the result may be a view."""
    required = [default is inspect.Parameter.empty for default in op.attributes.values()]
    by_name = any(required) and bool(op.optional)  # the parameter list then contains a `*`
    return not op.view and not by_name and "out" not in (*op.parameter_names.values(), *op.inputs, *op.attributes)


def _rule(value: Any) -> Callable[..., Any] | None:
    return None if value is ZERO else value


def _check(op: OpDef, nondiff: frozenset[str]) -> None:
    _check_rules(op, nondiff)
    _check_jvp(op)
    _check_cuda(op)
    _check_types(op)
    if not op.inputs:
        raise OpDeclarationError(f"op {op.name} has no input; a factory is a plain function")
    if taken := GENERATED & {*op.inputs, *op.attributes}:
        raise OpDeclarationError(f"op {op.name}: the generated code uses {', '.join(sorted(taken))} itself; rename it")
    if len({*op.parameter_names.values(), *op.attributes}) < len(op.parameter_names) + len(op.attributes):
        raise OpDeclarationError(f"op {op.name}: two parameters of one name; name the inputs by `parameter_names`")
    if op.name in REGISTRY:
        raise OpDeclarationError(f"op {op.name} is declared twice")


def _check_rules(op: OpDef, nondiff: frozenset[str]) -> None:
    """Each input has a rule or none on purpose, and rules ask for what there is."""
    known = set(op.inputs)
    for name in [*op.rules, *nondiff]:
        if name not in known:
            raise OpDeclarationError(f"op {op.name}: {name!r} is not an input; inputs are {', '.join(op.inputs)}")
    if op.variadic and op.rules:
        raise OpDeclarationError(f"op {op.name} has a list input; write a joint rule grads(F, g, need, ...)")
    if not op.has_rules and nondiff != known:
        raise OpDeclarationError(f"op {op.name} has no derivative rule, and its results would be constants without a "
                                 "word; write its rules, or nondiff = True")
    if op.has_rules and op.joint is None:
        for name in op.inputs:
            if name not in op.rules and name not in nondiff:
                raise OpDeclarationError(f"op {op.name}: input {name!r} has no rule; write grad_{name}, "
                                         f"grad_{name} = ZERO, nondiff = ({name!r},), or integral = ({name!r},)")
    for rule in [*op.rules.values(), op.joint]:
        if rule is not None:
            asked = {name for name, _, _ in op.asked(rule)}  # raises for a misspelt name
            if taken := RUNNING & asked:
                raise OpDeclarationError(f"op {op.name}: a rule cannot ask for {', '.join(sorted(taken))}, which names "
                                         "something else in the generated code; rename the input")
    for name, adder in op.adders.items():
        rule = op.rules.get(name)
        if rule is None or not {n for n, _, _ in op.asked(adder)} <= {n for n, _, _ in op.asked(rule)}:
            raise OpDeclarationError(f"op {op.name}: add_{name} needs a rule grad_{name} that asks for the same")
    read = {name for rule in [*op.rules.values(), op.joint] if rule is not None for name, _, _ in op.asked(rule)}
    for rule in (op.fused, op.fused_cuda):
        if rule is not None and not {name for name, _, _ in op.asked(rule)} <= read:
            raise OpDeclarationError(f"op {op.name}: fused needs rules that ask for what it asks for")


def _check_cuda(op: OpDef) -> None:
    if op.cuda is None:
        return
    if op.types == EACH:
        raise OpDeclarationError(f"op {op.name}: with types = EACH the arrays may be of both kinds; leave cuda out")
    try:
        inspect.signature(op.cuda).bind(None, *op.inputs, **op.attributes)
    except TypeError as error:
        raise OpDeclarationError(f"op {op.name}: cuda needs the parameters of forward: {error}") from None


def _check_types(op: OpDef) -> None:
    if not {*op.inputs}.issuperset(op.scalars) or (op.scalars and not op.numbers):
        raise OpDeclarationError(f"op {op.name}: scalars are inputs of an op that takes numbers; got {op.scalars}")
    if op.types not in (PROMOTE, FLOAT, SAME, ANY, EACH):
        raise OpDeclarationError(f"op {op.name}: types is one of promote, float, same, any, each; got {op.types!r}")
    if op.types == EACH and not op.lists:
        raise OpDeclarationError(f"op {op.name}: types = EACH is for ops that map a list to a list, outputs = ('*',)")
    if op.reads is not None and not (op.variadic and op.joint):
        raise OpDeclarationError(f"op {op.name}: `reads` is for the joint rule of a list input")


def _check_jvp(op: OpDef) -> None:
    if op.jvp is None:
        return
    if not op.has_rules:
        raise OpDeclarationError(f"op {op.name} has no derivative rules, so tangents end there; leave jvp out")
    if not isinstance(op.jvp, JvpWord):
        op.asked(op.jvp)  # raises for a misspelt name
    elif not op.single and not op.jvp.several_outputs:
        raise OpDeclarationError(f"op {op.name}: jvp = {op.jvp} is for ops with one output; write a function")
