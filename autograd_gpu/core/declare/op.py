"""Declares an op: one block with its forward, a derivative rule per input, its jvp rule and its batch rule.

    @defop
    class mul:
        \"\"\"Product of a and b, broadcasting.\"\"\"
        def forward(xp, a, b): return xp.multiply(a, b)
        def grad_a(F, g, b):   return g * b
        def grad_b(F, g, a):   return g * a
        types, broadcasts = PROMOTE, True

Reading a block
1. `forward(xp, inputs..., *, attributes...)` works on arrays. An input with default None is optional; `*tensors` is
   a list input. It may return `out, {"name": array}`; `saved = ("name",)` then declares the names that rules may use.
2. Every input has a rule `grad_<input>(F, g, parameters...)`, or `grad_<input> = ZERO`, or is listed in `integral` or
   `nondiff`.
   A joint rule `grads(F, g, need, parameters...)` replaces all of them: `need` is a tuple of bools, one per input. An
   op with a list input needs a joint rule; its `need` and its result have one entry per tensor. The node saves all
   tensors of the list, or those of `reads(name, need, attributes...)`: a bool for each tensor of the list, or for each
   output if name is "out". The others are None in the joint rule.
3. The node saves exactly what the parameters of the rules name: an input, `out` (or an output's name), an attribute,
   `<input>_shape`, `<input>_dtype`, a name in `saved`. For a list input these are lists, and so is `out` for
   `outputs = ("*",)`.
4. `g` is the gradient of the output. With several `outputs` it is a tuple in which None means zero. The entries of
   `nondiff_outputs` are always None, and the node's hooks do not receive them.
5. A rule returns None for "no gradient".
6. `add_<input>(F, into, g, parameters...)` beside a rule adds the gradient to the array `into`, which has the input's
   shape and dtype. It saves a launch for a leaf that has a `.grad` and expects no other gradient. If the op makes a
   view, it adds to the part of `into` that the view covers, while gradients of the base are being summed. Its
   parameters are a subset of the rule's.
7. `fused(F, g, need, parameters...)` beside the other rules returns all gradients that a plain backward
   needs at once, as a joint rule does, or None, and then the rules run. Its parameters are those of the rules; tensors
   that only rules of unneeded inputs read are None. So saving is still decided per input, and higher derivatives come
   from the rules. It serves kernels that have no derivative of their own, so no rule asks whether it gets arrays.
   `fused_cuda` runs in its place on CuPy arrays; fused_cuda = None says that the rules run there.
8. `jvp` declares how tangents are propagated (core/declare/jvp_rules.py), `batch` how the op runs on a batch
   (core/declare/batch_rules.py). Each is a named rule or a function.
9. `in_numpy(arrays, attributes...)` of an op with a list input is tried first if all inputs are NumPy arrays of one
   dtype; it receives them as a list. It has half the overhead of `forward`. If it raises ValueError, `forward` runs and
   reports the error.
10. `scalars` are inputs that autograd does not treat as tensors when a number is passed, though the op takes `numbers`:
   nothing is freed for them, and `next_functions` omits them. Other numbers are listed after the tensors.
11. `keyword_redirects = (("keyword", function), ...)`: a call with this keyword returns function(inputs..., value).
   Other calls pay for one test of a default.
12. Callers use PyTorch's names of the inputs: x, or a and b, are the parameters `input` and `other`, unless
   `parameter_names` lists names for all inputs.
13. `cuda`, a function with forward's parameters, runs in its place on CuPy arrays. Without it forward gets arrays of
   both kinds. Neither forward nor a rule asks which kind it has: a difference between the array modules themselves is a
   function in backend/.

Other specs of a block
    types            how the inputs' dtypes are unified: PROMOTE, FLOAT, SAME, ANY; EACH: of n results, number i depends
                     on the tensors i, i + n, ... of the list only, and others may be of other dtypes and devices
    promoted         the inputs to which `types` applies; all by default
    numbers          Python numbers are accepted, too: True, FITTING, BY_VALUE
    promotes_zero_dim
                     a 0-d input counts like any other in promotion
    broadcasts       inputs broadcast: the engine sums their gradients to the inputs' shapes
    view             True: the result may share memory with the first input; ALWAYS: it always does
    storage_ok       the op only moves elements, so it can run on the codes of float8 tensors
    selects_only     the result's elements are elements of the inputs: half types beside a number need no float32
    keeps_layout     the result has the order of dimensions in memory of the inputs, which forward sees to; the result
                     of any other op is made contiguous. True by default if `batch` or `jvp` says that the op is
                     elementwise
    random           the op draws random numbers, so vmap obeys its `randomness`: True, or a function
                     random(F, n, batched, inputs..., *, attributes...) that runs a batch with one draw for all examples
    outputs          the names of several results, or ("*",) for a list
    integral         the inputs that are always integers or bools
    nondiff          the other inputs without a derivative: a call in which one of them requires grad is an error; True:
                     all inputs, and the results are constants
    nondiff_outputs  the results without a derivative
    differentiable   a condition on the attributes under which there is a derivative
    numbers_first    PyTorch's deprecated forms with numbers before tensors are accepted: addcmul(x, value, a, b)
    takes_out        False: the public function has no `out`, as in PyTorch (ops/_support/out.py)
    public, methods, inplace, ufunc
                     the public names of the op (core/declare/public.py)
    no_lossy_save    quantizing memory hooks skip what the op saves, since its derivative compares, has a pole or
                     takes an exponential: True, or the names of the saved values
    no_capture       the op cannot be recorded in a CUDA graph: a word of core/declare/uncaptured.py says why
    sizes_by_value   the size of a result depends on values, so that calls cannot be compiled: True, or a function with
                     forward's parameters; True for no_capture = "sizes"
    wide_rules       the derivative of half types is computed in float32, and rounded once
    formula          what forward computes of an element, in the language of formulas, with forward's parameters; None
                     for what it cannot say. By it compiled calls join ops
    torch            the name below `torch` of what computes the same there, if it is neither its own nor a public name
"""

from __future__ import annotations

import functools
import inspect
import types as python_types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ...errors import OpDeclarationError
from ..graph.node import Node
from .public import Specs

# Values of `types`: how the inputs' dtypes are unified before forward.
PROMOTE = "promote"  # PyTorch's promotion among all tensor inputs
FLOAT = "float"  # the same, then integers become the default float dtype
SAME = "same"  # the dtypes must be equal
ANY = "any"  # the dtypes are not checked
EACH = "each"  # neither are the devices: the caller has prepared the tensors of the list

# Values of `numbers` besides True. With True, an integer that the dtype cannot hold wraps around, as in PyTorch.
FITTING = "fitting"  # such a number is an error
BY_VALUE = "by value"  # such a number is not converted: NumPy compares by value

# Value of `view` besides True: the result always shares the first input's memory, so this is not checked.
ALWAYS = "always"


class _Zero:
    def __repr__(self) -> str:
        return "ZERO"


ZERO = _Zero()  # in place of a rule: the derivative is exactly zero wherever it exists

REGISTRY: dict[str, OpDef] = {}
RAW = python_types.SimpleNamespace()  # F when no graph is built: arrays in, arrays out
RECORD = python_types.SimpleNamespace()  # F when recording: the public functions


@dataclass(eq=False)
class OpDef:
    """A declared op, as the code generator and the tests read it."""

    name: str
    doc: str | None
    forward: Callable[..., Any]
    cuda: Callable[..., Any] | None  # in place of forward on CuPy arrays
    inputs: tuple[str, ...]
    variadic: bool
    optional: frozenset[str]
    attributes: dict[str, Any]  # name -> default, inspect.Parameter.empty if there is none
    rules: dict[str, Callable[..., Any] | None]  # None for ZERO
    joint: Callable[..., Any] | None
    adders: dict[str, Callable[..., Any]]
    fused: Callable[..., Any] | None
    fused_cuda: Callable[..., Any] | None  # `fused` itself unless the block says otherwise
    outputs: tuple[str, ...] | None  # None: one output; ("*",): a list
    nondiff: tuple[str, ...]  # the inputs that must not require grad
    nondiff_outputs: frozenset[str]
    saved: tuple[str, ...]
    types: str
    promoted: tuple[str, ...]
    numbers: bool | str
    broadcasts: bool
    view: bool | str
    storage_ok: bool
    promotes_zero_dim: bool  # a 0-d input counts like any other in promotion, as if it had been broadcast before
    selects_only: bool  # the result's elements are elements of the inputs
    keeps_layout: bool | None  # None: if the op is elementwise
    no_capture: str | None
    random: bool | Callable[..., Any]  # the op draws random numbers; the batch rule with one draw for all examples
    scalars: tuple[str, ...]
    differentiable: Callable[..., bool] | None
    in_numpy: Callable[..., Any] | None
    reads: Callable[..., list[bool]] | None  # which tensors of the list, and which outputs, the joint rule reads
    keyword_redirects: tuple[tuple[str, Callable[..., Any]], ...]
    numbers_first: bool  # a call may list the attributes before or between the inputs
    takes_out: bool
    no_lossy_save: bool | tuple[str, ...]
    torch: str | None
    wide_rules: bool
    sizes_by_value: bool | Callable[..., bool]
    formula: Callable[..., Any] | None
    jvp: Any
    batch: Any
    parameter_names: dict[str, str]  # input -> name of its parameter in the public function
    names: Specs
    result: Any = None  # the namedtuple of several named outputs
    raw: Callable[..., Any] = None  # type: ignore[assignment]
    cores: dict[tuple[Any, ...], Callable[..., Any]] = field(default_factory=dict)
    variants: dict[tuple[type, ...], Callable[..., Any]] = field(default_factory=dict)
    level_records: dict[tuple[Any, ...], Callable[..., Any]] = field(default_factory=dict)
    fast: set[tuple[str, ...]] = field(default_factory=set)  # kinds of arguments that have variants
    _asked: dict[Callable[..., Any], list[tuple[str, str, str]]] = field(default_factory=dict)

    @functools.cached_property
    def node(self) -> type[Node]:
        """The class of the nodes that calls of the op create."""
        return OpDef.make_node_class(self) if self.has_rules else Node

    make_node_class: ClassVar[Callable[[OpDef], type[Node]]]  # set by core/codegen/node_class.py

    @functools.cached_property
    def without_rule(self) -> frozenset[str]:
        """The inputs that have no gradient rule: their derivative is ZERO or does not exist."""
        return frozenset(name for name in self.inputs if self.rule_of(name) is None)

    @functools.cached_property
    def as_it_is(self) -> Callable[[Sequence[bool], Sequence[Any], dict[str, Any]], bool] | None:
        """Tells whether on a batch the op itself runs, on all examples; None if never. See batch_rules.py."""
        return getattr(self.batch, "as_it_is", None)

    @functools.cached_property
    def is_plain(self) -> bool:
        """Whether calls that need no preparation may take one step in two levels (core/interpret/lifted_calls.py).

        They may run as they are on a batch, and have one result, which is no view, saves no extras and has a derivative
        by each input.
        """
        others = self.view or self.random or self.saved or self.variadic or self.without_rule or self.nondiff_outputs
        checked = self.differentiable is None and self.types not in (ANY, EACH)
        return self.single and not others and checked and self.as_it_is is not None

    @functools.cached_property
    def contiguous(self) -> bool:
        """Whether calls make their results contiguous, wherever forward has put them."""
        if self.keeps_layout is not None:
            return not self.keeps_layout
        return not (self.view or str(self.batch) == "BROADCASTING" or str(self.jvp) == "ELEMENTWISE")

    @property
    def has_rules(self) -> bool:
        return bool(self.rules) or self.joint is not None

    def compute(self, xp: Any, *args: Any, **attributes: Any) -> Any:
        """Runs forward, or cuda on CuPy arrays."""
        function = self.forward if self.cuda is None or xp is np else self.cuda
        return function(xp, *args, **attributes)

    @property
    def single(self) -> bool:
        return self.outputs is None

    @property
    def lists(self) -> bool:
        """Whether the op maps a list to a list."""
        return self.variadic and self.outputs == ("*",)

    def filled(self, attributes: dict[str, Any]) -> dict[str, Any]:
        """Returns all attributes by name, with defaults filled in; TypeError if one is unknown or missing."""
        unknown = [name for name in attributes if name not in self.attributes]
        values = {**self.attributes, **attributes}
        missing = [name for name, value in values.items() if value is inspect.Parameter.empty]
        if unknown or missing:
            what = f"has no attribute {unknown[0]!r}" if unknown else f"needs its attribute {missing[0]!r}"
            raise TypeError(f"{self.name} {what}; it has {', '.join(self.attributes) or 'none'}")
        return values

    def rule_of(self, name: str) -> Callable[..., Any] | None:
        return self.joint if self.joint is not None else self.rules.get(name)

    def asked(self, rule: Callable[..., Any]) -> list[tuple[str, str, str]]:
        """The parameters of `rule` as (parameter, kind, name); kind is input, out, attribute, shape, dtype or extra."""
        params = self._asked.get(rule)
        if params is None:
            # F, g, need, ... and F, into, g, ...; the others begin with F, g or F, t.
            longer = (self.joint, self.fused, self.fused_cuda, *self.adders.values())
            skip = 3 if any(rule is other for other in longer) else 2
            params = self._asked[rule] = [(p, *self._kind(rule, p)) for p in _names(rule)[skip:]]
        return params

    def _kind(self, rule: Callable[..., Any], p: str) -> tuple[str, str]:
        stem, _, suffix = p.rpartition("_")
        if p in self.inputs:
            return "input", p
        if (p == "out" and (self.single or self.lists)) or (self.outputs is not None and p in self.outputs):
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
        outputs = ("out",) if self.single or self.lists else self.outputs or ()
        return [*self.inputs, *outputs, *self.attributes, *self.saved, *shapes]


def _names(rule: Callable[..., Any]) -> tuple[str, ...]:
    """The parameter names of a rule. Reading them from the code is ten times faster than inspect.signature."""
    code = getattr(rule, "__code__", None)
    if code is None or hasattr(rule, "__wrapped__"):
        return tuple(inspect.signature(rule).parameters)
    return code.co_varnames[: code.co_argcount]
