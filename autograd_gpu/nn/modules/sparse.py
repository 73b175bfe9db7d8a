"""PyTorch's path of embeddings."""

from ..embedding import Embedding, EmbeddingBag

__all__ = ["Embedding", "EmbeddingBag"]
