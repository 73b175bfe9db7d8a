"""Watcher: an interpreter that sees the calls of ops, and may replace their forward; for selective checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..declare.op import OpDef
from .interpreters import Interpreter, Result, lower

Forward = Callable[..., Any]


class Watcher(Interpreter):
    """Sees each call of an op on its thread. A subclass defines `around`."""

    is_transform = sees_backward = nests_reverse = False

    def around(
        self, op: OpDef, args: list[Any], attributes: dict[str, Any], forward: Forward
    ) -> tuple[Forward, Callable[[Any], None] | None]:
        """Returns the forward to continue with, and a function that is called with the result, or None."""
        raise NotImplementedError

    def run(
        self, op: OpDef, args: Sequence[Any], attributes: dict[str, Any],
        wrap: Callable[[Forward], Forward] | None = None,
    ) -> Result:  # fmt: skip
        """Runs a call; `wrap` is what watchers further inside make of a forward."""
        done: Callable[[Any], None] | None = None

        def wrapped(forward: Forward) -> Forward:
            nonlocal done
            mine, done = self.around(op, list(args), attributes, forward)
            return mine if wrap is None else wrap(mine)

        outs, extras = lower(op, args, attributes, wrapped)
        if done is not None:
            done(outs)
        return outs, extras
