"""Rows of ops/creation/convert.py and of the op in ops/creation/factories.py."""

import numpy as np
from op_db import Row, Sample, normal

import autograd_gpu as ag


def plain(rng):
    return [Sample(normal(rng, 2, 3)), Sample(normal(rng)), Sample(normal(rng, 0, 2)), Sample(normal(rng, 4))]


def over(**attributes):
    return lambda rng: [Sample(*sample.args, **attributes) for sample in plain(rng)]


ROWS = [
    Row("cast", samples=over(dtype=ag.float64), reference=lambda x, dtype: x.astype(dtype),
        torch=lambda torch, x, dtype: x.to(getattr(torch, str(dtype))),
        integers="float64", result=lambda dtype: "float64"),
    Row("clone", samples=plain, reference=np.copy, torch="torch.clone"),
    Row("contiguous_copy", samples=plain, reference=np.copy, torch=lambda torch, x: x.contiguous()),
    Row("to_device", samples=over(device=ag.device("cpu")), reference=lambda x, device: x,
        torch=lambda torch, x, device: x.to(str(device))),
    Row("constant_like", samples=over(value=2.5), reference=lambda x, value: np.full_like(x, value), integers="int64",
        torch=lambda torch, x, value: torch.full_like(x, value)),
]
