"""What the rows of ops/nn/rnn.py, lstm.py and gru.py share: step by step as a textbook has it, in NumPy and PyTorch."""

import numpy as np
from op_db import Sample, normal


def samples(gates, states, weights):
    """Samples of small layers; `weights` makes what follows the states, in two ways, from the number of units."""

    def make(rng):
        samples = []
        for sizes, units, reverse, way in (
            ((2, 2), 2, False, 0), ((2, 1), 2, False, 1), ((2, 1), 2, True, 0), ((1, 1), 3, True, 1),
            ((0, 0), 2, False, 0),
        ):  # fmt: skip
            first = [normal(rng, sizes[0], units) for _ in range(states)]
            rest = weights(rng, units)[way]
            samples.append(Sample(normal(rng, sum(sizes), gates * units), *first, *rest, sizes=sizes, reverse=reverse))
        return samples

    return make


class Library:
    """The functions that a step needs, in NumPy or PyTorch."""

    def __init__(self, torch=None):
        self.tanh = np.tanh if torch is None else torch.tanh
        self.sigmoid = (lambda x: 1 / (1 + np.exp(-x))) if torch is None else torch.sigmoid
        self.relu = (lambda x: np.maximum(x, 0)) if torch is None else torch.relu
        self.join = np.concatenate if torch is None else torch.cat


def walk(library, step, x, states, sizes, reverse):
    """step(x, *states) -> (states, others) at each step. Returns the rows of states and others, and the last states."""
    starts = np.cumsum((0, *sizes))
    results, last, now = [None] * len(sizes), [[None] * sizes[0] for _ in states], [s[:0] for s in states]
    for t in reversed(range(len(sizes))) if reverse else range(len(sizes)):
        size = sizes[t]
        now = [library.join([n[:size], s[len(n) : size]]) for n, s in zip(now, states, strict=True)]
        now, others = step(x[starts[t] : starts[t + 1]], *now)
        results[t] = (*now, *others)
        for k, rows in enumerate(now):
            for i in range(size):
                last[k][i] = rows[i : i + 1]
    rows = [library.join(parts) for parts in zip(*results, strict=True)]
    return rows, [library.join(rest) if rest else s for rest, s in zip(last, states, strict=True)]


def parts(x, count):
    n = x.shape[-1] // count
    return [x[:, k * n : (k + 1) * n] for k in range(count)]
