"""NumPy and CuPy arrays: dtypes and their promotion, devices, memory formats, strides, arrays from outside."""
