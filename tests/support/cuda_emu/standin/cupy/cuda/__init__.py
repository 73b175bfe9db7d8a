"""cupy.cuda."""

from .. import _device, _graph, _hooks, _pinned, _pointers, _pool, _stream
from .._table import offer as _offer
from . import compiler as compiler
from . import device as device
from . import driver as driver
from . import function as function
from . import graph as graph
from . import memory as memory
from . import memory_hook as memory_hook
from . import nvtx as nvtx
from . import pinned_memory as pinned_memory
from . import runtime as runtime
from . import stream as stream

_NAMES = vars(_device) | vars(_graph) | vars(_hooks) | vars(_pinned) | vars(_pointers) | vars(_pool) | vars(_stream)
__getattr__ = _offer("cupy.cuda", _NAMES)
