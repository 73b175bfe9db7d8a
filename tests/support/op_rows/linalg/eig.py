"""Rows of ops/linalg/eig.py."""

import numpy as np
from op_db import Error, Row, normal
from op_rows.linalg.shared import HALVED, MATRIX_ROW, SQUARE, apart, errors, samples, signs, symmetric

import autograd_gpu as ag

UPLO = ({}, {"UPLO": "U"})
TRIANGLE = Error("UPLO", lambda op, x: op(x(2, 2), UPLO="x"), RuntimeError, "Expected UPLO argument to be 'L' or 'U'")


def with_real_eigenvalues(rng, *shape):
    v = normal(rng, *shape) * 0.4 + np.eye(shape[-1])
    return (v * np.arange(1.0, 1 + shape[-1])) @ np.linalg.inv(v) if v.size else v


def eig(a):
    """NumPy's, which is complex from 2.5 on, whatever the eigenvalues are."""
    values, vectors = np.linalg.eig(a)
    return values.real, vectors.real


def their_eig(torch, a):
    """PyTorch's complex answer as real tensors, turned as NumPy's."""
    values, vectors = torch.linalg.eig(a)
    return values.real, vectors.real * signs(torch, vectors.real, eig(a.detach().numpy())[1], -2)


def their_eigh(torch, a, UPLO="L"):
    a = (a + a.mT) / 2
    values, vectors = torch.linalg.eigh(a, UPLO)
    return values, vectors * signs(torch, vectors, np.linalg.eigh(a.detach().numpy(), UPLO)[1], -2)


ROWS = [
    Row(
        "eigh",
        fn=lambda a, **words: ag.linalg.eigh((a + a.mT) / 2, **words),
        samples=samples(apart, SQUARE, *UPLO),
        reference=lambda a, UPLO="L": tuple(np.linalg.eigh(symmetric(a), UPLO)),
        torch=their_eigh,
        errors=[TRIANGLE, *errors("linalg.eigh", square=False)[1:]],
        **{**MATRIX_ROW, "skip": HALVED},
    ),
    Row(
        "eigvalsh",
        fn=lambda a, **words: ag.linalg.eigvalsh((a + a.mT) / 2, **words),
        samples=samples(apart, SQUARE, *UPLO),
        reference=lambda a, UPLO="L": np.linalg.eigvalsh(symmetric(a)),
        torch=lambda torch, a, **words: torch.linalg.eigvalsh((a + a.mT) / 2, **words),
        errors=[TRIANGLE, *errors("linalg.eigvalsh", square=False)[1:]],
        **{**MATRIX_ROW, "skip": {**HALVED, "versions": "the op gets the symmetric part, not the sample"}},
    ),
    Row(
        "eig",
        samples=samples(with_real_eigenvalues, SQUARE),
        reference=eig,
        torch=their_eig,
        errors=errors("linalg.eig"),
        **MATRIX_ROW,
    ),
    Row(
        "eigvals",
        samples=samples(with_real_eigenvalues, SQUARE),
        reference=lambda a: eig(a)[0],
        torch=lambda torch, a: torch.linalg.eigvals(a).real,
        errors=errors("linalg.eigvals"),
        **MATRIX_ROW,
    ),
]
