"""Recurrent layers over whole sequences: RNN, LSTM and GRU.

A layer computes the input's part of the gates for all steps in one product (`linear`), and walks through the steps in
one op per direction (ops/nn/rnn.py, lstm.py, gru.py). In between, the sequences are a matrix with a row per sequence
and step, packed or not, which ops/nn/recurrence.py explains.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any

from ..core.tensor import Parameter, Tensor
from ..errors import warn_user
from ..ops import cat, linear, stack, zeros
from ..ops.creation.factories import empty
from ..ops.nn.gru import gru_layer
from ..ops.nn.lstm import lstm_layer
from ..ops.nn.rnn import rnn_layer
from . import functional as F
from . import init
from .module import Module
from .utils.rnn import PackedSequence

GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}
States = tuple[Tensor, ...]


class RNNBase(Module):
    """Base of RNN, LSTM and GRU: the parameters, and the walk through layers and directions.

    Layer k has `weight_ih_lk` (gates * hidden_size, input size), `weight_hh_lk` (gates * hidden_size, hidden_size),
    with `bias` `bias_ih_lk` and `bias_hh_lk`, with `proj_size` `weight_hr_lk` (proj_size, hidden_size), and with
    `bidirectional` the same with `_reverse` appended. `mode` is "LSTM", "GRU", "RNN_TANH" or "RNN_RELU".
    """

    def __init__(
        self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        _check_flags(dropout, num_layers, bias, batch_first)
        _check_sizes(input_size, hidden_size, num_layers, proj_size)
        if mode not in GATES:
            raise ValueError(f"Unrecognized RNN mode: {mode}")
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._all_weights = [
            self._ag_add_weights(layer, suffix, device, dtype)
            for layer in range(num_layers) for suffix in self._ag_suffixes()
        ]  # fmt: skip
        self.reset_parameters()

    def _ag_suffixes(self) -> tuple[str, ...]:
        return ("", "_reverse") if self.bidirectional else ("",)

    def _ag_add_weights(self, layer: int, suffix: str, device: Any, dtype: Any) -> list[str]:
        """Adds the parameters of a layer in one direction, and returns their names."""
        rows, size = GATES[self.mode] * self.hidden_size, self.proj_size or self.hidden_size
        before = size * len(self._ag_suffixes()) if layer else self.input_size
        shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, before), "weight_hh": (rows, size)}
        if self.bias:
            shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
        if self.proj_size:
            shapes["weight_hr"] = (self.proj_size, self.hidden_size)
        for name, shape in shapes.items():
            setattr(self, f"{name}_l{layer}{suffix}", Parameter(empty(shape, device=device, dtype=dtype)))
        return [f"{name}_l{layer}{suffix}" for name in shapes]

    def reset_parameters(self) -> None:
        """Draws new values, uniform in +-1/sqrt(hidden_size)."""
        bound = 1 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def flatten_parameters(self) -> None:
        """Does nothing: there is no copy of the parameters in one piece of memory, as cuDNN has it."""

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        defaults = {
            "proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0, "bidirectional": False
        }
        return text + "".join([f", {k}={getattr(self, k)}" for k, v in defaults.items() if getattr(self, k) != v])

    # ---- a call --------------------------------------------------------------------------------

    def _ag_layer(self, rows: Tensor, states: States, name: str, sizes: tuple[int, ...], reverse: bool) -> States:
        """The outputs of a layer in one direction, and its last states; `name` is "_l0", "_l0_reverse", ..."""
        raise NotImplementedError

    def _ag_state_sizes(self) -> tuple[int, ...]:
        """The number of columns of each state."""
        return (self.hidden_size,)

    def _ag_run(self, input: Any, states: States | None) -> tuple[Any, States]:
        """The output and the last states for a padded or packed input."""
        if isinstance(input, PackedSequence):
            return self._ag_run_packed(input, states)
        name = self.mode.partition("_")[0]
        if input.ndim not in (2, 3):
            what = " tensor" if name == "RNN" else ""
            raise ValueError(f"{name}: Expected input to be 2D or 3D, got {input.ndim}D{what} instead")
        single, across = input.ndim == 2, 0 if self.batch_first else 1
        if states is not None:
            _check_ranks(states, input.ndim)
        if single:
            input = input.unsqueeze(across)
            states = states if states is None else tuple([state.unsqueeze(1) for state in states])
        steps, batch = input.shape[1 - across], input.shape[across]
        states = self._ag_checked(input, 3, states, batch)
        if not steps:
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
        rows = (input.transpose(0, 1) if self.batch_first else input).reshape(steps * batch, self.input_size)
        rows, states = self._ag_layers(rows, states, (batch,) * steps)
        out = rows.reshape(steps, batch, rows.shape[-1])
        out = out.transpose(0, 1) if self.batch_first else out
        if single:
            return out.squeeze(across), tuple([state.squeeze(1) for state in states])
        return out, states

    def _ag_run_packed(self, input: PackedSequence, states: States | None) -> tuple[PackedSequence, States]:
        rows, batch_sizes, order, inverse = input
        sizes = tuple(batch_sizes.tolist())
        if states is not None and order is not None:
            states = tuple([state.index_select(1, order) for state in states])
        rows, states = self._ag_layers(rows, self._ag_checked(rows, 2, states, sizes[0]), sizes)
        if inverse is not None:
            states = tuple([state.index_select(1, inverse) for state in states])
        return PackedSequence(rows, batch_sizes, order, inverse), states

    def _ag_layers(self, rows: Tensor, states: States, sizes: tuple[int, ...]) -> tuple[Tensor, States]:
        """The rows behind the last layer, and the last states of all layers and directions."""
        lasts: list[States] = []
        for layer in range(self.num_layers):
            if layer and self.dropout:
                rows = F.dropout(rows, self.dropout, self.training)
            outs = []
            for reverse, suffix in enumerate(self._ag_suffixes()):
                first = tuple([state[len(lasts)] for state in states])
                out, *last = self._ag_layer(rows, first, f"_l{layer}{suffix}", sizes, bool(reverse))
                outs.append(out)
                lasts.append(tuple(last))
            rows = outs[0] if len(outs) == 1 else cat(outs, -1)
        return rows, tuple([stack(last) for last in zip(*lasts, strict=True)])

    def _ag_parameters(self, name: str) -> tuple[Tensor, Tensor, Any, Any]:
        """weight_ih, weight_hh, bias_ih and bias_hh of a layer; the biases may be None."""
        kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        weight_ih, weight_hh, *biases = (getattr(self, kind + name) for kind in (kinds if self.bias else kinds[:2]))
        return weight_ih, weight_hh, *(biases or (None, None))

    def _ag_checked(self, input: Tensor, ndim: int, states: States | None, batch: int) -> States:
        """The initial states, zeros by default, after the checks of the input and of their shapes."""
        weight = getattr(self, self._all_weights[0][0])
        if input.dtype != weight.dtype:
            raise ValueError(f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight.dtype}). Convert "
                             f"input: input.to({weight.dtype}), or convert model: model.to({input.dtype})")
        if input.ndim != ndim:
            raise RuntimeError(f"input must have {ndim} dimensions, got {input.ndim}")
        if input.shape[-1] != self.input_size:
            raise RuntimeError("input.size(-1) must be equal to input_size. "
                               f"Expected {self.input_size}, got {input.shape[-1]}")
        layers, sizes = self.num_layers * len(self._ag_suffixes()), self._ag_state_sizes()
        shapes = [(layers, batch, size) for size in sizes]
        if states is None:
            return tuple([zeros(shape, dtype=input.dtype, device=input.device) for shape in shapes])
        for k, (state, shape) in enumerate(zip(states, shapes, strict=True)):
            if tuple(state.shape) != shape:
                which = "hidden" if len(sizes) == 1 else f"hidden[{k}]"
                raise RuntimeError(f"Expected {which} size {shape}, got {list(state.shape)}")
        return states


def _check_flags(dropout: Any, num_layers: int, bias: Any, batch_first: Any) -> None:
    if not isinstance(dropout, numbers.Number) or isinstance(dropout, bool) or not 0 <= dropout <= 1:  # type: ignore[operator]
        raise ValueError("dropout should be a number in range [0, 1] representing the probability of an element being "
                         "zeroed")
    if dropout > 0 and num_layers == 1:  # type: ignore[operator]
        warn_user("dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects "
                  f"num_layers greater than 1, but got dropout={dropout} and num_layers={num_layers}")
    for name, flag in (("bias", bias), ("batch_first", batch_first)):
        if not isinstance(flag, bool):
            raise TypeError(f"{name} should be of type bool, got: {type(flag).__name__}")


def _check_sizes(input_size: Any, hidden_size: Any, num_layers: int, proj_size: int) -> None:
    for name, size in (("input_size", input_size), ("hidden_size", hidden_size)):
        if not isinstance(size, int):
            raise TypeError(f"{name} should be of type int, got: {type(size).__name__}")
        if size <= 0:
            raise ValueError(f"{name} must be greater than zero")
    if num_layers <= 0:
        raise ValueError("num_layers must be greater than zero")
    if proj_size < 0:
        raise ValueError("proj_size should be a positive integer or zero to disable projections")
    if proj_size >= hidden_size:
        raise ValueError("proj_size has to be smaller than hidden_size")


def _check_ranks(states: Sequence[Tensor], ndim: int) -> None:
    """RuntimeError unless the states are batched as the input is."""
    kind, ranks = ("unbatched 2-D" if ndim == 2 else "batched 3-D"), [state.ndim for state in states]
    if any(rank != ndim for rank in ranks):
        which = "hx" if len(ranks) == 1 else "hx and cx"
        got = f"{ranks[0]}-D tensor" if len(ranks) == 1 else f"({ranks[0]}-D, {ranks[1]}-D) tensors"
        raise RuntimeError(f"For {kind} input, {which} should also be {ndim}-D but got {got}")


def pair_of(hx: Any) -> States:
    """The states (h, c) of an LSTM as a tuple; TypeError if hx is no pair."""
    if isinstance(hx, Tensor) or len(hx) != 2:
        raise TypeError(f"the states of an LSTM are a pair (h, c), but got a {type(hx).__name__} of length {len(hx)}")
    return tuple(hx)


def _added(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    return None if a is None or b is None else a + b


class RNN(RNNBase):
    """Elman RNN: h' = act(weight_ih x + bias_ih + weight_hh h + bias_hh), with act "tanh" or "relu".

    Takes x (L, N, input_size), (N, L, input_size) with `batch_first`, unbatched (L, input_size), or a PackedSequence,
    and an initial state (num_layers * directions, N, hidden_size), by default zeros. Returns the states h of the last
    layer, (L, N, directions * hidden_size), and the last states of all layers. `dropout` is applied between layers.
    Parameters are named as in RNNBase.

    >>> rnn = ag.nn.RNN(3, 4, num_layers=2)
    >>> out, h = rnn(ag.ones(5, 2, 3))
    >>> out.shape, h.shape
    ((5, 2, 4), (2, 2, 4))
    """

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh", bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, device: Any = None,
        dtype: Any = None, **projection: Any,
    ) -> None:  # fmt: skip
        _check_no_projection(projection)
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        mode = f"RNN_{nonlinearity.upper()}"
        super().__init__(
            mode, input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device=device,
            dtype=dtype,
        )  # fmt: skip
        self.nonlinearity = nonlinearity

    def forward(self, input: Any, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        out, (h,) = self._ag_run(input, None if hx is None else (hx,))
        return out, h

    def _ag_layer(self, rows: Tensor, states: States, name: str, sizes: tuple[int, ...], reverse: bool) -> States:
        weight_ih, weight_hh, bias_ih, bias_hh = self._ag_parameters(name)
        x, relu = linear(rows, weight_ih, _added(bias_ih, bias_hh)), self.mode == "RNN_RELU"
        return tuple(rnn_layer(x, *states, weight_hh, sizes=sizes, reverse=reverse, relu=relu))


class LSTM(RNNBase):
    """Long short-term memory: i, f, o = sigmoid(...), g = tanh(...), c' = f * c + i * g, h' = o * tanh(c').

    Takes x (L, N, input_size), (N, L, input_size) with `batch_first`, unbatched (L, input_size), or a PackedSequence,
    and initial states (h, c), by default zeros: (num_layers * directions, N, hidden_size) each. Returns the states h of
    the last layer, (L, N, directions * hidden_size), and the last states (h, c) of all layers. With `proj_size`, h is
    projected to that size by `weight_hr`. `dropout` is applied between layers. Parameters are named as in RNNBase,
    their rows are those of i, f, g, o.

    >>> lstm = ag.nn.LSTM(3, 4, bidirectional=True)
    >>> out, (h, c) = lstm(ag.ones(5, 2, 3))
    >>> out.shape, h.shape, c.shape
    ((5, 2, 8), (2, 2, 4), (2, 2, 4))
    """

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
        dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            "LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size, device,
            dtype,
        )  # fmt: skip

    def forward(self, input: Any, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Any, tuple[Tensor, Tensor]]:
        out, (h, c) = self._ag_run(input, None if hx is None else pair_of(hx))
        return out, (h, c)

    def _ag_state_sizes(self) -> tuple[int, ...]:
        return self.proj_size or self.hidden_size, self.hidden_size

    def _ag_layer(self, rows: Tensor, states: States, name: str, sizes: tuple[int, ...], reverse: bool) -> States:
        weight_ih, weight_hh, bias_ih, bias_hh = self._ag_parameters(name)
        weight_hr = getattr(self, f"weight_hr{name}") if self.proj_size else None
        x = linear(rows, weight_ih, _added(bias_ih, bias_hh))
        result = lstm_layer(x, *states, weight_hh, weight_hr, sizes=sizes, reverse=reverse)
        return result.out, result.h_n, result.c_n


class GRU(RNNBase):
    """Gated recurrent unit: r, z = sigmoid(...), n = tanh(x_n + r * (weight_hn h + bias_hn)), h' = (1 - z) n + z h.

    Takes x (L, N, input_size), (N, L, input_size) with `batch_first`, unbatched (L, input_size), or a PackedSequence,
    and an initial state (num_layers * directions, N, hidden_size), by default zeros. Returns the states h of the last
    layer, (L, N, directions * hidden_size), and the last states of all layers. `dropout` is applied between layers.
    Parameters are named as in RNNBase, their rows are those of r, z, n.

    >>> gru = ag.nn.GRU(3, 4, batch_first=True)
    >>> out, h = gru(ag.ones(2, 5, 3))
    >>> out.shape, h.shape
    ((2, 5, 4), (1, 2, 4))
    """

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
        dropout: float = 0.0, bidirectional: bool = False, device: Any = None, dtype: Any = None, **projection: Any,
    ) -> None:  # fmt: skip
        _check_no_projection(projection)
        super().__init__(
            "GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device=device,
            dtype=dtype,
        )  # fmt: skip

    def forward(self, input: Any, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        out, (h,) = self._ag_run(input, None if hx is None else (hx,))
        return out, h

    def _ag_layer(self, rows: Tensor, states: States, name: str, sizes: tuple[int, ...], reverse: bool) -> States:
        weight_ih, weight_hh, bias_ih, bias_hh = self._ag_parameters(name)
        result = gru_layer(linear(rows, weight_ih, bias_ih), *states, weight_hh, bias_hh, sizes=sizes, reverse=reverse)
        return result.out, result.h_n


def _check_no_projection(others: dict[str, Any]) -> None:
    """ValueError for proj_size, TypeError for any other unknown argument."""
    if "proj_size" in others:
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
    if others:
        raise TypeError(f"got an unexpected keyword argument '{next(iter(others))}'")
