"""Modules of `autograd_gpu.distributed` that programs written for PyTorch need."""
