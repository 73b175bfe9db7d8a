"""Module: a tree of parameters, buffers and child modules, and the forward pass over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from ..autograd.zeroing import zero_grad
from ..backend import dtypes
from ..backend.device import Device
from ..core.hooks import RemovableHandle
from ..core.tensor import Parameter, Tensor
from . import convert, state
from .hooks import ForwardHooks, Hook
from .state import IncompatibleKeys

# Note [Attributes of a module]
# A parameter, buffer or child is an ordinary attribute: `self.weight` is found in the instance's dict, and
# Module has no __getattr__ (which alone would cost each attribute read of each module 20 ns, Python then
# having no fast path for them). `_kinds` says in the order of registration which attributes are more than
# plain ones; the values are in one place only, so the two cannot disagree. Nothing here reads
# `self.__dict__`, whose creation makes each later read slower (19 ns instead of 8).
PARAMETER, BUFFER, TRANSIENT, MODULE = "parameter", "buffer", "non-persistent buffer", "child module"

Self = TypeVar("Self", bound="Module")


class Module:
    """Base of all layers and networks: subclass it, make layers in `__init__`, compute in `forward`.

    A Parameter or Module that is assigned to an attribute is registered under that name. Calling the module
    runs `forward`, between the hooks if there are any.

    >>> class Net(ag.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.layer = ag.nn.Linear(3, 2)
    ...     def forward(self, x):
    ...         return self.layer(x).relu()
    >>> net = Net()
    >>> net(ag.ones(5, 3)).shape
    (5, 2)
    >>> [name for name, _ in net.named_parameters()]
    ['layer.weight', 'layer.bias']
    """

    training: bool
    _kinds: dict[str, str]  # attribute name -> PARAMETER, BUFFER, TRANSIENT or MODULE
    _hooks: ForwardHooks | None

    def __init__(self) -> None:
        self._kinds = {}
        self._hooks = None
        self.training = True

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; every subclass defines its own."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._hooks is None:
            return self.forward(*args, **kwargs)
        return self._hooks.call(self, args, kwargs)

    # ---- attributes ----------------------------------------------------------------------------

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...  # what register_buffer and add_module define

    def __setattr__(self, name: str, value: Any) -> None:
        kinds: dict[str, str] | None = getattr(self, "_kinds", None)
        kind = None if kinds is None else kinds.get(name)
        if isinstance(value, (Parameter, Module)):
            wanted = PARAMETER if isinstance(value, Parameter) else MODULE
            if kinds is None:
                raise AttributeError(f"cannot assign {wanted} before Module.__init__() call")
            if kind == PARAMETER and wanted == MODULE:
                raise _wrong_kind(name, kind, value)
            self._register(name, value, wanted)
            return
        if kind is not None and value is not None and not (kind in (BUFFER, TRANSIENT) and isinstance(value, Tensor)):
            raise _wrong_kind(name, kind, value)
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        self._kinds.pop(name, None)

    def _register(self, name: str, value: Any, kind: str) -> None:
        if hasattr(getattr(type(self), name, None), "__set__"):
            object.__setattr__(self, name, value)  # a property of the class decides what becomes of it
            return
        _check_name(name, kind)
        if self._kinds.get(name, kind) != kind:
            del self._kinds[name]  # so that it moves to the end
        self._kinds[name] = kind
        object.__setattr__(self, name, value)

    def _register_new(self, name: str, value: Any, kind: str, allowed: type) -> None:
        if not hasattr(self, "_kinds"):
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
        _check_name(name, kind)
        if hasattr(self, name) and self._kinds.get(name) != kind:
            raise KeyError(f"attribute '{name}' already exists")
        if value is not None and not isinstance(value, allowed):
            raise TypeError(
                f"cannot assign '{_typename(value)}' object to {kind} '{name}' ({allowed.__name__} or None required)"
            )
        self._register(name, value, kind)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Adds a parameter; None says that the module has none of that name."""
        self._register_new(name, param, PARAMETER, Parameter)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Adds a tensor that moves with the module and is no parameter; a persistent one is in `state_dict`.

        >>> module = ag.nn.Module()
        >>> module.register_buffer("mean", ag.zeros(2))
        >>> list(module.state_dict())
        ['mean']
        """
        if getattr(self, "_kinds", {}).get(name) in (BUFFER, TRANSIENT):
            self._kinds[name] = BUFFER if persistent else TRANSIENT
        self._register_new(name, tensor, BUFFER if persistent else TRANSIENT, Tensor)

    def register_module(self, name: str, module: Module | None) -> None:
        """Adds a child module."""
        self._register_new(name, module, MODULE, Module)

    add_module = register_module

    # ---- walking the tree ----------------------------------------------------------------------

    def _members(self, *kinds: str) -> Iterator[tuple[str, Any]]:
        for name, kind in self._kinds.items():
            if kind in kinds and (value := getattr(self, name)) is not None:
                yield name, value

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules directly below this one, each once."""
        seen: set[Module] = set()
        for name, module in self._members(MODULE):
            if module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """The modules directly below this one, each once."""
        for _, module in self.named_children():
            yield module

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and all below it, by dotted name; the root's name is `prefix`."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._members(MODULE):
            yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self) -> Iterator[Module]:
        """This module and all below it, each once."""
        for _, module in self.named_modules():
            yield module

    def _named_tensors(
        self, kinds: tuple[str, ...], prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        modules = self.named_modules(None, prefix, remove_duplicate) if recurse else iter([(prefix, self)])
        seen: set[Tensor] = set()
        for path, module in modules:
            for name, tensor in module._members(*kinds):
                if remove_duplicate and tensor in seen:
                    continue
                seen.add(tensor)
                yield (f"{path}.{name}" if path else name), tensor

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """The parameters by dotted name after `prefix`, in the order of registration, a shared one once.

        `recurse=False` leaves out those of child modules, `remove_duplicate=False` gives each name of a shared one.

        >>> net = ag.nn.Sequential(ag.nn.Linear(3, 2), ag.nn.ReLU())
        >>> [(name, p.shape) for name, p in net.named_parameters(prefix="net")]
        [('net.0.weight', (2, 3)), ('net.0.bias', (2,))]
        """
        return self._named_tensors((PARAMETER,), prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters, a shared one once: what an optimizer takes.

        >>> sum(p.numel() for p in ag.nn.Linear(3, 2).parameters())
        8
        """
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """The buffers by dotted name, a shared one once."""
        return self._named_tensors((BUFFER, TRANSIENT), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers, a shared one once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def apply(self: Self, fn: Callable[[Module], Any]) -> Self:
        """Calls `fn` on every module below this one, children first, then on this one."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # ---- modes ---------------------------------------------------------------------------------

    def train(self: Self, mode: bool = True) -> Self:
        """Sets `training` here and below, and returns the module: dropout drops only then.

        ValueError if `mode` is no bool.

        >>> net = ag.nn.Sequential(ag.nn.Dropout()).train()
        >>> net.training, net[0].training
        (True, True)
        """
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        for module in self.modules():
            module.training = mode
        return self

    def eval(self: Self) -> Self:
        """The same as train(False).

        >>> ag.nn.Dropout().eval().training
        False
        """
        return self.train(False)

    def requires_grad_(self: Self, requires_grad: bool = True) -> Self:
        """Freezes (False) or unfreezes all parameters."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients of all parameters, or with `set_to_none=False` sets them to zero in place.

        >>> layer = ag.nn.Linear(2, 1)
        >>> layer(ag.ones(1, 2)).sum().backward()
        >>> layer.zero_grad()
        >>> layer.weight.grad is None
        True
        """
        zero_grad(self.parameters(), set_to_none)

    # ---- device and dtype ----------------------------------------------------------------------

    def to(self: Self, *args: Any, **kwargs: Any) -> Self:
        """Converts parameters, buffers and gradients in place: to(device), to(dtype), both, or to(tensor).

        A dtype applies to the floating-point ones and has to be one itself. The Parameter objects stay the
        same, so an optimizer that holds them goes on working.

        >>> ag.nn.Linear(2, 2).to(ag.float64).weight.dtype
        dtype('float64')
        """
        device, dtype = convert.parse(*args, **kwargs)
        convert.module(self, device, dtype)
        return self

    def cpu(self: Self) -> Self:
        """Moves everything to the CPU."""
        return self.to("cpu")

    def cuda(self: Self, device: int | str | Device | None = None) -> Self:
        """Moves everything to a CUDA device, by default the first."""
        return self.to("cuda" if device is None else f"cuda:{device}" if isinstance(device, int) else device)

    def float(self: Self) -> Self:
        """Floating-point parameters and buffers to float32."""
        return self.to(dtypes.float32)

    def double(self: Self) -> Self:
        """Floating-point parameters and buffers to float64."""
        return self.to(dtypes.float64)

    def half(self: Self) -> Self:
        """Floating-point parameters and buffers to float16."""
        return self.to(dtypes.float16)

    def bfloat16(self: Self) -> Self:
        """Floating-point parameters and buffers to bfloat16."""
        return self.to(dtypes.bfloat16)

    # ---- state ---------------------------------------------------------------------------------

    def state_dict(
        self, *, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Tensor]:
        """Parameters and persistent buffers by dotted name, detached (unless `keep_vars`) but not copied.

        >>> list(ag.nn.Linear(2, 1).state_dict())
        ['weight', 'bias']
        """
        destination = {} if destination is None else destination
        for kind in (PARAMETER, BUFFER):
            for name, tensor in self._members(kind):
                destination[prefix + name] = tensor if keep_vars else tensor.detach()
        for name, module in self._members(MODULE):
            module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        return destination

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> IncompatibleKeys:
        """Copies `state_dict` into parameters and persistent buffers, converting device and dtype.

        Returns the missing and the unexpected keys. RuntimeError that lists them and every value that has another
        shape or is no tensor, TypeError for what is no mapping; nothing is copied then. With `strict=False` missing
        and unexpected keys are no error.

        >>> net = ag.nn.Linear(2, 1)
        >>> net.load_state_dict({"weight": ag.ones(1, 2), "bias": ag.zeros(1)})
        <All keys matched successfully>
        >>> net.load_state_dict({"weight": ag.zeros(1, 2)}, strict=False)
        (['bias'], [])
        """
        return state.load(self, state_dict, strict)

    # ---- hooks ---------------------------------------------------------------------------------

    def _hook_table(self) -> ForwardHooks:
        if self._hooks is None:
            self._hooks = ForwardHooks()
        return self._hooks

    def register_forward_pre_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Calls `hook(module, args)` before each forward; what it returns replaces the arguments.

        With `with_kwargs` it is `hook(module, args, kwargs)`, which returns None or (args, kwargs).
        """
        table = self._hook_table()
        return table.add(table.pre, hook, with_kwargs, prepend)

    def register_forward_hook(self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False) -> RemovableHandle:
        """Calls `hook(module, args, output)` after each forward; what it returns replaces the output.

        With `with_kwargs` it is `hook(module, args, kwargs, output)`.

        >>> layer = ag.nn.ReLU()
        >>> with layer.register_forward_hook(lambda module, args, output: output + 1):
        ...     layer(ag.zeros(2))
        tensor([1., 1.])
        """
        table = self._hook_table()
        return table.add(table.post, hook, with_kwargs, prepend)

    # ---- printing ------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """What stands between the parentheses when the module is printed."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): " + repr(m).replace("\n", "\n  ") for name, m in self._members(MODULE)]
        if not children and len(lines) <= 1:
            return f"{type(self).__name__}({extra})"
        return f"{type(self).__name__}(\n  " + "\n  ".join(lines + children) + "\n)"


def _check_name(name: str, kind: str) -> None:
    what = "module" if kind == MODULE else kind.removeprefix("non-persistent ")
    if not isinstance(name, str):
        raise TypeError(f"{what} name should be a string. Got {_typename(name)}")
    if "." in name:
        raise KeyError(f'{what} name can\'t contain ".", got: {name}')
    if not name:
        raise KeyError(f'{what} name can\'t be empty string ""')


def _wrong_kind(name: str, kind: str, value: Any) -> TypeError:
    allowed = {PARAMETER: "Parameter", MODULE: "Module"}.get(kind, "Tensor")
    return TypeError(f"cannot assign '{_typename(value)}' as {kind} '{name}' ({allowed} or None expected)")


def _typename(value: Any) -> str:
    cls = type(value)
    return cls.__name__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__name__}"
