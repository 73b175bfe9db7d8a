"""PyTorch's other names for the same ops."""

from __future__ import annotations

from . import arithmetic, bounds, comparison, difference, division, elementwise, gamma, rounding, trigonometric

absolute = elementwise.abs
arccos = trigonometric.acos
arccosh = trigonometric.acosh
arcsin = trigonometric.asin
arcsinh = trigonometric.asinh
arctan = trigonometric.atan
arctan2 = arithmetic.atan2
arctanh = trigonometric.atanh
clip = bounds.clamp
fix = rounding.trunc
greater = comparison.gt
greater_equal = comparison.ge
igamma = gamma.gammainc
igammac = gamma.gammaincc
less = comparison.lt
less_equal = comparison.le
multiply = arithmetic.mul
negative = elementwise.neg
not_equal = comparison.ne
sgn = elementwise.sign
subtract = arithmetic.sub
trapz = difference.trapezoid
true_divide = division.div
