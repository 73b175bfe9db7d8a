"""Optimizer steps for all parameters of one dtype, in one launch, or a few for very many parameters."""

from __future__ import annotations

from typing import Any

from ..arrays.dtypes import float64, int32, wide
from ..cuda import live_numbers
from ..cuda.live_numbers import LiveNumber, placed
from .array_lists import TensorLists, lists_parameter
from .instances import C_NAMES, Parameter, declare

_SGD = ("sign", "lr", "decay", "momentum", "damped")
_ADAM = ("sign", "decay", "keep", "beta1", "fresh1", "beta2", "fresh2", "rate", "eps")


def _declare() -> None:
    flags = tuple([Parameter(name, "scalar", int32) for name in ("nesterov", "first")])
    live = Parameter("live", "read", float64, optional=True)
    for dtype, name in C_NAMES.items():
        for kernel, least, numbers, rest in (("sgd_step", 2, _SGD, flags), ("adam_step", 4, _ADAM, ())):
            scalars = [Parameter(number, "scalar", wide(dtype)) for number in numbers]
            for lists, state in ((least, "false"), (least + 1, "true")):
                declare(f"{kernel}<{name}, {state}>", "optimizer_step.cu", kernel,
                        (lists_parameter(lists), *scalars, *rest, live), f"{kernel}<{name}>")  # fmt: skip


_declare()


def sgd_step(lists: TensorLists, buffered: bool, c: Any) -> None:
    """A step of SGD with the hyperparameters c, a formulas.SGDNumbers.

    The lists are parameters, momentum buffers if `buffered`, and gradients; all but the gradients are written.
    """
    name = f"sgd_step<{C_NAMES[lists.dtype]}, {str(buffered).lower()}>"
    damped = 1.0 if c.first else c.damped
    numbers = (c.sign, c.lr, c.decay, c.momentum, damped, c.nesterov, c.first)
    _launch(lists, name, numbers)


def adam_step(lists: TensorLists, amsgrad: bool, c: Any) -> None:
    """A step of Adam or AdamW with the hyperparameters c, a formulas.AdamNumbers.

    The lists are parameters, averages of the gradients and of their squares, the maxima of the latter if `amsgrad`, and
    gradients; all but the gradients are written.
    """
    name = f"adam_step<{C_NAMES[lists.dtype]}, {str(amsgrad).lower()}>"
    numbers = (c.sign, c.decay, c.keep, c.beta1, 1.0 - c.beta1, c.beta2, 1.0 - c.beta2, c.rate, c.eps)
    _launch(lists, name, numbers)


def _launch(lists: TensorLists, name: str, numbers: tuple[Any, ...]) -> None:
    if type(numbers[0]) is LiveNumber:
        live, skip = placed([*numbers, 0.0]), live_numbers.skip()
        if skip is not None:
            live[-1:] = skip.flag
        lists.launch(name, *[0] * len(numbers), live)
    else:
        lists.launch(name, *numbers, None)
