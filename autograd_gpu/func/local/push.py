"""Pushes first and second tangents through the steps of a plan: no adjoints, and memory that does not grow with depth.

A value carries a stream: d tangents t_i and a second tangent s_g per group of the form, in one tensor. Through a call
with Jacobian J and second derivative D,

    t_i -> J t_i        s_g -> J s_g + sum over (i, j) in g of D[t_i, t_j]

So a linear call is one product for the whole stream. A part that is zero, or not needed any more, is not there.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ... import backend
from ...backend.arrays.device import Device
from ...backend.cpu.chains import chained
from ...core.declare.op import RECORD
from ...core.declare.op_call import Call
from ...core.interpret.tape import Place
from ...core.tensor import Tensor, wrap
from ...modes import GRAD_OFF, MODES, RECORDING_MASK
from .plan import Form, Pair, Plan, Step
from .second_derivative import expanded, push_batched, second_derivative, slopes


class Stream(NamedTuple):
    """`firsts` tangents of a value, then `seconds` second tangents, (firsts + seconds, *shape); either may be 0.

    What is the same in all examples has size 1 in place of the number of examples.
    """

    tensor: Tensor
    firsts: int
    seconds: int

    @property
    def tangents(self) -> Tensor | None:
        return part(self.tensor, 0, self.firsts)

    @property
    def second_tangents(self) -> Tensor | None:
        return part(self.tensor, self.firsts, self.firsts + self.seconds)


Streams = dict[Place | None, Stream]


def part(x: Tensor, start: int, stop: int) -> Tensor | None:
    """x[start:stop]; None if that has no rows, and x itself if it has all."""
    if start == stop:
        return None
    rows: Tensor = x if stop - start == x._array.shape[0] else RECORD.basic_index(x, slice(start, stop))
    return rows


def push(plan: Plan, seeds: dict[Place, Tensor], form: Form, outs: Sequence[Place | None]) -> Streams:
    """The streams of the places `outs` that have one. `seeds` are the tangents of the inputs, (d, *shape)."""
    streams: Streams = {place: Stream(t, form.d, 0) for place, t in seeds.items()}
    begins = plan.layers if takes_layers(seeds.values()) else ()
    done = -1  # the number of a step that was computed with the one before it
    with chained(puts_off()) as chain:
        for n, (step, (firsts, seconds), dying) in enumerate(zip(plan.steps, plan.needs, plan.dying, strict=True)):
            if (firsts or seconds) and n != done:
                head = streams.get(step.inputs[0]) if firsts and n in begins else None
                if head is not None and begins_layer(plan, n, head.tensor):
                    after = through(plan, n, head.tensor, form)[1]
                    done = n + 1
                    streams[plan.steps[done].outputs[0]] = Stream(after, form.d, len(form.groups))
                else:
                    incoming = [streams.get(place) for place in step.inputs]
                    if any(s is not None for s in incoming):
                        chain.run()
                        pushed = _pushed(step, incoming, form, firsts)
                        streams.update([(p, s) for p, s in zip(step.outputs, pushed, strict=True) if s is not None])
            for place in dying:
                streams.pop(place, None)
    return {place: streams[place] for place in outs if place in streams}


def puts_off() -> bool:
    """Whether nothing reads arrays while calls of ops are recorded: no hook, and no transform or trace."""
    return not MODES.stack and not MODES.bits & ~RECORDING_MASK


def _pushed(step: Step, inputs: Sequence[Stream | None], form: Form, firsts: bool) -> list[Stream | None]:
    """The streams of the results of a step."""
    if step.has_second_derivative:
        return _to_second_order(step, inputs, form, firsts)
    return _to_first_order(step.call, inputs, firsts)


def begins_layer(plan: Plan, n: int, stream: Tensor) -> bool:
    """Whether step n of plan.layers and the next one are computed as one, for the stream (S, *shape) of its input.

    Its leading dimensions must be those of the input, or 1 in place of each.
    """
    inner, shape = stream._array.shape[1:], plan.steps[n].call.args[0]._array.shape
    return inner == shape or inner == (*(1,) * (len(shape) - 1), shape[-1])


def takes_layers(seeds: Iterable[Tensor]) -> bool:
    """Whether an activation and the product beside it are computed as one: on the CPU, below all transforms.

    Not where nothing is recorded: two ops then free the stream of the input in between.
    """
    if MODES.bits & GRAD_OFF or any(t.is_cuda for t in seeds):
        return False
    return all(level.is_trace or level.only_watches for level in MODES.stack)


def through(plan: Plan, n: int, stream: Tensor, form: Form) -> tuple[Tensor, Tensor]:
    """The streams before the activation of the layer that step n begins, without zero second tangents, and behind it.

    A layer is a product with a weight, and the activation that is its only reader.
    """
    weight, act = plan.steps[n].call.args[1], plan.steps[n + 1].activation
    assert act is not None  # plan.layers says so
    before, after = RECORD.layer_jet(act.saved, stream, weight, act.bias, activation=act.name,
                                     parameters=act.parameters, d=form.d, groups=form.groups)
    return before, after


def _to_first_order(call: Call, inputs: Sequence[Stream | None], firsts: bool) -> list[Stream | None]:
    """The streams of the results of a call without a second derivative: all tangents in one batch."""
    d = max([s.firsts for s in inputs if s is not None]) if firsts else 0
    p = max([s.seconds for s in inputs if s is not None])
    tangents = [fitted(s, d, p) for s in inputs]
    if all(t is None for t in tangents):
        return [None] * len(call.outs)
    return [None if t is None else Stream(t, d, p) for t in push_batched(call, tangents, d + p)]


def fitted(stream: Stream | None, d: int, p: int) -> Tensor | None:
    """The stream with exactly d tangents and p second tangents; None if it has neither."""
    if stream is None or not ((d and stream.firsts) or (p and stream.seconds)):
        return None
    if (stream.firsts, stream.seconds) == (d, p):
        return stream.tensor
    parts = []
    for n, own in ((d, stream.tangents), (p, stream.second_tangents)):
        if n:
            parts.append(_zeros(stream.tensor, n) if own is None else own)
    return parts[0] if len(parts) == 1 else RECORD.cat(parts, 0)


def _zeros(like: Tensor, n: int) -> Tensor:
    """Zeros of n rows, shaped as the rows of `like`."""
    return wrap(backend.make(like.device, "zeros", (n, *like.shape[1:]), like.dtype))


def _to_second_order(step: Step, inputs: Sequence[Stream | None], form: Form, firsts: bool) -> list[Stream | None]:
    """The streams of the results of a call with a second derivative."""
    call, d, p = step.call, form.d, len(form.groups)
    stream = inputs[step.live[0]]
    if stream is not None and stream.firsts and step.is_elementwise:
        return [Stream(elementwise_jet(step, stream.tensor, form), d, p)]
    whole = [None if s is None else s._replace(tensor=expanded(s.tensor, x))
             for s, x in zip(inputs, call.inputs, strict=True)]
    return _jet_by_rules(call, whole, form, firsts)


def elementwise_jet(step: Step, stream: Tensor, form: Form) -> Tensor:
    """The stream of the result of a function of each element, in one pass."""
    out = step.call.outs[0]
    if out.ndim == 1 or (out.ndim and not out.is_cuda):  # the passes on the CPU take streams as they lie in memory
        shape, last = out.shape, out.ndim
        if stream.shape[-1] != shape[-1]:  # the last dimension is examples, too
            stream = expanded(stream, out)
        rows = stream if last == 1 else RECORD.permute(stream, (*range(1, last), 0, last))
    else:
        shape = (out.numel(),)
        rows = RECORD.reshape(expanded(stream, out), (stream.shape[0], *shape))
    pushed = _jet_of_rows(step, shape, rows, form)
    if len(shape) > 1:
        pushed = RECORD.permute(pushed, (last - 1, *range(last - 1), last))
    return shaped(pushed, (form.d + len(form.groups), *out.shape))


def _jet_of_rows(step: Step, shape: tuple[int, ...], stream: Tensor, form: Form) -> Tensor:
    """The same for values of `shape` (..., h) and streams (..., S, h)."""
    jet: Tensor
    activation = step.activation
    if activation is None:
        first, second = slopes(step.call, step.live)
        jet = RECORD.chain_stream(shaped(first, shape), shaped(second, shape), stream, d=form.d, groups=form.groups)
        return jet
    saved, bias = activation.saved, activation.bias
    if bias is not None and saved.shape != shape:
        saved, bias = saved + bias, None
    jet = RECORD.activation_jet(shaped(saved, shape), stream, bias, activation=activation.name,
                                parameters=activation.parameters, d=form.d, groups=form.groups)
    return jet


def shaped(x: Any, shape: tuple[int, ...]) -> Tensor:
    """x in another shape; x itself if it has it."""
    return x if x.shape == shape else RECORD.reshape(x, shape)


def _jet_by_rules(call: Call, inputs: Sequence[Stream | None], form: Form, firsts: bool) -> list[Stream | None]:
    """The same for a call of any op: its jvp, and its second derivative for all pairs, each in one batch."""
    d, p = form.d, len(form.groups)
    before = p if any(s is not None and s.seconds for s in inputs) else 0
    carried = push_batched(call, [fitted(s, d, before) for s in inputs], d + before)
    own = own_seconds(call, [None if s is None else s.tangents for s in inputs],
                      [None if t is None else part(t, 0, d) for t in carried], form)
    streams: list[Stream | None] = []
    for t, s in zip(carried, own, strict=True):
        if t is None:
            streams.append(None)
        elif s is None:
            streams.append(Stream(t, d, before))
        else:
            both = part(t, d, d + p) + s if before else s
            streams.append(Stream(RECORD.cat([part(t, 0, d), both], 0), d, p) if firsts else Stream(both, 0, p))
    return streams


def own_seconds(call: Call, tangents: Sequence[Any], carried: Sequence[Any], form: Form) -> list[Any]:
    """The second derivative of a call along the pairs of each group, (p, *shape) per result; None means zero.

    tangents: those of the inputs, (d, *shape); carried: those of the results.
    """
    pairs = form.pairs
    along, also = [_rows(tangents, pairs, k) for k in (0, 1)]
    terms = second_derivative(call, along, also, _rows(carried, pairs, 1), len(pairs))
    return [None if s is None else summed(s, form, 0) for s in terms]


def _rows(tangents: Sequence[Any], pairs: Sequence[Pair], k: int) -> list[Any]:
    """Of each tensor of d tangents the rows that are element k of the pairs."""
    rows = [pair[k] for pair in pairs]
    return [t if t is None or rows == list(range(t.shape[0])) else picked(t, rows, -t.ndim) for t in tangents]


def picked(x: Tensor, rows: Sequence[int], dim: int) -> Tensor:
    """The elements of x with these numbers along a dimension, counted from the right."""
    values: Tensor = RECORD.advanced_index(x, _indices(tuple(rows), x.device), dims=(dim,))
    return values


@functools.lru_cache(256)
def mirrored(d: int) -> tuple[int, ...]:
    """For each (i, j) of a d by d matrix the number of its pair i <= j."""
    place = np.zeros((d, d), np.int64)
    place[np.triu_indices(d)] = np.arange(d * (d + 1) // 2)
    return tuple(np.maximum(place, place.T).reshape(-1).tolist())


@functools.lru_cache(256)
def _indices(rows: tuple[int, ...], device: Device) -> Tensor:
    return wrap(backend.to_device(np.asarray(rows, np.int64), device))


def summed(x: Tensor, form: Form, dim: int) -> Tensor:
    """Of the terms of all pairs along dimension `dim` (0 or -1) the sums over each group, which are equally long."""
    p = len(form.groups)
    if x.shape[dim] == p:
        return x
    split = (p, -1, *x.shape[1:]) if dim == 0 else (*x.shape[:-1], p, -1)
    sums: Tensor = RECORD.sum(RECORD.reshape(x, split), 1 if dim == 0 else -1)
    return sums
