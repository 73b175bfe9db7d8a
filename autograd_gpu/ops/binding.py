"""Derives the public API from the ops' declarations: Tensor's methods and operators, the public modules' contents,
NumPy's and CuPy's protocols.

Names and methods come from the specs of the ops' blocks and of the decorators `public` and `method`
(core/declare/public.py). The tables below are Python's data model.
"""

from __future__ import annotations

from typing import Any

from ..core.declare.public import NAMED, Named
from ..core.extend import Tensor, operator
from ..errors import OpDeclarationError
from ..missing_names import TENSOR_NAMES, MissingMethod
from . import properties
from ._support.out import taking_out, written
from .creation import convert, tensor_types
from .elementwise import arithmetic, bitwise, comparison, division, unary
from .indexing import index, setitem
from .inplace import record, views
from .linalg import matmul
from .numpy_api import protocol
from .numpy_api.refused import INSTEAD, way_out
from .shape import permute, rearrange, split

OPERATORS: dict[str, Any] = {
    "abs": unary.abs, "neg": unary.neg, "pos": convert.itself, "invert": bitwise.bitwise_not,
    "getitem": index.getitem, "setitem": setitem.setitem,
}  # fmt: skip
BINARY: dict[str, Any] = {
    "add": arithmetic.add, "sub": arithmetic.sub, "mul": arithmetic.mul, "truediv": division.div,
    "floordiv": division.floor_divide, "mod": division.remainder, "pow": arithmetic.pow,
    "and": bitwise.bitwise_and, "or": bitwise.bitwise_or, "xor": bitwise.bitwise_xor,
    "lshift": bitwise.bitwise_left_shift, "rshift": bitwise.bitwise_right_shift,
}  # fmt: skip
COMPARISONS: dict[str, Any] = {
    "eq": comparison.eq, "ne": comparison.ne, "lt": comparison.lt, "le": comparison.le, "gt": comparison.gt,
    "ge": comparison.ge,
}  # fmt: skip
IN_PLACE = {  # operator -> the method that it calls
    "add": "add_", "sub": "sub_", "mul": "mul_", "truediv": "div_", "floordiv": "floor_divide_", "mod": "remainder_",
    "pow": "pow_", "and": "bitwise_and_", "or": "bitwise_or_", "xor": "bitwise_xor_", "lshift": "bitwise_left_shift_",
    "rshift": "bitwise_right_shift_",
}
PROPERTIES = {
    "H": permute.hermitian, "mH": permute.adjoint, "mT": permute.mT, "T": permute.transpose_all,
    "is_meta": properties.is_elsewhere, "is_mkldnn": properties.is_elsewhere, "is_mps": properties.is_elsewhere,
    "is_sparse_csr": properties.is_sparse, "is_xpu": properties.is_elsewhere, "layout": properties.layout,
    "is_cpu": properties.is_cpu, "is_sparse": properties.is_sparse, "real": properties.real,
}

# The result of `bind`: name -> function of each public module, of Tensor, and of NumPy's and CuPy's ufuncs.
MODULES: dict[str, dict[str, Any]] = {"": {}, "foreach": {}, "linalg": {}, "special": {}, "nn.functional": {}}
METHODS: dict[str, Any] = {}
_UFUNCS: dict[str, Any] = {}


def reflected(function: Any) -> Any:
    """`other OP self` for an operand whose type does not handle tensors."""

    def method(self: Tensor, other: Any) -> Any:
        return function(other, self)

    return method


def array_ufunc(self: Tensor, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """NumPy's protocol: np.sin(t) and array * t call the op of the same meaning, which records."""
    name = ufunc.__name__ + ("" if method == "__call__" else f".{method}")
    return _record("np", name, inputs, kwargs)


def cupy_override(self: Tensor, kernel: Any, *inputs: Any, **kwargs: Any) -> Any:
    """CuPy's protocol for the operands of its ufuncs, whose names are cupy_sin and so on."""
    if len(inputs) > kernel.nin:  # array += tensor
        inputs, kwargs = inputs[: kernel.nin], {**kwargs, "out": inputs[kernel.nin :]}
    return _record("cupy", kernel.name.removeprefix("cupy_"), inputs, kwargs)


def _record(module: str, name: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    op = _UFUNCS.get(name)
    if op is None:
        raise TypeError(f"{module}.{name} is not defined for tensors; {way_out(name, protocol.PUBLIC, module)}")
    if not kwargs:
        return op(*inputs)
    outs = kwargs.get("out", ())
    if kwargs.keys() == {"out"} and all(isinstance(out, Tensor) for out in outs):
        return written(f"{module}.{name}", outs[0] if len(outs) == 1 else outs, inputs, op, *inputs)
    key = next((key for key in kwargs if key != "out"), "out")
    value = outs[0] if key == "out" else kwargs[key]
    raise TypeError(f"{module}.{name}: {key}= of type {type(value).__name__} is not defined for tensors; "
                    f"{INSTEAD.get(key, 'leave it out')}")


def _iterate(self: Tensor) -> Any:
    if self.ndim == 0:
        raise TypeError("iteration over a 0-d tensor")
    return iter(split.unbind(self, 0))


def _reversed(self: Tensor) -> Tensor:
    return rearrange.flip(self, (0,)) if self.ndim else self


def _dir(self: object) -> list[str]:
    return sorted(set(object.__dir__(self)) - set(TENSOR_NAMES))


def bind() -> None:
    """Fills the tables, and sets Tensor's methods and operators."""
    for named in NAMED:
        _add(named)
    protocol.PUBLIC += [f"{module}.{name}".lstrip(".") for module, names in MODULES.items() for name in names]
    for name, function in METHODS.items():
        setattr(Tensor, name, function)
    for name in TENSOR_NAMES:
        setattr(Tensor, name, MissingMethod(name))
    for name, function in OPERATORS.items():
        setattr(Tensor, f"__{name}__", function)
    for name, function in BINARY.items():
        setattr(Tensor, f"__{name}__", operator(function.op))
        setattr(Tensor, f"__r{name}__", reflected(function))
    for name, function in COMPARISONS.items():
        setattr(Tensor, f"__{name}__", operator(function.op))
    for name, method in IN_PLACE.items():
        setattr(Tensor, f"__i{name}__", METHODS[method])
    for name, function in PROPERTIES.items():
        setattr(Tensor, name, property(function))
    Tensor.__matmul__ = matmul.matmul  # type: ignore[method-assign]  # the stub declares what is set here
    Tensor.__rmatmul__ = reflected(matmul.matmul)  # type: ignore[method-assign]
    Tensor.__new__ = tensor_types.construct  # type: ignore[method-assign]
    Tensor.__dir__ = _dir  # type: ignore[method-assign]
    Tensor.__iter__ = _iterate  # type: ignore[method-assign]
    Tensor.__reversed__ = _reversed  # type: ignore[attr-defined]
    Tensor.__array_ufunc__ = array_ufunc  # type: ignore[attr-defined]
    Tensor.__array_function__ = protocol.array_function  # type: ignore[attr-defined]
    Tensor.__cupy_override_elementwise_kernel__ = cupy_override  # type: ignore[attr-defined]


def _add(named: Named) -> None:
    """Adds the entries of one function."""
    function, visible = named.function, None
    written = {} if function.__name__.endswith("_") else _in_place_forms(named)  # {}: the function itself is in-place
    for dotted in named.public:
        module, _, name = dotted.rpartition(".")
        if name in written:
            _enter(MODULES[module], name, written[name])
            continue
        if visible is None:
            visible = taking_out(function, name, f"autograd_gpu.{module or 'ops'}") if named.out else function
        _enter(MODULES[module], name, visible)
    for name in named.methods:
        _enter(METHODS, name, function)
    for name in named.inplace:
        _enter(METHODS, name, written[name])
    for name in named.ufunc:
        _enter(_UFUNCS, name, function)


def _in_place_forms(named: Named) -> dict[str, Any]:
    """The in-place forms of a function, methods and functions."""
    make = views.in_place_view if named.view else record.in_place
    leaves = [dotted.rpartition(".")[2] for dotted in named.public]
    names = dict.fromkeys((*named.inplace, *(name for name in leaves if name.endswith("_"))))
    return {name: make(named.function, name) for name in names}


def _enter(table: dict[str, Any], name: str, function: Any) -> None:
    if name in table:
        raise OpDeclarationError(f"{name!r} names two functions: {table[name]!r} and {function!r}")
    table[name] = function


bind()
