"""docs/kernels.md says what the kernels over lists read and write per element; the emulator counts what they do."""

import re

import emulated
import formula_functors
import numpy as np
import pytest
from checkout import ROOT
from emulated import Placed, unset
from list_kernels import Lists
from selection import first, where

from autograd_gpu.backend import kernels

pytestmark = pytest.mark.cpu
TEXT = (ROOT / "docs" / "kernels.md").read_text()
SECTION = TEXT.partition("## Lists of arrays")[2].partition("## ")[0]
ROWS = {
    (kernel, variant.strip()): (reads, writes, [float(cell) for cell in numbers.split("|")])
    for kernel, variant, reads, writes, numbers in re.findall(
        r"^\| `(\w+)`( (?:with|of) [^|]+)? \| ([^|]*)\| ([^|]*)\|(.*)\|$", SECTION, re.MULTILINE
    )
}
formula_functors.declare()
OVER_LISTS = [name for name, instance in kernels.INSTANCES.items()
              if instance.parameters[0].kind == "struct" and not instance.file.startswith("group")]  # test_group.py


def variant_of(functor):
    if functor is None:
        return ""
    if functor.name.split("_")[0].endswith("Step"):
        states = ("without state", "with one state", "with two states", "with three states")[functor.outputs - 1]
        return f"of a step {states}"
    return ("of one list", "of two lists", "of three lists")[functor.inputs - 1]


def documented(name):
    """The arrays that an instance reads and writes, and bytes per element by dtype."""
    _, kernel, _, _, functor = kernels.INSTANCES[name]
    reads, writes, numbers = ROWS[kernel, variant_of(functor)]
    float32, half, float64 = numbers[:3]
    by_dtype = {"float32": float32, "float16": half, "bfloat16": half, "float64": float64}
    return re.findall(r"\w+", reads), re.findall(r"\w+", writes), by_dtype


def dtype_of(name):
    (results,) = [dtype for dtype, c_name in kernels.C_NAMES.items() if re.search(rf"\b{c_name}\b", name)]
    return results


def traffic(name, size, offset):
    """Bytes read and written with arrays of `size` elements, one block's work."""
    file, _, parameters, *_ = kernels.INSTANCES[name]
    reads, writes, _ = documented(name)
    dtype = dtype_of(name)
    lists = Lists([[np.ones(size, dtype)] for _ in {*reads, *writes}], [offset])
    values = {"partials": unset((1,), kernels.wide(dtype)), "norm": Placed(np.full(1, 9, kernels.wide(dtype)))}
    values |= {p.name: np.zeros(1, p.dtype) for p in parameters[1:] if p.kind == "struct"}
    others = [None if parameter.optional else values.get(parameter.name, 0.5) for parameter in parameters[1:]]
    lists.launch(name, *others, check="races")
    return np.array(emulated.compiled(file, "races").kernels[name].traffic())


@pytest.mark.parametrize("offset", first([0, 1]))
@pytest.mark.parametrize("name", where(lambda name: dtype_of(name) == "float32", OVER_LISTS))
def test_every_array_is_moved_once(name, offset):
    """The difference of two launches leaves out the addresses, which every thread reads."""
    reads, writes, per_element = documented(name)
    dtype, more = dtype_of(name), 1024
    read, written = traffic(name, 512 + more, offset) - traffic(name, 512, offset)
    assert read == len(reads) * dtype.itemsize * more
    assert written == len(writes) * dtype.itemsize * more
    assert read + written == per_element[str(dtype)] * more


def test_page_lists_every_kernel():
    assert {kernel for kernel, _ in ROWS} == {kernels.INSTANCES[name].kernel for name in OVER_LISTS}
    for _, _, (float32, _, _, least, ratio, separate) in ROWS.values():
        assert float32 == ratio * least <= separate
        assert ratio == 1


def test_no_element_is_moved_where_nothing_has_to_be_scaled():
    seen = []
    for size in (100, 1000):
        lists = Lists([[np.ones(size, "float32")]])
        lists.launch("limit_norm<float>", Placed(np.ones(1, "float32")), 2.0, check="races")
        seen.append(emulated.compiled("list_norm.cu", "races").kernels["limit_norm<float>"].traffic())
    assert seen[0] == seen[1]
