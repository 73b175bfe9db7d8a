"""Activation checkpointing: recomputes saved tensors in backward by running the function again."""

from .determinism import CheckpointError, set_checkpoint_debug_enabled
from .entry import checkpoint, noop_context_fn
from .frame import set_checkpoint_early_stop
from .reentrant import CheckpointFunction, check_backward_validity, detach_variable
from .selective import CheckpointPolicy, SelectiveCheckpointContext, create_selective_checkpoint_contexts
from .sequential import checkpoint_sequential

__all__ = [
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "SelectiveCheckpointContext",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
]
