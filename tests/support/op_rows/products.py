"""Rows of ops/linalg/matmul.py, ops/nn/linear.py and ops/linalg/einsum.py."""

import numpy as np
from op_db import Error, Row, Sample, normal

TWO = {"zero_dim": "takes matrices and vectors"}
HALVES = {"float16": 1e-2, "bfloat16": 0.1}
DTYPES = Error("dtypes", lambda op, x: op(x(3, 3), x(3, 3, dtype="float64")), RuntimeError, "the same dtype")


def of_shapes(*shapes, **attributes):
    return lambda rng: [Sample(*(normal(rng, *s) for s in row), **attributes) for row in shapes]


MATMUL = (
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3, 4)),
    ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((5, 1, 2, 3), (6, 3, 4)),
    ((3,), (5, 3, 4)),
    ((5, 2, 3), (3,)),
    ((0, 3), (3, 2)),
    ((2, 0), (0, 2)),
    ((3, 2, 0), (0, 2)),
    ((1, 2, 3), (4, 3, 2)),
)
GEMM = (
    ((3, 2), (3, 4), True, False),
    ((2, 3), (4, 3), False, True),
    ((3, 2), (4, 3), True, True),
    ((2, 3), (3, 4), False, False),
    ((5, 3, 2), (3, 4), True, False),
    ((5, 2, 3), (4, 3), False, True),
    ((5, 2, 3), (3, 4), False, False),
    ((3, 2), (5, 3, 4), True, False),
    ((2, 3), (5, 4, 3), False, True),
    ((2, 3), (5, 3, 4), False, False),
    ((5, 3, 2), (5, 4, 3), True, True),
    ((2, 1, 3, 2), (5, 3, 4), True, False),
    ((0, 3), (3, 2), False, False),
)
LINEAR = ((3,), (2, 3), (5, 2, 3), (0, 3), (2, 0, 3))


def flipped(x, flag):
    return np.swapaxes(x, -1, -2) if flag else x


def linear_samples(rng):
    found = [Sample(normal(rng, *s), normal(rng, 4, 3), normal(rng, 4)) for s in LINEAR]
    return [
        *found,
        Sample(normal(rng, 2, 3), normal(rng, 4, 3), None),
        Sample(normal(rng, 2, 3), normal(rng, 4, 3), normal(rng, 1)),
        *[Sample(normal(rng, *shape), normal(rng, 3), None) for shape in ((2, 3), (3,), (2, 0, 3))],
    ]


def size(text):
    return text.replace("(", r"\(").replace(")", r"\)").replace("[", r"\[").replace("]", r"\]")


CONTRACT = (
    ("ik,kj->ij", (2, 3), (3, 4)),
    ("ik,jk->ji", (2, 3), (4, 3)),
    ("bik,bkj->bij", (5, 2, 3), (5, 3, 4)),
    ("i,j->ij", (2,), (3,)),
    ("i,i->i", (3,), (3,)),
    ("ikl,lk->i", (2, 3, 4), (4, 3)),
    ("k,k->", (3,), (3,)),
    (",->", (), ()),
    (",i->i", (), (3,)),
    ("ik,kj->ij", (0, 3), (3, 4)),
    ("bhid,bhjd->bhij", (2, 3, 4, 5), (2, 3, 6, 5)),
)


def contract_samples(rng):
    return [Sample(normal(rng, *a), normal(rng, *b), equation=equation) for equation, a, b in CONTRACT]


ROWS = [
    Row(
        "gemm",
        samples=lambda rng: [Sample(normal(rng, *a), normal(rng, *b), ta=ta, tb=tb) for a, b, ta, tb in GEMM],
        reference=lambda a, b, ta=False, tb=False: flipped(a, ta) @ flipped(b, tb),
        tol=HALVES,
        skip=TWO,
        torch=lambda torch, a, b, ta=False, tb=False: (a.mT if ta else a) @ (b.mT if tb else b),
        errors=[DTYPES],
    ),
    Row(
        "matmul",
        samples=of_shapes(*MATMUL),
        reference=np.matmul,
        tol=HALVES,
        skip=TWO,
        errors=[
            DTYPES,
            Error(
                "inner", lambda op, x: op(x(2, 3), x(4, 5)), RuntimeError, size("cannot be multiplied (2x3 and 4x5)")
            ),
            Error(
                "folded",
                lambda op, x: op(x(2, 2, 3), x(4, 5)),
                RuntimeError,
                size("cannot be multiplied (4x3 and 4x5)"),
            ),
            Error("vectors", lambda op, x: op(x(3), x(4)), RuntimeError, "inconsistent tensor size"),
            Error("vector", lambda op, x: op(x(2, 3), x(4)), RuntimeError, size("got input (2), mat (2x3), vec (4)")),
            Error(
                "batched",
                lambda op, x: op(x(2, 2, 3), x(2, 4, 5)),
                RuntimeError,
                size("to be: [2, 3] but got: [2, 4]."),
            ),
            Error("0-d", lambda op, x: op(x(), x(3, 3)), RuntimeError, "at least 1D, but they are 0D and 2D"),
        ],
    ),
    Row(
        "mm",
        samples=of_shapes(((2, 3), (3, 4)), ((0, 3), (3, 2)), ((1, 1), (1, 5))),
        reference=np.matmul,
        tol=HALVES,
        skip=TWO,
        errors=[
            DTYPES,
            Error("rank", lambda op, x: op(x(3), x(3, 3)), RuntimeError, "self must be a matrix"),
            Error(
                "inner", lambda op, x: op(x(2, 3), x(4, 5)), RuntimeError, size("cannot be multiplied (2x3 and 4x5)")
            ),
        ],
    ),
    Row(
        "bmm",
        samples=of_shapes(((5, 2, 3), (5, 3, 4)), ((0, 2, 3), (0, 3, 4))),
        reference=np.matmul,
        tol=HALVES,
        skip=TWO,
        errors=[
            Error("rank", lambda op, x: op(x(2, 3), x(2, 3, 3)), RuntimeError, "batch1 must be a 3D tensor"),
            Error("batch", lambda op, x: op(x(2, 3, 4), x(2, 5, 3)), RuntimeError, size("[2, 4] but got: [2, 5]")),
        ],
    ),
    Row(
        "mv",
        samples=of_shapes(((2, 3), (3,)), ((0, 3), (3,)), ((2, 0), (0,))),
        reference=np.matmul,
        tol=HALVES,
        skip=TWO,
        errors=[
            Error("rank", lambda op, x: op(x(3), x(3)), RuntimeError, r"matrix @ vector expected"),
            Error("inner", lambda op, x: op(x(2, 3), x(2)), RuntimeError, "size mismatch"),
        ],
    ),
    Row(
        "linear",
        samples=linear_samples,
        tol=HALVES,
        skip=TWO,
        torch="torch.nn.functional.linear",
        reference=lambda x, weight, bias=None: x @ weight.T + (0 if bias is None else bias),
        errors=[
            Error(
                "inner", lambda op, x: op(x(2, 3), x(4, 5)), RuntimeError, size("cannot be multiplied (2x3 and 5x4)")
            ),
            Error("bias", lambda op, x: op(x(2, 3), x(4, 3), x(3)), RuntimeError, r"expanded size of the tensor \(4\)"),
            Error("0-d", lambda op, x: op(x(), x(4, 3)), RuntimeError, "at least 1D"),
        ],
    ),
    Row(
        "contract",
        samples=contract_samples,
        reference=lambda a, b, equation: np.einsum(equation, a, b),
        tol=HALVES,
        skip={"oracle_dtypes": "torch promotes in some equations and refuses in others"},
        torch=lambda torch, a, b, equation: torch.einsum(equation, a, b),
    ),
]
