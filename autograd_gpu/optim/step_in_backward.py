"""Stepping each parameter in the middle of backward."""

from __future__ import annotations

import threading
import weakref

from ..core.engine.task_state import final_callbacks_of, running_task
from ..core.graph.hooks import MultiHandle
from ..core.graph.leaf import AccumulateGrad
from ..core.tensor import Tensor
from .hooks import AFTER, BEFORE
from .optimizer import Optimizer
from .param_groups import with_numbers


def step_in_backward(optimizer: Optimizer) -> MultiHandle:
    """Makes `backward()` step each parameter as soon as its gradient is complete, and drop the gradient at once.

    So the gradients of all parameters are never there at the same time: the peak is one parameter's. A training loop
    then is forward, `loss.backward()`, `scheduler.step()`; `optimizer.step()` and `zero_grad()` find nothing to do. The
    results are those of ordinary training. Parameter groups, their options, schedulers and state dicts work as ever;
    hooks around the optimizer's step run once per backward, at its first and after its last parameter.

    What needs all gradients at once is impossible: clipping by their total norm, skipping a step because one of them is
    not finite, and adding up the gradients of several backwards, each of which is a step here. A backward that fails
    leaves the parameters stepped that it had reached. TypeError for an optimizer that steps its parameters together
    (LBFGS, or any class with a `step` of its own).

    Parameters that are added to the optimizer later need another call. Post-accumulate hooks that are registered before
    this call see the gradient, later ones find `.grad` to be None. The handle's `remove()` ends it.

    >>> w = ag.ones(2, requires_grad=True)
    >>> optimizer = ag.optim.SGD([w], lr=0.5)
    >>> handle = ag.optim.step_in_backward(optimizer)
    >>> w.sum().backward()
    >>> print(w.tolist(), w.grad)
    [0.5, 0.5] None
    """
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"step_in_backward: expected an Optimizer, got {type(optimizer).__name__}")
    if type(optimizer).step is not Optimizer.step:
        raise TypeError(f"step_in_backward: {type(optimizer).__name__} has a step() of its own, which may need all "
                        "gradients at once; define _update(group) in its place, or call step() after backward()")
    stepper = _Stepper(optimizer)
    return MultiHandle(tuple([
        param.register_post_accumulate_grad_hook(_Step(stepper, number))
        for number, group in enumerate(optimizer.param_groups)
        for param in group["params"]
        if param.requires_grad
    ]))


class _Stepper:
    """The steps of one optimizer, held weakly: the hooks belong to its parameters, and it holds these."""

    def __init__(self, optimizer: Optimizer) -> None:
        self._optimizer = weakref.ref(optimizer)
        self._lock = threading.RLock()  # one step at a time

    def optimizer(self) -> Optimizer:
        optimizer = self._optimizer()
        if optimizer is None:
            raise RuntimeError("the optimizer that was given to step_in_backward() is gone: keep it, or remove() the "
                               "handle to train without it")
        return optimizer

    def step(self, param: Tensor, number: int) -> None:
        """Steps `param` of group `number`."""
        optimizer, task = self.optimizer(), running_task()
        assert task is not None
        gathered = final_callbacks_of(task).gathered
        if self not in gathered:
            gathered[self] = self  # the task calls `finish` at its end
            for hook in optimizer._ag_hooks_of(BEFORE):
                hook(optimizer, (optimizer,), {})
        node = param._node
        assert isinstance(node, AccumulateGrad)
        with node.standstill(), self._lock:
            if param._grad is not None:  # else the step of another thread has taken this gradient along
                optimizer._ag_update({**with_numbers(optimizer.param_groups[number]), "params": [param]})
                param.grad = None

    def finish(self) -> None:
        """Every parameter of this backward has been stepped."""
        optimizer = self.optimizer()
        with self._lock:
            optimizer._ag_steps_taken += 1
        for hook in optimizer._ag_hooks_of(AFTER):
            hook(optimizer, (optimizer,), {})


class _Step:
    """The post-accumulate hook of the parameters of group `number`."""

    def __init__(self, stepper: _Stepper, number: int) -> None:
        self.stepper, self.number = stepper, number

    def __call__(self, param: Tensor) -> None:
        if param.grad is not None:  # not if a hook before this one has stepped and dropped it
            self.stepper.step(param, self.number)
