"""The reentrant checkpoint: a Function whose backward runs the function again and calls backward on its result."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any

from ...autograd import Function, backward, inference_mode, no_grad, once_differentiable
from ...core.engine.task_state import running_task
from ...core.tensor import Tensor
from ...core.thread_state import ModesBefore
from ...random.replay import GeneratorSnapshot
from .recomputation import repeated


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """`inputs` with each tensor replaced by a leaf that shares its memory and requires grad where it does.

    RuntimeError unless `inputs` is a tuple.

    >>> x = ag.ones(2, requires_grad=True).exp()
    >>> leaf, number = ag.utils.checkpoint.detach_variable((x, 3))
    >>> leaf.is_leaf, leaf.requires_grad, number
    (True, True, 3)
    """
    if not isinstance(inputs, tuple):
        raise RuntimeError("Only tuple of tensors is supported. Got Unsupported input type: "
                           f"{type(inputs).__name__}")
    return tuple([x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in inputs])


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warns if no tensor in `inputs` requires grad.

    >>> ag.utils.checkpoint.check_backward_validity([ag.ones(2, requires_grad=True), 3])
    """
    if not any(x.requires_grad for x in inputs if isinstance(x, Tensor)):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)


class CheckpointFunction(Function):
    """The Function of `checkpoint` with use_reentrant=True: apply(run_function, preserve_rng_state, *args).

    >>> x = ag.ones(2, requires_grad=True)
    >>> ag.utils.checkpoint.CheckpointFunction.apply(ag.exp, True, x).sum().backward()
    >>> x.grad
    tensor([2.7183, 2.7183])
    """

    @staticmethod
    def forward(ctx: Any, run_function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
        """run_function(*args), without recording."""
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.snapshot = GeneratorSnapshot() if preserve_rng_state else None
        ctx.inputs = [None if isinstance(a, Tensor) else a for a in args]
        ctx.tensor_indices = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        ctx.save_for_backward(*[args[i] for i in ctx.tensor_indices])
        before = ModesBefore()
        try:
            with no_grad(), ctx.snapshot or nullcontext():
                return run_function(*args)
        except BaseException:
            before.put_back()
            raise

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """The gradients of the inputs; those of other leaves that run_function reads go to their `.grad`."""
        task = running_task()
        if task is not None and (task.only is not None or not task.accumulate):
            raise RuntimeError("When use_reentrant=True, autograd_gpu.utils.checkpoint is incompatible with .grad() "
                               "or passing an `inputs` parameter to .backward(). To resolve this error, you can either "
                               "set use_reentrant=False, or call .backward() without passing the `inputs` argument.")
        inputs = list(ctx.inputs)
        for i, tensor in zip(ctx.tensor_indices, ctx.saved_tensors, strict=True):
            inputs[i] = tensor
        leaves = detach_variable(tuple(inputs))
        before = ModesBefore()
        try:
            with repeated(ctx.snapshot), inference_mode(False):
                outputs = ctx.run_function(*leaves)
        except BaseException:
            before.put_back()
            raise
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        pairs = [(out, g) for out, g in zip(outputs, grad_outputs, strict=True)
                 if isinstance(out, Tensor) and out.requires_grad]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        backward([out for out, _ in pairs], [g for _, g in pairs])
        return None, None, *[x.grad if isinstance(x, Tensor) else None for x in leaves]
