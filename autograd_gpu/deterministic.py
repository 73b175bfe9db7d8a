"""The switch that refuses operations whose results may differ between runs: `use_deterministic_algorithms`.

On the CPU every operation gives the same bits each time. On CUDA the order of additions by atomics varies, and with it
the rounding of floating-point sums: of `index_add`, `scatter_add`, `index_put` with accumulate, `bincount` and
`histogram` with weights, and of the gradients of indexing, `gather`, `embedding` and overlapping `as_strided`. They
call `alert`.
Which of several elements for one place is written, by `scatter` and `index_put`, is undefined in any mode.
"""

from __future__ import annotations

import warnings

MODES = ("default", "warn", "error")


class _Setting:
    """The process-wide setting, since backward may run on other threads: an index into MODES."""

    mode = 0


def alert(operation: str) -> None:
    """RuntimeError, or a UserWarning, if the setting forbids what is not deterministic, such as `operation`."""
    if not _Setting.mode:
        return
    option = ", warn_only=True" if _Setting.mode == 1 else ""
    text = (f"{operation} does not have a deterministic implementation, but you set "
            f"'ag.use_deterministic_algorithms(True{option})'. ")
    if _Setting.mode == 1:
        warnings.warn(text + "Its sums on CUDA may differ in the last bits between runs.", UserWarning, stacklevel=3)
        return
    raise RuntimeError(text + "You can turn off determinism just for this operation, or you can use the "
                       "'warn_only=True' option, if that's acceptable for your application; on the CPU it is "
                       "deterministic.")


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Makes operations that are not deterministic on CUDA raise RuntimeError, or warn.

    They add by atomics; the head of autograd_gpu/deterministic.py lists them. Everything else is deterministic.

    >>> ag.use_deterministic_algorithms(True, warn_only=True)
    >>> ag.get_deterministic_debug_mode()
    1
    >>> ag.use_deterministic_algorithms(False)
    """
    for name, value in (("mode", mode), ("warn_only", warn_only)):
        if not isinstance(value, bool):
            raise TypeError(f"use_deterministic_algorithms(): argument '{name}' must be bool, not "
                            f"{type(value).__name__}")
    _Setting.mode = 0 if not mode else 1 if warn_only else 2


def are_deterministic_algorithms_enabled() -> bool:
    """Whether `use_deterministic_algorithms(True)` is set, with or without `warn_only`.

    >>> ag.are_deterministic_algorithms_enabled()
    False
    """
    return _Setting.mode > 0


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether operations that are not deterministic only warn.

    >>> ag.is_deterministic_algorithms_warn_only_enabled()
    False
    """
    return _Setting.mode == 1


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """The same switch as a number or word: 0 "default", 1 "warn", 2 "error". RuntimeError for another one.

    >>> ag.set_deterministic_debug_mode("default")
    """
    if isinstance(debug_mode, str):
        if debug_mode not in MODES:
            raise RuntimeError("invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got "
                               f"{debug_mode}")
        debug_mode = MODES.index(debug_mode)
    if isinstance(debug_mode, bool) or not isinstance(debug_mode, int):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    if debug_mode not in range(len(MODES)):
        raise RuntimeError(f"invalid value of debug_mode, expected 0, 1, or 2, but got {debug_mode}")
    _Setting.mode = debug_mode


def get_deterministic_debug_mode() -> int:
    """The setting: 0 for the default, 1 if operations that are not deterministic warn, 2 if they raise.

    >>> ag.get_deterministic_debug_mode()
    0
    """
    return _Setting.mode
