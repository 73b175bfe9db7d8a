"""Products of tensors of any rank, and of chains of matrices."""

from __future__ import annotations

import functools
import itertools
import string
from collections.abc import Sequence
from typing import Any

from ...core.extend import MULTILINEAR, PROMOTE, Tensor, defop, public
from ..creation.from_data import as_tensor
from ..elementwise.arithmetic import mul
from ..indexing.basic_index import wrap_dim
from ..reduction.sum import sum as sum_over
from ..shape.reshape import squeeze, unsqueeze
from .einsum import contract
from .matmul import matmul, mm
from .vector_products import dot

# ---- tensordot ---------------------------------------------------------------------------------------


def _pairs(a: Tensor, b: Tensor, dims: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The contracted dimensions of a and of b, counted from the left."""
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.ndim, b.ndim):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        return tuple(range(a.ndim - dims, a.ndim)), tuple(range(dims))
    first, second = ((d,) if isinstance(d, int) else tuple(d) for d in dims)
    if len(first) != len(second):
        raise RuntimeError("both dimension lists should have same length")
    first, second = [tuple(wrap_dim(d, x.ndim) for d in chosen) for x, chosen in ((a, first), (b, second))]
    for chosen in (first, second):
        if len(set(chosen)) < len(chosen):
            twice = next(d for d in chosen if chosen.count(d) > 1)
            raise RuntimeError(f"dim {twice} appears multiple times in the list of dims")
    return first, second


@functools.lru_cache(maxsize=256)
def _equation(a_ndim: int, b_ndim: int, first: tuple[int, ...], second: tuple[int, ...]) -> str:
    a, b = string.ascii_letters[:a_ndim], list(string.ascii_letters[a_ndim : a_ndim + b_ndim])
    for i, j in zip(first, second, strict=True):
        b[j] = a[i]
    out = [s for s in a if s not in b] + [s for s in b if s not in a]
    return f"{a},{''.join(b)}->{''.join(out)}"


@public(out=True)
def tensordot(a: Tensor, b: Tensor, dims: int | Sequence[Any] = 2) -> Tensor:
    """The contraction of the last `dims` dimensions of a with the first of b, or of (dims of a, dims of b).

    Dimensions of size 1 broadcast. RuntimeError if the sizes of contracted dimensions differ otherwise.

    >>> ag.tensordot(ag.ones(2, 3, 4), ag.ones(4, 3, 5), dims=([1, 2], [1, 0])).shape
    (2, 5)
    """
    a, b = as_tensor(a), as_tensor(b)
    first, second = _pairs(a, b, dims)
    for i, j in zip(first, second, strict=True):
        sizes = a.shape[i], b.shape[j]
        if sizes[0] == sizes[1]:
            continue
        if 1 not in sizes:
            raise RuntimeError(f"contracted dimensions need to match, but first has size {sizes[0]} in dim {i} and "
                               f"second has size {sizes[1]} in dim {j}")
        a, b = (sum_over(a, i, True), b) if sizes[1] == 1 else (a, sum_over(b, j, True))
    return contract(a, b, _equation(a.ndim, b.ndim, first, second))


@public(methods=True, out=True)
def inner(input: Tensor, other: Tensor) -> Tensor:
    """The inner products over the last dimension of both: out[..., i, ..., j] = sum(a[..., i, :] * b[..., j, :]).

    A 0-d operand multiplies the other operand.

    >>> ag.inner(ag.tensor([[1.0, 2.0], [3.0, 4.0]]), ag.tensor([1.0, 1.0]))
    tensor([3., 7.])
    """
    input, other = as_tensor(input), as_tensor(other)
    if not input.ndim or not other.ndim:
        return mul(input, other)
    if input.shape[-1] != other.shape[-1]:
        raise RuntimeError("inner() the last dimension must match on both input tensors but got shapes "
                           f"{list(input.shape)} and {list(other.shape)}")
    if input.ndim == 1 == other.ndim:
        return dot(input, other)
    return contract(input, other, _equation(input.ndim, other.ndim, (input.ndim - 1,), (other.ndim - 1,)))


# ---- Kronecker ---------------------------------------------------------------------------------------


def _padded(shape, n):
    return (1,) * (n - len(shape)) + tuple(shape)


def _interleaved(a_shape, b_shape):
    """The shape (a0, b0, a1, b1, ...), before each pair of dimensions is folded into one."""
    n = max(len(a_shape), len(b_shape))
    return tuple(itertools.chain(*zip(_padded(a_shape, n), _padded(b_shape, n), strict=True)))


@functools.lru_cache(maxsize=256)
def _kron_shapes(a_shape, b_shape):
    """The shapes in which a and b are multiplied, and the shape of the result, which folds each pair of dimensions."""
    ones = (1,) * max(len(a_shape), len(b_shape))
    pairs = zip(_padded(a_shape, len(ones)), _padded(b_shape, len(ones)), strict=True)
    return _interleaved(a_shape, ones), _interleaved(ones, b_shape), tuple([i * j for i, j in pairs])


def _kron(xp, a, b):
    left, right, shape = _kron_shapes(a.shape, b.shape)
    return (a.reshape(left) * b.reshape(right)).reshape(shape)


def _kron_back(F, g, other, a_shape, b_shape, of_a):
    """The gradient of one factor: a product of g's blocks with the other factor."""
    n = max(len(a_shape), len(b_shape))
    first, second = string.ascii_letters[:n], string.ascii_letters[n : 2 * n]
    both = "".join(map("".join, zip(first, second, strict=True)))
    mine, theirs = (first, second) if of_a else (second, first)
    shape = a_shape if of_a else b_shape
    blocks = F.reshape(g, _interleaved(a_shape, b_shape))
    other = F.reshape(other, _padded(other.shape, n))
    return F.reshape(F.contract(blocks, other, f"{both},{theirs}->{mine}"), shape)


def _batch_kron(F, n, batched, a, b):
    left, right, shape = _kron_shapes(tuple(a.shape[batched[0] :]), tuple(b.shape[batched[1] :]))
    a, b = F.reshape(a, (*a.shape[: batched[0]], *left)), F.reshape(b, (*b.shape[: batched[1]], *right))
    return F.reshape(a * b, (n, *shape))


@defop
class kron:
    """The Kronecker product: each element of a replaced by its product with all of b; ones pad the shorter shape.

    >>> ag.kron(ag.tensor([1.0, 10.0]), ag.tensor([1.0, 2.0, 3.0]))
    tensor([ 1.,  2.,  3., 10., 20., 30.])
    """

    forward = _kron
    def grad_a(F, g, b, a_shape): return _kron_back(F, g, b, a_shape, b.shape, True)
    def grad_b(F, g, a, b_shape): return _kron_back(F, g, a, a.shape, b_shape, False)
    types = PROMOTE
    jvp, batch = MULTILINEAR, _batch_kron
    public = methods = True


# ---- a chain of matrices -----------------------------------------------------------------------------


@functools.lru_cache(maxsize=256)
def _splits(sizes: tuple[int, ...]) -> dict[tuple[int, int], int]:
    """Where to split each part (i, j) of a chain of sizes[k] x sizes[k + 1] matrices for the least work.

    Cormen et al., Introduction to Algorithms, "matrix-chain multiplication".
    """
    n = len(sizes) - 1
    work = {(i, i): 0 for i in range(n)}
    best: dict[tuple[int, int], int] = {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            costs = [
                work[i, k] + work[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1] for k in range(i, j)
            ]  # fmt: skip
            work[i, j] = min(costs)
            best[i, j] = i + costs.index(work[i, j])
    return best


def _check_chain(tensors: Sequence[Tensor]) -> None:
    if len(tensors) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(tensors)}")
    last = len(tensors) - 1
    for i, x in enumerate(tensors):
        if x.ndim != 2 and (x.ndim != 1 or i not in (0, last)):
            allowed = "1D or 2D" if i in (0, last) else "2D"
            raise RuntimeError(f"multi_dot(): tensor {i} must be {allowed} but got {x.ndim}D")
    for i, (x, y) in enumerate(itertools.pairwise(tensors)):
        if x.shape[-1] != y.shape[0]:
            raise RuntimeError(f"multi_dot(): tensors {i} and {i + 1} with shapes {list(x.shape)} and {list(y.shape)} "
                               "cannot be multiplied")


@public("linalg.multi_dot", out=True)
def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of two or more matrices in the order of least work; the first and the last may be vectors.

    >>> ag.linalg.multi_dot([ag.ones(2, 3), ag.ones(3, 4), ag.ones(4)])
    tensor([12., 12.])
    """
    _check_chain(tensors)
    if len(tensors) == 2:
        return matmul(tensors[0], tensors[1])
    chain, row, column = list(tensors), tensors[0].ndim == 1, tensors[-1].ndim == 1
    chain[0] = unsqueeze(chain[0], 0) if row else chain[0]
    chain[-1] = unsqueeze(chain[-1], 1) if column else chain[-1]
    best = _splits((chain[0].shape[0], *(x.shape[1] for x in chain)))

    def product(i: int, j: int) -> Tensor:
        return chain[i] if i == j else mm(product(i, best[i, j]), product(best[i, j] + 1, j))

    out = product(0, len(chain) - 1)
    out = squeeze(out, 1) if column else out
    return squeeze(out, 0) if row else out


@public(out=True)
def chain_matmul(*matrices: Tensor) -> Tensor:
    """`linalg.multi_dot` of the arguments; a single matrix is returned unchanged.

    >>> ag.chain_matmul(ag.ones(2, 3), ag.ones(3, 4), ag.ones(4, 1))
    tensor([[12.],
            [12.]])
    """
    return matrices[0] if len(matrices) == 1 else multi_dot(matrices)
