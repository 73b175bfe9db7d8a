"""How a Function's methods are called."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from ..backend import is_array
from ..core.tensor import wrap_given
from ..errors import MissingRuleError


class FunctionMethods:
    """What a Function defines; these say what is missing."""

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """The operation; runs without recording. Returns a tensor or an array, or a tuple of such and other things."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Saves for backward, when forward does not take ctx."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """The gradients of the arguments from those of the outputs."""
        raise MissingRuleError("You must implement either the backward or vjp method for your custom autograd.Function "
                               "to use it with backward mode AD.")

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """The tangents of the outputs from those of the arguments: None for an argument that is not a tensor, zeros
        for a tensor without a tangent, or None after set_materialize_grads(False)."""
        raise MissingRuleError("You must implement the jvp function for custom autograd.Function to use it with "
                               "forward mode AD.")

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        """The outputs for a batch, and their batch dimensions, None for an output that is the same in all examples.

        info: `batch_size` and `randomness` of the vmap. in_dims: the batch dimension of each argument, or None.
        """
        raise NotImplementedError("vmap is not implemented.")

    generate_vmap_rule = False


def by_place(
    cls: type[FunctionMethods], args: tuple[Any, ...], kwargs: dict[str, Any], separate: bool
) -> tuple[Any, ...]:
    """The arguments in forward's order: backward and needs_input_grad know them by their places."""
    try:
        bound = inspect.signature(cls.forward).bind(*(() if separate else (None,)), *args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{cls.__name__}.forward() {error}") from None
    if bound.kwargs:
        raise TypeError(f"{cls.__name__}.forward() got an unexpected keyword argument {next(iter(bound.kwargs))!r}: a "
                        "keyword has to name an argument that may also be given by its place, and every argument "
                        "before that has to be given, too")
    if separate:
        bound.apply_defaults()
    return bound.args if separate else bound.args[1:]


def rule_of(cls: type[FunctionMethods]) -> Any:
    """The class's backward, or vjp, which is another name for it; those of FunctionMethods say that there is none."""
    if cls.vjp is FunctionMethods.vjp:
        return cls.backward
    if cls.backward is not FunctionMethods.backward:
        raise RuntimeError("Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should "
                           "only implement one of them.")
    return cls.vjp


def as_result(value: Any) -> Any:
    """What a user's forward or backward returned, an array as tensor; other things stay as they are."""
    if isinstance(value, np.generic):  # NumPy's sum of an array, where CuPy's is an array of no dimensions
        value = np.asarray(value)
    return wrap_given(value) if is_array(value) else value
