"""Random numbers with tensors as parameters of the distribution."""
