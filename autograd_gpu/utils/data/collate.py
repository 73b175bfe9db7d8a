"""Batches of samples: tensors are stacked, numbers become tensors, containers keep their structure."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from ...backend import admitted, is_array, namespace
from ...core.tensor import Tensor
from ...ops import stack
from ...ops.creation.from_data import as_tensor, tensor

_REFUSED = "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"


def default_collate(batch: Any) -> Any:
    """Collates samples into a batch: the result has the structure of a sample, with a batch in place of each leaf.

    Tensors and arrays of equal shape are stacked. Integers and bools become a tensor, floats one of float64, as in
    PyTorch; strings and bytes stay in a list. Mappings keep their type and the keys of the first sample, namedtuples
    and lists keep their type, tuples become lists.

    RuntimeError for samples of different lengths or shapes, TypeError for any other type.

    >>> ag.utils.data.default_collate([(1.0, {"a": 2}), (3.0, {"a": 4})])
    [tensor([1., 3.], dtype=float64), {'a': tensor([2, 4])}]
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return stack(batch)
    if is_array(first):
        return _stacked_arrays(batch)
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, (bool, np.bool_, int, np.number)) and not isinstance(first, float):
        return tensor(np.asarray(batch)) if isinstance(first, np.generic) else tensor(batch)
    if isinstance(first, float):
        return tensor(batch, dtype=np.dtype("float64"))
    if isinstance(first, Mapping):
        return _same_mapping(first, {key: default_collate([sample[key] for sample in batch]) for key in first})
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        return _same_sequence(first, [default_collate(column) for column in zip(*batch, strict=True)])
    raise TypeError(_REFUSED.format(type(first)))


def default_convert(data: Any) -> Any:
    """`data` with each array and NumPy number in it as a tensor; the collate_fn of a DataLoader with batch_size=None.

    Containers are treated as by `default_collate`; everything else stays as it is.

    >>> ag.utils.data.default_convert({"a": np.ones(2), "name": "one"})
    {'a': tensor([1., 1.], dtype=float64), 'name': 'one'}
    """
    if isinstance(data, Tensor):
        return data
    if is_array(data) or isinstance(data, np.generic):
        return data if data.dtype.kind in "SUO" else as_tensor(data)
    return in_containers(default_convert, data)


def in_containers(convert: Callable[[Any], Any], data: Any) -> Any:
    """`data` with `convert` applied to what its mapping or sequence holds; strings and other objects stay."""
    if isinstance(data, (str, bytes)):
        return data
    if isinstance(data, Mapping):
        return _same_mapping(data, {key: convert(value) for key, value in data.items()})
    if isinstance(data, Sequence):
        return _same_sequence(data, [convert(value) for value in data])
    return data


def _stacked_arrays(batch: Sequence[Any]) -> Tensor:
    """NumPy or CuPy arrays as one tensor; NumPy arrays go to the default device."""
    if batch[0].dtype.kind in "SUO":
        raise TypeError(_REFUSED.format(batch[0].dtype))
    arrays = [admitted(sample) if is_array(sample) else sample for sample in batch]
    first = arrays[0]
    if all(is_array(array) and array.shape == first.shape and array.dtype == first.dtype for array in arrays):
        return tensor(namespace(first).stack(arrays))
    return stack([as_tensor(array) for array in arrays])  # promotes dtypes, or says which shapes differ


def _same_mapping(like: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    """`items` in a mapping of the type of `like`, or in a dict if the type cannot be made of items."""
    try:
        if isinstance(like, MutableMapping):  # a copy has what the constructor may need, as that of a defaultdict does
            result = copy.copy(like)
            result.update(items)
            return result
        return type(like)(items)  # type: ignore[call-arg]
    except TypeError:
        return items


def _same_sequence(like: Sequence[Any], items: list[Any]) -> Any:
    """`items` in a sequence of the type of `like`; of a tuple, or a type that cannot be made of items, in a list."""
    if isinstance(like, tuple):
        return type(like)(*items) if hasattr(like, "_fields") else items
    try:
        if isinstance(like, MutableSequence):
            result = copy.copy(like)
            result[:] = items
            return result
        return type(like)(items)  # type: ignore[call-arg]
    except TypeError:
        return items
