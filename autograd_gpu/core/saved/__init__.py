"""Saved tensors: the tensors that a node keeps for backward, and their hooks."""
