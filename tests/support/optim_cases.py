"""Optimizers with options, starting points and gradients, for the tests of optim."""

import functools
import itertools

import numpy as np

import autograd_gpu as ag
from autograd_gpu import optim

# A bucket of small ones, one that is too large for it, and one that takes more than one chunk.
SHAPES = [(5, 4), (4,), (), (0, 3), (130, 131), (1, 70000)]
SMALL = SHAPES[:4]


def product(**choices):
    return [dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values())]


FLAGS = {"weight_decay": (0.0, 0.05), "maximize": (False, True)}
ADAM = product(**FLAGS, amsgrad=(False, True), lr=(0.01,), betas=((0.8, 0.95),), eps=(1e-6,))
OPTIONS = {
    "SGD": [
        *product(**FLAGS, lr=(0.1,)),
        *product(**FLAGS, lr=(0.1,), momentum=(0.9,)),
        *product(**FLAGS, lr=(0.1,), momentum=(0.9,), dampening=(0.3,)),
        *product(**FLAGS, lr=(0.1,), momentum=(0.9,), nesterov=(True,)),
    ],
    "Adam": [*ADAM, {"lr": 0.01, "weight_decay": 0.05, "decoupled_weight_decay": True}],
    "AdamW": ADAM,
    "Adamax": product(**FLAGS, lr=(0.01,), betas=((0.8, 0.95),)),
    "NAdam": [
        *product(**FLAGS, lr=(0.01,), decoupled_weight_decay=(False, True)),
        {"lr": 0.01, "momentum_decay": 0.1, "betas": (0.8, 0.95), "eps": 1e-6},
    ],
    "RAdam": [
        {"lr": 0.01, "betas": (0.7, 0.6), "eps": 1e-6},  # never adaptive
        *product(**FLAGS, lr=(0.01,), decoupled_weight_decay=(False, True)),
        {"lr": 0.01, "betas": (0.8, 0.95), "eps": 1e-6},  # adaptive from the sixth step on
    ],
    "RMSprop": product(**FLAGS, momentum=(0.0, 0.9), centered=(False, True)),
    "Adagrad": [*product(**FLAGS, lr=(0.1,)), {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.5}],
    "Adadelta": [*product(**FLAGS), {"lr": 0.3, "rho": 0.5, "eps": 1e-3}],
    "ASGD": [*product(**FLAGS), *product(t0=(10,), lambd=(0.1,), alpha=(0.5,), weight_decay=(0.0, 0.05))],
    "Rprop": [*product(maximize=(False, True)), {"etas": (0.3, 1.5), "step_sizes": (1e-3, 0.02), "lr": 0.1}],
}
CASES = [(cls, options) for cls, several in OPTIONS.items() for options in several]
ONE_EACH = [(cls, several[-1]) for cls, several in OPTIONS.items()]


@functools.cache
def start(seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape) for shape in SHAPES]


def gradients(step):
    return start(1000 + step)


def make(cls, options, device="cpu", dtype=ag.float64, shapes=SHAPES):
    """Parameters at the starting point, and their optimizer."""
    params = [ag.tensor(v, dtype=dtype, device=device, requires_grad=True) for v in start()[: len(shapes)]]
    return params, getattr(optim, cls)(params, **options)


def advance(params, optimizer, steps):
    """Makes `steps`, an iterable of step numbers, with the gradients that belong to them."""
    for step in steps:
        for param, g in zip(params, gradients(step), strict=False):
            param.grad = ag.tensor(g, dtype=param.dtype, device=param.device)
        optimizer.step()


def run(cls, options, steps, device="cpu", dtype=ag.float64, shapes=SHAPES):
    params, optimizer = make(cls, options, device, dtype, shapes)
    advance(params, optimizer, range(steps))
    return params, optimizer
