"""Training on several processes, `DistributedDataParallel`; `DataParallel` is for one device, and calls the module."""

from ...missing_names import getattr_of
from .data_parallel import DataParallel, data_parallel
from .distributed import DistributedDataParallel

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]
__getattr__ = getattr_of(__name__)
