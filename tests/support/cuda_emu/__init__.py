"""CUDA without a GPU: the kernels' emulator (build.py) and the stand-in for CuPy that runs on it (standin/)."""
