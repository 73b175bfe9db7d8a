"""Rows of ops/nn/layer_norm.py."""

import functools

import numpy as np
from op_db import Error, Row, Sample, normal


def samples(rng):
    def affine(shape):
        return normal(rng, *shape), normal(rng, *shape)

    return [
        Sample(normal(rng, 2, 4), *affine((4,)), shape=(4,)),
        Sample(normal(rng, 2, 3, 4), *affine((3, 4)), shape=(3, 4)),
        Sample(normal(rng, 2, 4), normal(rng, 4), None, shape=(4,)),
        Sample(normal(rng, 2, 4), None, normal(rng, 4), shape=(4,)),
        Sample(normal(rng, 4), None, None, shape=(4,), eps=0.1),
        Sample(normal(rng, 0, 4), *affine((4,)), shape=(4,)),
    ]


def reference(x, weight=None, bias=None, *, shape, eps=1e-5):
    axes = tuple(range(-len(shape), 0))
    mean = x.mean(axis=axes, keepdims=True)
    rstd = 1 / np.sqrt(((x - mean) ** 2).mean(axis=axes, keepdims=True) + eps)
    return (x - mean) * rstd * (1 if weight is None else weight) + (0 if bias is None else bias), mean, rstd


def promoted(torch, *values):
    """The inputs in one dtype, half types in float32, and that dtype, as torch.native_layer_norm has it on CUDA."""
    present = [value for value in values if value is not None]
    dtype = functools.reduce(torch.promote_types, [value.dtype for value in present])
    half = dtype in (torch.float16, torch.bfloat16)
    return [value if value is None else value.to(torch.float32 if half else dtype) for value in values], dtype


def theirs(torch, x, weight=None, bias=None, *, shape, eps=1e-5):
    """Written out: torch.native_layer_norm takes mean and rstd for constants in its second derivative."""
    (x, weight, bias), dtype = promoted(torch, x, weight, bias)
    axes = tuple(range(-len(shape), 0))
    mean = x.mean(axes, keepdim=True)
    rstd = 1 / torch.sqrt(((x - mean) ** 2).mean(axes, keepdim=True) + eps)
    out = (x - mean) * rstd * (1 if weight is None else weight) + (0 if bias is None else bias)
    return out.to(dtype), mean, rstd


def rms(x, weight=None, *, shape, eps):
    rstd = 1 / np.sqrt((x * x).mean(axis=tuple(range(-len(shape), 0)), keepdims=True) + eps)
    return x * rstd * (1 if weight is None else weight), rstd


def their_rms(torch, x, weight=None, *, shape, eps):
    (x, weight), dtype = promoted(torch, x, weight)
    rstd = 1 / torch.sqrt((x * x).mean(tuple(range(-len(shape), 0)), keepdim=True) + eps)
    return (x * rstd * (1 if weight is None else weight)).to(dtype), rstd


def wide(dtype):
    return "float32" if dtype in ("float16", "bfloat16") else dtype


ROWS = [
    Row(
        "native_layer_norm",
        samples=samples,
        reference=reference,
        torch=theirs,
        result=lambda dtype: (dtype, wide(dtype), wide(dtype)),
        tol={"float16": 2e-2, "bfloat16": 0.1},
        skip={
            "zero_dim": "at least one dimension is normalised",
            "integers": "the default tolerance of sums of squares",
        },
        errors=[
            Error("shape", lambda op, x: op(x(2, 4), shape=(3,)), RuntimeError, "expected input with shape"),
            Error("none", lambda op, x: op(x(2, 4), shape=()), RuntimeError, "at least 1-dimensional"),
            Error(
                "weight",
                lambda op, x: op(x(2, 4), x(3), shape=(4,)),
                RuntimeError,
                "Expected weight to be of same shape",
            ),
        ],
    ),
    Row(
        "native_rms_norm",
        samples=lambda rng: [
            Sample(*s.args[:2], shape=s.kwargs["shape"], eps=s.kwargs.get("eps", 1e-5)) for s in samples(rng)
        ],
        reference=rms,
        torch=their_rms,
        result=lambda dtype: (dtype, wide(dtype)),
        tol={"float16": 2e-2, "bfloat16": 0.1},
        skip={
            "zero_dim": "at least one dimension is normalised",
            "integers": "the default tolerance of sums of squares",
        },
        errors=[
            Error("shape", lambda op, x: op(x(2, 4), shape=(3,), eps=0.0), RuntimeError, "expected input with shape"),
            Error(
                "weight",
                lambda op, x: op(x(2, 4), x(3), shape=(4,), eps=0.0),
                RuntimeError,
                "Expected weight to be of same shape",
            ),
        ],
    ),
]
