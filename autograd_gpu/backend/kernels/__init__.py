"""The package's CUDA kernels: one function per kernel, with a NumPy reference next to it.

1. A kernel family is one file here and one in kernels/. It declares all instances of its templates, with the types of
   their parameters (instances.py).
2. The first launch of an instance on a device compiles it for that architecture, or loads it from CuPy's disk cache
   (loader.py). Importing this package reads no .cu file and does not import CuPy.
3. All kernels are launched by `launch`, which converts every argument to the parameter's type (launcher.py).

Arrays are CuPy arrays, contiguous and on the current device. All dimensions of an array but the last are the rows of a
matrix.
"""

from ..arrays.dtypes import wide
from .bias_activation import (
    bias_activation,
    bias_activation_backward,
    bias_activation_backward_reference,
    bias_activation_double_backward,
    bias_activation_double_backward_reference,
    bias_activation_reference,
)
from .column_sum import column_sum, column_sum_reference
from .constants import HELD_TANGENTS, THREADS
from .cross_entropy import (
    Classes,
    CrossEntropySaved,
    cross_entropy,
    cross_entropy_backward,
    cross_entropy_backward_reference,
    cross_entropy_reference,
)
from .dropout import Mask, dropout, dropout_reference, mask_reference
from .foreach import foreach, foreach_reference, prepared_foreach
from .gamma_slope import gamma_slope, gamma_slope_reference
from .instances import C_NAMES, INSTANCES, Instance, Parameter, instances_of
from .launcher import contiguous
from .layer_norm import (
    layer_norm,
    layer_norm_backward,
    layer_norm_backward_reference,
    layer_norm_reference,
    rms_norm,
    rms_norm_backward,
)
from .list_norm import limit_norm, limit_norm_reference, list_norm, list_norm_reference
from .loader import OPTIONS, folder, source
from .nll import nll, nll_backward, nll_backward_reference, nll_reference, nll_tiles
from .optimizer_step import adam_step, adam_step_reference, sgd_step, sgd_step_reference
from .philox import words_reference
from .quantize import dequantize, dequantize_reference, quantize, quantize_reference
from .random import (
    DISTRIBUTIONS,
    counters_for,
    random_bits,
    random_events,
    random_gammas,
    random_integers,
    random_integers_reference,
    random_numbers,
    random_numbers_reference,
    random_successes,
)
from .recurrent import (
    gru_step,
    gru_step_backward,
    gru_step_backward_reference,
    gru_step_reference,
    lstm_step,
    lstm_step_backward,
    lstm_step_backward_reference,
    lstm_step_reference,
    rnn_step,
    rnn_step_backward,
    rnn_step_backward_reference,
    rnn_step_reference,
)
from .row_sum import row_sum, row_sum_reference
from .second_order import (
    activation_jet,
    activation_jet_backward,
    activation_jet_backward_reference,
    activation_jet_reference,
    chain_stream,
    chain_stream_backward,
    chain_stream_backward_reference,
    chain_stream_reference,
    local_terms,
    local_terms_reference,
    stream_form,
    stream_groups,
)
from .softmax import softmax, softmax_backward, softmax_backward_reference, softmax_reference
from .tables import TensorLists, fits, tensor_lists
from .tiles import VECTOR, held, held_tiles, row_tiles, row_turns, sum_tiles, tiles

__all__ = [
    "C_NAMES",
    "DISTRIBUTIONS",
    "HELD_TANGENTS",
    "INSTANCES",
    "OPTIONS",
    "THREADS",
    "VECTOR",
    "Classes",
    "CrossEntropySaved",
    "Instance",
    "Mask",
    "Parameter",
    "TensorLists",
    "activation_jet",
    "activation_jet_backward",
    "activation_jet_backward_reference",
    "activation_jet_reference",
    "adam_step",
    "adam_step_reference",
    "bias_activation",
    "bias_activation_backward",
    "bias_activation_backward_reference",
    "bias_activation_double_backward",
    "bias_activation_double_backward_reference",
    "bias_activation_reference",
    "chain_stream",
    "chain_stream_backward",
    "chain_stream_backward_reference",
    "chain_stream_reference",
    "column_sum",
    "column_sum_reference",
    "contiguous",
    "counters_for",
    "cross_entropy",
    "cross_entropy_backward",
    "cross_entropy_backward_reference",
    "cross_entropy_reference",
    "dequantize",
    "dequantize_reference",
    "dropout",
    "dropout_reference",
    "fits",
    "folder",
    "foreach",
    "foreach_reference",
    "gamma_slope",
    "gamma_slope_reference",
    "gru_step",
    "gru_step_backward",
    "gru_step_backward_reference",
    "gru_step_reference",
    "held",
    "held_tiles",
    "instances_of",
    "layer_norm",
    "layer_norm_backward",
    "layer_norm_backward_reference",
    "layer_norm_reference",
    "limit_norm",
    "limit_norm_reference",
    "list_norm",
    "list_norm_reference",
    "local_terms",
    "local_terms_reference",
    "lstm_step",
    "lstm_step_backward",
    "lstm_step_backward_reference",
    "lstm_step_reference",
    "mask_reference",
    "nll",
    "nll_backward",
    "nll_backward_reference",
    "nll_reference",
    "nll_tiles",
    "prepared_foreach",
    "quantize",
    "quantize_reference",
    "random_bits",
    "random_events",
    "random_gammas",
    "random_integers",
    "random_integers_reference",
    "random_numbers",
    "random_numbers_reference",
    "random_successes",
    "rms_norm",
    "rms_norm_backward",
    "rnn_step",
    "rnn_step_backward",
    "rnn_step_backward_reference",
    "rnn_step_reference",
    "row_sum",
    "row_sum_reference",
    "row_tiles",
    "row_turns",
    "sgd_step",
    "sgd_step_reference",
    "softmax",
    "softmax_backward",
    "softmax_backward_reference",
    "softmax_reference",
    "source",
    "stream_form",
    "stream_groups",
    "sum_tiles",
    "tensor_lists",
    "tiles",
    "wide",
    "words_reference",
]  # fmt: skip
