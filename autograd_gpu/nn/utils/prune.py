"""Pruning: a parameter times a mask of zeros and ones, computed anew at each call of its module.

1. `l1_unstructured(module, "weight", 0.5)` and the other functions move the parameter to `weight_orig`, store the mask
   in the buffer `weight_mask`, and set the plain attribute `weight` to their product.
2. A forward pre-hook, the pruning method itself, computes the product before each call.
3. Pruning again combines the masks (PruningContainer); `remove` makes the pruned values the parameter.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ...core.tensor import Tensor
from ...ops import norm, ones_like, zeros_like
from ...random import rand, rand_like
from ..module import Module
from .convert_parameters import parameters_to_vector


class BasePruningMethod(ABC):
    """The base of pruning methods: a subclass defines `PRUNING_TYPE` and `compute_mask`.

    `PRUNING_TYPE` says of what a second method sees only the part that the first one kept: "unstructured" of the
    elements, "structured" of the channels of its `dim`, "global" of nothing.

    >>> class EveryOther(ag.nn.utils.prune.BasePruningMethod):
    ...     PRUNING_TYPE = "unstructured"
    ...     def compute_mask(self, t, default_mask):
    ...         mask = default_mask.clone()
    ...         mask.view(-1)[::2] = 0
    ...         return mask
    >>> layer = ag.nn.Linear(4, 1)
    >>> _ = EveryOther.apply(layer, "weight")
    >>> layer.weight_mask
    tensor([[0., 1., 0., 1.]])
    """

    PRUNING_TYPE: str
    _tensor_name: str

    def __call__(self, module: Module, inputs: Any) -> None:
        """The forward pre-hook."""
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask for the scores `t`, of the shape of `default_mask`, with its zeros."""

    def apply_mask(self, module: Module) -> Tensor:
        """The original parameter times the mask, recorded."""
        original = getattr(module, f"{self._tensor_name}_orig")
        return getattr(module, f"{self._tensor_name}_mask").to(original.dtype) * original

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prunes the parameter `name` of `module` by cls(*args, **kwargs), and returns the method that is its hook.

        The scores, by default the parameter, decide what is pruned. A module that fails to be pruned is left as it was.
        """
        before = _hooks(module, name)
        own = cls(*args, **kwargs)
        own._tensor_name = name
        method = _joined(before, own)
        original = getattr(module, name)
        if importance_scores is not None and importance_scores.shape != original.shape:
            raise AssertionError(f"importance_scores should have the same shape as parameter {name} of {module}, got "
                                 f"{importance_scores.shape} vs {original.shape}")
        mask = getattr(module, f"{name}_mask").detach().clone() if before else ones_like(original)
        scores = original if importance_scores is None else importance_scores
        mask = method.compute_mask(scores.detach(), default_mask=mask)
        for key in before:
            del module._forward_pre_hooks[key]
        if not before:
            delattr(module, name)
            module.register_parameter(f"{name}_orig", original)
        module.register_buffer(f"{name}_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """A pruned version of `t`, without any module."""
        if importance_scores is not None and importance_scores.shape != t.shape:
            raise AssertionError("importance_scores should have the same shape as tensor t, got "
                                 f"{importance_scores.shape} vs {t.shape}")
        mask = ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(t if importance_scores is None else importance_scores, default_mask=mask)

    def remove(self, module: Module) -> None:
        """Makes the pruned values the parameter; the hook is left to `prune.remove`."""
        name = self._tensor_name
        pruned, original = self.apply_mask(module), getattr(module, f"{name}_orig")
        original.data = pruned.data
        for attribute in (name, f"{name}_orig", f"{name}_mask"):
            delattr(module, attribute)
        setattr(module, name, original)


def _hooks(module: Module, name: str) -> dict[int, BasePruningMethod]:
    """The pruning method that is the hook of the parameter `name`, by the hook's key; empty without one."""
    return {key: hook for key, hook in module._forward_pre_hooks.items()
            if isinstance(hook, BasePruningMethod) and hook._tensor_name == name}


def _joined(before: dict[int, BasePruningMethod], own: BasePruningMethod) -> BasePruningMethod:
    """A container of the methods before and the new one; the new one itself if it is the first."""
    if not before:
        return own
    (old,) = before.values()
    container = PruningContainer()
    container._tensor_name = own._tensor_name
    for method in [*(old if isinstance(old, PruningContainer) else [old]), own]:
        container.add_pruning_method(method)
    return container


class PruningContainer(BasePruningMethod):
    """Pruning methods of one parameter in the order of their application.

    PruningContainer(*methods), or of an iterable of them.
    """

    def __init__(self, *args: Any) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        methods = args[0] if len(args) == 1 and isinstance(args[0], Iterable) else args
        for method in methods:
            if not self._pruning_methods:
                self._tensor_name = method._tensor_name
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod) -> None:
        """Appends `method`; TypeError if it is none, ValueError if it is one of another parameter."""
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if self._tensor_name != method._tensor_name:
            raise ValueError("Can only add pruning methods acting on the parameter named "
                             f"'{self._tensor_name}' to PruningContainer {self}. Found '{method._tensor_name}'")
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: Any) -> Any:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """`default_mask` with the last method's mask in the part that it has kept so far."""
        method, mask = self._pruning_methods[-1], default_mask.clone()
        if method.PRUNING_TYPE == "unstructured":
            kept: Any = default_mask == 1
        elif method.PRUNING_TYPE == "structured":
            dim = method.dim % t.ndim  # type: ignore[attr-defined]
            others = tuple([d for d in range(t.ndim) if d != dim])
            kept = (*[slice(None)] * dim, default_mask.sum(others) != 0)
        elif method.PRUNING_TYPE == "global":
            kept = slice(None)
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        mask[kept] = method.compute_mask(t[kept], default_mask=default_mask[kept]).to(mask.dtype)
        return mask


class Identity(BasePruningMethod):
    """A mask of ones."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask


class CustomFromMask(BasePruningMethod):
    """A given mask."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if default_mask.shape != self.mask.shape:
            raise AssertionError(f"default_mask shape {default_mask.shape} must match self.mask shape "
                                 f"{self.mask.shape}")
        return default_mask * self.mask.to(default_mask.dtype)


class _OfAmount(BasePruningMethod):
    """A method that prunes an amount: a number of elements or channels, or as a float a fraction of them."""

    def __init__(self, amount: float) -> None:
        self.amount = amount
        if not isinstance(amount, numbers.Real):
            raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
        if amount < 0 or (amount > 1 and not isinstance(amount, numbers.Integral)):
            raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")

    def _count(self, size: int) -> int:
        """How many of `size` elements or channels are pruned."""
        if not isinstance(self.amount, int):
            return round(self.amount * size)
        if self.amount > size:
            raise ValueError(f"amount={self.amount} should be smaller than the number of parameters to prune={size}")
        return self.amount


class _Unstructured(_OfAmount):
    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        mask, count = default_mask.clone(), self._count(t.numel())
        if count:
            mask.view(-1)[self._scores(t).reshape(-1).topk(count, largest=False)[1]] = 0
        return mask

    def _scores(self, t: Tensor) -> Tensor:
        raise NotImplementedError


class RandomUnstructured(_Unstructured):
    """Prunes random elements."""

    def _scores(self, t: Tensor) -> Tensor:
        return rand_like(t)


class L1Unstructured(_Unstructured):
    """Prunes the elements with the smallest absolute values."""

    def _scores(self, t: Tensor) -> Tensor:
        return t.abs()


class _Structured(_OfAmount):
    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if t.ndim <= 1:
            raise ValueError("Structured pruning can only be applied to multidimensional tensors. Found tensor of "
                             f"shape {t.shape} with {t.ndim} dims")
        if not -t.ndim <= self.dim < t.ndim:
            raise IndexError(f"Invalid index {self.dim} for tensor of size {t.shape}")
        size = t.shape[self.dim]
        count = self._count(size)
        if not count:
            return default_mask
        kept = zeros_like(t)
        places: list[Any] = [slice(None)] * t.ndim
        places[self.dim] = self._scores(t).topk(size - count)[1]
        kept[tuple(places)] = 1
        return kept * default_mask.to(kept.dtype)

    def _scores(self, t: Tensor) -> Tensor:
        """A number for each channel."""
        raise NotImplementedError


class RandomStructured(_Structured):
    """Prunes random channels of dimension `dim`."""

    def _scores(self, t: Tensor) -> Tensor:
        return rand(t.shape[self.dim], device=t.device)


class LnStructured(_Structured):
    """Prunes the channels of dimension `dim` with the smallest n-norms."""

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def _scores(self, t: Tensor) -> Tensor:
        return norm(t, self.n, tuple([d for d in range(t.ndim) if d != self.dim % t.ndim]))


def identity(module: Module, name: str) -> Module:
    """Prunes nothing: adds a mask of ones for the parameter `name`, and returns the module."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """Prunes an amount of random elements of the parameter `name`, and returns the module."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Module, name: str, amount: float, importance_scores: Tensor | None = None) -> Module:
    """Prunes the elements of the parameter `name` with the smallest absolute values, and returns the module.

    `amount` is their number, or as a float their fraction of those that are not pruned yet; ValueError out of range.

    >>> layer = ag.nn.Linear(4, 1)
    >>> _ = ag.nn.init.constant_(layer.bias, 0.0), layer.weight.data.copy_(ag.tensor([[4.0, -1.0, 2.0, 3.0]]))
    >>> ag.nn.utils.prune.l1_unstructured(layer, "weight", amount=0.5).weight.tolist()
    [[4.0, -0.0, 0.0, 3.0]]
    >>> sorted(layer.state_dict())
    ['bias', 'weight_mask', 'weight_orig']
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """Prunes an amount of random channels of dimension `dim` of the parameter `name`, and returns the module."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module, name: str, amount: float, n: Any, dim: int, importance_scores: Tensor | None = None
) -> Module:
    """Prunes the channels of dimension `dim` of the parameter `name` with the smallest n-norms; returns the module.

    >>> layer = ag.nn.utils.prune.ln_structured(ag.nn.Linear(3, 4), "weight", amount=2, n=2, dim=0)
    >>> int(layer.weight_mask[:, 0].sum())
    2
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prunes the parameter `name` by a given mask of zeros and ones, and returns the module."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]], pruning_method: Callable[..., BasePruningMethod],
    importance_scores: dict[tuple[Module, str], Tensor] | None = None, **kwargs: Any,
) -> None:  # fmt: skip
    """Prunes all `parameters`, pairs of a module and a name, by one method on the elements of all of them.

    >>> a, b = ag.nn.Linear(3, 2), ag.nn.Linear(2, 3)
    >>> prune = ag.nn.utils.prune
    >>> prune.global_unstructured([(a, "weight"), (b, "weight")], prune.L1Unstructured, amount=5)
    >>> int(a.weight_mask.sum() + b.weight_mask.sum())
    7
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    places = [(module, name, getattr(module, name)) for module, name in parameters]
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError('Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
                        f"{pruning_method} of type {method.PRUNING_TYPE}")
    method._tensor_name = "temp"
    everything = parameters_to_vector([scores.get((module, name), tensor) for module, name, tensor in places])
    before = parameters_to_vector([getattr(m, f"{name}_mask", ones_like(tensor)) for m, name, tensor in places])
    mask = PruningContainer(method).compute_mask(everything.detach(), before)
    parts = mask.split([tensor.numel() for _, _, tensor in places])
    for (module, name, tensor), part in zip(places, parts, strict=True):
        custom_from_mask(module, name, part.view_as(tensor))


def remove(module: Module, name: str) -> Module:
    """Makes the pruned values the parameter `name`, without a mask or a hook, and returns the module.

    ValueError if it is not pruned.

    >>> prune = ag.nn.utils.prune
    >>> sorted(prune.remove(prune.identity(ag.nn.Linear(2, 1), "weight"), "weight").state_dict())
    ['bias', 'weight']
    """
    for key, method in _hooks(module, name).items():
        method.remove(module)
        del module._forward_pre_hooks[key]
        return module
    raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")


def is_pruned(module: Module) -> bool:
    """Whether a parameter of the module or of a descendant is pruned.

    >>> ag.nn.utils.prune.is_pruned(ag.nn.Linear(2, 1))
    False
    """
    return any(isinstance(hook, BasePruningMethod) for m in module.modules() for hook in m._forward_pre_hooks.values())


__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured", "PruningContainer",
    "RandomStructured", "RandomUnstructured", "custom_from_mask", "global_unstructured", "identity", "is_pruned",
    "l1_unstructured", "ln_structured", "random_structured", "random_unstructured", "remove",
]  # fmt: skip
