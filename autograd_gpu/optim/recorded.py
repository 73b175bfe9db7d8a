"""Recorded steps, for `differentiable=True`: an update is an op with several results (core/declare/expression_op.py).

Hyperparameters may be 0-d tensors. Numbers that follow from them, such as 1 - beta2, are computed as 0-d tensors in
float64, and are inputs of the op.
"""

from __future__ import annotations

import functools
import math
from typing import Any

from ..backend.arrays.dtypes import HALF, float32, float64
from ..backend.formulas.expression import element, number, ordered, rebuilt
from ..backend.formulas.update import Trace, Variant
from ..core.declare.expression_op import ExpressionOp
from ..core.extend import RECORD
from ..core.tensor import Tensor
from ..modes import enable_grad
from ..ops.creation.like import full_like, zeros_like
from .param_groups import Group, check_grad, plain_option
from .step_count import own_count


def record_update(optimizer: Any, group: Group) -> None:
    """Updates the parameters of `group` as `Optimizer._ag_update` does, recorded; writes once all results are computed.

    The parameters are written in place, the state is replaced.
    """
    params = [param for param in group["params"] if param._grad is not None]
    for param in params:
        check_recordable(param)
    group, results = recordable(group), []
    slots = optimizer._ag_slots(group)
    variant = optimizer._ag_formula.on("p", "g", *slots)
    with enable_grad():
        for param in params:
            state, keys = own_count(optimizer.state.get(param, {})), list[Any]()
            fresh = slots.keys().isdisjoint(state)
            state = {**optimizer._ag_new_state(group), **state} if fresh else state
            optimizer._ag_advance([state], group, [fresh], keys)
            old = [state[name] if name in state else initial(param, start) for name, start in slots.items()]
            numbers = optimizer._ag_numbers(group, *keys[0])
            # A clone: what the step saves of the parameter must outlive the write to it.
            new, *made = apply_recorded(variant, [param.clone(), param._grad, *old], numbers)
            results.append((new, {**state, **dict(zip(slots, made, strict=True))}))
        for param, (new, state) in zip(params, results, strict=True):
            param.copy_(new)
            optimizer.state[param].update(state)
            optimizer._ag_recorded.add(param)


def apply_recorded(variant: Variant, tensors: list[Tensor], numbers: dict[str, Any]) -> list[Tensor]:
    """What an update makes of the arrays that it replaces; `tensors` are those of `variant`, and are not written to.

    Half types are computed in float32 and rounded once, as in chunks.sweep.
    """
    dtype, device = tensors[0].dtype, tensors[0].device
    trace = variant.trace({name: math.nan if isinstance(x, Tensor) else x for name, x in numbers.items()})
    values = trace.values(**numbers)
    op = _op(trace, tuple([isinstance(value, Tensor) for value in values]))
    wide = [tensor.to(float32) if dtype in HALF else tensor for tensor in tensors]
    inputs = dict(zip(map(_named, trace.inputs), wide, strict=True))
    inputs |= {f"n{k}": value.to(device) for k, value in enumerate(values) if isinstance(value, Tensor)}
    results = op(RECORD, inputs, tuple([float(value) for value in values if not isinstance(value, Tensor)]))
    return [results[name].to(dtype) for name in variant.arrays if name in results]


@functools.cache
def _op(trace: Trace, are_tensors: tuple[bool, ...]) -> ExpressionOp:
    """The op of a trace, in which the numbers n0, n1, ... of its program are 0-d inputs where they are tensors."""
    made = {e: (element if is_tensor else number)(f"n{k}")
            for k, (e, is_tensor) in enumerate(zip(trace.program.numbers, are_tensors, strict=True))}  # fmt: skip
    made |= {element(name): element(_named(name)) for name in trace.inputs}
    for e in ordered(trace.outputs.values(), lambda e: () if e in made else e.args):
        if e not in made:
            made[e] = rebuilt(e, [made[a] for a in e.args])
    scalars = [f"n{k}" for k, is_tensor in enumerate(are_tensors) if is_tensor]
    fixed = [f"n{k}" for k, is_tensor in enumerate(are_tensors) if not is_tensor]
    arrays, outputs = [*map(_named, trace.inputs)], {name: made[e] for name, e in trace.outputs.items()}
    return ExpressionOp(trace.label, scalars, arrays, outputs, fixed)


def _named(name: str) -> str:
    """The name of an input in an op, where g is the gradient of the result."""
    return "grad" if name == "g" else name


def check_recordable(param: Tensor) -> None:
    """RuntimeError if a recorded step cannot write to `param`, or for a gradient that does not fit."""
    if param.is_leaf and param.requires_grad:
        raise RuntimeError(
            "a leaf Variable that requires grad is being used in an in-place operation: step() with "
            "differentiable=True records its write to the parameter; give the optimizer clone()s of the leaves, and "
            "call the model with them (ag.func.functional_call)"
        )
    assert param._grad is not None
    check_grad(param, param._grad)


def recordable(group: Group) -> Group:
    """`group` with its tensor options as 0-d float64 tensors, in their graphs; the options may be written to later."""
    return {name: option if name == "params" else _scalar(name, option) for name, option in group.items()}


def initial(param: Tensor, value: Any) -> Tensor:
    """A new state like `param`, of `value`, a number or a 0-d tensor."""
    if isinstance(value, Tensor):
        return (zeros_like(param.detach()) + value.to(param.device)).to(param.dtype)
    return full_like(param.detach(), value)


def settled(state: dict[str, Any], slots: dict[str, float]) -> dict[str, Any]:
    """`state` after recorded steps as those that write into it need it: memory of its own, and numbers."""
    return {
        name: value if not isinstance(value, Tensor) or name == "step"
        else value.detach().clone() if name in slots else value.item()
        for name, value in state.items()
    }  # fmt: skip


def _scalar(name: str, option: Any) -> Any:
    if type(option) is tuple:  # betas
        return tuple([_scalar(name, item) for item in option])
    if isinstance(option, Tensor):
        return option.reshape(()).to(float64).clone()  # the graph keeps its value if a scheduler writes to the option
    return plain_option(name, option)
