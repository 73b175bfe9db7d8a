"""Random numbers whose distribution is given by tensors."""
