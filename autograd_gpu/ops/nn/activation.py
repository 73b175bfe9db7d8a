"""Common activations: relu, sigmoid, tanh, silu, sine, softsign, tanhshrink.

Gradients of relu, sigmoid and tanh are formulas of the result, which backward saves instead of x. On CUDA an activation
is one launch of a kernel of ours, except relu, which is a single CuPy kernel anyway.
"""

from __future__ import annotations

from typing import Any

from ...backend.formulas import expression as formulas
from ...core.extend import ANY, RECORD, ZERO, Tensor, pointwise, public

# ---- relu, sigmoid, tanh -------------------------------------------------------------------------------


def _relu_of_integers(xp: Any, x: Any) -> Any:
    return xp.maximum(x, x.dtype.type(0))


@pointwise
class relu:
    """max(x, 0); the derivative at 0 is 0.

    >>> ag.relu(ag.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def formula(x): return formulas.maximum(x, 0)
    def by_result(out): return formulas.select(out <= 0, 0, 1)  # 1 where out is NaN, as in PyTorch
    integers = cuda = _relu_of_integers
    types, takes_out = ANY, False
    public = "relu", "relu_", "nn.functional.relu_"
    methods = inplace = True


@pointwise
class relu_grad:
    """h where out > 0, else 0: the gradient of `relu`. The derivative with respect to `out` is zero.

    >>> from autograd_gpu.ops.nn.activation import relu_grad
    >>> relu_grad(ag.tensor([3.0, 4.0]), ag.tensor([0.0, 2.0]))
    tensor([0., 4.])
    """

    derivative_of = relu
    grad_out = ZERO


@pointwise
class sigmoid:
    """1 / (1 + exp(-x)).

    >>> ag.sigmoid(ag.tensor([0.0, 2.0]))
    tensor([0.5   , 0.8808])
    """

    def formula(x): return formulas.sigmoid(x)
    def by_result(out): return (1 - out) * out
    public = "sigmoid", "sigmoid_", "special.expit", "nn.functional.sigmoid"
    methods = inplace = True


@pointwise
class sigmoid_grad:
    """h * out * (1 - out): the gradient of `sigmoid`.

    >>> from autograd_gpu.ops.nn.activation import sigmoid_grad
    >>> sigmoid_grad(ag.tensor([1.0]), ag.tensor([0.5]))
    tensor([0.25])
    """

    derivative_of = sigmoid


@pointwise
class tanh:
    """The hyperbolic tangent.

    >>> ag.tanh(ag.tensor([0.0, 1.0]))
    tensor([0.    , 0.7616])
    """

    def formula(x): return formulas.tanh(x)
    def by_result(out): return 1 - out * out
    public = "tanh", "tanh_", "nn.functional.tanh"
    methods = inplace = ufunc = True


@pointwise
class tanh_grad:
    """h * (1 - out * out): the gradient of `tanh`.

    >>> from autograd_gpu.ops.nn.activation import tanh_grad
    >>> tanh_grad(ag.tensor([1.0]), ag.tensor([0.5]))
    tensor([0.75])
    """

    derivative_of = tanh


# ---- silu and sine -------------------------------------------------------------------------------------


@pointwise
class silu:
    """x * sigmoid(x), also known as swish.

    >>> ag.silu(ag.tensor([0.0, 1.0]))
    tensor([0.    , 0.7311])
    """

    def formula(x): return x * formulas.sigmoid(x)
    takes_out = False
    public = True
    torch = "nn.functional.silu"


@pointwise
class silu_grad:
    """h * silu'(x): the gradient of `silu`.

    >>> from autograd_gpu.ops.nn.activation import silu_grad
    >>> silu_grad(ag.tensor([1.0]), ag.tensor([0.0]))
    tensor([0.5])
    """

    derivative_of = silu


@pointwise
class sine:
    """sin(frequency * x), the activation of `linear_activation` for implicit representations (Sitzmann et al. 2020).

    >>> from autograd_gpu.ops.nn.activation import sine
    >>> sine(ag.tensor([0.0, 0.05]), 30.0)
    tensor([0.    , 0.9975])
    """

    def formula(x, *, frequency=1.0): return formulas.sin(x * frequency)


# ---- softsign and tanhshrink ---------------------------------------------------------------------------


def _softsign_slope(x: Any) -> Any:
    d = formulas.absolute(x) + 1
    return 1 / (d * d)


@pointwise
class softsign:
    """x / (1 + |x|).

    >>> ag.softsign(ag.tensor([-1.0, 3.0]))
    tensor([-0.5 ,  0.75])
    """

    @formulas.with_derivative(_softsign_slope)  # 1 / d - |x| / (d * d) cancels for large x
    def formula(x): return x / (formulas.absolute(x) + 1)
    takes_out = False
    public = "softsign", "nn.functional.softsign"


@public("tanhshrink", "nn.functional.tanhshrink")
def tanhshrink(input: Tensor) -> Tensor:
    """input - tanh(input). Backward reads the tanh, so input may be written to.

    >>> ag.tanhshrink(ag.tensor([0.0, 1.0]))
    tensor([0.    , 0.2384])
    """
    return RECORD.sub(input, RECORD.tanh(input))
