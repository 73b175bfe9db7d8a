"""What runs on NumPy arrays for an op from a formula: code by dtype and attributes, made when it is first asked for."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...backend.arrays.dtypes import FLOATS, FULL_FLOATS, HALF, float32, float64
from ...backend.cpu.half_table import MANY, looked_up
from ...backend.cpu.rows import SHARED_BLOCK
from ...backend.formulas.lowering import uses_library
from ...backend.formulas.numpy_code import FEW as NUMPY_FEW
from ...backend.formulas.numpy_code import NumpyCode

# The outputs of a program: the factors of each, and the order of the derivative.
Products = tuple[tuple[tuple[str, ...], int], ...]
Numbers = tuple[np.ndarray, ...]
Code = Callable[[Sequence[np.ndarray], Numbers], Sequence[np.ndarray]]

FEW = 256  # elements up to which SciPy's functions take less time than the passes that have better vector code
MOST = 256  # values of attributes for which numbers are kept


class Codes(dict[Any, tuple[Code, Numbers]]):
    """The code of products and its numbers by dtype, or by dtype and attributes."""

    def __init__(self, family: Any, name: str, products: Products) -> None:
        self.family, self.name, self.products = family, name, products
        self.compiled = functools.cache(self._compiled)

    def __missing__(self, key: Any) -> tuple[Code, Numbers]:
        dtype, *values = key if isinstance(key, tuple) else (key,)
        if len(self) >= MOST:
            self.clear()
        made = self[key] = self._made(dtype, dict(zip(self.family.attributes, values, strict=True)))
        return made

    def _made(self, dtype: np.dtype, attributes: dict[str, Any]) -> tuple[Code, Numbers]:
        if dtype not in FLOATS:
            self.family.chosen(attributes)
            return lambda arrays, _: [self.family.integers(np, *arrays, **attributes)], ()
        wide = float32 if dtype in HALF else dtype
        code, numbers = self.by_blocks(wide, attributes)
        chosen = code if dtype in HALF else _by_ufunc(code)
        options, values, ones = self._choice(attributes)
        if uses_library(self.family.outputs(self.products, options, ones)):
            few = self.compiled(options, wide, ones, True)
            chosen = _by_size(few if dtype in HALF else _by_ufunc(few), few.numbers(**values), code)
        if dtype in HALF and len(code.program.inputs) == 1:
            chosen = _by_table(chosen, numbers)
        return chosen, numbers

    def few(self, key: Any) -> tuple[Callable[..., Any] | None, int, bool]:
        """The first three parts of an item of Forwards."""
        dtype, *values = key if isinstance(key, tuple) else (key,)
        if dtype not in FULL_FLOATS:
            return None, -1, False
        options, numbers, ones = self._choice(dict(zip(self.family.attributes, values, strict=True)))
        library = uses_library(self.family.outputs(self.products, options, ones))
        code = self.compiled(options, dtype, ones, library)
        few = code.few_alone(code.numbers(**numbers))
        most = FEW if library else NUMPY_FEW if code.wide or code.ufunc is None else SHARED_BLOCK
        return few, -1 if few is None else most, code.native is not None and code.ufunc is None

    def by_blocks(self, dtype: np.dtype, attributes: dict[str, Any]) -> tuple[NumpyCode, Numbers]:
        """The code for many elements, which may write into arrays, and its numbers."""
        options, values, ones = self._choice(attributes)
        code = self.compiled(options, dtype, ones, False)
        return code, code.numbers(**values)

    def _choice(self, attributes: dict[str, Any]) -> tuple[Any, dict[str, float], tuple[str, ...]]:
        """The options and numbers of these attributes, and the names of the numbers that are 1."""
        options, numbers = self.family.chosen(attributes)
        return options, numbers, tuple([name for name, value in numbers.items() if value == 1])

    def _compiled(self, options: Any, dtype: np.dtype, ones: tuple[str, ...], library: bool) -> NumpyCode:
        program = self.family.program(self.products, options, dtype == float64, ones, library)
        return NumpyCode(self.name, program, dtype)


class Forwards(dict[Any, tuple[Callable[..., Any] | None, int, bool, Code, Numbers]]):
    """What forward runs, by the keys of `Codes`: `few(*arrays)`, `most`, `is_native`, code, numbers.

    The code takes half a microsecond more than `few`, which is for up to `most` elements, in arrays that are not 0-d,
    and unless native code may run.
    """

    def __init__(self, codes: Codes) -> None:
        self.codes = codes

    def __missing__(self, key: Any) -> tuple[Callable[..., Any] | None, int, bool, Code, Numbers]:
        if len(self) >= MOST:
            self.clear()
        few = self.codes.few(key)
        made = self[key] = (*few, *self.codes[key])
        return made


def _by_ufunc(code: NumpyCode) -> Code:
    """The ufunc that the code is, if it is one, for what one thread computes; of 0-d arrays it would make scalars.

    Many elements beside a number that takes long are computed by the code, which makes a vector of the number.
    """
    ufunc, most = code.ufunc, NUMPY_FEW if code.wide else SHARED_BLOCK
    if ufunc is None:
        return code

    def run(arrays: Sequence[np.ndarray], numbers: Numbers) -> Sequence[np.ndarray]:
        last = arrays[-1]
        return (ufunc(*arrays, *numbers),) if last.ndim and last.size <= most else code(arrays, numbers)

    return run


def _by_size(few: Code, numbers_of_few: Numbers, many: Code) -> Code:
    """The code for few elements, which calls SciPy, or the other."""

    def run(arrays: Sequence[np.ndarray], numbers: Numbers) -> Sequence[np.ndarray]:
        return few(arrays, numbers_of_few) if arrays[-1].size <= FEW else many(arrays, numbers)

    return run


def _by_table(code: Code, numbers: Numbers) -> Code:
    """The code, or for many elements of a half type a table of the results for all that there are."""

    def forward(xp: Any, x: np.ndarray) -> np.ndarray:
        return code((x,), numbers)[0]

    def run(arrays: Sequence[np.ndarray], _: Numbers) -> Sequence[np.ndarray]:
        (x,) = arrays
        return [looked_up(forward, x, {})] if x.size >= MANY else code(arrays, numbers)

    return run
