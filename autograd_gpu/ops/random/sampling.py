"""Random numbers whose distribution is given by tensors. Their gradients are zero, as in PyTorch."""

from __future__ import annotations

import bisect
import itertools
import math
from typing import Any

import numpy as np

from ... import backend
from ...backend.arrays import dtypes
from ...core.extend import (
    ANY,
    BROADCASTING,
    ELEMENTWISE,
    FLOAT,
    SAME,
    ZERO,
    Tensor,
    defop,
    drawn,
    example,
    public,
    rank,
    wrap,
)
from ...random import Generator, bernoulli_mask
from ...random import normal as normal_of
from ...random.factories import floats, sizes_of
from ...random.generator import source
from ..creation.from_data import as_tensor

FEW = 64  # up to so many elements Python lists are faster than arrays


def stream_of(array: Any, generator: Generator | None) -> Generator:
    return source(backend.device_of(array), generator)


def _check(array: Any, high: float, text: str) -> None:
    """RuntimeError unless all numbers are in [0, high]; not checked on CUDA, where it would synchronize."""
    if backend.seen_outside(array, 0, high):
        raise RuntimeError(text)


def draw_from(distribution: str, xp: Any, generator: Generator | None, *parameters: Any, valid: Any) -> Any:
    """Numbers of the `distribution`, by NumPy's name of it, as float64; NaN where the parameters are not valid.

    The parameters are float64 arrays of one shape; where they are not valid, 1 is drawn from in their place.
    """
    params = [xp.where(valid, param, 1.0) for param in parameters]
    drawn = xp.asarray(stream_of(parameters[0], generator).draw(distribution, *params))
    return xp.where(valid, drawn, math.nan)


def refuse_integers(name: str, array: Any) -> None:
    if array.dtype not in dtypes.FLOATS:
        raise RuntimeError(f"{name} is not implemented for {array.dtype}; convert with .float() first")


# ---- one number for each element ----------------------------------------------------------------------


def _bernoulli(xp, p, *, generator=None):
    refuse_integers("bernoulli", p)
    _check(p, 1, "Expected p_in >= 0 && p_in <= 1 to be true, but got false.")
    wide = dtypes.float64 if p.dtype == dtypes.float64 else dtypes.float32
    return (floats("random", p.shape, wide, stream_of(p, generator)) < p).astype(p.dtype)


@defop
class random_bernoulli:
    """1 with the probability in each element of p, else 0.

    >>> from autograd_gpu.ops.random.sampling import random_bernoulli
    >>> random_bernoulli(ag.tensor([0.0, 1.0]))
    tensor([0., 1.])
    """

    forward = _bernoulli
    grad_p = ZERO
    types, random = ANY, True
    jvp, batch = ELEMENTWISE, BROADCASTING
    torch = "bernoulli"
    keeps_layout = False


@public(methods=True, out=True)
def bernoulli(input: Tensor, p: float | None = None, *, generator: Generator | None = None) -> Tensor:
    """1 with the probability in each element of input, else 0, in its shape and dtype; `p` is used for all elements.

    RuntimeError for a probability outside of [0, 1] (not checked on CUDA). The gradient is zero.

    >>> ag.bernoulli(ag.tensor([0.0, 1.0, 1.0]))
    tensor([0., 1., 1.])
    """
    input = as_tensor(input)
    if p is None:
        return random_bernoulli(input, generator)
    check_probability("bernoulli", p)
    home, dtype = input.device, dtypes.computing(input.dtype)
    return drawn(input.shape, lambda shape: wrap(bernoulli_mask(shape, p, home, generator).astype(dtype)))


def check_probability(name: str, p: float) -> None:
    if not 0 <= p <= 1:
        raise RuntimeError(f"{name} expects p to be in [0, 1], but got p={p}")


def _poisson(xp, rate, *, generator=None):
    refuse_integers("poisson", rate)
    _check(rate, math.inf, "invalid Poisson rate, expected rate to be non-negative")
    return xp.asarray(stream_of(rate, generator).draw("poisson", rate.astype(dtypes.float64))).astype(rate.dtype)


@defop
class poisson:
    """Numbers of events, Poisson-distributed with the expectation in each element of `rate`, in its shape and dtype.

    RuntimeError for a negative rate (not checked on CUDA). The gradient is zero.

    >>> ag.poisson(ag.zeros(3))
    tensor([0., 0., 0.])
    """

    forward = _poisson
    grad_rate = ZERO
    parameter_names = ("input",)
    types, random = ANY, True
    jvp, batch = ELEMENTWISE, BROADCASTING
    takes_out = False
    public = True
    keeps_layout = False


def _binomial(xp, count, prob, *, generator=None):
    wide = xp.maximum(count.astype(dtypes.float64), 0), xp.clip(prob.astype(dtypes.float64), 0, 1)  # NaN stays NaN
    counts, probabilities = xp.broadcast_arrays(*wide)
    valid = xp.isfinite(counts) & (probabilities == probabilities)
    return draw_from("binomial", xp, generator, counts, probabilities, valid=valid).astype(count.dtype)


@defop
class random_binomial:
    """Numbers of successes in `count` trials of probability `prob`, broadcasting.

    >>> from autograd_gpu.ops.random.sampling import random_binomial
    >>> random_binomial(ag.tensor([3.0, 5.0]), ag.tensor([1.0, 0.0]))
    tensor([3., 0.])
    """

    forward = _binomial
    parameter_names = ("count", "prob")
    nondiff, types, broadcasts, random = True, SAME, True, True
    batch = BROADCASTING
    torch = "binomial"
    keeps_layout = False


@public()
def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """Numbers of successes in `count` trials, each a success with the probability in `prob`, broadcasting; constants.

    Counts are rounded down. A negative count is taken as 0, and probabilities outside of [0, 1] as 0 or 1; NaN gives
    NaN. ValueError for integers, RuntimeError for tensors of different dtypes.

    >>> ag.binomial(ag.tensor([3.0, 5.0]), ag.tensor([1.0, 0.0]))
    tensor([3., 0.])
    """
    count, prob = as_tensor(count), as_tensor(prob)
    for name, tensor in (("count", count), ("prob", prob)):
        if tensor.dtype not in dtypes.FLOATS:
            raise ValueError(f"binomial only supports floating-point dtypes for {name}, got: {tensor.dtype}")
    return random_binomial(count, prob, generator)


def _normal(xp, mean, std, *, generator=None):
    arrays = [a for a in (mean, std) if backend.is_array(a)]
    shape = np.broadcast_shapes(*[a.shape for a in arrays])
    if backend.is_array(std):
        if not bool((std >= 0).all()):
            raise RuntimeError("normal expects all elements of std >= 0.0")
    elif std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    stream = stream_of(arrays[0], generator)
    return mean + std * floats("standard_normal", shape, arrays[0].dtype, stream)


@defop
class random_normal:
    """mean + std * standard normal numbers, broadcasting.

    >>> from autograd_gpu.ops.random.sampling import random_normal
    >>> random_normal(ag.tensor([1.0, 2.0]), 0.0)
    tensor([1., 2.])
    """

    forward = _normal
    grad_mean = ZERO
    grad_std = ZERO
    types, broadcasts, numbers, random = FLOAT, True, True, True
    jvp, batch = ELEMENTWISE, BROADCASTING
    torch = "normal"
    keeps_layout = False


@public(out=True)
def normal(
    mean: Any, std: Any = 1.0, size: Any = None, *, generator: Generator | None = None, dtype: Any = None,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Normally distributed numbers, given tensors of means and standard deviations, or two numbers and a `size`.

    A tensor and a number, or two tensors that broadcast, determine the shape and dtype; their gradient is zero.
    RuntimeError for a negative std.

    >>> ag.normal(ag.tensor([1.0, 2.0]), 0.0)
    tensor([1., 2.])
    >>> ag.normal(2.0, 0.0, (2,))
    tensor([2., 2.])
    """
    tensors = [a for a in (mean, std) if isinstance(a, Tensor) or backend.is_array(a)]
    if not tensors:
        if size is None:
            raise TypeError("normal() of two numbers needs a size: normal(mean, std, size)")
        return normal_of(sizes_of((size,)), dtype, device, mean, std, generator).requires_grad_(requires_grad)
    if size is not None or dtype is not None or device is not None or requires_grad:
        raise TypeError("normal() takes size, dtype, device and requires_grad beside two numbers only; a tensor brings "
                        "its own")
    return random_normal(mean, std, generator)


# ---- several numbers for each row ---------------------------------------------------------------------


INVALID = "probability tensor contains either `inf`, `nan` or element < 0"
NOTHING = "invalid multinomial distribution (sum of probabilities <= 0)"


def _check_choice(x: Any, num_samples: int, replacement: bool) -> None:
    if x.ndim not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if x.dtype not in dtypes.FLOATS:
        raise RuntimeError(f"multinomial only supports floating-point dtypes for input, got: {x.dtype}")
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and num_samples > x.shape[-1]:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")


def _check_weights(x: Any) -> None:
    """Checks the weights of multinomial; reads three numbers from a CUDA device at once."""
    if not x.size:
        if not x.shape[-1]:
            raise RuntimeError(NOTHING)
        return
    if x.dtype in dtypes.HALF:
        x = x.astype(dtypes.float32)  # NumPy's minimum of NaN in half types warns
    largest = x.max(-1)  # of each row
    lowest, highest, least = backend.read(x.min(), largest.max(), largest.min())  # NaN is all of them
    if not (lowest >= 0 and highest < math.inf):
        raise RuntimeError(INVALID)
    if not least > 0:
        raise RuntimeError(NOTHING)


def _with_replacement(xp: Any, weights: Any, count: int, stream: Generator) -> Any:
    """By inverting the distribution function; row i is shifted by i, so that one search serves all rows."""
    rows, n = weights.shape
    function = xp.cumsum(weights, axis=-1)
    function /= function[:, -1:].copy()
    shift = xp.arange(rows, dtype=dtypes.float64)[:, None]
    draws = stream.draw("random", (rows, count), dtype=dtypes.float64)
    places = xp.searchsorted((function + shift).ravel(), (draws + shift).ravel(), side="right").reshape(rows, count)
    last = n - 1 - (weights[:, ::-1] > 0).argmax(-1)[:, None]  # rounding must not exceed the row's end
    return xp.minimum(places - n * xp.arange(rows)[:, None], last)


def _few_with_replacement(rows: list[list[float]], count: int, stream: Generator) -> list[list[int]]:
    """_with_replacement for few numbers."""
    chosen = []
    draws = stream.draw("random", (len(rows), count), dtype=dtypes.float64).tolist()
    for row, numbers in zip(rows, draws, strict=True):
        if not all(0 <= weight < math.inf for weight in row):
            raise RuntimeError(INVALID)
        sums = list(itertools.accumulate(row))
        total = sums[-1]
        if total <= 0:
            raise RuntimeError(NOTHING)
        last = bisect.bisect_left(sums, total)  # rounding must not exceed the row's end
        chosen.append([min(bisect.bisect_right(sums, number * total), last) for number in numbers])
    return chosen


def _multinomial(xp, weights, *, num_samples, replacement=False, generator=None):
    _check_choice(weights, num_samples, replacement)
    few = weights.size > 0 and backend.few(weights, FEW) and weights.dtype in dtypes.FULL_FLOATS
    if replacement and few:
        rows = weights.tolist() if weights.ndim == 2 else [weights.tolist()]
        chosen = _few_with_replacement(rows, num_samples, stream_of(weights, generator))
        return np.array(chosen if weights.ndim == 2 else chosen[0], dtypes.int64)
    _check_weights(weights)
    stream = stream_of(weights, generator)
    rows = xp.atleast_2d(weights).astype(dtypes.float64)
    if replacement:
        chosen = _with_replacement(xp, rows, num_samples, stream)
    else:  # the first arrival times of events of these rates: Efraimidis and Spirakis, Inf. Process. Lett. 97
        times = floats("standard_exponential", rows.shape, dtypes.float64, stream)
        with np.errstate(divide="ignore", invalid="ignore"):
            chosen = (times / rows).argsort(axis=-1)[:, :num_samples]
    return chosen.reshape(*weights.shape[:-1], num_samples).astype(dtypes.int64, copy=False)


def _batch_multinomial(F, n, batched, x, *, num_samples, replacement, generator):
    if rank(x, True) not in (1, 2):
        _check_choice(example(x), num_samples, replacement)
    rows = F.reshape(x, (-1, x.shape[-1])) if rank(x, True) == 2 else x
    indices = F.random_multinomial(rows, num_samples=num_samples, replacement=replacement, generator=generator)
    return F.reshape(indices, (*x.shape[:-1], num_samples))


@defop
class random_multinomial:
    """Random indices into x, or into each row of it, with probabilities proportional to its elements.

    >>> from autograd_gpu.ops.random.sampling import random_multinomial
    >>> random_multinomial(ag.tensor([0.0, 3.0]), 1)
    tensor([1])
    """

    forward = _multinomial
    parameter_names = ("input",)
    nondiff, types, random = True, ANY, True
    batch = _batch_multinomial
    torch = "multinomial"


@public(methods=True, out=True)
def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *, generator: Generator | None = None
) -> Tensor:  # fmt: skip
    """Random indices into input, or into each row of it, with probabilities proportional to its elements, as int64.

    Without `replacement` no index is drawn twice; after all positive weights, indices of zero weight follow.
    RuntimeError for weights that are negative, not finite, or all zero.

    >>> ag.multinomial(ag.tensor([[0.0, 3.0], [1.0, 0.0]]), 2, replacement=True)
    tensor([[1, 1],
            [0, 0]])
    """
    return random_multinomial(as_tensor(input), num_samples, replacement, generator)
