"""Arguments of cross entropy and negative log-likelihood on either device, and what cross entropy saves."""

from __future__ import annotations

from typing import Any, NamedTuple

Array = Any  # numpy.ndarray | cupy.ndarray


class Classes(NamedTuple):
    """The targets of a loss: class indices, class weights (cols,), the ignored class index, and label smoothing."""

    target: Array
    weight: Array | None = None
    ignore_index: int = -100
    smoothing: float = 0.0


class CrossEntropySaved(NamedTuple):
    """Values that the forward saves for the backward, in the accumulation dtype.

    `lse` (rows) is the log-sum-exp, `rest` (rows) its rounding error, `counts` (rows) the factor of the row's softmax
    in the gradient of its loss, `factor`, () or (rows), the factor of that gradient from the reduction.
    """

    lse: Array
    rest: Array
    counts: Array
    factor: Array
