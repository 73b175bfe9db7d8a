"""NumPy's functions on tensors, by NumPy's protocol `__array_function__`."""
