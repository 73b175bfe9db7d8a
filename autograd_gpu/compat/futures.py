"""Futures, as communication hooks return them."""

from ..distributed.work import Future, collect_all, wait_all
from ..missing_names import getattr_of

__all__ = ["Future", "collect_all", "wait_all"]
__getattr__ = getattr_of(__name__)
