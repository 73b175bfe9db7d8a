"""Ops of expressions of several elements, with several results, such as the update of an optimizer.

The gradients of such an op are expressions of the gradients of its results and of its inputs, and so are its tangents:
each is an op of the same kind, declared when a rule first asks for it, and not in REGISTRY.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...backend.arrays.dtypes import float32, float64
from ...backend.formulas.derivative import derivative, plus, times
from ...backend.formulas.expression import ZERO, Expression, element, inputs_of
from ...backend.formulas.lowering import lowered
from ...backend.formulas.numpy_code import NumpyCode, computed
from ...backend.formulas.numpy_source import defined
from .batch_rules import BROADCASTING
from .op import PROMOTE
from .pointwise import Family

_COUNT = itertools.count()


class ExpressionOp:
    """An op of expressions.

    `scalars` and `arrays` are its inputs, 0-d ones first; `numbers` are passed as a tuple by this keyword. `depth` is
    the order of the derivative.
    """

    def __init__(
        self, name: str, scalars: Sequence[str], arrays: Sequence[str], outputs: Mapping[str, Expression],
        numbers: Sequence[str], depth: int = 0,
    ) -> None:  # fmt: skip
        self.name, self.depth = f"{name}_{next(_COUNT)}", depth
        self.scalars, self.arrays, self.outputs, self.numbers = scalars, arrays, dict(outputs), numbers
        self.inputs = (*scalars, *arrays)
        self.program = lowered([*outputs.values()], self.inputs)
        self.code = functools.cache(lambda dtype: NumpyCode(name, self.program, dtype))
        self.gradient, self.tangent = functools.cache(self._gradient), functools.cache(self._tangent)
        self.partials = {(out, x): derivative(e, x) for out, e in self.outputs.items() for x in self.inputs}
        self.read = inputs_of(self.partials.values())
        Family.declare(self._block(name))

    def __call__(self, F: Any, values: Mapping[str, Any], numbers: tuple[float, ...]) -> dict[str, Any]:
        """The results by name, of the inputs by name."""
        results = getattr(F, self.name)(*[values[x] for x in self.inputs], numbers=numbers)
        return dict(zip(self.outputs, results if len(self.outputs) > 1 else (results,), strict=True))

    def _block(self, name: str) -> type:
        listed, read = ", ".join(self.inputs), "".join([f", {x}" for x in self.read])
        values = ", ".join([f"{x!r}: {x}" for x in self.read])
        source = "\n".join([
            f"def forward(xp, {listed}, *, numbers): return OP.computed(xp, ({listed},), numbers)",
            f"def grads(F, g, need{read}, numbers): return OP.pulled(F, g, need, {{{values}}}, numbers)",
            f"def jvp(F, t{read}, numbers): return OP.pushed(F, t, {{{values}}}, numbers)", "",
        ])  # fmt: skip
        body = defined(f"<op {self.name}>", source, {"OP": self})
        words = {key: body[key] for key in ("forward", "grads", "jvp")}
        words |= {"__doc__": f"Results of `{name}`.", "__module__": __name__, "types": PROMOTE, "broadcasts": True,
                  "batch": BROADCASTING}  # fmt: skip
        if len(self.outputs) > 1:
            words["outputs"] = tuple([f"new_{out}" for out in self.outputs])
        return type(self.name, (), words)

    def computed(self, xp: Any, arrays: Sequence[Any], numbers: tuple[float, ...]) -> Any:
        """What forward returns."""
        named = dict(zip(self.numbers, numbers, strict=True))
        if xp is np:
            code = self.code(float64 if arrays[0].dtype == float64 else float32)
            results: Sequence[Any] = code(arrays, code.numbers(**named))
        else:
            results = computed(xp, self.program, arrays, self.program.values(**named))
        return tuple(results) if len(results) > 1 else results[0]

    # ---- derivatives ---------------------------------------------------------------------------

    def pulled(self, F: Any, g: Any, need: Sequence[bool], values: dict[str, Any], numbers: tuple[float, ...]) -> Any:
        """The gradients by the inputs that are needed, None for the others."""
        grads = dict(zip(self.outputs, g if len(self.outputs) > 1 else (g,), strict=True))
        present = tuple([name for name, grad in grads.items() if grad is not None])
        op = self.gradient(present, tuple([x for x, wanted in zip(self.inputs, need, strict=True) if wanted]))
        given = {f"h{self.depth}_{name}": grads[name] for name in present}
        results = {} if op is None else op(F, {**values, **given}, numbers)
        return [results.get(x) for x in self.inputs]

    def _gradient(self, present: tuple[str, ...], wanted: tuple[str, ...]) -> ExpressionOp | None:
        given = {out: f"h{self.depth}_{out}" for out in present}
        outputs = {x: _sum([times(element(h), self.partials[out, x]) for out, h in given.items()]) for x in wanted}
        return self._derived(f"{self.name}_grad", [*given.values()], outputs)

    def pushed(self, F: Any, t: Any, values: dict[str, Any], numbers: tuple[float, ...]) -> Any:
        """The tangents of the results, None for those that do not move."""
        moved = dict(zip(self.inputs, t if len(self.inputs) > 1 else (t,), strict=True))
        present = tuple([x for x, tangent in moved.items() if tangent is not None])
        op = self.tangent(present)
        given = {f"t{self.depth}_{x}": moved[x] for x in present}
        results = {} if op is None else op(F, {**values, **given}, numbers)
        tangents = tuple([results.get(out) for out in self.outputs])
        return tangents if len(tangents) > 1 else tangents[0]

    def _tangent(self, present: tuple[str, ...]) -> ExpressionOp | None:
        given = {x: f"t{self.depth}_{x}" for x in present}
        outputs = {out: _sum([times(element(t), self.partials[out, x]) for x, t in given.items()])
                   for out in self.outputs}  # fmt: skip
        scalars = [t for x, t in given.items() if x in self.scalars]
        return self._derived(f"{self.name}_tangent", [*given.values()], outputs, scalars)

    def _derived(
        self, name: str, given: Sequence[str], outputs: Mapping[str, Expression], scalars: Sequence[str] = ()
    ) -> ExpressionOp | None:
        """The op of those outputs that are not zero, or None if all are; `scalars` are the 0-d ones of `given`."""
        outputs = {out: e for out, e in outputs.items() if e is not ZERO}
        if not outputs:
            return None
        read = inputs_of(outputs.values())
        chosen = [x for x in (*self.scalars, *scalars) if x in read]
        arrays = [x for x in (*given, *self.arrays) if x in read and x not in chosen]
        return ExpressionOp(name, chosen, arrays, outputs, self.numbers, self.depth + 1)


def _sum(terms: Sequence[Expression]) -> Expression:
    return functools.reduce(plus, terms, ZERO)
