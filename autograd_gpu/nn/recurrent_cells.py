"""Recurrent cells, one step of a recurrent layer: RNNCell, LSTMCell and GRUCell."""

from __future__ import annotations

import math
from typing import Any

from ..core.tensor import Parameter, Tensor
from ..ops import linear, zeros
from ..ops.creation.factories import empty
from ..ops.nn.gru import gru_layer
from ..ops.nn.lstm import lstm_layer
from ..ops.nn.rnn import rnn_layer
from . import init
from .module import Module
from .recurrent import pair_of


class RNNCellBase(Module):
    """Base of the cells: `weight_ih` (num_chunks * hidden_size, input_size), `weight_hh`, `bias_ih` and `bias_hh`."""

    bias_ih: Parameter | None
    bias_hh: Parameter | None

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        self.weight_ih = Parameter(empty(rows, input_size, device=device, dtype=dtype))
        self.weight_hh = Parameter(empty(rows, hidden_size, device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, Parameter(empty(rows, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new values, uniform in +-1/sqrt(hidden_size)."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0.0
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias is True else f", bias={self.bias}")

    def _ag_rows(self, input: Tensor, states: tuple[Tensor, ...] | None, count: int) -> tuple[Tensor, ...]:
        """input and the `count` states, by default zeros, as matrices, after the checks."""
        name = type(self).__name__
        if input.ndim not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.ndim}D instead")
        for k, state in enumerate(states or ()):
            if state.ndim not in (1, 2):
                which = "hidden" if count == 1 else f"hx[{k}]"
                raise ValueError(f"{name}: Expected {which} to be 1D or 2D, got {state.ndim}D instead")
        if input.ndim == 1:
            input, states = input.unsqueeze(0), states and tuple([state.unsqueeze(0) for state in states])
        if input.shape[1] != self.input_size:
            raise RuntimeError(f"input has inconsistent input_size: got {input.shape[1]} expected {self.input_size}")
        batch = input.shape[0]
        if states is None:
            states = (zeros(batch, self.hidden_size, dtype=input.dtype, device=input.device),) * count
        for k, state in enumerate(states):
            if state.shape[-1] != self.hidden_size:
                raise RuntimeError(f"hidden{k} has inconsistent hidden_size: got {state.shape[-1]}, expected "
                                   f"{self.hidden_size}")
            if state.ndim != 2 or state.shape[0] != batch:
                other = state.shape[0] if state.ndim == 2 else "no batch dimension, not"
                raise RuntimeError(f"Input batch size {batch} doesn't match hidden{k} batch size {other}")
        return input, *states

    def _ag_bias(self) -> Tensor | None:
        return None if self.bias_ih is None or self.bias_hh is None else self.bias_ih + self.bias_hh


class RNNCell(RNNCellBase):
    """A step of an RNN: h' = act(weight_ih x + bias_ih + weight_hh h + bias_hh), with act "tanh" or "relu".

    x is (N, input_size) or (input_size,), h (N, hidden_size) or (hidden_size,), by default zeros.

    >>> ag.nn.RNNCell(3, 4)(ag.ones(2, 3)).shape
    (2, 4)
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh", device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def extra_repr(self) -> str:
        return super().extra_repr() + ("" if self.nonlinearity == "tanh" else f", nonlinearity={self.nonlinearity}")

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        rows, h = self._ag_rows(input, None if hx is None else (hx,), 1)
        x, relu = linear(rows, self.weight_ih, self._ag_bias()), self.nonlinearity == "relu"
        out = rnn_layer(x, h, self.weight_hh, sizes=(rows.shape[0],), relu=relu).out
        return out if input.ndim == 2 else out.squeeze(0)


class LSTMCell(RNNCellBase):
    """A step of an LSTM: i, f, o = sigmoid(...), g = tanh(...), c' = f * c + i * g, h' = o * tanh(c').

    x is (N, input_size) or (input_size,), the states (h, c) are (N, hidden_size) or (hidden_size,), by default zeros.
    Returns (h', c').

    >>> h, c = ag.nn.LSTMCell(3, 4)(ag.ones(2, 3))
    >>> h.shape, c.shape
    ((2, 4), (2, 4))
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        rows, h, c = self._ag_rows(input, None if hx is None else pair_of(hx), 2)
        x = linear(rows, self.weight_ih, self._ag_bias())
        result = lstm_layer(x, h, c, self.weight_hh, sizes=(rows.shape[0],))
        if input.ndim == 1:
            return result.out.squeeze(0), result.c_n.squeeze(0)
        return result.out, result.c_n


class GRUCell(RNNCellBase):
    """A step of a GRU: r, z = sigmoid(...), n = tanh(x_n + r * (weight_hn h + bias_hn)), h' = (1 - z) n + z h.

    x is (N, input_size) or (input_size,), h (N, hidden_size) or (hidden_size,), by default zeros.

    >>> ag.nn.GRUCell(3, 4)(ag.ones(2, 3)).shape
    (2, 4)
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        rows, h = self._ag_rows(input, None if hx is None else (hx,), 1)
        x = linear(rows, self.weight_ih, self.bias_ih)
        out = gru_layer(x, h, self.weight_hh, self.bias_hh, sizes=(rows.shape[0],)).out
        return out if input.ndim == 2 else out.squeeze(0)
