"""Ops from formulas: a block with `formula`, and its derivatives of every order.

    @pointwise
    class silu:
        \"\"\"x * sigmoid(x).\"\"\"
        def formula(x): return x * sigmoid(x)
        public = True

    @pointwise
    class silu_grad:
        \"\"\"h * silu'(x): the gradient of `silu`.\"\"\"
        derivative_of = silu

`formula` takes the place of forward and of the rules: backend/formulas/ derives it and writes its NumPy code, at the
first call of each. The op of order n computes h * f^(n)(x). It is closed under derivation: its gradient by h is itself,
and its gradient by x is the op of order n + 1 of g * h. Order 1 is the block with `derivative_of`; ops of higher orders
are declared when a rule first asks for them, and are not in REGISTRY. On CUDA each is an instance of elementwise.cu,
which is compiled at its first call.

A formula of several elements makes an op of another kind, see core/declare/pointwise_several.py.

Such a block has the words of every other. `types` is FLOAT, `jvp` ELEMENTWISE and `batch` BROADCASTING unless it says
otherwise. `grad_x = ZERO` beside `derivative_of` declares that f'' is zero. Words of its own:

    by_result   f' as a formula of the result, `def by_result(out): return 1 - out * out`. Then backward saves the
                result instead of x, and the op of order n computes h times the derivative of order n - 1 of by_result
    check       check(**attributes) raises the errors of wrong attributes
    integers    forward for arrays that are no floats
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...backend.formulas.derivative import times
from ...backend.formulas.expression import ZERO as NOTHING
from ...backend.formulas.expression import Expression, StatedFunction, element
from ...backend.formulas.formula import Formula, Options
from ...backend.formulas.lowering import Program, lowered
from ...backend.formulas.native.switch import SETTING
from ...backend.formulas.numpy_source import defined
from ...errors import OpDeclarationError
from .batch_rules import BROADCASTING
from .formula_codes import Codes, Forwards, Products
from .formula_cuda import CudaCode, gradients_of, products_of
from .jvp_rules import ELEMENTWISE
from .op import FLOAT, ZERO
from .pointwise_several import Several, words_of

WORDS = ("by_result", "check", "integers")


class Written(NamedTuple):
    """Products of a formula in its language, for compiled calls."""

    family: Family
    products: Products

    def program(
        self, attributes: Mapping[str, Any], double: bool
    ) -> tuple[Program, dict[str, float], list[Expression]]:  # fmt: skip
        """The program that the op's own code runs, the values of its numbers by name, and its outputs."""
        options, numbers = self.family.chosen(attributes)
        chosen = self.products, options, tuple([name for name, n in numbers.items() if n == 1])
        program: Program = self.family.program(*chosen[:2], double, chosen[2])
        return program, numbers, self.family.outputs(*chosen)


class Family:
    """A formula of one element and the ops of its derivatives.

    `saved` names what the derivatives are computed from: x, or the result, `out`.
    """

    declare: ClassVar[Callable[[type], None]]  # makes an op that is not in REGISTRY; set by core/dispatch.py

    def __init__(
        self, name: str, formula: Formula, by_result: Callable[..., Any] | None = None,
        check: Callable[..., None] | None = None, integers: Callable[..., Any] | None = None,
    ) -> None:  # fmt: skip
        if formula.inputs != ("x",):
            raise OpDeclarationError(f"op {name}: the element of its formula is to be named x")
        self.name, self.formula, self.check, self.integers = name, formula, check, integers
        self.slope = None if by_result is None else Formula(by_result, f"{name}_by_result")
        if self.slope is not None and self.slope.inputs != ("out",):
            raise OpDeclarationError(f"op {name}: by_result is a formula of the result, out")
        self.saved = "x" if self.slope is None else "out"
        self.names = {0: name}  # order -> the op that has been declared for it
        self.attributes = {**formula.numbers, **formula.options}
        self.program, self.cuda = functools.cache(self._program), CudaCode(self)
        self.codes = functools.cache(self._codes)

    def at(self, F: Any, order: int) -> Callable[..., Any]:
        """The function of F that computes h * f^(order), which is declared if nobody has asked for it."""
        name = self.names.get(order)
        if name is None:
            if not self.formula.options and self.derived(order) is NOTHING:
                raise OpDeclarationError(f"op {self.names[order - 1]}: its derivative is zero everywhere; say "
                                         f"grad_{self.saved if order > 1 else 'x'} = ZERO in its block")
            name = f"{self.name}_derivative_{order}"
            text = f"h times the derivative of order {order} of `{self.name}`."
            body: dict[str, Any] = {"__doc__": text, "__module__": __name__}
            if not self.formula.options and self._is_straight(order):
                body["grad_" + self.saved] = ZERO
            Family.declare(self.block(name, order, body))
            self.names[order] = name
        return getattr(F, name)

    def _codes(self, order: int) -> Codes:
        """The code of the op of this order."""
        return Codes(self, self.name + "'" * order, products_of(order))

    def derived(self, order: int, options: Options = (), ones: tuple[str, ...] = ()) -> Expression:
        """f^(order) as an expression of x; from order 1 on of the result, if derivatives are stated in terms of it."""
        if order and self.slope is not None:
            return self.slope.derived((order - 1,), options, ones)
        return self.formula.derived((order,), options, ones)

    def of(self, F: Any) -> Callable[..., Any]:
        """The function of F that computes f(x)."""
        return getattr(F, self.name)

    @functools.cached_property
    def bends(self) -> bool:
        """Whether f' depends on x."""
        return not self._is_straight(1)

    def _is_straight(self, order: int) -> bool:
        """Whether the derivative of f^(order) is zero, for the default options."""
        return self.derived(order + 1) is NOTHING

    def block(self, name: str, order: int, body: dict[str, Any]) -> type:
        """The block of the op of this order, for defop; `body` has the words that were written."""
        words = {"types": FLOAT, "jvp": ELEMENTWISE, "batch": BROADCASTING, **self._functions(name, order)}
        if order:
            words |= {"broadcasts": True, "wide_rules": True}
        if body.get("grad_" + self.saved) is ZERO:
            words = {key: word for key, word in words.items() if key not in ("fused", "fused_cuda")}
        return type(name, (), {**words, **body})

    def outputs(self, products: Products, options: Options, ones: tuple[str, ...] = ()) -> list[Expression]:
        """The products of factors and a derivative; numbers in `ones` are 1."""
        outputs = []
        for factors, order in products:
            output = self.derived(order, options, ones)
            for factor in reversed(factors):
                output = times(element(factor), output)
            outputs.append(output)
        return outputs

    def _program(
        self, products: Products, options: Options, double: bool, ones: tuple[str, ...] = (), library: bool = False
    ) -> Program:
        """The program that computes `outputs`."""
        return lowered(*self.traced(products, options, ones), double, library)

    def traced(
        self, products: Products, options: Options, ones: tuple[str, ...] = ()
    ) -> tuple[list[Expression], list[str]]:  # fmt: skip
        """The outputs, and the names of the arrays that they are computed from."""
        used = [name for name in ("g", "h") if any(name in factors for factors, _ in products)]
        inputs = [*used, self.saved if any(order for _, order in products) else "x"]
        return self.outputs(products, options, ones), inputs

    def _functions(self, name: str, order: int) -> dict[str, Any]:
        """Forward and rules of the op, generated: rules say by their parameters what is saved."""
        gradients = Codes(self, f"gradients of {name}", gradients_of(order))
        scope: dict[str, Any] = {
            "at": self.at, "RESULT": Forwards(self.codes(order)), "GRADIENTS": gradients, "alike": _alike,
            "CUDA": self.cuda, "SETTING": SETTING,
        }  # fmt: skip
        scope |= {f"default_{name}": default for name, default in self.attributes.items()}
        defined(f"<op {name}>", self._source(order), scope)
        scope["formula"] = Written(self, products_of(order))
        if order:
            scope["fused"].formula = scope["fused_cuda"].formula = Written(self, gradients_of(order))
        words = ("forward", "cuda", "formula", "fused", "fused_cuda")
        return {key: value for key, value in scope.items() if key in words or key.startswith("grad_")}

    def _source(self, order: int) -> str:
        listed = "".join([f", {name}" for name in self.attributes])
        named = "".join([f", {name}={name}" for name in self.attributes])
        required = [name for name, default in self.attributes.items() if default is inspect.Parameter.empty]
        words = [name if name in required else f"{name}=default_{name}" for name in self.attributes]
        keywords = ", " + ", ".join(["*", *words]) if words else ""
        key, s = f"x.dtype{listed}", self.saved
        if not order:
            return "\n".join([
                f"def forward(xp, x{keywords}):",
                f"    few, most, is_native, code, numbers = RESULT[{key}]",
                "    if x.size <= most and x.ndim and not (is_native and SETTING.on):",
                "        return few(x)",
                "    return code((x,), numbers)[0]",
                f"def cuda(xp, x{keywords}): return CUDA.result(0, x{named})",
                f"def grad_x(F, g, {s}{listed}): return at(F, 1)(g, {s}{listed})",
            ])  # fmt: skip
        key = f"{s}.dtype{listed}"
        return "\n".join([
            f"def forward(xp, h, {s}{keywords}):",
            f"    if h.dtype is not {s}.dtype:",
            f"        h, {s} = alike(h, {s})",
            f"    few, most, is_native, code, numbers = RESULT[{key}]",
            f"    if {s}.size <= most and {s}.ndim and not (is_native and SETTING.on):",
            f"        return few(h, {s})",
            f"    return code((h, {s}), numbers)[0]",
            f"def cuda(xp, h, {s}{keywords}): return CUDA.result({order}, h, {s}{named})",
            f"def grad_h(F, g, {s}{listed}): return at(F, {order})(g, {s}{listed})",
            f"def grad_{s}(F, g, h, {s}{listed}): return at(F, {order + 1})(g * h, {s}{listed})",
            f"def fused(F, g, need, h, {s}{listed}):",
            "    if not all(need):",
            "        return None",
            f"    if not (g.dtype is h.dtype is {s}.dtype):",
            f"        g, h, {s} = alike(g, h, {s})",
            f"    code, numbers = GRADIENTS[{key}]",
            f"    return code((g, h, {s}), numbers)",
            f"def fused_cuda(F, g, need, h, {s}{listed}):",
            f"    return CUDA.gradients({order}, g, h, {s}{named}) if all(need) else None",
        ])  # fmt: skip

    def chosen(self, attributes: Mapping[str, Any]) -> tuple[Options, dict[str, float]]:
        """The options and the numbers of these attributes; the error of wrong ones."""
        if self.check is not None:
            self.check(**attributes)
        return self.formula.chosen(attributes), {name: attributes[name] for name in self.formula.numbers}


def _alike(*arrays: np.ndarray) -> list[np.ndarray]:
    """The arrays in one dtype: a plain backward does not promote."""
    dtype = np.result_type(*arrays)
    return [a.astype(dtype, copy=False) for a in arrays]


def block_of(block: type) -> tuple[type, Family | Several]:
    """The block for defop of one with `formula` or `derivative_of`, and its family."""
    name = block.__name__
    body = {key: value for key, value in vars(block).items() if key not in ("__dict__", "__weakref__")}
    formula, base = body.pop("formula", None), body.pop("derivative_of", None)
    if (formula is None) is (base is None):
        raise OpDeclarationError(f"op {name}: a pointwise block has either formula or derivative_of")
    if written := [word for word in ("forward", "grad_h", "fused") if word in body]:
        raise OpDeclarationError(f"op {name}: {written[0]} follows from the formula; leave it out, or use defop")
    own = {word: body.pop(word) for word in WORDS if word in body}
    if base is None:
        if isinstance(formula, StatedFunction):
            formula.__name__ = name
        traced = Formula(formula, name)
        if len(traced.inputs) > 1:
            return _block_of_several(name, traced, body, own)
        family = Family(name, traced, **own)
    elif own:
        raise OpDeclarationError(f"op {name}: {', '.join(own)} belongs to the block with the formula")
    else:
        family = base.family
        family.names[1] = name
    return family.block(name, 0 if base is None else 1, body), family


def _block_of_several(name: str, formula: Formula, body: dict[str, Any], own: dict[str, Any]) -> tuple[type, Several]:
    if unknown := own.keys() - {"integers"}:
        raise OpDeclarationError(f"op {name}: {', '.join(sorted(unknown))} is for a formula of one element")
    several = Several(name, formula, **own)
    words = {"types": FLOAT, "jvp": ELEMENTWISE, "batch": BROADCASTING, "broadcasts": True}
    words |= words_of(several, body.get("scalars", ()))
    return type(name, (), {**words, **body}), several
