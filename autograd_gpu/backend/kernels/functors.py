"""Functors of formulas (backend/formulas/cuda_code.py) as arguments of templates, and their members as a parameter."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ..arrays.dtypes import wide
from ..formulas.cuda_code import Functor
from ..formulas.expression import number
from .instances import INSTANCES, Parameter, declare

_LOCK = threading.RLock()  # a signal handler may launch kernels, too


class Applied(NamedTuple):
    """A functor with the values of its members, and a label for error messages and the profiler.

    A program that asks for it will soon ask for the others of `together`: one compilation makes them all.
    """

    label: str
    functor: Functor
    values: tuple[float, ...] = ()
    together: tuple[Functor, ...] = ()


# Functors of kernels/include/functions.cuh by the names of their ops.
WRITTEN = {
    "nan_to_num": Functor("NanToNum", "", (number("nan"), number("posinf"), number("neginf"))),
    "nan_to_num_grad": Functor("NanToNumGrad", "", inputs=2),
    "sinc": Functor("Sinc", ""), "frac": Functor("Frac", ""), "rsqrt": Functor("Rsqrt", ""),
}  # fmt: skip


@functools.lru_cache(1024)
def written(name: str, **numbers: float) -> Applied:
    """A functor that is no formula's."""
    functor, pair = WRITTEN[name], (WRITTEN["nan_to_num"], WRITTEN["nan_to_num_grad"])
    return Applied(name, functor, functor.values(**numbers), pair if functor in pair else ())


@functools.cache
def functor_parameter(functor: Functor, dtype: np.dtype) -> Parameter:
    """The parameter for the functor's members in a kernel of arrays of `dtype`, a struct."""
    return Parameter("f", "struct", np.dtype([("members", wide(dtype), (max(len(functor.numbers), 1),))]))


@functools.lru_cache(1024)
def members(f: Applied, dtype: np.dtype) -> np.ndarray:
    """The argument for `functor_parameter`."""
    return packed(f.functor, f.values, dtype)


def packed(functor: Functor, values: tuple[float, ...], dtype: np.dtype) -> np.ndarray:
    """The same, for values that are others at each call."""
    argument = np.zeros((1,), functor_parameter(functor, dtype).dtype)
    with np.errstate(over="ignore"):  # a number beyond float32 is infinite
        argument["members"][0, : len(values)] = values
    return argument


class Declared(NamedTuple):
    """An instance with a functor, for `declare_unit`."""

    functor: Functor
    name: str
    kernel: str
    parameters: tuple[Parameter, ...]


def declare_unit(file: str, unit: str, instances: Iterable[Declared]) -> None:
    """Registers all instances of a unit unless they are; ValueError if another functor has a name.

    At once, since a thread that finds one of them compiles the whole unit.
    """
    with _LOCK:
        for functor, name, kernel, parameters in instances:
            known = INSTANCES.get(name)
            if known is None:
                declare(name, file, kernel, parameters, unit, functor)
            elif known.functor is None or known.functor.text != functor.text:
                raise ValueError(f"the kernel instance {name} is declared by two formulas; rename an op")
