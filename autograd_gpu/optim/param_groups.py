"""Parameter groups: checks of an optimizer's arguments and options."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..backend import admitted, is_array
from ..backend.arrays.dtypes import FLOATS
from ..core.tensor import Tensor
from ..modes import no_grad

Group = dict[str, Any]
Params = Iterable[Tensor] | Iterable[tuple[str, Tensor]] | Iterable[Group]



class _Required:
    """The default of an option that each group must give."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()

# Options that affect how a step runs, not its result: loading a state dict does not change them.
EXECUTION = ("foreach", "fused", "capturable", "differentiable")
_PLAIN = frozenset((bool, float, int, list, str, tuple, type(None)))  # types of options other than tensors and arrays
_LABELS = {"lr": "learning rate", "eps": "epsilon value"}


def from_params(params: Params) -> list[Group]:
    """The parameter groups of a constructor's `params`; TypeError or ValueError for invalid ones."""
    if isinstance(params, Tensor):
        raise TypeError(
            "params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
            f"{type(params).__name__}"
        )
    groups: list[Any] = list(params)
    if not groups:
        raise ValueError("optimizer got an empty parameter list")
    return groups if isinstance(groups[0], dict) else [{"params": groups}]


def completed(group: Group, defaults: dict[str, Any], others: list[Group]) -> Group:
    """`group` with checked parameters as a list, and with `defaults` for missing options."""
    if not isinstance(group, dict):
        raise TypeError(f"param_group must be a dict, but got {type(group)}")
    params, names = _listed(group["params"])
    recorded = bool(group.get("differentiable", defaults.get("differentiable")))
    for param in params:
        _check_param(param, recorded)
    if len(set(params)) != len(params):
        raise ValueError("optimizer contains a parameter group with duplicate parameters")
    if not set(params).isdisjoint([param for other in others for param in other["params"]]):
        raise ValueError("some parameters appear in more than one parameter group")
    options = {**defaults, **{k: v for k, v in group.items() if k != "params"}}
    for name, option in options.items():
        if option is required:
            raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
    result = {"params": params, **{name: plain_option(name, value) for name, value in options.items()}}
    if not recorded:
        result.update({k: number(k, v) for k, v in result.items() if type(v) is tuple})  # betas: read once
    if names:
        result["param_names"] = names
    if any(("param_names" in other) != ("param_names" in result) for other in others):
        what = "with names" if "param_names" in result else "without names"
        raise ValueError(
            f"all optimizer param groups should be with/without names. cannot add param group {what} to the optimizer"
        )
    return result


def check_tensors(group: Group) -> None:
    """Raises ValueError for an option, such as the learning rate, that is a tensor of several elements."""
    for name, option in group.items():
        if isinstance(option, Tensor) and option.numel() != 1:
            raise ValueError(f"Tensor {name} must be 1-element, got one of shape {list(option.shape)}")


def plain_option(name: str, value: Any) -> Any:
    """An option; a one-element array becomes a number, ValueError for a larger array."""
    if isinstance(value, tuple):
        return tuple([plain_option(name, item) for item in value])
    if not is_array(value):
        return value
    if value.size != 1:
        raise ValueError(f"option {name!r} must be a number, got an array of shape {list(value.shape)}")
    return admitted(value).item()


def number(name: str, option: Any) -> Any:
    """A learning rate or another option as a number; reading a CUDA tensor synchronizes."""
    if type(option) is float:  # as nearly always
        return option
    if type(option) is tuple:  # betas
        return tuple([number(name, item) for item in option])
    return option.item() if isinstance(option, Tensor) else plain_option(name, option)


def with_numbers(group: Group) -> Group:
    """`group` with the current numbers in place of options that are tensors or arrays."""
    if _PLAIN.issuperset(map(type, group.values())):
        return group
    return {name: number(name, option) for name, option in group.items()}


def adam_numbers(group: Group) -> dict[str, float]:
    """The numbers that the formulas of Adam and its like begin with."""
    decoupled, decay, (beta1, beta2) = group["decoupled_weight_decay"], group["weight_decay"], group["betas"]
    return {
        "sign": -1.0 if group["maximize"] else 1.0,
        "decay": 0.0 if decoupled else decay,
        "keep": 1.0 - group["lr"] * decay if decoupled else 1.0,
        "beta1": beta1,
        "beta2": beta2,
    }


def set_lr(group: Group, lr: float) -> None:
    """Sets the learning rate of `group`; writes into it if it is a tensor."""
    if isinstance(group["lr"], Tensor):
        with no_grad():
            group["lr"].fill_(lr)
    else:
        group["lr"] = lr


def check_nonnegative(group: Group, options: Iterable[str]) -> None:
    """Raises ValueError for an option that is negative or NaN."""
    for option in options:
        if not group[option] >= 0.0:
            raise ValueError(f"Invalid {_LABELS.get(option, f'{option} value')}: {group[option]}")


def check_betas(group: Group) -> None:
    """Raises ValueError for a beta outside [0, 1)."""
    for i, beta in enumerate(group["betas"]):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")


def check_sizes(saved: list[Group], groups: list[Group]) -> None:
    """ValueError unless the groups of a state dict are as many and as large as those of an optimizer."""
    if len(saved) != len(groups):
        raise ValueError("loaded state dict has a different number of parameter groups")
    if [len(g["params"]) for g in saved] != [len(g["params"]) for g in groups]:
        raise ValueError(
            "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
        )


def check_execution(group: Group) -> None:
    """Raises RuntimeError for options of `step` that exclude each other."""
    if group.get("foreach") and group.get("fused"):
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
    for option in ("foreach", "fused"):
        if group.get("differentiable") and group.get(option):
            raise RuntimeError(
                f"`{option}` does not support `differentiable`: a step is recorded tensor by tensor; "
                f"leave {option} None"
            )


def together(group: Group) -> bool:
    """Whether a step of `group` on CUDA updates all parameters at once, by its options `foreach` and `fused`."""
    fused, foreach = group.get("fused"), group.get("foreach")
    return (fused is None and foreach is None) or bool(fused or foreach)


def check_grad(param: Tensor, grad: Tensor) -> None:
    """RuntimeError for a gradient that differs from its parameter in shape, dtype or device."""
    for what in ("shape", "dtype", "device"):
        mine, theirs = getattr(param, what), getattr(grad, what)
        if mine != theirs:
            raise RuntimeError(
                f"the gradient of a parameter has another {what} than the parameter: {theirs}, "
                f"expected {mine}; if the parameter was moved, call zero_grad() and backward() again"
            )


def _listed(params: Any) -> tuple[list[Any], list[str]]:
    """The parameters, and their names if given."""
    if isinstance(params, Tensor):
        return [params], []
    if isinstance(params, set):
        raise TypeError(
            "optimizer parameters need to be organized in ordered collections, but the ordering of tensors "
            "in sets will change between runs. Please use a list instead."
        )
    listed = list(params)
    named = [item for item in listed if isinstance(item, tuple)]
    if not named:
        return listed, []
    if len(named) != len(listed):
        raise ValueError("all optimizer params should be with/without names. Some param names are missing")
    return [param for _, param in named], [name for name, _ in named]


def _check_param(param: Any, recorded: bool) -> None:
    """Raises for a parameter that no step, or if `recorded` no recorded step, can update."""
    if not isinstance(param, Tensor):
        raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {type(param).__name__}")
    if not param.is_leaf and not recorded:
        raise ValueError("can't optimize a non-leaf Tensor")
    if param.dtype not in FLOATS:
        raise TypeError(f"optimizer can only optimize floating point Tensors, but one of the params is {param.dtype}")
