"""Saved-tensor hooks around a compiled call: what tells them apart, and their return for a call that comes again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..modes import MODES, SAVING
from .key import Unfit, word


def hooks_word() -> Any:
    """What the key of a call needs of the pair of hooks that is on; Unfit if that is not made of operations."""
    if not MODES.saving:
        return ()
    pair = MODES.saving[-1]
    hooks = pair.pack, pair.unpack
    if not all(getattr(hook, "_ag_inlineable", False) for hook in hooks):
        raise Unfit("it is called inside of saved-tensor hooks; mark both with ag.compile.inlineable if they are made "
                    "of operations only, or set them inside of the function")
    return tuple(map(_word, hooks))


def _word(hook: Any) -> Any:
    """A hook's `user_cache_hash`, or that of its owner, else its code with what it closes over, else itself."""
    owner = getattr(hook, "__self__", hook)
    named = getattr(owner, "user_cache_hash", None)
    if named is not None:
        return named
    code = getattr(hook, "__code__", None)
    if code is None or owner is not hook:
        return hook
    held = [cell.cell_contents for cell in hook.__closure__ or ()]
    held += [*(hook.__defaults__ or ()), *(hook.__kwdefaults__ or {}).values()]
    return code, *map(word, held)


@contextmanager
def saving_by(pairs: tuple[Any, ...]) -> Iterator[None]:
    """Has the hooks `pairs` on, and no others."""
    before, bits = MODES.saving, MODES.bits
    MODES.saving, MODES.bits = pairs, bits & ~SAVING | (SAVING if pairs else 0)
    try:
        yield
    finally:
        MODES.saving, MODES.bits = before, MODES.bits & ~SAVING | bits & SAVING
