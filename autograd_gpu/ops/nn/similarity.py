"""Distance and cosine similarity of pairs of vectors, and normalization to length 1."""

from __future__ import annotations

from ...backend.arrays.dtypes import FLOATS, promote_types
from ...core.extend import BROADCASTING, ELEMENTWISE, RECORD, Tensor, defop, other_words, public
from ..shape.reshape import common_shape


@defop
class lift:
    """max(x, low) with the gradient of x everywhere: keeps divisors away from zero.

    >>> from autograd_gpu.ops.nn.similarity import lift
    >>> lift(ag.tensor([0.0, 2.0]), 0.5)
    tensor([0.5, 2. ])
    """

    def forward(xp, x, *, low): return xp.maximum(x, x.dtype.type(low))
    def grad_x(F, g): return g
    jvp, batch = ELEMENTWISE, BROADCASTING


@public("normalize", "nn.functional.normalize", out=True)
@other_words
def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """input / max(p-norm of input over `dim`, eps): unit vectors along `dim`, an int or a tuple.

    >>> ag.normalize(ag.tensor([[3.0, 4.0]]))
    tensor([[0.6, 0.8]])
    """
    return input / input.norm(p, dim, True).clamp(eps)


@public("cosine_similarity", "nn.functional.cosine_similarity")
@other_words
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along `dim` of the broadcast inputs; norms are clamped to eps or more.

    RuntimeError for integers.

    >>> ag.cosine_similarity(ag.tensor([[3.0, 4.0]]), ag.tensor([[6.0, 8.0]]))
    tensor([1.])
    """
    common = promote_types(x1.dtype, x2.dtype)
    if common not in FLOATS:
        raise RuntimeError(f"expected common dtype to be floating point, yet common dtype is {common}; "
                           "convert with .float() first")
    if x1.shape != x2.shape:
        shape = common_shape("cosine_similarity", x1.shape, x2.shape)
        x1, x2 = x1.expand(shape), x2.expand(shape)
    return RECORD.sum(x1 * x2, dim) / (lift(x1.norm(2, dim), eps) * lift(x2.norm(2, dim), eps))


@public("pairwise_distance", "nn.functional.pairwise_distance")
@other_words
def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The p-norm of x1 - x2 + eps over the last dimension, broadcasting.

    >>> ag.pairwise_distance(ag.tensor([[3.0, 4.0]]), ag.tensor([[0.0, 0.0]]), eps=0.0)
    tensor([5.])
    """
    return (x1 - x2 + eps).norm(p, -1, keepdim)
