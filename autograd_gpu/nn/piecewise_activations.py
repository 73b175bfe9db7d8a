"""Piecewise linear activations and hardswish as modules; elementwise."""

from __future__ import annotations

from typing import Any

from ..core.tensor import Parameter, Tensor
from ..ops.creation.factories import empty
from . import functional as F
from . import init
from .activation import Overwriting
from .module import Module


class LeakyReLU(Overwriting):
    """x where x > 0, else negative_slope * x.

    >>> ag.nn.LeakyReLU(0.5)(ag.tensor([-2.0, 2.0]))
    tensor([-1.,  2.])
    """

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.negative_slope = negative_slope

    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def parameters_repr(self) -> str:
        return f"negative_slope={self.negative_slope}"


class PReLU(Module):
    """x where x > 0, else weight * x, with one learned weight, or `num_parameters` weights, one per channel.

    >>> ag.nn.PReLU()(ag.tensor([-4.0, 2.0])).tolist()
    [-1.0, 2.0]
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets all weights to `init`."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class RReLU(Overwriting):
    """x where x > 0, else slope * x; the slope is random in [lower, upper) per element in training, else the midpoint.

    >>> ag.nn.RReLU(0.25, 0.75).eval()(ag.tensor([-2.0, 2.0]))
    tensor([-1.,  2.])
    """

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.lower = lower
        self.upper = upper

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def parameters_repr(self) -> str:
        return f"lower={self.lower}, upper={self.upper}"


class Hardtanh(Overwriting):
    """x clamped to [min_val, max_val]; ValueError unless min_val < max_val.

    >>> ag.nn.Hardtanh()(ag.tensor([-2.0, 0.5]))
    tensor([-1. ,  0.5])
    """

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        if max_val <= min_val:
            raise ValueError(f"max_val must be larger than min_val, got min_val={min_val} and max_val={max_val}")
        self.min_val = min_val
        self.max_val = max_val

    def forward(self, input: Tensor) -> Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def parameters_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}"


class ReLU6(Overwriting):
    """x clamped to [0, 6].

    >>> ag.nn.ReLU6()(ag.tensor([-1.0, 8.0]))
    tensor([0., 6.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.relu6(input, self.inplace)


class Hardsigmoid(Overwriting):
    """(x + 3) / 6 clamped to [0, 1]. Unlike PyTorch's, its repr shows `inplace`, as that of other activations does.

    >>> ag.nn.Hardsigmoid()(ag.tensor([0.0, 4.0]))
    tensor([0.5, 1. ])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardsigmoid(input, self.inplace)


class Hardswish(Overwriting):
    """x * hardsigmoid(x). Unlike PyTorch's, its repr shows `inplace`, as that of other activations does.

    >>> ag.nn.Hardswish()(ag.tensor([0.0, 4.0]))
    tensor([0., 4.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardswish(input, self.inplace)


class _Shrink(Module):
    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class Hardshrink(_Shrink):
    """x where |x| > lambd, else 0.

    >>> ag.nn.Hardshrink()(ag.tensor([0.25, 2.0]))
    tensor([0., 2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardshrink(input, self.lambd)


class Softshrink(_Shrink):
    """x moved towards 0 by lambd, and 0 where |x| <= lambd.

    >>> ag.nn.Softshrink()(ag.tensor([0.25, 2.0]))
    tensor([0. , 1.5])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softshrink(input, self.lambd)


class Threshold(Overwriting):
    """x where x > threshold, else value.

    >>> ag.nn.Threshold(0.5, 20.0)(ag.tensor([0.25, 2.0]))
    tensor([20.,  2.])
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.threshold = threshold
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def parameters_repr(self) -> str:
        return f"threshold={self.threshold}, value={self.value}"
