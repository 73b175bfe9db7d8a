"""What is built on collectives: uneven inputs (`join`), and communication hooks of DistributedDataParallel."""

from .join import Join, Joinable, JoinHook

__all__ = ["Join", "JoinHook", "Joinable"]
