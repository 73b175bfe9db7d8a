"""Saved tensors: what a node keeps for backward, and the hooks that see it."""
