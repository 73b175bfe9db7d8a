"""nn.functional's softmax, log_softmax and softmin, whose dimension may be left out, as in old programs."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..core.codegen.keywords import other_words
from ..core.tensor import Tensor
from ..errors import warn_user


@other_words
def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """exp(x) / sum(exp(x)) over `dim`; see ag.softmax.

    Without `dim` it is 0 for 0, 1 and 3 dimensions, else 1, with a UserWarning: PyTorch has deprecated that.
    `_stacklevel` has no effect.

    >>> ag.nn.functional.softmax(ag.zeros(2), dim=0)
    tensor([0.5, 0.5])
    """
    return ops.softmax(input, _implicit_dim("softmax", input) if dim is None else dim, dtype)


@other_words
def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """x - log(sum(exp(x))) over `dim`; see ag.log_softmax, and `softmax` for a `dim` that is left out.

    >>> ag.nn.functional.log_softmax(ag.zeros(2), dim=0)
    tensor([-0.6931, -0.6931])
    """
    return ops.log_softmax(input, _implicit_dim("log_softmax", input) if dim is None else dim, dtype)


@other_words
def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """exp(-x) / sum(exp(-x)) over `dim`; see ag.softmin, and `softmax` for a `dim` that is left out.

    >>> ag.nn.functional.softmin(ag.zeros(2), dim=0)
    tensor([0.5, 0.5])
    """
    return ops.softmin(input, _implicit_dim("softmin", input) if dim is None else dim, dtype)


def _implicit_dim(name: str, input: Tensor) -> int:
    """PyTorch's choice: the channels of a batch, of images with or without it."""
    warn_user(f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an "
              "argument.")
    return 0 if input.ndim in (0, 1, 3) else 1
