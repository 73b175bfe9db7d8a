"""The engine's log.

`AUTOGRAD_GPU_LOGS="+autograd"` in the environment, or `set_logs(autograd=logging.DEBUG)`, prints one line per executed
node to stderr. The logger is `autograd_gpu.autograd.graph`, to which any handler may be attached instead.
"""

from __future__ import annotations

import logging as std
import os

from .core.engine.observers import LOGGER

FORMAT = "%(asctime)s [%(levelname)s] %(message)s"
_LEVELS = {"+": std.DEBUG, "": std.INFO, "-": std.ERROR}
_handler: list[std.Handler] = []


def set_logs(*, autograd: int | str = std.WARNING) -> None:
    """Sets the level of the engine's log, by number or name; below WARNING it is printed to stderr.

    DEBUG prints each node, its gradients and its skipped inputs.

    >>> import logging
    >>> ag.logging.set_logs(autograd=logging.WARNING)
    """
    LOGGER.setLevel(autograd)
    shown = LOGGER.level < std.WARNING
    if shown and not _handler:
        handler = std.StreamHandler()
        handler.setFormatter(std.Formatter(FORMAT))
        LOGGER.addHandler(handler)
        _handler.append(handler)
    elif not shown and _handler:
        LOGGER.removeHandler(_handler.pop())
    LOGGER.propagate = not _handler  # the root's handler would print each line again


def configure_from_environment() -> None:
    """Reads AUTOGRAD_GPU_LOGS: "+autograd" for DEBUG, "autograd" for INFO, "-autograd" for ERROR."""
    for item in filter(None, os.environ.get("AUTOGRAD_GPU_LOGS", "").split(",")):
        sign = item[0] if item[0] in "+-" else ""
        if item.removeprefix(sign) != "autograd":
            raise ValueError(f"AUTOGRAD_GPU_LOGS: unknown log {item!r}; known: autograd, with + or - in front")
        set_logs(autograd=_LEVELS[sign])


LOGGER.setLevel(std.WARNING)  # so that a root logger at DEBUG does not print every node
configure_from_environment()
