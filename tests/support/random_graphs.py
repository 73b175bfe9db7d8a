"""Random composite functions of a vector, for PyTorch and us: reuse, broadcasting, kinks, products of two values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

WIDTH = 4

Value = Any
UNARY: list[Callable[[Any, Value, Any], Value]] = [
    lambda m, x, w: m.tanh(x),
    lambda m, x, w: m.sin(x),
    lambda m, x, w: m.exp(-x * x),
    lambda m, x, w: m.sigmoid(x) * x,
    lambda m, x, w: m.nn.functional.silu(x),
    lambda m, x, w: m.nn.functional.gelu(x),
    lambda m, x, w: m.nn.functional.softplus(x),
    lambda m, x, w: m.relu(x),
    lambda m, x, w: m.nn.functional.leaky_relu(x, 0.2),
    lambda m, x, w: m.abs(x),
    lambda m, x, w: m.nn.functional.hardtanh(x),
    lambda m, x, w: m.sqrt(x * x + 1),
    lambda m, x, w: (x * x + 0.5) ** 1.5,
    lambda m, x, w: m.softmax(x, -1),
    lambda m, x, w: m.log_softmax(x, -1),
    lambda m, x, w: x - m.logsumexp(x, -1, keepdim=True),
    lambda m, x, w: x / (1 + x.norm()),
    lambda m, x, w: m.cumsum(x, 0),
    lambda m, x, w: m.flip(x, (0,)) * 0.5,
    lambda m, x, w: x.sum() * w[0],
    lambda m, x, w: w @ x,
    lambda m, x, w: m.nn.functional.linear(x, w, w[1]),
    lambda m, x, w: m.nn.functional.layer_norm(x, (WIDTH,), w[2], w[3], 0.1),
    lambda m, x, w: m.cat([x[2:], x[:2]]),
    lambda m, x, w: m.sort(x)[0],
    lambda m, x, w: x.clamp(-0.7, 0.7),
    lambda m, x, w: x.reshape(2, 2).mT.reshape(-1),
    lambda m, x, w: x.mean() + x.var() * x,
]
BINARY: list[Callable[[Any, Value, Value], Value]] = [
    lambda m, x, y: x + y,
    lambda m, x, y: x * y,
    lambda m, x, y: x - 0.5 * y,
    lambda m, x, y: x / (1 + y * y),
    lambda m, x, y: m.where(x > y, x, 0.3 * y),
    lambda m, x, y: m.maximum(x, y),
    lambda m, x, y: (1 + x * x) ** (0.3 * y),
    lambda m, x, y: m.outer(x, y).tanh() @ x,
    lambda m, x, y: m.softmax(m.outer(x, y), -1) @ y,
    lambda m, x, y: m.atan2(x, 1 + y * y),
    lambda m, x, y: x.reshape(2, 2).matmul(y.reshape(2, 2)).reshape(-1),
    lambda m, x, y: m.lerp(x, y, 0.3),
    lambda m, x, y: m.addcmul(x, x, y, value=0.5),
    lambda m, x, y: m.stack([x, y])[:, ::2].reshape(-1),
]


class RandomGraph:
    """A function of x (d,) and weights (WIDTH, WIDTH) with o outputs, drawn by `seed`."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.d, self.o = int(self.rng.choice([2, 3, 5])), int(self.rng.choice([1, 2, 3]))
        self.start = self.rng.normal(size=(WIDTH, self.d)) / 2
        self.x, self.w = self.rng.normal(size=self.d), self.rng.normal(size=(WIDTH, WIDTH)) / 2
        self.steps = [self._step(2 + k) for k in range(int(self.rng.integers(2, 8)))]
        self.picked = self.rng.integers(0, WIDTH, self.o).tolist()

    def _step(self, values: int) -> tuple[bool, int, int, int]:
        """(whether it has two inputs, which function, which values), later values more often."""
        binary = bool(self.rng.random() < 0.4)
        a, b = [values - 1 - min(int(self.rng.geometric(0.6)) - 1, values - 1) for _ in range(2)]
        return binary, int(self.rng.integers(len(BINARY if binary else UNARY))), a, b

    def function(self, m: Any, w: Any) -> Callable[[Any], Any]:
        """The function of x for library m."""
        start = m.tensor(self.start)

        def run(x: Any) -> Any:
            values = [start @ x, m.sin(start @ x)]
            for binary, which, a, b in self.steps:
                values.append(BINARY[which](m, values[a], values[b]) if binary else UNARY[which](m, values[a], w))
                if values[-1].ndim == 0 or values[-1].shape[0] != WIDTH:
                    values[-1] = values[-1] + m.zeros(WIDTH, dtype=m.float64)
            return values[-1][self.picked] if self.o > 1 else values[-1].sum()

        return run
