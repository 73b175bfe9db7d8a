"""autograd_gpu: automatic differentiation for people who live in CuPy.

Tensors are NumPy arrays on the CPU and CuPy arrays on CUDA. Names and behaviour are PyTorch's where PyTorch has them.
"""

from math import e, inf, nan, pi
from typing import TYPE_CHECKING

from numpy import dtype

from . import (
    autograd,
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
    version,
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
    complex64,
    complex128,
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
from .backend.arrays.memory_format import Layout as layout
from .backend.arrays.memory_format import MemoryFormat as memory_format
from .backend.arrays.memory_format import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    preserve_format,
    sparse_coo,
    sparse_csc,
    sparse_csr,
    strided,
)
from .backend.cpu.threads import get_num_interop_threads, get_num_threads, set_num_interop_threads, set_num_threads
from .compat import import_paths
from .core.history.anomaly import is_anomaly_check_nan_enabled, is_anomaly_enabled, set_anomaly_enabled
from .core.printing import get_printoptions, set_printoptions
from .core.size import Size
from .core.tensor import Tensor
from .deterministic import (
    are_deterministic_algorithms_enabled,
    get_deterministic_debug_mode,
    is_deterministic_algorithms_warn_only_enabled,
    set_deterministic_debug_mode,
    use_deterministic_algorithms,
)
from .missing_names import getattr_of
from .modes import get_float32_matmul_precision, set_float32_matmul_precision
from .ops import *  # noqa: F403  an op's name stands once, in ops/__init__.py
from .ops.creation.tensor_types import CPU_TYPES, set_default_tensor_type
from .ops.storages import TypedStorage, UntypedStorage
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
from .version import __version__

if TYPE_CHECKING:
    from . import amp, distributed, distributions, func
    from .amp.autocast_mode import autocast, is_autocast_enabled
    from .amp.grad_scaler import GradScaler
    from .compat import accelerator, backends, compiler, jit
    from .compat.torch_name import as_torch
    from .compilation import compile
    from .cuda import Event as Event
    from .cuda import OutOfMemoryError as OutOfMemoryError
    from .cuda import Stream as Stream
    from .func.vmap import vmap

# PyTorch's other names of dtypes. Not among what `import *` gives, which would hide Python's int and float.
double, float, half = float64, float32, float16
cdouble, cfloat = complex128, complex64
long, int, short = int64, int32, int16
newaxis = None

__all__ = [
    "Generator",
    "GradScaler",
    "Size",
    "Tensor",
    "TypedStorage",
    "UntypedStorage",
    "__version__",
    "accelerator",
    "amp",
    "are_deterministic_algorithms_enabled",
    "as_torch",
    "autocast",
    "autograd",
    "backends",
    "bfloat16",
    "bool",
    "can_cast",
    "channels_last",
    "channels_last_3d",
    "compile",
    "compiler",
    "complex64",
    "complex128",
    "contiguous_format",
    "cuda",
    "device",
    "distributed",
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
    "get_deterministic_debug_mode",
    "get_float32_matmul_precision",
    "get_num_interop_threads",
    "get_num_threads",
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
    "is_autocast_enabled",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "jit",
    "layout",
    "linalg",
    "load",
    "logging",
    "manual_seed",
    "memory_format",
    "nan",
    "newaxis",
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
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision",
    "set_grad_enabled",
    "set_num_interop_threads",
    "set_num_threads",
    "set_printoptions",
    "set_rng_state",
    "sparse_coo",
    "sparse_csc",
    "sparse_csr",
    "special",
    "strided",
    "testing",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "use_deterministic_algorithms",
    "utils",
    "version",
    "vmap",
]  # fmt: skip
__all__ += ops.__all__
import_paths.install()
globals().update(CPU_TYPES)  # FloatTensor and the other old types
__all__ += list(CPU_TYPES)
globals().update({f"_foreach_{name}": getattr(foreach, name) for name in foreach.__all__})

if not TYPE_CHECKING:  # a type checker would accept any name
    __getattr__ = getattr_of(
        __name__, __config__="", amp="", distributed="", distributions="", func="", Event="cuda", GradScaler="amp",
        OutOfMemoryError="cuda", Stream="cuda", autocast="amp.autocast_mode", as_torch="compat.torch_name",
        compile="compilation", is_autocast_enabled="amp.autocast_mode", vmap="func",
    )  # fmt: skip


def __dir__() -> list[str]:
    return [*__all__, "cdouble", "cfloat", "double", "float", "half", "int", "long", "short"]
