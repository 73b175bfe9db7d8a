"""Formulas as NumPy ufuncs whose inner loop is machine code, for which llvmlite is needed (the extra [native]).

`llvm_code.py` writes the loop as LLVM IR, `disk_cache.py` compiles it, `ufunc.py` makes a ufunc of it, and `switch.py`
decides when it takes the place of NumPy code. The results have the bits of NumPy code.
"""
