"""docs/kernels.md says what a kernel reads and writes per element; the emulator counts what it does."""

import re

import emulated
import formula_functors
import numpy as np
import pytest
from checkout import ROOT
from emulated import Placed
from selection import where

from autograd_gpu.backend import kernels

pytestmark = pytest.mark.cpu
formula_functors.declare()
TEXT = (ROOT / "docs" / "kernels.md").read_text()
SECTION = TEXT.partition("## Bytes per element")[2].partition("## ")[0]
ROWS = re.findall(r"^\| `(\w+)`( of [^|]*)? \| ([^|]*)\| ([^|]*)\|(.*)\|$", SECTION, re.MULTILINE)
NAMED = {row[0] for row in ROWS}
COLS = 64
ALONG = (  # threads walk along rows
    "row_statistic", "row_sum", "row_variance", "softmax", "softmax_backward", "cross_entropy",
    "cross_entropy_backward", "channel_dropout",
)  # fmt: skip
ARRAYS = {"second", "third", "other"}  # of elementwise
ZEROS = dict.fromkeys(("by_result", "smoothing", "reduction"), 0)


def documented(name):
    """What the page says of an instance: the arrays that it reads and writes, and bytes per element by dtype."""
    kernel, functor = name.partition("<")[0], kernels.INSTANCES[name].functor
    rows = [row for row in ROWS if row[0] == kernel]
    if kernel == "elementwise":
        rows = [rows[functor.inputs - 1]]
    elif len(rows) > 1:
        rows = [row for row in rows if bool(row[1]) == functor.flat]
    (row,) = rows
    reads, writes = [re.findall(r"\w+", cell) for cell in row[2:4]]
    float32, half, float64 = [int(cell) for cell in row[4].split("|")[:3]]
    return reads, writes, {"float32": float32, "float16": half, "bfloat16": half, "float64": float64}


def argument(parameter, shape, matrices, in_turns):
    """A matrix, a vector that is long enough for rows and columns, or a number."""
    if parameter.kind == "struct":
        return np.ones(1, parameter.dtype)
    if parameter.kind == "scalar":
        return {"rows": shape[0], "cols": shape[1], **ZEROS}.get(parameter.name, 1)
    if parameter.name == "partials":  # of a grid of 8 parts, for two vectors
        return Placed(np.ones((8, 2 * shape[1]), parameter.dtype)) if in_turns else None
    if parameter.name == "found" or (parameter.optional and parameter.name in ARRAYS - set(matrices)):
        return None  # a row is in one part; a functor has fewer arrays
    return Placed(np.ones(shape if parameter.name in matrices else max(shape), parameter.dtype))


def traffic(name, times):
    """Bytes that an instance reads and writes of a matrix, `times` as long where its threads walk."""
    file, kernel, parameters, *_ = kernels.INSTANCES[name]
    along, wide = kernel in ALONG, not name.endswith(" 1>")
    shape = (64, COLS * times) if along else (64 * times, COLS)
    reads, writes, _ = documented(name)
    width = kernels.VECTOR // parameters[0].dtype.itemsize if wide else 1
    in_turns = kernel in ("layer_norm", "layer_norm_backward")
    launch = ((8, 1), (32, 8)) if in_turns else ((16, 1), (64, 4)) if along else ((COLS // (width * 8), 1), (8, 32))
    arguments = [argument(p, shape, (*reads, *writes), in_turns) for p in parameters]
    emulated.launch(name, launch, *arguments, check="races")
    return np.array(emulated.compiled(file, "races").kernels[name].traffic())


def per_row(name, kind):
    """Bytes of the statistics of 128 rows: one thread writes them, and every thread reads them that takes a strip."""
    _, kernel, parameters, *_ = kernels.INSTANCES[name]
    sizes = [p.dtype.itemsize for p in parameters if p.name in ("mean", "rstd") and p.kind == kind]
    width = 1 if name.endswith(" 1>") else kernels.VECTOR // parameters[0].dtype.itemsize
    readers = 32 if kernel == "layer_norm_backward" else COLS // width
    return 128 * sum(sizes) * (readers if kind == "read" else 1)


def dtype_of(name):
    return kernels.INSTANCES[name].parameters[0].dtype


MEASURED = [name for name, instance in kernels.INSTANCES.items() if instance.kernel in NAMED]


@pytest.mark.parametrize("name", where(lambda name: dtype_of(name) == "float32", MEASURED))
def test_every_array_is_moved_once(name):
    """The difference of two launches of one grid leaves out what a thread reads once: the bias, the arguments."""
    dtype, elements = dtype_of(name), 2 * 64 * COLS
    read, written = traffic(name, 3) - traffic(name, 1)
    reads, writes, per_element = documented(name)
    read, written = read - per_row(name, "read"), written - per_row(name, "write")
    assert read == len(reads) * dtype.itemsize * elements
    assert written == len(writes) * dtype.itemsize * elements
    assert read + written == per_element[str(dtype)] * elements


BEYOND = re.findall(r"^\| `(\w+)`, beyond \d+ KiB \|([ \d.|]*)\|$", SECTION, re.MULTILINE)
LONGER = {kernel: [float(cell) for cell in cells.split("|")] for kernel, cells in BEYOND}


@pytest.mark.parametrize("kernel", LONGER)
def test_longer_rows(kernel):
    """The difference of one row and one twice as long, of which a block holds the same number of elements."""
    name = f"{kernel}<float, 4>"
    file, _, parameters, *_ = kernels.INSTANCES[name]
    reads, writes, _ = documented(name)

    def moved(cols):
        arguments = [None if p.optional else argument(p, (1, cols), (*reads, *writes), False) for p in parameters]
        emulated.launch(name, ((1, 1), (kernels.THREADS, 1)), *arguments, check="races")
        return sum(emulated.compiled(file, "races").kernels[name].traffic())

    counted, least, ratio = LONGER[kernel]
    assert moved(1 << 15) - moved(1 << 14) == counted * (1 << 14)
    assert least == documented(name)[2]["float32"]
    assert round(counted / least, 2) == ratio


SHARED = re.findall(r"^\| `(\w+)`, in parts(, of a logarithm)? \|([ \d.|]*)\|$", SECTION, re.MULTILINE)


@pytest.mark.parametrize(("kernel", "logarithm", "cells"), SHARED, ids=[kernel + of for kernel, of, _ in SHARED])
def test_rows_in_parts(kernel, logarithm, cells):
    """Both launches, of one row and one twice as long; what the parts have found is the same length."""
    result = Placed(np.ones((1, 4, 3), np.float32))

    def moved(cols):
        total = 0
        for kernel_name in (f"{kernel}_parts", kernel):
            name = f"{kernel_name}<float, 4>"
            file, _, parameters, *_ = kernels.INSTANCES[name]
            numbers = {"rows": 1, "cols": cols, "logarithm": bool(logarithm), "centered": 1, "safe": 0, "eps": 0}
            arrays = {p.name: Placed(np.ones((1, cols), p.dtype)) for p in parameters if p.kind != "scalar"}
            absent = {"weight", "bias", "dweight", "dbias", "partials"}
            absent |= {"out"} if logarithm and kernel_name != kernel else set()
            by_name = {**arrays, **dict.fromkeys(absent), "found": result, **numbers}
            emulated.launch(name, ((1, 4), (kernels.THREADS, 1)), *[by_name[p.name] for p in parameters], check="races")
            total += sum(emulated.compiled(file, "races").kernels[name].traffic())
        return total

    counted, least, ratio = [float(cell) for cell in cells.split("|")]
    assert moved(1 << 16) - moved(1 << 15) == counted * (1 << 15)
    assert least == documented(f"{kernel}<float, 4>")[2]["float32"]
    assert round(counted / least, 2) == ratio


def test_every_kernel_that_shares_rows_is_counted():
    first = {i.kernel.removesuffix("_parts") for i in kernels.INSTANCES.values() if i.kernel.endswith("_parts")}
    assert {kernel for kernel, _, _ in SHARED} == first


DRAWN = re.findall(r"^\|[^|]*\| `(random_\w+)` \|[^|]*\| ([^|]*) \|$", TEXT, re.MULTILINE)
RANDOM = {kernel: set(map(int, re.findall(r"\d+", cell))) for kernel, cell in DRAWN}


def per_number(name):
    """Bytes that an instance moves for each random number, from two lengths on one grid."""
    file, _, parameters, *_ = kernels.INSTANCES[name]

    def moved(length):
        arrays = [Placed(np.ones(length, p.dtype)) if p.kind != "scalar" else 1 for p in parameters[:-1]]
        emulated.launch(name, ((4, 1), (256, 1)), *arrays, length, check="races")
        return sum(emulated.compiled(file, "races").kernels[name].traffic())

    return (moved(768) - moved(256)) / 512


@pytest.mark.parametrize("kernel", sorted({i.kernel for i in kernels.INSTANCES.values() if i.file == "random.cu"}))
def test_random_numbers_are_moved_once(kernel):
    instances = [name for name, instance in kernels.INSTANCES.items() if instance.kernel == kernel]
    assert {per_number(name) for name in instances} == RANDOM[kernel]


def test_page_names_every_kernel():
    assert {instance.kernel for instance in kernels.INSTANCES.values()} <= set(re.findall(r"`(\w+)`", TEXT))


def test_the_columns_agree_with_each_other():
    """What a kernel moves is counted above; what separate launches would move is an estimate, and so the page says."""
    for _, _, reads, _, numbers in ROWS:
        float32, _, _, least, ratio, separate = [float(cell) for cell in numbers.split("|")]
        assert float32 == ratio * least <= separate
        assert ratio == 1 or reads.strip() == "x, x"
