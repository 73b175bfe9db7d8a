"""cuDNN's settings, for compatibility: no operation uses cuDNN, so they have no effect.

* `deterministic`, `benchmark`, `enabled`, `allow_tf32` can be set and read. There is no autotuning, and products follow
  `ag.set_float32_matmul_precision`.
* On the CPU every operation is bitwise reproducible. On CUDA operations that add by atomics (`index_add`,
  `scatter_add`, `bincount`, gradients of `embedding` and of indexing) may differ in the last bits between runs,
  regardless of `deterministic`.
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
