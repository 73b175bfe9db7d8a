"""`torch.distributed.distributed_c10d`, where programs import names that `distributed` has."""

from ...distributed import *  # noqa: F403
from ...missing_names import getattr_of

__getattr__ = getattr_of("autograd_gpu.distributed")
