"""Function transforms: functions that take a function and return one, or differentiate it; they nest in any order."""

from .forward import jvp, linearize
from .jacobians import hessian, hvp, jacfwd, jacrev
from .modules import functional_call, stack_module_state
from .reverse import grad, grad_and_value, vjp
from .vmap import vmap

__all__ = [
    "functional_call", "grad", "grad_and_value", "hessian", "hvp", "jacfwd", "jacrev", "jvp", "linearize",
    "stack_module_state", "vjp", "vmap",
]  # fmt: skip


def __dir__() -> list[str]:
    return list(__all__)
