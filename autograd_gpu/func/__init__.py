"""Function transforms: functions that take a function and return one, or differentiate it; they nest in any order."""

from typing import TYPE_CHECKING

from ..missing_names import getattr_of
from .forward import jvp, linearize
from .jacobians import jacfwd, jacrev
from .modules import functional_call, functionalize, stack_module_state
from .reverse import grad, grad_and_value, vjp
from .second import hessian, hessian_diagonal, hvp, laplacian, value_and_derivatives
from .vmap import vmap

__all__ = [
    "functional_call", "functionalize", "grad", "grad_and_value", "hessian", "hessian_diagonal", "hvp", "jacfwd",
    "jacrev", "jvp", "laplacian", "linearize", "stack_module_state", "value_and_derivatives", "vjp", "vmap",
]  # fmt: skip

if not TYPE_CHECKING:  # a type checker would accept any name
    __getattr__ = getattr_of(__name__)


def __dir__() -> list[str]:
    return list(__all__)
