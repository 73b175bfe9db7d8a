"""NumPy implementations: BLAS, LAPACK, sums, scans and the memory pool for large arrays."""
