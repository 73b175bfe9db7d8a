"""Optimizers, schedulers and averaged models, with PyTorch's names and arithmetic."""

from typing import TYPE_CHECKING

from ..missing_names import getattr_of
from . import hooks, lr_scheduler, swa_utils
from .adadelta import Adadelta
from .adagrad import Adagrad
from .adam import Adam, AdamW
from .adamax import Adamax
from .asgd import ASGD
from .lbfgs import LBFGS
from .nadam import NAdam
from .optimizer import Optimizer
from .radam import RAdam
from .rmsprop import RMSprop
from .rprop import Rprop
from .sgd import SGD
from .step_in_backward import step_in_backward
from .zero_redundancy import ZeroRedundancyOptimizer

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "ZeroRedundancyOptimizer",
    "hooks",
    "lr_scheduler",
    "step_in_backward",
    "swa_utils",
]

if not TYPE_CHECKING:  # a type checker would accept any name
    __getattr__ = getattr_of(__name__, adamw="")


def __dir__() -> list[str]:
    return list(__all__)
