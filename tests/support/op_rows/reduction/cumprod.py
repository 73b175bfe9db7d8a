"""Rows of cumprod in ops/reduction/cumulative.py."""

import itertools

import numpy as np
from op_db import Row, Sample, normal, positive
from op_rows.reduction.shared import HALVES, NO_FUNCTION, RANGE, along_each, running

ZEROS = np.array([[2.0, 0.0, 3.0, 0.0], [1.0, -2.0, 0.5, 3.0], [0.0, 0.0, 0.0, 4.0]])


def cumprod_samples(rng):
    found = along_each(positive)(rng)
    return [*found, Sample(ZEROS, dim=1), Sample(ZEROS, dim=-2), Sample(np.array([0.0]), dim=0)]


def jacobian(x, dim):
    """J[..., k, i] = the product of the first k + 1 factors without x_i, i <= k; x with `dim` last."""
    last = np.moveaxis(x, dim, -1)
    n = last.shape[-1]
    rows = [[np.prod(np.delete(last[..., : k + 1], i, -1), -1) if i <= k else np.zeros(last.shape[:-1])
             for i in range(n)] for k in range(n)]  # fmt: skip
    return np.moveaxis(np.array(rows).reshape(n, n, *last.shape[:-1]), (0, 1), (-2, -1))


def product_with(equation):
    def reference(h, x, dim):
        result = np.einsum(equation, jacobian(x, dim), np.moveaxis(h, dim, -1))
        return np.moveaxis(result, -1, dim)

    return reference


def written_out(torch, dim):
    """A running product of which every derivative is right where factors are 0."""
    return lambda x: torch.stack(list(itertools.accumulate(x.unbind(dim), torch.mul)), dim)


def their_cumprod(torch, x, dim):
    """PyTorch's second derivative is wrong where two factors are 0."""
    return written_out(torch, dim)(x) if x.requires_grad and (x == 0).sum() > 1 else torch.cumprod(x, dim)


def their_vjp(torch, h, x, dim):
    return torch.func.vjp(written_out(torch, dim), x)[1](h)[0]


def their_jvp(torch, h, x, dim):
    slopes = torch.func.vjp(written_out(torch, dim), x)[1]
    return torch.func.vjp(lambda u: slopes(u)[0], torch.zeros_like(h))[1](h)[0]


def zero_pairs(rng):
    found = [Sample(normal(rng, *x.shape), x, dim=dim) for x in (ZEROS, normal(rng, 2, 3)) for dim in (-1, -2)]
    return [*found, Sample(normal(rng, 0, 2), normal(rng, 0, 2), dim=-1)]


INNER = {"zero_dim": "cumprod handles it", "oracle_dtypes": NO_FUNCTION}

ROWS = [
    Row("cumprod", samples=cumprod_samples, reference=running(lambda x, dim: np.prod(x, dim)), tol=HALVES,
        errors=[RANGE], integer_samples=lambda rng: [Sample(ZEROS.round(), dim=1)], torch=their_cumprod),
    Row("cumprod_vjp", samples=zero_pairs, reference=product_with("...ki,...k->...i"), torch=their_vjp,
        integers="float64", tol={"float16": 2e-2, "bfloat16": 0.1}, skip=INNER),
    Row("cumprod_jvp", samples=zero_pairs, reference=product_with("...ki,...i->...k"), torch=their_jvp,
        integers="float64", tol={"float16": 2e-2, "bfloat16": 0.1}, skip=INNER),
]  # fmt: skip
