"""Rows of ops/creation/factories.py."""

import numpy as np
from op_db import Row
from op_rows.creation.shared import over

ROWS = [
    Row("constant_like", samples=over(value=2.5), reference=lambda x, value: np.full_like(x, value), integers="int64",
        torch=lambda torch, x, value: torch.full_like(x, value)),
]
