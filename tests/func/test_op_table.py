"""Every op of the op table under vmap, grad, jvp and their pairs.

The reference is the plain graph, example by example: gradients of a weighted sum of the outputs, their derivative by
the weights, which is the product of the Jacobian and a vector, and their derivative by the inputs, of the Hessian and a
vector.
"""

import functools

import numpy as np
import pytest
from op_db import Call, Sample, as_tuple, values
from op_rows import ROWS

import autograd_gpu as ag
from autograd_gpu.core.declare.op import RECORD, REGISTRY
from autograd_gpu.core.tensor import Tensor

N = 2  # examples in a batch
SAMPLES = 3  # of a row
TOLERANCE = 1e-10
pytestmark = [pytest.mark.cpu, pytest.mark.filterwarnings("ignore:Using a target size")]
TABLE = [row for row in ROWS if row.op in REGISTRY]
RULED = [row for row in TABLE if row.definition.has_rules]


def over(rows, *checks):
    """Parametrises over the rows that do not skip any of these checks of the table.

    Who skips "batch" draws random numbers, which differ from run to run, or has no shape before it has run.
    """
    rows = [row for row in rows if not any(check in row.skip for check in checks)]
    return pytest.mark.parametrize("row", rows, ids=[row.op for row in rows])


def with_arrays_of(other, sample):
    """A sample with the arrays of another one."""
    pairs = zip(sample.args, other.args, strict=True)
    return Sample(*(b if isinstance(b, (np.ndarray, list)) else a for a, b in pairs), **sample.kwargs)


class Case:
    """A sample of an op as a function of its tensors, with N examples of them."""

    def __init__(self, row, k):
        self.op, self.row = row.definition, row
        drawn = [row.draw(seed)[k] for seed in range(N)]
        self.sample = first = drawn[0]
        drawn = [with_arrays_of(other, first) for other in drawn]
        if len({repr(sample) for sample in drawn}) > 1:  # examples have equal shapes
            drawn = drawn[:1] * N
        calls = [Call(row, sample) for sample in drawn]
        count = len(self.op.inputs)
        many = [self._inputs(call.args[:count]) for call in calls]
        self.attributes = dict(zip(self.op.attributes, calls[0].args[count:], strict=False))
        self.attributes |= {name: value for name, value in first.kwargs.items() if name in self.op.attributes}
        self.template = many[0]
        self.places = [i for i, x in enumerate(many[0]) if isinstance(x, Tensor)]
        self.live = tuple(i for i, place in enumerate(self.places) if any(many[0][place] is x for x in calls[0].inputs))
        self.examples = [[inputs[place].detach() for place in self.places] for inputs in many]
        outs, rng = self.outs(*self._leaves(self.examples[0])), np.random.default_rng(0)
        self.kept = [i for i, out in enumerate(outs) if out.requires_grad]
        self.weights = [ag.tensor(rng.normal(size=outs[i].shape)) for i in self.kept]
        self.tangents = [ag.tensor(rng.normal(size=self.examples[0][i].shape)) for i in self.live]

    def _inputs(self, args):
        return list(args[0]) if self.op.variadic else list(args)

    def _leaves(self, tensors):
        return [x.detach().requires_grad_(i in self.live) for i, x in enumerate(tensors)]

    @property
    def stacked(self):
        return [ag.stack(list(values)) for values in zip(*self.examples, strict=True)]

    def outs(self, *tensors):
        """All outputs of the op."""
        inputs = list(self.template)
        for place, x in zip(self.places, tensors, strict=True):
            inputs[place] = x
        return as_tuple(getattr(RECORD, self.op.name)(*([inputs] if self.op.variadic else inputs), **self.attributes))

    def smooth(self, *tensors):
        """The outputs that have a derivative."""
        outs = self.outs(*tensors)
        return [outs[i] for i in self.kept]

    def total(self, *tensors):
        return inner(self.smooth(*tensors), self.weights)

    def split(self, tensors):
        """(points, function of them) for the tensors of one example."""
        def function(*points):
            inputs = list(tensors)
            for i, x in zip(self.live, points, strict=True):
                inputs[i] = x
            return inputs

        return [tensors[i] for i in self.live], function

    def push(self, tensors):
        """The product of the Jacobian and the tangents."""
        points, placed = self.split(tensors)
        return ag.func.jvp(lambda *xs: self.smooth(*placed(*xs)), tuple(points), tuple(self.tangents))[1]

    def push_gradient(self, *tensors):
        """The product of the Hessian of `total` and the tangents, forward over reverse."""
        points, placed = self.split(tensors)
        gradient = ag.func.grad(lambda *xs: self.total(*placed(*xs)), tuple(range(len(points))))
        return ag.func.jvp(gradient, tuple(points), tuple(self.tangents))[1]

    @functools.cached_property
    def expected(self):
        """Per example: gradients, products of the Jacobian, products of the Hessian."""
        return [self._expected(tensors) for tensors in self.examples]

    def _expected(self, tensors):
        leaves = self._leaves(tensors)
        points, weights = [leaves[i] for i in self.live], [w.detach().requires_grad_() for w in self.weights]
        options = {"allow_unused": True, "materialize_grads": True}
        grads = ag.autograd.grad(self.smooth(*leaves), points, weights, create_graph=True, **options)
        product = inner(grads, self.tangents)
        if not product.requires_grad:
            return grads, [ag.zeros_like(w) for w in weights], [ag.zeros_like(x) for x in points]
        pushed = ag.autograd.grad(product, weights, retain_graph=True, **options)
        return grads, pushed, ag.autograd.grad(product, points, **options)


def inner(a, b):
    return sum(((x * y).sum() for x, y in zip(a, b, strict=True)), ag.zeros((), dtype=ag.float64))


def cases(row):
    """Samples with elements first, since they say more."""
    drawn = row.draw()
    order = sorted(range(len(drawn)), key=lambda k: any(not a.size for a in drawn[k].arrays))
    return [Case(row, k) for k in [*order[: SAMPLES - 1], order[-1]] if drawn[k].arrays]


def smooth_cases(row):
    return [case for case in cases(row) if case.kept and case.live]


def same(actual, expected, case, what):
    """Equal sequences of tensors."""
    assert len(actual) == len(expected)
    for i, (mine, other) in enumerate(zip(actual, expected, strict=True)):
        assert (mine.shape, mine.dtype) == (other.shape, other.dtype), f"{what} {i} of {case.sample}"
        np.testing.assert_allclose(values(mine), values(other), TOLERANCE, TOLERANCE, err_msg=f"{what}: {case.sample}")


def mixed(tensors, case, batched):
    """The tensors that are batched, and of the first example those that are not."""
    return [x if b else first for x, first, b in zip(tensors, case.examples[0], batched, strict=True)]


def columns(examples):
    return [ag.stack(list(values)) for values in zip(*examples, strict=True)]


def refused(case, batched):
    """Whether this sample cannot be batched; then it is refused with the reason that the op declares."""
    flags = [False] * len(case.template)
    for place, b in zip(case.places, batched, strict=True):
        flags[place] = b
    return case.row.no_batch(case.sample, flags)


@over(TABLE, "batch")
def test_vmap(row):
    for case in cases(row):
        count = len(case.places)
        for batched in {(True,) * count, *(tuple(i == one for i in range(count)) for one in (0, count - 1))}:
            args = mixed(case.stacked, case, batched)
            mapped = ag.func.vmap(case.outs, tuple(0 if b else None for b in batched), randomness="different")
            if refused(case, batched):
                with pytest.raises(RuntimeError, match=f"{row.op} cannot be batched: .* depends on"):
                    mapped(*args)
                continue
            loop = [case.outs(*mixed(tensors, case, batched)) for tensors in case.examples]
            same(mapped(*args), columns(loop), case, "output")


@pytest.mark.more
@over(RULED, "batch")
def test_vmap_of_grad(row):
    for case in smooth_cases(row):
        mapped = ag.func.vmap(ag.func.grad(case.total, case.live))
        if refused(case, [True] * len(case.places)):
            with pytest.raises(RuntimeError, match=f"{row.op} cannot be batched: .* depends on"):
                mapped(*case.stacked)
            continue
        same(mapped(*case.stacked), columns([grads for grads, _, _ in case.expected]), case, "gradient")


@pytest.mark.more
@over(RULED, "batch")
def test_backward_to_what_the_examples_share(row):
    """The gradient of an input that is not batched is the sum over the examples."""
    for case in smooth_cases(row):
        count = len(case.places)
        for shared in case.live if count > 1 else ():
            batched = tuple(i != shared for i in range(count))
            if refused(case, batched):
                continue
            x = case.examples[0][shared].detach().requires_grad_()
            totals, options = [], {"allow_unused": True, "materialize_grads": True}
            for tensors in case.examples:
                inputs = mixed(tensors, case, batched)
                totals.append(case.total(*inputs[:shared], x, *inputs[shared + 1 :]))
            inputs = mixed(case.stacked, case, batched)
            mapped = ag.func.vmap(case.total, tuple(0 if b else None for b in batched))
            result = mapped(*inputs[:shared], x, *inputs[shared + 1 :]).sum()
            expected = ag.autograd.grad(sum(totals), x, **options)
            if not result.requires_grad:  # the derivative is zero by declaration
                assert not expected[0].any()
                continue
            same(ag.autograd.grad(result, x, **options), expected, case, f"gradient of input {shared}")


@pytest.mark.more
@over(RULED, "jvp", "batch")
def test_jvp(row):
    for case in smooth_cases(row):
        for tensors, (_, pushed, _) in zip(case.examples, case.expected, strict=True):
            same(case.push(tensors), pushed, case, "product")


@pytest.mark.more
@over(RULED, "jvp", "batch")
def test_jvp_of_grad(row):
    for case in smooth_cases(row):
        for tensors, (_, _, product) in zip(case.examples, case.expected, strict=True):
            same(case.push_gradient(*tensors), product, case, "product")


@pytest.mark.more
@over(RULED, "jvp", "batch")
def test_grad_of_jvp(row):
    for case in smooth_cases(row):
        gradient = ag.func.grad(lambda *tensors, case=case: inner(case.push(tensors), case.weights), case.live)
        for tensors, (_, _, product) in zip(case.examples, case.expected, strict=True):
            same(gradient(*tensors), product, case, "gradient")


@over(RULED, "jvp", "batch")
def test_vmap_of_jvp_of_grad(row):
    for case in smooth_cases(row):
        if not refused(case, [True] * len(case.places)):
            result = ag.func.vmap(case.push_gradient)(*case.stacked)
            same(result, columns([product for _, _, product in case.expected]), case, "product")
