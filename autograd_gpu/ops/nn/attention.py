"""Attention: softmax(query keyᵀ) value, for one head or several."""

from __future__ import annotations

import math

from ...backend.arrays.dtypes import FLOATS
from ...core.extend import RECORD, Tensor, public
from ..creation.factories import ones
from .dropout import dropout


@public("scaled_dot_product_attention", "nn.functional.scaled_dot_product_attention")
def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    """dropout(softmax(query keyᵀ * scale + attn_mask)) value: (..., L, E), (..., S, E), (..., S, V) -> (..., L, V).

    The dimensions before the last two broadcast. `attn_mask` broadcasts to (..., L, S): a bool mask is True where a
    query attends to a key, a float mask is added; a query that attends to no key gets zeros. With `is_causal`, which
    excludes a mask, query i attends to keys 0 to i. `scale` is by default 1 / sqrt(E). `dropout_p` applies always: pass
    0.0 in evaluation. With `enable_gqa` each head of key and value, dimension -3, is shared by a group of query heads.

    >>> q, k = ag.zeros(1, 2), ag.ones(2, 2)
    >>> ag.scaled_dot_product_attention(q, k, ag.tensor([[0.0, 2.0], [2.0, 4.0]]))
    tensor([[1., 3.]])
    """
    _check(query, key, value, attn_mask, is_causal)
    heads, (targets, width), sources = query.shape[:-2], query.shape[-2:], key.shape[-2]
    scaled = query * (1 / math.sqrt(width or 1) if scale is None else scale)
    if enable_gqa:
        scaled = _grouped(scaled, key, value)
    scores = RECORD.gemm(scaled, key, False, True)
    if enable_gqa:
        scores = scores.reshape(*heads, targets, sources)
    if is_causal:
        attn_mask = ones(targets, sources, dtype=bool, device=query.device).tril()
    if attn_mask is not None:
        hidden = attn_mask.dtype == bool
        scores = RECORD.where(attn_mask, scores, -math.inf) if hidden else scores + attn_mask
    weights = dropout(RECORD.safe_softmax(scores, -1), dropout_p)
    if not enable_gqa:
        return weights.matmul(value)
    rows = weights.reshape(*heads[:-1], value.shape[-3], -1, sources)
    return rows.matmul(value).reshape(*heads, targets, value.shape[-1])


def _check(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, is_causal: bool) -> None:
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise RuntimeError("Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
                           f"{query.ndim} key.dim: {key.ndim} and value.dim: {value.ndim} instead.")
    if not query.dtype == key.dtype == value.dtype:
        raise RuntimeError("Expected query, key, and value to have the same dtype, but got query.dtype: "
                           f"{query.dtype} key.dtype: {key.dtype} and value.dtype: {value.dtype} instead.")
    if query.shape[-1] != key.shape[-1]:
        raise RuntimeError("scaled_dot_product_attention: expected query and key of the same last size, but got "
                           f"{list(query.shape)} and {list(key.shape)}")
    if attn_mask is None:
        return
    if is_causal:
        raise RuntimeError("_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True")
    if attn_mask.dtype != bool and attn_mask.dtype not in FLOATS:
        raise RuntimeError("Expected attn_mask dtype to be bool or float or to match query dtype, but got "
                           f"attn_mask.dtype: {attn_mask.dtype} and  query.dtype: {query.dtype} instead.")


def _grouped(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """(..., H, L, E) -> (..., G, H / G * L, E): the heads of a group are rows of one product with the group's key."""
    heads, targets, width = query.shape[-3:]
    groups = key.shape[-3]
    if groups != value.shape[-3] or groups == 0 or heads % groups:
        raise RuntimeError("Number of heads in key and value must divide the number of heads in query; got "
                           f"{groups} and {value.shape[-3]} for {heads}")
    return query.reshape(*query.shape[:-3], groups, heads // groups * targets, width)
