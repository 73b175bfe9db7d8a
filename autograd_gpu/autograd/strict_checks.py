"""The strict mode of autograd.functional: errors instead of zeros for independent inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..core.engine.grad_buffers import zeros
from ..core.tensor import Tensor, wrap

Gradients = Sequence[Tensor | None]

_STRICT = " This is not allowed in strict mode"
_UNREACHED = "The output of the user-provided function is independent of input {i}." + _STRICT + "."

# Values that must require grad, to be differentiated again -> the error if they do not.
REQUIRED = {
    "outputs": "Output {i} of the user-provided function does not require gradients. The outputs must be computed in "
               "a differentiable manner from the input when running in strict mode.",
    "grad_inputs": "The gradient with respect to input {i} is independent of the inputs of the user-provided "
                   "function." + _STRICT + ".",
    "jacobian": "While computing the hessian, found that the jacobian of the user-provided function with respect to "
                "input {i} is independent of the input." + _STRICT + ". You should ensure that your function is "
                "twice differentiable and that the jacobian depends on the inputs (this would be violated by a linear "
                "function for example).",
}  # fmt: skip

# Function -> the errors if gradient {i} is missing, and if it is constant although create_graph is set.
_CONSTANT = "The {} of the user-provided function is independent of input {{i}}." + _STRICT + " when create_graph=True."
_JACOBIAN, _HESSIAN = _CONSTANT.format("jacobian"), _CONSTANT.format("hessian")
MISSING = {
    "jacobian": ("Output {output} of the user-provided function is independent of input {i}." + _STRICT + ".",
                 _JACOBIAN),
    "vjp": (_UNREACHED, _JACOBIAN),
    "jvp": ("The gradient with respect to the input is independent of entry {i} in the grad_outputs when using the "
            "double backward trick to compute forward mode gradients." + _STRICT + ".", _JACOBIAN),
    "vhp": ("The jacobian of the user-provided function is independent of input {i}." + _STRICT + ".", _HESSIAN),
    "hvp": ("The hessian of the user-provided function is independent of entry {i} in the grad_jacobian." + _STRICT
            + " as it prevents from using the double backward trick to replace forward mode AD.", _HESSIAN),
}  # fmt: skip


def check_requires_grad(tensors: Gradients, what: str) -> None:
    """RuntimeError with the text of REQUIRED for the first tensor that is missing or does not require grad."""
    for i, tensor in enumerate(tensors):
        if tensor is None:
            raise RuntimeError(_UNREACHED.format(i=i))
        if not tensor.requires_grad:
            raise RuntimeError(REQUIRED[what].format(i=i))


def check_reached(gradients: Iterable[Tensor | None], function: str, create_graph: bool, output: int = 0) -> None:
    """RuntimeError with the text of MISSING for the first gradient that is missing or cannot be differentiated."""
    missing, constant = MISSING[function]
    for i, g in enumerate(gradients):
        if g is None:
            raise RuntimeError(missing.format(i=i, output=output))
        if create_graph and not g.requires_grad:
            raise RuntimeError(constant.format(i=i))


def filled(gradients: Gradients, references: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """`gradients` with missing ones replaced by zeros like the references."""
    pairs = zip(gradients, references, strict=True)
    return tuple([wrap(zeros(like.array)) if g is None else g for g, like in pairs])
