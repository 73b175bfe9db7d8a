"""PyTorch's path of batch norm; `_BatchNorm` and `_NormBase` are its base classes."""

from ....missing_names import getattr_of
from ....nn.batchnorm import BatchNorm, BatchNorm1d, BatchNorm2d, BatchNorm3d, RunningNorm
from ....nn.sync_batchnorm import SyncBatchNorm

_BatchNorm = BatchNorm
_NormBase = RunningNorm

__all__ = ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm"]
__getattr__ = getattr_of(__name__)  # placeholders
