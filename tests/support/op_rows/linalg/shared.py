"""Samples, references and errors that rows of several modules of ops/linalg/ share."""

import numpy as np
from op_db import Error, Sample, normal


def apart(rng, *shape):
    """Symmetric matrices with the eigenvalues 1, 2, ..."""
    q = np.linalg.qr(normal(rng, *shape))[0]
    return (q * np.arange(1.0, 1 + shape[-1])) @ np.swapaxes(q, -1, -2)


FULL = ("float32", "float64")
SQUARE = ((3, 3), (2, 2, 3, 3), (1, 1), (0, 0), (0, 2, 2))
MATRICES = ((4, 3), (3, 4), (3, 3), (2, 2, 3), (2, 3, 2), (1, 1), (0, 3, 2))
# float32 rounds in the sixth digit, and a condition number around 10 takes one more.
TOL = {"float32": 2e-4}
NO_ZERO_DIM = {"zero_dim": "takes matrices"}
NO_STRETCH = {
    **NO_ZERO_DIM,
    "layouts": "a matrix of equal rows is singular; see test_linalg.py",
}
STRETCH_TOO = {name: why for name, why in NO_STRETCH.items() if name != "layouts"}
HALVED = {**NO_STRETCH, "integers": "the op gets the symmetric part, which is floating; see test_linalg.py"}
MATRIX_ROW = {"dtypes": FULL, "integers": None, "tol": TOL, "skip": NO_STRETCH}


def regular(rng, *shape):
    """Square matrices with a condition number of about 3."""
    return normal(rng, *shape) * 0.6 + 2 * np.eye(shape[-1])


def spread(rng, *shape):
    """Matrices with well separated singular values, between 1 and 3."""
    u, s, vt = np.linalg.svd(normal(rng, *shape), full_matrices=False)
    return (u * np.linspace(3, 1, s.shape[-1])) @ vt if s.size else u @ vt


def symmetric(a):
    return (a + np.swapaxes(a, -1, -2)) / 2


def signs(torch, theirs, ours, dim):
    """1 or -1 per vector along `dim`, by which PyTorch's have the direction of NumPy's."""
    return torch.sign((theirs.detach() * torch.tensor(ours)).sum(dim, keepdim=True))


def samples(domain, shapes, *attributes):
    """A sample of each shape for each set of attributes."""
    return lambda rng: [Sample(domain(rng, *shape), **words) for words in attributes or ({},) for shape in shapes]


def errors(name, square=True):
    """What every op of matrices refuses."""
    results = [
        Error("rank", lambda op, x: op(x(3)), RuntimeError, f"{name}: .*must have at least 2 dimensions"),
        Error("half", lambda op, x: op(x(2, 2, dtype="float16")), RuntimeError, "Low precision dtypes not supported"),
    ]
    rectangle = Error(
        "square", lambda op, x: op(x(2, 3)), RuntimeError, "must be batches of square matrices, but they are 2 by 3"
    )
    return [*results, rectangle] if square else results


TWO = {"zero_dim": "takes matrices and vectors"}
HALVES = {"float16": 1e-2, "bfloat16": 0.1}


def of_shapes(*shapes, **attributes):
    return lambda rng: [Sample(*(normal(rng, *s) for s in row), **attributes) for row in shapes]


def size(text):
    return text.replace("(", r"\(").replace(")", r"\)").replace("[", r"\[").replace("]", r"\]")
