"""Our kernels, compiled for the CPU and launched on NumPy arrays: the product's sources, options and launch shapes."""

import dataclasses
import functools
from types import SimpleNamespace

import numpy as np
from cuda_emu import build

from autograd_gpu.backend import kernels

DTYPES = tuple(kernels.C_NAMES)
ORDERS = ("forward", "reverse", 1)  # of blocks and threads; the number seeds a shuffle
TOGETHER = 48  # instances per object: CUDA's headers take as long as 20 of them, and another process may do the rest
# Types, and of matrices widths, of the instances that are compiled together of a formula of one of these templates.
ALIKE = (
    ("float, 4>", "float, 1>", "double, 2>", "double, 1>"), ("__half, 8>", "__half, 1>"),
    ("float>", "double>", "__half>", "__nv_bfloat16>"),
)  # fmt: skip
SHARED = {"elementwise", "foreach", "bias_activation", "activation_jet", "activation_jet_backward"}
MARGIN, POISON = 4096, 0xFF  # bytes around an array, and what they hold: NaN as any float


class Placed:
    """A copy of an array that starts `offset` elements after a 16-byte boundary, between poisoned margins."""

    def __init__(self, array, offset=0):
        begin = MARGIN + offset * array.itemsize
        memory = np.full(15 + begin + array.nbytes + MARGIN, POISON, np.uint8)
        memory = memory[-memory.ctypes.data % 16 :]
        self.below, inside, self.above = np.split(memory, [begin, begin + array.nbytes])
        self.array = inside.view(array.dtype).reshape(array.shape)
        self.array[...] = array

    def result(self):
        """The array, after a look at the margins."""
        assert (self.below == POISON).all(), "the kernel wrote below the array"
        assert (self.above == POISON).all(), "the kernel wrote above the array"
        return self.array


def unset(shape, dtype, offset=0):
    """Memory for a result; it holds NaN."""
    return Placed(np.full(shape, np.nan).astype(dtype), offset)


def on_device(xp, array, offset=0):
    """A copy that begins `offset` elements into its memory on the device."""
    memory = xp.empty((array.size + offset,), array.dtype)
    memory[offset:] = xp.asarray(array.ravel())
    return memory[offset:].reshape(array.shape)


def quarters(shape, dtype):
    """Multiples of 1/4 from -4 to 4, a few of them 0: sums of hundreds are exact in any order, in float32."""
    return (np.random.randint(-16, 17, shape) / 4).astype(dtype)


def assert_same(actual, expected):
    """The same dtype, shape and numbers, NaN being NaN: NumPy has no such test for bfloat16."""
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(actual.astype(np.float64), expected.astype(np.float64), strict=True)


def assert_close(actual, expected, rtol, atol=0.0):
    """The same dtype and shape, and numbers as close as that, NaN being NaN."""
    assert actual.dtype == expected.dtype
    np.testing.assert_allclose(actual.astype(np.float64), expected.astype(np.float64), rtol, atol, strict=True)


def width_of(array, offset=0):
    """How many columns a thread takes of an array that starts `offset` elements after a 16-byte boundary."""
    widest = kernels.VECTOR // array.itemsize
    return 1 if offset % widest or array.shape[-1] % widest else widest


class Kernels(dict):
    """The instances of one of our files for the CPU, compiled by dozens when one of them is asked for.

    Those of a formula that is declared later are compiled by themselves, for all of ALIKE: with the ones before them
    they would be another text in each process, and all would be compiled again.
    """

    def __init__(self, file, check):
        self.file, self.check = file, check
        self.declared = kernels.instances_of(file)

    def __missing__(self, name):
        if name in self.declared:
            first = self.declared.index(name) // TOGETHER * TOGETHER
            together = self.declared[first : first + TOGETHER]
            text = kernels.source(self.file, together)
        else:
            unit = kernels.instances_of(self.file, kernels.INSTANCES[name].unit)
            text, together = kernels.source(self.file, unit), with_others(unit)
        part = compile_alone(text, kernels.OPTIONS, together, self.check)
        self.update(part.kernels)
        return self[name]


def with_others(names):
    """The names of a formula's instances of one type and width, and of what other tests want of the same formula.

    Reading the sources and CUDA's headers takes as long as ten instances.
    """
    for types in ALIKE:
        parts = [name.partition(", ")[::2] for name in names]
        if names[0].partition("<")[0] in SHARED and all(rest in types for _, rest in parts):
            return [f"{begin}, {rest}" for rest in types for begin, _ in parts]
    return names


@functools.cache
def compiled(file, check):
    """One of our files for the CPU: `kernels` has its instances by name."""
    return SimpleNamespace(kernels=Kernels(file, check))


compile_alone = build.compile


def share_objects():
    """Lets the stand-in for CuPy take our kernels out of the objects of these tests: it would compile a few at a time,
    and CUDA's headers each time."""

    def shared(source, options=(), name_expressions=(), check="none"):
        names = list(name_expressions)
        ours = names and options == kernels.OPTIONS and set(names) <= kernels.INSTANCES.keys()
        file = kernels.INSTANCES[names[0]].file if ours else None
        if file is None or kernels.source(file, names) != source:
            return compile_alone(source, options, names, check)
        together = compiled(file, check).kernels
        return SimpleNamespace(kernels={name: dataclasses.replace(together[name]) for name in names})

    build.compile = shared


def launch(name, shape, *arguments, order="forward", check="none"):
    """Runs the instance `name` with `shape` = (grid, block); an argument is a Placed, None, a number or a struct."""
    file, _, parameters, *_ = kernels.INSTANCES[name]
    (across, parts), (wide, deep) = shape
    if not across * parts:
        return
    values = [_bytes(value, p.dtype) for p, value in zip(parameters, arguments, strict=True)]
    compiled(file, check).kernels[name].launch((across, parts, 1), (wide, deep, 1), values, order=order)


def _bytes(value, dtype):
    """What cuLaunchKernel would read."""
    if isinstance(value, Placed):
        return np.uint64(value.array.ctypes.data).tobytes()
    if value is None:
        return bytes(8)
    return value.tobytes() if dtype.names else dtype.type(value).tobytes()
