"""The transformer decoder, and the whole transformer (Vaswani et al. 2017)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from ..core.tensor import Tensor
from . import functional as F
from . import init
from .attention import MultiheadAttention
from .container import ModuleList
from .dropout import Dropout
from .fused import through
from .linear import Linear
from .module import Module
from .norm import LayerNorm
from .transformer import (
    TransformerEncoder,
    TransformerEncoderLayer,
    activation_of,
    generate_square_subsequent_mask,
)


class TransformerDecoderLayer(Module):
    """Self-attention, cross-attention to the encoder's output `memory`, and a feed-forward block with `activation`.

    Each has dropout, a residual connection and a LayerNorm. Takes and returns (T, N, d_model), (N, T, d_model) with
    `batch_first`, or unbatched (T, d_model); `memory` likewise. Masks and `norm_first` as in `TransformerEncoderLayer`.

    >>> layer = ag.nn.TransformerDecoderLayer(4, 2, dim_feedforward=8)
    >>> layer(ag.ones(3, 1, 4), memory=ag.ones(5, 1, 4)).shape
    (3, 1, 4)
    """

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = F.relu, layer_norm_eps: float = 1e-5, batch_first: bool = False,
        norm_first: bool = False, bias: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        place = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **place)
        self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **place)
        self.linear1 = Linear(d_model, dim_feedforward, bias, **place)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **place)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, layer_norm_eps, bias=bias, **place)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, bias=bias, **place)
        self.norm3 = LayerNorm(d_model, layer_norm_eps, bias=bias, **place)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.dropout3 = Dropout(dropout)
        self.activation = activation_of(activation)

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False, memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        own = tgt_mask, tgt_key_padding_mask, tgt_is_causal
        other = memory_mask, memory_key_padding_mask, memory_is_causal
        x = tgt
        if self.norm_first:
            y = self.norm1(x)
            x = x + self.dropout1(_attended(self.self_attn, y, y, *own))
            x = x + self.dropout2(_attended(self.multihead_attn, self.norm2(x), memory, *other))
            return x + self._ag_feed_forward(self.norm3(x))
        x = self.norm1(x + self.dropout1(_attended(self.self_attn, x, x, *own)))
        x = self.norm2(x + self.dropout2(_attended(self.multihead_attn, x, memory, *other)))
        return self.norm3(x + self._ag_feed_forward(x))

    def _ag_feed_forward(self, x: Tensor) -> Tensor:
        return self.dropout3(self.linear2(self.dropout(through(self.linear1, self.activation, x))))


def _attended(
    attention: Module, x: Tensor, memory: Tensor, mask: Tensor | None, padding: Tensor | None, is_causal: bool
) -> Tensor:
    out, _ = attention(x, memory, memory, padding, need_weights=False, attn_mask=mask, is_causal=is_causal)
    return out


class TransformerDecoder(Module):
    """A stack of `num_layers` copies of a TransformerDecoderLayer, followed by `norm` if given.

    >>> decoder = ag.nn.TransformerDecoder(ag.nn.TransformerDecoderLayer(4, 2, dim_feedforward=8), num_layers=2)
    >>> decoder(ag.ones(3, 1, 4), ag.ones(5, 1, 4)).shape
    (3, 1, 4)
    """

    norm: Module | None

    def __init__(self, decoder_layer: TransformerDecoderLayer, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = ModuleList(copy.deepcopy(decoder_layer) for _ in range(num_layers))
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None, memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        for layer in self.layers:
            tgt = layer(
                tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask,
                bool(tgt_is_causal), memory_is_causal,
            )  # fmt: skip
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """Encoder and decoder: (src (S, N, d_model), tgt (T, N, d_model)) -> (T, N, d_model).

    With `batch_first` (N, S, d_model) and so on, or all without N. Matrices are initialized by `xavier_uniform_`.
    RuntimeError for sizes that do not match.

    >>> net = ag.nn.Transformer(4, 2, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=8)
    >>> net(ag.ones(5, 1, 4), ag.ones(3, 1, 4), tgt_mask=net.generate_square_subsequent_mask(3)).shape
    (3, 1, 4)
    """

    generate_square_subsequent_mask = staticmethod(generate_square_subsequent_mask)

    def __init__(
        self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6, num_decoder_layers: int = 6,
        dim_feedforward: int = 2048, dropout: float = 0.1, activation: str | Callable[[Tensor], Tensor] = F.relu,
        custom_encoder: Module | None = None, custom_decoder: Module | None = None, layer_norm_eps: float = 1e-5,
        batch_first: bool = False, norm_first: bool = False, bias: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        sizes = d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias
        place = {"device": device, "dtype": dtype}

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, **place)

        self.encoder = custom_encoder if custom_encoder is not None else TransformerEncoder(
            TransformerEncoderLayer(*sizes, **place), num_encoder_layers, norm()
        )  # fmt: skip
        self.decoder = custom_decoder if custom_decoder is not None else TransformerDecoder(
            TransformerDecoderLayer(*sizes, **place), num_decoder_layers, norm()
        )  # fmt: skip
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def forward(
        self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None, tgt_is_causal: bool | None = None, memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        batch = 0 if self.batch_first else 1
        if src.ndim == 3 and src.shape[batch] != tgt.shape[batch]:
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(src, src_mask, src_key_padding_mask, bool(src_is_causal))
        return self.decoder(
            tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask, tgt_is_causal,
            memory_is_causal,
        )  # fmt: skip
