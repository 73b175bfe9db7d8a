"""Rows of ops/creation/convert.py."""

import numpy as np
from op_db import Row
from op_rows.creation.shared import over, plain

import autograd_gpu as ag

ROWS = [
    Row("cast", samples=over(dtype=ag.float64), reference=lambda x, dtype: x.astype(dtype),
        torch=lambda torch, x, dtype: x.to(getattr(torch, str(dtype))),
        integers="float64", result=lambda dtype: "float64"),
    Row("clone", samples=plain, reference=np.copy),
    Row("contiguous_copy", samples=plain, reference=np.copy, torch=lambda torch, x: x.contiguous()),
    Row("to_device", samples=over(device=ag.device("cpu")), reference=lambda x, device: x,
        torch=lambda torch, x, device: x.to(str(device))),
]
