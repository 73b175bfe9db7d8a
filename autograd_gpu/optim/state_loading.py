"""Conversion of loaded optimizer state: options, and state of the parameters."""

from __future__ import annotations

import copy
from typing import Any

from ..core.tensor import Tensor, wrap
from ..nn.torch_interop import as_own
from .param_groups import EXECUTION, Group, plain_option
from .step_count import StepCount

# Options added after the optimizers' first versions: a state dict without one was made without it.
_OPTIONAL = {
    "amsgrad": False, "centered": False, "decoupled_weight_decay": False, "maximize": False, "momentum": 0.0,
    "nesterov": False,
}  # fmt: skip


def loaded_group(saved: Group, current: Group, defaults: dict[str, Any], optimizer: str) -> Group:
    """The options of `saved` for the parameters of `current`; ValueError if one is missing.

    An optimizer that shares the groups of another may have defaults that its own groups lack, too.
    """
    if absent := [o for o in defaults if o in current and o not in saved and o not in {*_OPTIONAL, *EXECUTION}]:
        raise ValueError(f"loaded state dict lacks the options {', '.join(absent)} of {optimizer}")
    options = {k: plain_option(k, _option(v)) for k, v in saved.items() if k != "params" and k not in EXECUTION}
    kept = {k: v for k, v in current.items() if k in ("params", "param_names", *EXECUTION)}
    return {**{k: v for k, v in _OPTIONAL.items() if k in defaults}, **kept, **options}


def _option(value: Any) -> Any:
    """A copy of an option; a PyTorch tensor as learning rate becomes a number."""
    return value.item() if hasattr(value, "detach") and not isinstance(value, Tensor) else copy.deepcopy(value)


def loaded_state(values: dict[str, Any], param: Tensor, slots: dict[str, float], new: dict[str, Any]) -> dict[str, Any]:
    """The state of `param`: tensors like it for `slots`, and numbers where the `new` state has numbers."""
    result = {}
    for name, value in values.items():
        if name in slots and value is None:
            continue
        if name == "step":  # of a user's optimizer as it is, as in PyTorch: not in the dtype of the parameter
            result[name] = StepCount(int(float(value))) if slots else copy.deepcopy(as_own(value))
            continue
        if isinstance(new.get(name), int | float):
            result[name] = type(new[name])(float(value))
            continue
        result[name] = loaded = _adapted(value, param)
        if name in slots and loaded.shape != param.shape:
            raise ValueError(f"loaded state {name!r} has shape {loaded.shape}, but the parameter has {param.shape}")
    return result


def _adapted(value: Any, param: Tensor) -> Any:
    """A copy of `value`, its tensors on the device and in the dtype of `param`."""
    if isinstance(value, dict):
        return {key: _adapted(item, param) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)([_adapted(item, param) for item in value])
    tensor = as_own(value)
    if not isinstance(tensor, Tensor):
        return copy.deepcopy(value)
    moved = tensor.detach().to(param.device)
    return wrap((moved.to(param.dtype) if moved.is_floating_point() else moved).array.copy())
