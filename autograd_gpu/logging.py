"""The logs of the engine and of compiled calls.

`AUTOGRAD_GPU_LOGS="+autograd"` in the environment, or `set_logs(autograd=logging.DEBUG)`, prints one line per executed
node to stderr. The logger is `autograd_gpu.autograd.graph`, to which any handler may be attached instead. `compile`, of
the logger `autograd_gpu.compilation`, has a line for each program, and for each call that is traced anew.
"""

from __future__ import annotations

import logging as std
import os

from .compilation.compiled import LOGGER as COMPILATION
from .core.engine.observers import LOGGER

FORMAT = "%(asctime)s [%(levelname)s] %(message)s"
_LEVELS = {"+": std.DEBUG, "": std.INFO, "-": std.ERROR}
_LOGGERS = {"autograd": LOGGER, "compile": COMPILATION}
_handlers: dict[str, std.Handler] = {}


def set_logs(*, autograd: int | str | None = None, compile: int | str | None = None) -> None:
    """Sets the levels of logs, by number or name; below WARNING they are printed to stderr. WARNING for no argument.

    autograd: the engine's; DEBUG prints each node, its gradients and its skipped inputs. compile: that of `ag.compile`;
    INFO prints what was compiled, and why a call is traced anew.

    >>> import logging
    >>> ag.logging.set_logs(autograd=logging.WARNING, compile=logging.WARNING)
    """
    given = {"autograd": autograd, "compile": compile}
    for name, level in given.items():
        if level is not None or all(other is None for other in given.values()):
            _set(name, std.WARNING if level is None else level)


def _set(name: str, level: int | str) -> None:
    logger = _LOGGERS[name]
    logger.setLevel(level)
    shown = logger.level < std.WARNING
    if shown and name not in _handlers:
        handler = _handlers[name] = std.StreamHandler()
        handler.setFormatter(std.Formatter(FORMAT))
        logger.addHandler(handler)
    elif not shown and name in _handlers:
        logger.removeHandler(_handlers.pop(name))
    logger.propagate = name not in _handlers  # the root's handler would print each line again


def configure_from_environment() -> None:
    """Reads AUTOGRAD_GPU_LOGS: "+autograd" for DEBUG, "autograd" for INFO, "-autograd" for ERROR; so for compile."""
    for item in filter(None, os.environ.get("AUTOGRAD_GPU_LOGS", "").split(",")):
        sign = item[0] if item[0] in "+-" else ""
        if item.removeprefix(sign) not in _LOGGERS:
            raise ValueError(f"AUTOGRAD_GPU_LOGS: unknown log {item!r}; known: autograd, compile, with + or - in front")
        _set(item.removeprefix(sign), _LEVELS[sign])


LOGGER.setLevel(std.WARNING)  # so that a root logger at DEBUG does not print every node
configure_from_environment()
