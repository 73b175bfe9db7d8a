"""cuDNN's settings, for compatibility: no operation uses cuDNN, so they have no effect.

* `deterministic`, `benchmark`, `enabled`, `allow_tf32` can be set and read. There is no autotuning, and products follow
  `ag.set_float32_matmul_precision`.
* On the CPU every operation is bitwise reproducible. On CUDA operations that add by atomics may differ in the last bits
  between runs, regardless of `deterministic`; `ag.use_deterministic_algorithms(True)` refuses them.
"""

from collections.abc import Iterator
from contextlib import contextmanager

deterministic = False
benchmark = False
enabled = True
allow_tf32 = True


@contextmanager
def flags(
    enabled: bool = False, benchmark: bool = False, benchmark_limit: int = 10, deterministic: bool = False,
    allow_tf32: bool = True,
) -> Iterator[None]:  # fmt: skip
    """Context with other settings, which have no effect; exit restores the former ones.

    >>> with ag.backends.cudnn.flags(deterministic=True):
    ...     ag.backends.cudnn.deterministic
    True
    """
    settings = {"enabled": enabled, "benchmark": benchmark, "deterministic": deterministic, "allow_tf32": allow_tf32}
    before = {name: globals()[name] for name in settings}
    globals().update(settings)
    try:
        yield
    finally:
        globals().update(before)


def is_available() -> bool:
    """Whether cuDNN is used: never.

    >>> ag.backends.cudnn.is_available()
    False
    """
    return False


def version() -> None:
    """The version of cuDNN: None, since none is used."""


__all__ = ["allow_tf32", "benchmark", "deterministic", "enabled", "flags", "is_available", "version"]
