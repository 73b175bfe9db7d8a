"""cupy.ufunc: NumPy's ufuncs with the methods and refusals of CuPy's, and the operators of arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from . import _call, _formulas, _indexing, _launches, _loops, _rules
from ._access import access, check_device
from ._array import SCALARS, as_array, ndarray, new
from ._creation import array
from ._state import current_queue
from ._table import API

# What each ufunc scatters with, and the dtypes that CUDA has atomics for.
_ATOMIC = {
    "add": "iqlILQefd", "subtract": "iI", "maximum": "iqlILQfd", "minimum": "iqlILQfd", "bitwise_and": "iqlILQ",
    "bitwise_or": "iqlILQ", "bitwise_xor": "iqlILQ",
}  # fmt: skip
_REDUCTIONS = {"add": "sum", "multiply": "prod"}
_SCANS = {"add": "cumsum", "multiply": "cumprod"}
_WEAK = frozenset((int, float, complex))


class ufunc:
    """`function` of NumPy arrays with the loops that CuPy has under `table`, "cupy.add" for example."""

    def __init__(self, table: str, name: str, function: Callable[..., Any], nin: int, nout: int = 1) -> None:
        self.table, self.__name__ = table, name
        self.name, self.numpy = f"cupy_{name}", function
        self.nin, self.nout, self.nargs = nin, nout, nin + nout
        _launches.ONE.add(self.__name__)

    @property
    def types(self) -> list[str]:
        return _loops.types(self.table)

    def __repr__(self) -> str:
        return f"<ufunc '{self.name}'>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for arg in args:
            if type(arg) is not ndarray and hasattr(arg, "__cupy_override_elementwise_kernel__"):
                return arg.__cupy_override_elementwise_kernel__(self, *args, **kwargs)
        inputs, outs, dtype, casting = self._parse(args, kwargs)
        arrays, values, dtypes, weak = [], [], [], []
        for value in inputs:
            value = _operand(value)
            values.append(value)
            weak.append(type(value) if type(value) in _WEAK else None)
            if type(value) is ndarray:
                check_device(value)
                arrays.append(value)
                dtypes.append(value.dtype)
            else:
                dtypes.append(np.asarray(value).dtype)
        shape = arrays[0].shape if len(arrays) == 1 else _broadcast([array.shape for array in arrays])
        loop = _loops.choose(self.table, tuple(dtypes), tuple(weak), dtype)
        return self._enqueue(arrays, values, shape, loop, outs, casting)

    def _parse(self, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, tuple, Any, str]:
        out, dtype, casting = kwargs.pop("out", None), kwargs.pop("dtype", None), kwargs.pop("casting", "same_kind")
        if kwargs:
            raise TypeError(f"Wrong arguments {kwargs}")
        if not self.nin <= len(args) <= self.nargs:
            raise TypeError(f"Wrong number of arguments for {self.name!r}. It must be either {self.nin} or "
                            f"{self.nargs} (with outputs), but given {len(args)}.")
        outs = args[self.nin :]
        if out is not None:
            if outs:
                raise ValueError("Cannot specify 'out' as both a positional and keyword argument")
            outs = out if isinstance(out, tuple) else (out,)
            if len(outs) != self.nout:
                raise ValueError("The 'out' tuple must have exactly one entry per ufunc output")
        return args[: self.nin], outs, None if dtype is None else np.dtype(dtype), casting

    def _enqueue(
        self, arrays: list, values: list, shape: tuple, loop: _loops.Loop, outs: tuple, casting: str
    ) -> Any:
        if not outs:
            results = [new(shape, one) for one in loop.given]
        else:
            shape = _broadcast([shape, *[out.shape for out in outs if isinstance(out, ndarray)]])
            results = [
                new(shape, one) if out is None else _call.given(out, shape, one, casting)
                for out, one in zip(outs, loop.given, strict=True)
            ]
        accesses = [access(result, True) for result in results]
        accesses += [access(array, False) for array in arrays]
        kernels = 1 + _rules.overlapping(arrays, results) if outs and _launches.ACTIVE else 1
        run = self._work(values, [result._a for result in results], loop) if 0 not in shape else _nothing
        current_queue().push(run, self.__name__, accesses, kernels)
        return results[0] if self.nout == 1 else tuple(results)

    def _work(self, values: list, raws: list[np.ndarray], loop: _loops.Loop) -> Callable[[], None]:
        """Reads the operands in the loop's dtypes, computes, and stores; numbers are converted at the call."""
        operands = [value._a if type(value) is ndarray else np.array(value, taken)
                    for value, taken in zip(values, loop.taken, strict=True)]  # fmt: skip
        function, dtypes = self.numpy, tuple([raw.dtype for raw in raws])
        direct = dtypes == loop.given and _same_loop(function, loop)

        def run() -> None:
            read = [x.astype(taken, copy=False) for x, taken in zip(operands, loop.taken, strict=True)]
            if direct:
                function(*read, out=tuple(raws))
                return
            made = function(*read)
            for raw, one, given in zip(raws, made if len(raws) > 1 else (made,), loop.given, strict=True):
                np.copyto(raw, np.asarray(one).astype(given, copy=False), casting="unsafe")

        return run

    def outer(self, A: Any, B: Any, **kwargs: Any) -> Any:
        A, B = array(A, copy=None), array(B, copy=None)
        return self(A.reshape(A.shape + (1,) * B.ndim), B.reshape((1,) * A.ndim + B.shape), **kwargs)

    def at(self, a: ndarray, indices: Any, b: Any = None) -> None:
        if self.__name__ not in _ATOMIC:
            raise NotImplementedError(f"`{self.name}.at` is not supported yet")
        _indexing.scatter(a, indices, b, self, _ATOMIC[self.__name__])

    def reduce(self, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        if self.__name__ not in _REDUCTIONS:
            raise NotImplementedError(f"`{self.name}.reduce` is not supported yet")
        return getattr(array, _REDUCTIONS[self.__name__])(axis, dtype, out, keepdims)

    def accumulate(self, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None) -> Any:
        if self.__name__ not in _SCANS:
            raise NotImplementedError(f"`{self.name}.accumulate` is not supported yet")
        return getattr(array, _SCANS[self.__name__])(axis, dtype, out)

    def reduceat(self, array: Any, indices: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        if self.__name__ != "add":
            raise NotImplementedError(f"`{self.name}.reduceat` is not supported yet")
        return _call.call("reduceat", np.add.reduceat, (array, indices, axis, dtype), {}, out)


def _operand(value: Any) -> Any:
    """A device array, or a number of Python or NumPy."""
    if type(value) is ndarray or type(value) in _WEAK or isinstance(value, (bool, np.generic)):
        return value
    found = as_array(value)
    if found is None:
        raise TypeError(f"Unsupported type {type(value)}")
    return found


@functools.lru_cache(8192)
def _same_loop(function: Any, loop: _loops.Loop) -> bool:
    """Whether NumPy has the loop, too, and would take it."""
    if not isinstance(function, np.ufunc):
        return False
    try:
        return function.resolve_dtypes((*loop.taken, *(None,) * len(loop.given))) == loop.taken + loop.given
    except TypeError:
        return False


def _nothing() -> None:
    """The work of a ufunc without elements."""


def _broadcast(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    if not shapes:
        return ()
    first = shapes[0]
    if all(shape == first for shape in shapes):
        return first
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        listed = ", ".join(map(str, shapes))
        raise ValueError(f"operands could not be broadcast together with shapes {listed}") from None


def find(name: str) -> ufunc:
    """The ufunc that CuPy calls `name`."""
    theirs = getattr(np, name)
    function = _formulas.OWN.get(name, theirs)
    loop = _loops.loops(f"cupy.{name}")[0]
    return ufunc(f"cupy.{name}", theirs.__name__, function, len(loop.taken), getattr(theirs, "nout", 1))


WHERE = ufunc("cupy_where", "where", np.where, 3)
CLIP = ufunc("cupy_clip", "clip", _formulas.clip, 3)
UFUNCS = {name: find(name) for name, kind in API["cupy"].items() if kind == "ufunc"}


# ---- operators -----------------------------------------------------------------------------------------


def defers(x: Any, y: Any) -> bool:
    """Whether `x op y` is left to y."""
    absent = object()
    handler = getattr(y, "__array_ufunc__", absent)
    if handler is not absent:
        return handler is None
    return getattr(x, "__array_priority__", 0) < getattr(y, "__array_priority__", 0)


def _operator(function: ufunc, numpy_function: Callable[..., Any], swapped: bool = False) -> Callable[..., Any]:
    def operate(self: ndarray, other: Any) -> Any:
        if isinstance(other, (ndarray, *SCALARS)):
            return function(other, self) if swapped else function(self, other)
        if defers(self, other):
            return NotImplemented
        return numpy_function(other, self) if swapped else numpy_function(self, other)

    return operate


def _equality(function: ufunc, numpy_function: Callable[..., Any], unequal: bool) -> Callable[..., Any]:
    compare = _operator(function, numpy_function)

    def operate(self: ndarray, other: Any) -> Any:
        if other is None or (type(other).__eq__ is object.__eq__ and not isinstance(other, SCALARS)):
            return new(self.shape, np.dtype(bool), fill=unequal)
        return compare(self, other)

    return operate


def _power(self: ndarray, other: Any, modulo: Any = None) -> Any:
    if type(other) in (int, float) and self.dtype.kind in "fc":
        name = {2: "square", 0.5: "sqrt", -1.0: "reciprocal"}.get(other)
        if name is not None and (other == 2 or type(other) is float):
            return UFUNCS[name](self)
    return _POWER(self, other)


_POWER = _operator(UFUNCS["power"], np.power)
_BINARY = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "true_divide", "floordiv": "floor_divide",
    "mod": "remainder", "divmod": "divmod", "pow": "power", "lshift": "left_shift", "rshift": "right_shift",
    "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
}  # fmt: skip
_COMPARISONS = {"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}


def _in_place(function: ufunc) -> Callable[..., Any]:
    return lambda self, other: function(self, other, self)


def _unary(function: ufunc) -> Callable[..., Any]:
    return lambda self: function(self)


def install() -> None:
    """Gives ndarray its operators."""
    for short, name in _BINARY.items():
        function, numpy_function = UFUNCS[name] if name in UFUNCS else find(name), getattr(np, name)
        setattr(ndarray, f"__{short}__", _operator(function, numpy_function))
        setattr(ndarray, f"__r{short}__", _operator(function, numpy_function, swapped=True))
        if short != "divmod":
            setattr(ndarray, f"__i{short}__", _in_place(function))
    for short, name in _COMPARISONS.items():
        setattr(ndarray, f"__{short}__", _operator(UFUNCS[name], getattr(np, name)))
    ndarray.__eq__ = _equality(UFUNCS["equal"], np.equal, False)
    ndarray.__ne__ = _equality(UFUNCS["not_equal"], np.not_equal, True)
    ndarray.__pow__ = _power
    for short, name in {"neg": "negative", "pos": "positive", "abs": "absolute", "invert": "invert"}.items():
        setattr(ndarray, f"__{short}__", _unary(UFUNCS[name]))

