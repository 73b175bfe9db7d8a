"""State dicts: tensors of a module by dotted name. Loading checks all entries before it copies any."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from ..core.graph.hooks import Hooks, RemovableHandle, add
from ..core.tensor import Parameter, Tensor
from ..modes import no_grad
from .parameter import UninitializedParameter, is_lazy
from .registry import BUFFER, MODULE, PARAMETER
from .torch_interop import as_own
from .traversal import M, Tree

SAVE_PRE, SAVE_POST, LOAD_PRE, LOAD_POST = "state_dict_pre", "state_dict", "load_state_dict_pre", "load_state_dict"
EXTRA = "_extra_state"  # the key, after the module's prefix, of the result of get_extra_state


class IncompatibleKeys(NamedTuple):
    """The result of `load_state_dict`: missing and unexpected keys."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        listed = f"{type(self).__name__}(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"
        return listed if any(self) else "<All keys matched successfully>"


class WithoutModule(NamedTuple):
    """A load pre-hook that does not take the module; it can be pickled, unlike a closure."""

    hook: Callable[..., Any]

    def __call__(self, module: Any, *args: Any) -> Any:
        return self.hook(*args)


class Stateful(Tree[M]):
    """The part of Module that saves and loads."""

    _version = 1  # of the class's state layout, passed to hooks in `local_metadata`
    _ag_state_hooks: Hooks | None = None

    def state_dict(
        self, *, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Parameters and persistent buffers by dotted name, detached (unless `keep_vars`) but not copied.

        An OrderedDict; its attribute `_metadata` has the version of each module's state layout, by dotted name.

        >>> list(ag.nn.Linear(2, 1).state_dict())
        ['weight', 'bias']
        """
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()  # type: ignore[attr-defined]
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in self._ag_state_hooks_of(SAVE_PRE):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._ag_members(MODULE):
            module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self._ag_state_hooks_of(SAVE_POST):
            if hook(self, destination, prefix, metadata) is not None:
                raise RuntimeError("state_dict post-hook must return None")
        return destination

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        for kind in (PARAMETER, BUFFER):
            for name, tensor in self._ag_members(kind):
                destination[prefix + name] = tensor if keep_vars else tensor.detach()
        if type(self).get_extra_state is not Stateful.get_extra_state:
            destination[prefix + EXTRA] = self.get_extra_state()

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copies `state_dict` into parameters and persistent buffers, converting device and dtype.

        The values are tensors, arrays, or PyTorch tensors, so PyTorch's state dicts can be loaded. With `assign` the
        module takes the tensors themselves, with their devices and dtypes; parameters keep their requires_grad. Returns
        the missing and unexpected keys. RuntimeError that lists these keys and all values of another shape or type,
        TypeError if `state_dict` is not a mapping; in both cases nothing is copied, except that with a load post-hook,
        which may remove keys from the lists, missing and unexpected keys are raised after the copy. With `strict=False`
        missing and unexpected keys are not an error.

        >>> net = ag.nn.Linear(2, 1)
        >>> net.load_state_dict({"weight": ag.ones(1, 2), "bias": ag.zeros(1)})
        <All keys matched successfully>
        >>> net.load_state_dict({"weight": ag.zeros(1, 2)}, strict=False)
        IncompatibleKeys(missing_keys=['bias'], unexpected_keys=[])
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        versions = getattr(state_dict, "_metadata", {})
        return _Load(self, dict(state_dict), versions, strict, assign).run()

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], strict: bool,
        missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        """Calls the load pre-hooks; an override may rename keys of `state_dict`.

        Unlike PyTorch's, it does not copy tensors: all keys and shapes are checked before any copy.
        """
        for hook in self._ag_state_hooks_of(LOAD_PRE):
            hook(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)

    def get_extra_state(self) -> Any:
        """Returns an object to store in `state_dict` besides the tensors; for subclasses, with `set_extra_state`."""
        raise RuntimeError("Reached a code path in Module.get_extra_state() that should never be called: define it in "
                           "the subclass")

    def set_extra_state(self, state: Any) -> None:
        """Restores the object that `get_extra_state` returned."""
        raise RuntimeError("Reached a code path in Module.set_extra_state() that should never be called: define it in "
                           "the subclass")

    # ---- hooks ---------------------------------------------------------------------------------

    def _ag_state_hooks_of(self, kind: str) -> list[Callable[..., Any]]:
        return [hook for k, hook in self._ag_state_hooks.values() if k == kind] if self._ag_state_hooks else []

    def _ag_add_state_hook(self, kind: str, hook: Callable[..., Any]) -> RemovableHandle:
        if self._ag_state_hooks is None:
            self._ag_state_hooks = Hooks()
        return add(self._ag_state_hooks, (kind, hook))

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls `hook(module, prefix, keep_vars)` before the module's entries are added to a `state_dict`."""
        return self._ag_add_state_hook(SAVE_PRE, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls `hook(module, state_dict, prefix, local_metadata)` after the module's entries are added.

        The hook may change the dict in place, and must return None.

        >>> net = ag.nn.Linear(2, 1)
        >>> handle = net.register_state_dict_post_hook(lambda module, state, prefix, meta: state.pop("bias") and None)
        >>> list(net.state_dict())
        ['weight']
        """
        return self._ag_add_state_hook(SAVE_POST, hook)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`register_state_dict_post_hook` by the name that PyTorch had before; what the hook returns must be None."""
        return self._ag_add_state_hook(SAVE_POST, hook)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        """`register_load_state_dict_pre_hook`, by default for a hook that does not take the module."""
        taken: Any = hook if with_module else WithoutModule(hook)
        return self._ag_add_state_hook(LOAD_PRE, taken)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Registers a hook that runs before a state dict is loaded, and may change the dict in place.

        The call is `hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
        error_msgs)`. `state_dict` is a copy. `local_metadata` has the "version" of the module's state layout, and is
        empty for a dict from `ag.load`.
        """
        return self._ag_add_state_hook(LOAD_PRE, hook)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls `hook(module, incompatible_keys)` after a state dict is loaded, children first.

        The hook may remove keys from the two lists in place; the remaining keys are an error if loading is strict.
        """
        return self._ag_add_state_hook(LOAD_POST, hook)


# ---- loading -----------------------------------------------------------------------------------------


class _Load:
    """A call of `load_state_dict`: pre-hooks, checks, copies, post-hooks."""

    def __init__(
        self, module: Stateful, state: dict[str, Any], versions: dict[str, Any], strict: bool, assign: bool
    ) -> None:
        self.module, self.state, self.versions, self.strict, self.assign = module, state, versions, strict, assign
        self.keys = IncompatibleKeys([], [])
        self.errors: list[str] = []

    def run(self) -> IncompatibleKeys:
        for prefix, module in _prefixed(self.module):
            metadata = self.versions.get(prefix[:-1], {})
            module._load_from_state_dict(self.state, prefix, metadata, self.strict, *self.keys, self.errors)
        self._compare()
        afterwards = [(m, hook) for m in _bottom_up(self.module) for hook in m._ag_state_hooks_of(LOAD_POST)]
        if self.errors or not afterwards:
            self._raise()
        self._copy()
        for module, hook in afterwards:
            if hook(module, self.keys) is not None:
                raise RuntimeError("Hooks registered with ``register_load_state_dict_post_hook`` are not expected to "
                                   "return new values, if incompatible_keys need to be modified, it should be done "
                                   "inplace.")
        self._raise()
        return self.keys

    def _compare(self) -> None:
        places = list(_places(self.module))
        known = {key for key, *_ in places}
        self.keys.missing_keys.extend(key for key, *_ in places if key not in self.state)
        self.keys.unexpected_keys.extend(key for key in self.state if key not in known)
        for key, _, _, tensor in places:
            if key in self.state and tensor is not None:
                self.state[key] = as_own(self.state[key])
                self.errors.extend(_mismatch(key, tensor, self.state[key]))

    def _raise(self) -> None:
        listed = [
            f"{what} key(s) in state_dict: {', '.join(map(_quoted, keys))}. "
            for what, keys in (("Missing", self.keys.missing_keys), ("Unexpected", self.keys.unexpected_keys))
            if keys and self.strict
        ]
        if listed or self.errors:
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self.module).__name__}:\n\t"
                               + "\n\t".join([*listed, *self.errors]))

    def _copy(self) -> None:
        with no_grad():
            for key, module, name, tensor in list(_places(self.module)):
                if key not in self.state:
                    continue
                value = self.state[key]
                if tensor is None:
                    module.set_extra_state(value)
                elif self.assign:
                    setattr(module, name, _assigned(tensor, value))
                elif not is_lazy(value):
                    if isinstance(tensor, UninitializedParameter):
                        tensor.materialize(value.shape)
                    tensor.copy_(value)


def _prefixed(module: Stateful, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Each module with the prefix of its keys; a shared module appears under each of its names, as in `state_dict`."""
    yield prefix, module
    for name, child in module._ag_members(MODULE):
        yield from _prefixed(child, f"{prefix}{name}.")


def _bottom_up(module: Stateful) -> Iterator[Stateful]:
    for _, child in module._ag_members(MODULE):
        yield from _bottom_up(child)
    yield module


def _places(root: Stateful) -> Iterator[tuple[str, Any, str, Tensor | None]]:
    """(key, module, attribute, tensor) of all entries to load; the tensor of extra state is None."""
    for prefix, module in _prefixed(root):
        for kind in (PARAMETER, BUFFER):
            for name, tensor in module._ag_members(kind):
                yield prefix + name, module, name, tensor
        if type(module).set_extra_state is not Stateful.set_extra_state:
            yield prefix + EXTRA, module, EXTRA, None


def _quoted(key: object) -> str:
    return f'"{key}"'


def _mismatch(key: str, tensor: Tensor, value: Any) -> list[str]:
    if not isinstance(value, Tensor):
        return [f'While copying the parameter named "{key}", expected Tensor or array from checkpoint but received '
                f"{type(value)}"]
    if is_lazy(tensor) or value.shape == tensor.shape:
        return []
    return [f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, "
            f"the shape in current model is {tensor.shape}."]


def _assigned(tensor: Tensor, value: Tensor) -> Tensor:
    """`value` to replace `tensor`: a Parameter, with the same requires_grad, if `tensor` is one."""
    if not isinstance(tensor, Parameter):
        return value.detach() if isinstance(value, Parameter) else value
    if isinstance(value, Parameter):
        value.requires_grad_(tensor.requires_grad)
        return value
    return Parameter(value, tensor.requires_grad)
