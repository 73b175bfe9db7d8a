"""`nn.DataParallel` on one device, which calls the module; the other names are placeholders."""

from ....missing_names import getattr_of
from .data_parallel import DataParallel, data_parallel

__all__ = ["DataParallel", "data_parallel"]
__getattr__ = getattr_of(__name__)
