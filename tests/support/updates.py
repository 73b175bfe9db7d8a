"""The updates of optimizers: with all arrays that may be left out or not, and with numbers."""

import itertools

import numpy as np

from autograd_gpu.backend.formulas.update import Update
from autograd_gpu.backend.optimizers import formulas

UPDATES = {name: value for name, value in vars(formulas).items() if isinstance(value, Update)}
# Of the variants that optimizers have, by label.
VARIANTS = {}
for update in UPDATES.values():
    optional = [name for name in update.arrays if name in update.optional]
    for count in range(len(optional) + 1):
        for chosen in itertools.combinations(optional, count):
            variant = update.on(*[name for name in update.arrays if name not in optional or name in chosen])
            VARIANTS[variant.label] = variant

ADAM = {"sign": 1.0, "decay": 0.0, "keep": 1.0, "beta1": 0.8, "beta2": 0.95, "rate": 0.02, "eps": 1e-3}
SGD = {"sign": 1.0, "decay": 0.0, "lr": 0.1, "momentum": 0.9, "kept": 0.9, "damped": 0.7, "nesterov": 0.0}
# Numbers of each update: of an ordinary step, and others.
NUMBERS = {
    "sgd": [SGD, {**SGD, "decay": 0.05, "sign": -1.0}, {**SGD, "kept": 0.0, "damped": 1.0},
            {**SGD, "nesterov": 1.0, "damped": 1.0, "decay": 0.05}],
    "adam": [ADAM, {**ADAM, "decay": 0.05, "sign": -1.0}, {**ADAM, "keep": 0.99}, {**ADAM, "rate": 0.0, "beta1": 0.0}],
    "nadam": [{"sign": -1.0, "decay": 0.05, "keep": 1.0, "beta1": 0.8, "beta2": 0.95, "rate": 0.02, "rate_now": 0.01,
               "eps": 1e-3}],
    "radam": [{**ADAM, "adaptive": 0.0}, {**ADAM, "adaptive": 1.0, "decay": 0.05}],
    "adamax": [{"sign": 1.0, "decay": 0.05, "beta1": 0.8, "beta2": 0.95, "rate": 0.02, "eps": 1e-3}],
    "rmsprop": [{"sign": 1.0, "decay": 0.0, "lr": 0.02, "alpha": 0.9, "eps": 1e-1, "momentum": 0.9},
                {"sign": -1.0, "decay": 0.05, "lr": 0.02, "alpha": 0.9, "eps": 1e-1, "momentum": 0.5}],
    "adagrad": [{"sign": 1.0, "decay": 0.05, "lr": 0.02, "eps": 1e-3}],
    "adadelta": [{"sign": 1.0, "decay": 0.0, "lr": 1.0, "rho": 0.9, "eps": 1e-3},
                 {"sign": -1.0, "decay": 0.05, "lr": 0.5, "rho": 0.9, "eps": 1e-3}],
    "asgd": [{"sign": 1.0, "keep": 0.99, "rate": 0.02, "mu": 1.0},
             {"sign": -1.0, "keep": 1.0, "rate": 0.02, "mu": 0.25}],
    "rprop": [{"sign": 1.0, "shrink": 0.5, "grow": 1.2, "smallest": 0.1, "largest": 2.0}],
    "blend": [{"weight": 0.25}, {"weight": 1.0}],
}  # fmt: skip
CASES = [(label, k) for label, variant in VARIANTS.items() for k in range(len(NUMBERS[variant.update.name]))]
LISTED = [label for label in VARIANTS if label != "blend"]  # those that run on CUDA


def numbers_of(label, k):
    return NUMBERS[VARIANTS[label].update.name][k]


def drawn(variant, shape, dtype, seed=0):
    """Arrays of an update: normal numbers, and positive ones where they are squares or step sizes."""
    rng = np.random.default_rng(seed)
    arrays = {name: np.asarray(rng.standard_normal(shape)).astype(dtype) for name in variant.arrays}
    positive = ("sq", "sum", "inf", "delta", "step_size")
    return [np.asarray(abs(a) + a.dtype.type(2) * ("avg" in name)) if any(p in name for p in positive) else a
            for name, a in arrays.items()]  # fmt: skip


def in_list_order(variant, row):
    """The arrays of an update in the order of the lists of its kernel: those that it replaces come first."""
    written = [a for name, a in zip(variant.arrays, row, strict=True) if name in variant.general.outputs]
    return [*written, *[a for name, a in zip(variant.arrays, row, strict=True) if name not in variant.general.outputs]]
