"""autograd_gpu: automatic differentiation for people who live in CuPy.

Tensors are NumPy arrays on the CPU and CuPy arrays on CUDA. Names and behaviour are PyTorch's where PyTorch has them.
"""

import importlib
from math import e, inf, nan, pi
from typing import TYPE_CHECKING, Any

from numpy import dtype

from . import (
    autograd,
    backends,
    cuda,
    foreach,
    hooks,
    linalg,
    logging,
    nn,
    ops,
    optim,
    profiler,
    random,
    special,
    testing,
    utils,
)
from .autograd import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .backend.arrays.device import Device as device
from .backend.arrays.device import get_default_device, set_default_device
from .backend.arrays.dtype_limits import can_cast, finfo, iinfo
from .backend.arrays.dtypes import (
    bfloat16,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    get_default_dtype,
    int8,
    int16,
    int32,
    int64,
    promote_types,
    set_default_dtype,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .backend.arrays.dtypes import bool_ as bool
from .backend.arrays.memory_format import MemoryFormat as memory_format
from .backend.arrays.memory_format import channels_last, channels_last_3d, contiguous_format, preserve_format
from .backend.arrays.tensor_types import set_default_tensor_type
from .config import get_float32_matmul_precision, set_float32_matmul_precision
from .core.history.anomaly import is_anomaly_check_nan_enabled, is_anomaly_enabled, set_anomaly_enabled
from .core.printing import get_printoptions, set_printoptions
from .core.size import Size
from .core.tensor import Tensor
from .ops import *  # noqa: F403  an op's name stands once, in ops/__init__.py
from .random import (
    Generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    rand,
    rand_like,
    randint,
    randint_like,
    randn,
    randn_like,
    randperm,
    seed,
    set_rng_state,
)
from .utils.serialization import load, save

if TYPE_CHECKING:
    from . import distributions, func

# PyTorch's other names of dtypes. Not among what `import *` gives, which would hide Python's int and float.
double, float, half = float64, float32, float16
long, int, short = int64, int32, int16

__version__ = "0.1.0"
__all__ = [
    "Generator",
    "Size",
    "Tensor",
    "__version__",
    "autograd",
    "backends",
    "bfloat16",
    "bool",
    "can_cast",
    "channels_last",
    "channels_last_3d",
    "contiguous_format",
    "cuda",
    "device",
    "distributions",
    "dtype",
    "e",
    "enable_grad",
    "finfo",
    "float8_e4m3fn",
    "float8_e5m2",
    "float16",
    "float32",
    "float64",
    "foreach",
    "func",
    "get_default_device",
    "get_default_dtype",
    "get_float32_matmul_precision",
    "get_printoptions",
    "get_rng_state",
    "hooks",
    "iinfo",
    "inf",
    "inference_mode",
    "initial_seed",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "linalg",
    "load",
    "logging",
    "manual_seed",
    "memory_format",
    "nan",
    "nn",
    "no_grad",
    "ops",
    "optim",
    "pi",
    "preserve_format",
    "profiler",
    "promote_types",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "random",
    "randperm",
    "save",
    "seed",
    "set_anomaly_enabled",
    "set_default_device",
    "set_default_dtype",
    "set_default_tensor_type",
    "set_float32_matmul_precision",
    "set_grad_enabled",
    "set_printoptions",
    "set_rng_state",
    "special",
    "testing",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "utils",
]  # fmt: skip
__all__ += ops.__all__

if not TYPE_CHECKING:  # a type checker would accept any name

    def __getattr__(name: str) -> Any:
        """Imports `func`, which alone needs optree, and `distributions` at their first use."""
        if name in ("func", "distributions"):
            return importlib.import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "double", "float", "half", "int", "long", "short"]
