"""Ops by which a call that is traced for `ag.compile` packs and unpacks: the arithmetic is that of quantize.

They are no names of the package, since their results are what a hook holds: codes and scales.
"""

from __future__ import annotations

from typing import Any

from ..backend.quantization.formats import FORMATS, needs_scale
from ..backend.quantization.quantize import Quantized, dequantize
from ..backend.quantization.quantize import quantize as quantized
from ..core.declare.op import ANY
from ..core.dispatch import internal_op
from ..core.tensor import Tensor
from .memory_layout import footprint_of


def _memory(x: Any) -> Any:
    footprint = footprint_of(x)
    assert footprint is not None  # as pack_cache.py has found before it packs
    return footprint.contiguous(x)


@internal_op
class packed_codes:
    """The codes of the memory of x, where these need no scale."""

    def forward(xp: Any, x: Any, *, dtype: Any) -> Any:
        return quantized(_memory(x), dtype).codes

    types, nondiff, public = ANY, True, ()


@internal_op
class packed_scaled:
    """The codes and the scales of the memory of x."""

    def forward(xp: Any, x: Any, *, dtype: Any, granularity: str) -> Any:
        return quantized(_memory(x), dtype, granularity)[:2]

    types, nondiff, public, outputs = ANY, True, (), ("codes", "scale")


@internal_op
class unpacked:
    """The memory that was packed, as an array in C order."""

    def forward(xp: Any, codes: Any, scale: Any = None, *, dtype: Any, source: Any) -> Any:
        return dequantize(Quantized(codes, scale, dtype, source))

    types, nondiff, public = ANY, True, ()


@internal_op
class packed_view:
    """A view of memory that was unpacked."""

    def forward(xp: Any, x: Any, *, view: Any) -> Any:
        return view.of(x)

    types, nondiff, public, view = ANY, True, (), True


def pack(x: Tensor, dtype: Any, granularity: str) -> tuple[Tensor, Tensor | None]:
    """Codes and scale, or None, of the memory of x."""
    if needs_scale(x.dtype, FORMATS[dtype]):
        codes, scale = packed_scaled(x, dtype=dtype, granularity=granularity)
        return codes, scale
    return packed_codes(x, dtype=dtype), None


def unpack(codes: Tensor, scale: Tensor | None, dtype: Any, source: Any) -> Tensor:
    """The memory that was packed."""
    result: Tensor = unpacked(codes, scale, dtype=dtype, source=source)
    return result
