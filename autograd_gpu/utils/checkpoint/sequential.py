"""Checkpointing of a sequence of functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .determinism import NAME
from .entry import checkpoint, is_reentrant


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Applies the functions in order, divided into `segments` checkpointed parts; the last part is not checkpointed.

    functions: an `nn.Sequential` or a list of modules or functions of one argument.
    kwargs: preserve_rng_state, as in `checkpoint`; ValueError for another one.

    >>> model = ag.nn.Sequential(ag.nn.Linear(2, 2), ag.nn.Tanh(), ag.nn.Linear(2, 2), ag.nn.Tanh())
    >>> x = ag.ones(3, 2, requires_grad=True)
    >>> ag.utils.checkpoint.checkpoint_sequential(model, 2, x, use_reentrant=False).sum().backward()
    >>> x.grad.shape
    (3, 2)
    """
    reentrant = is_reentrant(use_reentrant, f"{NAME}.checkpoint_sequential")
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    chain = list(functions.children() if hasattr(functions, "children") else functions)
    if not 1 <= segments <= len(chain):
        raise ValueError(f"checkpoint_sequential: segments must lie between 1 and the number of functions, "
                         f"{len(chain)}; got {segments}")
    size = len(chain) // segments
    for start in range(0, size * (segments - 1), size):
        input = checkpoint(_run(chain[start : start + size]), input, use_reentrant=reentrant,
                           preserve_rng_state=preserve)
    return _run(chain[size * (segments - 1) :])(input)


def _run(functions: Sequence[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def forward(input: Any) -> Any:
        for function in functions:
            input = function(input)
        return input

    return forward
