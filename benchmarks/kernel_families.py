"""What `benchmarks.kernels` measures of our CUDA kernels: for each, a call on arguments of a given size.

A new family is one entry of FAMILIES, under the name that docs/kernels.md has for it: a function that makes the
arguments and answers a Work, the call and the arrays that it has to move. Results that the kernel can write into memory
that it is given are such arguments.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from autograd_gpu.backend import kernels
from autograd_gpu.backend.arrays.dtypes import bool_, float8_e4m3fn, float16, float32, float64, int64
from autograd_gpu.backend.formulas.update import Update
from autograd_gpu.backend.optimizers import formulas
from autograd_gpu.backend.quantization.formats import FORMATS
from autograd_gpu.ops.foreach.arrays import on_cuda
from autograd_gpu.ops.nn.exponential_activations import mish
from autograd_gpu.ops.nn.linear_activation import ACTIVATIONS

COLS, PIECES = 1024, 16  # of matrices; of lists that hold one
FEW = 4  # rows, which hold as much


class Work(NamedTuple):
    """A call, and the matrices that any program must read or write for it, each once."""

    call: Callable[[], Any]
    moved: Sequence[Any]

    @property
    def bytes(self) -> int:
        return sum(array.nbytes for array in self.moved)


class Make:
    """Arguments for one call: `xp` is CuPy, or NumPy if they are only looked at."""

    def __init__(self, xp: Any, dtype: np.dtype, nbytes: int) -> None:
        self.xp, self.dtype = xp, dtype
        self.rows, self.cols = max(nbytes // (COLS * dtype.itemsize), 1), COLS

    def of_few_rows(self) -> Make:
        """The same with matrices of as many numbers in rows that are long and few."""
        other = copy.copy(self)
        other.rows, other.cols = FEW, self.rows * self.cols // FEW
        return other

    def matrix(self, dtype: np.dtype | None = None) -> Any:
        """Numbers between -2 and 2, `nbytes` of them in the dtype that is measured."""
        return self._numbers((self.rows, self.cols), dtype)

    def row(self, dtype: np.dtype | None = None) -> Any:
        """A vector along the columns, such as a bias."""
        return self._numbers((self.cols,), dtype)

    def column(self, dtype: np.dtype | None = None) -> Any:
        """A number for each row."""
        return self._numbers((self.rows,), dtype)

    def pieces(self, matrix: Any) -> list[Any]:
        """A list of arrays that a matrix consists of."""
        rows = -(-self.rows // PIECES)
        return [matrix[at : at + rows] for at in range(0, self.rows, rows)]

    def codes(self, dtype: np.dtype) -> Any:
        """A matrix of bit patterns."""
        return (self.xp.arange(self.rows * self.cols, dtype=np.int32) % 251).astype(dtype).reshape(-1, self.cols)

    def number(self, dtype: np.dtype | None = None) -> Any:
        """An array without dimensions."""
        return self._numbers((), dtype)

    def _numbers(self, shape: tuple[int, ...], dtype: np.dtype | None) -> Any:
        numbers = (self.xp.arange(math.prod(shape), dtype=np.int32) % 1021).astype(np.float32)
        return (numbers / 255 - 2).astype(dtype or self.dtype).reshape(shape)


def activation(name: str) -> kernels.Applied:
    """The CUDA code of an activation with its default parameters."""
    family = ACTIVATIONS[name]
    return family.cuda.activation(*family.attributes.values())


def _forward(name: str) -> Callable[[Make], Work]:
    def family(make: Make) -> Work:
        x, bias, out = make.matrix(), make.row(), make.matrix()
        return Work(lambda: kernels.bias_activation(activation(name), x, bias, out), (x, out))

    return family


def _backward(name: str) -> Callable[[Make], Work]:
    def family(make: Make) -> Work:
        g, saved, bias, dx = make.matrix(), make.matrix(), make.row(), make.matrix()
        return Work(lambda: kernels.bias_activation_backward(activation(name), g, saved, bias, dx), (g, saved, dx))

    return family


def _double_backward(name: str, has_second: bool) -> Callable[[Make], Work]:
    def family(make: Make) -> Work:
        gg, g, saved, bias, ggb = make.matrix(), make.matrix(), make.matrix(), make.row(), make.row()
        moved = (gg, g, saved, gg, g) if has_second else (gg, saved, gg)  # the results have the shapes of gg and g
        f = activation(name)
        return Work(lambda: kernels.bias_activation_double_backward(f, gg, ggb, g, saved, bias), moved)

    return family


def _column_sum(make: Make) -> Work:
    x, out = make.matrix(), make.row()
    return Work(lambda: kernels.column_sum(x, out), (x,))


def _elementwise(order: int, gradients: bool = False) -> Callable[[Make], Work]:
    """mish or its derivative, or the gradients of that."""

    def family(make: Make) -> Work:
        f = mish.family.cuda.applied(order, gradients=gradients)
        arrays = [make.matrix() for _ in range(f.functor.inputs)]
        outs = tuple([make.matrix() for _ in range(f.functor.outputs)])
        return Work(lambda: kernels.elementwise(f, *arrays, outs=outs), (*arrays, *outs))

    return family


def _row_sum(make: Make) -> Work:
    x, out = make.matrix(), make.column()
    return Work(lambda: kernels.row_sum(x, out), (x,))


def _row_statistic(make: Make) -> Work:
    x = make.matrix()
    return Work(lambda: kernels.row_statistic("norm", x, x.shape[:1]), (x,))


def _row_variance(make: Make) -> Work:
    x = make.matrix()
    return Work(lambda: kernels.row_variance(x, make.cols - 1, x.shape[:1]), (x,))


def _softmax(make: Make) -> Work:
    x, out = make.matrix(), make.matrix()
    return Work(lambda: kernels.softmax(x, out), (x, out))


def _softmax_backward(make: Make) -> Work:
    g, out, dx = make.matrix(), make.matrix(), make.matrix()
    return Work(lambda: kernels.softmax_backward(g, out, dx), (g, out, dx))


def _classes(make: Make) -> kernels.Classes:
    return kernels.Classes((make.column(np.float32) * make.cols / 4).astype(np.int64) % make.cols)


def _cross_entropy(make: Make) -> Work:
    x, classes = make.matrix(), _classes(make)
    return Work(lambda: kernels.cross_entropy(x, classes), (x,))


def _cross_entropy_backward(make: Make) -> Work:
    x, dx, classes, dtype = make.matrix(), make.matrix(), _classes(make), kernels.wide(make.dtype)
    kept = kernels.CrossEntropySaved(*[make.column(dtype) for _ in range(3)], make.number(dtype))
    g = make.number()
    return Work(lambda: kernels.cross_entropy_backward(g, x, classes, kept, dx), (x, dx))


def _layer_norm(make: Make) -> Work:
    x, weight, bias = make.matrix(), make.row(), make.row()
    return Work(lambda: kernels.layer_norm(x, weight, bias), (x, x))  # the result has the shape of x


def _layer_norm_backward(make: Make, need: Sequence[bool] = (True, True, True)) -> Work:
    g, x, weight, dtype = make.matrix(), make.matrix(), make.row(), kernels.wide(make.dtype)
    mean, rstd = make.column(dtype).reshape(-1, 1), make.column(dtype).reshape(-1, 1)
    return Work(lambda: kernels.layer_norm_backward(g, x, weight, mean, rstd, need), (g, x, x) if need[0] else (g, x))


def _of_few_rows(family: Callable[[Make], Work]) -> Callable[[Make], Work]:
    return lambda make: family(make.of_few_rows())


def _layer_norm_input(make: Make) -> Work:
    return _layer_norm_backward(make, (True, False, False))


def _layer_norm_parameters(make: Make) -> Work:
    return _layer_norm_backward(make, (False, True, True))


def _dropout(make: Make, per_bit: int = 1) -> Work:
    x, out = make.matrix(), make.matrix()
    mask = kernels.Mask(seed=1, start=0, keep=0.5, count=x.size // per_bit, per_bit=per_bit)
    return Work(lambda: kernels.dropout(x, mask, 2.0, out=out), (x, out))


def _channel_dropout(make: Make) -> Work:
    return _dropout(make, make.cols)


def _random_numbers(distribution: str) -> Callable[[Make], Work]:
    def family(make: Make) -> Work:
        out = make.matrix()
        return Work(lambda: kernels.random_numbers(distribution, out.shape, make.dtype, 1, 0), (out,))

    return family


def _random_bits(make: Make) -> Work:
    out = make.matrix()
    return Work(lambda: kernels.random_bits(out.shape, 0.5, 1, 0), (out,))


def _random_integers(make: Make) -> Work:
    out = make.matrix()
    return Work(lambda: kernels.random_integers(out.shape, 0, 1000, 1, 0), (out,))


def _over_lists(
    written: str, read: str, launch: Callable[[kernels.TensorLists], Any]
) -> Callable[[Make], Work]:
    """A kernel over lists of arrays; each letter names a list. What is written is read, too."""

    def family(make: Make) -> Work:
        matrices = {name: make.matrix() for name in written + read}
        pieces = {name: make.pieces(matrix) for name, matrix in matrices.items()}

        @functools.cache
        def lists() -> Any:
            return kernels.tensor_lists([pieces[name] for name in written], [pieces[name] for name in read])

        return Work(lambda: launch(lists()), [matrices[name] for name in written + read + written])

    return family


_SGD = {"sign": 1.0, "decay": 0.0, "lr": 1e-3, "momentum": 0.9, "kept": 0.9, "damped": 1.0, "nesterov": 0.0}
_ADAM = {"sign": 1.0, "decay": 0.0, "keep": 1.0, "beta1": 0.9, "beta2": 0.999, "rate": 1e-3, "eps": 1e-8}

_MEANS = ("exp_avg", "exp_avg_sq")


def _step(update: Update, numbers: dict[str, float], *states: str) -> Callable[[Any], None]:
    """What steps lists of parameters, states and gradients."""
    listed = kernels.update_of(update.on("p", "g", *states).general)
    return lambda lists: kernels.over(listed, lists, numbers)


def _foreach(name: str, inputs: int, *numbers: float) -> Callable[[Make], Work]:
    def family(make: Make) -> Work:
        matrices = [make.matrix() for _ in range(1 + inputs)]
        lists = [make.pieces(matrix) for matrix in matrices]
        return Work(lambda: kernels.foreach(on_cuda(name), *lists, *numbers), matrices)

    return family


def _list_norm(make: Make) -> Work:
    return _over_lists("", "x", kernels.list_norm)(make)


def _limit_norm(make: Make) -> Work:
    norm = make.number(kernels.wide(make.dtype))  # -2: every number is multiplied by about -1
    return _over_lists("x", "", lambda lists: kernels.limit_norm(lists, norm, 2.0))(make)


def _quantize(dtype: np.dtype, whole: bool = False) -> Callable[[Make], Work]:
    def family(make: Make) -> Work:
        x = make.matrix()
        rows = x.reshape(1, -1) if whole else x  # a scale for all, or one for each row
        return Work(lambda: kernels.quantize(rows, dtype), (x, make.codes(FORMATS[dtype].codes)))

    return family


def _dequantize(dtype: np.dtype) -> Callable[[Make], Work]:
    def family(make: Make) -> Work:
        codes, scale = make.codes(FORMATS[dtype].codes), make.column(kernels.wide(make.dtype)).reshape(-1, 1)
        out = make.matrix()
        return Work(lambda: kernels.dequantize(codes, scale, dtype, make.dtype), (codes, out))

    return family


FAMILIES: dict[str, Callable[[Make], Work]] = {
    "bias_activation of relu": _forward("relu"),
    "bias_activation of gelu": _forward("gelu"),
    "bias_activation of tanh": _forward("tanh"),
    "bias_activation_backward of relu": _backward("relu"),
    "bias_activation_backward of gelu": _backward("gelu"),
    "bias_activation_double_backward of relu": _double_backward("relu", has_second=False),
    "bias_activation_double_backward of tanh": _double_backward("tanh", has_second=True),
    "column_sum": _column_sum,
    "elementwise of formula": _elementwise(0),
    "elementwise of derivative": _elementwise(1),
    "elementwise of gradients": _elementwise(1, gradients=True),
    "row_sum": _row_sum,
    "row_sum of few rows": _of_few_rows(_row_sum),
    "row_statistic": _row_statistic,
    "row_variance": _row_variance,
    "softmax": _softmax,
    "softmax of few rows": _of_few_rows(_softmax),
    "softmax_backward": _softmax_backward,
    "softmax_backward of few rows": _of_few_rows(_softmax_backward),
    "cross_entropy": _cross_entropy,
    "cross_entropy of few rows": _of_few_rows(_cross_entropy),
    "cross_entropy_backward": _cross_entropy_backward,
    "layer_norm": _layer_norm,
    "layer_norm of few rows": _of_few_rows(_layer_norm),
    "layer_norm_backward": _layer_norm_backward,
    "layer_norm_backward of few rows": _of_few_rows(_layer_norm_input),
    "layer_norm_parameters": _layer_norm_parameters,
    "dropout": _dropout,
    "channel_dropout": _channel_dropout,
    "random_numbers of Uniform": _random_numbers("Uniform"),
    "random_numbers of Normal": _random_numbers("Normal"),
    "random_bits": _random_bits,
    "random_integers": _random_integers,
    "foreach of a step without state": _over_lists("p", "g", _step(formulas.sgd, _SGD)),
    "foreach of a step with one state": _over_lists(
        "pb", "g", _step(formulas.sgd, _SGD, "momentum_buffer")
    ),
    "foreach of a step with two states": _over_lists("pmv", "g", _step(formulas.adam, _ADAM, *_MEANS)),
    "foreach of a step with three states": _over_lists(
        "pmvt", "g", _step(formulas.adam, _ADAM, *_MEANS, "max_exp_avg_sq")
    ),
    "foreach of one list": _foreach("mul", 1, 1.0),
    "foreach of two lists": _foreach("add", 2, 1.0),
    "foreach of three lists": _foreach("addcmul", 3, 1.0),
    "list_norm": _list_norm,
    "limit_norm": _limit_norm,
    "quantize to float8": _quantize(float8_e4m3fn),
    "quantize to float16": _quantize(float16),
    "quantize to float16 with one scale": _quantize(float16, whole=True),
    "dequantize of float8": _dequantize(float8_e4m3fn),
}
# Kernels that have no entry, and why.
LEFT_OUT = {
    "group": "is written for each program; benchmarks.pinn has compiled rows",
    **dict.fromkeys(("group_column_sums", "group_row_sums", "group_totals"), "is written for each program"),
    "cross_entropy_step": "is one block, for few logits; benchmarks.train_mlp has compiled rows",
    "gather": "reads what its indices say",
    "absmax": "is the first launch of quantize with one scale",
    "softmax_parts": "is the first launch of softmax of few rows",
    "softmax_backward_parts": "is the first launch of softmax_backward of few rows",
    "layer_norm_parts": "is the first launch of layer_norm of few rows",
    "layer_norm_backward_parts": "is the first launch of layer_norm_backward of few rows",
    "cross_entropy_join": "works on the sums of cross_entropy, where rows are few",
    "cross_entropy_total": "works on the sums of cross_entropy",
    "list_norm_total": "works on the sums of list_norm",
    "nll": "reads one number of each row",
    **dict.fromkeys(
        ("chain_stream", "chain_stream_backward", "activation_jet", "activation_jet_backward", "local_terms"),
        "moves streams, of several rows for each row of a matrix: benchmarks/hessian.py times them in Hessians",
    ),
    **dict.fromkeys(
        (f"{cell}_step{way}" for cell in ("lstm", "gru", "rnn") for way in ("", "_backward")),
        "runs for each step of a layer, on so few rows that its launch counts",
    ),
    "random_events": "is bound by its logarithms and square roots",
    "random_gammas": "is bound by its logarithms and square roots",
    "random_successes": "is bound by its logarithms and square roots",
    "gamma_slope": "is bound by arithmetic in float64",
}
# Those of fewer dtypes than C_NAMES has.
DTYPES = {
    "quantize to float16": (float32, float64),
    "quantize to float16 with one scale": (float32, float64),
    "random_bits": (bool_,),
    "random_integers": (int64,),
}


def dtypes(family: str) -> Sequence[np.dtype]:
    """What a family computes with."""
    return DTYPES.get(family, tuple(kernels.C_NAMES))
