"""PyTorch's private path of what it has in C++: the one name that libraries ask on the way, whether a trace is made."""

from ..missing_names import getattr_of

__all__ = ["_get_tracing_state"]
__getattr__ = getattr_of(__name__)


def _get_tracing_state() -> None:
    """None: nothing is traced, see `jit.is_tracing`.

    >>> ag._C._get_tracing_state() is None
    True
    """
