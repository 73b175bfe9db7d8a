"""ParameterList and ParameterDict: containers that register their parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, overload

from ..core.tensor import Parameter, Tensor
from .container import pairs_of
from .module import Module


def _registered(value: Any) -> Any:
    """A tensor as a Parameter; any other value unchanged."""
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def _described(value: Any, quoted: str) -> str:
    if not isinstance(value, Tensor):
        return f"  ({quoted}): Object of type: {type(value).__name__}"
    kind, size = "Parameter" if isinstance(value, Parameter) else "Tensor", "x".join(map(str, value.shape))
    where = f" ({value.device})" if value.is_cuda else ""
    return f"  ({quoted}): {kind} containing: [{value.dtype} of size {size}{where}]"


class ParameterList(Module):
    """A list of parameters named "0", "1", ...; tensors become Parameters, other values are stored as they are.

    >>> weights = ag.nn.ParameterList([ag.ones(2), ag.nn.Parameter(ag.zeros(3))])
    >>> [name for name, _ in weights.named_parameters()], len(weights)
    (['0', '1'], 2)
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        self.extend([] if values is None else values)

    def _ag_key(self, index: int) -> str:
        if not -self._size <= index < self._size:
            raise IndexError(f"index {index} is out of range")
        return str(index % self._size)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> ParameterList: ...

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return getattr(self, self._ag_key(index))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, self._ag_key(index), _registered(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter([getattr(self, str(i)) for i in range(self._size)])

    def __iadd__(self, values: Iterable[Any]) -> ParameterList:
        return self.extend(values)

    def append(self, value: Any) -> ParameterList:
        """Appends `value` and returns the list.

        >>> len(ag.nn.ParameterList().append(ag.ones(2)))
        1
        """
        self._size += 1
        self[-1] = value
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Appends all of `values` and returns the list; TypeError if they are not iterable."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}")
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        return "\n".join(_described(value, str(i)) for i, value in enumerate(self))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dict of parameters, registered by key; tensors become Parameters, other values are stored as they are.

    Takes a dict, a ParameterDict, or pairs (key, value).

    >>> weights = ag.nn.ParameterDict({"left": ag.ones(2)})
    >>> weights["right"] = ag.zeros(2)
    >>> [name for name, _ in weights.named_parameters()], list(weights)
    (['left', 'right'], ['left', 'right'])
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise KeyError(key)
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        if not isinstance(key, str):
            raise TypeError("Index given to ParameterDict cannot be used as a key as it is not a string (type is "
                            f"'{type(key).__name__}')")
        if key not in self._keys and hasattr(self, key):
            raise KeyError(f"attribute '{key}' already exists")
        setattr(self, key, _registered(value))
        self._keys[key] = None

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def keys(self) -> Any:
        """The keys."""
        return self._keys.keys()

    def values(self) -> Any:
        """The values."""
        return [self[key] for key in self._keys]

    def items(self) -> Any:
        """Pairs of key and value."""
        return [(key, self[key]) for key in self._keys]

    def get(self, key: str, default: Any = None) -> Any:
        """The value at `key`, or `default`."""
        try:
            return self[key]
        except KeyError:
            return default

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value at `key`; sets it to `default` if it is missing."""
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: str) -> Any:
        """Removes and returns the value at `key`; KeyError if there is none."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Removes and returns the last pair."""
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def clear(self) -> None:
        """Removes all values."""
        for key in list(self):
            del self[key]

    def copy(self) -> ParameterDict:
        """A ParameterDict of the same parameters."""
        return ParameterDict(self.items())

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A ParameterDict with `default` at each key."""
        return ParameterDict([(key, default) for key in keys])

    def update(self, parameters: Any) -> None:
        """Adds or replaces values: those of a dict, a ParameterDict, or pairs (key, value)."""
        for key, value in pairs_of(parameters, "ParameterDict"):
            self[key] = value

    def __or__(self, other: Any) -> ParameterDict:
        both = self.copy()
        both.update(other)
        return both

    def __ror__(self, other: Any) -> ParameterDict:
        both = ParameterDict(other)
        both.update(self)
        return both

    def __ior__(self, other: Any) -> ParameterDict:
        self.update(other)
        return self

    def extra_repr(self) -> str:
        return "\n".join(_described(value, key) for key, value in self.items())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called.")
