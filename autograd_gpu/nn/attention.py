"""Multi-head attention as a module."""

from __future__ import annotations

from typing import Any

from ..core.tensor import Parameter, Tensor
from ..ops.creation.factories import empty
from . import functional as F
from . import init
from .linear import Linear
from .module import Module


class MultiheadAttention(Module):
    """Multi-head attention with `num_heads` heads (Vaswani et al. 2017).

    forward(query, key, value) takes (L, N, E), (S, N, kdim), (S, N, vdim), with `batch_first` (N, L, E) and so on, or
    all without N. It returns (output, attention weights); the weights are None with `need_weights=False`. Masks are
    bool, where True masks, or float, which are added. `add_bias_kv` adds a learned key and value, `add_zero_attn` a
    zero key and value. ValueError for sizes that are not positive, or if `num_heads` does not divide `embed_dim`.

    >>> layer = ag.nn.MultiheadAttention(4, 2)
    >>> x = ag.ones(3, 1, 4)
    >>> out, weights = layer(x, x, x)
    >>> out.shape, weights.shape
    ((3, 1, 4), (1, 3, 3))
    """

    in_proj_weight: Parameter | None
    q_proj_weight: Parameter | None
    k_proj_weight: Parameter | None
    v_proj_weight: Parameter | None
    in_proj_bias: Parameter | None
    bias_k: Parameter | None
    bias_v: Parameter | None

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, add_bias_kv: bool = False,
        add_zero_attn: bool = False, kdim: int | None = None, vdim: int | None = None, batch_first: bool = False,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and "
                             f"num_heads={num_heads} instead")
        if embed_dim % num_heads:
            raise ValueError(f"embed_dim must be divisible by num_heads, got {embed_dim} and {num_heads}")
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        self.add_zero_attn = add_zero_attn

        def parameter(exists: bool, *shape: int) -> Parameter | None:
            return Parameter(empty(*shape, device=device, dtype=dtype)) if exists else None

        packed = self.kdim == self.vdim == embed_dim
        self.register_parameter("q_proj_weight", parameter(not packed, embed_dim, embed_dim))
        self.register_parameter("k_proj_weight", parameter(not packed, embed_dim, self.kdim))
        self.register_parameter("v_proj_weight", parameter(not packed, embed_dim, self.vdim))
        self.register_parameter("in_proj_weight", parameter(packed, 3 * embed_dim, embed_dim))
        self.register_parameter("in_proj_bias", parameter(bias, 3 * embed_dim))
        self.out_proj = Linear(embed_dim, embed_dim, bias, device, dtype)
        self.register_parameter("bias_k", parameter(add_bias_kv, 1, 1, embed_dim))
        self.register_parameter("bias_v", parameter(add_bias_kv, 1, 1, embed_dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Redraws the weights of the input projection, and sets both biases to zeros."""
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.zeros_(bias)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None,
        need_weights: bool = True, attn_mask: Tensor | None = None, average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        swap = self.batch_first and query.ndim == 3
        if swap:
            same_key, same_value = key is query, value is key
            query = query.transpose(0, 1)
            key = query if same_key else key.transpose(0, 1)
            value = key if same_value else value.transpose(0, 1)
        out, weights = F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, self.bias_k,
            self.bias_v, self.add_zero_attn, self.dropout, self.out_proj.weight, self.out_proj.bias, self.training,
            key_padding_mask, need_weights, attn_mask, self.in_proj_weight is None, self.q_proj_weight,
            self.k_proj_weight, self.v_proj_weight, average_attn_weights, is_causal,
        )  # fmt: skip
        return (out.transpose(0, 1) if swap else out), weights
