"""Modules of `autograd_gpu.autograd` that programs written for PyTorch need."""
