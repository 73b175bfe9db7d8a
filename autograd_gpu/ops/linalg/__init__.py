"""Products of matrices and tensors, decompositions, solutions, norms and distances."""
