"""Constants shared by the kernels and their launch code; loader.py prepends them to every source."""

from __future__ import annotations

THREADS = 256  # per block
COUNTERS_PER_THREAD = 4  # of random words, in kernels that fill an array with them
CHUNK = 16384  # elements per block in a kernel over lists of arrays

# By the number of lists: the most arrays in each for one launch. Addresses are a parameter, and every driver takes 4096
# bytes of parameters. An array has 8 bytes in each list, 4 for its first block, and 2 for the size of its last chunk.
# The table of first blocks has an end of 4 bytes, and 112 are left for the other parameters.
MOST_ARRAYS = tuple([(4096 - 112 - 4) // (8 * lists + 4 + 2) for lists in range(6)])

# The number of vectors of a row of each matrix that a thread holds in registers.
SOFTMAX_STRIPS, SOFTMAX_BACKWARD_STRIPS = 8, 4
QUANTIZE_STRIPS = 8
# For norms, by the elements per vector: 16 elements per thread; 8 for double, and without vectors, where addresses take
# registers, too.
NORM_STRIPS = (0, 8, 4, 0, 4, 0, 0, 0, 2)

# Of streams: the most tangents that a thread keeps in shared memory, and the forms of their second tangents.
HELD_TANGENTS = 4
FULL_HESSIAN, DIAGONAL, LAPLACIAN = 0, 1, 2
# Of local_terms: the outputs, half as many but of float32, and the tangents of one tile of results.
TILE_OUTPUTS, TILE_TANGENTS = 4, 3


def definitions() -> str:
    """All constants as C++ definitions, in one line."""
    return " ".join([_definition(name, value) for name, value in globals().items() if name.isupper()])


def _definition(name: str, value: int | tuple[int, ...]) -> str:
    if isinstance(value, int):
        return f"[[maybe_unused]] constexpr int {name} = {value};"
    return f"[[maybe_unused]] constexpr int {name}[] = {{{', '.join(map(str, value))}}};"
