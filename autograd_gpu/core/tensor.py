"""Tensor: an array with the node that receives its gradient. `ops/binding.py` adds the methods of the ops."""

from __future__ import annotations

import copy
import warnings
import weakref
from typing import Any

import numpy as np

from .. import backend, errors
from ..backend.arrays.dtypes import FLOATS, OURS, STORAGE, as_dtype
from ..backend.arrays.strides import deep_copied
from ..backend.cpu.pool import owns
from ..modes import INFERENCE, MODES, is_inference_mode_enabled
from .graph import hooks, journals
from .graph.leaf import AccumulateGrad, add_leaf_hook
from .graph.node import Node, add_tensor_hook, extra_of
from .graph.storage import INFERENCE_STORAGE, ReadOnlyStorage, storage_of, write_count
from .history.rebase import refresh, set_data
from .interop import Exchange
from .printing import tensor_repr


class Tensor(Exchange):
    """A NumPy array (CPU) or CuPy array (CUDA) with automatic differentiation.

    Created by `ag.tensor`, `ag.zeros` and the other factories; a call of the class is PyTorch's old constructor, see
    `construct` in ops/creation/tensor_types.py.

    >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """

    __slots__ = ("__dict__",)  # for a user's attributes; it adds about 10 ns to each creation

    _grad: Tensor | None
    _base: Tensor | None

    __hash__ = object.__hash__
    __array_priority__ = 1000.0  # CuPy arrays defer to us in `array * tensor`

    # ---- the array -----------------------------------------------------------------------------

    @property
    def data(self) -> Tensor:
        """A tensor with the same memory and no history (prefer `detach`).

        Assignment gives this tensor the memory of another one, of any shape, dtype and device; its history and version
        are unchanged.
        """
        result = alias(self)
        if not result.is_inference():
            result._storage = None
        return result

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
        if value.dtype != self.dtype and STORAGE & {value.dtype, self.dtype}:
            raise errors.codes_as_data(self.dtype, value.dtype)
        if self.requires_grad and value.dtype not in FLOATS:
            raise RuntimeError("data set to a tensor that requires gradients must be floating point or complex dtype")
        set_data(self, value)

    @data.deleter
    def data(self) -> None:
        raise RuntimeError("Deleting tensor data is not allowed. Delete tensor instead!")

    # ---- autograd ------------------------------------------------------------------------------

    @property
    def _node(self) -> Node | None:
        """The current node: `_fn`, after a refresh if this is a view whose base was written to."""
        if self._base is not None and self._seen != self._storage.version:  # type: ignore[union-attr]
            refresh(self)
        return self._fn

    @property
    def requires_grad(self) -> bool:
        """Whether operations on this tensor are recorded. Leaves can be set, other tensors have it from theirs."""
        base = self._base
        if self._fn is not None or base is None or base._fn is None:
            return self._fn is not None
        stale = self._seen != self._storage.version  # type: ignore[union-attr]
        return stale and base._array.dtype is self._array.dtype  # no refresh, which raises for some views

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Sets whether autograd computes a gradient for this leaf, and returns the leaf.

        RuntimeError for a result of recorded ops, for dtypes that are not floating point, and in function transforms.
        """
        if bool(requires_grad) != self.requires_grad and any(level.is_transform for level in MODES.stack):
            raise errors.requires_grad_in_transform()
        return self._set_requires_grad(requires_grad)

    def _set_requires_grad(self, requires_grad: bool) -> Tensor:
        """Does what `requires_grad_` does, also in transforms."""
        if not self.is_leaf:
            if requires_grad:
                return self
            raise RuntimeError("you can only change requires_grad flags of leaf variables. If you want to use a "
                               "computed variable in a subgraph that doesn't require differentiation use "
                               "var_no_grad = var.detach().")
        if not requires_grad:
            if isinstance(self._fn, AccumulateGrad) and self._fn.extra is not None:
                self._frozen = self._fn  # requires_grad = True restores its hooks
            self._fn = None
        elif self._fn is None:
            if self.dtype not in FLOATS:
                raise RuntimeError(f"only Tensors of floating point dtype can require gradients; got {self.dtype}")
            if self.is_inference() and not is_inference_mode_enabled():
                raise RuntimeError("Setting requires_grad=True on inference tensor outside InferenceMode is not "
                                   "allowed; clone() it first")
            self._fn = getattr(self, "_frozen", None) or AccumulateGrad(self)
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded operation made this tensor. Backward fills `.grad` of leaves."""
        node = self._node
        return node is None or type(node) is AccumulateGrad

    @property
    def grad_fn(self) -> Node | None:
        """The node that created this tensor; None for a leaf."""
        node = self._node
        return None if type(node) is AccumulateGrad else node

    @property
    def output_nr(self) -> int:
        """Which output of `grad_fn` this tensor is."""
        return 0 if self._node is None else max(self._nr - 1, 0)

    @property
    def grad(self) -> Tensor | None:
        """The accumulated gradient of a leaf or of a tensor with `retain_grad`; None before the first backward."""
        if self._grad is None and not self.is_leaf and not self.retains_grad:
            warnings.warn(errors.NO_LEAF_GRAD, stacklevel=2)
        return self._grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            if not isinstance(value, Tensor):
                kind = type(value).__name__
                raise TypeError(f"assigned grad expected to be a Tensor or None but got grad of type {kind}")
            if value is self:
                raise RuntimeError("can't assign Variable as its own grad")
            if not backend.is_array(value._array):
                raise errors.lifted_gradient()
            for what, theirs, own in (("size", list(value.shape), list(self.shape)),
                                     ("dtype", value.dtype, self.dtype), ("device", value.device, self.device)):
                if theirs != own:
                    raise errors.foreign_grad(what, theirs, own)
        if journals.OPEN:
            journals.note(self)
        self._grad = value

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    def detach(self) -> Tensor:
        """Returns a tensor with the same memory and version counter, without history, that does not require grad."""
        return alias(self)

    def _alias(self) -> Tensor:
        """Makes the result of `alias`."""
        result = wrap(self._array)
        result._storage = storage_of(self)
        return result

    @property
    def _version(self) -> int:
        """The number of in-place writes to the memory through any view. RuntimeError for an inference tensor."""
        if self.is_inference():
            raise RuntimeError("Inference tensors do not track version counter.")
        return write_count(self)

    @property
    def _cdata(self) -> int:
        """A number of this tensor, by PyTorch's private name: libraries compare it to see that two are the same one."""
        return id(self)

    def register_hook(self, hook: hooks.Hook) -> hooks.RemovableHandle:
        """Calls `hook(grad)` each time this tensor's gradient is computed; a returned tensor replaces it."""
        if self._node is None:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        return add_tensor_hook(self._fn, self._nr, hook)

    def register_post_accumulate_grad_hook(self, hook: hooks.Hook) -> hooks.RemovableHandle:
        """Calls `hook(tensor)` during backward, as soon as the gradient of this leaf has been accumulated."""
        if type(self._node) is not AccumulateGrad:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient" if self._fn is None
                               else "post accumulate grad hooks cannot be registered on non-leaf tensors")
        return add_leaf_hook(self._fn, self, hook)

    def retain_grad(self) -> None:
        """Makes backward store the `.grad` of this tensor although it is not a leaf."""
        if self._node is None:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        if not self.is_leaf:
            extra_of(self._fn).retained[self._nr] = weakref.ref(self)

    @property
    def retains_grad(self) -> bool:
        """Whether `retain_grad` was called, so that backward fills `.grad` of this tensor, which is no leaf."""
        return not self.is_leaf and self._fn.extra is not None and self._nr in self._fn.extra.retained  # type: ignore[union-attr]

    # ---- copies ----------------------------------------------------------------------------------

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if not self.is_leaf:
            raise RuntimeError("Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
                               "protocol; use .detach() first")
        array = self._array
        outside = self._storage is None or type(self._storage) is ReadOnlyStorage  # a slice may be that of a large file
        copied = array.copy() if outside and not owns(array) else deep_copied(backend.namespace(array), array, memo)
        result = memo[id(self)] = rebuild(type(self), copied, self.requires_grad, self._state())
        result._grad = copy.deepcopy(self._grad, memo)
        result.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return result

    def __reduce__(self) -> tuple[Any, ...]:  # what is not a leaf comes back as one, as in PyTorch
        return rebuild, (type(self), self._array, self.requires_grad, self._state()), self.__dict__ or None

    def _state(self) -> Any:
        """The state of a subclass besides the array, for copies and pickle."""
        return None

    # ---- Python --------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return tensor_repr(self)

    def __format__(self, spec: str) -> str:
        if self.ndim == 0:
            return format(self.item(), spec)
        return object.__format__(self, spec)  # the repr; with a spec a TypeError

    def __len__(self) -> int:
        if self.ndim == 0:
            raise TypeError("len() of a 0-d tensor")
        return self._array.shape[0]

    def __bool__(self) -> bool:
        if self._array.size != 1:
            raise RuntimeError(f"Boolean value of Tensor with {self._array.size} values is ambiguous; "
                               "use .any() or .all()")
        return bool(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        if self.dtype in FLOATS:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self.item())

    def __contains__(self, element: Any) -> bool:
        value = element.numpy(force=True) if isinstance(element, Tensor) else element
        return bool((self.numpy(force=True) == value).any())


class Parameter(Tensor):
    """A tensor that a Module registers as one of its parameters.

    Parameter(data, requires_grad=True) shares the memory of `data`, a Tensor or an array.

    >>> ag.nn.Parameter(ag.zeros(2)).requires_grad
    True
    """

    __slots__ = ()

    def __new__(cls, data: Any, requires_grad: bool = True) -> Parameter:
        if not isinstance(data, Tensor) and not backend.is_array(data):
            raise TypeError(f"Parameter expects a Tensor or an array, got {type(data).__name__}")
        tensor = data if isinstance(data, Tensor) else wrap_given(data)
        if isinstance(tensor, Float8Tensor):
            raise TypeError(f"a Parameter cannot hold the storage dtype {tensor.dtype}; use a buffer")
        result = rebuild(cls, tensor.array, requires_grad, None)
        result._storage = storage_of(tensor)
        return result

    def __init__(self, data: Any, requires_grad: bool = True) -> None:
        """Does nothing: __new__ does all the work."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        """Copies the values only, as PyTorch does: not the gradient, the attributes and shared memory."""
        result = memo[id(self)] = rebuild(type(self), self._array.copy("K"), self.requires_grad, None)
        return result


class Float8Tensor(Tensor):
    """A float8 tensor: uint8 codes and their dtype. It can be stored, moved and converted, but has no arithmetic."""

    __slots__ = ("_codes_dtype",)

    _codes_dtype: np.dtype

    @property
    def dtype(self) -> np.dtype:
        return self._codes_dtype

    def numpy(self, *, force: bool = False) -> np.ndarray:
        return super().numpy(force=force).view(self._codes_dtype)

    def _alias(self) -> Tensor:
        result = wrap_codes(self._array, self._codes_dtype)
        result._storage = storage_of(self)
        return result

    def _state(self) -> Any:
        return self._codes_dtype


_new = object.__new__


def wrap(array: Any, node: Node | None = None) -> Tensor:
    """Makes a Tensor from `array`, the only output of `node`."""
    result = _new(Tensor)
    result._array = array
    result._fn = node
    result._nr = 0
    result._grad = result._base = None
    result._storage = INFERENCE_STORAGE if MODES.bits & INFERENCE else None
    return result


def wrap_codes(codes: Any, dtype: np.dtype) -> Float8Tensor:
    """Makes a float8 tensor from uint8 `codes`."""
    result = object.__new__(Float8Tensor)
    result._array = codes
    result._codes_dtype = dtype
    result._fn = result._grad = result._base = None
    result._storage = INFERENCE_STORAGE if MODES.bits & INFERENCE else None
    result._nr = 0
    return result


def wrap_given(array: Any) -> Tensor:
    """Makes a constant with the memory of an array from outside, which `admitted` checks."""
    dtype = array.dtype
    ordinary = type(array) is np.ndarray and OURS.get(dtype) is dtype and array.flags.behaved  # aligned and writable
    array = array if ordinary else backend.admitted(array)
    result = wrap_codes(array.view(np.uint8), dtype) if dtype.itemsize == 1 and dtype in STORAGE else wrap(array)
    if not ordinary and backend.is_read_only(array) and result._storage is None:
        result._storage = ReadOnlyStorage()
    return result


def alias(tensor: Tensor) -> Tensor:
    """Makes a constant that shares memory and version counter with `tensor`."""
    return tensor._alias()


def as_subclass(tensor: Tensor, cls: type[Tensor]) -> Tensor:
    """Makes a leaf of class `cls` that shares memory and version counter with `tensor`, which has no history."""
    if not tensor.is_leaf:
        raise RuntimeError(f"a {cls.__name__} is made as a leaf, and this tensor has a history; detach() it first")
    result = rebuild(cls, tensor.array, tensor.requires_grad, None)
    result._storage = storage_of(tensor)
    return result


def rebuild(cls: type[Tensor], array: Any, requires_grad: bool, state: Any) -> Any:
    """Makes a leaf of class `cls`; pickle calls this."""
    known = as_dtype(array.dtype)
    result = object.__new__(cls)
    result._array = array if array.dtype is known else array.view(known)  # a pickled dtype is not NumPy's own object
    result._fn = result._grad = result._base = None
    result._storage = INFERENCE_STORAGE if MODES.bits & INFERENCE else None
    result._nr = 0
    if state is not None:
        result._codes_dtype = state  # type: ignore[attr-defined]
    return result._set_requires_grad(requires_grad)
