"""Binding of a Function's arguments, lookup of its backward, and checks of mark_dirty."""

from __future__ import annotations

import inspect
import warnings
from typing import TYPE_CHECKING, Any

from ..config import GRAD_OFF, MODES
from ..core.graph.node import AccumulateGrad
from ..core.graph.rebase import check_recordable
from ..core.graph.storage import bump_version

if TYPE_CHECKING:
    from .function import Function, FunctionNode


def by_place(cls: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any], separate: bool) -> tuple[Any, ...]:
    """The arguments in the order of forward's parameters, which backward and needs_input_grad use."""
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


def rule_of(cls: type[Function], base: type[Function]) -> Any:
    """The class's backward, or its alias vjp; RuntimeError if it defines both. Those of `base` raise when called."""
    if cls.vjp is base.vjp:
        return cls.backward
    if cls.backward is not base.backward:
        raise RuntimeError("Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should "
                           "only implement one of them.")
    return cls.vjp


def check_dirty(node: FunctionNode, args: tuple[Any, ...], outputs: tuple[Any, ...]) -> None:
    """RuntimeError unless the tensors of mark_dirty are inputs, are returned, and are not leaves that require grad."""
    for t in node.dirty:
        bump_version(t)
        if not any(t is a for a in args):
            warnings.warn("ctx.mark_dirty() received a tensor that was not an input. Only input Tensors that have been "
                          "mutated should be passed to ctx.mark_dirty().", UserWarning, stacklevel=3)
        if not any(t is o for o in outputs):
            raise RuntimeError("Some elements marked as dirty during the forward method were not returned as output. "
                               "The inputs that are modified inplace must all be outputs of the Function.")
        hidden = t._base is not None and t._made and t._base._fn is not None  # a view that may not be rewritten
        if not MODES.bits & GRAD_OFF and (hidden or any(node.requiring)):
            if type(t._fn) is AccumulateGrad and t._base is None:
                raise RuntimeError("a leaf Variable that requires grad has been used in an in-place operation. Wrap "
                                   f"the call of {node.op_name()} in ag.no_grad(), or give it a clone() of the leaf.")
            check_recordable("ctx.mark_dirty", t)
