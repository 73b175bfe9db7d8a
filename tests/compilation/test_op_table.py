"""Every row of the op table, compiled: on other data than those of the traces the bits and strides are those of eager.

Values, gradients and second derivatives; the programs run ops by their forward or by an emitter.
"""

import numpy as np
import pytest
from op_rows import BY_MODULE

import autograd_gpu as ag
from autograd_gpu.autograd import grad
from autograd_gpu.compilation.emitters import UFUNCS
from autograd_gpu.core.declare.op import REGISTRY

pytestmark = [
    pytest.mark.cpu, pytest.mark.filterwarnings("ignore:.*runs eagerly", "ignore:Using a target size"),
]  # fmt: skip
FAMILIES = sorted({name.partition(".")[0] for name in BY_MODULE})
# These stay eager: sizes depend on values, values are read, or the row seeds a generator.
EAGER = {
    "argwhere", "bincount", "histc", "histogram_of", "nonzero_places", "poisson", "random_alpha_dropout",
    "random_bernoulli", "random_binomial", "random_dropout", "random_log_gamma", "random_normal", "random_rrelu",
    "repeat_positions", "scatter_prod", "standard_gamma", "unique_all", "unique_runs", "unique_values",
}  # fmt: skip
PARTLY = {"advanced_index", "advanced_index_backward", "advanced_set", "advanced_add"}  # not with masks


def rows_of(family):
    return [row for name, rows in BY_MODULE.items() if name.partition(".")[0] == family for row in rows
            if row.op in REGISTRY and row.op not in EAGER]  # fmt: skip


def function(row, sample, order):
    """The call of a row as a function of its tensors: detached results, gradients, or second derivatives."""

    def fn(*tensors):
        rest = iter(tensors)

        def filled(a):
            return [filled(e) for e in a] if isinstance(a, list) else next(rest) if isinstance(a, np.ndarray) else a

        out = row.call(*map(filled, sample.args), **sample.kwargs)
        outs = [o for o in (out if isinstance(out, (tuple, list)) else (out,)) if isinstance(o, ag.Tensor)]
        xs = [t for t in tensors if t.requires_grad]
        made = outs
        for step in range(order):
            floating = [o for o in made if o.requires_grad]
            if not xs or not floating:
                break
            grads = grad([(o * o).sum() for o in floating], xs, create_graph=step + 1 < order, allow_unused=True)
            made = [g for g in grads if g is not None]
        return tuple([o.detach() for o in made])

    return fn


def tensors(row, sample):
    arrays = [a.astype("float32") if a.dtype.kind == "f" else a.copy() for a in sample.arrays]
    return [ag.tensor(a, requires_grad=a.dtype.kind == "f" and row.definition.has_rules) for a in arrays]


def bits(results):
    return [(t._array.tobytes(), t.shape, t._array.strides, t.dtype) for t in results]


def compared(row, order):
    """The number of samples that stayed eager; the others were replayed, with the bits of eager."""
    eager = 0
    for a, b, c in zip(row.draw(1), row.draw(2), row.draw(3), strict=True):
        if not repr(a) == repr(b) == repr(c) or not a.arrays or not all(x.size for x in a.arrays):
            continue
        fn = function(row, a, order)
        try:
            expected = bits(fn(*tensors(row, c)))
        except (RuntimeError, NotImplementedError, TypeError, ValueError):
            continue  # the sample takes no float32, or has no such derivative
        compiled = ag.compile(fn)
        compiled(*tensors(row, a))
        compiled(*tensors(row, b))
        assert bits(compiled(*tensors(row, c))) == expected, (row.op, a)
        eager += 1 - compiled.counts.compiled
    return eager


def check(family, order):
    for row in rows_of(family):
        if order and not row.definition.has_rules:
            continue
        assert compared(row, order) == 0 or row.op in PARTLY, row.op


@pytest.mark.parametrize("family", FAMILIES)
def test_values(family):
    check(family, 0)


@pytest.mark.more
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("family", FAMILIES)
def test_derivatives(family, order):
    check(family, order)


@pytest.mark.parametrize("name", UFUNCS)
def test_an_emitter_has_the_bits_of_the_forward(name):
    """Also for numbers, NaN, infinity, -0.0 and float64, in the memory of an operand that dies."""
    op, public = REGISTRY[name], getattr(ag, name)
    special = [0.0, -0.0, 1.0, -2.5, 3e38, -1e-40, np.inf, -np.inf, np.nan]
    values = [np.array([[x, y] for x in special for y in special], dtype) for dtype in ("f4", "f8")]
    with np.errstate(all="ignore"):
        for v in values:
            for other in ([ag.tensor(v[:, 1])], [2.5], [-3]) if len(op.inputs) == 2 else ([],):
                def fn(x, *rest, numbers=other):
                    more = rest or numbers
                    return public(public(x, *more), *more)

                x, rest = ag.tensor(v[:, 0]), [t for t in other if isinstance(t, ag.Tensor)]
                compiled = ag.compile(fn)
                for _ in range(2):
                    compiled(x, *rest)
                assert bits([compiled(x, *rest)]) == bits([fn(x, *rest)])
                text = compiled.print_readable(print_output=False)
                assert "group" in text or f"{UFUNCS[name]}" in text
                assert "f_" not in text
