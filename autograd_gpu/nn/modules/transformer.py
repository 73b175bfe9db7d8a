"""PyTorch's path of transformers."""

from ..decoder import Transformer, TransformerDecoder, TransformerDecoderLayer
from ..transformer import TransformerEncoder, TransformerEncoderLayer

__all__ = [
    "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
    "TransformerEncoderLayer",
]  # fmt: skip
