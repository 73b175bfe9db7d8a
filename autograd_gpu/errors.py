"""Exception classes and the messages that more than one module raises."""

import sys
import warnings
from collections.abc import Sequence
from types import FrameType


class GradcheckError(RuntimeError):
    """Raised by `gradcheck` and `gradgradcheck` when a derivative is wrong; the text says which."""


class OpDeclarationError(TypeError):
    """Raised at import for an inconsistent `@defop` block; the text names op and argument."""


class MissingRuleError(NotImplementedError):
    """Raised when a derivative is needed that an op does not declare."""


class UnknownDerivativeError(NotImplementedError):
    """Raised by the rule for a derivative that is not implemented."""


class ArgumentError(ValueError):
    """An invalid argument of an op for which PyTorch raises ValueError."""


class LinAlgError(RuntimeError):
    """Raised if a matrix has no inverse or no Cholesky factor, or if an iteration does not converge.

    Also `ag.linalg.LinAlgError`. A RuntimeError, as in PyTorch; NumPy's error of that name is a ValueError.
    """


def check_count(function: str, name: str, value: object) -> None:
    """TypeError unless it is an integer, ValueError if it is negative."""
    if not hasattr(value, "__index__") or isinstance(value, bool):
        raise TypeError(f"{function}: {name} must be an integer, not {value!r}")
    if value < 0:  # type: ignore[operator]
        raise ValueError(f"{function}: {name} must not be negative, got {value}")


def check_bool(op: str, name: str, value: object) -> None:
    """TypeError unless `value` is a bool."""
    if type(value).__name__ not in ("bool", "bool_"):
        raise TypeError(f"{op}(): argument '{name}' must be bool, not {type(value).__name__}")


FREED_HINT = (
    "Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify "
    "retain_graph=True if you need to backward through the graph a second time or if you need to access saved tensors "
    "after calling backward."
)


def freed_twice() -> RuntimeError:
    return RuntimeError("Trying to backward through the graph a second time (or directly access saved tensors after "
                        f"they have already been freed). {FREED_HINT}")


def modified_in_place(
    kind: str, shape: tuple[int, ...], where: str, version: int, expected: int, anomaly: bool = False
) -> RuntimeError:
    """`where`: "output 0 of MulBackward0", or "" for a leaf. `anomaly`: whether anomaly mode is on."""
    return RuntimeError(
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"[{kind} {list(shape)}]{f', which is {where},' if where else ''} is at version {version}; expected version "
        f"{expected} instead. "
        + (
            "Hint: the backtrace further above shows the operation that failed to compute its gradient. The variable "
            "in question was changed in there or anywhere later. Good luck!"
            if anomaly else
            "Hint: enable anomaly detection to find the operation that failed to compute its gradient, with "
            "ag.autograd.set_detect_anomaly(True, check_nan=False)."
        )
    )


def inference_saved() -> RuntimeError:
    return RuntimeError(
        "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in "
        "computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and use it "
        "in autograd, or use `ag.no_grad()` instead of `ag.inference_mode()`."
    )


def inference_written() -> RuntimeError:
    return RuntimeError(
        "Inplace update to inference tensor outside InferenceMode is not allowed. You can make a clone to get a normal "
        "tensor before doing inplace update."
    )


def read_only() -> RuntimeError:
    return RuntimeError("a tensor whose memory came in read-only cannot be written to; write to a clone() of it, or "
                        "make the tensor with ag.tensor, which copies")


def detached_since() -> RuntimeError:
    return RuntimeError(
        "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_(). This is not supported, "
        "please use out-of-place `.detach()` instead"
    )


def mixed_devices(op: str, devices: list[str]) -> RuntimeError:
    first, *rest = dict.fromkeys(devices)
    return RuntimeError(
        f"{op}: expected all tensors to be on the same device, but found {first} and {', '.join(rest)}; "
        f"move one with .to({first!r})"
    )


def float_factor(name: str) -> RuntimeError:
    return RuntimeError(f"For integral input tensors, argument {name} must not be a floating point number.")


def sizes_differ(shapes: Sequence[tuple[int, ...]]) -> str | None:
    """PyTorch's error text for shapes that do not broadcast; None if they do."""
    a = shapes[0]
    for b in shapes[1:]:
        ndim = max(len(a), len(b))
        a, b = ((1,) * (ndim - len(shape)) + tuple(shape) for shape in (a, b))
        for dim in range(ndim - 1, -1, -1):
            if a[dim] != b[dim] and 1 not in (a[dim], b[dim]):
                return (f"The size of tensor a ({a[dim]}) must match the size of tensor b ({b[dim]}) at non-singleton "
                        f"dimension {dim}")
        a = tuple(n if m == 1 else m for m, n in zip(a, b, strict=True))
    return None


class NotExportable(RuntimeError, AttributeError, BufferError):
    """Raised for the export of a tensor that requires grad.

    A BufferError for DLPack; an AttributeError so that `hasattr` returns False when another library, such as CuPy for
    operands, looks for __cuda_array_interface__.
    """


def needs_detach() -> RuntimeError:
    return RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")


IN_TRANSFORM = (
    "is inside of a function transform, such as jvp or hessian, which differentiates it. Use operations on tensors, an "
    "ag.autograd.Function for code on arrays, or tensor.detach() for a constant."
)


NO_LEAF_GRAD = (
    "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be "
    "populated during autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf Tensor, "
    "use .retain_grad() on the non-leaf Tensor. If you access the non-leaf Tensor by mistake, make sure you access the "
    "leaf Tensor instead."
)


def foreign_grad(what: str, grad: object, own: object) -> RuntimeError:
    """`what` is size, dtype or device."""
    how = "of size" if what == "size" else f"with {what}"
    return RuntimeError(f"attempting to assign a gradient {how} '{grad}' to a tensor {how} '{own}'. Please ensure "
                        f"that the gradient and the tensor are the same {what}")


def codes_as_data(own: object, data: object) -> TypeError:
    return TypeError(f"the data of a {own} tensor cannot be set to {data}: a float8 tensor is an object of another "
                     "class; make a new tensor with .to(dtype)")


def warn_user(text: str, category: type[Warning] = UserWarning) -> None:
    """A warning at the innermost line outside the package."""
    package, frame, level = __name__.partition(".")[0], sys._getframe(1), 2
    while frame.f_back is not None and _is_of(package, frame):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)


def _is_of(package: str, frame: FrameType) -> bool:
    return frame.f_globals.get("__name__", package).partition(".")[0] == package  # generated code has no __name__


def no_derivative(op: str, name: str) -> MissingRuleError:
    return MissingRuleError(f"the function {op} is not differentiable with respect to argument '{name}', which depends "
                            "on what is differentiated; detach() it if it is meant to be a constant")


def lifted_gradient() -> RuntimeError:
    return RuntimeError("a gradient that belongs to a function transform (vmap, or is_grads_batched) cannot be kept in "
                        ".grad, which would outlive the transform; return it from the function instead: ag.func.grad, "
                        "ag.func.vjp and ag.autograd.grad compute it without .grad and retain_grad()")


def requires_grad_in_transform() -> RuntimeError:
    return RuntimeError("You are attempting to call Tensor.requires_grad_() (or perhaps using ag.autograd.functional.* "
                        "APIs) inside of a function being transformed (vmap, grad, jvp, ...). This is unsupported, "
                        "please attempt to use the function transforms (e.g. grad, vjp, jacrev, jacfwd, hessian) or "
                        "call requires_grad_() outside of a function being transformed instead.")
