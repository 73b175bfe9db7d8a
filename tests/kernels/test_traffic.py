"""docs/kernels.md says what a kernel reads and writes per element; the emulator counts what it does."""

import re

import emulated
import numpy as np
import pytest
from emulated import ROOT, Placed

from autograd_gpu.backend import kernels
from autograd_gpu.backend.kernels.activations import ACTIVATIONS

pytestmark = pytest.mark.cpu
TEXT = (ROOT / "docs" / "kernels.md").read_text()
SECTION = TEXT.partition("## Bytes per element")[2].partition("## ")[0]
ROWS = re.findall(r"^\| `(\w+)`( of [^|]*)? \| ([^|]*)\| ([^|]*)\|(.*)\|$", SECTION, re.MULTILINE)
NAMED = {row[0] for row in ROWS}
FLAT = [name for name, activation in ACTIVATIONS.items() if activation.bend is None]
COLS = 64
ALONG = ("row_sum", "channel_dropout")


def documented(name):
    """What the page says of an instance: the arrays that it reads and writes, and bytes per element by dtype."""
    kernel, functor = name.partition("<")[0], re.split("[<,]", name)[1]
    flat = kernel.endswith("double_backward") and functor in FLAT
    (row,) = [row for row in ROWS if row[0] == kernel and bool(row[1]) == flat]
    reads, writes = [re.findall(r"\w+", cell) for cell in row[2:4]]
    float32, half, float64 = [int(cell) for cell in row[4].split("|")[:3]]
    return reads, writes, {"float32": float32, "float16": half, "bfloat16": half, "float64": float64}


def argument(parameter, shape, matrices):
    """A matrix, a vector that is long enough for rows and columns, or a number."""
    if parameter.kind == "scalar":
        return {"rows": shape[0], "cols": shape[1], "by_result": 0}.get(parameter.name, 1)
    if parameter.name == "partials":
        return None
    return Placed(np.ones(shape if parameter.name in matrices else max(shape), parameter.dtype))


def traffic(name, times):
    """Bytes that an instance reads and writes of a matrix whose columns, or rows if it goes along those, are `times` as
    long."""
    file, kernel, parameters, _ = kernels.INSTANCES[name]
    along, wide = kernel in ALONG, not name.endswith(" 1>")
    shape = (64, COLS * times) if along else (64 * times, COLS)
    reads, writes, _ = documented(name)
    width = kernels.VECTOR // parameters[0].dtype.itemsize if wide else 1
    launch = ((8, 1), (32, 8)) if along else ((COLS // (width * 8), 1), (8, 32))
    emulated.launch(name, launch, *(argument(p, shape, (*reads, *writes)) for p in parameters), check="races")
    return np.array(emulated.compiled(file, "races").kernels[name].traffic())


@pytest.mark.parametrize("name", [name for name in kernels.INSTANCES if kernels.INSTANCES[name].kernel in NAMED])
def test_every_array_is_moved_once(name):
    """The difference of two launches of one grid leaves out what a thread reads once: the bias, the arguments."""
    dtype, elements = kernels.INSTANCES[name].parameters[0].dtype, 2 * 64 * COLS
    read, written = traffic(name, 3) - traffic(name, 1)
    reads, writes, per_element = documented(name)
    assert read == len(reads) * dtype.itemsize * elements
    assert written == len(writes) * dtype.itemsize * elements
    assert read + written == per_element[str(dtype)] * elements


def test_page_names_every_kernel():
    assert {instance.kernel for instance in kernels.INSTANCES.values()} <= set(re.findall(r"`(\w+)`", TEXT))


def test_kernels_move_no_more_than_the_least():
    for *_, numbers in ROWS:
        float32, _, _, least, separate = [int(cell) for cell in numbers.split("|")]
        assert float32 == least <= separate
