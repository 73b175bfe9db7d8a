"""PyTorch's path of distances."""

from ....nn.similarity import CosineSimilarity, PairwiseDistance

__all__ = ["CosineSimilarity", "PairwiseDistance"]
