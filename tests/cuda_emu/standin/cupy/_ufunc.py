"""cupy.ufunc: NumPy's ufuncs with the methods and refusals of CuPy's, and the operators of arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import _call, _indexing, _launches, _rules
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
_loops: dict[Any, tuple[np.dtype, ...]] = {}


def _integer_power(a: Any, b: Any, out: np.ndarray) -> None:
    """Of integers: CuPy gives 0, 1 or -1 for negative exponents, where NumPy raises."""
    inverse = np.where(np.equal(a, -1), np.where(np.bitwise_and(b, 1), -1, 1), np.equal(a, 1))
    out[...] = np.where(np.less(b, 0), inverse, np.power(a, np.abs(b)))


class ufunc:
    def __init__(self, name: str, function: Callable[..., Any], nin: int, nout: int) -> None:
        self.__name__ = name
        self.name, self.numpy = f"cupy_{name}", function
        self.nin, self.nout, self.nargs = nin, nout, nin + nout
        _launches.ONE.add(name)

    @property
    def types(self) -> list[str]:
        return list(self.numpy.types)

    def __repr__(self) -> str:
        return f"<ufunc '{self.name}'>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for arg in args:
            if type(arg) is not ndarray:
                override = getattr(arg, "__cupy_override_elementwise_kernel__", None)
                if override is not None:
                    return override(self, *args, **kwargs)
        inputs, outs, dtype, casting = self._parse(args, kwargs)
        arrays = []
        values: list[Any] = []
        keys: list[Any] = []
        for value in inputs:
            if type(value) is not ndarray:
                value = self._operand(value)
            if type(value) is ndarray:
                check_device(value)
                arrays.append(value)
                values.append(value._a)
                keys.append(value._a.dtype)
            else:
                values.append(value)
                kind = type(value)
                keys.append((kind, None if kind is float or (kind is int and 0 <= value < 128) else value))
        shape = arrays[0].shape if len(arrays) == 1 else _broadcast([array.shape for array in arrays])
        found = self._resolve(tuple(keys), values, dtype)
        return self._enqueue(arrays, values, shape, found, outs, dtype, casting)

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

    def _operand(self, value: Any) -> Any:
        if isinstance(value, SCALARS):
            return value
        found = as_array(value)
        if found is None:
            raise TypeError(f"Unsupported type {type(value)}")
        return found

    def _resolve(self, keys: tuple, values: list[Any], dtype: np.dtype | None) -> tuple[np.dtype, ...]:
        """The dtypes of the results: NumPy's loops are CuPy's, where both have them."""
        key = (self.__name__, keys, dtype)
        found = _loops.get(key)
        if found is None:
            samples = [np.ones(1, value.dtype) if isinstance(value, np.ndarray) else value for value in values]
            with np.errstate(all="ignore"):
                if self.__name__ in ("power", "pow"):
                    samples[1] = abs(samples[1]) if isinstance(samples[1], SCALARS) else samples[1]
                try:
                    result = self.numpy(*samples, **({} if dtype is None else {"dtype": dtype, "casting": "unsafe"}))
                except TypeError as error:
                    raise TypeError(f"Wrong type ({keys}) of arguments for {self.name}: {error}") from None
            results = result if isinstance(result, tuple) else (result,)
            found = tuple([np.asarray(one).dtype for one in results])
            if len(_loops) > 8192:
                _loops.clear()
            _loops[key] = found
        return found

    def _enqueue(
        self, arrays: list, values: list, shape: tuple, found: tuple, outs: tuple, dtype: Any, casting: str
    ) -> Any:
        if not outs:
            results = [new(shape, one) for one in found]
        else:
            shape = _broadcast([shape, *[out.shape for out in outs if isinstance(out, ndarray)]])
            results = [
                new(shape, one) if out is None else _call.given(out, shape, one, casting)
                for out, one in zip(outs, found, strict=True)
            ]
        accesses = [access(result, True) for result in results]
        accesses += [access(array, False) for array in arrays]
        raws = tuple([result._a for result in results])
        function, run = self.numpy, None
        if self.__name__ in ("power", "pow") and found[0].kind == "i":
            def run() -> None: _integer_power(*values, raws[0])
        elif dtype is not None or any(raw.dtype != one for raw, one in zip(raws, found, strict=True)):
            def run() -> None:
                made = function(*values, **({} if dtype is None else {"dtype": dtype, "casting": "unsafe"}))
                for raw, one in zip(raws, made if isinstance(made, tuple) else (made,), strict=True):
                    np.copyto(raw, one, casting="unsafe")
        else:
            def run() -> None: function(*values, out=raws)
        kernels = 1 + _rules.overlapping(arrays, results) if outs and _launches.ACTIVE else 1
        current_queue().push(run, self.__name__, accesses, kernels)
        return results[0] if self.nout == 1 else tuple(results)

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


def _not_in_numpy(name: str) -> Callable[..., Any]:
    return {"fix": np.trunc, "sinc": np.sinc, "i0": np.i0}[name]


def find(name: str) -> ufunc:
    """The ufunc that CuPy calls `name`."""
    function = getattr(np, name) if isinstance(getattr(np, name), np.ufunc) else _not_in_numpy(name)
    found = isinstance(function, np.ufunc)
    return ufunc(function.__name__ if found else name, function if found else Plain(function),
                 function.nin if found else 1, function.nout if found else 1)


class Plain:
    """A function of NumPy arrays that CuPy has as a ufunc."""

    types = ("e->e", "f->f", "d->d")

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *given: Any, out: tuple[np.ndarray, ...] = (), **kwargs: Any) -> Any:
        result = self.function(*given)
        if not out:
            return result.astype(np.result_type(*given, np.float16), copy=False)
        out[0][...] = result
        return out[0]


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

