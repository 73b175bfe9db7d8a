"""Modules as functions of their parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from ..core.declare.op import RECORD
from ..core.tensor import Tensor
from ..nn.module import Module
from ..nn.utils.stateless import functional_call

T = TypeVar("T")
__all__ = ["functional_call", "functionalize", "stack_module_state"]


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """(parameters, buffers) of several modules of one architecture, by name, each stacked along a new dimension 0.

    The stacked parameters are leaves, which require grad as those of the modules do. RuntimeError for an empty
    sequence, and for modules that are not all of one class or not all in training or evaluation mode.

    >>> models = [ag.nn.Linear(2, 3) for _ in range(5)]
    >>> params, buffers = ag.func.stack_module_state(models)
    >>> params["weight"].shape
    (5, 3, 2)
    >>> run = lambda params, x: ag.func.functional_call(models[0], params, x)
    >>> ag.func.vmap(run, in_dims=(0, None))(params, ag.ones(4, 2)).shape
    (5, 4, 3)
    """
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if not (all(m.training for m in models) or not any(m.training for m in models)):
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    params = {name: _stacked([dict(m.named_parameters())[name] for m in models], name)
              for name, _ in models[0].named_parameters()}
    buffers = {name: RECORD.stack([dict(m.named_buffers())[name] for m in models])
               for name, _ in models[0].named_buffers()}
    return params, buffers


def _stacked(tensors: list[Tensor], name: str) -> Tensor:
    if len({t.requires_grad for t in tensors}) != 1:
        raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
    stacked: Tensor = RECORD.stack([t.detach() for t in tensors])
    return stacked.requires_grad_(tensors[0].requires_grad)


def functionalize(func: T, *, remove: str = "mutations") -> T:
    """`func` itself: transforms here take functions with in-place operations as they are.

    >>> ag.func.functionalize(lambda x: x.clone().add_(1))(ag.zeros(1))
    tensor([1.])
    """
    return func
