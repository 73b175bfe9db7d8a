"""Every in-place method against PyTorch: gradients of first and second order, and whether it allows another write.

`x = w * 1; x.op_(...)`, where w and the tensors among the arguments require grad.
"""

from __future__ import annotations

import numpy as np
import pytest
from inplace_cases import ARGUMENTS, BINARY, FLOAT, WITH_INTEGERS, WRITTEN_BACK

import autograd_gpu as ag

torch = pytest.importorskip("torch")

INDEX, WHERE, MASK = np.array([1, 0]), np.array([[1, 0], [1, 1]]), np.array([[True, False], [False, True]])
SOURCE = np.array([[0.3, -0.7], [1.1, 0.4]])
GIVEN = {
    **ARGUMENTS,
    "index_add": (0, INDEX, SOURCE), "index_copy": (0, INDEX, SOURCE), "index_fill": (0, INDEX[:1], 0.5),
    "index_put": ((INDEX, INDEX), SOURCE[0]), "index_reduce": (0, INDEX, SOURCE, "prod"),
    "put": (INDEX, SOURCE[0]), "masked_fill": (MASK, 0.5), "masked_scatter": (MASK, SOURCE),
    "scatter": (0, WHERE, SOURCE), "scatter_add": (0, WHERE, SOURCE),
    "scatter_reduce": (0, WHERE, SOURCE, "prod"), "tril": (), "triu": (), "copy": (SOURCE,), "fill": (0.5,),
    "fill_diagonal": (0.5,), "add": (SOURCE,), "sub": (SOURCE,), "mul": (SOURCE,), "div": (SOURCE,), "zero": (),
}  # fmt: skip
# Without a derivative in PyTorch, which after x.logical_not_() even gives the gradient of what x was before.
NO_ORACLE = {
    "acosh", "arccosh", "asinh", "arcsinh", "atanh", "arctanh", "floor_divide", "heaviside", "igamma", "igammac",
    "logical_and", "logical_not", "logical_or", "logical_xor",
}  # fmt: skip
# PyTorch's derivative reads the output, and ours does not: another write is allowed.
ALLOWED = {"celu", "cumprod", "elu", "index_reduce", "ldexp", "leaky_relu", "scatter_reduce", "selu", "sgn"}
LIKE = {"multiply": "mul", "subtract": "sub", "true_divide": "div", "divide": "div"}
NAMES = [name[:-1] for named in WRITTEN_BACK for name in named.inplace]
NAMES += ["add", "copy", "div", "fill", "mul", "sub", "zero"]
NAMES = sorted({*NAMES, *LIKE} - NO_ORACLE - WITH_INTEGERS)
ACTIVATIONS = {
    "relu": (), "relu6": (), "elu": (1.5,), "celu": (1.5,), "selu": (), "leaky_relu": (0.2,), "hardtanh": (-0.4, 0.6),
    "hardswish": (), "silu": (), "mish": (), "threshold": (0.3, 0.7),
}  # fmt: skip


def prepared(ns, name):
    """w, the arguments that require grad, and x after x.op_(...)."""
    start = {"addmv": FLOAT[0], "baddbmm": FLOAT[None]}.get(name, FLOAT) + (name in ("acosh", "arccosh", "mvlgamma"))
    operands = GIVEN.get(LIKE.get(name, name), (np.array([[0.5, 2.0]]),) if name in BINARY else ())
    w = ns.tensor(start, requires_grad=True)
    leaves = [w]

    def tensor(value):
        if isinstance(value, tuple):
            return tuple(map(tensor, value))
        value = np.array(value) if isinstance(value, list) else value
        if not isinstance(value, np.ndarray):
            return value
        made = ns.tensor(value, requires_grad=value.dtype == np.float64)
        leaves.extend([made] if made.requires_grad else [])
        return made

    x = w * 1.0
    if name in ACTIVATIONS:
        result = getattr(ns.nn.functional, name)(x, *ACTIVATIONS[name], inplace=True)
    else:
        result = getattr(x, f"{name}_")(*map(tensor, operands))
    assert result is x
    return leaves, x


def derivatives(ns, name):
    leaves, x = prepared(ns, name)
    if not x.requires_grad:
        return [np.zeros(1)] * 2 * len(leaves)
    cotangent = ns.tensor(np.cos(np.arange(x.numel())).reshape(tuple(x.shape)))
    first = ns.autograd.grad(x, leaves, cotangent, create_graph=True, allow_unused=True)
    total = sum([(g * g).sum() for g in first if g is not None and g.requires_grad])
    second = [None] * len(leaves)
    if not isinstance(total, int) and total.requires_grad:
        second = ns.autograd.grad(total, leaves, allow_unused=True)
    return [np.zeros(1) if g is None else g.numpy(force=True) for g in (*first, *second)]


@pytest.mark.filterwarnings("ignore:index_reduce.* is in beta")
@pytest.mark.parametrize("name", [*NAMES, *(name for name in ACTIVATIONS if name not in NAMES)])
def test_derivatives(name):
    ours, theirs = derivatives(ag, name), derivatives(torch, name)
    for mine, yours in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(*np.broadcast_arrays(mine, yours), rtol=1e-9, atol=1e-12)


def refused(ns, name):
    """Whether backward notices that x was written to once more."""
    _, x = prepared(ns, name)
    if not x.requires_grad:
        return False
    x.add_(1.0)
    try:
        x.sum().backward()
    except RuntimeError as error:
        return str(error).startswith("one of the variables needed for gradient computation has been modified by an inp")
    return False


@pytest.mark.filterwarnings("ignore:index_reduce.* is in beta")
@pytest.mark.parametrize("name", [*NAMES, *(name for name in ACTIVATIONS if name not in NAMES)])
def test_another_write(name):
    assert refused(ag, name) == (refused(torch, name) and name not in ALLOWED)
