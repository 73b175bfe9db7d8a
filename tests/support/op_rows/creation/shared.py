"""Samples, references and errors that rows of several modules of ops/creation/ share."""

from op_db import Sample, normal


def plain(rng):
    return [Sample(normal(rng, 2, 3)), Sample(normal(rng)), Sample(normal(rng, 0, 2)), Sample(normal(rng, 4))]


def over(**attributes):
    return lambda rng: [Sample(*sample.args, **attributes) for sample in plain(rng)]
