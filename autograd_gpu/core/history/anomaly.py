"""Anomaly mode: stores where each node was created, so that an error in backward can show it.

While the mode is on, operations run through `dispatch.general`, which calls `noted`. The engine treats every node as
one with hooks, and checks its gradients for NaN. The node's `metadata` holds the traceback, under PyTorch's keys.
"""

from __future__ import annotations

import os
import traceback
from pathlib import Path
from typing import Any

from ...modes import ANOMALY, MODES
from ..declare.op import RAW
from ..graph.node import Node
from ..graph.tensor_base import TensorBase
from ..thread_state import THREAD

TRACEBACK, PARENT = "traceback_", "parent_"
OURS = (f"{Path(__file__).parents[2]}{os.sep}", "<generated ")  # files of the library itself


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Turns anomaly detection on or off for this thread; see `ag.autograd.set_detect_anomaly`.

    >>> ag.set_anomaly_enabled(False)
    """
    thread = THREAD.state
    thread.anomaly, thread.check_nan = bool(mode), bool(check_nan)
    MODES.bits = MODES.bits | ANOMALY if mode else MODES.bits & ~ANOMALY


def is_anomaly_enabled() -> bool:
    """Whether anomaly detection is on in this thread.

    >>> ag.is_anomaly_enabled()
    False
    """
    return THREAD.state.anomaly


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly detection, when it is on, raises for NaN in a gradient.

    >>> ag.is_anomaly_check_nan_enabled()
    True
    """
    return THREAD.state.check_nan


def noted(outs: Any) -> Any:
    """Calls `note` for the node of a recorded operation's results, and returns the results."""
    node = next((t._fn for t in (outs if isinstance(outs, tuple) else (outs,)) if t._fn is not None), None)
    if node is not None:
        note(node)
    return outs


def note(node: Node) -> None:
    """In anomaly mode, stores where `node` was created, and by which running node (in a double backward)."""
    if not MODES.bits & ANOMALY or TRACEBACK in node.metadata:
        return
    stack = traceback.extract_stack()
    while len(stack) > 1 and stack[-1].filename.startswith(OURS):
        stack.pop()
    node.metadata[TRACEBACK] = traceback.format_list(stack)
    task = THREAD.state.task
    if task is not None and task.current is not None:
        node.metadata[PARENT] = task.current


def explain(error: BaseException, node: Node | None) -> None:
    """Adds notes to `error`, raised while `node` ran, that tell where the node was created."""
    if node is None:
        return
    stack = node.metadata.get(TRACEBACK)
    if stack is None:
        error.add_note(f"Error detected in {node.name()}. No forward pass information available. Enable detect anomaly "
                       "during forward pass for more information.")
    else:
        error.add_note(f"Error detected in {node.name()}. Traceback of forward call that caused the error:\n"
                       f"{''.join(stack)}")
    parent = node.metadata.get(PARENT)
    while parent is not None:
        stack = parent.metadata.get(TRACEBACK)
        error.add_note(f"Previous calculation was induced by {parent.name()}. " + (
            "No forward pass information available. Enable detect anomaly during forward pass for more information."
            if stack is None else
            f"Traceback of forward call that induced the previous calculation:\n{''.join(stack)}"))
        parent = parent.metadata.get(PARENT)


def check_nan(node: Node, grads: Any) -> None:
    """Raises RuntimeError, in anomaly mode, if a gradient that `node` returned contains NaN."""
    if not THREAD.state.check_nan:
        return
    for i, g in enumerate(grads):
        if g is not None and RAW.isnan(g._every_value() if isinstance(g, TensorBase) else g).any():
            raise RuntimeError(f"Function '{node.name()}' returned nan values in its {i}th output.")
