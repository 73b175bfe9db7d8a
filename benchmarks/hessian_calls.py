"""The work of the workload `hessian` in each library: second derivatives of a batched network by its input."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

import autograd_gpu as ag

from . import models
from .graphed import Step, as_it_is, compiled, graphed
from .peers import jax_device
from .replayed import replayed, replays_on
from .report import COMPILED, GRAPH, LOOP, OURS, REPLAYED_GRAPH, REPLAYED_LOOP, TORCH_GRAPH
from .timing import Call

METHODS = ("push", "pull", "nested", LOOP)  # of ours, beside what "auto" takes
QUANTITIES = {"hessian": "hessian", "laplacian": "laplacian", "diagonal": "hessian_diagonal", "hvp": "hvp"}


@dataclass(frozen=True)
class Problem:
    """One case: network, points and what is asked for."""

    weights: models.Weights
    x: np.ndarray  # (batch, in)
    activation: str
    quantity: str  # of QUANTITIES
    backward: bool  # training on it
    device: str

    @property
    def direction(self) -> np.ndarray:
        """For each point a vector; "hvp" is the product with it of the Hessian of the sum of outputs."""
        vectors: np.ndarray = np.random.default_rng(2).standard_normal(self.x.shape).astype(np.float32)
        return vectors


Derivatives = tuple[Any, ...]  # the derivative and the prediction; of "hvp" the product alone
By = Callable[[ModuleType, Any, Any, Any], Derivatives]  # (library, model, x, direction)


# ---- ours, by the transforms ----------------------------------------------------------------


def by_transform(quantity: str, method: str) -> By:
    """vmap(hessian(model)), or another quantity, by one of our methods."""

    def derivative(lib: ModuleType, model: Any, x: Any, direction: Any) -> Derivatives:
        if quantity == "hvp":
            return (lib.func.vmap(lambda row, v: lib.func.hvp(summed(model), (row,), (v,)))(x, direction),)
        transform = getattr(lib.func, QUANTITIES[quantity])
        result: Derivatives = lib.func.vmap(transform(twice(model), has_aux=True, method=method))(x)
        return result

    return derivative


def twice(model: Any) -> Callable[[Any], tuple[Any, Any]]:
    """The model with its output as aux, too, so that a derivative comes with the prediction."""

    def both(row: Any) -> tuple[Any, Any]:
        pred = model(row)
        return pred, pred

    return both


def summed(model: Any) -> Callable[[Any], Any]:
    return lambda row: model(row).sum()


# ---- loops over grad ------------------------------------------------------------------------


def by_loop(quantity: str, create_graph: bool) -> By:
    """Gradients of gradients of the whole batch, the same code for autograd_gpu and PyTorch.

    1. pred = model(x)
    2. for each output o: row = grad(pred[:, o], x, create_graph=True)
    3. for each input component i: column = grad(row[:, i], x)
    """

    def derivative(lib: ModuleType, model: Any, x: Any, direction: Any) -> Derivatives:
        pred = model(x)  # 1
        if quantity == "hvp":
            (gradient,) = lib.autograd.grad(pred.sum(), x, create_graph=True)
            return tuple(lib.autograd.grad(gradient, x, direction))
        derivs = []
        for o in range(pred.shape[1]):
            columns = second_gradients(lib, pred[:, o], x, create_graph)
            if quantity == "hessian":
                derivs.append(lib.stack(columns, 1))
            else:
                diagonal = [column[:, i] for i, column in enumerate(columns)]
                derivs.append(sum(diagonal) if quantity == "laplacian" else lib.stack(diagonal, 1))
        return lib.stack(derivs, 1), pred

    return derivative


def second_gradients(lib: ModuleType, out: Any, x: Any, create_graph: bool) -> list[Any]:
    """The columns of the Hessians of `out`, each (batch, in)."""
    ones = lib.ones_like(out)
    (row,) = lib.autograd.grad(out, x, ones, create_graph=True)  # 2: (batch, in)
    return [
        lib.autograd.grad(row[:, i], x, ones, retain_graph=True, create_graph=create_graph)[0]  # 3
        for i in range(x.shape[1])
    ]


# ---- the peers' transforms ------------------------------------------------------------------


def by_torch_func(quantity: str) -> By:
    """torch.func, forward over reverse mode."""

    def derivative(torch: ModuleType, model: Any, x: Any, direction: Any) -> Derivatives:
        func = torch.func
        if quantity == "hvp":
            return (func.vmap(lambda row, v: func.jvp(func.grad(summed(model)), (row,), (v,))[1])(x, direction),)
        nested = func.jacfwd(func.jacrev(twice(model), has_aux=True), has_aux=True)
        hessian, pred = func.vmap(nested)(x)
        if quantity == "hessian":
            return hessian, pred
        diagonal = hessian.diagonal(0, -2, -1)
        return diagonal.sum(-1) if quantity == "laplacian" else diagonal, pred

    return derivative


def by_compiler(quantity: str) -> By:
    """The same through torch.compile; one for each case, since it keeps what it has compiled."""
    derivative, fast = by_torch_func(quantity), list[Any]()

    def call(torch: ModuleType, model: Any, x: Any, direction: Any) -> Derivatives:
        if not fast:
            fast.append(compiled(torch, lambda x, direction: derivative(torch, model, x, direction)))
        return tuple([result.clone() for result in fast[0](x, direction)])

    return call


def jax_call(jax: ModuleType, problem: Problem) -> Call:
    """What to time for JAX: jit(vmap(hessian(model))), and what is taken from it."""
    device = jax_device(jax, problem.device)
    parameters = models.jax_parameters(jax, problem.weights, device)
    x, direction = [jax.device_put(array, device) for array in (problem.x, problem.direction)]
    derivative = jax_derivative(jax, models.jax_forward(jax, problem.activation), problem.quantity)

    def loss(parameters: Any, x: Any, direction: Any) -> Any:
        derivs, pred = derivative(parameters, x, direction)
        return (derivs**2).mean() + (pred**2).mean()

    compiled = jax.jit(jax.grad(loss) if problem.backward else derivative)
    if not problem.backward:
        return lambda: compiled(parameters, x, direction)
    return lambda: [leaf for layer in compiled(parameters, x, direction) for leaf in layer]


def jax_derivative(jax: ModuleType, forward: Callable[[Any, Any], Any], quantity: str) -> Callable[..., Derivatives]:
    """(parameters, x, direction) -> derivatives, in JAX."""

    def both(parameters: Any, row: Any) -> tuple[Any, Any]:
        pred = forward(parameters, row)
        return pred, pred

    def product(parameters: Any, row: Any, v: Any) -> Any:
        return jax.jvp(jax.grad(lambda row: forward(parameters, row).sum()), (row,), (v,))[1]

    def derivative(parameters: Any, x: Any, direction: Any) -> Derivatives:
        if quantity == "hvp":
            return (jax.vmap(product, in_axes=(None, 0, 0))(parameters, x, direction),)
        nested = jax.hessian(both, argnums=1, has_aux=True)
        hessian, pred = jax.vmap(nested, in_axes=(None, 0))(parameters, x)
        if quantity == "hessian":
            return hessian, pred
        diagonal = jax.numpy.diagonal(hessian, axis1=-2, axis2=-1)
        return diagonal.sum(-1) if quantity == "laplacian" else diagonal, pred

    return derivative


# ---- what to time ---------------------------------------------------------------------------


def eager_call(
    lib: ModuleType, problem: Problem, by: By, is_loop: bool, made: Callable[[Step], Step] = as_it_is
) -> Call:
    """What to time for a library with PyTorch's names; only a loop needs an x that requires grad."""
    model = models.sequential(lib, problem.weights, problem.activation, problem.device)
    parameters = list(model.parameters())
    x = lib.tensor(problem.x, device=problem.device, requires_grad=is_loop)
    direction = lib.tensor(problem.direction, device=problem.device)

    def derivatives() -> Derivatives:
        return by(lib, model, x, direction)

    def backward() -> None:
        for leaf in (x, *parameters):
            leaf.grad = None
        derivs, pred = by(lib, model, x, direction)
        ((derivs**2).mean() + (pred**2).mean()).backward()

    work = made(backward if problem.backward else derivatives)

    def with_backward() -> list[Any]:
        work()
        return [p.grad for p in parameters]

    return with_backward if problem.backward else work


def calls_for(
    problem: Problem, methods: list[str], present: dict[str, ModuleType], graphs: bool = False,
    replays: bool = False,
) -> dict[str, Call]:
    """Name -> what to time, ours first: "auto" under our name, then by methods.

    graphs: also as CUDA graphs. replays: "auto" and our loop also by ag.compile (replayed.py).
    """
    loop, auto = by_loop(problem.quantity, create_graph=problem.backward), by_transform(problem.quantity, "auto")
    calls = {OURS: eager_call(ag, problem, auto, is_loop=False)}
    if graphs:
        calls[GRAPH] = eager_call(ag, problem, auto, is_loop=False, made=functools.partial(graphed, ag))
    if replays:
        for name, made in replays_on(problem.device).items():
            if graphs or name != REPLAYED_GRAPH:
                calls[name] = eager_call(ag, problem, auto, is_loop=False, made=made)
        calls[REPLAYED_LOOP] = eager_call(ag, problem, loop, is_loop=True, made=replayed)
    for method in methods:
        by = loop if method == LOOP else by_transform(problem.quantity, method)
        calls[method] = eager_call(ag, problem, by, is_loop=method == LOOP)
    for name, module in present.items():
        if name == "jax":
            calls[name] = jax_call(module, problem)
        elif name == "torch":
            calls[name] = eager_call(module, problem, loop, is_loop=True)
            if graphs:
                captured = functools.partial(graphed, module)
                calls[TORCH_GRAPH] = eager_call(module, problem, loop, is_loop=True, made=captured)
                calls[COMPILED] = eager_call(module, problem, by_compiler(problem.quantity), is_loop=False)
        else:
            calls[name] = eager_call(module, problem, by_torch_func(problem.quantity), is_loop=False)
    return calls
