"""PyTorch's path of transformers."""

from ....nn.decoder import Transformer, TransformerDecoder, TransformerDecoderLayer
from ....nn.transformer import TransformerEncoder, TransformerEncoderLayer

__all__ = [
    "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
    "TransformerEncoderLayer",
]  # fmt: skip
