"""How an op is declared: one block with its forward, a derivative rule per input, its jvp and batching words.

    @defop
    class mul:
        \"\"\"Product of a and b, broadcasting.\"\"\"
        def forward(xp, a, b): return xp.multiply(a, b)
        def grad_a(F, g, b):   return g * b
        def grad_b(F, g, a):   return g * a
        types, broadcasts = PROMOTE, True

Reading a block
1. `forward(xp, inputs..., *, attributes...)` works on arrays. An input with default None is optional; `*tensors` is
   a list input. It may return `out, {"name": array}` where `saved = ("name",)` announces what rules may ask for.
2. Every input has a rule `grad_<input>(F, g, asked...)`, or is `grad_<input> = ZERO`, or stands in `nondiff`.
   A joint rule `grads(F, g, need, asked...)` replaces all of them: `need` is a tuple of bools, one per input. An op
   with a list input has a joint rule, and in `need` and in what it answers there is one for each tensor.
3. The names that a rule asks for ARE what is saved: an input, `out` (or an output's name), an attribute,
   `<input>_shape`, `<input>_dtype`, a `saved` name. Of a list input these are lists.
4. `g` is the output's gradient; with several `outputs` a tuple of them in which None means zero, as it is for those in
   `nondiff_outputs`, of which the node's hooks know nothing.
5. A rule that answers None means "no gradient".
6. `add_<input>(F, into, g, asked...)` beside a rule adds the gradient to the array `into`, of the input's shape and
   dtype, where that saves a launch: for a leaf that has a `.grad` and expects nothing else. Of a view it adds to the
   part of `into` that the view shows, where a sum of gradients is under way. It may ask for what the rule asks for.
7. `fused(F, g, need, asked...)` beside the rules of several inputs gives all gradients that a plain backward needs at
   once, as a joint rule does, or answers None, and then the rules run. It gets what the needed inputs' rules ask for,
   and None for other tensors. So what is saved is still split by need, and higher derivatives are those of the rules.
8. `jvp` says how tangents go through it (core/declare/jvp_rules.py), `batch` how it runs on a batch of examples
   (core/declare/batch_rules.py): words, or functions.
9. `in_numpy(arrays, attributes...)` of an op with a list input is what a call tries first on NumPy arrays of one dtype,
   which it gets as a list: half the overhead of `forward`, which runs, and explains, where it raises ValueError.
10. `scalars` are inputs that are no tensors to autograd where a number is given, though the op takes `numbers`: nothing
   of them is freed, and `next_functions` leaves them out. Other numbers are listed behind the tensors.
11. `elsewhere = (("keyword", function), ...)`: a call that gives the keyword is answered by function(inputs..., value);
   the others pay a test of a default for it.
12. Callers name the inputs as PyTorch does: x, or a and b, are `input` and `other` to them, unless `called` has names
   for all of them.

Other words of a block
    types            how the inputs' dtypes are brought together: PROMOTE, FLOAT, SAME, ANY
    promoted         which inputs that concerns; all by default
    numbers          Python numbers are taken, too: True, FITTING, BY_VALUE
    expanded         a 0-d input counts like any other in promotion
    broadcasts       inputs broadcast: the engine sums their gradients back
    view             the result may share memory with the first input: True; it always does: ALWAYS
    storage_ok       it only moves elements, so that it runs on the codes of float8 tensors
    chooses          the result's elements are the inputs' own: half types beside a number need no float32
    outputs          the names of several results, or ("*",) for a list
    nondiff          the inputs without a derivative; True: all of them, and the results are constants
    nondiff_outputs  the results without a derivative
    differentiable   a condition on the attributes under which there is a derivative
    takes_out        False: the public function has no `out`, as PyTorch's (ops/_support/out.py)
    public, methods, inplace, ufunc
                     where users find the op (core/declare/public.py)
    sensitive        quantizing memory hooks leave alone what it saves, since its derivative compares, has a pole or
                     takes an exponential: True, or the names of what is saved
"""

from __future__ import annotations

import functools
import inspect
import types as python_types
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ...errors import OpDeclarationError
from ..graph.node import Node
from .jvp_word import JvpWord
from .public import Specs

# What `types` may say: how the inputs' dtypes are brought together before forward.
PROMOTE = "promote"  # PyTorch's promotion among all tensor inputs
FLOAT = "float"  # the same, then integers become the default float dtype
SAME = "same"  # must be equal already
ANY = "any"  # not looked at

# What `numbers` may say but True, where an integer that the dtype does not hold wraps around, as in PyTorch.
FITTING = "fitting"  # such a number is refused
BY_VALUE = "by value"  # it stays what it is: NumPy compares by value

# What `view` may say: True, the result may share the first input's memory; ALWAYS, it does, and nobody looks.
ALWAYS = "always"


class _Zero:
    def __repr__(self) -> str:
        return "ZERO"


ZERO = _Zero()  # in place of a rule: the derivative is exactly zero wherever it exists

# Names that the generated functions use themselves: where rules run (codegen/node_class.py), and in codegen/call.py.
RUNNING = frozenset(("F", "fused", "g", "grads", "need", "release", "s", "self"))
GENERATED = frozenset(("extras", "mode", "node", "nr", "outs", "s", "storage", "t", "ts", "xp"))

REGISTRY: dict[str, OpDef] = {}
RAW = python_types.SimpleNamespace()  # F when no graph is built: arrays in, arrays out
RECORD = python_types.SimpleNamespace()  # F when recording: the public functions


@dataclass(eq=False)
class OpDef:
    """A declared op; the generated functions read it, and so do the tests."""

    name: str
    doc: str | None
    forward: Callable[..., Any]
    inputs: tuple[str, ...]
    variadic: bool
    optional: frozenset[str]
    attributes: dict[str, Any]  # name -> default, inspect.Parameter.empty if there is none
    rules: dict[str, Callable[..., Any] | None]  # None for ZERO
    joint: Callable[..., Any] | None
    adders: dict[str, Callable[..., Any]]
    fused: Callable[..., Any] | None
    outputs: tuple[str, ...] | None  # None: one output; ("*",): a list
    nondiff_outputs: frozenset[str]
    saved: tuple[str, ...]
    types: str
    promoted: tuple[str, ...]
    numbers: bool | str
    broadcasts: bool
    view: bool | str
    storage_ok: bool
    expanded: bool  # a 0-d input counts like any other in promotion, as if it had been broadcast before
    chooses: bool  # the result's elements are the inputs' own
    scalars: tuple[str, ...]
    differentiable: Callable[..., bool] | None
    in_numpy: Callable[..., Any] | None
    elsewhere: tuple[tuple[str, Callable[..., Any]], ...]
    takes_out: bool
    sensitive: bool | tuple[str, ...]
    jvp: Any
    batch: Any
    called: dict[str, str]  # input -> the parameter's name in the public function
    names: Specs
    result: Any = None  # the namedtuple of several named outputs
    raw: Callable[..., Any] = None  # type: ignore[assignment]
    cores: dict[tuple[str, ...], Callable[..., Any]] = field(default_factory=dict)
    variants: dict[tuple[type, ...], Callable[..., Any]] = field(default_factory=dict)
    _asked: dict[Callable[..., Any], list[tuple[str, str, str]]] = field(default_factory=dict)

    @functools.cached_property
    def node(self) -> type[Node]:
        """The class of the nodes that calls of the op make."""
        return OpDef.make_node_class(self) if self.has_rules else Node

    make_node_class: ClassVar[Callable[[OpDef], type[Node]]]  # that of core/codegen/node_class.py

    @property
    def has_rules(self) -> bool:
        return bool(self.rules) or self.joint is not None

    @property
    def single(self) -> bool:
        return self.outputs is None

    def filled(self, attributes: dict[str, Any]) -> dict[str, Any]:
        """All attributes by name, those not given by their defaults; TypeError for one that is unknown or missing."""
        unknown = [name for name in attributes if name not in self.attributes]
        found = {**self.attributes, **attributes}
        missing = [name for name, value in found.items() if value is inspect.Parameter.empty]
        if unknown or missing:
            what = f"has no attribute {unknown[0]!r}" if unknown else f"needs its attribute {missing[0]!r}"
            raise TypeError(f"{self.name} {what}; it has {', '.join(self.attributes) or 'none'}")
        return found

    def rule_of(self, name: str) -> Callable[..., Any] | None:
        return self.joint if self.joint is not None else self.rules.get(name)

    def asked(self, rule: Callable[..., Any]) -> list[tuple[str, str, str]]:
        """What `rule` asks for: (parameter, kind, name) with kind input, out, attribute, shape, dtype, extra."""
        found = self._asked.get(rule)
        if found is None:
            longer = (self.joint, self.fused, *self.adders.values())  # F, g, need; F, into, g; the others F, g; F, t
            skip = 3 if any(rule is each for each in longer) else 2
            found = self._asked[rule] = [(p, *self._kind(rule, p)) for p in _names(rule)[skip:]]
        return found

    def _kind(self, rule: Callable[..., Any], p: str) -> tuple[str, str]:
        stem, _, suffix = p.rpartition("_")
        if p in self.inputs:
            return "input", p
        if (p == "out" and self.single) or (self.outputs is not None and p in self.outputs):
            return "out", p
        if p in self.attributes:
            return "attribute", p
        if stem in self.inputs and suffix in ("shape", "dtype"):
            return suffix, stem
        if p in self.saved:
            return "extra", p
        raise OpDeclarationError(
            f"{self.name}.{rule.__name__} asks for {p!r}; it may ask for {', '.join(self._askable())}"
        )

    def _askable(self) -> list[str]:
        shapes = [f"{name}_{suffix}" for name in self.inputs for suffix in ("shape", "dtype")]
        return [*self.inputs, *(self.outputs or ("out",)), *self.attributes, *self.saved, *shapes]


_WORDS = {
    "types": ANY, "numbers": False, "broadcasts": False, "view": False, "storage_ok": False, "expanded": False,
    "chooses": False, "differentiable": None, "in_numpy": None, "jvp": None, "batch": None, "saved": (),
    "outputs": None, "scalars": (), "elsewhere": (), "takes_out": True, "sensitive": False,
}  # fmt: skip


def parse(block: type) -> OpDef:
    """The OpDef of a block; OpDeclarationError, at import, if the block contradicts itself."""
    name, body = block.__name__, dict(vars(block))
    forward = body.pop("forward", None)
    if forward is None:
        raise OpDeclarationError(f"op {name} has no forward(xp, ...)")
    parameters = list(inspect.signature(forward).parameters.values())[1:]
    inputs = [p for p in parameters if p.kind is not inspect.Parameter.KEYWORD_ONLY]
    words = {key: body.pop(key, default) for key, default in _WORDS.items()}
    rules = {key[5:]: _rule(body.pop(key)) for key in list(body) if key.startswith("grad_")}
    adders = {key[4:]: body.pop(key) for key in list(body) if key.startswith("add_")}
    nondiff, joint, fused = body.pop("nondiff", ()), body.pop("grads", None), body.pop("fused", None)
    nondiff_outputs, promoted = frozenset(body.pop("nondiff_outputs", ())), body.pop("promoted", None)
    found_by: Specs = {
        "public": body.pop("public", False), "methods": body.pop("methods", False),
        "inplace": body.pop("inplace", False), "ufunc": body.pop("ufunc", False),
    }  # fmt: skip
    called = _called(name, [p.name for p in inputs], body.pop("called", ()))
    unknown = [key for key in body if not key.startswith("__")]
    if unknown:
        raise OpDeclarationError(f"op {name}: unknown word(s) {', '.join(unknown)}")
    names = tuple(p.name for p in inputs)
    op = OpDef(
        name=name, doc=block.__doc__, forward=forward, inputs=names,
        variadic=any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in inputs),
        optional=frozenset(p.name for p in inputs if p.default is None),
        attributes={p.name: p.default for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY},
        rules=rules, joint=joint, adders=adders, fused=fused, nondiff_outputs=nondiff_outputs,
        promoted=tuple(promoted) if promoted is not None else names, called=called, names=found_by, **words,
    )  # fmt: skip
    _check(op, frozenset(names if nondiff is True else nondiff))
    op.takes_out = op.takes_out and _may_take_out(op)
    if op.outputs is not None and op.outputs != ("*",):
        op.result = namedtuple(f"{name}_result", op.outputs)  # type: ignore[misc]
    return op


def _names(rule: Callable[..., Any]) -> tuple[str, ...]:
    """The parameters of a rule; of a plain function from its code, a tenth of the time of inspect.signature."""
    code = getattr(rule, "__code__", None)
    if code is None or hasattr(rule, "__wrapped__"):
        return tuple(inspect.signature(rule).parameters)
    return code.co_varnames[: code.co_argcount]


def _called(op: str, names: list[str], given: tuple[str, ...]) -> dict[str, str]:
    """Input -> what callers name it."""
    if given and len(given) != len(names):
        raise OpDeclarationError(f"op {op}: `called` names every input, {', '.join(names)}; got {', '.join(given)}")
    usual = {"x": "input"} if names[:1] == ["x"] else {"a": "input", "b": "other"} if names[:1] == ["a"] else {}
    return dict(zip(names, given or [usual.get(name, name) for name in names], strict=True))


def _may_take_out(op: OpDef) -> bool:
    """Not where the result may be a view."""
    required = [default is inspect.Parameter.empty for default in op.attributes.values()]
    by_name = any(required) and bool(op.optional)  # then a `*` stands in the list of parameters
    return not op.view and not by_name and "out" not in (*op.called.values(), *op.inputs, *op.attributes)


def _rule(value: Any) -> Callable[..., Any] | None:
    return None if value is ZERO else value


def _check(op: OpDef, nondiff: frozenset[str]) -> None:
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
                                         f"grad_{name} = ZERO, or nondiff = ({name!r},)")
    for rule in [*op.rules.values(), op.joint]:
        if rule is not None:
            asked = {name for name, _, _ in op.asked(rule)}  # raises for a misspelt name
            if taken := RUNNING & asked:
                raise OpDeclarationError(f"op {op.name}: a rule cannot ask for {', '.join(sorted(taken))}, which names "
                                         "something else in the generated code; rename the input")
    _check_jvp(op)
    if not known.issuperset(op.scalars) or (op.scalars and not op.numbers):
        raise OpDeclarationError(f"op {op.name}: scalars are inputs of an op that takes numbers; got {op.scalars}")
    for name, adder in op.adders.items():
        rule = op.rules.get(name)
        if rule is None or not {n for n, _, _ in op.asked(adder)} <= {n for n, _, _ in op.asked(rule)}:
            raise OpDeclarationError(f"op {op.name}: add_{name} needs a rule grad_{name} that asks for the same")
    read = {name for rule in op.rules.values() if rule is not None for name, _, _ in op.asked(rule)}
    if op.fused is not None and not {name for name, _, _ in op.asked(op.fused)} <= read:
        raise OpDeclarationError(f"op {op.name}: fused needs rules grad_<input> that ask for what it asks for")
    if not op.inputs:
        raise OpDeclarationError(f"op {op.name} has no input; a factory is a plain function")
    if taken := GENERATED & {*op.inputs, *op.attributes}:
        raise OpDeclarationError(f"op {op.name}: the generated code uses {', '.join(sorted(taken))} itself; rename it")
    if len({*op.called.values(), *op.attributes}) < len(op.called) + len(op.attributes):
        raise OpDeclarationError(f"op {op.name}: two parameters of one name; say what the inputs are `called`")
    if op.types not in (PROMOTE, FLOAT, SAME, ANY):
        raise OpDeclarationError(f"op {op.name}: types is one of promote, float, same, any; got {op.types!r}")
    if op.name in REGISTRY:
        raise OpDeclarationError(f"op {op.name} is declared twice")


def _check_jvp(op: OpDef) -> None:
    if op.jvp is None:
        return
    if not op.has_rules:
        raise OpDeclarationError(f"op {op.name} has no derivative rules, so tangents end there; leave jvp out")
    if not isinstance(op.jvp, JvpWord):
        op.asked(op.jvp)  # raises for a misspelt name
    elif not op.single and not op.jvp.several_outputs:
        raise OpDeclarationError(f"op {op.name}: jvp = {op.jvp} is for ops with one output; write a function")
