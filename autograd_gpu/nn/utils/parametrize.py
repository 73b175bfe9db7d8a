"""Parametrizations: parameters that are computed from others at each read.

1. `register_parametrization(module, "weight", f)` moves the parameter to module.parametrizations.weight.original (or
   original0, original1, ... if f takes several) and changes the module's class to one with a property `weight`.
2. Reading it computes f(original), or returns the value cached by `cached()`; several parametrizations are chained.
3. Assigning to it stores f.right_inverse(value) in the originals.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...core.tensor import Parameter, Tensor
from ...modes import no_grad
from ..container import ModuleDict, ModuleList
from ..module import Module


class _Cache:
    """The state of `cached`: its nesting depth, and the values by module and name."""

    def __init__(self) -> None:
        self.depth = 0
        self.values: dict[tuple[int, str], Tensor] = {}


CACHE = _Cache()
CLASSES = "__parametrized_classes__"  # class attribute: names of parametrized tensors -> generated class


@contextmanager
def cached() -> Iterator[None]:
    """Context in which a parametrized tensor is computed once and cached, for modules that are called repeatedly.

    >>> layer = ag.nn.utils.parametrizations.weight_norm(ag.nn.Linear(2, 2))
    >>> with ag.nn.utils.parametrize.cached():
    ...     layer.weight is layer.weight
    True
    """
    CACHE.depth += 1
    try:
        yield
    finally:
        CACHE.depth -= 1
        if not CACHE.depth:
            CACHE.values.clear()


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor in order of application, and the original tensors."""

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        with no_grad():
            try:
                new = self._ag_inverse(original, strict=False)
            except NotImplementedError:  # one without an inverse for its options: the tensor stays as it is
                new = original
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            if new.dtype != dtype:
                raise ValueError("When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                                 f"original.dtype: {dtype}\nright_inverse(original).dtype: {new.dtype}")
            if new is not original:
                original.data = new.detach()  # the same object, since optimizers hold it
            self._ag_hold("original", original)
        else:
            for i, part in enumerate(new):
                kept = Parameter(part.detach(), original.requires_grad) if isinstance(original, Parameter) else part
                self._ag_hold(f"original{i}", kept)
        if not unsafe:
            _check_alike(shape, dtype, self())

    def _ag_hold(self, name: str, tensor: Tensor) -> None:
        if isinstance(tensor, Parameter):
            self.register_parameter(name, tensor)
        else:
            self.register_buffer(name, tensor)

    def originals(self) -> list[Tensor]:
        """The inputs of the first parametrization."""
        return [getattr(self, "original" if self.is_tensor else f"original{i}") for i in range(self.ntensors)]

    def _ag_inverse(self, value: Any, strict: bool) -> Any:
        for module in reversed(list(self)):
            if hasattr(module, "right_inverse"):
                value = module.right_inverse(value)
            elif strict:
                raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
        return value

    def right_inverse(self, value: Tensor) -> None:
        """Sets the originals so that the result is `value`; RuntimeError if `right_inverse` is missing."""
        with no_grad():
            new = self._ag_inverse(value, strict=True)
            parts = [new] if self.is_tensor else list(new)
            if len(parts) != self.ntensors:
                raise ValueError(f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. Got a "
                                 f"sequence of length {len(parts)}.")
            for original, part in zip(self.originals(), parts, strict=True):
                original.copy_(part)

    def __call__(self, *args: Any, **kwargs: Any) -> Tensor:
        first, *rest = self
        value = first(*self.originals())
        for module in rest:
            value = module(value)
        return value


def _check_alike(shape: tuple[int, ...], dtype: Any, result: Any) -> None:
    if not isinstance(result, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(result).__name__}.")
    for what, before, after in (("dtype", dtype, result.dtype), ("shape", shape, result.shape)):
        if before != after:
            raise ValueError(f"Registering a parametrization may not change the {what} of the tensor, unless `unsafe` "
                             f"flag is enabled.\nunparametrized {what}: {before}\nparametrized {what}: {after}")


# ---- the module's class ------------------------------------------------------------------------------


def _property(name: str) -> property:
    def read(self: Any) -> Tensor:
        parametrization = self.parametrizations[name]
        if not CACHE.depth:
            return parametrization()
        key = (id(self), name)
        if key not in CACHE.values:
            CACHE.values[key] = parametrization()
        return CACHE.values[key]

    def write(self: Any, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    return property(read, write)


def _class_of(own: type[Module], names: tuple[str, ...]) -> type[Module]:
    """The generated subclass of `own` in which the tensors `names` are parametrized.

    Cached on `own`: a class is a reference cycle, so one per module would be garbage after the module dies.
    """
    if not names:
        return own
    if CLASSES not in vars(own):
        setattr(own, CLASSES, {})
    kept = vars(own)[CLASSES]
    if names not in kept:
        kept[names] = _make_class(own, names)
    return kept[names]


def _make_class(own: type[Module], names: tuple[str, ...]) -> type[Module]:
    body: dict[str, Any] = {name: _property(name) for name in names}

    def reduce(self: Any, protocol: Any) -> tuple[Any, ...]:
        return _blank, (own, names), *object.__reduce_ex__(self, 2)[2:]

    body |= {"__module__": own.__module__, "__reduce_ex__": reduce}
    return type(f"Parametrized{own.__name__}", (own,), body)


def _blank(own: type[Module], names: tuple[str, ...]) -> Module:
    """An empty module, to be filled by copy or unpickling."""
    made = own.__new__(own)
    made.__class__ = _class_of(own, names)
    return made


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Makes module.<tensor_name> the result of the Module `parametrization` on the parameter or buffer of that name.

    The original is `right_inverse` of the tensor if the parametrization has that method, else the tensor. Several
    parametrizations are chained. ValueError if the tensor does not exist, or if its dtype or shape would change (not
    checked with `unsafe`).

    >>> class Symmetric(ag.nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).mT
    >>> layer = ag.nn.utils.parametrize.register_parametrization(ag.nn.Linear(3, 3), "weight", Symmetric())
    >>> bool((layer.weight == layer.weight.mT).all())
    True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        before = getattr(module, tensor_name)
        if not unsafe:
            _check_alike(before.shape, before.dtype, parametrization(before))
        module.parametrizations[tensor_name].append(parametrization)
        return module
    if tensor_name not in (*module._parameters, *module._buffers) or getattr(module, tensor_name) is None:
        raise ValueError(f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
                         f"'{tensor_name}'")
    held = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe)
    delattr(module, tensor_name)
    own = type(module).__bases__[0] if is_parametrized(module) else type(module)
    if not is_parametrized(module):
        module.parametrizations = ModuleDict()
    module.parametrizations[tensor_name] = held
    module.__class__ = _class_of(own, tuple(module.parametrizations))
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether `module` has a parametrized tensor, or one of that name.

    >>> ag.nn.utils.parametrize.is_parametrized(ag.nn.Linear(2, 2))
    False
    """
    held = getattr(module, "parametrizations", None)
    if not isinstance(held, ModuleDict):
        return False
    return len(held) > 0 if tensor_name is None else tensor_name in held


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Turns module.<tensor_name> into an ordinary parameter or buffer with its current value.

    With `leave_parametrized=False` it gets the original value. ValueError if it is not parametrized, or if there are
    several originals.

    >>> layer = ag.nn.utils.parametrizations.weight_norm(ag.nn.Linear(2, 2))
    >>> layer = ag.nn.utils.parametrize.remove_parametrizations(layer, "weight")
    >>> [name for name, _ in layer.named_parameters()]
    ['bias', 'weight']
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    held = module.parametrizations[tensor_name]
    originals = held.originals()
    tensor = originals[0]
    if leave_parametrized:
        with no_grad():
            value = getattr(module, tensor_name).detach()
        if held.is_tensor:
            tensor.data = value
        elif any(isinstance(original, Parameter) for original in originals):
            tensor = Parameter(value, any(original.requires_grad for original in originals))
        else:
            tensor = value
    elif not held.is_tensor:
        raise ValueError("Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in "
                         "terms of a sequence of tensors.")
    own = type(module).__bases__[0]
    del module.parametrizations[tensor_name]
    module.__class__ = _class_of(own, tuple(module.parametrizations))
    if not is_parametrized(module):
        delattr(module, "parametrizations")
    if isinstance(tensor, Parameter):
        module.register_parameter(tensor_name, tensor)
    else:
        module.register_buffer(tensor_name, tensor)
    return module
