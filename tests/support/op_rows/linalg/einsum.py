"""Rows of ops/linalg/einsum.py."""

import numpy as np
from op_db import Row, Sample, normal
from op_rows.linalg.shared import HALVES

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
        "contract",
        samples=contract_samples,
        reference=lambda a, b, equation: np.einsum(equation, a, b),
        tol=HALVES,
        skip={"oracle_dtypes": "torch promotes in some equations and refuses in others"},
        torch=lambda torch, a, b, equation: torch.einsum(equation, a, b),
    ),
]
