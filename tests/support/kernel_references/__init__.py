"""NumPy references of the CUDA kernels: functions by the names of those in autograd_gpu/backend/kernels/.

They take the arrays that a kernel reads, and return those that it writes. Half types are computed in float32 and
rounded once. Cross entropy, dropout and the slope of gamma-distributed numbers are those that the package computes on
the CPU.
"""

from autograd_gpu.backend.cpu.cross_entropy import cross_entropy, cross_entropy_backward
from autograd_gpu.backend.cpu.dropout import dropout, mask_bits
from autograd_gpu.backend.cpu.gamma_slope import gamma_slope

from .activations import choose
from .bias_activation import bias_activation, bias_activation_backward, bias_activation_double_backward
from .column_sum import column_sum
from .elementwise import elementwise, elementwise_gradient, group
from .foreach import foreach
from .gather import gather
from .layer_norm import layer_norm, layer_norm_backward
from .list_norm import limit_norm, list_norm
from .nll import nll, nll_backward
from .quantize import dequantize, quantize
from .random import random_integers, random_numbers
from .recurrent import gru_step, gru_step_backward, lstm_step, lstm_step_backward, rnn_step, rnn_step_backward
from .row_statistic import row_statistic, row_variance
from .row_sum import row_sum
from .second_order import (
    activation_jet,
    activation_jet_backward,
    chain_stream,
    chain_stream_backward,
    local_terms,
)
from .softmax import softmax, softmax_backward
from .updates import updated

__all__ = [
    "activation_jet",
    "activation_jet_backward",
    "bias_activation",
    "bias_activation_backward",
    "bias_activation_double_backward",
    "chain_stream",
    "chain_stream_backward",
    "choose",
    "column_sum",
    "cross_entropy",
    "cross_entropy_backward",
    "dequantize",
    "dropout",
    "elementwise",
    "elementwise_gradient",
    "foreach",
    "gamma_slope",
    "gather",
    "group",
    "gru_step",
    "gru_step_backward",
    "layer_norm",
    "layer_norm_backward",
    "limit_norm",
    "list_norm",
    "local_terms",
    "lstm_step",
    "lstm_step_backward",
    "mask_bits",
    "nll",
    "nll_backward",
    "quantize",
    "random_integers",
    "random_numbers",
    "rnn_step",
    "rnn_step_backward",
    "row_statistic",
    "row_sum",
    "row_variance",
    "softmax",
    "softmax_backward",
    "updated",
]
