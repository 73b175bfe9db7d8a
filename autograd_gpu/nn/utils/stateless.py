"""Calls of a module with given parameters and buffers.

The call replaces the module's attributes temporarily, so it is not thread-safe.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ...core.interpret.tracing import ModuleChanges, tracer
from ...core.tensor import Tensor
from ..module import Module
from ..registry import BUFFER, PARAMETER, TRANSIENT

Slot = tuple[Module, str]  # a module, and the name of an attribute


def functional_call(
    module: Module, parameter_and_buffer_dicts: Mapping[str, Tensor] | Sequence[Mapping[str, Tensor]],
    args: Any = None, kwargs: dict[str, Any] | None = None, *, tie_weights: bool = True, strict: bool = False,
) -> Any:  # fmt: skip
    """module(*args, **kwargs) with parameters and buffers replaced by the tensors of one or several dicts, by name.

    Gradients flow to the given tensors; the module keeps its own. `args` that is not a tuple is the only argument. With
    `tie_weights` a tensor replaces a shared one under all its names. With `strict` the dicts must name exactly all
    parameters and buffers (RuntimeError). ValueError for a name given twice.

    >>> net, w = ag.nn.Linear(2, 1, bias=False), ag.ones(1, 2, requires_grad=True)
    >>> y = ag.nn.utils.stateless.functional_call(net, {"weight": w}, ag.tensor([[3.0, 4.0]]))
    >>> y.sum().backward()
    >>> y.item(), w.grad, net.weight.grad
    (7.0, tensor([[3., 4.]]), None)
    """
    tensors = _merged(parameter_and_buffer_dicts)
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with _reparametrize_module(module, tensors, tie_weights, strict):
        return module(*args, **(kwargs or {}))


@contextmanager
def _reparametrize_module(
    module: Module, parameters_and_buffers: Mapping[str, Tensor], tie_weights: bool = False, strict: bool = False
) -> Iterator[None]:
    """Context in which the module has these parameters and buffers, by name; PyTorch's name, which libraries use."""
    slots, tensors = _slots(module), dict(parameters_and_buffers)
    if tie_weights:
        tensors = _tied(slots, tensors)
    if strict:
        _check_complete(module, slots, tensors)
    with _exchanged({slots[name]: value for name, value in tensors.items() if name in slots}):
        yield


def _merged(dicts: Mapping[str, Tensor] | Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    listed = [dicts] if isinstance(dicts, Mapping) else dicts
    if not isinstance(listed, Sequence):
        raise ValueError("Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
                         f"{type(dicts)}")
    if not all(isinstance(d, Mapping) for d in listed):
        raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
    repeated = [name for name, n in Counter(name for d in listed for name in d).items() if n > 1]
    if repeated:
        raise ValueError(f"{repeated} appeared in multiple dictionaries; behavior of functional call is ambiguous")
    merged = {name: value for d in listed for name, value in d.items()}
    for name, value in merged.items():
        if not isinstance(value, Tensor):
            raise TypeError(f"{name}: {value!r:.60} is not an instance of Tensor")
    return merged


def _slots(module: Module) -> dict[str, Slot]:
    """Every name of every parameter and buffer."""
    return {
        f"{path}.{name}" if path else name: (owner, name)
        for path, owner in module.named_modules(remove_duplicate=False)
        for name, _ in owner._ag_members(PARAMETER, BUFFER, TRANSIENT)
    }


def _tied(slots: dict[str, Slot], tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """`tensors` with the other names of shared tensors."""
    names_of: dict[Tensor, list[str]] = {}
    for name, (owner, attribute) in slots.items():
        names_of.setdefault(getattr(owner, attribute), []).append(name)
    result = dict(tensors)
    for names in names_of.values():
        values = {id(tensors[name]): tensors[name] for name in names if name in tensors}
        if len(values) > 1:
            raise ValueError(f"functional_call got multiple values for keys {sorted(names)}, which are tied. Consider "
                             "using tie_weights=False")
        for value in values.values():
            result.update(dict.fromkeys(names, value))
    return result


def _check_complete(module: Module, slots: dict[str, Slot], tensors: dict[str, Tensor]) -> None:
    listed = []
    for what, names in (("Unexpected", tensors.keys() - slots.keys()), ("Missing", slots.keys() - tensors.keys())):
        if names:
            listed.append(f"{what} key(s): {', '.join(map(repr, sorted(names)))}.")
    if listed:
        raise RuntimeError(f"Error(s) in reparametrizing for {type(module).__name__}:\n\t" + "\n\t".join(listed))


@contextmanager
def _exchanged(values: dict[Slot, Tensor]) -> Iterator[None]:
    own = {place: getattr(*place) for place in values}
    if level := tracer():
        for owner in dict.fromkeys([owner for owner, _ in values]):
            level.relies_on(owner)
    try:
        for (owner, name), value in values.items():
            object.__setattr__(owner, name, value)  # without registration
        ModuleChanges.count += 1
        yield
    finally:
        for (owner, name), value in own.items():
            object.__setattr__(owner, name, value)
        ModuleChanges.count += 1
