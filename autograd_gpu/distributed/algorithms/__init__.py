"""What is built on collectives: uneven inputs (`join`), and communication hooks of DistributedDataParallel."""

from ...missing_names import getattr_of
from .join import Join, Joinable, JoinHook

__all__ = ["Join", "JoinHook", "Joinable"]
__getattr__ = getattr_of(__name__)
