"""CuPy: its import, cuBLAS, cuSOLVER, streams, memory statistics, and functions whose results differ from NumPy's."""
