"""What the methods cost for a plan: "auto" takes the cheaper one.

Work is counted in multiply-adds of products, in elements that passes write, and in calls of ops. On the CPU the weights
below make it a time; on CUDA, where no device has been measured, the multiply-adds decide, then the calls.

The weights were chosen by hand after times on one core of an AMD EPYC, of networks of 16 to 256 units, 100 to 2000 rows
and 2 or 3 inputs, by eager and by compiled code: only their ratios matter.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ...core.declare.batch_rules import BROADCASTING
from ...core.declare.op_call import Call
from ...core.tensor import Tensor
from .plan import Form, Plan, Step
from .second_derivative import takes_rows

MULTIPLY_ADD, ELEMENT, CALL = 0.025, 0.4, 8_000.0  # ns; an element of 4 bytes
SLOPES = 6  # passes for the first two derivatives of a function of each element
PASSES = 16  # inside of an op so many take as long as a call of one, on few elements


class Work(NamedTuple):
    multiply_adds: float = 0.0
    elements: float = 0.0
    calls: float = 0.0

    def plus(self, rows: float, one: float, elements: float, calls: float) -> Work:
        """With another call: `rows` products of `one` multiply-adds each, and passes."""
        return Work(self.multiply_adds + rows * one, self.elements + elements, self.calls + calls)

    def rank(self, itemsize: int, cuda: bool) -> tuple[float, ...]:
        """What is compared: a time, or counts."""
        if cuda:
            return self.multiply_adds, self.calls
        return (self.multiply_adds * MULTIPLY_ADD + self.elements * itemsize / 4 * ELEMENT + self.calls * CALL,)

    def __str__(self) -> str:
        return f"{self.multiply_adds:.3g} multiply-adds, {self.elements:.3g} elements, {self.calls:.0f} calls"


def of_both(plan: Plan, form: Form, outputs: int) -> tuple[Work, Work]:
    """The work of push and that of pull; known from the last plan of this structure."""
    works: tuple[Work, Work] | None = plan.costs.get((form, outputs))
    if works is None:
        works = plan.costs[form, outputs] = of_push(plan, form), of_pull(plan, form, outputs)
    return works


def pull_is_less(plan: Plan, form: Form, outputs: int, itemsize: int, cuda: bool) -> bool:
    """Whether pull costs less than push; known from the last plan of this structure."""
    key = form, outputs, itemsize, cuda
    is_less: bool | None = plan.costs.get(key)
    if is_less is None:
        pushed, pulled = of_both(plan, form, outputs)
        is_less = plan.costs[key] = pulled.rank(itemsize, cuda) < pushed.rank(itemsize, cuda)
    return is_less


def of_push(plan: Plan, form: Form) -> Work:
    """The work of the sweep of push.py."""
    d, p, pairs, work = form.d, len(form.groups), len(form.pairs), Work()
    for step in plan.steps:
        firsts = d if not plan.firsts.isdisjoint(step.outputs) else 0
        rows = firsts + (p if not plan.seconds.isdisjoint(step.outputs) else 0)
        size, one = _size(step), _multiply_adds(step.call)
        if not rows:
            continue
        if not step.has_second_derivative:
            work = work.plus(rows, one, rows * size, _calls(step))
        elif step.is_elementwise:
            passes = SLOPES + rows + d + 2 * pairs
            work = work.plus(0, 0, size * passes, 3 + passes / PASSES)
        else:
            work = work.plus(rows + 2 * pairs, one, size * (rows + 4 * pairs), 12)
    return work


def of_pull(plan: Plan, form: Form, outputs: int) -> Work:
    """The work of the sweeps of pull.py, for so many elements of the outputs."""
    d, p, pairs, o, work = form.d, len(form.groups), len(form.pairs), outputs, Work()
    for step in plan.steps:
        firsts = d if not plan.firsts.isdisjoint(step.outputs) else 0
        back = o if not plan.seconds.isdisjoint(step.inputs) else 0
        size, one = _size(step), _multiply_adds(step.call)
        if not step.has_second_derivative:
            work = work.plus(firsts + back, one, (firsts + back) * size, _calls(step) * (bool(firsts) + bool(back)))
        elif step.is_elementwise:
            passes = (SLOPES + firsts if firsts else 0) + SLOPES + o * (1 + d + 2 * pairs) + back
            work = work.plus(0, 0, size * passes, 3 * bool(firsts) + 9 + passes / PASSES)
        else:
            work = work.plus(firsts + 2 * pairs + back, one, size * (firsts + 4 * pairs + back + o * p), 20)
    return work


def _size(step: Step) -> int:
    """The elements of the results that depend on x."""
    return sum([out.numel() for out, place in zip(step.call.outs, step.outputs, strict=True) if place is not None])


def _calls(step: Step) -> int:
    """The calls of ops that carry tangents, or adjoints, through a call: through vmap they are several."""
    return 1 if takes_rows(step.call, step.live) else 4


def _multiply_adds(call: Call) -> float:
    """Those of a call with two inputs that does not work by element, as if it were a product of two matrices.

    Of sizes (m, k) and (k, n) the inputs have mk and kn elements and the result mn, whose product is (mkn)².
    """
    if call.op.variadic or call.op.batch is BROADCASTING:
        return 0.0
    sizes = [x.numel() for x in call.inputs[:2] if isinstance(x, Tensor)]
    return math.sqrt(sizes[0] * sizes[1] * call.outs[0].numel()) if len(sizes) == 2 else 0.0
