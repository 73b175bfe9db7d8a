"""Operations on lists of tensors, with the names of torch._foreach_*: add, mul_, sqrt, lerp_, norm, ...

A call takes lists of tensors of any shapes and computes the same op on each element. It records one node, and on CUDA
most functions are one launch for up to 105 tensors of one dtype and device, and a few for more.
"""

from .ops.binding import MODULES

globals().update(MODULES["foreach"])
__all__ = sorted(MODULES["foreach"])  # noqa: PLE0605
