"""PyTorch's path of recurrent layers."""

from ....nn.recurrent import GRU, LSTM, RNN, RNNBase
from ....nn.recurrent_cells import GRUCell, LSTMCell, RNNCell, RNNCellBase

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]
