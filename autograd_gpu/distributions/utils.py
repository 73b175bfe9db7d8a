"""What the distributions share: broadcasting, probabilities and logits, properties that are computed once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import update_wrapper
from numbers import Number
from typing import Any

from .. import ops, random
from ..backend.arrays.dtype_limits import finfo
from ..backend.arrays.dtypes import float64, get_default_dtype
from ..core.interpret.batched import every_value
from ..core.size import Size
from ..core.tensor import Tensor
from ..modes import enable_grad
from ..nn import functional as F
from ..ops.creation.from_data import tensor

euler_constant = 0.57721566490153286060


def broadcast_all(*values: Tensor | float) -> tuple[Tensor, ...]:
    """Tensors and numbers as tensors of one shape.

    Numbers get the dtype and the device of the first tensor, or the defaults. ValueError for other values,
    RuntimeError for shapes that do not broadcast.

    >>> from autograd_gpu.distributions.utils import broadcast_all
    >>> broadcast_all(ag.tensor([1.0, 2.0]), 3)
    (tensor([1., 2.]), tensor([3., 3.]))
    """
    wrong = [v for v in values if not isinstance(v, (Tensor, Number))]
    if wrong:
        raise ValueError(f"Input arguments must all be instances of Number or Tensor, not {type(wrong[0]).__name__}")
    first = next((v for v in values if isinstance(v, Tensor)), None)
    dtype, device = (get_default_dtype(), None) if first is None else (first.dtype, first.device)
    tensors = [v if isinstance(v, Tensor) else tensor(v, dtype=dtype, device=device) for v in values]
    return tuple(ops.broadcast_tensors(*tensors))


def holds_everywhere(valid: Tensor) -> bool:
    """Whether all elements are true; under vmap, of all examples. Waits for a CUDA device."""
    return bool(every_value(valid).all())


def _sum_rightmost(value: Tensor, dims: int) -> Tensor:
    """The sums over the last `dims` dimensions.

    >>> from autograd_gpu.distributions.utils import _sum_rightmost
    >>> _sum_rightmost(ag.ones(2, 3), 1)
    tensor([3., 3.])
    """
    return value.reshape(*value.shape[: value.ndim - dims], -1).sum(-1) if dims else value


def _standard_normal(shape: Sequence[int], dtype: Any, device: Any) -> Tensor:
    """Standard normal numbers."""
    return random.randn(tuple(shape), dtype=dtype, device=device)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Softmax over the last dimension; with `is_binary` the sigmoid of each element.

    >>> from autograd_gpu.distributions.utils import logits_to_probs
    >>> logits_to_probs(ag.tensor([0.0, 0.0]))
    tensor([0.5, 0.5])
    """
    return ops.sigmoid(logits) if is_binary else F.softmax(logits, dim=-1)


def clamp_probs(probs: Tensor) -> Tensor:
    """Clamps probabilities to [eps, 1 - eps], eps being that of the dtype.

    >>> from autograd_gpu.distributions.utils import clamp_probs
    >>> clamp_probs(ag.tensor([0.5, 0.0])).min() > 0
    tensor(True)
    """
    eps = finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Logarithms of clamped probabilities; with `is_binary` log(p / (1 - p)) of each element.

    >>> from autograd_gpu.distributions.utils import probs_to_logits
    >>> probs_to_logits(ag.tensor([0.5]), is_binary=True)
    tensor([0.])
    """
    clamped = clamp_probs(probs)
    return ops.log(clamped) - ops.log1p(-clamped) if is_binary else ops.log(clamped)


def in_float64(formula: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """formula(*tensors), computed in float64, in the dtype of the first tensor.

    For differences of large numbers, such as lgamma of large parameters, of which float32 would leave nothing.

    >>> from autograd_gpu.distributions.utils import in_float64
    >>> in_float64(lambda x: ag.lgamma(x + 1) - ag.lgamma(x), ag.tensor(1e6))
    tensor(13.8155)
    """
    return formula(*[t.to(float64) for t in tensors]).to(tensors[0].dtype)


def log_beta(a: Tensor, b: Tensor) -> Tensor:
    """The logarithm of the beta function: lgamma(a) + lgamma(b) - lgamma(a + b).

    >>> from autograd_gpu.distributions.utils import log_beta
    >>> log_beta(ag.tensor(2.0), ag.tensor(1.0)).exp()
    tensor(0.5)
    """
    return in_float64(lambda a, b: ops.lgamma(a) + ops.lgamma(b) - ops.lgamma(a + b), a, b)


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Lower triangular matrices (..., D, D) from vectors (..., n) of their elements, row by row.

    `diag` is the last diagonal that the vector fills: 0, or -1 for a zero main diagonal. ValueError for a length that
    fits no matrix.

    >>> from autograd_gpu.distributions.utils import vec_to_tril_matrix
    >>> vec_to_tril_matrix(ag.tensor([1.0, 2.0, 3.0]))
    tensor([[1., 0.],
            [2., 3.]])
    """
    n = vec.shape[-1]
    size = round((2 * n + 0.25) ** 0.5 - 0.5) - diag
    rows, columns = ops.tril_indices(size, size, offset=diag, device=vec.device)
    if rows.shape[0] != n:
        raise ValueError(f"The size of last dimension is {n} which cannot be expressed as the lower triangular part "
                         "of a square D x D matrix.")  # fmt: skip
    flat = ops.zeros(*vec.shape[:-1], size * size, dtype=vec.dtype, device=vec.device)
    return flat.index_copy(-1, rows * size + columns, vec).reshape(*vec.shape[:-1], size, size)


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The elements (..., n) of the lower triangles of matrices (..., D, D), row by row, up to the diagonal `diag`.

    ValueError if there is no such diagonal.

    >>> from autograd_gpu.distributions.utils import tril_matrix_to_vec
    >>> tril_matrix_to_vec(ag.tensor([[1.0, 0.0], [2.0, 3.0]]))
    tensor([1., 2., 3.])
    """
    size = mat.shape[-1]
    if not -size <= diag < size:
        raise ValueError(f"diag ({diag}) provided is outside [{-size}, {size - 1}].")
    rows, columns = ops.tril_indices(size, size, offset=diag, device=mat.device)
    return mat[..., rows, columns]


class lazy_property:  # named as the decorator that it is
    """A property that is computed at its first use, recorded even under no_grad, and kept in the instance.

    >>> from autograd_gpu.distributions.utils import lazy_property
    >>> class Circle:
    ...     @lazy_property
    ...     def area(self):
    ...         return ag.tensor(3.0)
    >>> circle = Circle()
    >>> circle.area is circle.area
    True
    """

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        update_wrapper(self, wrapped)  # type: ignore[arg-type]

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


def as_size(shape: Any) -> Size:
    """A Size from a sequence of integers."""
    return shape if isinstance(shape, Size) else Size(shape)
