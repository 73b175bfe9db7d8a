"""NumPy implementations: BLAS, LAPACK, sums, scans, functions that have a kernel on CUDA, the pool for large arrays."""
