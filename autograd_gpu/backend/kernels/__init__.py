"""The package's CUDA kernels: one function per kernel.

1. A kernel family is one file here and one in kernels/. It declares all instances of its templates, with the types of
   their parameters (instances.py).
2. The first launch of an instance on a device compiles it for that architecture, or loads it from CuPy's disk cache
   (loader.py). Importing this package reads no .cu file and does not import CuPy.
3. All kernels are launched by `launch`, which converts every argument to the parameter's type (launcher.py).

Arrays are CuPy arrays, contiguous and on the current device. All dimensions of an array but the last are the rows of a
matrix.
"""

from ..arrays.dropout_mask import Mask
from ..arrays.dtypes import wide
from ..arrays.loss_classes import Classes, CrossEntropySaved
from .array_lists import TensorLists, fits, tensor_lists
from .bias_activation import (
    bias_activation,
    bias_activation_backward,
    bias_activation_double_backward,
    declare_bias_activation,
)
from .column_sum import column_sum
from .constants import HELD_TANGENTS, THREADS
from .cross_entropy import LossStep, cross_entropy, cross_entropy_backward, cross_entropy_step, suits_step
from .dropout import dropout
from .elementwise import declare_elementwise, elementwise
from .foreach import ListFunction, declare_foreach, foreach, function_of, kinds_of, over, update_of
from .functors import WRITTEN, Applied, written
from .gamma_slope import gamma_slope
from .gather import gather, suits_gather
from .group import MOST_IN_GROUP, GroupKernel, declare_group, group, group_shape
from .group_sums import MOST_SUMS, MOST_WITH_SUMS, SummingKernel, declare_group_sums, suits_sum
from .instances import C_NAMES, INSTANCES, Instance, Parameter, instances_of
from .launcher import alike, contiguous
from .layer_norm import layer_norm, layer_norm_backward, rms_norm, rms_norm_backward
from .list_norm import limit_norm, list_norm
from .loader import OPTIONS, folder, source
from .nll import nll, nll_backward, nll_tiles
from .quantize import dequantize, quantize
from .random import (
    DISTRIBUTIONS,
    counters_for,
    random_bits,
    random_events,
    random_gammas,
    random_integers,
    random_numbers,
    random_successes,
)
from .recurrent import (
    declare_rnn,
    gru_step,
    gru_step_backward,
    lstm_step,
    lstm_step_backward,
    rnn_step,
    rnn_step_backward,
)
from .row_statistic import LONGEST_ROW, row_statistic, row_variance
from .row_sum import row_sum
from .second_order import (
    activation_jet,
    activation_jet_backward,
    chain_stream,
    chain_stream_backward,
    declare_activation_jet,
    local_terms,
    stream_form,
    stream_groups,
)
from .softmax import softmax, softmax_backward
from .tiles import VECTOR, held, held_tiles, row_tiles, row_turns, sum_tiles, tiles

__all__ = [
    "C_NAMES",
    "DISTRIBUTIONS",
    "HELD_TANGENTS",
    "INSTANCES",
    "LONGEST_ROW",
    "MOST_IN_GROUP",
    "MOST_SUMS",
    "MOST_WITH_SUMS",
    "OPTIONS",
    "THREADS",
    "VECTOR",
    "WRITTEN",
    "Applied",
    "Classes",
    "CrossEntropySaved",
    "GroupKernel",
    "Instance",
    "ListFunction",
    "LossStep",
    "Mask",
    "Parameter",
    "SummingKernel",
    "TensorLists",
    "activation_jet",
    "activation_jet_backward",
    "alike",
    "bias_activation",
    "bias_activation_backward",
    "bias_activation_double_backward",
    "chain_stream",
    "chain_stream_backward",
    "column_sum",
    "contiguous",
    "counters_for",
    "cross_entropy",
    "cross_entropy_backward",
    "cross_entropy_step",
    "declare_activation_jet",
    "declare_bias_activation",
    "declare_elementwise",
    "declare_foreach",
    "declare_group",
    "declare_group_sums",
    "declare_rnn",
    "dequantize",
    "dropout",
    "elementwise",
    "fits",
    "folder",
    "foreach",
    "function_of",
    "gamma_slope",
    "gather",
    "group",
    "group_shape",
    "gru_step",
    "gru_step_backward",
    "held",
    "held_tiles",
    "instances_of",
    "kinds_of",
    "layer_norm",
    "layer_norm_backward",
    "limit_norm",
    "list_norm",
    "local_terms",
    "lstm_step",
    "lstm_step_backward",
    "nll",
    "nll_backward",
    "nll_tiles",
    "over",
    "quantize",
    "random_bits",
    "random_events",
    "random_gammas",
    "random_integers",
    "random_numbers",
    "random_successes",
    "rms_norm",
    "rms_norm_backward",
    "rnn_step",
    "rnn_step_backward",
    "row_statistic",
    "row_sum",
    "row_tiles",
    "row_turns",
    "row_variance",
    "softmax",
    "softmax_backward",
    "source",
    "stream_form",
    "stream_groups",
    "suits_gather",
    "suits_step",
    "suits_sum",
    "sum_tiles",
    "tensor_lists",
    "tiles",
    "update_of",
    "wide",
    "written",
]  # fmt: skip
