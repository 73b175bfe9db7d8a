"""Calls under the function transforms: the tables of public functions, ops and modules as functions of tensors alone.

Each call is drawn for several examples of equal shapes. `assert_vmap`, `assert_jvp` and the others compare it under a
transform with a loop over the examples, or with reverse mode.
"""

from __future__ import annotations

import itertools
import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import composite_cases
import module_cases
import nn_cases
import numpy as np
import public_calls

import autograd_gpu as ag
from autograd_gpu import func

N = 3  # examples


class Drawn(NamedTuple):
    """A call: `run(*tensors)` gives its outputs as a list of tensors; `examples` holds the arrays of each example."""

    label: str
    name: str
    run: Callable[..., list[Any]]
    examples: list[list[np.ndarray]]


def outputs(actual: Any) -> list[Any]:
    """The tensors in a result; other values, such as a bool, must not differ between examples."""
    return [x for x in public_calls.flat(actual) if isinstance(x, ag.Tensor)]


def _scaled(arrays: list[np.ndarray]) -> list[list[np.ndarray]]:
    """Examples in the domain of the arrays: smaller ones."""
    return [[a * (1 - 0.06 * k) for a in arrays] for k in range(N)]


def _of_table(name: str) -> list[Drawn]:
    rng, result = np.random.default_rng(1), []
    for i, (call, *shapes) in enumerate(public_calls.CALLS[name]):
        examples = [[np.asarray(rng.normal(size=s)) for s in shapes] for _ in range(N)]
        result.append(Drawn(f"{name}-{i}", name, lambda *x, call=call: outputs(call(ag, *x)), examples))
    return result


def _filled(value: Any, take: Callable[[], Any]) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)([_filled(item, take) for item in value])
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        return take() if array.dtype == np.float64 else ag.tensor(array)
    return value


def _arrays(value: Any) -> list[np.ndarray]:
    if isinstance(value, (list, tuple)):
        return [a for item in value for a in _arrays(item)]
    return [np.asarray(value)] if isinstance(value, (np.ndarray, np.generic)) and value.dtype == np.float64 else []


def _of_arguments(label: str, name: str, function: Any, args: Any, kwargs: dict[str, Any]) -> Drawn:
    structure = (tuple(args), tuple(kwargs.values()))

    def run(*tensors: Any) -> list[Any]:
        left = iter(tensors)
        positional, named = _filled(structure, lambda: next(left))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return outputs(function(*positional, **dict(zip(kwargs, named, strict=True))))

    return Drawn(label, name, run, _scaled(_arrays(structure)))


def public() -> dict[str, list[Drawn]]:
    """The calls of the public functions, by name; those without floating-point tensors are left out."""
    results = [call for name in public_calls.CALLS for call in _of_table(name)]
    for i, case in enumerate([*composite_cases.CASES, *composite_cases.COUNTS, *composite_cases.VALUES]):
        name = "nn.functional.pdist" if case.name == "pdist" else case.name
        results.append(_of_arguments(f"{name}-c{i}", name, operator.attrgetter(name)(ag), case.args, case.kwargs))
    rng = np.random.default_rng(2)
    for name, case in nn_cases.CASES.items():
        function = getattr(ag.nn.functional, name)
        for i, (args, kwargs) in enumerate(case(rng)):
            label = f"nn.functional.{name}-f{i}"
            results.append(_of_arguments(label, f"nn.functional.{name}", function, args, kwargs))
    return _by_name([call for call in results if call.examples[0]])


def _by_name(calls: list[Drawn]) -> dict[str, list[Drawn]]:
    seen: dict[str, list[Drawn]] = {}
    for call in calls:
        seen.setdefault(call.name, []).append(call)
    return seen


# ---- ops and modules -------------------------------------------------------------------------------------


def of_row(row: Any) -> list[Drawn]:
    """The samples of a row of the op table. All tensors of a call differ from example to example, indices as well.

    Inputs that must not require grad are constants.
    """
    draws, results = [row.draw(seed) for seed in range(N)], []
    for k, first in enumerate(draws[0]):
        samples = [draw[k] for draw in draws]
        if len({repr(sample) for sample in samples}) > 1:
            samples = [first] * N

        def run(*tensors: Any, first: Any = first) -> list[Any]:
            left = iter(tensors)
            args = [[next(left) for _ in a] if isinstance(a, list) else next(left) if isinstance(a, np.ndarray) else a
                    for a in first.args]
            args = [a.detach() if name in row.definition.nondiff and isinstance(a, ag.Tensor) else a
                    for name, a in itertools.zip_longest(row.definition.inputs[: len(args)], args)]
            return outputs(row.call(*args, **first.kwargs))

        results.append(Drawn(f"{first}", row.op, run, [sample.arrays for sample in samples]))
    return [call for call in results if call.examples[0]]


def of_module(name: str, training: bool) -> list[Drawn]:
    """The cases of a module, as functions of its parameters and inputs."""
    seen = []
    for args, kwargs, arrays in (module_cases.CASES | module_cases.LOSSES)[name]:
        made, inputs = _module(name, args, kwargs), [ag.tensor(a) for a in arrays]
        made(*inputs)  # a lazy one gets its parameters
        made.train(training)
        names = [key for key, _ in made.named_parameters()]
        buffers = {key: b.detach().clone() for key, b in made.named_buffers()}

        def run(*tensors: Any, made: Any = made, names: Any = names, buffers: Any = buffers) -> list[Any]:
            state = {**dict(zip(names, tensors, strict=False)), **{key: b.clone() for key, b in buffers.items()}}
            return outputs(func.functional_call(made, state, tensors[len(names) :]))

        drawn = [[p.numpy(force=True) for _, p in made.named_parameters()] + list(arrays)]
        drawn += [[a * (1 - 0.06 * k) if a.dtype == np.float64 else a for a in drawn[0]] for k in range(1, N)]
        seen.append(Drawn(name, name, run, drawn))
    return seen


def _module(name: str, args: Any, kwargs: dict[str, Any]) -> Any:
    def convert(value: Any) -> Any:
        return ag.tensor(value) if isinstance(value, np.ndarray) else value

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        made = getattr(ag.nn, name)(*map(convert, args), **{key: convert(value) for key, value in kwargs.items()})
    return made.to(ag.get_default_device(), ag.float64)


# ---- the comparisons -------------------------------------------------------------------------------------


def array_of(x: Any) -> np.ndarray:
    return np.asarray(x.numpy(force=True))


def stacked(call: Drawn) -> list[Any]:
    return [ag.tensor(np.stack(parts)) for parts in zip(*call.examples, strict=True)]


def floating(call: Drawn) -> list[int]:
    return [i for i, a in enumerate(call.examples[0]) if a.dtype.kind == "f"]


def variables(call: Drawn, arrays: list[np.ndarray]) -> list[Any]:
    return [ag.tensor(a, requires_grad=a.dtype.kind == "f") for a in arrays]


def differentiable(call: Drawn) -> list[int]:
    """The numbers of the outputs that have a gradient."""
    return [i for i, out in enumerate(call.run(*variables(call, call.examples[0]))) if out.requires_grad]


def movable(call: Drawn) -> list[int]:
    """The numbers of the inputs with a gradient, which may have tangents; all floating ones if no output has one."""
    xs, at, live = variables(call, call.examples[0]), floating(call), differentiable(call)
    outs = call.run(*xs)
    if not live:
        return at
    grads = ag.autograd.grad([outs[i].sum() for i in live], [xs[i] for i in at], allow_unused=True)
    return [i for i, g in zip(at, grads, strict=True) if g is not None]


def squares(call: Drawn, live: list[int]) -> Callable[..., Any]:
    """The sum of the squares of the outputs `live`, as a function of all tensors."""

    def loss(*tensors: Any) -> Any:
        outs = call.run(*tensors)
        return sum([(outs[i] * outs[i]).sum() for i in live])

    return loss


def gradients(outs: Any, xs: list[Any], structure: Any = None) -> list[np.ndarray]:
    """By reverse mode on plain tensors; zeros where there are none."""
    grads = ag.autograd.grad(outs, xs, structure, allow_unused=True)
    return [np.zeros(x.shape) if g is None else array_of(g) for g, x in zip(grads, xs, strict=True)]


def compare(actual: Any, expected: list[list[np.ndarray]], what: str, tolerance: float = 1e-8) -> None:
    """`found` has one tensor per output, with the examples along dimension 0; `expected` has a list per example."""
    assert len(actual) == len(expected[0]), what
    for j, out in enumerate(actual):
        loop = np.stack([outs[j] for outs in expected])
        np.testing.assert_allclose(array_of(out), loop, rtol=tolerance, atol=tolerance, err_msg=what)


def assert_vmap(call: Drawn) -> None:
    """vmap gives what a loop over the examples gives, in the same dtypes."""
    expected = [call.run(*[ag.tensor(a) for a in arrays]) for arrays in call.examples]
    result = func.vmap(lambda *x: tuple(call.run(*x)))(*stacked(call))
    assert [out.dtype for out in result] == [out.dtype for out in expected[0]], call.label
    compare(result, [[array_of(out) for out in outs] for outs in expected], call.label)


def tangents_of(call: Drawn, at: Sequence[int], seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [np.asarray(rng.normal(size=call.examples[0][i].shape)) for i in at]


def filled(tensors: list[Any], at: Sequence[int], values: Any) -> list[Any]:
    """`tensors` with `values` in place of those `at`."""
    results = list(tensors)
    for i, x in zip(at, values, strict=True):
        results[i] = x
    return results


def assert_jvp(call: Drawn) -> None:
    """<w, J t> = <J^T w, t>; outputs without a derivative have a zero tangent."""
    xs, live = variables(call, call.examples[0]), differentiable(call)
    plain = [x.detach() for x in xs]
    if not call.run(*plain):
        return  # no tensors to compare: jvp refuses a function without outputs
    at = movable(call)
    moving = tangents_of(call, at, 3)
    outs, moved = func.jvp(lambda *x: tuple(call.run(*filled(plain, at, x))), tuple(plain[i] for i in at),
                           tuple(ag.tensor(t) for t in moving))
    expected = call.run(*xs)
    for i, (out, t, a) in enumerate(zip(outs, moved, expected, strict=True)):
        np.testing.assert_allclose(array_of(out), array_of(a), rtol=1e-10, atol=1e-10, err_msg=call.label)
        assert i in live or not array_of(t).any(), call.label
    if not live:
        return
    rng = np.random.default_rng(4)
    weights = [np.asarray(rng.normal(size=expected[i].shape)) for i in live]
    back = gradients([expected[i] for i in live], [xs[i] for i in at], [ag.tensor(w) for w in weights])
    left = sum(float(np.nansum(w * array_of(moved[i]))) for w, i in zip(weights, live, strict=True))
    right = sum(float(np.nansum(g * t)) for g, t in zip(back, moving, strict=True))
    size = sum(float(np.nansum(abs(g * t))) for g, t in zip(back, moving, strict=True))
    assert abs(left - right) <= 1e-8 * (1 + size), call.label


def assert_vmap_of_grad(call: Drawn) -> None:
    """The gradients of each example, as reverse mode gives them for it alone."""
    at, live = tuple(floating(call)), differentiable(call)
    if not live:
        return
    loss, expected = squares(call, live), []
    for arrays in call.examples:
        xs = variables(call, arrays)
        expected.append(gradients(loss(*xs), [xs[i] for i in at]))
    compare(func.vmap(func.grad(loss, at))(*stacked(call)), expected, call.label)


def assert_vmap_of_jvp(call: Drawn) -> None:
    """Tangents, and tangents of gradients, of each example."""
    live = differentiable(call)
    if not live:
        return
    at = tuple(movable(call))
    loss = func.grad(squares(call, live), at)
    moving = [tangents_of(call, at, seed) for seed in range(N)]

    def both(tensors: list[Any], moving: list[Any]) -> tuple[Any, ...]:
        def push(f: Any) -> Any:
            points = tuple(tensors[i] for i in at)
            return func.jvp(lambda *x: tuple(f(*filled(tensors, at, x))), points, tuple(moving))[1]

        return (*push(lambda *x: [out for i, out in enumerate(call.run(*x)) if i in live]), *push(loss))

    expected = [both([ag.tensor(a) for a in arrays], [ag.tensor(t) for t in moving[k]])
                for k, arrays in enumerate(call.examples)]
    result = func.vmap(both)(stacked(call), [ag.tensor(np.stack(t)) for t in zip(*moving, strict=True)])
    compare(result, [[array_of(t) for t in row] for row in expected], call.label, 1e-7)
