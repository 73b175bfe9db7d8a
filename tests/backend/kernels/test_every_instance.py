"""Every declared instance of every kernel: launched by its public function on CuPy arrays, compared with a reference.

On a GPU; elsewhere a few of them run emulated, so that this file is known to work. The references' own tests, with odd
sizes, special values and orders, run on emulated threads.
"""

import itertools
import math
import re
from collections import defaultdict
from types import SimpleNamespace

import formula_functors as functors
import kernel_references as references
import numpy as np
import pytest
from activation_cases import CASES, applied
from emulated import DTYPES, assert_close, assert_same, quarters
from list_kernels import FUNCTIONS, arguments, numbers_of
from updates import LISTED, NUMBERS, VARIANTS, drawn, in_list_order

import autograd_gpu as ag
from autograd_gpu import backend
from autograd_gpu.backend import kernels, to_numpy
from autograd_gpu.backend.kernels import loader
from autograd_gpu.backend.kernels.quantize import STRUCTS
from autograd_gpu.backend.kernels.recurrent import GATES, KERNELS
from autograd_gpu.backend.kernels.row_statistic import STATISTICS
from autograd_gpu.ops.foreach.arrays import on_cuda

functors.declare()
CLOSE = {"float64": 1e-12, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}
PAIR = [(6, 16), (5, 3)]  # read 16 bytes at a time, and by element
SHARED = [(1, 70000), (2, 70001)]  # the same of rows in several parts
TYPES = {c_name: dtype for dtype, c_name in kernels.C_NAMES.items()}


def group_of(name):
    """What is tested together: a file's instances of a dtype, of an activation and a dtype, or all of them."""
    file, words = kernels.INSTANCES[name].file, re.findall(r"\w+", name)
    if file in ("column_sum.cu", "row_sum.cu"):  # they are of two dtypes
        return file, "", ""
    c_type = next((word for word in words[1:] if word in TYPES), "")
    by_functor = file == "bias_activation.cu" or words[0].startswith("activation_jet")
    functor = words[1] if by_functor else ""
    return file, c_type, functor


GROUPS = defaultdict(set)
for instance in kernels.INSTANCES:
    GROUPS[group_of(instance)].add(instance)
PLAIN = (
    "cross_entropy.cu", "dropout.cu", "elementwise.cu", "group.cu", "group_sums.cu", "list_norm.cu", "recurrent.cu",
    "row_statistic.cu", "second_order.cu", "softmax.cu",
)  # fmt: skip
EMULATED = {(file, "float", "") for file in PLAIN}
EMULATED |= {(file, "float", "Silu") for file in ("bias_activation.cu", "second_order.cu")}


def parameters():
    return [
        pytest.param(group, id="-".join(filter(None, group)), marks=() if group in EMULATED else pytest.mark.gpu)
        for group in GROUPS
    ]


class Device:
    """Moves arrays there and results back."""

    def __init__(self):
        self.xp = backend.namespace_on(ag.device("cuda"))

    def __call__(self, *arrays):
        moved = [None if array is None else self.xp.asarray(array) for array in arrays]
        return moved[0] if len(moved) == 1 else moved


def near(actual, expected, dtype, scale=1.0):
    for array, reference in zip(actual, expected, strict=True):
        if array is None:
            assert not reference.any()  # the derivative of a slope that does not bend
        else:
            assert_close(to_numpy(array), reference, rtol=2 * CLOSE[str(dtype)], atol=4 * scale * CLOSE[str(dtype)])


def normal(dtype, *shape):
    return np.random.standard_normal(shape).astype(dtype)


def bias_activation(on, dtype, functor):
    for name, how in [case for case in CASES if applied(case).functor.name == functor]:
        f = applied((name, how))
        for shape in PAIR:
            x, g, gg = (normal(dtype, *shape) for _ in range(3))
            bias, ggb = normal(dtype, shape[1]), normal(dtype, shape[1])
            out = references.bias_activation(name, x, bias, **how)
            near([kernels.bias_activation(f, *on(x, bias))], [out], dtype)
            operands = (g, out, None) if f.functor.from_result else (g, x, bias)
            result = kernels.bias_activation_backward(f, *on(*operands))
            expected = references.bias_activation_backward(name, *operands, **how)
            near(result, expected, dtype, how.get("frequency", 1))
            result = kernels.bias_activation_double_backward(f, *on(gg, ggb, *operands))
            expected = references.bias_activation_double_backward(name, gg, ggb, *operands, **how)
            near(result, expected, dtype, how.get("frequency", 1) ** 2)


def column_sum(on, dtype, _):
    for source_dtype in DTYPES:
        for shape in [*PAIR, (4300, 1), (9000, 8)]:
            x = quarters(shape, source_dtype)
            assert_same(to_numpy(kernels.column_sum(on(x))), references.column_sum(x))


def elementwise(on, dtype, _):
    for name, how in functors.CASES + functors.WRITTEN:
        for shape in PAIR if name in functors.ALL_TYPES else PAIR[:1] if dtype.itemsize > 2 else ():
            x, g, h = abs(normal(dtype, *shape)) + dtype.type(0.25), normal(dtype, *shape), normal(dtype, *shape)
            out = references.elementwise(name, x, **how)
            near(kernels.elementwise(functors.value_of(name, **how), on(x)), [out], dtype)
            saved, scale = out if functors.from_result(name) else x, how.get("frequency", 1)
            gradient, gradients = functors.gradient_of(name, **how), functors.gradients_of(name, **how)
            if gradient is not None:
                expected = [references.elementwise_gradient(name, g, saved, **how)]
                near(kernels.elementwise(gradient, *on(g, saved)), expected, dtype, scale)
            if gradients is not None:  # the second one is covered by tests of derivatives
                near(kernels.elementwise(gradients, *on(g, h, saved))[:1], expected, dtype, scale)


def group(on, dtype, _):
    for shape in PAIR:
        arrays = [*(normal(dtype, *shape) for _ in range(2)), normal(dtype, shape[-1]), normal(dtype, shape[0], 1),
                  normal(dtype, 1)]
        results = kernels.group(functors.group()[0], [on(a) for a in arrays], [None] * 3, shape)
        near(results, references.group(*arrays), dtype)


def group_sums(on, dtype, _):
    kernel = SimpleNamespace(program=functors.group()[1], functor=functors.group()[0])
    for shape in PAIR:
        arrays = [*(normal(dtype, *shape) for _ in range(2)), normal(dtype, shape[-1]), normal(dtype, shape[0], 1),
                  normal(dtype, 1)]
        kernel.shape = shape
        expected = references.group(*[a.astype(kernels.wide(dtype)) for a in arrays])
        for along, axis in (("columns", 0), ("rows", 1), ("all", None)):
            for op, reduce in (("sum", np.sum), ("amax", np.max), ("amin", np.min)):
                sums = [np.asarray(reduce(r, axis)) for r in (expected[2], expected[1])]
                summing = kernels.SummingKernel(kernel, (0, 1), (2, 1), along, [s.shape for s in sums], op=op)
                results = summing(*[on(a) for a in arrays])
                near(results, [r.astype(dtype) for r in (*expected[:2], *sums)], dtype, 10)


def gather(on, _, functor):
    for dtype in ("int8", "float16", "float32", "float64"):
        x, index = np.arange(24).astype(dtype).reshape(2, 3, 4), np.random.randint(0, 3, (2, 5, 4))
        assert_same(to_numpy(kernels.gather(*on(x, index), -2)), references.gather(x, index, -2))


def row_statistic(on, dtype, _):
    for shape in PAIR:
        x = normal(dtype, *shape)
        for name in STATISTICS:
            near([kernels.row_statistic(name, on(x), shape[:1])], [references.row_statistic(name, x)], dtype)
        near(kernels.row_variance(on(x), 3.0, shape[:1], True, True), references.row_variance(x, 3.0, True), dtype)


def row_sum(on, dtype, _):
    for source_dtype in DTYPES:
        for shape in [*PAIR, (2, 40000), (1, 40001), (1, 70000), (3, 70001)]:
            x = quarters(shape, source_dtype)
            assert_same(to_numpy(kernels.row_sum(on(x))), references.row_sum(x))


def second_order(on, dtype, functor):
    for form in range(3):
        for d in (2, 3) if functor else (2, 5):
            for shape in PAIR:
                _streams(on, dtype, functor, form, d, shape)


def _streams(on, dtype, functor, form, d, shape):
    f1, f2, made = normal(dtype, *shape), normal(dtype, *shape), d + len(kernels.stream_groups(d, form))
    stream, g = (normal(dtype, shape[0], made, shape[1]) for _ in range(2))
    if not functor:
        result = kernels.chain_stream(*on(f1, f2, stream), d, form)
        near([result], [references.chain_stream(f1, f2, stream, d, form)], dtype, d)
        result = kernels.chain_stream_backward(*on(g, f1, f2, stream), d, form)
        near(result, references.chain_stream_backward(g, f1, f2, stream, d, form), dtype, 4 * d)
        t = stream[:, :d].copy()
        near([kernels.local_terms(*on(g, f1, t))], [references.local_terms(g, f1, t)], dtype, 20)
        return
    for name, how in [case for case in CASES if applied(case).functor.name == functor]:
        f = applied((name, how))
        saved = 1 / (2 + abs(f1)) if f.functor.from_result else f1 / dtype.type(how.get("frequency", 1))
        bias = None if f.functor.from_result else f2[0] / dtype.type(64)
        scale, operands = 8 * how.get("frequency", 1) ** 2, (saved.astype(dtype), bias, stream / dtype.type(64))
        result = kernels.activation_jet(f, *on(*operands), d, form)
        near([result], [references.activation_jet(name, *operands, d, form, **how)], dtype, scale)
        result = kernels.activation_jet_backward(f, *on(g / dtype.type(64), *operands), d, form)
        expected = references.activation_jet_backward(name, g / dtype.type(64), *operands, d, form, **how)
        near(result, expected, dtype, 4 * scale)


def softmax(on, dtype, _):
    for shape in PAIR + SHARED:
        x, g = normal(dtype, *shape), normal(dtype, *shape)
        for logarithm in (False, True):
            out = references.softmax(x, logarithm)
            near([kernels.softmax(on(x), logarithm=logarithm)], [out], dtype)
            result = kernels.softmax_backward(*on(g, out), logarithm=logarithm)
            near([result], [references.softmax_backward(g, out, logarithm)], dtype)


def cross_entropy(on, dtype, _):
    for shape, reduction in [(PAIR[0], "mean"), (PAIR[1], "sum"), ((600, 40), "mean"), ((1, 70000), "none")]:
        x, target = normal(dtype, *shape), np.random.randint(0, shape[1], shape[0])
        classes, there = kernels.Classes(target), kernels.Classes(on(target))
        loss, kept = kernels.cross_entropy(on(x), there, reduction)
        expected, known = references.cross_entropy(x, classes, reduction)
        near([loss], [expected], dtype)
        g = np.ones(expected.shape, dtype)
        result = kernels.cross_entropy_backward(on(g), on(x), there, kept)
        gradient = references.cross_entropy_backward(g, x, classes, known)
        near([result], [gradient], dtype)
        if kernels.suits_step(shape, dtype.itemsize, reduction):
            made = kernels.cross_entropy_step(on(x), on(np.zeros(shape[1], dtype)), there, on(g), reduction)
            near(made[:3], [expected, gradient, gradient.astype(kernels.wide(dtype)).sum(0).astype(dtype)], dtype)
        loss, factor = kernels.nll(on(x), there, reduction)
        expected, known = references.nll(x, classes, reduction)
        near([loss], [expected], dtype)
        result = kernels.nll_backward(on(g), there, shape[1], factor)
        near([result], [references.nll_backward(g, classes, shape[1], known)], dtype)


def layer_norm(on, dtype, _):
    for shape in [*PAIR, (3, 4104), (3, 4099), *SHARED]:  # the third and fourth are longer than a block holds
        x, g, weight, bias = (normal(dtype, *size) for size in (shape, shape, shape[1:], shape[1:]))
        there, slope, *vectors = on(x, g, weight, bias)
        result = kernels.layer_norm(there, *vectors)
        expected = references.layer_norm(x, weight, bias)
        near(result, expected, dtype)
        result = kernels.layer_norm_backward(slope, there, vectors[0], *result[1:])
        near(result, references.layer_norm_backward(g, x, weight, *expected[1:]), dtype)


def dropout(on, dtype, _):
    for shape, count, source_dtype in [((3, 32), 32, 1), ((7, 33), 231, 1), ((4, 6, 16), 12, 16), ((4, 6, 3), 12, 3)]:
        x, mask = quarters(shape, dtype), kernels.Mask(9, 2**40, 0.4, count, source_dtype)
        assert_same(to_numpy(kernels.dropout(on(x), mask, 1.25)), references.dropout(x, mask, 1.25))


def random(on, dtype, _):
    for name in kernels.DISTRIBUTIONS if dtype else ():
        result = kernels.random_numbers(name, (30, 41), dtype, 2**63, 2**33, 2.0, 0.5)
        near([result], [references.random_numbers(name, (30, 41), dtype, 2**63, 2**33, 2.0, 0.5)], dtype)
    if dtype == "float64":
        assert to_numpy(kernels.random_events(on(np.zeros(9)), 1, 2)).tolist() == [0.0] * 9
        assert to_numpy(kernels.random_gammas(on(np.zeros(9)), 1, 2)).tolist() == [0.0] * 9
        assert to_numpy(kernels.random_successes(on(np.full(9, 3.0)), on(np.ones(9)), 1, 2)).tolist() == [3.0] * 9
    if not dtype:
        mask = references.mask_bits(kernels.Mask(1, 2, 0.3, 99))
        assert to_numpy(kernels.random_bits((99,), 0.3, 1, 2)).tolist() == mask.tolist()
        result = kernels.random_integers((99,), -3, 5, 1, 2)
        expected = references.random_integers((99,), -3, 5, 1, 2)
        assert_same(to_numpy(result), expected)


def gamma_slope(on, _, functor):
    alpha, z = np.array([0.1, 1.0, 3.0, 30.0, 30.0, 200.0, 200.0]), np.array([0.2, 2.0, 1.0, 20.0, 60.0, 210.0, 400.0])
    for logs, number in ((False, z), (True, np.log(z))):
        result = kernels.gamma_slope(on(alpha), on(number), logs)
        assert_close(to_numpy(result), references.gamma_slope(alpha, number, logs), rtol=1e-11)


def lists(on, dtype, count):
    """Lists of arrays of positive numbers, and the numbers row by row."""
    rows = [[np.random.uniform(0.5, 2.0, size).astype(dtype) for _ in range(count)] for size in (40, 1, 1003)]
    return [[on(row[i]) for row in rows] for i in range(count)], rows


def foreach(on, dtype, _):
    for name, kinds in FUNCTIONS:
        (out, *operands), rows = lists(on, dtype, kinds.count("l") + 1)
        numbers = numbers_of(kinds, 0.75, 1.5)
        assert kernels.foreach(on_cuda(name), out, *arguments(kinds, operands, numbers))
        near(out, [references.foreach(name, *arguments(kinds, row[1:], numbers)) for row in rows], dtype)
    for label in LISTED:
        variant, numbers = VARIANTS[label], NUMBERS[VARIANTS[label].update.name][-1]
        rows = [drawn(variant, (size,), dtype) for size in (40, 1, 1003)]
        ordered = [in_list_order(variant, row) for row in rows]
        *written, g = [[on(array) for array in column] for column in zip(*ordered, strict=True)]
        kernels.over(kernels.update_of(variant.general), kernels.tensor_lists(written, [g]), numbers)
        for found, row in zip(zip(*written, strict=True), rows, strict=True):
            near(found, in_list_order(variant, references.updated(variant, row, numbers))[:-1], dtype)


def list_norm(on, dtype, _):
    (x,), rows = lists(on, dtype, 1)
    arrays = [row[0] for row in rows]
    for order in (1, 2, math.inf):
        total = to_numpy(kernels.list_norm(kernels.tensor_lists([], [x]), order))
        assert_close(total, references.list_norm(arrays, order), rtol=1e-5)
    kernels.limit_norm(kernels.tensor_lists([x]), on(np.asarray(4.0, kernels.wide(dtype))), 1.0)
    near(x, [references.limit_norm(array, 4.0, 1.0) for array in arrays], dtype)


def quantize(on, dtype, _):
    for shape in [*PAIR, (1, 70000), (1, 70001)]:
        x = normal(dtype, *shape)
        for target in STRUCTS:
            if target.itemsize < dtype.itemsize:
                codes, scale = kernels.quantize(on(x), target)
                expected, known = references.quantize(x, target)
                assert_same(to_numpy(codes), expected)
                back = kernels.dequantize(codes, scale, target, dtype)
                assert_same(to_numpy(back), references.dequantize(expected, known, target, dtype))


def recurrent(on, dtype, _):
    names = [(kernel, ()) for kernel in KERNELS if not kernel.startswith("rnn")]
    names += [(kernel, (name,)) for kernel in KERNELS if kernel.startswith("rnn") for name in ("relu", "tanh")]
    for (kernel, activation), (rows, units) in itertools.product(names, PAIR):
        gates = GATES[kernel.partition("_")[0]]
        reads, writes = [{name: gates.get(name, 1) * units for name in side} for side in KERNELS[kernel]]
        operands = [normal(dtype, *((cols,) if name == "bias" else (rows, cols))) for name, cols in reads.items()]
        outs = [on(np.zeros((rows, cols), dtype)) for cols in writes.values()]
        getattr(kernels, kernel)(*[functors.activation(name) for name in activation], *on(*operands), *outs)
        near(outs, getattr(references, kernel)(*activation, *operands), dtype, 4)


FAMILIES = [
    bias_activation, column_sum, cross_entropy, dropout, elementwise, foreach, gamma_slope, gather, group, group_sums,
    layer_norm, list_norm, quantize, random, recurrent, row_statistic, row_sum, second_order, softmax,
]  # fmt: skip
RUNS = {f"{family.__name__}.cu": family for family in FAMILIES}


@pytest.mark.cuda
@pytest.mark.parametrize("group", parameters())
def test_every_instance(group, monkeypatch):
    file, c_type, functor = group
    launched, load = set(), loader.load
    monkeypatch.setattr(loader, "load", lambda name, device: launched.add(name) or load(name, device))
    RUNS[file](Device(), TYPES.get(c_type), functor)
    assert GROUPS[group] <= launched, f"declared and not launched: {sorted(GROUPS[group] - launched)}"
