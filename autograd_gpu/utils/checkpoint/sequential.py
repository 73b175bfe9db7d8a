"""Checkpoints along a chain of functions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from .entry import checkpoint


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """The functions one after the other, as `segments` parts that are checkpointed, but for the last one.

    functions: an `nn.Sequential` or a list of modules or functions of one argument.
    kwargs: preserve_rng_state, as in `checkpoint`; ValueError for another one.

    >>> model = ag.nn.Sequential(ag.nn.Linear(2, 2), ag.nn.Tanh(), ag.nn.Linear(2, 2), ag.nn.Tanh())
    >>> x = ag.ones(3, 2, requires_grad=True)
    >>> ag.utils.checkpoint.checkpoint_sequential(model, 2, x, use_reentrant=False).sum().backward()
    >>> x.grad.shape
    (3, 2)
    """
    if use_reentrant is None:
        warnings.warn(
            "autograd_gpu.utils.checkpoint.checkpoint_sequential: the use_reentrant parameter should be passed "
            "explicitly. use_reentrant=False is recommended, but if you need to preserve the current default behavior, "
            "you can pass use_reentrant=True.", stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    chain = list(functions.children() if hasattr(functions, "children") else functions)
    if not 1 <= segments <= len(chain):
        raise ValueError(f"checkpoint_sequential: segments must lie between 1 and the number of functions, "
                         f"{len(chain)}; got {segments}")
    size = len(chain) // segments
    for start in range(0, size * (segments - 1), size):
        input = checkpoint(_run(chain[start : start + size]), input, use_reentrant=use_reentrant,
                           preserve_rng_state=preserve)
    return _run(chain[size * (segments - 1) :])(input)


def _run(functions: Sequence[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def forward(input: Any) -> Any:
        for function in functions:
            input = function(input)
        return input

    return forward
