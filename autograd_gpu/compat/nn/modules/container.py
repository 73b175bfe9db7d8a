"""PyTorch's path of containers."""

from ....nn.container import ModuleDict, ModuleList, Sequential
from ....nn.parameter_containers import ParameterDict, ParameterList

__all__ = ["ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]
