"""Multi-head attention as a function of its weights.

1. Project query, key and value (length, batch, width), and append learned or zero keys and values.
2. Split the width into heads: (batch, heads, length, width / heads).
3. Merge the masks into one that broadcasts to (batch, heads, targets, sources): bool, or additive if one is float.
4. Apply attention, concatenate the heads, and apply the output projection.
"""

from __future__ import annotations

import math
from typing import Any

from ..backend.arrays.dtypes import FLOATS, bool_
from ..core.declare.op import RECORD
from ..core.tensor import Tensor
from ..ops import cat, dropout, linear, pad, scaled_dot_product_attention, zeros


def multi_head_attention_forward(
    query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: int, num_heads: int, in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None, bias_k: Tensor | None, bias_v: Tensor | None, add_zero_attn: bool, dropout_p: float,
    out_proj_weight: Tensor, out_proj_bias: Tensor | None, training: bool = True,
    key_padding_mask: Tensor | None = None, need_weights: bool = True, attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False, q_proj_weight: Tensor | None = None, k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None, average_attn_weights: bool = True, is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """The function of `nn.MultiheadAttention`: returns (output (L, N, E), attention weights (N, L, S) or None).

    query is (L, N, E), key and value are (S, N, E), or all without N. `attn_mask` is (L, S) or (N * heads, L, S),
    `key_padding_mask` (N, S): bool, where True masks, or float, which are added. A fully masked query attends to
    nothing. `is_causal` declares that `attn_mask`, which is required then, is causal. The weights are averaged over the
    heads, or (N, heads, L, S) without `average_attn_weights`. RuntimeError for shapes that do not match.

    >>> x, w = ag.ones(3, 1, 2), ag.ones(6, 2)
    >>> ag.nn.functional.multi_head_attention_forward(
    ...     x, x, x, 2, 1, w, None, None, None, False, 0.0, ag.ones(2, 2), None)[1].shape
    (1, 3, 3)
    """
    if is_causal and attn_mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint. Make one, for instance by "
                           "nn.transformer.generate_square_subsequent_mask.")
    batched = _check_shapes(query, key, value, key_padding_mask)
    if not batched:
        query, key, value = _as_batch_of_one(query, key, value)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    _check_sizes(query, key, value, embed_dim_to_check, num_heads, use_separate_proj_weight)
    targets, batch, width = query.shape
    mask = _merged(attn_mask, key_padding_mask, batch, num_heads, targets, key.shape[0])
    weights: Any = (q_proj_weight, k_proj_weight, v_proj_weight)
    if not use_separate_proj_weight and in_proj_weight is not None:
        weights = in_proj_weight.chunk(3)
    q, k, v = _projected((query, key, value), weights, in_proj_weight, in_proj_bias)
    more = [(bias_k, bias_v)] if bias_k is not None and bias_v is not None else []
    more += [(zeros(width, dtype=k.dtype, device=k.device),) * 2] if add_zero_attn else []
    for own_key, own_value in more:  # additional keys and values, never masked
        k, v = (cat([x, own.expand(1, batch, width)]) for x, own in ((k, own_key), (v, own_value)))
        mask = None if mask is None else _one_more(mask)
    q, k, v = (_by_head(x, num_heads) for x in (q, k, v))
    attended, shares = _attend(q, k, v, mask, dropout_p if training else 0.0, need_weights)
    out = linear(attended.permute(2, 0, 1, 3).reshape(targets, batch, width), out_proj_weight, out_proj_bias)
    if shares is not None and average_attn_weights:
        shares = shares.mean(1)
    if batched:
        return out, shares
    return out.squeeze(1), None if shares is None else shares.squeeze(0)


def _as_batch_of_one(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
    """query, key and value with a batch dimension; identical tensors stay identical, for a single projection."""
    batched = query.unsqueeze(1)
    found_key = batched if key is query else key.unsqueeze(1)
    return batched, found_key, found_key if value is key else value.unsqueeze(1)


def _check_shapes(query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None) -> bool:
    """Whether the inputs are batched; RuntimeError with PyTorch's text for other ranks."""
    if query.ndim not in (2, 3):
        raise RuntimeError("query should be unbatched 2D or batched 3D tensor but received "
                           f"{query.ndim}-D query tensor")
    batched = query.ndim == 3
    what = "batched (3-D)" if batched else "unbatched (2-D)"
    if not key.ndim == value.ndim == query.ndim:
        raise RuntimeError(f"For {what} `query`, expected `key` and `value` to be {query.ndim}-D but found "
                           f"{key.ndim}-D and {value.ndim}-D tensors respectively")
    if key_padding_mask is not None and key_padding_mask.ndim != query.ndim - 1:
        raise RuntimeError(f"For {what} `query`, expected `key_padding_mask` to be `None` or {query.ndim - 1}-D but "
                           f"found {key_padding_mask.ndim}-D tensor instead")
    return batched


def _check_sizes(
    query: Tensor, key: Tensor, value: Tensor, embed_dim: int, num_heads: int, separate: bool
) -> None:
    if query.shape[-1] != embed_dim:
        raise RuntimeError(f"was expecting embedding dimension of {embed_dim}, but got {query.shape[-1]}")
    if embed_dim % num_heads:
        raise RuntimeError(f"embed_dim {embed_dim} not divisible by num_heads {num_heads}")
    if separate and key.shape[:2] != value.shape[:2]:
        raise RuntimeError(f"key's sequence and batch dims {list(key.shape[:2])} do not match value's "
                           f"{list(value.shape[:2])}")
    if not separate and key.shape != value.shape:
        raise RuntimeError(f"key shape {list(key.shape)} does not match value shape {list(value.shape)}")


def _projected(
    inputs: tuple[Tensor, ...], weights: tuple[Tensor | None, ...], packed: Tensor | None, bias: Tensor | None
) -> list[Tensor]:
    query, key, value = inputs
    if packed is not None and query is key is value:
        return list(linear(query, packed, bias).chunk(3, -1))  # one product for all three
    biases = (None, None, None) if bias is None else bias.chunk(3)
    return [linear(x, w, b) for x, w, b in zip(inputs, weights, biases, strict=True)]


def _by_head(x: Tensor, heads: int) -> Tensor:
    """(length, batch, width) -> (batch, heads, length, width / heads)."""
    length, batch, width = x.shape
    return x.reshape(length, batch, heads, width // heads).permute(1, 2, 0, 3)


# ---- masks -------------------------------------------------------------------------------------------


def _checked(mask: Tensor, name: str, shape: tuple[int, ...]) -> Tensor:
    if mask.dtype != bool_ and mask.dtype not in FLOATS:
        raise RuntimeError(f"only bool and floating types of {name} are supported")
    if mask.shape != shape:
        raise RuntimeError(f"The shape of the {mask.ndim}D {name} is {list(mask.shape)}, but should be {list(shape)}.")
    return mask


def _merged(
    attn_mask: Tensor | None, padding: Tensor | None, batch: int, heads: int, targets: int, sources: int
) -> Tensor | None:
    """The merged mask for `scaled_dot_product_attention`: bool, True where a query may attend, or additive."""
    if attn_mask is not None:
        if attn_mask.ndim not in (2, 3):
            raise RuntimeError(f"attn_mask's dimension {attn_mask.ndim} is not supported")
        lead = () if attn_mask.ndim == 2 else (batch * heads,)
        attn_mask = _checked(attn_mask, "attn_mask", (*lead, targets, sources))
        attn_mask = attn_mask if attn_mask.ndim == 2 else attn_mask.reshape(batch, heads, targets, sources)
    if padding is not None:
        padding = _checked(padding, "key_padding_mask", (batch, sources)).reshape(batch, 1, 1, sources)
    masks = [m for m in (attn_mask, padding) if m is not None]
    if not masks:
        return None
    if all(m.dtype == bool_ for m in masks):
        hidden = masks[0] if len(masks) == 1 else RECORD.logical_or(masks[0], masks[1])
        return RECORD.logical_not(hidden)
    added = [RECORD.where(m, -math.inf, 0.0) if m.dtype == bool_ else m for m in masks]
    return added[0] if len(added) == 1 else added[0] + added[1]


def _one_more(mask: Tensor) -> Tensor:
    """The mask extended by one source that is not masked."""
    return pad(mask, (0, 1), value=True if mask.dtype == bool_ else 0.0)


# ---- attention ---------------------------------------------------------------------------------------


def _attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, rate: float, need_weights: bool
) -> tuple[Tensor, Tensor | None]:
    if not need_weights:
        return scaled_dot_product_attention(q, k, v, mask, rate), None
    scores = RECORD.gemm(q * (1 / math.sqrt(q.shape[-1])), k, False, True)
    if mask is not None:
        scores = RECORD.where(mask, scores, -math.inf) if mask.dtype == bool_ else scores + mask
    shares = dropout(RECORD.safe_softmax(scores, -1), rate)
    return shares.matmul(v), shares
