"""What runs on CuPy arrays for an op from a formula: functors of kernels, and their numbers by attributes."""

from __future__ import annotations

import functools
from typing import Any

from ... import backend
from ...backend import kernels
from ...backend.arrays.dtypes import FLOATS
from ...backend.formulas.cuda_code import Functor, activation, elementwise
from ...backend.formulas.expression import ZERO
from ...backend.formulas.formula import Options
from .formula_codes import MOST, Products


def products_of(order: int) -> Products:
    """What the op of this order computes."""
    return ((("h",) * bool(order), order),)


def gradients_of(order: int) -> Products:
    """The gradients of that by h and by x."""
    return ((("g",), order), (("g", "h"), order + 1))


class CudaCode:
    """The functors of a Family. `values` are those of its attributes, in their order."""

    def __init__(self, family: Any) -> None:
        self.family = family
        self.functor = functools.cache(self._functor)
        self.activation_functor = functools.cache(self._activation_functor)
        self.applied = functools.lru_cache(MOST)(self._applied)
        self.activation = functools.lru_cache(MOST)(self._activation)

    def result(self, order: int, *arrays: Any, **attributes: Any) -> Any:
        """What the op of this order computes of CuPy arrays."""
        if arrays[0].dtype not in FLOATS:
            return self.family.integers(backend.namespace(*arrays), *arrays, **attributes)
        return kernels.elementwise(self.applied(order, *attributes.values()), *kernels.alike(*arrays))[0]

    def gradients(self, order: int, *arrays: Any, **attributes: Any) -> tuple[Any, ...]:
        """Both gradients of that, from g, h and what is saved."""
        f = self.applied(order, *attributes.values(), gradients=True)
        return kernels.elementwise(f, *kernels.alike(*arrays))

    def _functor(self, order: int, gradients: bool, options: Options) -> Functor:
        """The functor of the op of this order, or of both its gradients."""
        outputs, inputs = self.family.traced((gradients_of if gradients else products_of)(order), options)
        return elementwise(self._name(self._label(order, gradients), options), outputs, inputs)

    def _label(self, order: int, gradients: bool) -> str:
        label: str = self.family.names.get(order, f"{self.family.name}_derivative_{order}")
        return f"{label}_gradients" if gradients else label

    def _name(self, label: str, options: Options) -> str:
        """The name of a functor: SiluGrad for silu_grad. Options other than the default are part of it."""
        defaults = dict(self.family.formula.chosen({})) if options else {}
        others = [value if isinstance(value, str) else f"{option}_{value}"
                  for option, value in options if value != defaults[option]]  # fmt: skip
        return "".join([word.capitalize() for word in "_".join([label, *others]).split("_")])

    def _applied(self, order: int, *values: Any, gradients: bool = False) -> kernels.Applied:
        """`functor` with its numbers. A formula is compiled with its first derivative, a higher one by itself."""
        options, numbers = self._chosen(values)
        functor, last = self.functor(order, gradients, options), max(order, 1)
        together = [self.functor(n, False, options) for n in ((0, 1) if order < 2 else (order,))]
        if self.family.derived(last + 1, options) is not ZERO:
            together.append(self.functor(last, True, options))
        return kernels.Applied(self._label(order, gradients), functor, functor.values(**numbers), tuple(together))

    def _activation_functor(self, options: Options) -> Functor:
        """The functor of the function with three derivatives, for kernels that add a bias or push streams."""
        family = self.family
        value, slope = family.derived(0, options), family.derived(1, options)
        return activation(self._name(family.name, options), value, slope, family.saved)

    def _activation(self, *values: Any) -> kernels.Applied:
        """`activation_functor` with its numbers."""
        options, numbers = self._chosen(values)
        functor = self.activation_functor(options)
        return kernels.Applied(self.family.name, functor, functor.values(**numbers))

    def _chosen(self, values: tuple[Any, ...]) -> tuple[Options, dict[str, float]]:
        chosen: tuple[Options, dict[str, float]] = self.family.chosen(
            dict(zip(self.family.attributes, values, strict=True))
        )
        return chosen
