"""Modules of `autograd_gpu.utils` that programs written for PyTorch need."""
