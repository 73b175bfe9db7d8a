"""What all optimizers share: parameter groups, per-parameter state, and their state dict."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

from ..autograd.zeroing import zero_grad
from ..backend import Array
from ..backend.dtypes import FLOATS
from ..config import enable_grad
from ..core.tensor import Tensor, wrap

Group = dict[str, Any]


class Optimizer:
    """Base of the optimizers: subclass it and define `_update(group)`, one step for a group.

    `params` is an iterable of leaf tensors, or of dicts {"params": tensors, option: value, ...} whose options
    override `defaults` for their group. `param_groups` may be changed between steps: group["lr"] *= 0.1.

    >>> w = ag.ones(1, requires_grad=True)
    >>> optimizer = ag.optim.SGD([w], lr=0.5)
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.5], requires_grad=True)
    """

    def __init__(self, params: Iterable[Tensor] | Iterable[Group], defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                f"{type(params).__name__}"
            )
        self.defaults = defaults
        self.state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[Group] = []
        groups: list[Any] = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)

    def add_param_group(self, param_group: Group) -> None:
        """Adds parameters with options of their own; options that are not given come from the defaults.

        >>> a, b = ag.zeros(1, requires_grad=True), ag.zeros(1, requires_grad=True)
        >>> optimizer = ag.optim.SGD([a], lr=0.1)
        >>> optimizer.add_param_group({"params": [b], "lr": 0.01})
        >>> [group["lr"] for group in optimizer.param_groups]
        [0.1, 0.01]
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params = _as_list(param_group["params"])
        for param in params:
            _check_param(param)
        if len(set(params)) != len(params):
            raise ValueError("optimizer contains a parameter group with duplicate parameters")
        if not set(params).isdisjoint(chain.from_iterable(g["params"] for g in self.param_groups)):
            raise ValueError("some parameters appear in more than one parameter group")
        group = {"params": params, **self.defaults, **{k: v for k, v in param_group.items() if k != "params"}}
        self._check_options(group)
        self.param_groups.append(group)

    def _check_options(self, group: Group) -> None:
        """Raises ValueError for an option out of its range; a subclass extends it."""
        if isinstance(group["lr"], Tensor):
            raise TypeError("lr as a Tensor is not supported; pass a number, and change group['lr'] between steps")
        if not group["lr"] >= 0.0:
            raise ValueError(f"Invalid learning rate: {group['lr']}")
        if not group["weight_decay"] >= 0.0:
            raise ValueError(f"Invalid weight_decay value: {group['weight_decay']}")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates every parameter that has a gradient; returns the result of `closure`.

        The closure, which computes the loss and the gradients, is called first, with grad on. RuntimeError if a
        gradient has another shape, dtype or device than its parameter.

        >>> w = ag.tensor([1.0], requires_grad=True)
        >>> (3 * w).sum().backward()
        >>> ag.optim.SGD([w], lr=0.25).step()
        >>> w
        tensor([0.25], requires_grad=True)
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        for group in self.param_groups:
            self._update(group)
        return loss

    def _update(self, group: Group) -> None:
        """One step for `group`, on arrays, so that nothing is recorded, with `bump_version` for each."""
        raise NotImplementedError

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients of all groups, or with `set_to_none=False` sets them to zero in place.

        A parameter whose gradient is None is skipped by `step`; one whose gradient is zero is not.

        >>> w = ag.ones(1, requires_grad=True)
        >>> w.sum().backward()
        >>> ag.optim.SGD([w]).zero_grad(set_to_none=False)
        >>> w.grad
        tensor([0.])
        """
        zero_grad(self._params(), set_to_none)

    def state_dict(self) -> dict[str, Any]:
        """{"state": {index: state}, "param_groups": [options and parameter indices]}; tensors are not copied.

        >>> w = ag.ones(1, requires_grad=True)
        >>> ag.optim.SGD([w], lr=0.5).state_dict()["param_groups"][0]["params"]
        [0]
        """
        index = {param: i for i, param in enumerate(self._params())}
        groups = [
            {
                **{k: v for k, v in group.items() if k != "params"},
                "params": [index[p] for p in group["params"]],
            }
            for group in self.param_groups
        ]
        return {
            "state": {index[p]: state for p, state in self.state.items() if p in index},
            "param_groups": groups,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes options and state from a `state_dict()`: copied, on each parameter's device, in its dtype.

        ValueError if the groups differ in number or size, or lack an option of this optimizer, or if a state tensor
        has another shape than its parameter; nothing is changed then.

        >>> w = ag.ones(1, requires_grad=True)
        >>> saved, optimizer = ag.optim.SGD([w], lr=0.5).state_dict(), ag.optim.SGD([w], lr=0.1)
        >>> optimizer.load_state_dict(saved)
        >>> optimizer.param_groups[0]["lr"]
        0.5
        """
        saved = state_dict["param_groups"]
        if len(saved) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if [len(g["params"]) for g in saved] != [len(g["params"]) for g in self.param_groups]:
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
            )
        for group in saved:
            if absent := [option for option in self.defaults if option not in group]:
                raise ValueError(f"loaded state dict lacks the options {', '.join(absent)} of {type(self).__name__}")
            self._check_options(group)
        indices = chain.from_iterable(g["params"] for g in saved)
        params = dict(zip(indices, self._params(), strict=True))
        state = {
            params[key]: {name: _adapted(name, value, params[key]) for name, value in values.items()}
            for key, values in state_dict["state"].items()
            if key in params
        }
        self.state = defaultdict(dict, state)
        self.param_groups = [
            {**copy.deepcopy({k: v for k, v in new.items() if k != "params"}), "params": old["params"]}
            for new, old in zip(saved, self.param_groups, strict=True)
        ]

    def _params(self) -> Iterable[Tensor]:
        return chain.from_iterable(group["params"] for group in self.param_groups)

    def __repr__(self) -> str:
        lines = []
        for i, group in enumerate(self.param_groups):
            lines += [f"Parameter Group {i}"] + [f"    {k}: {group[k]}" for k in sorted(group) if k != "params"]
        return "\n".join([f"{type(self).__name__} (", *lines, ")"])


def with_grads(group: Group) -> tuple[list[Tensor], list[Array], list[Array]]:
    """The parameters of `group` that have a gradient, their arrays and their gradients' arrays."""
    params, arrays, grads = [], [], []
    for param in group["params"]:
        grad = param.grad
        if grad is None:
            continue
        array, g = param.array, grad.array
        if array.shape != g.shape or array.dtype is not g.dtype or type(array) is not type(g):
            _check_grad(param, grad)
        params.append(param)
        arrays.append(array)
        grads.append(g)
    return params, arrays, grads


def zeros_like(param: Tensor) -> Tensor:
    """A state tensor of zeros, laid out as the parameter is."""
    zeros = wrap(param.array.copy())
    zeros.array[...] = 0
    return zeros


def _check_grad(param: Tensor, grad: Tensor) -> None:
    for what in ("shape", "dtype", "device"):
        mine, theirs = getattr(param, what), getattr(grad, what)
        if mine != theirs:
            raise RuntimeError(
                f"the gradient of a parameter has another {what} than the parameter: {theirs}, "
                f"expected {mine}; if the parameter was moved, call zero_grad() and backward() again"
            )


def _as_list(params: Any) -> list[Any]:
    if isinstance(params, Tensor):
        return [params]
    if isinstance(params, set):
        raise TypeError(
            "optimizer parameters need to be organized in ordered collections, but the ordering of tensors "
            "in sets will change between runs. Please use a list instead."
        )
    return list(params)


def _check_param(param: Any) -> None:
    if not isinstance(param, Tensor):
        raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {type(param).__name__}")
    if not param.is_leaf:
        raise ValueError("can't optimize a non-leaf Tensor")
    if param.dtype not in FLOATS:
        raise TypeError(f"optimizer can only optimize floating point Tensors, but one of the params is {param.dtype}")


def _adapted(name: str, value: Any, param: Tensor) -> Any:
    """Loaded state as the optimizer keeps it: tensors like the parameter, the step count an int."""
    if name == "step":
        return int(value)
    if not isinstance(value, Tensor):
        return copy.deepcopy(value)
    if value.shape != param.shape:
        raise ValueError(f"loaded state {name!r} has shape {value.shape}, but the parameter has {param.shape}")
    return wrap(value.detach().to(param.device).to(param.dtype).array.copy())
