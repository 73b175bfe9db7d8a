"""Rows of ops/nn/batch_norm.py."""

import functools

import numpy as np
from op_db import Error, Row, Sample, normal


def samples(rng):
    def affine(channels):
        return normal(rng, channels), normal(rng, channels)

    return [
        Sample(normal(rng, 5, 3), *affine(3)),
        Sample(normal(rng, 4, 3, 2), *affine(3)),
        Sample(normal(rng, 2, 3, 2, 3), *affine(3), eps=0.1),
        Sample(normal(rng, 5, 3), normal(rng, 3), None),
        Sample(normal(rng, 5, 3), None, normal(rng, 3)),
        Sample(normal(rng, 5, 3), None, None),
        Sample(normal(rng, 4, 0), *affine(0)),
    ]


def moments(x):
    axes = (0, *range(2, x.ndim))
    return [x.mean(axes, keepdims=True), x.var(axes, keepdims=True)]


def reference(x, weight=None, bias=None, eps=1e-5):
    shape = (1, -1) + (1,) * (x.ndim - 2)
    mean, var = moments(x)
    out = (x - mean) / np.sqrt(var + eps)
    out = out if weight is None else out * weight.reshape(shape)
    return out if bias is None else out + bias.reshape(shape), mean.reshape(-1), var.reshape(-1)


def theirs(torch, x, weight=None, bias=None, eps=1e-5):
    """Written out: torch.native_batch_norm's mean and rstd have no derivative."""
    dtype = functools.reduce(torch.promote_types, [y.dtype for y in (x, weight, bias) if y is not None])
    dtype = dtype if dtype.is_floating_point else torch.get_default_dtype()
    x = x.to(torch.promote_types(dtype, torch.float32))
    shape = (1, x.shape[1]) + (1,) * (x.ndim - 2)
    axes = (0, *range(2, x.ndim))
    mean = x.mean(axes, keepdim=True)
    var = ((x - mean) ** 2).mean(axes, keepdim=True)
    out = (x - mean) / torch.sqrt(var + eps)
    out = out if weight is None else out * weight.reshape(shape)
    out = out if bias is None else out + bias.reshape(shape)
    return out.to(dtype), mean.reshape(x.shape[1]), var.reshape(x.shape[1])


ROWS = [
    Row(
        "native_batch_norm",
        samples=samples,
        reference=reference,
        torch=theirs,
        result=lambda dtype: (dtype, *(dtype if dtype == "float64" else "float32",) * 2),
        tol={"float16": 2e-2, "bfloat16": 0.1},
        skip={
            "zero_dim": "it has no channels",
            "integers": "the default tolerance of sums of squares",
        },
        errors=[
            Error("vector", lambda op, x: op(x(3)), IndexError, "two dimensions or more"),
            Error("weight", lambda op, x: op(x(4, 3), x(2)), RuntimeError, "weight should contain 3 elements not 2"),
            Error("bias", lambda op, x: op(x(4, 3), None, x(3, 1)), RuntimeError, "bias should be a vector of 3"),
        ],
    ),
]
