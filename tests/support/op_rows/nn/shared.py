"""Samples, references and errors that rows of several modules of ops/nn/ share."""

import numpy as np
from op_db import Error, Sample, indices, normal, positive


def with_attributes(domain, *attributes, inputs=1):
    """Samples of several shapes, a large one among them, for each set of attributes."""
    shapes = ((2, 3), (), (0,), (30, 40))
    return lambda rng: [
        Sample(*(domain(rng, *s) for _ in range(inputs)), **words) for words in attributes for s in shapes
    ]


NO_FUNCTION = {"oracle_dtypes": "torch has no such function"}
HALVES = {"float16": 1e-2, "bfloat16": 6e-2}


REDUCTIONS = ("mean", "sum", "none")
WRONG = Error(
    "reduction", lambda op, x: op(x(2), x(2), reduction="max"), ValueError, "max is not a valid value for reduction"
)


def finish(values, reduction):
    values = np.asarray(values)
    return values if reduction == "none" else np.asarray(values.sum() if reduction == "sum" else values.mean())


def their(name):
    """torch.nn.functional, which broadcasts only equal shapes without a warning."""

    def call(torch, input, target, *rest, **attributes):
        if not rest:
            input, target = torch.broadcast_tensors(input, target)
        names = ("weight", "pos_weight")[: len(rest)]
        return getattr(torch.nn.functional, name)(input, target, **dict(zip(names, rest, strict=True)), **attributes)

    return call


def class_samples(rng):
    samples = []
    for shape in ((4, 3), (3,), (2, 2, 3)):
        target = indices(rng, 3, *shape[:-1])
        samples += [
            Sample(normal(rng, *shape), target, weight, reduction=r, ignore_index=ignore)
            for weight in (None, positive(rng, 3))
            for r in REDUCTIONS
            for ignore in (-100, 1)
            if shape != (3,) or ignore < 0
        ]
    target = np.array([0, -100, 2, 1])
    samples += [Sample(normal(rng, 4, 3), target, None, reduction=r) for r in REDUCTIONS]
    return [*samples, Sample(normal(rng, 0, 3), indices(rng, 3, 0), None, reduction="sum")]


def classes_second(torch, x):
    return torch.movedim(x, -1, 1) if x.ndim > 2 else x


CLASSES = [
    Error("range", lambda op, x: op(x(2, 3), x(2, dtype="int64") * 3, None), IndexError,
          "Target 3 is out of bounds", by_value=True),
]
NUMBERS = {"integers": "float32", "integer_samples": lambda rng: [Sample(normal(rng, 4, 3), indices(rng, 3, 4), None)]}
