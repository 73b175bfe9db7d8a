"""The derivatives of activations that streams are multiplied by, alone and joined with the stream, on the CPU."""

from __future__ import annotations

import functools

from ..backend.formulas import jets
from ..backend.formulas.derivative import derivative
from ._support.layer_code import activation_code
from .nn.linear_activation import ACTIVATIONS


@functools.lru_cache(256)
def _factors_code(activation, parameters, dtype, count):
    """The code that computes `count` of act', act'', its derivative by s that act' has, and that of act''; numbers."""
    saved = ACTIVATIONS[activation].saved

    def outputs(f1, f2, slope):
        return [f1, f2, slope, derivative(f2, saved)][:count]

    return activation_code("derivatives of", activation, parameters, dtype, [], outputs)


def factors(s, activation, parameters, count):
    """act' and act'', and for count = 4 their derivatives by s; None for all but act' if they are zero. For arrays."""
    smooth = ACTIVATIONS[activation].bends
    code, numbers = _factors_code(activation, parameters, s.dtype, count if smooth else 1)
    computed = code((s,), numbers)
    return computed if smooth else [*computed, None, None, None][:count]


def _behind(activation, parameters, dtype, shifted, count):
    """The activation, as native code of streams has it, with `count` of its factors."""
    family = ACTIVATIONS[activation]
    code, _ = _factors_code(activation, parameters, dtype, count if family.bends else 1)
    numbers = code.program.values(**dict(zip(family.attributes, parameters, strict=True)))
    return jets.Behind(code.program, numbers, shifted)


@functools.lru_cache(256)
def pushed_natively(activation, parameters, dtype, shifted, form):
    """Native code for the stream behind an activation, from `operands` and the rows of the stream; None if there is
    none."""
    return _behind(activation, parameters, dtype, shifted, 2).push(form)


@functools.lru_cache(256)
def pulled_natively(activation, parameters, dtype, shifted, form, own, stream):
    """Native code for `own` times the gradient for the operand and, if `stream`, that for the rows of the stream."""
    if not own and not stream:
        return None
    return _behind(activation, parameters, dtype, shifted, 4 if own else 2).pull(form, own, stream)


def operands(saved, bias):
    """What the factors are computed from."""
    return [saved] if bias is None else [saved, bias]
