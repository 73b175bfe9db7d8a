"""The public autograd API: grad, backward, Function, hooks, gradcheck, functional."""

from typing import TYPE_CHECKING

from ..errors import GradcheckError
from ..missing_names import getattr_of
from ..modes import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from . import forward_ad, functional, graph
from .anomaly_mode import detect_anomaly, set_detect_anomaly
from .backward import backward, grad
from .function import Function, once_differentiable
from .grad_mode import is_multithreading_enabled, set_multithreading_enabled
from .gradcheck import gradcheck, gradgradcheck
from .variable import Variable

__all__ = [
    "Function", "GradcheckError", "Variable", "backward", "detect_anomaly", "enable_grad", "forward_ad", "functional",
    "grad", "gradcheck", "gradgradcheck", "graph", "inference_mode", "is_grad_enabled", "is_inference_mode_enabled",
    "is_multithreading_enabled", "no_grad", "once_differentiable", "set_detect_anomaly", "set_grad_enabled",
    "set_multithreading_enabled",
]  # fmt: skip

if not TYPE_CHECKING:  # a type checker would accept any name
    __getattr__ = getattr_of(__name__)
