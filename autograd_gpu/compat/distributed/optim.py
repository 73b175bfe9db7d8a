"""PyTorch's path of the optimizer with sharded state."""

from ...missing_names import getattr_of
from ...optim.zero_redundancy import ZeroRedundancyOptimizer

__all__ = ["ZeroRedundancyOptimizer"]
__getattr__ = getattr_of(__name__)
