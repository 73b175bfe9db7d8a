"""PyTorch's import paths below `distributed`."""
