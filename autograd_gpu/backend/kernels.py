"""Our CUDA kernels: found, compiled and launched; one function per kernel, its NumPy reference beside it.

1. `INSTANCES` lists every instance of every template in kernels/*.cu, with the types that it takes.
2. The first launch of an instance on a device compiles its file for that device's architecture, or takes it from
   CuPy's cache on disk. Importing this module reads no file and no CuPy.
3. `_launch` is the only way to a kernel: it turns every argument into exactly the type that the kernel reads.

Arrays are CuPy's, contiguous and on the current device. All dimensions of a matrix but the last count as its rows.
"""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from . import counters, cuda
from .dtypes import HALF, bfloat16, float16, float32, float64, int64

Array = Any  # cupy.ndarray
Launch = tuple[tuple[int, int], tuple[int, int]]  # grid and block

# CuPy appends -ftz=true and NVRTC obeys the last word, so float32 and bfloat16 numbers below 1.2e-38 count as zeros
# here, as they do in all of CuPy's own kernels. Float16 keeps its subnormal numbers, being computed with in float32.
OPTIONS = ("-std=c++17",)

C_NAMES = {float32: "float", float64: "double", float16: "__half", bfloat16: "__nv_bfloat16"}
THREADS = 256  # in a block: kernels/include/matrix.cuh has the same number
VECTOR, LINE = 16, 128  # bytes of the widest load and of a cache line


# ---- what there is -----------------------------------------------------------------------------------


class Parameter(NamedTuple):
    """One parameter of a kernel: "read" (const T*), "write" (T*) or "scalar", as kernels/README.md has it."""

    name: str
    kind: str
    dtype: np.dtype
    optional: bool = False


class Instance(NamedTuple):
    """One instance of a kernel template."""

    file: str
    kernel: str
    parameters: tuple[Parameter, ...]


def wide(dtype: np.dtype) -> np.dtype:
    """The dtype that sums of `dtype` are made in."""
    return float32 if dtype in HALF else dtype


def _declare() -> Iterator[tuple[str, Instance]]:
    size = (Parameter("rows", "scalar", int64), Parameter("cols", "scalar", int64))
    for dtype, name in C_NAMES.items():
        x, out, dx = Parameter("x", "read", dtype), Parameter("out", "write", dtype), Parameter("dx", "write", dtype)
        g, result = Parameter("g", "read", dtype), Parameter("out", "read", dtype)
        bias, dbias = Parameter("bias", "read", dtype, optional=True), Parameter("dbias", "write", dtype, optional=True)
        partials = Parameter("partials", "write", wide(dtype), optional=True)
        for width in (VECTOR // dtype.itemsize, 1):
            forward, backward = (x, bias, out, *size), (g, result, dx, dbias, partials, *size)
            yield f"bias_relu<{name}, {width}>", Instance("bias_relu.cu", "bias_relu", forward)
            yield f"bias_relu_backward<{name}, {width}>", Instance("bias_relu.cu", "bias_relu_backward", backward)
            for target in C_NAMES:
                if target == dtype or wide(target) == dtype:
                    sums = (x, Parameter("out", "write", target), partials, *size)
                    types = f"{name}, {C_NAMES[target]}, {width}"
                    yield f"column_sum<{types}>", Instance("column_sum.cu", "column_sum", sums)


INSTANCES = dict(_declare())


def instances_of(file: str) -> tuple[str, ...]:
    """The instances of `file` by their C++ names, which is what compilers call name expressions."""
    return tuple([name for name, instance in INSTANCES.items() if instance.file == file])


# ---- finding and compiling ---------------------------------------------------------------------------


def folder() -> Path:
    """Where the .cu files are: inside an installed package, beside it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    for found in (package / "_kernels", package.parent / "kernels"):
        if found.is_dir():
            return found
    raise FileNotFoundError(
        f"the CUDA sources are missing: neither {package / '_kernels'} nor {package.parent / 'kernels'} exists; "
        "install autograd_gpu again, or use a full checkout"
    )


def source(file: str) -> str:
    """The text of `file`, with our own headers in place of the lines that include them.

    CuPy keys its cache of compiled kernels by the text: a changed header has to change it.
    """
    return "\n".join(_lines(folder() / file, set())) + "\n"


def _lines(path: Path, seen: set[Path]) -> Iterator[str]:
    seen.add(path)
    yield f'#line 1 "{path.name}"'
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        include = re.match(r'#include "(.+)"', line)
        if include is None:
            yield "" if line == "#pragma once" else line
            continue
        header = (path.parent / include[1]).resolve()
        if header not in seen:
            yield from _lines(header, seen)
            yield f'#line {number + 1} "{path.name}"'


_LOCK = threading.Lock()
_MODULES: dict[str, Any] = {}  # by file: cupy.RawModule
_FUNCTIONS: dict[tuple[str, int], Any] = {}  # by instance and device: cupy.RawKernel


def _function(name: str, device: int) -> Any:
    """The instance `name`, compiled for `device`, which is the current one."""
    key = (name, device)
    if key not in _FUNCTIONS:
        with _LOCK:
            if key not in _FUNCTIONS:
                _FUNCTIONS[key] = _compiled(name)
    return _FUNCTIONS[key]


def _compiled(name: str) -> Any:
    xp, file = cuda.cupy(), INSTANCES[name].file
    if file not in _MODULES:
        _MODULES[file] = xp.RawModule(code=source(file), options=OPTIONS, name_expressions=instances_of(file))
    try:
        return _MODULES[file].get_function(name)
    except xp.cuda.compiler.CompileException as error:
        arch = f"sm_{xp.cuda.Device().compute_capability}"
        raise RuntimeError(f"{folder() / file} does not compile for {arch}:\n{error}") from error


# ---- launching ---------------------------------------------------------------------------------------


def _launch(name: str, launch: Launch, *arguments: Any) -> None:
    """Runs the instance `name` on the current stream; an empty grid does nothing."""
    grid, block = launch
    if 0 in grid:
        return
    _, kernel, parameters = INSTANCES[name]
    device = cuda.cupy().cuda.runtime.getDevice()
    typed = [_typed(kernel, p, value, device) for p, value in zip(parameters, arguments, strict=True)]
    _function(name, device)(grid, block, tuple(typed))
    if counters.ACTIVE:
        counters.launch(kernel)


def _typed(kernel: str, parameter: Parameter, value: Any, device: int) -> Any:
    """`value` as exactly what `parameter` takes: a NumPy scalar, or an array that was checked."""
    name, kind, dtype, optional = parameter
    if kind == "scalar":
        return dtype.type(value)
    if value is None and optional:
        return None  # CuPy passes a null pointer
    if value.dtype != dtype:
        raise TypeError(f"{kernel}: {name} must be {dtype}, not {value.dtype}; convert it with astype")
    if not value.flags.c_contiguous:
        raise ValueError(f"{kernel}: {name} must be contiguous; copy it with cupy.ascontiguousarray")
    if value.device.id != device:
        raise RuntimeError(
            f"{kernel}: {name} is on cuda:{value.device.id}, but the current device is cuda:{device}; "
            f"call inside `with cupy.cuda.Device({value.device.id}):`"
        )
    return value


def _check_array(kernel: str, name: str, array: Array, shape: tuple[int, ...] | None = None) -> None:
    if not isinstance(array, cuda.cupy().ndarray):
        raise TypeError(f"{kernel}: {name} must be a CuPy array, not {type(array).__name__}; move it with cupy.asarray")
    if shape is not None and array.shape != shape:
        raise ValueError(f"{kernel}: {name} must have shape {shape}, not {array.shape}")


def _c_name(kernel: str, dtype: np.dtype) -> str:
    if dtype not in C_NAMES:
        raise TypeError(f"{kernel}: dtype {dtype} is not supported; use one of {', '.join(map(str, C_NAMES))}")
    return C_NAMES[dtype]


def _size(kernel: str, x: Array) -> tuple[int, int]:
    """Rows and columns of `x`."""
    if not x.ndim:
        raise ValueError(f"{kernel}: a matrix has at least one dimension, and this array has none; reshape it")
    cols = x.shape[-1]
    return x.size // max(cols, 1), cols


def _width(cols: int, itemsize: int, *matrices: Array | None) -> int:
    """How many columns a thread takes at once: 16 bytes' worth if rows and addresses allow it, else one."""
    width = VECTOR // itemsize
    if cols % width:
        return 1
    for array in matrices:
        if array is not None and array.data.ptr % VECTOR:
            return 1
    return width


# Chosen by latency and bandwidth of sm_80 to sm_100, not by measurements.
ROWS_PER_THREAD = 2  # of a kernel that sums nothing: all its loads in flight at once
LONGEST_WALK = 16  # rows per thread of one that sums: beyond it a second launch is cheaper
ROWS_PER_PART = 8  # rows per thread in a sum of two stages
MOST_BLOCKS = 1024  # of its first stage: enough for the largest GPU, and little work for the second
MOST_PARTS = 65535  # CUDA's limit of gridDim.y


def _power_of_two(n: int) -> int:
    """The smallest power of two from `n` up; 1 for 0."""
    return 1 << max(n - 1, 0).bit_length()


def _block(rows: int, cols: int, width: int, itemsize: int) -> tuple[int, tuple[int, int]]:
    """How many blocks are as wide as the matrix, and the shape of one; see kernels/include/matrix.cuh.

    A row of a block is one cache line; less if the matrix is narrower, more if it has too few rows to fill the block.
    """
    strips = cols // width
    across = min(_power_of_two(strips), max(LINE // (width * itemsize), THREADS // _power_of_two(rows)))
    return -(-strips // across), (across, THREADS // across)


@functools.lru_cache(4096)
def tiles(rows: int, cols: int, width: int, itemsize: int) -> Launch:
    """Grid and block of a kernel that sums nothing."""
    blocks, block = _block(rows, cols, width, itemsize)
    return (blocks, min(-(-rows // (block[1] * ROWS_PER_THREAD)), MOST_PARTS)), block


@functools.lru_cache(4096)
def sum_tiles(rows: int, cols: int, width: int, itemsize: int, stages: int = 2) -> Launch:
    """Grid and block of a kernel that sums columns: grid[1] is 1 where one stage is enough, or is asked for."""
    blocks, block = _block(rows, cols, width, itemsize)
    if stages == 1 or rows <= block[1] * LONGEST_WALK:
        return (blocks, 1), block
    parts = min(-(-rows // (block[1] * ROWS_PER_PART)), MOST_BLOCKS // max(blocks, 1))
    return (blocks, max(parts, 1)), block


# ---- relu(x + bias) ----------------------------------------------------------------------------------


def bias_relu(x: Array, bias: Array | None = None, out: Array | None = None) -> Array:
    """relu(x + bias) for x (..., cols) and bias (cols,) or None; `out` may be `x`. The relu of NaN is NaN."""
    _check_array("bias_relu", "x", x)
    name = _c_name("bias_relu", x.dtype)
    out = cuda.cupy().empty(x.shape, x.dtype) if out is None else out
    _check_array("bias_relu", "out", out, x.shape)
    if bias is None:
        rows, cols = 1, x.size
    else:
        rows, cols = _size("bias_relu", x)
        _check_array("bias_relu", "bias", bias, (cols,))
    width = _width(cols, x.itemsize, x, out, bias)
    launch = tiles(rows, cols, width, x.itemsize)
    _launch(f"bias_relu<{name}, {width}>", launch, x, bias, out, rows, cols)
    return out


def bias_relu_reference(x: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    total = x.astype(wide(x.dtype))
    if bias is not None:
        total += bias
    return np.where(total <= 0, 0, total).astype(x.dtype)


def bias_relu_backward(
    g: Array, out: Array, dx: Array | None = None, need_bias: bool = True
) -> tuple[Array, Array | None]:
    """The gradients of `bias_relu` for x and bias, from that of its result `out`; `dx` may be `g`.

    As in PyTorch, the gradient passes where `out` is NaN.
    """
    _check_array("bias_relu_backward", "out", out)
    xp, dtype = cuda.cupy(), out.dtype
    name = _c_name("bias_relu_backward", dtype)
    dx = xp.empty(out.shape, dtype) if dx is None else dx
    _check_array("bias_relu_backward", "g", g, out.shape)
    _check_array("bias_relu_backward", "dx", dx, out.shape)
    rows, cols = _size("bias_relu_backward", out) if need_bias else (1, out.size)
    width = _width(cols, out.itemsize, g, out, dx)
    dbias = xp.empty((cols,), dtype) if need_bias else None
    launch = (sum_tiles if need_bias else tiles)(rows, cols, width, out.itemsize)
    parts = launch[0][1]
    partials = xp.empty((parts, cols), wide(dtype)) if need_bias and parts > 1 else None
    _launch(f"bias_relu_backward<{name}, {width}>", launch, g, out, dx, dbias, partials, rows, cols)
    if partials is not None:
        _column_sum(partials, dbias, stages=1)
    return dx, dbias


def bias_relu_backward_reference(g: np.ndarray, out: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    dx = np.where(out.astype(wide(out.dtype)) <= 0, g.dtype.type(0), g)
    return dx, column_sum_reference(dx)


# ---- column sum --------------------------------------------------------------------------------------


def column_sum(x: Array, out: Array | None = None) -> Array:
    """The sum of x (..., cols) over all dimensions but the last: (cols,).

    Half types are summed in float32. The order of the additions depends on shape, dtype and alignment, and on nothing
    else: the same array gives the same bits every time.
    """
    _check_array("column_sum", "x", x)
    _, cols = _size("column_sum", x)
    out = cuda.cupy().empty((cols,), x.dtype) if out is None else out
    _check_array("column_sum", "out", out, (cols,))
    if out.dtype != x.dtype:
        raise TypeError(f"column_sum: out must be {x.dtype} like x, not {out.dtype}")
    _column_sum(x, out, stages=2)
    return out


def column_sum_reference(x: np.ndarray) -> np.ndarray:
    return x.sum(axis=tuple(range(x.ndim - 1)), dtype=wide(x.dtype)).astype(x.dtype)


def _column_sum(x: Array, out: Array, stages: int) -> None:
    types = f"{_c_name('column_sum', x.dtype)}, {_c_name('column_sum', out.dtype)}"
    rows, cols = _size("column_sum", x)
    width = _width(cols, x.itemsize, x)
    launch = sum_tiles(rows, cols, width, x.itemsize, stages)
    parts = launch[0][1]
    partials = cuda.cupy().empty((parts, cols), wide(x.dtype)) if parts > 1 else None
    _launch(f"column_sum<{types}, {width}>", launch, x, out, partials, rows, cols)
    if partials is not None:
        _column_sum(partials, out, stages=1)
