"""One instance of each file in kernels/: compiled, launched, and compared with its NumPy reference."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from autograd_gpu.backend import kernels
from autograd_gpu.backend.arrays.dtypes import float8_e4m3fn, float32
from autograd_gpu.backend.formulas import cuda_code
from autograd_gpu.backend.formulas.expression import element, maximum
from autograd_gpu.backend.formulas.lowering import lowered
from autograd_gpu.backend.optimizers.formulas import adam
from autograd_gpu.ops.foreach.arrays import on_cuda
from autograd_gpu.ops.nn.exponential_activations import mish
from autograd_gpu.ops.nn.gelu import gelu
from tests.support import kernel_references

from .table import Found, Lab, check, difference

ROWS, COLS = 6, 512
CLOSE = 2e-5  # relative to the largest number
Pairs = list[tuple[Any, np.ndarray]]  # found, expected


def bias_activation(lab: Lab, x: np.ndarray) -> Pairs:
    bias = x[0] / 2
    out = kernels.bias_activation(gelu.family.cuda.activation("none"), lab.cp.asarray(x), lab.cp.asarray(bias))
    return [(out, kernel_references.bias_activation("gelu", x, bias))]


def column_sum(lab: Lab, x: np.ndarray) -> Pairs:
    return [(kernels.column_sum(lab.cp.asarray(x)), kernel_references.column_sum(x))]


def row_sum(lab: Lab, x: np.ndarray) -> Pairs:
    return [(kernels.row_sum(lab.cp.asarray(x)), kernel_references.row_sum(x))]


def softmax(lab: Lab, x: np.ndarray) -> Pairs:
    return [(kernels.softmax(lab.cp.asarray(x)), kernel_references.softmax(x, False))]


def cross_entropy(lab: Lab, x: np.ndarray) -> Pairs:
    target = np.arange(ROWS) * 7 % COLS
    there = kernels.Classes(lab.cp.asarray(target))
    loss, _ = kernels.cross_entropy(lab.cp.asarray(x), there, "mean")
    expected, kept = kernel_references.cross_entropy(x, kernels.Classes(target), "mean")
    one, zeros = lab.cp.ones((), "float32"), lab.cp.zeros((COLS,), "float32")
    step = kernels.cross_entropy_step(lab.cp.asarray(x), zeros, there, one, "mean")
    dx = kernel_references.cross_entropy_backward(np.ones((), np.float32), x, kernels.Classes(target), kept)
    return [(loss, expected), (step.loss, expected), (step.dx, dx), (step.sums, dx.sum(0))]


def layer_norm(lab: Lab, x: np.ndarray) -> Pairs:
    weight, bias = x[1], x[2]
    outs = kernels.layer_norm(*[lab.cp.asarray(array) for array in (x, weight, bias)])
    return list(zip(outs, kernel_references.layer_norm(x, weight, bias), strict=True))


def dropout(lab: Lab, x: np.ndarray) -> Pairs:
    mask = kernels.Mask(9, 2**40, 0.4, x.size, 1)
    return [(kernels.dropout(lab.cp.asarray(x), mask, 1.25), kernel_references.dropout(x, mask, 1.25))]


def random(lab: Lab, x: np.ndarray) -> Pairs:
    numbers = ("Normal", x.shape, float32, 2**63, 2**33, 2.0, 0.5)
    return [(kernels.random_numbers(*numbers), kernel_references.random_numbers(*numbers))]


def _step(lab: Lab, x: np.ndarray) -> Pairs:
    """The step of an optimizer, which foreach.cu runs as well."""
    numbers = {"sign": 1.0, "decay": 0.1, "keep": 0.9, "beta1": 0.8, "beta2": 0.95, "rate": 0.02, "eps": 1e-3}
    variant, arrays = adam.on("p", "g", "exp_avg", "exp_avg_sq"), [np.abs(x[row]) + 0.5 for row in range(4)]
    p, g, m, v = [[lab.cp.asarray(array)] for array in arrays]
    kernels.over(kernels.update_of(variant.general), kernels.tensor_lists([p, m, v], [g]), numbers)
    expected, _, *states = kernel_references.updated(variant, arrays, numbers)
    return [(tensors[0], result) for tensors, result in zip((p, m, v), (expected, *states), strict=True)]


def foreach(lab: Lab, x: np.ndarray) -> Pairs:
    lists = [[lab.cp.asarray(row) for row in x[rows]] for rows in (slice(0, 2), slice(2, 4), slice(4, 6))]
    if not kernels.foreach(on_cuda("add"), *lists, 1.0):
        raise AssertionError("foreach took no list")
    sums = [(lists[0][row], kernel_references.foreach("add", x[2 + row], x[4 + row], 1.0)) for row in range(2)]
    return [*sums, *_step(lab, x)]


def gamma_slope(lab: Lab, x: np.ndarray) -> Pairs:
    alpha, z = np.abs(x) * 9 + 0.1, np.abs(x[::-1]) * 9 + 0.1
    out = kernels.gamma_slope(*[lab.cp.asarray(np.ascontiguousarray(array)) for array in (alpha, z)])
    return [(out, kernel_references.gamma_slope(alpha, z))]


def gather(lab: Lab, x: np.ndarray) -> Pairs:
    index = np.argsort(x, -1)
    return [(kernels.gather(lab.cp.asarray(x), lab.cp.asarray(index), -1), kernel_references.gather(x, index, -1))]


def list_norm(lab: Lab, x: np.ndarray) -> Pairs:
    total = kernels.list_norm(kernels.tensor_lists([], [[lab.cp.asarray(row) for row in x]]), 2)
    return [(total, kernel_references.list_norm(list(x), 2))]


def group(lab: Lab, x: np.ndarray) -> Pairs:
    a, b = element("a"), element("b")
    program = lowered([a * b + 0.5, maximum(a - b, 0)], ["a", "b"], double=True)
    y = np.ascontiguousarray(x[::-1])
    outs = kernels.group(cuda_code.group(program, 0, 0), [lab.cp.asarray(x), lab.cp.asarray(y)], [None, None], x.shape)
    return list(zip(outs, (x * y + np.float32(0.5), np.maximum(x - y, 0)), strict=True))


def group_sums(lab: Lab, x: np.ndarray) -> Pairs:
    a, b = element("a"), element("b")
    program = lowered([a * b + 0.5, maximum(a - b, 0)], ["a", "b"], double=True)
    y, kernel = np.ascontiguousarray(x[::-1]), kernels.GroupKernel(program, 0, 0, x.shape)
    first, second = x * y + np.float32(0.5), np.maximum(x - y, 0)
    pairs: Pairs = []
    for along, axis in (("columns", 0), ("rows", 1), ("all", None)):
        sums = np.asarray(second.sum(axis))
        summing = kernels.SummingKernel(kernel, (0,), (1,), along, [sums.shape])
        pairs += zip(summing(lab.cp.asarray(x), lab.cp.asarray(y)), (first, sums), strict=True)
    return pairs


def elementwise(lab: Lab, x: np.ndarray) -> Pairs:
    g, there = np.ascontiguousarray(x[::-1]), lab.cp.asarray(x)
    (out,), (dx,) = [kernels.elementwise(mish.family.cuda.applied(order), *arrays)
                     for order, arrays in ((0, (there,)), (1, (lab.cp.asarray(g), there)))]
    expected = kernel_references.elementwise_gradient("mish", g, x)
    return [(out, kernel_references.elementwise("mish", x)), (dx, expected)]


def quantize(lab: Lab, x: np.ndarray) -> Pairs:
    codes, scale = kernels.quantize(lab.cp.asarray(x), float8_e4m3fn)
    expected, known = kernel_references.quantize(x, float8_e4m3fn)
    if (codes.get() != expected).any():
        raise AssertionError("the codes are not those of the reference")
    back = kernels.dequantize(codes, scale, float8_e4m3fn, float32)
    return [(scale, known), (back, kernel_references.dequantize(expected, known, float8_e4m3fn, float32))]


def recurrent(lab: Lab, x: np.ndarray) -> Pairs:
    before = np.ascontiguousarray(x[:, : COLS // 4])
    outs = [lab.cp.empty(shape, np.float32) for shape in (x.shape, before.shape, before.shape)]
    kernels.lstm_step(*[lab.cp.asarray(array) for array in (x, 0.5 * x, before)], *outs)
    return list(zip(outs, kernel_references.lstm_step(x, 0.5 * x, before), strict=True))


def row_statistic(lab: Lab, x: np.ndarray) -> Pairs:
    there = lab.cp.asarray(x)
    outs = kernels.row_variance(there, COLS - 1, (ROWS,), with_mean=True)
    return [(kernels.row_statistic("norm", there, (ROWS,)), kernel_references.row_statistic("norm", x)),
            *zip(outs, kernel_references.row_variance(x, COLS - 1), strict=True)]


def second_order(lab: Lab, x: np.ndarray) -> Pairs:
    f1, f2, stream = x[:2], x[2:4], np.stack([x[:5], x[1:6]])  # two tangents, three second tangents
    form = kernels.stream_form(2, (((0, 0),), ((0, 1),), ((1, 1),)))
    out = kernels.chain_stream(*[lab.cp.asarray(array) for array in (f1, f2, stream)], 2, form)
    return [(out, kernel_references.chain_stream(f1, f2, stream, 2, form))]


FILES = {
    f"{run.__name__}.cu": run
    for run in (bias_activation, column_sum, cross_entropy, dropout, elementwise, foreach, gamma_slope, gather,
                group, group_sums, layer_norm, list_norm, quantize, random, recurrent, row_statistic, row_sum,
                second_order, softmax)
}  # fmt: skip


def put(file: str, run: Callable[[Lab, np.ndarray], Pairs]) -> None:
    """A check for one file."""

    @check(f"kernel {file}", 5)
    def launched(lab: Lab) -> Found:
        x = (lab.random.integers(-400, 400, (ROWS, COLS)) / 256).astype(np.float32)
        begin = time.perf_counter()
        run(lab, x)
        lab.wait()
        first = time.perf_counter()
        pairs = run(lab, x)
        lab.wait()
        again = time.perf_counter()
        error = max(difference(out, expected) for out, expected in pairs)
        return {"ok": error <= CLOSE, "relative_error": error, "first_s": round(first - begin, 3),
                "again_s": round(again - first, 4)}  # fmt: skip


for _file, _run in FILES.items():
    put(_file, _run)
