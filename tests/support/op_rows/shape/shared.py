"""Samples, references and errors that rows of several modules of ops/shape/ share."""

from op_db import Sample, normal


def over(*cases):
    """Samples of one input: (shape, attributes) each."""
    return lambda rng: [Sample(normal(rng, *shape), **attributes) for shape, attributes in cases]


def method(name):
    """PyTorch's method of that name, all attributes in order."""
    return lambda torch, x, **attributes: getattr(x, name)(*attributes.values())


NO_0D = {"zero_dim": "a 0-d tensor has no dimension to work on"}
CUBE, EMPTY = (2, 3, 4), (0, 3)
