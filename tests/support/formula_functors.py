"""The CUDA code of the ops' formulas: with which functors tests compile kernels, and the text of these functors.

    python tests/support/formula_functors.py  # after a change of a formula: writes formula_functors.cuh

Instances of formulas are declared when an op first asks for them. `declare` declares those that tests compile: of each
formula and derivative a float32 and a float64 instance that moves 16 bytes at a time; of ALL_TYPES all instances.
"""

import functools
import itertools
from dataclasses import replace
from pathlib import Path

from list_kernels import FUNCTIONS, function_of
from updates import LISTED, VARIANTS

from autograd_gpu import formulas
from autograd_gpu.backend import kernels
from autograd_gpu.backend.formulas import cuda_code
from autograd_gpu.backend.formulas.expression import element, maximum, sigmoid
from autograd_gpu.backend.formulas.lowering import lowered
from autograd_gpu.backend.kernels.second_order import MOST_AT_ONCE
from autograd_gpu.core.declare.pointwise_several import VALUE
from autograd_gpu.ops.nn.linear_activation import ACTIVATIONS

TEXT = Path(__file__).with_suffix(".cuh")
COMMAND = "python tests/support/formula_functors.py"
ALL_TYPES = ("mish", "nan_to_num")
NAMES = ("g", "h", "y", "a", "s")  # of the arrays of `group`
# Attributes that tests use instead of the defaults.
ATTRIBUTES = {
    "leaky_relu": {"negative_slope": 0.1}, "elu": {"alpha": 1.5}, "celu": {"alpha": 0.7},
    "softplus": {"beta": 2.0, "threshold": 3.0}, "sine": {"frequency": 30.0},
    "hardtanh": {"min_val": -0.75, "max_val": 2.0}, "hardshrink": {"lambd": 0.75}, "softshrink": {"lambd": 0.75},
    "threshold": {"threshold": 0.5, "value": 20.0}, "nan_to_num": {"nan": 1.0, "posinf": 2.0, "neginf": -3.0},
}  # fmt: skip
# Of options that are not the default, and of numbers for which a formula is another one.
STEEP = {"negative_slope": 1.5}
OTHERS = [("gelu", {"approximate": "tanh"}), ("leaky_relu", STEEP)]

FAMILIES, SEVERAL = formulas.families(), formulas.several()
CASES = [(name, ATTRIBUTES.get(name, {})) for name in FAMILIES] + OTHERS
WRITTEN = [(name, ATTRIBUTES.get(name, {})) for name in kernels.WRITTEN if not name.endswith("_grad")]


def values(name, attributes):
    """All attributes of a formula in order."""
    return ({**FAMILIES[name].attributes, **attributes}).values()


def from_result(name):
    """Whether the derivatives are computed from the result."""
    return name in FAMILIES and FAMILIES[name].saved == "out"


def value_of(name, **attributes):
    """The functor of an op, applied to its attributes."""
    if name in FAMILIES:
        return FAMILIES[name].cuda.applied(0, *values(name, attributes))
    return kernels.written(name, **attributes)


def gradient_of(name, **attributes):
    """The functor of the gradient; None if the op has none in one kernel."""
    if name in FAMILIES:
        return FAMILIES[name].cuda.applied(1, *values(name, attributes))
    return kernels.written("nan_to_num_grad") if name == "nan_to_num" else None


def gradients_of(name, **attributes):
    """The functor of both gradients of the gradient; None if the second one is zero."""
    family = FAMILIES.get(name)
    bends = family is not None and family.bends
    return family.cuda.applied(1, *values(name, attributes), gradients=True) if bends else None


def activation(name, **attributes):
    """The functor of an activation for bias_activation.cu, second_order.cu and recurrent.cu."""
    return ACTIVATIONS[name].cuda.activation(*values(name, attributes))


def elementwise_functors():
    """All functors of elementwise.cu."""
    values = [value_of(name, **attributes) for name, attributes in CASES + WRITTEN]
    return [functor for f in values for functor in f.together or (f.functor,)]


def of_several():
    """The formulas of several elements and the gradients that one launch computes, with the arrays that each reads."""
    lerp, by_number = SEVERAL["lerp"], SEVERAL["lerp"].with_numbers(("weight",))
    asked = [(lerp, (VALUE,), {}), (lerp, ("a", "b"), {}), (by_number, (VALUE,), {"weight": 0.3}),
             (by_number, (VALUE,), {"weight": 0.9}), (by_number, ("a", "b"), {"weight": 0.3})]  # fmt: skip
    for name in ("addcmul", "addcdiv"):
        asked += [(SEVERAL[name], wanted, {"value": 0.5}) for wanted in ((VALUE,), ("a", "b"))]
    return [(family.applied(wanted, numbers), family, wanted, numbers) for family, wanted, numbers in asked]


def activation_functors():
    """The functors of the activations."""
    cases = [(name, attributes) for name, attributes in CASES if name in ACTIVATIONS and attributes != STEEP]
    return [activation(name, **attributes).functor for name, attributes in cases]


@functools.cache
def group(strided=2, scalars=1):
    """The functor and the program of a group: three results of five arrays; two are strided, one has one element."""
    g, h, y, a, s = map(element, NAMES)
    outputs = [g * (1 - y * y), g * h * y * -2 + a, a * sigmoid(a) * s - maximum(h, 0.5)]
    program = lowered(outputs, NAMES, double=True)
    return cuda_code.group(program, strided, scalars), program


@functools.cache
def group_sums():
    """The functor of the same group for group_sums.cu: two results are written, and two are summed."""
    _, program = group()
    first, second, third = program.outputs
    return cuda_code.group(replace(program, outputs=(first, second, third, second)), 2, 1, sums=2)


def list_functors():
    """The functors of foreach.cu."""
    listed = [function_of(*function) for function in FUNCTIONS]
    listed += [kernels.update_of(VARIANTS[label].general) for label in LISTED]
    return [one.functor for one in listed]


def text():
    """The text of all functors."""
    functors = [f for f in [*elementwise_functors(), *[f.functor for f, *_ in of_several()]] if f.text]
    parts = ["// Of bias_activation.cu, second_order.cu and recurrent.cu.\n", *[f.text for f in activation_functors()],
             "// Of elementwise.cu.\n", *[f.text for f in functors], "// Of group.cu.\n", group()[0].text,
             "// Of group_sums.cu.\n", group_sums().text,
             "// Of foreach.cu.\n", *[f.text for f in list_functors()]]  # fmt: skip
    return "\n".join(parts)


@functools.cache
def declare():
    """Declares the instances that tests compile, always in this order."""
    for dtype in kernels.C_NAMES:
        for functor in list_functors():
            kernels.declare_foreach(functor, dtype)
        for width in (kernels.VECTOR // dtype.itemsize, 1):
            for name, attributes in CASES + WRITTEN:
                if name in ALL_TYPES or (dtype.itemsize > 2 and width > 1):
                    kernels.declare_elementwise(value_of(name, **attributes), dtype, width)
            kernels.declare_group(group()[0], dtype, width)
            for along, op in itertools.product(("columns", "rows", "all"), ("sum", "amax", "amin")):
                kernels.declare_group_sums(group_sums(), dtype, width, along, op)
            for functor in activation_functors():
                kernels.declare_bias_activation(functor, dtype, width)
                if not functor.flat:
                    kernels.declare_activation_jet(functor, dtype, width)
                    kernels.declare_activation_jet(functor, dtype, min(width, MOST_AT_ONCE), backward=True)
                if functor.name in ("Relu", "Tanh"):
                    kernels.declare_rnn(functor, dtype, width)


if __name__ == "__main__":
    TEXT.write_text(text())
