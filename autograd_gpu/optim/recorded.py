"""Recorded steps: the update formulas of backend/optimizers on tensors, for `differentiable=True`.

A formula writes into the arrays that it is given, by functions of NumPy's names. Here a Register stands for such an
array: it holds a tensor, and a write gives it another one. So a formula is written once, and all that it computes is
recorded. Hyperparameters may be 0-d tensors.
"""

from __future__ import annotations

from typing import Any

from ..backend.arrays.dtypes import HALF, float32, float64
from ..backend.optimizers.chunks import Formula
from ..core.tensor import Tensor
from ..ops.creation.like import full_like, zeros_like
from .param_groups import Group, check_grad, plain_option

_WORK = 3  # registers for intermediates that a formula may ask for


def apply_recorded(formula: Formula, tensors: list[Tensor], numbers: Any) -> list[Tensor]:
    """What `formula` makes of the parameter and its state; `tensors` are (parameter, gradient, *state), not written.

    Half types are computed in float32 and rounded once, as in chunks.sweep.
    """
    dtype = tensors[0].dtype
    registers = [Register(tensor.to(float32) if dtype in HALF else tensor) for tensor in tensors]
    work = [Register(tensors[0].detach()) for _ in range(_WORK)]
    formula(_Functions, _axpby, tuple(registers), tuple(work), numbers)
    return [register.value.to(dtype) for i, register in enumerate(registers) if i != 1]


def check_recordable(param: Tensor) -> None:
    """RuntimeError if a recorded step cannot write to `param`, or for a gradient that does not fit."""
    if param.is_leaf and param.requires_grad:
        raise RuntimeError(
            "a leaf Variable that requires grad is being used in an in-place operation: step() with "
            "differentiable=True records its write to the parameter; give the optimizer clone()s of the leaves, and "
            "call the model with them (ag.func.functional_call)"
        )
    assert param._grad is not None
    check_grad(param, param._grad)


def recordable(group: Group) -> Group:
    """`group` with its tensor options as 0-d float64 tensors, in their graphs; the options may be written to later."""
    return {name: option if name == "params" else _scalar(name, option) for name, option in group.items()}


def initial(param: Tensor, value: Any) -> Tensor:
    """A new state like `param`, of `value`, a number or a 0-d tensor."""
    if isinstance(value, Tensor):
        return (zeros_like(param.detach()) + value.to(param.device)).to(param.dtype)
    return full_like(param.detach(), value)


def settled(state: dict[str, Any], slots: dict[str, float]) -> dict[str, Any]:
    """`state` after recorded steps as those that write into it need it: memory of its own, and numbers."""
    return {
        name: value if not isinstance(value, Tensor) or name == "step"
        else value.detach().clone() if name in slots else value.item()
        for name, value in state.items()
    }  # fmt: skip


def _scalar(name: str, option: Any) -> Any:
    if type(option) is tuple:  # betas
        return tuple([_scalar(name, item) for item in option])
    if isinstance(option, Tensor):
        return option.reshape(()).to(float64).clone()  # the graph keeps its value if a scheduler writes to the option
    return plain_option(name, option)


class Register:
    """What stands for an array of a formula."""

    __slots__ = ("value",)

    def __init__(self, value: Tensor) -> None:
        self.value = value


def _operand(y: Any, x: Register) -> Any:
    """`y`, a register, a number or a 0-d tensor on any device, as the other operand of `x`."""
    if isinstance(y, Register):
        return y.value
    return y.to(x.value.device) if isinstance(y, Tensor) else y


def _axpby(y: Register, x: Register, a: Any, b: Any, work: Register) -> None:
    """y = a x + b y; see chunks.Axpby."""
    kept = y.value if isinstance(b, float) and b == 1.0 else y.value * _operand(b, y)
    y.value = kept + x.value * _operand(a, x)


def _put(out: Register, value: Tensor) -> Register:
    out.value = value
    return out


class _Functions:
    """The functions of NumPy that formulas use, on registers."""

    @staticmethod
    def add(x: Register, y: Any, out: Register) -> Register:
        return _put(out, x.value + _operand(y, x))

    @staticmethod
    def subtract(x: Register, y: Any, out: Register) -> Register:
        return _put(out, x.value - _operand(y, x))

    @staticmethod
    def multiply(x: Register, y: Any, out: Register) -> Register:
        return _put(out, x.value * _operand(y, x))

    @staticmethod
    def divide(x: Register, y: Any, out: Register) -> Register:
        return _put(out, x.value / _operand(y, x))

    @staticmethod
    def maximum(x: Register, y: Register, out: Register) -> Register:
        return _put(out, x.value.maximum(y.value))

    @staticmethod
    def absolute(x: Register, out: Register) -> Register:
        return _put(out, x.value.abs())

    @staticmethod
    def sign(x: Register, out: Register) -> Register:
        return _put(out, x.value.sign())

    @staticmethod
    def sqrt(x: Register, out: Register) -> Register:
        """The root of a mean square, whose derivative is taken as 0 at 0.

        There all gradients so far are 0, so is what the root divides, and the step has the derivative of g / eps. The
        derivative of the root alone is infinite, and would make that NaN.
        """
        zero = x.value == 0
        return _put(out, x.value.masked_fill(zero, 1.0).sqrt().masked_fill(zero, 0.0))

    @staticmethod
    def clip(x: Register, low: float, high: float, out: Register) -> Register:
        return _put(out, x.value.clamp(low, high))

    @staticmethod
    def less(x: Register, y: float) -> Tensor:
        return x.value < y

    @staticmethod
    def greater(x: Register, y: float) -> Tensor:
        return x.value > y

    @staticmethod
    def copyto(out: Register, value: Any, where: Tensor | None = None) -> None:
        """Copies a register, or puts a number, where `where` is True."""
        if isinstance(value, Register):
            out.value = value.value
        else:
            out.value = full_like(out.value, value) if where is None else out.value.masked_fill(where, value)
