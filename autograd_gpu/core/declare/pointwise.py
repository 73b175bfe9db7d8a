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
are declared when a rule first asks for them, and are not in REGISTRY. Without a CUDA kernel they run as one CuPy call
per instruction.

Such a block has the words of every other. `types` is FLOAT, `jvp` ELEMENTWISE and `batch` BROADCASTING unless it says
otherwise. `grad_x = ZERO` beside `derivative_of` declares that f'' is zero.
"""

from __future__ import annotations

import functools
import linecache
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from ...backend.arrays.dtypes import HALF, float32, float64
from ...backend.cpu.half_table import MANY, looked_up
from ...backend.formulas.array_calls import called
from ...backend.formulas.derivative import times
from ...backend.formulas.expression import ZERO as NOTHING
from ...backend.formulas.expression import element
from ...backend.formulas.formula import Formula, Options
from ...backend.formulas.lowering import Program, lowered
from ...backend.formulas.numpy_code import NumpyCode
from ...errors import OpDeclarationError
from .batch_rules import BROADCASTING
from .jvp_rules import ELEMENTWISE
from .op import FLOAT, ZERO

# The outputs of a program: the factors of each, and the order of the derivative.
Products = tuple[tuple[tuple[str, ...], int], ...]


class Family:
    """A formula of one element and the ops of its derivatives."""

    declare: ClassVar[Callable[[type], None]]  # makes an op that is not in REGISTRY; set by core/dispatch.py

    def __init__(self, name: str, formula: Formula) -> None:
        if formula.inputs != ("x",):
            raise OpDeclarationError(f"op {name}: its formula has the elements {', '.join(formula.inputs)}; only "
                                     "formulas of one element, x, make ops")
        self.name, self.formula = name, formula
        self.names = {0: name}  # order -> the op that has been declared for it
        self.attributes = {**formula.numbers, **formula.options}
        self.program = functools.cache(self._program)

    def at(self, F: Any, order: int) -> Callable[..., Any]:
        """The function of F that computes h * f^(order)(x), which is declared if nobody has asked for it."""
        name = self.names.get(order)
        if name is None:
            name = f"{self.name}_derivative_{order}"
            body = {"__doc__": f"h times the derivative of order {order} of `{self.name}`.", "__module__": __name__}
            Family.declare(self.block(name, order, body))
            self.names[order] = name
        return getattr(F, name)

    def block(self, name: str, order: int, body: dict[str, Any]) -> type:
        """The block of the op of this order, for defop; `body` has the words that were written."""
        words = {"types": FLOAT, "jvp": ELEMENTWISE, "batch": BROADCASTING, **self._functions(name, order)}
        if order:
            words |= {"broadcasts": True, "wide_rules": True, "cuda": self._on_cuda(order), "fused_cuda": None}
        if order > 1 and not self.formula.options and self.formula.derived((order + 1,)) is NOTHING:
            words["grad_x"] = ZERO
        if ZERO in (words["grad_x"], body.get("grad_x")):
            words.pop("fused", None)
        return type(name, (), {**words, **body})

    def _program(self, products: Products, options: Options, double: bool) -> Program:
        """The program whose outputs are products of factors and a derivative."""
        outputs = []
        for factors, order in products:
            output = self.formula.derived((order,), options)
            for factor in reversed(factors):
                output = times(element(factor), output)
            outputs.append(output)
        used = [name for name in ("g", "h") if any(name in factors for factors, _ in products)]
        return lowered(outputs, [*used, "x"], double)

    def _functions(self, name: str, order: int) -> dict[str, Any]:
        """Forward and rules of the op, generated: rules say by their parameters what is saved."""
        file, text = f"<op {name}>", self._source(order)
        linecache.cache[file] = (len(text), None, text.splitlines(True), file)
        result = _Codes(self, name, ((("h",) if order else (), order),))
        gradients = _Codes(self, f"gradients of {name}", ((("g",), order), (("g", "h"), order + 1)))
        scope: dict[str, Any] = {"at": self.at, "RESULT": result, "GRADIENTS": gradients, "MANY": MANY,
                                 "looked_up": looked_up, "alike": _alike}
        scope |= {f"default_{name}": default for name, default in self.attributes.items()}
        exec(compile(text, file, "exec"), scope)
        return {key: scope[key] for key in ("forward", "grad_h", "grad_x", "fused") if key in scope}

    def _source(self, order: int) -> str:
        listed = "".join([f", {name}" for name in self.attributes])
        keywords = ", *" * bool(listed) + "".join([f", {name}=default_{name}" for name in self.attributes])
        numbers = ", ".join([f"{name}={name}" for name in self.formula.numbers])
        key = f"x.dtype, {', '.join(self.formula.options)}" if self.formula.options else "x.dtype"
        if not order:
            named = ", ".join([f"'{name}': {name}" for name in self.attributes])
            return "\n".join([
                f"def forward(xp, x{keywords}):",
                "    if x.itemsize == 2 and x.size >= MANY:",
                f"        return looked_up(forward, x, {{{named}}})",
                f"    code = RESULT[{key}]",
                f"    return code((x,), code.numbers({numbers}))[0]",
                f"def grad_x(F, g, x{listed}): return at(F, 1)(g, x{listed})",
            ])  # fmt: skip
        return "\n".join([
            f"def forward(xp, h, x{keywords}):",
            "    if h.dtype is not x.dtype:",
            "        h, x = alike(h, x)",
            f"    code = RESULT[{key}]",
            f"    return code((h, x), code.numbers({numbers}))[0]",
            f"def grad_h(F, g, x{listed}): return at(F, {order})(g, x{listed})",
            f"def grad_x(F, g, h, x{listed}): return at(F, {order + 1})(g * h, x{listed})",
            f"def fused(F, g, need, h, x{listed}):",
            "    if not all(need):",
            "        return None",
            "    if not (g.dtype is h.dtype is x.dtype):",
            "        g, h, x = alike(g, h, x)",
            f"    code = GRADIENTS[{key}]",
            f"    return code((g, h, x), code.numbers({numbers}))",
        ])  # fmt: skip

    def _on_cuda(self, order: int) -> Callable[..., Any]:
        """forward on CuPy arrays, for an op without a kernel."""

        def forward(xp: Any, h: Any, x: Any, **attributes: Any) -> Any:
            options = tuple([(name, attributes.pop(name)) for name in self.formula.options])
            program = self.program(((("h",), order),), options, x.dtype == float64)
            return called(program, xp, (h, x), **attributes)[0]

        return forward


class _Codes(dict[Any, NumpyCode]):
    """The code of products by dtype, or by dtype and values of the options; written when it is first asked for."""

    def __init__(self, family: Family, name: str, products: Products) -> None:
        self.family, self.name, self.products = family, name, products

    def __missing__(self, key: Any) -> NumpyCode:
        dtype, *chosen = key if isinstance(key, tuple) else (key,)
        computed = float32 if dtype in HALF else dtype
        options = tuple(zip(self.family.formula.options, chosen, strict=True))
        program = self.family.program(self.products, options, computed == float64)
        code = self[key] = NumpyCode(self.name, program, computed)
        return code


def _alike(*arrays: np.ndarray) -> list[np.ndarray]:
    """The arrays in one dtype: a plain backward does not promote."""
    dtype = np.result_type(*arrays)
    return [a.astype(dtype, copy=False) for a in arrays]


def block_of(block: type) -> tuple[type, Family]:
    """The block for defop of one with `formula` or `derivative_of`, and its family."""
    name = block.__name__
    body = {key: value for key, value in vars(block).items() if key not in ("__dict__", "__weakref__")}
    formula, base = body.pop("formula", None), body.pop("derivative_of", None)
    if (formula is None) is (base is None):
        raise OpDeclarationError(f"op {name}: a pointwise block has either formula or derivative_of")
    if written := [word for word in ("forward", "grad_h", "fused") if word in body]:
        raise OpDeclarationError(f"op {name}: {written[0]} follows from the formula; leave it out, or use defop")
    family = Family(name, Formula(formula, name)) if base is None else base.family
    order = 0 if base is None else 1
    if base is not None:
        family.names[1] = name
    return family.block(name, order, body), family
