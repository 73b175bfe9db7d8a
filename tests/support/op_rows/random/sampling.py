"""Rows of ops/random/sampling.py."""

import numpy as np
from op_db import Error, Row, Sample, normal, positive, uniform

import autograd_gpu as ag
from autograd_gpu import backend
from autograd_gpu.ops.random import sampling

SHAPES = ((2, 3), (), (0,), (30,))
ONE_DRAW = {"dtypes": "half types are drawn in float32, other numbers than in float64"}
OTHER_NUMBERS = {
    "oracle_forward": "PyTorch draws other numbers",  # but the gradient is zero there, too
    "batch": "each example draws its own numbers, see test_batched_shapes",
}


def seeded(function):
    def call(*args, **kwargs):
        if not ag.cuda.is_current_stream_capturing():  # a CUDA graph is seeded at replays
            ag.manual_seed(5)
        return function(*args, **kwargs)

    return call


def draw(distribution, *args, **kwargs):
    """What the op draws on the device of the run, as a NumPy array; `args` may hold arrays."""
    ag.manual_seed(5)
    return draw_next(distribution, *args, **kwargs)


def draw_next(distribution, *args, **kwargs):
    """What the op draws after that."""
    home = ag.get_default_device()
    args = [backend.to_device(a, home) if isinstance(a, np.ndarray) else a for a in args]
    return backend.to_numpy(backend.namespace_on(home).asarray(
        ag.random.default_generator(home).draw(distribution, *args, **kwargs)
    ))


def bernoulli(p):
    return (draw("random", p.shape, dtype=np.float64) < p).astype(np.float64)


def certain(rng, *shape):
    """Weights of which one in each row is positive, so that the draw is certain."""
    return np.eye(shape[-1])[rng.integers(shape[-1], size=shape[:-1])]


def gauss(mean, std):
    shape = np.broadcast_shapes(np.shape(mean), np.shape(std))
    return mean + std * draw("standard_normal", shape, dtype=np.float64)


unit = uniform(0.05, 0.95)


def successes(count, prob):
    count, prob = np.broadcast_arrays(count, prob)
    on_cuda = ag.get_default_device().type == "cuda"
    return draw("binomial", count if on_cuda else count.astype(np.int64), prob).astype(np.float64)


ROWS = [
    Row(
        "random_bernoulli",
        fn=seeded(sampling.random_bernoulli),
        samples=lambda rng: [Sample(uniform(0.1, 0.9)(rng, *s)) for s in SHAPES],
        reference=bernoulli,
        integers=None,
        skip={**ONE_DRAW, **OTHER_NUMBERS},
        errors=[
            Error("range", lambda op, x: op(x(2) * 2), RuntimeError,
                  "Expected p_in >= 0 && p_in <= 1 to be true", by_value=True),
            Error("integers", lambda op, x: op(x(2, dtype="int64")), RuntimeError, "not implemented for int64"),
        ],
    ),
    Row(
        "poisson",
        fn=seeded(sampling.poisson),
        samples=lambda rng: [Sample(positive(rng, *s) * 3) for s in SHAPES],
        reference=lambda rate: draw("poisson", rate).astype(np.float64),
        errors=[Error("range", lambda op, x: op(-x(2)), RuntimeError,
                      "expected rate to be non-negative", by_value=True)],
        integers=None,
        skip=OTHER_NUMBERS,
    ),
    Row(
        "random_binomial",
        fn=seeded(sampling.random_binomial),
        samples=lambda rng: [
            *(Sample(np.floor(positive(rng, *s) * 9), unit(rng, *s)) for s in SHAPES),
            Sample(np.floor(positive(rng, 2, 3) * 9), unit(rng, 3)),
            Sample(np.floor(positive(rng, 3) * 9), unit(rng, 2, 1)),
        ],
        reference=successes,
        torch=None,
        integers=None,
        skip={**OTHER_NUMBERS, "oracle": "PyTorch draws other numbers", "integers": "binomial refuses them"},
        errors=[
            Error("integers", lambda op, x: ag.binomial(x(2, dtype="int64"), x(2, dtype="int64")), ValueError,
                  "binomial only supports floating-point dtypes for count, got: int64"),
            Error("dtypes", lambda op, x: ag.binomial(x(2), x(2, dtype="float64")), RuntimeError, "float64"),
        ],
    ),
    Row(
        "random_normal",
        fn=seeded(sampling.random_normal),
        samples=lambda rng: [
            *(Sample(normal(rng, *s), positive(rng, *s)) for s in SHAPES),
            Sample(normal(rng, 2, 3), positive(rng, 3)),
            Sample(normal(rng, 2, 3), 0.5),
            Sample(1.5, positive(rng, 2, 3)),
        ],
        reference=gauss,
        skip={
            **OTHER_NUMBERS,
            "dtypes": ONE_DRAW["dtypes"],
            "integers": "drawn in float32",
            "gradcheck": "the gradient is zero by definition, in spite of mean + std * z",
        },
        errors=[
            Error("std", lambda op, x: op(x(2), -1.0), RuntimeError, "normal expects std >= 0.0, but found std -1"),
            Error("stds", lambda op, x: op(x(2), -x(2)), RuntimeError, "all elements of std >= 0.0"),
        ],
    ),
    Row(
        "random_multinomial",
        samples=lambda rng: [Sample(certain(rng, *s), num_samples=2, replacement=True) for s in ((3,), (2, 4), (0, 3))],
        reference=lambda x, num_samples, replacement: np.repeat(x.argmax(-1)[..., None], num_samples, -1),
        result=lambda dtype: "int64",
        integers=None,
        skip={"zero_dim": "weights have a dimension", "layouts": "stretched weights of zero cannot be drawn from"},
        errors=[
            Error("rank", lambda op, x: op(x(2, 2, 2), 1), RuntimeError, "prob_dist must be 1 or 2 dim"),
            Error("count", lambda op, x: op(x(2), 3), RuntimeError, "without replacement"),
        ],
    ),
]
