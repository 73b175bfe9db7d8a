"""step_in_backward: optimizer steps of single parameters during backward."""

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
    """Makes `backward()` update each parameter as soon as its gradient is complete, and free the gradient.

    So only one parameter's gradient exists at a time. A training loop is forward, `loss.backward()`,
    `scheduler.step()`; `optimizer.step()` and `zero_grad()` do nothing. The results equal those of ordinary training.
    Parameter groups, options, schedulers and state dicts work as usual; step hooks run once per backward, before the
    first and after the last parameter.

    Operations that need all gradients are not possible: clipping by the total norm, skipping a step if a gradient is
    not finite, and accumulating gradients over several backwards, each of which is a step. A backward that fails leaves
    updated the parameters that it reached. TypeError for an optimizer that updates its parameters together (LBFGS, or
    any class that overrides `step`), ValueError for `differentiable`.

    Call it again after adding parameters to the optimizer. Post-accumulate hooks registered before this call see the
    gradient; for later ones `.grad` is None. The handle's `remove()` undoes it.

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
    if any(group.get("differentiable") for group in optimizer.param_groups):
        raise ValueError("step_in_backward: a step with differentiable=True updates tensors that are no leaves, and "
                         "backward() completes gradients of leaves; set their .grad and call step()")
    stepper = _Stepper(optimizer)
    return MultiHandle(tuple([
        param.register_post_accumulate_grad_hook(_Step(stepper, number))
        for number, group in enumerate(optimizer.param_groups)
        for param in group["params"]
        if param.requires_grad
    ]))


class _Stepper:
    """The steps of an optimizer, referenced weakly: its parameters own the hooks, and it owns the parameters."""

    def __init__(self, optimizer: Optimizer) -> None:
        self._optimizer = weakref.ref(optimizer)
        self._lock = threading.RLock()  # one step at a time

    def optimizer(self) -> Optimizer:
        optimizer = self._optimizer()
        if optimizer is None:
            raise RuntimeError("the optimizer that was given to step_in_backward() is gone: keep it alive, or "
                               "remove() the handle")
        return optimizer

    def step(self, param: Tensor, number: int) -> None:
        """Updates `param` of group `number`."""
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
            if param._grad is not None:  # else another thread's step has used this gradient
                optimizer._ag_update({**with_numbers(optimizer.param_groups[number]), "params": [param]})
                param.grad = None

    def finish(self) -> None:
        """Called at the end of the backward, after all its parameters are updated."""
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
        if param.grad is not None:  # else an earlier hook has used and freed it
            self.stepper.step(param, self.number)
