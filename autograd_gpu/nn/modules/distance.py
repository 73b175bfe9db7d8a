"""PyTorch's path of distances."""

from ..similarity import CosineSimilarity, PairwiseDistance

__all__ = ["CosineSimilarity", "PairwiseDistance"]
