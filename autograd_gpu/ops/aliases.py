"""PyTorch's other names for the same ops."""

from __future__ import annotations

from .elementwise import arithmetic, clamp, comparison, division, gamma, rounding, trigonometric, unary
from .reduction import difference

absolute = unary.abs
arccos = trigonometric.acos
arccosh = trigonometric.acosh
arcsin = trigonometric.asin
arcsinh = trigonometric.asinh
arctan = trigonometric.atan
arctan2 = arithmetic.atan2
arctanh = trigonometric.atanh
clip = clamp.clamp
fix = rounding.trunc
greater = comparison.gt
greater_equal = comparison.ge
igamma = gamma.gammainc
igammac = gamma.gammaincc
less = comparison.lt
less_equal = comparison.le
multiply = arithmetic.mul
negative = unary.neg
not_equal = comparison.ne
sgn = unary.sign
subtract = arithmetic.sub
trapz = difference.trapezoid
true_divide = division.div
