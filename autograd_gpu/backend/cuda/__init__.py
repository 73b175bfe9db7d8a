"""The CuPy side: its import, cuBLAS, cuSOLVER, streams, memory, and results that differ from NumPy's."""
