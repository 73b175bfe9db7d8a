"""Communication hooks for `DistributedDataParallel.register_comm_hook`."""

from ....missing_names import getattr_of
from . import default_hooks

__all__ = ["default_hooks"]
__getattr__ = getattr_of(__name__)
