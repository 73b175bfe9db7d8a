"""The NumPy side: BLAS, LAPACK, sums, scans and the pool of large arrays."""
