"""Loading a state dict into a module: everything is checked first, then everything is copied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ..config import no_grad
from ..core.tensor import Tensor

if TYPE_CHECKING:
    from .module import Module


class IncompatibleKeys(NamedTuple):
    """What `load_state_dict` did not find, and what it had no place for."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        return tuple.__repr__(self) if any(self) else "<All keys matched successfully>"


def load(module: Module, state_dict: Mapping[str, Any], strict: bool) -> IncompatibleKeys:
    """See Module.load_state_dict."""
    if not isinstance(state_dict, Mapping):
        raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
    own = module.state_dict(keep_vars=True)
    found = IncompatibleKeys([k for k in own if k not in state_dict], [k for k in state_dict if k not in own])
    errors = _mismatches(own, state_dict)
    if strict:
        errors[:0] = [
            f"{what} key(s) in state_dict: {', '.join(map(_quoted, keys))}. "
            for what, keys in (("Missing", found.missing_keys), ("Unexpected", found.unexpected_keys))
            if keys
        ]
    if errors:
        raise RuntimeError(f"Error(s) in loading state_dict for {type(module).__name__}:\n\t" + "\n\t".join(errors))
    with no_grad():
        for key, tensor in own.items():
            if key in state_dict:
                tensor.copy_(state_dict[key])
    return found


def _quoted(key: object) -> str:
    return f'"{key}"'


def _mismatches(own: dict[str, Tensor], state_dict: Mapping[str, Any]) -> list[str]:
    errors = []
    for key, tensor in own.items():
        if key not in state_dict:
            continue
        value = state_dict[key]
        if not isinstance(value, Tensor):
            errors.append(
                f'While copying the parameter named "{key}", expected Tensor from checkpoint but received {type(value)}'
            )
        elif value.shape != tensor.shape:
            errors.append(
                f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, "
                f"the shape in current model is {tensor.shape}."
            )
    return errors
