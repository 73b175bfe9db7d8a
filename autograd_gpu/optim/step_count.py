"""The number of steps in an optimizer's state, which is a tensor as in PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..backend.arrays.dtypes import float32, float64, get_default_dtype
from ..core.graph.storage import bump_version
from ..core.graph.tensor_base import TensorBase
from ..core.tensor import Tensor


class StepCount(Tensor):
    """A 0-d tensor that counts: it becomes an ordinary Tensor when something reads its array.

    Until then `count`, which is the slot of the array, holds the int, so that a step does not write to an array.
    """

    __slots__ = ()

    count: Any = TensorBase.__dict__["_array"]

    def __new__(cls, count: int = 0) -> StepCount:
        result = object.__new__(cls)
        result._fn = result._grad = result._base = result._storage = None
        result._nr = 0
        result.count = count
        return result

    def __init__(self, count: int = 0) -> None:
        """Does nothing: __new__ makes the count."""

    @property
    def _array(self) -> Any:
        array = np.array(self.count, float64 if get_default_dtype() == float64 else float32)
        self._array = array
        return array

    @_array.setter
    def _array(self, array: Any) -> None:
        self.__class__ = Tensor  # type: ignore[assignment]
        self._array = array

    def __reduce__(self) -> tuple[Any, ...]:
        _ = self._array  # so that a Tensor is pickled
        return Tensor.__reduce__(self)


def advance(states: list[dict[str, Any]], by: int = 1) -> Iterator[int]:
    """Adds `by` to the counts in `states`, which may also be tensors or numbers, and yields the sums one by one."""
    for state in states:
        step = state.get("step", 0)
        if type(step) is StepCount:
            step.count = total = step.count + by
        elif isinstance(step, Tensor):
            array = step._array  # read without the tensor's item(), which takes longer than all else here
            array[...] = total = int(array.item()) + by
            bump_version(step)
        else:
            state["step"] = total = int(step) + by
        yield total


def own_count(state: dict[str, Any]) -> dict[str, Any]:
    """A copy of `state` with a count of its own, so that an advance leaves `state` as it is."""
    step = state.get("step")
    if type(step) is StepCount:
        return {**state, "step": StepCount(step.count)}  # and `step` goes on as a count
    return {**state, "step": StepCount(int(step.item()))} if isinstance(step, Tensor) else dict(state)
