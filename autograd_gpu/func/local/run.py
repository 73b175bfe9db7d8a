"""One run of a function on a tape, and its second derivatives from there, cut into those by each argument."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ... import backend
from ...autograd.vectorized import basis
from ...backend.arrays import dtypes
from ...core.declare.op import RECORD
from ...core.interpret.interpreters import below, entered
from ...core.interpret.recorded import savable
from ...core.interpret.tape import Place, Taping, Untapeable
from ...core.tensor import Tensor, wrap
from ...modes import INFERENCE, MODES, enable_grad, inference_mode, no_grad
from ...pytrees import TreeSpec, flatten, unflatten
from ..jacobians import Argnums
from ..pytrees import outputs, with_aux
from ..reverse import picked_arguments, with_arguments
from .plan import Form, Plan, form_of
from .pull import pull
from .push import picked, push


class Request(NamedTuple):
    """What is asked for: the name of a form (plan.form_of), and the Jacobian as well or not."""

    api: str
    form: str
    jacobian: bool
    func: Callable[..., Any]
    argnums: Argnums
    has_aux: bool
    method: str


class Found(NamedTuple):
    value: Any
    jacobian: Any
    second: Any
    aux: Any


def points_of(request: Request, args: tuple[Any, ...]) -> tuple[list[Tensor], TreeSpec]:
    """The tensors to differentiate by and their structure; ValueError for what is no floating-point tensor."""
    api = request.api
    leaves, spec = flatten(picked_arguments(args, request.argnums))
    for x in leaves:
        if not isinstance(x, Tensor):
            raise ValueError(f"{api}: expected the arguments to contain only tensors, got {type(x)}; for an argument "
                             "that is not to be differentiated use argnums")
        if not x.is_floating_point():
            raise ValueError(f"{api} needs a floating input; got {x.dtype}")
    if not leaves:
        raise ValueError(f"{api}: there is no tensor in the arguments to differentiate by")
    return leaves, spec


class Run(NamedTuple):
    """One run of the function on a tape."""

    tape: Taping
    places: list[Place]
    outs: list[Tensor]
    out_places: list[Place | None]
    out_spec: TreeSpec
    aux: Any


def taped(
    request: Request, args: tuple[Any, ...], kwargs: dict[str, Any], points: list[Tensor], spec: TreeSpec
) -> Run:
    with entered(Taping(request.api, 'method="nested"', reverse=True)) as tape:
        with below(tape):
            aliases = [RECORD.basic_index(savable(x), ...) for x in points]
        places = [tape.add(x) for x in aliases]
        tape.leaves = set(places)
        inputs = with_arguments(args, request.argnums, unflatten(spec, aliases))
        with enable_grad():
            output, aux = with_aux(request.func(*inputs, **kwargs), request.api, request.has_aux)
        outs, out_spec = outputs(output, request.api)
        return Run(tape, places, outs, [tape.place_of(out) for out in outs], out_spec, aux)


def by_local_terms(request: Request, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Found:
    """The derivatives of a request; Untapeable, which names the reason, where they take another method."""
    if MODES.bits & INFERENCE:  # a tape has to notice writes
        with inference_mode(False), no_grad():
            return by_local_terms(request, args, kwargs)
    points, spec = points_of(request, args)
    run = taped(request, args, kwargs, points, spec)
    d = sum([x.numel() for x in points])
    form = form_of(request.form, d)
    plan = Plan(run.tape, run.out_places, request.jacobian)
    if plan.has_second_derivative and d > 2 * plan.widest:
        raise Untapeable(f"{request.api}: {d} inputs are more than twice the widest value ({plan.widest}), and forward "
                         "over reverse mode is cheaper")
    firsts: list[Any] = [None] * len(run.outs)
    seconds = firsts
    if plan.has_second_derivative or request.jacobian:
        seeds = dict(zip(run.places, basis(points), strict=True))
        if plan.has_second_derivative and _pulls(request, form, run.outs):
            firsts, seconds = _pulled(plan, seeds, form, run)
        else:
            streams = push(plan, seeds, form, run.out_places)
            reached = [streams.get(place) for place in run.out_places]
            firsts = [None if stream is None else stream.tangents for stream in reached]
            seconds = [None if stream is None else stream.second_tangents for stream in reached]
    parts = Parts(points, spec, form)
    jacobian = None
    if request.jacobian:
        jacobian = unflatten(run.out_spec, [parts.firsts(t, out) for t, out in zip(firsts, run.outs, strict=True)])
    second = unflatten(run.out_spec, [parts.seconds(s, out) for s, out in zip(seconds, run.outs, strict=True)])
    return Found(unflatten(run.out_spec, run.outs), jacobian, second, run.aux)


def _pulls(request: Request, form: Form, outs: Sequence[Tensor]) -> bool:
    """Whether adjoints are fewer than second tangents; for the Laplacian they never are."""
    o = sum([out.numel() for out in outs])
    if not (form.d and o):  # there is nothing to contract
        return False
    if request.method != "auto":
        return request.method == "pull"
    return form.name != "laplacian" and o < len(form.groups)


def _pulled(plan: Plan, seeds: dict[Place, Tensor], form: Form, run: Run) -> tuple[list[Any], list[Any]]:
    """The tangents and the second tangents of each output, by `pull`, whose terms have the dtypes of the calls."""
    total, tangents = pull(plan, seeds, form, run.outs, run.out_places)
    firsts = [tangents.get(place) for place in run.out_places]
    if total is None:
        return firsts, [None] * len(run.outs)
    rows = RECORD.permute(total, (1, 0)).split([out.numel() for out in run.outs], 1)
    return firsts, [part.reshape((-1, *out.shape)).to(out.dtype) for part, out in zip(rows, run.outs, strict=True)]


class Parts:
    """Cuts derivatives by d elements into those by each argument."""

    def __init__(self, points: list[Tensor], spec: TreeSpec, form: Form) -> None:
        self.points, self.spec, self.form = points, spec, form
        self.sizes = [x.numel() for x in points]

    def firsts(self, t: Any, out: Tensor) -> Any:
        """(d, *out.shape), or None for zero, as a pytree of tensors (*out.shape, *x.shape)."""
        rows = RECORD.permute(_filled(t, out, self.form.d), (*range(1, out.ndim + 1), 0))
        return unflatten(self.spec, [part.reshape((*out.shape, *x.shape)) for x, part in self._cut(rows, -1)])

    def seconds(self, s: Any, out: Tensor) -> Any:
        """(groups, *out.shape), or None for zero, as a pytree of the form's shape, with the dtypes of the arguments."""
        d = self.form.d
        if self.form.name == "laplacian":
            return _cast(_filled(s, out, 1)[0], functools.reduce(dtypes.promote_types, [x.dtype for x in self.points]))
        if self.form.name == "diagonal":
            tangents = flatten(self.firsts(s, out))[0]
            return unflatten(self.spec, [_cast(t, x.dtype) for t, x in zip(tangents, self.points, strict=True)])
        whole = _filled(s, out, d * d) if s is None else picked(s, _mirrored(d), -s.ndim)
        square = RECORD.permute(whole, (*range(1, out.ndim + 1), 0)).reshape((*out.shape, d, d))
        return unflatten(self.spec, [
            unflatten(self.spec, [_cast(part.reshape((*out.shape, *x.shape, *y.shape)), x.dtype)
                                  for y, part in self._cut(rows, -1)])
            for x, rows in self._cut(square, -2)
        ])

    def _cut(self, x: Tensor, dim: int) -> list[tuple[Tensor, Tensor]]:
        """The arguments, each with the part of x along `dim` that belongs to it."""
        parts = [x] if len(self.sizes) == 1 else x.split(self.sizes, dim)
        return list(zip(self.points, parts, strict=True))


def _cast(t: Tensor, dtype: np.dtype) -> Tensor:
    return t if t.dtype == dtype else t.to(dtype)


def _filled(t: Any, out: Tensor, n: int) -> Tensor:
    """t, or zeros of shape (n, *out.shape)."""
    return wrap(backend.make(out.device, "zeros", (n, *out.shape), out.dtype)) if t is None else t


def _mirrored(d: int) -> list[int]:
    """For each (i, j) of a d by d matrix the number of its pair i <= j."""
    place = np.zeros((d, d), np.int64)
    place[np.triu_indices(d)] = np.arange(d * (d + 1) // 2)
    return np.maximum(place, place.T).reshape(-1).tolist()


