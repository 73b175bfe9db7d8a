"""The activations of every day: relu, sigmoid, tanh, silu, gelu, and what is made of them.

A derivative that several orders share is a block of its own: relu_grad, tanh_grad and their like. Passes over large
arrays on the CPU are bound by memory: forwards make one fresh array and go on in place.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import backend
from ..backend import cpu, dtypes
from ..core.batching import BROADCASTING
from ..core.dispatch import defop
from ..core.op import FLOAT, ZERO
from ..core.tangents import ELEMENTWISE

MANY = 512  # elements from which on a selection by bits is faster
BLOCK = 65536  # elements that are passed over several times before going on: they stay in the L2 cache


def in_float32(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Half types go through `forward` as float32 and are rounded once, at the end, to the first operand's dtype."""

    def rounded(xp, *args, **attributes):
        widened = [a.astype(dtypes.float32) if getattr(a, "dtype", None) in dtypes.HALF else a for a in args]
        return forward(xp, *widened, **attributes).astype(args[0].dtype)

    # Straight-line code with forward's own parameters: *args and **attributes would cost a quarter of a small op.
    parameters = list(inspect.signature(forward).parameters.values())
    keywords = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    arrays = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
    call = ", ".join([*arrays, *(f"{name}={name}" for name in keywords)])
    # A number comes with arrays of float32 or wider: core/dispatch.py sees to that.
    body = f"return (forward if getattr({arrays[1]}, 'itemsize', 4) > 2 else rounded)({call})"
    scope: dict[str, Any] = {"forward": forward, "rounded": rounded}
    exec(f"def wrapped({', '.join(arrays)}{', *, ' if keywords else ''}{', '.join(keywords)}): {body}", scope)
    wrapped = functools.wraps(forward)(scope["wrapped"])
    wrapped.__defaults__, wrapped.__kwdefaults__ = forward.__defaults__, forward.__kwdefaults__
    return wrapped


def times(xp: Any, g: Any, t: Any) -> Any:
    """g * t, in the memory of `t` where the result fits there."""
    return xp.multiply(g, t, out=t) if g.shape == t.shape and g.dtype == t.dtype else g * t


def _squared(xp, x):
    """x * x as a fresh array, which a NumPy scalar and a 0-d array would not give."""
    return xp.multiply(x, x, out=backend.empty(xp, x.shape, x.dtype))


# ---- relu --------------------------------------------------------------------------------------------


def _relu(xp, x):
    if xp is not np:
        return xp.maximum(x, x.dtype.type(0))
    if x.size < BLOCK or x.itemsize < 4 or not x.flags.c_contiguous:
        return np.maximum(x, cpu.constant(0, x.dtype))
    zeros, out = np.zeros(BLOCK, x.dtype), np.empty(x.shape, x.dtype)
    source, target = x.reshape(-1), out.reshape(-1)
    for i in range(0, x.size, BLOCK):  # against an array: NumPy takes three times as long against a number
        part = target[i : i + BLOCK]
        np.maximum(source[i : i + BLOCK], zeros[: part.size], out=part)
    return out


def _relu_grad(xp, h, out):
    """Of many elements by bits: `and` with 0 where out <= 0, else with all ones.

    np.where takes 20 times as long on a random mask, where the processor cannot predict its branch.
    """
    if xp is not np or h.dtype != out.dtype or h.size < MANY:
        return xp.where(out <= 0, h.dtype.type(0), h)  # NaN lets the gradient through, as in PyTorch
    bits = np.dtype(f"i{out.itemsize}")
    mask = np.empty(out.shape, bits)
    np.subtract(np.less_equal(out, cpu.constant(0, out.dtype)).view(np.int8), np.int8(1), out=mask)
    if mask.shape == h.shape:
        mask &= h.view(bits)
    else:
        mask = mask & h.view(bits)
    return mask.view(h.dtype)


@defop
class relu:
    """The larger of x and 0; the derivative at 0 is 0.

    >>> ag.relu(ag.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    forward = _relu
    def grad_x(F, g, out): return F.relu_grad(g, out)
    jvp, batch = ELEMENTWISE, BROADCASTING


@defop
class relu_grad:
    """h where out > 0, else 0: the gradient of `relu`, whose derivative by `out` is zero wherever it exists.

    >>> from autograd_gpu.ops.activation import relu_grad
    >>> relu_grad(ag.tensor([3.0, 4.0]), ag.tensor([0.0, 2.0]))
    tensor([0., 4.])
    """

    forward = _relu_grad
    def grad_h(F, g, out): return F.relu_grad(g, out)
    grad_out = ZERO
    types, broadcasts = FLOAT, True
    jvp, batch = ELEMENTWISE, BROADCASTING


# ---- sigmoid and tanh --------------------------------------------------------------------------------


def _sigmoid(xp, x):
    if xp is np and x.size <= cpu.FEW:  # a quarter of the time; of many elements it takes twice as long
        return cpu.special().expit(x)
    out = xp.negative(x, out=backend.empty(xp, x.shape, x.dtype))
    with np.errstate(over="ignore"):  # exp(-x) may be inf, and the result 0 then
        xp.exp(out, out=out)
    out += 1
    return xp.reciprocal(out, out=out)


def _sigmoid_grad(xp, h, out):
    t = xp.subtract(1, out, out=backend.empty(xp, out.shape, out.dtype))
    t *= out
    return times(xp, h, t)


@defop
class sigmoid:
    """1 / (1 + exp(-x)).

    >>> ag.sigmoid(ag.tensor([0.0, 2.0]))
    tensor([0.5   , 0.8808])
    """

    forward = in_float32(_sigmoid)
    def grad_x(F, g, out): return F.sigmoid_grad(g, out)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING


@defop
class sigmoid_grad:
    """h * out * (1 - out): the gradient of `sigmoid`.

    >>> from autograd_gpu.ops.activation import sigmoid_grad
    >>> sigmoid_grad(ag.tensor([1.0]), ag.tensor([0.5]))
    tensor([0.25])
    """

    forward = in_float32(_sigmoid_grad)
    def grad_h(F, g, out): return F.sigmoid_grad(g, out)
    def grad_out(F, g, h, out): return g * h * (1 - out * 2)
    types, broadcasts = FLOAT, True
    jvp, batch = ELEMENTWISE, BROADCASTING


def _tanh_grad(xp, h, out):
    t = _squared(xp, out)
    xp.subtract(1, t, out=t)
    return times(xp, h, t)


@defop
class tanh:
    """The hyperbolic tangent.

    >>> ag.tanh(ag.tensor([0.0, 1.0]))
    tensor([0.    , 0.7616])
    """

    @in_float32
    def forward(xp, x): return xp.tanh(x)
    def grad_x(F, g, out): return F.tanh_grad(g, out)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING


@defop
class tanh_grad:
    """h * (1 - out * out): the gradient of `tanh`.

    >>> from autograd_gpu.ops.activation import tanh_grad
    >>> tanh_grad(ag.tensor([1.0]), ag.tensor([0.5]))
    tensor([0.75])
    """

    forward = in_float32(_tanh_grad)
    def grad_h(F, g, out): return F.tanh_grad(g, out)
    def grad_out(F, g, h, out): return g * h * out * -2
    types, broadcasts = FLOAT, True
    jvp, batch = ELEMENTWISE, BROADCASTING


# ---- silu and gelu -----------------------------------------------------------------------------------


def gate(xp, x):
    """sigmoid(x) as (1 + tanh(x / 2)) / 2: faster, and exact to the last bit of 1, enough for a factor of x."""
    s = xp.multiply(x, 0.5, out=backend.empty(xp, x.shape, x.dtype))
    xp.tanh(s, out=s)
    s += 1
    s *= 0.5
    return s


def _silu(xp, x):
    return times(xp, x, gate(xp, x))


def _silu_grad(xp, h, x):
    s = gate(xp, x)
    t = xp.subtract(1, s, out=backend.empty(xp, x.shape, x.dtype))
    t *= x
    t += 1
    t *= s
    return times(xp, h, t)


def silu_curve(F, x):
    """The second derivative: s (1 - s) (2 + x (1 - 2 s)), s = sigmoid(x)."""
    s = F.sigmoid(x)
    return s * (1 - s) * (x * (1 - s * 2) + 2)


@defop
class silu:
    """x * sigmoid(x), also known as swish.

    >>> ag.silu(ag.tensor([0.0, 1.0]))
    tensor([0.    , 0.7311])
    """

    forward = in_float32(_silu)
    def grad_x(F, g, x): return F.silu_grad(g, x)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING


@defop
class silu_grad:
    """h * silu'(x), in one pass.

    >>> from autograd_gpu.ops.activation import silu_grad
    >>> silu_grad(ag.tensor([1.0]), ag.tensor([0.0]))
    tensor([0.5])
    """

    forward = in_float32(_silu_grad)
    def grad_h(F, g, x): return F.silu_grad(g, x)
    def grad_x(F, g, h, x): return g * h * silu_curve(F, x)
    types, broadcasts = FLOAT, True
    jvp, batch = ELEMENTWISE, BROADCASTING


GELU_SCALE, GELU_CUBIC = math.sqrt(2.0 / math.pi), 0.044715


def _gelu_is_exact(approximate):
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    return approximate == "none"


def _gelu_inner(x):
    """The argument of the approximation's tanh, and its derivative."""
    square = x * x
    return x * (square * GELU_CUBIC + 1) * GELU_SCALE, (square * (3 * GELU_CUBIC) + 1) * GELU_SCALE


def _normal_cdf(xp, x):
    if xp is np and x.dtype == dtypes.float32 and x.ndim:
        return _normal_cdf_float32(x)
    return 0.5 * (1 + backend.special(xp).erf(x * math.sqrt(0.5)))


def _normal_cdf_float32(x):
    """Abramowitz and Stegun 7.1.26, to 1.5e-7: a tenth of the time of SciPy's erf."""
    z = np.absolute(x)
    z *= math.sqrt(0.5)
    t = z * 0.3275911
    t += 1
    np.reciprocal(t, out=t)
    tail = t * 1.061405429
    for coefficient in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        tail += coefficient
        tail *= t
    np.multiply(z, z, out=t)
    np.exp(np.negative(t, out=t), out=t)
    tail *= t
    np.subtract(1, tail, out=t)
    np.copysign(t, x, out=t)
    t += 1
    t *= 0.5
    return t


def _gelu(xp, x, *, approximate="none"):
    if approximate == "none" and xp is np and x.size <= cpu.FEW:  # a tenth of the calls
        return x * cpu.special().ndtr(x)
    if _gelu_is_exact(approximate):
        return x * _normal_cdf(xp, x)
    return 0.5 * x * (1 + xp.tanh(_gelu_inner(x)[0]))


def _gelu_grad(xp, h, x, *, approximate="none"):
    if _gelu_is_exact(approximate):
        return h * (_normal_cdf(xp, x) + x * xp.exp(-0.5 * x * x) / math.sqrt(2 * math.pi))
    inner, slope = _gelu_inner(x)
    t = xp.tanh(inner)
    return h * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope)


def gelu_curve(F, x, approximate):
    """The second derivative."""
    if _gelu_is_exact(approximate):
        return F.exp(x * x * -0.5) * (2 - x * x) * (1 / math.sqrt(2 * math.pi))
    inner, slope = _gelu_inner(x)
    t = F.tanh(inner)
    bend = x * (6 * GELU_CUBIC * GELU_SCALE)
    return (1 - t * t) * (slope + x * 0.5 * (bend - t * slope * slope * 2))


@defop
class gelu:
    """x * Phi(x), Phi the normal distribution function, or its approximation by a tanh.

    >>> ag.gelu(ag.tensor([0.0, 1.0]))
    tensor([0.    , 0.8413])
    """

    forward = in_float32(_gelu)
    def grad_x(F, g, x, approximate): return F.gelu_grad(g, x, approximate)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING


@defop
class gelu_grad:
    """h * gelu'(x), in one pass.

    >>> from autograd_gpu.ops.activation import gelu_grad
    >>> gelu_grad(ag.tensor([1.0]), ag.tensor([0.0]))
    tensor([0.5])
    """

    forward = in_float32(_gelu_grad)
    def grad_h(F, g, x, approximate): return F.gelu_grad(g, x, approximate)
    def grad_x(F, g, h, x, approximate): return g * h * gelu_curve(F, x, approximate)
    types, broadcasts = FLOAT, True
    jvp, batch = ELEMENTWISE, BROADCASTING


# ---- made of them ------------------------------------------------------------------------------------


def _softsign_back(F, g, x):
    d = F.abs(x) + 1
    return g / (d * d)


@defop
class softsign:
    """x / (1 + |x|).

    >>> ag.softsign(ag.tensor([-1.0, 3.0]))
    tensor([-0.5 ,  0.75])
    """

    @in_float32
    def forward(xp, x): return x / (xp.absolute(x) + 1)
    grad_x = _softsign_back
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING


@defop
class tanhshrink:
    """x - tanh(x).

    >>> ag.tanhshrink(ag.tensor([0.0, 1.0]))
    tensor([0.    , 0.2384])
    """

    @in_float32
    def forward(xp, x): return x - xp.tanh(x)
    def grad_x(F, g, x): return g * F.square(F.tanh(x))
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
