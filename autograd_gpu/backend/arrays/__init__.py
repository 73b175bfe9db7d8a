"""NumPy and CuPy arrays: dtypes and promotion, devices, memory formats, strides, products, sums, input checks."""
