"""Modules of `autograd_gpu.nn` that programs written for PyTorch need."""
