"""One run of a function on a tape, and its second derivatives from there, cut into those by each argument."""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ... import backend
from ...autograd.vectorized import basis
from ...backend.arrays import dtypes
from ...backend.arrays.device import Device
from ...core.declare.op import RECORD
from ...core.interpret.batched import Batching, batched
from ...core.interpret.interpreters import below, entered, replaced
from ...core.interpret.recorded import savable
from ...core.interpret.tape import Place, Taping, Untapeable, unlifted
from ...core.tensor import Tensor, wrap
from ...modes import INFERENCE, MODES, enable_grad, inference_mode, no_grad
from ...pytrees import TreeSpec, flatten, tree_map, unflatten
from ..jacobians import Argnums
from ..pytrees import name_of, outputs, with_aux
from ..reverse import picked_arguments, with_arguments
from .cost import of_both, pull_is_less
from .plan import Form, Pair, Plan, form_of
from .pull import pull
from .push import mirrored, picked, push, shaped
from .second_derivative import expanded

LOGGER = logging.getLogger("autograd_gpu.func")
MOST_KEPT = 256  # elements of the inputs, or of the outputs, of which the identity stays in memory


class Selection(NamedTuple):
    """Some pairs of a Hessian, made when they are needed: a large input has many.

    At no more than `few` outputs forward over reverse mode is cheaper for them.
    """

    number: int
    pairs: Callable[[], Sequence[Pair]]
    few: float


class Request(NamedTuple):
    """What is asked for: the name of a form (plan.form_of), and the Jacobian as well or not.

    With a selection the result of a Hessian has its pairs along the last dimension.
    """

    api: str
    form: str
    jacobian: bool
    func: Callable[..., Any]
    argnums: Argnums
    has_aux: bool
    method: str
    selection: Selection | None = None


class Cheaper(Untapeable):
    """Raised where forward over reverse mode is cheaper than what was tried."""


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


class Examples(NamedTuple):
    """The levels of vmap above a tape, the outermost first, the sizes of their batches, and the points below them."""

    levels: tuple[Batching, ...]
    sizes: tuple[int, ...]
    points: Sequence[Tensor]

    def whole(self, x: Any) -> Any:
        """What x is below the levels, with all examples along its first dimensions; x itself if it is not in all."""
        value = unlifted(self.levels, x)
        return x if value is None else value

    def lifted(self, value: Tensor) -> Tensor:
        """The tensor of the levels whose examples lie along the first dimensions of `value`."""
        for level in self.levels:
            value = batched(level, value)
        return value


def examples_of(points: list[Tensor]) -> Examples:
    """The innermost levels of the stack, as many as are levels of vmap in whose examples all of `points` differ."""
    levels: list[Batching] = []
    values: list[Any] = points
    for level in reversed(MODES.stack):
        if not isinstance(level, Batching) or not level.n or not all(level.holds(x) for x in values):
            break
        values = [x._value for x in values]
        levels.insert(0, level)
    return Examples(tuple(levels), tuple([level.n for level in levels]), values)


class Run(NamedTuple):
    """One run of the function on a tape; outs: its outputs, as the tape sees them."""

    tape: Taping
    places: list[Place]
    outputs: list[Tensor]
    out_spec: TreeSpec
    outs: list[Tensor]
    out_places: list[Place | None]
    aux: Any


def taped(
    request: Request, args: tuple[Any, ...], kwargs: dict[str, Any], spec: TreeSpec, examples: Examples
) -> Run:
    with _hearing(Taping(request.api, 'method="nested"', True, examples.levels)) as tape:
        with below(tape):
            aliases = [RECORD.basic_index(savable(x), ...) for x in examples.points]
        places = [tape.add(x) for x in aliases]
        tape.leaves = set(places)
        inputs = with_arguments(args, request.argnums, unflatten(spec, [examples.lifted(x) for x in aliases]))
        with enable_grad():
            output, aux = with_aux(request.func(*inputs, **kwargs), request.api, request.has_aux)
        leaves, out_spec = outputs(output, request.api)
        outs = [examples.whole(out) for out in leaves]
        return Run(tape, places, leaves, out_spec, outs, [tape.place_of(out) for out in outs], aux)


class _hearing(entered):
    """Context manager: enters a tape below its levels, the innermost ones, and lets it hear what they lift."""

    __slots__ = ("_level", "_tapes")

    def __init__(self, tape: Taping) -> None:
        super().__init__(tape, len(tape.levels))
        self._level = tape.levels[-1] if tape.levels else None

    def __enter__(self) -> Taping:
        if self._level is not None:
            self._tapes = self._level.tapes
            self._level.tapes = (*self._tapes, self._interpreter)
        tape: Taping = super().__enter__()
        return tape

    def __exit__(self, *exc: object) -> None:
        if self._level is not None:
            self._level.tapes = self._tapes
        super().__exit__(*exc)


def by_local_terms(request: Request, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Found:
    """The derivatives of a request; Untapeable, which names the reason, where they take another method.

    The tape lies below levels of vmap, or, if it cannot keep what their batch rules run, above them.
    """
    if MODES.bits & INFERENCE:  # a tape has to notice writes
        with inference_mode(False), no_grad():
            return by_local_terms(request, args, kwargs)
    points, spec = points_of(request, args)
    examples = examples_of(points)
    if examples.levels:
        try:
            return _derivatives(request, args, kwargs, points, spec, examples)
        except Untapeable as reason:
            LOGGER.debug(f"{request.api}({name_of(request.func)}) keeps the calls of one example: {reason}")
    return _derivatives(request, args, kwargs, points, spec, Examples((), (), points))


def _derivatives(
    request: Request, args: tuple[Any, ...], kwargs: dict[str, Any], points: list[Tensor], spec: TreeSpec,
    examples: Examples,
) -> Found:  # fmt: skip
    run = taped(request, args, kwargs, spec, examples)
    above = len(MODES.stack) - len(examples.levels)
    with replaced(MODES.stack[:above]):
        plan = Plan(run.tape, run.out_places, request.jacobian)
        firsts, seconds, form = _swept(request, plan, run, points, examples.sizes)
        parts = Parts(points, spec, form, run, examples)
        jacobian = parts.jacobian(firsts) if request.jacobian else None
        second = parts.second(seconds) if request.selection is None else parts.pairs(seconds, request.selection.number)
        return Found(unflatten(run.out_spec, run.outputs), jacobian, second, run.aux)


Rows = list[Any]  # for each output its derivatives along the last axis, (*out.shape, n), or None for zero


def _swept(
    request: Request, plan: Plan, run: Run, points: list[Tensor], sizes: tuple[int, ...]
) -> tuple[Rows, Rows, Form]:
    """The tangents and the second derivatives of each output."""
    d = sum([x.numel() for x in points])
    selection = request.selection
    form = form_of(request.form, d) if selection is None else _selected(request, selection, d, plan, run)
    widest = plan.widest // math.prod(sizes)
    if plan.has_second_derivative and d > 2 * widest:
        raise Untapeable(f"{request.api}: {d} inputs are more than twice the widest value ({widest}), and forward "
                         "over reverse mode is cheaper")
    nothing: Rows = [None] * len(run.outs)
    if not (plan.has_second_derivative or request.jacobian):
        return nothing, nothing, form
    # A Jacobian may be a view of its seeds.
    seeds = dict(zip(run.places, seeds_of(points, sizes, kept=not request.jacobian), strict=True))
    if plan.has_second_derivative and _pulls(request, form, plan, run):
        return *_pulled(plan, seeds, form, run, sizes), form
    streams = push(plan, seeds, form, run.out_places)
    reached = [streams.get(place) for place in run.out_places]
    tangents = [None if s is None else _rows_last(s.tangents, out)
                for s, out in zip(reached, run.outs, strict=True)] if request.jacobian else nothing
    seconds = [None if s is None else _rows_last(s.second_tangents, out)
               for s, out in zip(reached, run.outs, strict=True)]
    return tangents, seconds, form


def _selected(request: Request, selection: Selection, d: int, plan: Plan, run: Run) -> Form:
    """The form of a selection; Cheaper where another method is."""
    if not plan.has_second_derivative:
        return Form("pairs", d, ())
    o = sum([out.numel() for out in run.outputs])
    if request.method == "auto" and o <= selection.few:
        raise Cheaper(f"{request.api}: that has fewer products for {d} inputs, {o} outputs and {selection.number} "
                      "pairs")
    return Form("pairs", d, tuple([(pair,) for pair in selection.pairs()]))


def _rows_last(t: Tensor | None, out: Tensor) -> Any:
    return None if t is None else RECORD.permute(expanded(t, out), (*range(1, out.ndim + 1), 0))


def seeds_of(like: Sequence[Tensor], sizes: tuple[int, ...], kept: bool) -> list[Tensor]:
    """For tensors of n elements in all n tangents of each, the same in all examples. Few `kept` ones are made once."""
    key = tuple([Shaped(x.shape, x.dtype, x.device) for x in like])
    kept = kept and sum([x.numel() for x in key]) <= MOST_KEPT
    return [*(_kept_seeds if kept else _seeds)(key, len(sizes))]


def _seeds(like: tuple[Shaped, ...], levels: int) -> list[Tensor]:
    return [RECORD.reshape(x, (x.shape[0], *(1,) * levels, *x.shape[1:])) if levels else x for x in basis(like)]


class Shaped(NamedTuple):
    shape: tuple[int, ...]
    dtype: np.dtype
    device: Device

    def numel(self) -> int:
        return math.prod(self.shape)


@functools.lru_cache(64)
def _kept_seeds(like: tuple[Shaped, ...], levels: int) -> list[Tensor]:
    """Made below all levels: a trace that heard of it would miss it in the next call."""
    with replaced(()), no_grad():
        return _seeds(like, levels)


def _pulls(request: Request, form: Form, plan: Plan, run: Run) -> bool:
    """Whether adjoints are pulled back: as asked for, or because that costs less, which the log tells."""
    o = sum([out.numel() for out in run.outputs])
    if not (form.d and o) or request.method == "push":  # without elements there is nothing to contract
        return False
    if request.selection is not None:
        return False
    hidden = bool(run.tape.levels) and not plan.shows_examples(run.tape.lifted)
    if request.method == "pull":
        if hidden:
            raise Untapeable(f'{request.api}: a batch rule hides the examples from method="pull"')
        return True
    if hidden or o >= len(form.groups):  # then "push" has no more products, and fewer passes
        return False
    x = run.outs[0]
    is_less = pull_is_less(plan, form, o, x.dtype.itemsize, x.is_cuda)
    if LOGGER.isEnabledFor(logging.DEBUG):
        pushed, pulled = of_both(plan, form, o)
        LOGGER.debug(f"{request.api}({name_of(request.func)}) is computed by {'pull' if is_less else 'push'}: pull "
                     f"takes {pulled}, push {pushed}")
    return is_less


def _pulled(
    plan: Plan, seeds: dict[Place, Tensor], form: Form, run: Run, sizes: tuple[int, ...]
) -> tuple[Rows, Rows]:
    """The tangents and the second derivatives of each output, by `pull`, whose terms have the dtypes of the calls."""
    total, tangents = pull(plan, seeds, form, seeds_of(run.outputs, sizes, kept=True), run.out_places, len(sizes))
    firsts = [None if (t := tangents.get(place)) is None else _rows_last(t, out)
              for place, out in zip(run.out_places, run.outs, strict=True)]
    if total is None:
        return firsts, [None] * len(run.outs)
    parts = [total] if len(run.outs) == 1 else total.split([out.numel() for out in run.outputs], -2)
    return firsts, [_cast(RECORD.reshape(part, (*sizes, *out.shape, part.shape[-1])), out.dtype)
                    for part, out in zip(parts, run.outputs, strict=True)]


class Parts:
    """Cuts derivatives by d elements, which lie along the last axis, into those by each argument."""

    def __init__(self, points: list[Tensor], spec: TreeSpec, form: Form, run: Run, examples: Examples) -> None:
        self.points, self.spec, self.form, self.run, self.examples = points, spec, form, run, examples
        self.sizes = [x.numel() for x in points]

    def jacobian(self, firsts: Rows) -> Any:
        """A pytree of tensors (*out.shape, *x.shape) for each output."""
        return self._of_outputs(firsts, self._firsts, self.form.d)

    def second(self, seconds: Rows) -> Any:
        """A pytree of the form's shape, with the dtypes of the arguments, for each output."""
        name, d = self.form.name, self.form.d
        if name == "laplacian":
            return self._of_outputs(seconds, self._laplacian, 1)
        return self._of_outputs(seconds, *((self._diagonal, d) if name == "diagonal" else (self._hessian, d * d)))

    def pairs(self, seconds: Rows, count: int) -> Any:
        """A tensor (*out.shape, count) for each output: the second derivatives of a selection."""
        return self._of_outputs(seconds, lambda row, shape: row, count)

    def _of_outputs(self, rows: Rows, cut: Callable[[Tensor, tuple[int, ...]], Any], n: int) -> Any:
        """cut(row, shape) for each output, with zeros for None, as tensors of the levels of vmap."""
        results = []
        for row, out, place in zip(rows, self.run.outs, self.run.out_places, strict=True):
            if row is None:
                row = wrap(backend.make(out.device, "zeros", (*out.shape, n), out.dtype))
            tree = cut(row, out.shape)
            results.append(tree_map(self.examples.lifted, tree) if place is not None and self.examples.levels else tree)
        return unflatten(self.run.out_spec, results)

    def _firsts(self, row: Tensor, shape: tuple[int, ...]) -> Any:
        return unflatten(self.spec, [shaped(part, (*shape, *x.shape)) for x, part in self._cut(row, -1)])

    def _laplacian(self, row: Tensor, shape: tuple[int, ...]) -> Any:
        dtype = functools.reduce(dtypes.promote_types, [x.dtype for x in self.points])
        return _cast(shaped(row, shape), dtype)

    def _diagonal(self, row: Tensor, shape: tuple[int, ...]) -> Any:
        parts = flatten(self._firsts(row, shape))[0]
        return unflatten(self.spec, [_cast(part, x.dtype) for part, x in zip(parts, self.points, strict=True)])

    def _hessian(self, row: Tensor, shape: tuple[int, ...]) -> Any:
        d = self.form.d
        whole = row if row.shape[-1] == d * d else picked(row, mirrored(d), -1)
        square = shaped(whole, (*shape, d, d))
        return unflatten(self.spec, [
            unflatten(self.spec, [_cast(shaped(part, (*shape, *x.shape, *y.shape)), x.dtype)
                                  for y, part in self._cut(rows, -1)])
            for x, rows in self._cut(square, -2)
        ])

    def _cut(self, x: Tensor, dim: int) -> list[tuple[Tensor, Tensor]]:
        """The arguments, each with the part of x along `dim` that belongs to it."""
        parts = [x] if len(self.sizes) == 1 else x.split(self.sizes, dim)
        return list(zip(self.points, parts, strict=True))


def _cast(t: Tensor, dtype: np.dtype) -> Tensor:
    return t if t.dtype == dtype else t.to(dtype)
