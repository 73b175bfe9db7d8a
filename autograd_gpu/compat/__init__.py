"""PyTorch's names for what lies outside of this library's aims: as far as programs written for PyTorch need them.

A module `compat.x` is imported as `autograd_gpu.x` (import_paths.py), at its first use.
"""
