"""Activations and dropouts that are written into their input."""

from __future__ import annotations

from ..nn.activation import relu, sigmoid, tanh
from ..nn.dropout import alpha_dropout, dropout, feature_alpha_dropout, feature_dropout, rrelu
from ..nn.exponential_activations import celu, elu, selu
from ..nn.piecewise_activations import hardtanh, leaky_relu, threshold
from .write import in_place

alpha_dropout_ = in_place(alpha_dropout, "alpha_dropout_")
celu_ = in_place(celu, "celu_")
dropout_ = in_place(dropout, "dropout_")
elu_ = in_place(elu, "elu_")
feature_alpha_dropout_ = in_place(feature_alpha_dropout, "feature_alpha_dropout_")
feature_dropout_ = in_place(feature_dropout, "feature_dropout_")
hardtanh_ = in_place(hardtanh, "hardtanh_")
leaky_relu_ = in_place(leaky_relu, "leaky_relu_")
relu_ = in_place(relu, "relu_")
rrelu_ = in_place(rrelu, "rrelu_")
selu_ = in_place(selu, "selu_")
sigmoid_ = in_place(sigmoid, "sigmoid_")
tanh_ = in_place(tanh, "tanh_")
threshold_ = in_place(threshold, "threshold_")
