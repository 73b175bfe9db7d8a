"""NumPy ufuncs of machine code, by NumPy's C API; and the inner loops of NumPy's own ufuncs, which that code calls.

Broadcasting, out=, strides, overlap and the GIL are NumPy's business. The addresses of its inner loops come from the
head of its ufunc objects (numpy/ufuncobject.h) and are checked by a call before they are used.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...arrays.dtypes import as_dtype, bfloat16
from ..lowering import HALF_FUNCTIONS, Program
from .llvm_code import functions_of

FROM_FUNCTION, CLEAR_FLAGS = 1, 27  # places in NumPy's table of functions, which its binary interface fixes
NO_IDENTITY = -1
NAMES = {"pow": "power"}  # where NumPy's name is another
Pointer, Text, Int = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int


class Unavailable(Exception):
    """Why NumPy's inner loops cannot be called."""


class _Head(ctypes.Structure):
    """PyUFuncObject behind the head of every Python object."""

    _fields_ = (
        ("nin", Int), ("nout", Int), ("nargs", Int), ("identity", Int), ("functions", ctypes.POINTER(Pointer)),
        ("data", ctypes.POINTER(Pointer)), ("ntypes", Int),
    )  # fmt: skip


@functools.cache
def numpy_function(place: int) -> int:
    """The address of a function in NumPy's table."""
    capsule = np._core._multiarray_umath._UFUNC_API  # type: ignore[attr-defined]
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = Pointer, [ctypes.py_object, Text]
    address: int = ctypes.cast(get(capsule, None), ctypes.POINTER(Pointer))[place]
    return address


# ---- NumPy's inner loops -------------------------------------------------------------------------------


@functools.cache
def inner_loop(name: str, dtype: np.dtype) -> tuple[int, int]:
    """The address and the data of a ufunc's inner loop, as NumPy chose it for this processor; else Unavailable."""
    ufunc: np.ufunc = getattr(np, NAMES.get(name, name))
    head = _Head.from_address(id(ufunc) + object.__basicsize__)
    types = dtype.char * ufunc.nin + "->" + dtype.char
    if (head.nin, head.nout, head.nargs, head.ntypes) != (ufunc.nin, ufunc.nout, ufunc.nargs, ufunc.ntypes):
        raise Unavailable(f"NumPy {np.__version__} keeps the inner loops of its ufuncs elsewhere")
    place = ufunc.types.index(types)
    loop = head.functions[place], head.data[place] or 0
    _check(ufunc, name, dtype, *loop)
    return loop


def _check(ufunc: np.ufunc, name: str, dtype: np.dtype, address: int, data: int) -> None:
    """Unavailable unless the inner loop has the results of its ufunc."""
    ends = [0, 1e-40, 1e-6, 0.1, 1, 3, 20, 87, 89, 104, 700, 746, 1e5, 1e30, np.inf, np.nan]
    x = np.concatenate([np.linspace(-9, 9, 991), ends, np.negative(ends)]).astype(dtype)
    operands = [x, *[np.asarray(second, dtype) for second in ([2.5] if ufunc.nin == 2 else [])]]
    out = np.empty_like(x)
    arrays = [*operands, out]
    pointers = (Pointer * len(arrays))(*[a.ctypes.data for a in arrays])
    steps = (ctypes.c_ssize_t * len(arrays))(*[a.itemsize if a.ndim else 0 for a in arrays])
    ctypes.CFUNCTYPE(None, Pointer, Pointer, Pointer, Pointer)(address)(
        ctypes.addressof(pointers), ctypes.addressof(ctypes.c_ssize_t(x.size)), ctypes.addressof(steps), data
    )
    ctypes.CFUNCTYPE(None)(numpy_function(CLEAR_FLAGS))()
    with np.errstate(all="ignore"):
        expected = ufunc(*operands)
    signs_differ = (np.signbit(out) != np.signbit(expected)) & ~np.isnan(expected)
    if not np.array_equal(out, expected, equal_nan=True) or signs_differ.any():
        raise Unavailable(f"the inner loop of NumPy's {ufunc.__name__} has other results than the function")


@functools.cache
def ties(dtype: np.dtype) -> dict[str, str]:
    """What np.minimum and np.maximum answer for zeros of different sign, which depends on the processor."""
    rules = {}
    zero = np.zeros(67, dtype)
    for name, ufunc in (("minimum", np.minimum), ("maximum", np.maximum)):
        signs = [np.signbit(ufunc(a, b)) for a, b in ((zero, -zero), (-zero, zero), (zero, -zero[0]), (-zero, zero[0]))]
        found = tuple([bool(s[0]) for s in signs])
        known: dict[tuple[bool, ...], str] = {(False, True) * 2: "first", (True, False) * 2: "second"}
        rule = "ordered" if found == (name == "minimum",) * 4 else known.get(found)
        if rule is None or any(s.min() != s.max() for s in signs):
            raise Unavailable(f"np.{name} of zeros of different sign depends on their place in the array")
        rules[name] = rule
    return rules


@functools.cache
def results_of(name: str) -> np.ndarray:
    """The results of one of HALF_FUNCTIONS for all numbers of its half type, in the order of their bits."""
    function, half = HALF_FUNCTIONS[name]
    with np.errstate(all="ignore"):
        results: np.ndarray = getattr(np, function)(np.arange(1 << 16, dtype=np.uint16).view(as_dtype(half)))
    return results


def loops_of(program: Program, dtype: np.dtype) -> Any:
    """The addresses that a program's machine code for this type of computation reads: an array of C."""
    pairs = [(results_of(name).ctypes.data, 0) if name in HALF_FUNCTIONS else inner_loop(name, dtype)
             for name in functions_of(program)]  # fmt: skip
    table = [word or None for pair in pairs for word in pair] + [numpy_function(CLEAR_FLAGS)]
    return (Pointer * len(table))(*table)


# ---- ufuncs --------------------------------------------------------------------------------------------


class NativeUfunc:
    """The ufunc of a program's machine code, for inputs, numbers and outputs of these dtypes; bfloat16 as uint16.

    It has to live as long as calls of `ufunc`, which reads its arrays of C.
    """

    def __init__(self, name: str, program: Program, types: Sequence[np.dtype], address: int) -> None:
        inputs, outputs = len(program.inputs) + len(program.numbers), len(program.outputs)
        self.table = loops_of(program, np.dtype(np.float64 if np.float64 in types else np.float32))
        self.functions, self.data = (Pointer * 1)(address), (Pointer * 1)(ctypes.addressof(self.table))
        self.types = bytes([np.dtype(np.uint16 if t == bfloat16 else t).num for t in types])
        self.loop = address, ctypes.addressof(self.table)
        self.name = name.encode()
        self.ufunc: Callable[..., Any] = _from_function()(
            self.functions, self.data, self.types, 1, inputs, outputs, NO_IDENTITY, self.name, None, 0
        )


@functools.cache
def _from_function() -> Callable[..., Any]:
    """PyUFunc_FromFuncAndData."""
    arguments: Sequence[Any] = (Pointer, Pointer, Text, Int, Int, Int, Int, Text, Text, Int)
    return ctypes.PYFUNCTYPE(ctypes.py_object, *arguments)(numpy_function(FROM_FUNCTION))
