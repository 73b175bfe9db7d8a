"""cupy.ndarray: a plain class around a NumPy view of device memory, so that no NumPy function takes it by accident."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from . import _clock, _sync
from ._access import access, check_device, pinned_access, upload
from ._emulation import SETTINGS
from ._memory import view
from ._pointers import MemoryPointer, UnownedMemory
from ._pool import alloc
from ._state import current_device, current_queue, queue_of

_SUPPORTED = frozenset("?bhilqBHILQefdFD")
_host_memory = np.empty if SETTINGS.computes else np.zeros
SCALARS = (bool, int, float, complex, np.generic)


class ndarray:
    """Array on a device; see numpy.ndarray, and CuPy's documentation for the differences."""

    __slots__ = ("__weakref__", "_a", "_span", "base", "data")
    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self, shape: Any, dtype: Any = float, memptr: Any = None, strides: Any = None, order: str | None = "C"
    ) -> None:
        shape = (operator.index(shape),) if np.isscalar(shape) else tuple(map(operator.index, shape))
        if any(size < 0 for size in shape):
            raise ValueError("Negative dimensions are not allowed")
        dtype = supported(dtype)
        self.data = alloc(math.prod(shape) * dtype.itemsize) if memptr is None else memptr
        self._a = view(self.data.ptr, shape, dtype, strides, (order or "C").upper())
        self.base = None
        self._span = None

    # ---- what it is ------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        return self._a.shape

    @shape.setter
    def shape(self, shape: Any) -> None:
        raw = self._a.reshape(shape)
        if raw.size and not np.may_share_memory(raw, self._a):
            raise AttributeError("incompatible shape")
        self._a = raw

    @property
    def dtype(self) -> np.dtype:
        return self._a.dtype

    @property
    def ndim(self) -> int:
        return self._a.ndim

    @property
    def size(self) -> int:
        return self._a.size

    @property
    def strides(self) -> tuple[int, ...]:
        return self._a.strides

    @property
    def itemsize(self) -> int:
        return self._a.itemsize

    @property
    def nbytes(self) -> int:
        return self._a.nbytes

    @property
    def flags(self) -> Flags:
        return Flags(self)

    @property
    def _c_contiguous(self) -> bool:
        return self._a.flags.c_contiguous

    @property
    def device(self) -> Any:
        return self.data.device

    @property
    def T(self) -> ndarray:
        return self if self._a.ndim < 2 else viewed(self, self._a.T)

    @property
    def mT(self) -> ndarray:
        if self._a.ndim < 2:
            raise ValueError("matrix transpose with ndim < 2 is undefined")
        return viewed(self, self._a.swapaxes(-1, -2))

    @property
    def real(self) -> ndarray:
        return viewed(self, self._a.real) if self._a.dtype.kind == "c" else self

    @real.setter
    def real(self, value: Any) -> None:
        self.real[...] = value

    @property
    def imag(self) -> ndarray:
        return viewed(self, self._a.imag) if self._a.dtype.kind == "c" else new(self.shape, self.dtype, fill=0)

    @imag.setter
    def imag(self, value: Any) -> None:
        if self._a.dtype.kind != "c":
            raise TypeError("cupy.ndarray does not have imaginary part to set")
        self.imag[...] = value

    def __len__(self) -> int:
        if not self._a.ndim:
            raise TypeError("len() of unsized object")
        return len(self._a)

    def __iter__(self) -> Iterator[ndarray]:
        if not self._a.ndim:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(len(self._a)))

    # ---- other libraries -------------------------------------------------------------------------------

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape, "typestr": self.dtype.str, "descr": self.dtype.descr, "version": 3,
            "strides": None if self._a.flags.c_contiguous else self.strides,
            "data": (self.data.ptr if self._a.size else 0, False), "stream": current_queue().handle or 1,
        }  # fmt: skip

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any:
        if dl_device not in (None, self.__dlpack_device__()) and tuple(dl_device) != (1, 0):
            raise BufferError("unsupported device requested.")
        if dl_device is not None and tuple(dl_device) == (1, 0):
            return self.get().__dlpack__(max_version=max_version)
        if copy is True:
            raise BufferError("copy=True only supported for copy to CPU.")
        if stream is not None and (not isinstance(stream, int) or stream < -1 or stream == 0):
            raise ValueError(f"On CUDA, the valid stream for the DLPack protocol is -1, 1, 2, or any larger value, but "
                             f"{stream} was provided")
        consumer, producer = 1 if stream is None else stream, current_queue()
        if consumer not in (-1, producer.handle or 1):
            queue_of(0 if consumer == 1 else consumer).follow(producer.push(lambda: None, "event"))
        return Exported(self)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.data.device_id

    def __array__(self, dtype: Any = None) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct a NumPy "
                        "array explicitly.")

    def __copy__(self) -> ndarray:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> ndarray:
        with self.device:
            return self.copy()

    # ---- to and from the host --------------------------------------------------------------------------

    def get(self, stream: Any = None, order: str = "C", out: Any = None, blocking: bool = True) -> np.ndarray:
        """A copy in host memory; with blocking=False the caller waits before reading it."""
        raw = self._a
        if out is not None:
            self._check_out(out)
        elif not raw.size:
            return np.ndarray(raw.shape, raw.dtype)
        else:
            order = order.upper()
            fortran = order == "F" or (order == "A" and raw.flags.f_contiguous and not raw.flags.c_contiguous)
            out = _host_memory(raw.shape, raw.dtype, order="F" if fortran else "C")
        queue = current_queue(stream)
        if queue.capture is not None:
            raise RuntimeError("the current stream is capturing, so D2H transfers are disallowed")
        _sync.declare()
        accesses = [access(self, False)]
        pinned = pinned_access(out, True)
        target = out
        if pinned is not None:
            target = pinned[3]
            accesses.append(pinned)
        queue.push(lambda: np.copyto(target, raw), "device to host copy", accesses)
        if blocking or pinned is None:
            queue.synchronize()
        return out

    def _check_out(self, out: Any) -> None:
        if not isinstance(out, np.ndarray):
            raise TypeError("Only numpy.ndarray can be obtained fromcupy.ndarray")
        if self.dtype != out.dtype:
            raise TypeError(f"{out.dtype} array cannot be obtained from {self.dtype} array")
        if self.shape != out.shape:
            raise ValueError(f"Shape mismatch. Expected shape: {self.shape}, actual shape: {out.shape}")
        if not out.flags.forc:
            raise RuntimeError("`out` cannot be specified when copying to non-contiguous ndarray")

    def set(self, arr: Any, stream: Any = None) -> None:
        """Copies a NumPy array of the same shape and dtype; pinned memory is read when the stream gets there."""
        if not isinstance(arr, np.ndarray):
            raise TypeError("Only numpy.ndarray can be set to cupy.ndarray")
        if self.dtype != arr.dtype:
            raise TypeError(f"{arr.dtype} array cannot be set to {self.dtype} array")
        if self.shape != arr.shape:
            raise ValueError(f"Shape mismatch. Old shape: {self.shape}, new shape: {arr.shape}")
        if not self._a.flags.forc:
            raise RuntimeError("Cannot set to non-contiguous array")
        upload(self, arr, stream)

    def item(self) -> Any:
        return self.get().item()

    def tolist(self) -> Any:
        return self.get().tolist()

    def tobytes(self, order: str = "C") -> bytes:
        return self.get().tobytes(order)

    def dumps(self) -> bytes:
        return self.get().dumps()

    def dump(self, file: Any) -> None:
        self.get().dump(file)

    def tofile(self, fid: Any, sep: str = "", format: str = "%s") -> None:
        self.get().tofile(fid, sep, format)

    def __bool__(self) -> bool:
        if self._a.size > 1:
            raise ValueError("The truth value of an array with more than one element is ambiguous. Use a.any() or "
                             "a.all()")
        if not self._a.size:
            warnings.warn("The truth value of an empty array is ambiguous. Returning False, but in future this will "
                          "result in an error. Use `array.size > 0` to check that an array is not empty.",
                          DeprecationWarning, stacklevel=2)
            return False
        return bool(self.get())

    def __int__(self) -> int:
        return int(self.get())

    def __float__(self) -> float:
        return float(self.get())

    def __complex__(self) -> complex:
        return complex(self.get())

    def __bytes__(self) -> bytes:
        return bytes(self.get())

    def __repr__(self) -> str:
        return repr(self.get())

    def __str__(self) -> str:
        return str(self.get())

    def __format__(self, spec: str) -> str:
        return format(self.get(), spec)

    # ---- new arrays ------------------------------------------------------------------------------------

    def view(self, dtype: Any = None, type: Any = None) -> ndarray:
        if dtype is ndarray or dtype is None:
            return viewed(self, self._a, type)
        return viewed(self, self._a.view(np.dtype(dtype)))

    def copy(self, order: str = "C") -> ndarray:
        return copied(self, self.dtype, order)

    def astype(
        self, dtype: Any, order: str | None = "K", casting: Any = None, subok: Any = None, copy: bool = True
    ) -> ndarray:
        if casting is not None:
            raise TypeError("casting is not supported yet")
        if subok is not None:
            raise TypeError("subok is not supported yet")
        dtype, flags = np.dtype(dtype), self._a.flags
        order = (order or "K").upper()
        same = order == "K" or flags[f"{'C' if order == 'A' else order}_CONTIGUOUS"] or (order == "A" and flags.forc)
        if not copy and dtype == self.dtype and same:
            return self
        return copied(self, dtype, order)

    def fill(self, value: Any) -> None:
        found = as_array(value)
        if found is None:
            value = np.array(value, self.dtype)  # a kernel argument: read at the call, not when it runs
            if value.shape:
                raise ValueError("non-scalar numpy.ndarray cannot be used for fill")
        elif found.shape:
            raise ValueError("non-scalar cupy.ndarray cannot be used for fill")
        raw, source = self._a, value if found is None else found._a
        accesses = [access(self, True)] if found is None else [access(self, True), access(found, False)]
        kernels = 1 if found is None else 2  # CuPy compares a value on the device with 0, and waits for the answer
        by_memset = raw.flags.c_contiguous and raw.dtype.type is not np.void  # where the value is zero, of either sign
        check_device(self)

        def run() -> None:
            filled = np.asarray(source).astype(raw.dtype)
            raw[...] = np.zeros((), raw.dtype) if by_memset and filled == 0 else filled

        current_queue().push(run, "fill", accesses, kernels)

    def reduced_view(self, dtype: Any = None) -> ndarray:
        return viewed(self, self._a.reshape(-1)) if self._a.flags.c_contiguous else self


class Flags:
    """ndarray.flags: contiguity and ownership."""

    def __init__(self, array: ndarray) -> None:
        flags = array._a.flags
        self.c_contiguous, self.f_contiguous, self.owndata = flags.c_contiguous, flags.f_contiguous, array.base is None

    @property
    def fnc(self) -> bool:
        return self.f_contiguous and not self.c_contiguous

    @property
    def forc(self) -> bool:
        return self.f_contiguous or self.c_contiguous

    def __getitem__(self, name: str) -> bool:
        if name not in ("C_CONTIGUOUS", "F_CONTIGUOUS", "OWNDATA"):
            raise KeyError(f"{name} is not defined for cupy.ndarray.flags")
        return getattr(self, name.lower())


class Exported:
    """What __dlpack__ gives: only from_dlpack of this package can take it, since no other library sees the device."""

    def __init__(self, array: ndarray) -> None:
        self.array = array


# ---- making arrays -------------------------------------------------------------------------------------


def supported(dtype: Any) -> np.dtype:
    """`dtype` as NumPy's, if a device can hold it."""
    dtype = np.dtype(dtype)
    if dtype.char in _SUPPORTED or dtype.name == "bfloat16" or (dtype.type is np.void and dtype.itemsize):
        return dtype
    raise ValueError(f"Unsupported dtype {dtype}")


def new(shape: tuple[int, ...], dtype: Any, strides: tuple | None = None, fill: Any = None) -> ndarray:
    """A new array, unset unless `fill` is given; `strides` count elements."""
    array = ndarray.__new__(ndarray)
    if dtype.char not in _SUPPORTED:
        supported(dtype)
    array.data = alloc(math.prod(shape) * dtype.itemsize)
    if strides is not None:
        strides = tuple([stride * dtype.itemsize for stride in strides])
    array._a = view(array.data.ptr, shape, dtype, strides)
    array.base = array._span = None
    if fill is not None:
        array.fill(fill)
    return array


def viewed(base: ndarray, raw: np.ndarray, kind: type[ndarray] | None = None) -> ndarray:
    """An array over the part `raw` of the memory of `base`."""
    kind = kind or ndarray
    array = kind.__new__(kind)
    array._a, array.base, array._span = raw, base if base.base is None else base.base, None
    data = base.data
    offset = raw.__array_interface__["data"][0] - data.ptr if raw.size else 0
    array.data = data + offset if offset and data.ptr else data
    return array


def copied(source: ndarray, dtype: np.dtype, order: str | None = "K") -> ndarray:
    """A new array with the values of `source`, on the current device."""
    raw = source._a
    strides = None  # row-major
    if not raw.flags.c_contiguous or order == "F":
        strides = np.empty_like(raw, dtype=np.bool_, order=order or "K").strides
    array = new(raw.shape, supported(dtype), strides=strides)
    target = array._a
    current_queue().push(
        lambda: np.copyto(target, raw, casting="unsafe"), "copy", [access(array, True), access(source, False)]
    )
    return array


def as_array(value: Any) -> ndarray | None:
    """`value` if it is a device array, a view of what it exports if it is like one, else None."""
    if isinstance(value, ndarray):
        return value
    get = getattr(value, "__cupy_get_ndarray__", None)
    if get is not None:
        return get()
    exported = getattr(value, "__cuda_array_interface__", None)
    if exported is None:
        return None
    (ptr, _), dtype = exported["data"], np.dtype(exported["typestr"])
    raw = view(ptr, tuple(exported["shape"]), dtype, exported.get("strides"))
    low, high = _clock.span(raw, ptr)
    memory = UnownedMemory(ptr, high - low, value, current_device())
    return ndarray(raw.shape, dtype, MemoryPointer(memory, 0), raw.strides)
