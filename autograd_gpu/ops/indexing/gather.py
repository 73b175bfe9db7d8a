"""Elements selected along one dimension by an index tensor of the same rank: gather, take_along_dim."""

from __future__ import annotations

from ...backend.arrays.dtypes import int64
from ...backend.arrays.flat_index import add_at, grid, picked
from ...core.extend import LINEAR, Tensor, along, defop, expanded, other_words, public
from ..shape.reshape import common_shape, expand, ravel, reshape
from .basic_index import basic_index, check_non_negative, wrap_dim
from .index import INDEX_DTYPES, index_error_text

# The ops take tensors of one dimension or more and a negative `dim`, which the public functions ensure.


def _gather_along_backward(xp, g, index, *, dim, shape):
    return add_at(xp, xp.zeros(shape, g.dtype), -len(shape), grid(xp, index, dim), g, "the gradient of gather")


@defop
class gather_along:
    """out[i][j] = x[i][index[i][j]] for dim = -1, and so for any dimension and shape.

    >>> ag.gather(ag.tensor([[1.0, 2.0], [3.0, 4.0]]), 1, ag.tensor([[1], [0]]))
    tensor([[2.],
            [3.]])
    """

    def forward(xp, x, index, *, dim): return picked(xp, x, index, dim)
    def grad_x(F, g, x_shape, index, dim): return F.gather_along_backward(g, index, dim, x_shape)
    integral = ("index",)
    jvp, batch = LINEAR, along("dim")


def _batch_backward(F, n, batched, g, index, *, dim, shape):
    return F.gather_along_backward(*expanded(F, n, batched, (g, index)), dim, (n, *shape))


@defop
class gather_along_backward:
    """Zeros of `shape` plus g[i][j] at [i][index[i][j]] for dim = -1, and so on: the transpose of gather_along.

    >>> from autograd_gpu.ops.indexing.gather import gather_along_backward
    >>> gather_along_backward(ag.tensor([1.0, 2.0]), ag.tensor([1, 1]), -1, (3,))
    tensor([0., 3., 0.])
    """

    forward = _gather_along_backward
    def grad_g(F, g, index, dim): return F.gather_along(g, index, dim)
    integral = ("index",)
    jvp, batch = LINEAR, _batch_backward


# ---- the public functions ------------------------------------------------------------------------------


def checked(name: str, x: Tensor, dim: int, index: Tensor, src: Tensor | None = None) -> tuple[int, Tensor]:
    """`dim` as a negative number, and `index`, after PyTorch's checks: an empty index may have any dtype."""
    dim = wrap_dim(dim, x._array.ndim)
    if index._array.dtype not in INDEX_DTYPES:
        if index._array.size:
            raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index")
        index = index.to(int64)
    check_non_negative(name, index, dim)
    if not x._array.shape == index._array.shape == (index if src is None else src)._array.shape:
        _check_sizes(x, dim, index, src)
    if src is not None and src._array.dtype != x._array.dtype:
        raise RuntimeError(f"{name}(): Expected self.dtype to be equal to src.dtype, got {x.dtype} and {src.dtype}")
    return dim - (x._array.ndim or 1), index


def _check_sizes(x: Tensor, dim: int, index: Tensor, src: Tensor | None) -> None:
    for what, other in (("input", x), ("src", src)):
        if other is None:
            continue
        if max(other.ndim, 1) != max(index.ndim, 1):
            raise RuntimeError(f"Index tensor must have the same number of dimensions as {what} tensor")
        for d, (size, limit) in enumerate(zip(index.shape, other.shape, strict=False)):
            if size > limit and (d != dim or what == "src") and index.numel():
                apart = "" if what == "src" else f" apart from dimension {dim}"
                raise RuntimeError(f"Size does not match at dimension {d} expected index {list(index.shape)} to be "
                                   f"no larger than {what} {list(other.shape)}{apart}")


def vector(x: Tensor) -> Tensor:
    """x, a 0-d one as a vector."""
    return x if x._array.ndim else reshape(x, (1,))


def corner(src: Tensor, index: Tensor) -> Tensor:
    """The leading part of `src` of the shape of `index`."""
    same = src._array.shape == index._array.shape
    return src if same else basic_index(src, tuple([slice(size) for size in index.shape]))


@public(methods=True, out=True)
@other_words
def gather(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """The elements of input at `index` along `dim`: out[i][j] = input[index[i][j]][j] for dim 0 of a matrix.

    `index` has the rank of input, and is not larger except along `dim`.

    >>> ag.gather(ag.tensor([[1.0, 2.0], [3.0, 4.0]]), 1, ag.tensor([[1], [0]]))
    tensor([[2.],
            [3.]])
    """
    dim, index = checked("gather", input, dim, index)
    try:
        result = gather_along(vector(input), vector(index), dim)
    except IndexError as error:
        raise IndexError(index_error_text(str(error))) from None
    return result if index.ndim else reshape(result, ())


@public(methods=True, out=True)
@other_words
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """The elements of input at `indices` along `dim`; the other dimensions broadcast. Without `dim`, of the flattened
    input.

    >>> x = ag.tensor([[30.0, 10.0, 20.0]])
    >>> ag.take_along_dim(x, ag.argsort(x), 1)
    tensor([[10., 20., 30.]])
    """
    if dim is None:
        return gather(ravel(input), 0, ravel(indices))
    if input.ndim != indices.ndim:
        raise RuntimeError("take_along_dim(): input and indices should have the same number of dimensions, but got "
                           f"{input.ndim} dimensions for input, and {indices.ndim} dimensions for indices")
    if indices.dtype not in INDEX_DTYPES:
        raise RuntimeError(f"take_along_dim(): Expected dtype int32/int64 for indices, got {indices.dtype}")
    at = wrap_dim(dim, input.ndim)
    own, theirs = input._array.shape, indices._array.shape
    shape = common_shape("take_along_dim", (*own[:at], 1, *own[at + 1 :]), (*theirs[:at], 1, *theirs[at + 1 :]))
    wide, places = (*shape[:at], own[at], *shape[at + 1 :]), (*shape[:at], theirs[at], *shape[at + 1 :])
    try:
        return gather_along(expand(input, wide), expand(indices, places), at - input.ndim)
    except IndexError as error:
        raise IndexError(index_error_text(str(error))) from None
