"""Bilinear maps."""

from __future__ import annotations

import math

from ...core.extend import RECORD, Tensor, public


@public("bilinear", "nn.functional.bilinear")
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input1ᵀ weight[k] input2 + bias[k] for each k: (..., A), (..., B), (K, A, B), (K,) -> (..., K).

    RuntimeError for sizes that do not match.

    >>> ag.bilinear(ag.tensor([1.0, 2.0]), ag.tensor([3.0]), ag.ones(1, 2, 1))
    tensor([9.])
    """
    _check(input1, input2, weight, bias)
    lead, n = input1.shape[:-1], math.prod(input1.shape[:-1])
    outs, a, b = weight.shape
    # (n, A) @ (A, K * B) -> (n, K, B), then each (K, B) @ (B, 1)
    half = input1.reshape(n, a).matmul(weight.permute(1, 0, 2).reshape(a, outs * b))
    out = half.reshape(n, outs, b).matmul(input2.reshape(n, b, 1)).reshape(*lead, outs)
    return out if bias is None else RECORD.add(out, bias)


def _check(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    if input1.ndim != input2.ndim or not input1.ndim:
        raise RuntimeError("bilinear(): input dimensions do not match or are 0: got "
                           f"{input1.ndim} and {input2.ndim}")
    for i, (n, m) in enumerate(zip(input1.shape[:-1], input2.shape[:-1], strict=True)):
        if n != m:
            raise RuntimeError(f"bilinear(): input batch dimensions do not match at dim {i}: got {n} and {m}")
    if weight.ndim != 3:
        raise RuntimeError(f"bilinear(): weight has {weight.ndim} dimensions, not 3: (out, in1, in2)")
    for i, x in enumerate((input1, input2), 1):
        if x.shape[-1] != weight.shape[i]:
            raise RuntimeError(f"bilinear(): input{i} size does not match weight size: got {x.shape[-1]} but expected "
                               f"{weight.shape[i]}")
    if bias is not None and bias.shape != weight.shape[:1]:
        raise RuntimeError(f"bilinear(): bias size does not match weight size: got {bias.shape[0]} but expected "
                           f"{weight.shape[0]}")
