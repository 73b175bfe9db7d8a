"""PyTorch's path of embeddings."""

from ....nn.embedding import Embedding, EmbeddingBag

__all__ = ["Embedding", "EmbeddingBag"]
