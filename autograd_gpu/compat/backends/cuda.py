"""Settings of CUDA's matrix products: `backends.cuda.matmul.allow_tf32` is the switch of the precision of float32."""

from __future__ import annotations

from typing import Any

from ...backend.cuda.runtime import is_available
from ...modes import get_float32_matmul_precision, set_float32_matmul_precision


class _Matmul:
    """The settings of matrix products on CUDA.

    `allow_tf32` is whether `ag.get_float32_matmul_precision()` is other than "highest"; set to True it makes it "high".
    The two switches of reduced precision are False: products of half types are summed in float32; True has no effect.
    AttributeError for other settings.

    >>> ag.backends.cuda.matmul.allow_tf32
    False
    """

    allow_fp16_reduced_precision_reduction = False
    allow_bf16_reduced_precision_reduction = False
    allow_fp16_accumulation = False

    @property
    def allow_tf32(self) -> bool:
        return get_float32_matmul_precision() != "highest"

    @allow_tf32.setter
    def allow_tf32(self, value: bool) -> None:
        set_float32_matmul_precision("high" if value else "highest")

    def __setattr__(self, name: str, value: Any) -> None:
        if not hasattr(type(self), name):
            raise AttributeError(f"Unknown attribute {name}")
        super().__setattr__(name, value)


matmul = _Matmul()


def is_built() -> bool:
    """Whether CUDA can be used: PyTorch asks for its build, here CuPy with a GPU decides.

    >>> ag.backends.cuda.is_built() == ag.cuda.is_available()
    True
    """
    return is_available()


__all__ = ["is_built", "matmul"]
