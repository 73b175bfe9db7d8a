"""A module's backward hooks, called by two identity nodes, one at the inputs and one at the outputs.

The output node runs first. It calls the pre-hooks and stores the gradients of the outputs. The input node runs after
the module's backward and calls the hooks with both gradients. If no input requires grad, there is no input node, and
the output node calls the hooks.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ..autograd import Function, is_grad_enabled
from ..core.tensor import Tensor

Grads = tuple[Tensor | None, ...]


class PassOn(Function):
    """The identity on several tensors; gradients pass through."""

    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*[t for t in tensors if not t.requires_grad])
        return tensors

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Grads:
        return grads


class BackwardHooks:
    """The backward hooks of one call of a module."""

    def __init__(self, module: Any, backward: list[Callable[..., Any]], backward_pre: list[Callable[..., Any]]) -> None:
        self.module, self.hooks, self.pre_hooks = module, backward, backward_pre
        self.inputs = 0  # the number of arguments
        self.watches_inputs = False
        self.grad_outputs: Grads | None = None

    def watch_inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments as outputs of an identity node whose hook is `_inputs_done`."""
        self.inputs = len(args)
        watched, node, places = _watched(args)
        if node is not None:
            self.watches_inputs = True
            node.register_hook(lambda grads, _: self._inputs_done(grads, places))
        return watched

    def watch_outputs(self, result: Any) -> Any:
        """The module's result as output of an identity node with the hook `_outputs_known`; a tensor or a tuple."""
        if not isinstance(result, (Tensor, tuple)):
            warnings.warn("For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but "
                          f"received {type(result)}", UserWarning, stacklevel=2)
        outputs = result if isinstance(result, tuple) else (result,)
        watched, node, places = _watched(outputs)
        if node is not None:
            node.register_hook(lambda _, grads: self._outputs_known(grads, places, len(outputs)))
        if not isinstance(result, tuple):
            return watched[0]
        return watched if type(result) is tuple else type(result)(*watched)  # a namedtuple

    def _outputs_known(self, grads: Grads, places: list[int], count: int) -> Grads:
        placed = _placed(grads, places, count)
        for hook in self.pre_hooks:
            placed = _replaced(hook(self.module, placed), placed, "Backward pre hook", "grad_output")
        self.grad_outputs = placed
        if not self.watches_inputs:
            for hook in self.hooks:
                result = hook(self.module, (None,) * self.inputs, placed)
                if result is not None and any(g is not None for g in result):
                    raise RuntimeError("Backward hook for Modules where no input requires gradient should always "
                                       "return None or None for all gradients.")
            self.grad_outputs = None
        return tuple([placed[i] for i in places])

    def _inputs_done(self, grads: Grads, places: list[int]) -> Grads | None:
        if self.grad_outputs is None:  # the gradient bypassed the outputs, as in a double backward
            return None
        placed = _placed(grads, places, self.inputs)
        for hook in self.hooks:
            placed = _replaced(hook(self.module, placed, self.grad_outputs), placed, "Backward hook", "grad_input")
        self.grad_outputs = None
        return tuple([placed[i] for i in places])


def _watched(values: tuple[Any, ...]) -> tuple[tuple[Any, ...], Any, list[int]]:
    """`values` with its tensors as outputs of one identity node, that node or None, and the tensors' indices."""
    places = [i for i, value in enumerate(values) if isinstance(value, Tensor)]
    tensors = [values[i] for i in places]
    if not is_grad_enabled() or not any(t.requires_grad for t in tensors):
        return values, None, places
    passed = PassOn.apply(*tensors)
    node = next(t.grad_fn for t in passed if t.requires_grad)
    by_place = dict(zip(places, passed, strict=True))
    return tuple([by_place.get(i, value) for i, value in enumerate(values)]), node, places


def _placed(grads: Grads, places: list[int], count: int) -> Grads:
    by_place = dict(zip(places, grads, strict=True))
    return tuple([by_place.get(i) for i in range(count)])


def _replaced(result: Any, grads: Grads, who: str, what: str) -> Grads:
    if result is None:
        return grads
    result = result if isinstance(result, tuple) else (result,)
    if len(result) != len(grads):
        raise RuntimeError(f"{who} returned an invalid number of {what}, got {len(result)}, but expected {len(grads)}")
    return result
