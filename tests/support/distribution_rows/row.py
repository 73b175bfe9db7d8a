"""A row of the table of distributions: parameters and values, and how either library makes the distribution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Row:
    """One distribution. `name` is its class, in both libraries, and what it is made from:

    params: keyword arguments that become float64 tensors, with gradients unless they hold integers
    options: other keyword arguments
    values: what log_prob is asked about; of the shape (*sample_shape, *batch_shape, *event_shape), or what broadcasts
    make: (distributions, tensors by name) -> the distribution, where the class takes more than tensors
    invalid: keyword arguments that are refused in place of those in params
    outside: values outside of the support
    scipy: (arrays by name) -> a frozen distribution of scipy.stats, which the samples are compared with; for events
        that are not numbers the mean of the samples is compared with `mean`
    probabilities: what icdf is asked about
    noise: whether rsample is a function of the parameters and of noise that does not depend on them
    more: attributes and methods that PyTorch does not implement; "kl" stands for divergences from it
    single: attributes and methods that PyTorch computes with the accuracy of float32
    differs: attributes that are not PyTorch's on purpose; "kl" stands for divergences from and to it
    label: the test's name, where a class has several rows
    """

    name: str
    params: dict[str, Any]
    values: Any
    options: dict[str, Any] = field(default_factory=dict)
    make: Callable[[Any, dict[str, Any]], Any] | None = None
    invalid: tuple[dict[str, Any], ...] = ()
    outside: tuple[Any, ...] = ()
    scipy: Callable[[Any], Any] | None = None
    probabilities: Any = ((0.01,), (0.5,), (0.9,))
    noise: bool = True
    more: tuple[str, ...] = ()
    single: tuple[str, ...] = ()
    differs: tuple[str, ...] = ()
    label: str = ""

    def __str__(self) -> str:
        return self.label or self.name

    def arrays(self) -> dict[str, np.ndarray]:
        return {name: array(value) for name, value in self.params.items()}

    def tensors(self, m: Any, requires_grad: bool = True) -> dict[str, Any]:
        """The parameters as tensors of the library `m`."""
        return {name: m.tensor(value, requires_grad=requires_grad and value.dtype.kind == "f")
                for name, value in self.arrays().items()}  # fmt: skip

    def build(self, m: Any, tensors: dict[str, Any] | None = None, **options: Any) -> Any:
        """The distribution of the library `m`, made from `tensors`, or from the row's own parameters."""
        tensors = self.tensors(m, False) if tensors is None else tensors
        if self.make is not None:
            return self.make(m.distributions, tensors)
        return getattr(m.distributions, self.name)(**tensors, **self.options, **options)


def array(value: Any) -> np.ndarray:
    """Numbers as an array: of int64 if all are integers, else of float64."""
    result = np.asarray(value)
    return result if result.dtype.kind in "ib" else result.astype(np.float64)
