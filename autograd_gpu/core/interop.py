"""Exports a tensor's values: as NumPy array, number or list, by DLPack and by the CUDA array interface."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import backend, errors
from ..backend.arrays import dlpack
from ..backend.arrays.dtypes import STORAGE, bfloat16
from ..modes import GRAD_OFF, MODES
from .graph.tensor_base import TensorBase
from .history.rebase import node_of

_NOT_EXPORTED = STORAGE | {bfloat16}


def _is_differentiated(x: TensorBase) -> bool:
    """Whether a transform that is on carries a derivative of x: a value that leaves would be a constant for it."""
    levels = getattr(x, "_tangents", ())
    return any(level in MODES.stack and getattr(level, "is_transform", True) for level in levels)


class Exchange(TensorBase):
    """The export methods of Tensor."""

    __slots__ = ()

    def numpy(self, *, force: bool = False) -> np.ndarray:
        """Returns the values as a NumPy array, which shares memory with a CPU tensor.

        RuntimeError if the tensor requires grad, except under `no_grad` and `inference_mode`, and if a transform
        differentiates it; TypeError if it is on a CUDA device. `force=True` detaches the tensor and copies it to the
        host instead.

        >>> ag.ones(2).numpy()
        array([1., 1.], dtype=float32)
        """
        if not force and not MODES.bits & GRAD_OFF and node_of(self) is not None:
            raise errors.needs_detach()
        if not force and MODES.stack and _is_differentiated(self):
            raise RuntimeError(f"Can't call numpy() on Tensor that {errors.IN_TRANSFORM}")
        array = self.array  # under vmap nobody can read it, wherever it is
        if not force and self.is_cuda:
            raise TypeError(f"can't convert a {self.device} tensor to numpy. Use tensor.cpu() to copy it to the host")
        return backend.to_numpy(array)

    def item(self) -> Any:
        """Returns the value of a one-element tensor as a Python number (synchronises a CUDA device)."""
        if self._array.size != 1:
            raise RuntimeError(f"a Tensor with {self._array.size} elements cannot be converted to Scalar")
        return self.numpy(force=True).item()

    def tolist(self) -> Any:
        """Returns the values as nested lists of Python numbers."""
        return self.numpy(force=True).tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy()
        return np.array(array, dtype=dtype, copy=copy)

    def __dlpack__(
        self, *, stream: int | None = None, max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None, copy: bool | None = None,
    ) -> Any:  # fmt: skip
        """Exports the memory to another library, as the array API says: on CUDA `stream` waits for the current stream.

        A tensor with negative strides is copied. BufferError if the tensor requires grad, for bfloat16 and float8,
        which NumPy and CuPy do not export, for read-only memory to a consumer that could not know, and if copy=False
        forbids a copy that is needed.
        """
        self._check_exportable()
        dtype = self.dtype
        if dtype in _NOT_EXPORTED:
            integers, size = ("int16", 2) if dtype.itemsize == 2 else ("uint8", 1)
            raise BufferError(f"a tensor of dtype {dtype} cannot be exported by DLPack; export t.view(ag.{integers}), "
                              f"and view these {size} bytes as {dtype} there, or export t.to(ag.float32)")
        return dlpack.exported(self.array, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if not self.is_cuda:
            raise AttributeError("a CPU tensor has no __cuda_array_interface__; use .numpy() or .cuda()")
        self._check_exportable()
        return self.array.__cuda_array_interface__

    def _check_exportable(self) -> None:
        if node_of(self) is not None:
            raise errors.NotExportable("Can't export tensors that require gradient, use tensor.detach()")
        if MODES.stack and _is_differentiated(self):
            raise errors.NotExportable(f"Can't export a tensor that {errors.IN_TRANSFORM}")
