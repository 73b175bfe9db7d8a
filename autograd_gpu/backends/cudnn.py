"""cuDNN's settings, which programs set for PyTorch. No operation here uses cuDNN, so that they change nothing.

* `deterministic`, `benchmark`, `enabled`, `allow_tf32` may be set and read. Nothing is measured before it is chosen,
  and products follow `ag.set_float32_matmul_precision`.
* On the CPU every operation gives the same bits each time. On CUDA those that add by atomics (`index_add`,
  `scatter_add`, `bincount`, gradients of `embedding` and of indexing) may differ in the last bits between runs,
  whatever `deterministic` says.
"""

deterministic = False
benchmark = False
enabled = True
allow_tf32 = True


def is_available() -> bool:
    """Whether cuDNN is used: never.

    >>> ag.backends.cudnn.is_available()
    False
    """
    return False


def version() -> None:
    """The version of cuDNN: None, since none is used."""


__all__ = ["allow_tf32", "benchmark", "deterministic", "enabled", "is_available", "version"]
