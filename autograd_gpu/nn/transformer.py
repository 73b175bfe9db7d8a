"""The encoder of a transformer (Vaswani et al. 2017): one layer, and a stack of them."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

from ..core.tensor import Tensor
from ..ops import full, triu
from . import functional as F
from .attention import MultiheadAttention
from .container import ModuleList
from .dropout import Dropout
from .fused import through
from .linear import Linear
from .module import Module
from .norm import LayerNorm

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu}


def generate_square_subsequent_mask(size: int, device: Any = None, dtype: Any = None) -> Tensor:
    """The causal mask (size, size): 0 where target i may attend to source j <= i, else -inf.

    >>> ag.nn.transformer.generate_square_subsequent_mask(2)
    tensor([[  0., -inf],
            [  0.,   0.]])
    """
    return triu(full((size, size), -math.inf, dtype=dtype, device=device), 1)


def activation_of(name: str | Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The activation function by name, "relu" or "gelu", or `name` itself if it is a function; else RuntimeError."""
    if not isinstance(name, str):
        return name
    if name not in ACTIVATIONS:
        raise RuntimeError(f"activation should be relu/gelu, not {name}")
    return ACTIVATIONS[name]


class TransformerEncoderLayer(Module):
    """Self-attention and a feed-forward block, each with dropout, a residual connection and a LayerNorm.

    Takes and returns (L, N, d_model), (N, L, d_model) with `batch_first`, or unbatched (L, d_model). The norm follows
    the residual sum, or with `norm_first` precedes the block. `activation` is "relu", "gelu" or a function. Masks are
    bool, where True masks, or float, which are added.

    >>> layer = ag.nn.TransformerEncoderLayer(4, 2, dim_feedforward=8)
    >>> layer(ag.ones(3, 1, 4)).shape
    (3, 1, 4)
    """

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = F.relu, layer_norm_eps: float = 1e-5, batch_first: bool = False,
        norm_first: bool = False, bias: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout, bias, batch_first=batch_first, device=device, dtype=dtype
        )
        self.linear1 = Linear(d_model, dim_feedforward, bias, device, dtype)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, device, dtype)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.activation = activation_of(activation)

    def forward(
        self, src: Tensor, src_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        x = src
        if self.norm_first:
            x = x + self._ag_attend(self.norm1(x), src_mask, src_key_padding_mask, is_causal)
            return x + self._ag_feed_forward(self.norm2(x))
        x = self.norm1(x + self._ag_attend(x, src_mask, src_key_padding_mask, is_causal))
        return self.norm2(x + self._ag_feed_forward(x))

    def _ag_attend(self, x: Tensor, mask: Tensor | None, padding: Tensor | None, is_causal: bool) -> Tensor:
        out, _ = self.self_attn(x, x, x, padding, need_weights=False, attn_mask=mask, is_causal=is_causal)
        return self.dropout1(out)

    def _ag_feed_forward(self, x: Tensor) -> Tensor:
        return self.dropout2(self.linear2(self.dropout(through(self.linear1, self.activation, x))))


class TransformerEncoder(Module):
    """A stack of `num_layers` copies of a TransformerEncoderLayer, followed by `norm` if given.

    `enable_nested_tensor` and `mask_check` have no effect.

    >>> encoder = ag.nn.TransformerEncoder(ag.nn.TransformerEncoderLayer(4, 2, dim_feedforward=8), num_layers=2)
    >>> encoder(ag.ones(3, 1, 4)).shape
    (3, 1, 4)
    """

    norm: Module | None

    def __init__(
        self, encoder_layer: TransformerEncoderLayer, num_layers: int, norm: Module | None = None,
        enable_nested_tensor: bool = True, mask_check: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.layers = ModuleList(copy.deepcopy(encoder_layer) for _ in range(num_layers))
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor, self.mask_check = enable_nested_tensor, mask_check

    def forward(
        self, src: Tensor, mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, is_causal)
        return src if self.norm is None else self.norm(src)
