"""Numbers that the kernels and those who launch them agree on: loader.py writes these on top of every source."""

from __future__ import annotations

THREADS = 256  # of a block
CHUNK = 16384  # elements of an array that a block of a kernel over lists takes

# How many strips of a row of each matrix a thread holds in registers.
SOFTMAX_STRIPS, SOFTMAX_BACKWARD_STRIPS = 8, 4
QUANTIZE_STRIPS = 8
# Of a norm by the width of a strip: 16 elements; 8 of double, and of single ones, whose addresses take registers too.
NORM_STRIPS = (0, 8, 4, 0, 4, 0, 0, 0, 2)


def definitions() -> str:
    """All of these as C++, in one line."""
    return " ".join([_definition(name, value) for name, value in globals().items() if name.isupper()])


def _definition(name: str, value: int | tuple[int, ...]) -> str:
    if isinstance(value, int):
        return f"[[maybe_unused]] constexpr int {name} = {value};"
    return f"[[maybe_unused]] constexpr int {name}[] = {{{', '.join(map(str, value))}}};"
