"""Runs op calls that the generated fast paths do not handle: the general path.

1. Arguments: arrays on the tensors' device become constants (zero-copy), numbers stay numbers. An object whose class
   has `__torch_function__` is asked for the result (core/overrides.py).
2. Devices: all tensors must be on one device, otherwise an error names the devices.
3. Dtypes: PyTorch's promotion, by recorded casts, so that every gradient has the dtype of its input.
4. The innermost interpreter gets the call, if there is one (core/interpret/). Otherwise the op's core runs forward, and
   creates the node if this thread records.
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import backend, errors
from ..backend import is_array
from ..backend.arrays import dtypes
from ..backend.arrays.dtypes import FLOATS
from ..modes import ANOMALY, MODES, RECORDING_MASK, SAVING, TRANSFORMED
from .codegen import call, keywords
from .declare.op import ALWAYS, ANY, BY_VALUE, EACH, FITTING, FLOAT, RAW, RECORD, REGISTRY, SAME, OpDef
from .declare.parse import parse
from .declare.pointwise import Family, block_of
from .declare.public import add_names
from .graph.storage import shares_memory, storage_of
from .interpret.batched import Batched
from .interpret.implementation import kinds_of, run_core, shown
from .interpret.interpreters import innermost, lower
from .interpret.level_tensor import LevelTensor
from .interpret.lifted_calls import run_lifted
from .interpret.recorded import Recorded, outlived
from .interpret.sized import Sized
from .interpret.tracing import refuse
from .overrides import Overridden, ask, overrides
from .tensor import Float8Tensor, Parameter, Tensor, wrap, wrap_codes, wrap_given


def defop(block: type) -> Any:
    """Declares an op (see core/declare/op.py) and returns its public function."""
    public = _declared(block)
    REGISTRY[block.__name__] = public.op
    return public


def pointwise(block: type) -> Any:
    """Declares an op from a formula (see core/declare/pointwise.py) and returns its public function."""
    complete, family = block_of(block)
    public = defop(complete)
    public.family = family
    return public


def internal_op(block: type) -> Any:
    """Declares an op of the package's own use, which the tables of ops do not show, and returns its function."""
    return _declared(block)


def _declared(block: type) -> Any:
    """The public function of an op, which RAW and RECORD have from now on."""
    op = parse(block)
    op.raw = call.make_raw(op)
    public: Any = call.make_public(op, general_list if op.variadic else general)
    public.__doc__, public.__module__ = _documented(op), block.__module__
    public.__name__ = public.__qualname__ = op.name
    public.__signature__ = call.shown_signature(op)
    public.op = op
    add_names(public, op.name, **op.names, view=bool(op.view))
    setattr(RAW, op.name, op.raw)
    setattr(RECORD, op.name, public)
    return public


Family.declare = staticmethod(_declared)


def _keeping_saved(name: str, inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Runs an op that has saved extras on prepared inputs; returns (result, extras by name)."""
    op = REGISTRY[name]
    return lower(op, inputs, op.filled(attributes))


def _raw_keeping_saved(name: str, inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Does the same on arrays."""
    op = REGISTRY[name]
    result: tuple[Any, dict[str, Any]] = op.compute(backend.namespace(*inputs), *inputs, **op.filled(attributes))
    return result


RECORD.keeping_saved, RAW.keeping_saved = _keeping_saved, _raw_keeping_saved  # F.keeping_saved, for batch rules


def _documented(op: OpDef) -> str | None:
    """The block's docstring, extended by the parameter names of the inputs."""
    named = [f"{name} is `{called}`" for name, called in op.parameter_names.items() if name != called]
    return keywords.noted(op.doc, op.attributes, *named)


def operator(op: OpDef) -> Any:
    """Makes the op a binary operator: it returns NotImplemented for foreign operands, so Python tries their class."""

    def general_or_defer(op: OpDef, args: tuple[Any, ...], attributes: tuple[Any, ...]) -> Any:
        for arg in args:
            if not isinstance(arg, (Tensor, numbers.Number, np.generic)) and not backend.is_array(arg):
                return NotImplemented
        return general(op, args, attributes)

    method: Any = call.make_public(op, general_or_defer, is_operator=True)
    method.__doc__, method.__signature__ = op.doc, call.operator_signature(op)
    return method


def general_list(op: OpDef, tensors: Any, attributes: tuple[Any, ...]) -> Any:
    """Runs the general path of an op with a list input."""
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(f"{op.name}(): argument '{op.inputs[0]}' must be a list or tuple of Tensors, "
                        f"not {type(tensors).__name__}")
    if not tensors:
        raise RuntimeError(f"{op.name}(): expected a non-empty list of Tensors")
    return general(op, tuple(tensors), attributes)


def general(op: OpDef, args: tuple[Any, ...], attributes: tuple[Any, ...]) -> Any:
    """Runs the steps at the head of this file for one call."""
    bits = MODES.bits
    if bits & (TRANSFORMED | SAVING):
        if bits & TRANSFORMED and len(stack := MODES.stack) == 1 and (watcher := stack[0]).only_watches:
            return watcher.watch(op, args, attributes)
        if bits == TRANSFORMED and len(stack) == 2 and (lifted := run_lifted(op, args, attributes)) is not None:
            return lifted
        if _is_prepared(op, args, attributes):
            if bits & TRANSFORMED:
                named = dict(zip(op.attributes, attributes, strict=True)) if attributes else {}
                outs, _ = innermost("run", op, args, named)
            else:
                outs = run_core(op, args, attributes)
            return shown(outs, ()) if bits & (SAVING | ANOMALY) else outs
    if any(isinstance(value, Tensor) and value.ndim == 0 for value in attributes):
        attributes = _numbers(op, attributes)
    try:
        prepared = [_argument(op, name, value) for name, value in zip(_names(op, args), args, strict=False)]
    except Overridden:
        prepared = None  # an error of the other class must not appear to come from this one
    if prepared is None:
        return ask(op, args, attributes)
    prepared = prepared if op.types == EACH else _same_device(op, prepared)
    if any(isinstance(a, Float8Tensor) for a in prepared):
        return _on_codes(op, prepared, attributes)
    if op.types not in (ANY, EACH):
        if _half_beside_number(op, prepared):
            return _in_float32(op, prepared, attributes)
        prepared = _promote(op, prepared)
    if bits & TRANSFORMED:
        outs, _ = innermost("run", op, prepared, dict(zip(op.attributes, attributes, strict=True)))
    else:
        outs = run_core(op, prepared, attributes)
        if not op.variadic:
            _add_variants(op, kinds_of(prepared))
    if bits <= RECORDING_MASK:
        return outs
    numbers = [p for p, a in zip(prepared, args, strict=True) if not isinstance(a, Tensor) and not is_array(a)]
    return shown(outs, numbers)


def _is_prepared(op: OpDef, args: tuple[Any, ...], attributes: tuple[Any, ...]) -> bool:
    """Whether steps 1 to 3 would change nothing; False if that is not obvious."""
    dtype, home, any_dtype, stack = None, None, op.types in (ANY, EACH), MODES.stack
    for i, value in enumerate(args):
        kind = type(value)
        if kind is Tensor or kind is Parameter:
            device = backend.CPU if type(value._array) is np.ndarray else value.device
        elif kind is Batched or kind is Recorded:
            if value._level not in stack:
                return False
            device = value._array.device
        elif (kind is float and op.numbers) or (value is None and not op.variadic and op.inputs[i] in op.optional):
            continue
        else:
            return False
        actual = value._array.dtype
        if dtype is None:
            dtype, home = actual, device
        elif (actual is not dtype and not any_dtype) or (device is not home and device != home):
            return False
    for value in attributes:
        if isinstance(value, Tensor):
            return False
    return any_dtype or dtype in dtypes.FULL_FLOATS


def _numbers(op: OpDef, attributes: tuple[Any, ...]) -> tuple[Any, ...]:
    """Converts attributes that are 0-d tensors to numbers."""
    return tuple([keywords.as_number(op.name, name, value) if isinstance(value, Tensor) and value.ndim == 0 else value
                  for name, value in zip(op.attributes, attributes, strict=True)])


def _names(op: OpDef, args: tuple[Any, ...]) -> tuple[str, ...]:
    return op.inputs * len(args) if op.variadic else op.inputs


def _add_variants(op: OpDef, kinds: tuple[str, ...]) -> None:
    """Adds a generated fast path for later calls with these argument types."""
    if kinds in op.fast or ("N" not in kinds and "0" not in kinds):
        return
    op.fast.add(kinds)
    choices = {"T": (Tensor, Parameter), "N": (float, int), "0": (type(None),)}
    function = call.make_variant(op, kinds, general)
    combinations: list[tuple[type, ...]] = [()]
    for kind in kinds:
        combinations = [(*head, choice) for head in combinations for choice in choices[kind]]
    op.variants.update(dict.fromkeys(combinations, function))


def _argument(op: OpDef, name: str, value: Any) -> Any:
    if isinstance(value, Tensor):
        return outlived(value) if isinstance(value, LevelTensor) and value._level not in MODES.stack else value
    if value is None and name in op.optional:
        return None
    if isinstance(value, (bool, int, float)) and type(value) in (bool, int, float):
        return value if op.numbers else wrap(np.asarray(value, _number_dtype(value)))
    if isinstance(value, Sized):
        return _argument(op, name, value.value)
    if isinstance(value, np.generic) and value.dtype in dtypes.ALL:  # a NumPy scalar counts as a Python number
        return _argument(op, name, value.item())
    if backend.is_array(value) or isinstance(value, np.generic):
        try:
            return wrap_given(value if backend.is_array(value) else np.asarray(value))
        except (TypeError, ValueError) as error:
            raise type(error)(f"{op.name}(): argument '{op.parameter_names[name]}': {error}") from None
    if overrides(value):
        raise Overridden
    raise TypeError(f"{op.name}(): argument '{op.parameter_names[name]}' must be Tensor, not {type(value).__name__}; "
                    "use ag.as_tensor(...) to make one")


def _number_dtype(value: Any) -> np.dtype:
    if isinstance(value, bool):
        return dtypes.bool_
    return dtypes.int64 if isinstance(value, int) else dtypes.get_default_dtype()


def _same_device(op: OpDef, args: list[Any]) -> list[Any]:
    """Moves constant 0-d CPU tensors to the device of the others; an error if these are on several devices."""
    tensors = [a for a in args if isinstance(a, Tensor)]
    if all(type(t._array) is np.ndarray for t in tensors) or len({t.device for t in tensors}) <= 1:
        return args
    larger = {t.device for t in tensors if t.ndim or t.requires_grad or t.is_cuda}
    if len(larger) != 1:
        raise errors.mixed_devices(op.name, [str(t.device) for t in tensors])
    home = larger.pop()
    return [wrap(backend.to_device(a._array, home)) if isinstance(a, Tensor) and a.device != home else a for a in args]


def matched(op: OpDef, args: Sequence[Any]) -> list[Any]:
    """Steps 2 and 3 for arguments that are tensors, numbers and None; tensors of half dtypes stay beside numbers."""
    args = _same_device(op, list(args))
    return args if op.types == ANY or _half_beside_number(op, args) else _promote(op, args)


def _promote(op: OpDef, args: list[Any]) -> list[Any]:
    names = _names(op, tuple(args))
    chosen = [isinstance(a, Tensor) and name in op.promoted for name, a in zip(names, args, strict=True)]
    tensors = [a for a, c in zip(args, chosen, strict=True) if c]
    plain = [a for a in args if not isinstance(a, Tensor) and a is not None]
    if not tensors:  # where(mask, 1.0, 0): only numbers, which become 0-d tensors
        target = dtypes.result_type([], [], plain)
        home = next((a.device for a in args if isinstance(a, Tensor)), backend.CPU)
        return [a if isinstance(a, Tensor) else wrap(backend.to_device(np.asarray(a, target), home)) for a in args]
    if op.types == SAME:
        if len({t.dtype for t in tensors}) > 1:
            listed = " and ".join(dict.fromkeys(str(t.dtype) for t in tensors))
            raise RuntimeError(f"{op.name}: expected all tensors to have the same dtype, but found {listed}; "
                               "convert one with .to(dtype)")
        return args
    ranked = [t for t in tensors if t.ndim or op.promotes_zero_dim]
    target = dtypes.result_type([t.dtype for t in ranked], [t.dtype for t in tensors if not t.ndim], plain)
    if op.types == FLOAT and target not in FLOATS and target not in dtypes.STORAGE:
        target = dtypes.get_default_dtype()
    promoted = [RECORD.cast(a, target) if c and a.dtype != target else a for a, c in zip(args, chosen, strict=True)]
    if op.numbers == BY_VALUE and target in dtypes.INTEGERS:
        return promoted
    return [_fit_number(op, a, target, tensors) for a in promoted]


def _half_beside_number(op: OpDef, args: list[Any]) -> bool:
    """Whether a number is combined with half-precision tensors only: NumPy would round it to half before it computes.

    An op that only selects elements may round the number.
    """
    if op.selects_only:
        return False
    named = zip(_names(op, tuple(args)), args, strict=False)
    tensors = [a for name, a in named if isinstance(a, Tensor) and name in op.promoted]
    halves = bool(tensors) and all(t.dtype in dtypes.HALF for t in tensors) and len({t.dtype for t in tensors}) == 1
    return halves and bool(op.numbers) and op.has_rules and any(type(a) in (int, float) for a in args)


def _in_float32(op: OpDef, args: list[Any], attributes: tuple[Any, ...]) -> Any:
    """Runs the op in float32 and rounds its result once, as PyTorch's kernels do."""
    chosen = [isinstance(a, Tensor) and name in op.promoted for name, a in zip(op.inputs, args, strict=True)]
    half = next(a.dtype for a, c in zip(args, chosen, strict=True) if c)
    wide = [RECORD.cast(a, dtypes.float32) if c else a for a, c in zip(args, chosen, strict=True)]
    return RECORD.cast(general(op, tuple(wide), attributes), half)


def _fit_number(op: OpDef, value: Any, target: np.dtype, tensors: list[Tensor]) -> Any:
    """Converts a number to a 0-d constant of dtype `target` if NumPy would promote it differently from PyTorch."""
    if isinstance(value, Tensor) or value is None or target in dtypes.NATIVE_FLOATS:
        return value
    if op.selects_only and target in dtypes.HALF:
        return target.type(value)  # a NumPy scalar needs no launch
    if target in dtypes.INTEGERS and type(value) is int and not isinstance(value, bool):
        if not -(1 << 63) <= value < 1 << 64:
            raise OverflowError(f"{op.name}: int too big to convert: {value}")
        if op.numbers == FITTING and dtypes.wrapped(value, target) != value:
            raise RuntimeError(f"value {value} cannot be converted to type {target} without overflow")
        value = dtypes.wrapped(value, target)
    home = tensors[0].device if tensors else backend.CPU
    return wrap(backend.to_device(np.asarray(value).astype(target), home))


def _on_codes(op: OpDef, args: list[Any], attributes: tuple[Any, ...]) -> Any:
    """Runs an op that only moves elements on the codes of float8 tensors; TypeError for any other op."""
    dtypes_found = {a.dtype for a in args if isinstance(a, Tensor)}
    if not op.storage_ok or len(dtypes_found) > 1:
        kind = next(a.dtype for a in args if isinstance(a, Float8Tensor))
        raise TypeError(f"{op.name}: {kind} is a storage dtype and has no arithmetic; "
                        "convert with .to(ag.float32) first")
    refuse(f"{op.name} moves the codes of a float8 tensor", "convert it outside of the function")
    codes = [a._array if isinstance(a, Tensor) else a for a in args]
    named = dict(zip(op.attributes, attributes, strict=True))
    out = op.compute(backend.namespace(*codes), *codes, **named)
    dtype = dtypes_found.pop()
    outs = [wrap_codes(o, dtype) for o in ([out] if op.single else out)]
    for t in outs:
        if op.view == ALWAYS or (op.view and shares_memory(t._array, codes[0])):
            t._storage = storage_of(args[0])
    return outs[0] if op.single else tuple(outs)


__all__ = ["defop", "general", "matched", "operator"]
