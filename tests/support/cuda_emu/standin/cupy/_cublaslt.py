"""cuBLASLt by NumPy: products of two matrices with the epilogue relu(... + bias), with the library's checks.

Descriptors, layouts and preferences are numbers of objects here. An algorithm is valid for the product that the
heuristic was asked for, and for addresses of the alignment that the preference promises.
"""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

import numpy as np

from . import _cublas
from ._cublas import CUBLASError
from ._errors import HazardError
from ._handles import used
from ._memory import find, view
from ._state import queue_of

_TRANSA, _TRANSB, _EPILOGUE, _BIAS = 3, 4, 7, 8
_DEFAULT, _RELU_BIAS = 1, 6
_SIZES = {"desc": {_TRANSA: 4, _TRANSB: 4, _EPILOGUE: 4, _BIAS: 8},
          "preference": {1: 8, 3: 4, 5: 4, 6: 4, 7: 4, 8: 4}}  # fmt: skip
_numbers = itertools.count(0x17_0000, 0x10)
_OBJECTS: dict[int, _Object] = {}


class _Object:
    def __init__(self, kind: str, *given: int) -> None:
        self.kind, self.given = kind, given
        self.attributes: dict[int, int] = {}


def _of(number: int, kind: str) -> _Object:
    found = _OBJECTS.get(number)
    if found is None or found.kind != kind:
        raise HazardError(f"{number:#x} is no {kind} of cuBLASLt")
    return found


def create(kind: str) -> Any:
    def make(pointer: Any, *given: int) -> None:
        number = next(_numbers)
        _OBJECTS[number] = _Object(kind, *given)
        pointer.value = number

    return make


def destroy(number: int) -> None:
    _of(number, "preference")
    del _OBJECTS[number]


def set_attribute(kind: str) -> Any:
    def put(number: int, attribute: int, address: int, size: int) -> None:
        if _SIZES[kind].get(attribute) != size:
            raise CUBLASError(7)
        _of(number, kind).attributes[attribute] = int.from_bytes(ctypes.string_at(address, size), "little")

    return put


def _product(desc: int, *layouts: int) -> tuple[Any, ...]:
    """What decides which algorithms are valid: everything but addresses."""
    attributes = {key: value for key, value in _of(desc, "desc").attributes.items() if key != _BIAS}
    return _of(desc, "desc").given, tuple(attributes.items()), *[_of(layout, "layout").given for layout in layouts]


_ALGORITHMS: list[tuple[tuple[Any, ...], dict[int, int]]] = []


def heuristic(
    handle: int, desc: int, a: int, b: int, c: int, d: int, preference: int, asked: int, results: int, count: int
) -> None:
    product, wished = _product(desc, a, b, c, d), _of(preference, "preference").attributes
    (compute, scale), options = product[0], dict(product[1])
    kinds = {layout[0] for layout in product[2:]}
    if options.get(_EPILOGUE, _DEFAULT) not in (_DEFAULT, _RELU_BIAS) or len(kinds) != 1 or scale != 0:
        raise CUBLASError(15)
    _cublas._check_types(*(*kinds,) * 3, compute)
    if asked < 1:
        raise CUBLASError(7)
    _ALGORITHMS.append((product, dict(wished)))
    algorithm = np.zeros(12, np.uint64)  # cublasLtMatmulHeuristicResult_t, of 96 bytes
    algorithm[0] = len(_ALGORITHMS)
    ctypes.memmove(results, algorithm.ctypes.data, 96)
    ctypes.memmove(count, np.ones(1, np.int32).ctypes.data, 4)


def matmul(
    handle: int, desc: int, alpha: int, a: int, a_layout: int, b: int, b_layout: int, beta: int, c: int, c_layout: int,
    d: int, d_layout: int, algorithm: int, workspace: int, workspace_size: int, stream: int,
) -> None:  # fmt: skip
    """D = epilogue(alpha op(A) op(B)), in place of C."""
    queue, product = queue_of(stream), _product(desc, a_layout, b_layout, c_layout, d_layout)
    number = int.from_bytes(ctypes.string_at(algorithm, 8), "little")
    if not 0 < number <= len(_ALGORITHMS) or _ALGORITHMS[number - 1][0] != product:
        raise CUBLASError(7)
    wished = _ALGORITHMS[number - 1][1]
    for attribute, pointer in ((5, a), (6, b), (7, c), (8, d)):
        if pointer % wished.get(attribute, 256):
            raise HazardError(f"{pointer:#x} is not aligned as was promised: {wished.get(attribute, 256)}")
    block, end = find(workspace), workspace + workspace_size
    if wished.get(1, 0) > workspace_size or block is None or end > block.ptr + block.size:
        raise HazardError(f"the workspace of {workspace_size} bytes at {workspace:#x} is not as was promised ({block})")
    options, bias = dict(product[1]), _of(desc, "desc").attributes.get(_BIAS, 0)
    (compute, _), (kind, m, *_) = product[0], product[5]
    ta, tb = options.get(_TRANSA, 0), options.get(_TRANSB, 0)
    k = product[2][1 if ta else 2]
    if product[3][2 if tb else 1] != k:
        raise CUBLASError(7)
    scale, bits = _cublas._check_types(kind, kind, kind, compute)
    dtype = _cublas._TYPES[kind]
    factors = _cublas._Factors(0, alpha, beta, scale)
    left, right, out = (
        _cublas._matrices(name, pointer, dtype, tuple(layout[1:3]), layout[3], 0, 1)
        for name, pointer, layout in (("A", a, product[2]), ("B", b, product[3]), ("D", d, product[5]))
    )
    added = _cublas._matrices("bias", bias, dtype, (m, 1), m, 0, 1) if options.get(_EPILOGUE) == _RELU_BIAS else None

    def run() -> None:
        first, second = (_cublas._rounded(x[3].astype(scale), bits) for x in (left, right))
        first, second = (x.swapaxes(1, 2) if t else x for x, t in ((first, ta), (second, tb)))
        result = factors.values()[0] * np.matmul(first, second)
        if added is not None:
            result = np.maximum(result + added[3].astype(scale), 0)
        out[3][...] = result

    reads = [(*x[:4], False) for x in (left, right, added) if x is not None]
    scratch = (block, workspace, end, view(workspace, (workspace_size,), np.dtype(np.uint8)), True)
    with used(handle, queue):
        queue.push(run, "gemm", [(*out[:4], True), *reads, scratch, *factors.accesses])
