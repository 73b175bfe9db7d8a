"""Machine code as a built-in function of Python: f(*objects), whose `self` is an array of words that it reads."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

FASTCALL = 0x80  # METH_FASTCALL: function(self, address of the arguments, their number)


class Method(ctypes.Structure):
    """PyMethodDef, which has to live as long as its functions."""

    _fields_ = (("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int),
                ("text", ctypes.c_char_p))  # fmt: skip


def method(name: bytes, address: int | None, text: bytes) -> Method:
    """The description of machine code at this address."""
    return Method(name, address, FASTCALL, text)


def interpreter() -> list[int]:
    """The addresses of PyEval_SaveThread, PyEval_RestoreThread, Py_IncRef and None, with which the code returns."""
    api = ctypes.pythonapi
    functions = (api.PyEval_SaveThread, api.PyEval_RestoreThread, api.Py_IncRef)
    return [*[ctypes.cast(f, ctypes.c_void_p).value or 0 for f in functions], id(None)]


def function(described: Method, words: Sequence[int]) -> Any:
    """The function, which holds its words."""
    api = ctypes.pythonapi
    api.PyCFunction_NewEx.restype = ctypes.py_object
    api.PyCFunction_NewEx.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    unsigned = np.array([word % (1 << 64) for word in words], np.uint64)  # strides may be negative, addresses large
    return api.PyCFunction_NewEx(ctypes.addressof(described), unsigned.view(np.int64), None)
