"""Inner, outer and cross products of vectors."""

from __future__ import annotations

from ... import backend
from ...backend.arrays import strides
from ...core.extend import (
    MULTILINEAR,
    PROMOTE,
    SAME,
    Tensor,
    aligned,
    counted_from_right,
    defop,
    example,
    expanded,
    other_words,
    public,
    rank,
)
from .._support.half_precision import in_float32
from ..indexing.basic_index import from_right, wrap_dim
from ..reduction.dimensions import ufunc_reduce
from .matmul import ALWAYS, refuse_vectors

# ---- inner -------------------------------------------------------------------------------------------


def _check_dot(a, b):
    if a.ndim != 1 or b.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {a.ndim}D and {b.ndim}D tensors")
    if a.shape != b.shape:
        refuse_vectors(a, b)


def _dot(xp, a, b):
    _check_dot(a, b)
    return backend.dot(a, b)


def _dot_batch(F, n, batched, a, b):
    """With one batched vector a matrix times a vector, else rows times columns."""
    _check_dot(example(a, batched[0]), example(b, batched[1]))
    if not all(batched):
        return F.matmul(a, b) if batched[0] else F.matmul(b, a)
    return F.reshape(F.matmul(F.unsqueeze(a, -2), F.unsqueeze(b, -1)), (n,))


@defop
class dot:
    """The inner product of two vectors.

    >>> ag.dot(ag.tensor([1.0, 2.0]), ag.tensor([3.0, 4.0]))
    tensor(11.)
    """

    forward = _dot
    def grad_a(F, g, b): return g * b
    def grad_b(F, g, a): return g * a
    parameter_names = ("input", "tensor")
    types = SAME
    jvp, batch = MULTILINEAR, _dot_batch
    public = "dot", "vdot"
    methods = True


vdot = dot  # they differ for complex numbers only


def _vecdot(xp, a, b, *, dim=-1):
    axis = _axis(a.shape, b.shape, dim)
    m, n = ((1,) * -axis + a.shape)[axis], ((1,) * -axis + b.shape)[axis]
    if m != n:
        raise RuntimeError(f"inconsistent tensor size, expected tensor [{m}] and src [{n}] to have the same number of "
                           f"elements, but got {m} and {n} elements respectively")
    return ufunc_reduce(xp, "add", a * b, axis, False)


def _axis(a_shape, b_shape, dim):
    """`dim` of the broadcast shape, counted from the right."""
    ndim = max(len(a_shape), len(b_shape))
    return from_right(wrap_dim(dim, ndim), ndim)


def _spread(F, g, a_shape, b_shape, dim):
    return F.unsqueeze(g, _axis(a_shape, b_shape, dim)) if a_shape or b_shape else g


def _vecdot_batch(F, n, batched, a, b, *, dim):
    ndim = max(rank(a, batched[0]), rank(b, batched[1]))
    axis = counted_from_right(dim, ndim)
    a, b = aligned(F, batched, (a, b))
    return F.vecdot(a, b, axis) if ndim else F.vecdot(F.unsqueeze(a, -1), F.unsqueeze(b, -1), -1)


@defop
class vecdot:
    """The inner products of the vectors along `dim`; the other dimensions broadcast.

    >>> ag.linalg.vecdot(ag.tensor([[1.0, 2.0], [3.0, 4.0]]), ag.tensor([1.0, 1.0]))
    tensor([3., 7.])
    """

    forward = in_float32(_vecdot)
    def grad_a(F, g, b, a_shape, dim): return _spread(F, g, a_shape, b.shape, dim) * b
    def grad_b(F, g, a, b_shape, dim): return _spread(F, g, a.shape, b_shape, dim) * a
    parameter_names = ("x", "y")
    types, broadcasts = PROMOTE, ALWAYS
    jvp, batch = MULTILINEAR, _vecdot_batch
    public = "linalg.vecdot"


# ---- outer -------------------------------------------------------------------------------------------


def _check_outer(a, b):
    for name, x in (("self", a), ("vec2", b)):
        if x.ndim != 1:
            raise RuntimeError(f"outer: Expected 1-D argument {name}, but got {x.ndim}-D")


def _outer(xp, a, b):
    _check_outer(a, b)
    return a[:, None] * b


def _outer_batch(F, n, batched, a, b):
    _check_outer(example(a, batched[0]), example(b, batched[1]))
    return F.unsqueeze(a, -1) * F.unsqueeze(b, -2)


@defop
class outer:
    """The products of all pairs of elements of a and b: a column times a row.

    >>> ag.outer(ag.tensor([1.0, 2.0]), ag.tensor([3.0, 4.0]))
    tensor([[3., 4.],
            [6., 8.]])
    """

    forward = _outer
    def grad_a(F, g, b): return F.matmul(g, b)
    def grad_b(F, g, a): return F.matmul(a, g)
    parameter_names = ("input", "vec2")
    types = PROMOTE
    jvp, batch = MULTILINEAR, _outer_batch
    public = "outer", "ger"
    methods = True


ger = outer

# ---- cross -------------------------------------------------------------------------------------------


def _axis_of_three(a, b, dim):
    """`dim`, of size 3, counted from the right; None selects the first dimension of size 3."""
    if a.ndim != b.ndim:
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    if dim is None:
        if 3 not in a.shape:
            raise RuntimeError("no dimension of size 3 in input")
        dim = a.shape.index(3)
    axis = from_right(wrap_dim(dim, a.ndim), a.ndim)
    sizes = (a.shape[axis], b.shape[axis]) if a.ndim else (1, 1)
    if sizes != (3, 3):
        raise RuntimeError(f"linalg.cross: inputs dimension {dim} must have length 3. Got {sizes[0]} and {sizes[1]}")
    return axis


def _cross(xp, a, b, *, dim=None):
    axis = _axis_of_three(a, b, dim)
    return strides.rotated(xp, a * strides.rotated(xp, b, axis) - strides.rotated(xp, a, axis) * b, axis)


def _cross_batch(F, n, batched, a, b, *, dim):
    axis = _axis_of_three(example(a, batched[0]), example(b, batched[1]), dim)
    return F.cross(*expanded(F, n, batched, (a, b)), axis)


@defop
class cross:
    """The cross products of the vectors of three elements along `dim`, by default the first dimension of size 3.

    Both have the same rank; the dimensions other than `dim` broadcast. `ag.linalg.cross` uses the last dimension by
    default.

    >>> ag.cross(ag.tensor([1.0, 0.0, 0.0]), ag.tensor([0.0, 1.0, 0.0]))
    tensor([0., 0., 1.])
    """

    forward = in_float32(_cross)
    def grad_a(F, g, b, a_shape, dim): return F.cross(b, g, _named_axis(a_shape, dim))
    def grad_b(F, g, a, dim): return F.cross(g, a, _named_axis(a.shape, dim))
    types, broadcasts = PROMOTE, ALWAYS
    jvp, batch = MULTILINEAR, _cross_batch
    public = methods = True


def _named_axis(shape, dim):
    return from_right(shape.index(3) if dim is None else dim, len(shape))


@public("linalg.cross", out=True)
@other_words
def linalg_cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """The cross products of the vectors of three elements along `dim`; the other dimensions broadcast.

    >>> ag.linalg.cross(ag.tensor([1.0, 0.0, 0.0]), ag.tensor([0.0, 1.0, 0.0]))
    tensor([0., 0., 1.])
    """
    return cross(input, other, dim)
