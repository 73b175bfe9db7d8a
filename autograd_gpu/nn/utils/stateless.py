"""A module called with other parameters and buffers than its own.

The forward pass runs with the module's attributes exchanged, so it is not for two threads at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ...core.tensor import Tensor
from ..module import Module
from ..registry import BUFFER, PARAMETER, TRANSIENT

Place = tuple[Module, str]  # a module, and the attribute of it


def functional_call(
    module: Module, parameter_and_buffer_dicts: Mapping[str, Tensor] | Sequence[Mapping[str, Tensor]],
    args: Any = None, kwargs: dict[str, Any] | None = None, *, tie_weights: bool = True, strict: bool = False,
) -> Any:  # fmt: skip
    """module(*args, **kwargs) with the tensors of a dict, or of several, in the place of those of that dotted name.

    Gradients flow to the given tensors, and the module keeps its own. `args` that is no tuple is the only argument.
    With `tie_weights` a tensor takes every place of a shared one. With `strict` the dicts must name all parameters and
    buffers and nothing else (RuntimeError). ValueError for a name given twice.

    >>> net, w = ag.nn.Linear(2, 1, bias=False), ag.ones(1, 2, requires_grad=True)
    >>> y = ag.nn.utils.stateless.functional_call(net, {"weight": w}, ag.tensor([[3.0, 4.0]]))
    >>> y.sum().backward()
    >>> y.item(), w.grad, net.weight.grad
    (7.0, tensor([[3., 4.]]), None)
    """
    given = _merged(parameter_and_buffer_dicts)
    places = _places(module)
    if tie_weights:
        given = _tied(places, given)
    if strict:
        _check_complete(module, places, given)
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with _exchanged({places[name]: value for name, value in given.items() if name in places}):
        return module(*args, **(kwargs or {}))


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


def _places(module: Module) -> dict[str, Place]:
    """Every name of every parameter and buffer."""
    return {
        f"{path}.{name}" if path else name: (owner, name)
        for path, owner in module.named_modules(remove_duplicate=False)
        for name, _ in owner._ag_members(PARAMETER, BUFFER, TRANSIENT)
    }


def _tied(places: dict[str, Place], given: dict[str, Tensor]) -> dict[str, Tensor]:
    """`given` with the other names of shared tensors."""
    names_of: dict[Tensor, list[str]] = {}
    for name, (owner, attribute) in places.items():
        names_of.setdefault(getattr(owner, attribute), []).append(name)
    result = dict(given)
    for names in names_of.values():
        values = {id(given[name]): given[name] for name in names if name in given}
        if len(values) > 1:
            raise ValueError(f"functional_call got multiple values for keys {sorted(names)}, which are tied. Consider "
                             "using tie_weights=False")
        for value in values.values():
            result.update(dict.fromkeys(names, value))
    return result


def _check_complete(module: Module, places: dict[str, Place], given: dict[str, Tensor]) -> None:
    listed = []
    for what, names in (("Unexpected", given.keys() - places.keys()), ("Missing", places.keys() - given.keys())):
        if names:
            listed.append(f"{what} key(s): {', '.join(map(repr, sorted(names)))}.")
    if listed:
        raise RuntimeError(f"Error(s) in reparametrizing for {type(module).__name__}:\n\t" + "\n\t".join(listed))


@contextmanager
def _exchanged(values: dict[Place, Tensor]) -> Iterator[None]:
    own = {place: getattr(*place) for place in values}
    try:
        for (owner, name), value in values.items():
            object.__setattr__(owner, name, value)  # not registered: it is not the module's
        yield
    finally:
        for (owner, name), value in own.items():
            object.__setattr__(owner, name, value)
