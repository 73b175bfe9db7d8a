"""Every public function and module under vmap, jvp, vmap(grad) and vmap(jvp): equal to a loop, or refused.

The ops behind them, with all combinations of batched tensors, are in test_op_table.py. On an emulated device functions
and modules run under vmap alone: what else a transform calls are the rules, which know no device.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest
from module_cases import CASES as MODULES
from module_cases import LOSSES
from transformed_calls import (
    Drawn,
    N,
    assert_jvp,
    assert_vmap,
    assert_vmap_of_grad,
    assert_vmap_of_jvp,
    of_module,
    outputs,
    public,
)

import autograd_gpu as ag
from autograd_gpu.func import functional_call, vmap
from autograd_gpu.nn import functional as F

pytestmark = [
    pytest.mark.filterwarnings("ignore:index_reduce", "ignore:Using a target size", "ignore:dropout"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # of NumPy: some tables hold NaN and infinities
]

CALLS = public()

SIZE = "{} cannot run under vmap: the size of its result depends on the values"
# The calls, all of a function or one by its label, that cannot run on a batch: the text of the RuntimeError.
REFUSED = {
    **{name: SIZE.format(name) for name in ("masked_select", "nonzero", "unique", "unique_consecutive")},
    "Tensor.__getitem__-2": "how much a mask selects depends on its values",
    "allclose": "attempting to read the values of a Tensor",
    "equal": "attempting to read the values of a Tensor",
}


def run(check, call):
    """Runs a check of a transform with vmap in it, which must fail for calls in REFUSED."""
    text = REFUSED.get(call.label, REFUSED.get(call.name))
    if text is None:
        check(call)
        return
    with pytest.raises(RuntimeError, match=text):
        check(call)


UNKNOWN = {"histogram", "unique", "unique_consecutive"}  # whose derivative is not implemented, as in PyTorch


def differentiate(check, name, calls):
    """Runs a check of a transform with a derivative in it, which must fail in a call of each function in UNKNOWN."""
    refused = False
    for call in calls:
        try:
            check(call)
        except NotImplementedError:
            refused = True
    assert refused == (name in UNKNOWN)


@pytest.mark.parametrize("name", CALLS)
def test_vmap(name, device):
    for call in CALLS[name]:
        run(assert_vmap, call)


@pytest.mark.same_on_cpu
@pytest.mark.parametrize("name", CALLS)
def test_jvp(name, device):
    differentiate(assert_jvp, name, CALLS[name])


DIFFERENTIABLE = ("masked_select", "Tensor.__getitem__")


@pytest.mark.same_on_cpu
@pytest.mark.parametrize("name", [name for name in CALLS if name not in REFUSED or name in DIFFERENTIABLE])
def test_vmap_of_grad(name, device):
    differentiate(functools.partial(run, assert_vmap_of_grad), name, CALLS[name])


# ---- modules, with their parameters batched ---------------------------------------------------------------

STATISTICS = "while the running_mean or running_var, which will be updated in place, were not batched"


def of_modules(check, name, training):
    for call in of_module(name, training):
        if name == "EmbeddingBag" and len(call.examples[0]) > 2:  # with offsets
            with pytest.raises(RuntimeError, match="embedding_bag cannot run under vmap: the size of its result"):
                check(call)
        elif training and updates_statistics(call):
            with pytest.raises(RuntimeError, match=STATISTICS):
                check(call)
        else:
            check(call)


def updates_statistics(call):
    return getattr(call.run.__kwdefaults__["made"], "track_running_stats", False)


NAMES = [*MODULES, *LOSSES]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_modules_under_vmap(name, training, device):
    of_modules(assert_vmap, name, training)


@pytest.mark.same_on_cpu
@pytest.mark.parametrize("name", NAMES)
def test_modules_under_jvp(name, device):
    for call in of_module(name, True):
        assert_jvp(call)


@pytest.mark.same_on_cpu
@pytest.mark.parametrize("name", NAMES)
def test_modules_under_vmap_of_grad(name, device):
    of_modules(assert_vmap_of_grad, name, True)


# ---- calls that read sizes, strides and values ------------------------------------------------------------

X, A, V = (4, 6), (4, 4), (6,)
INDICES = "indices"  # five of [0, 4), others in each example


def regular(a):
    return a + 4 * ag.eye(4, dtype=a.dtype)


FUSED = [ag.nn.Sequential(ag.nn.Linear(6, 5), kind()) for kind in (ag.nn.Tanh, ag.nn.GELU, ag.nn.Softplus)]
READING = {
    "getitem": [(lambda x, i: (x[i], x[0, i], x[i, i], x[..., i], x[i, :, None]), X, INDICES)],
    "getitem at 0-d": [(lambda x, i: (x[i[0]], x[:, i[1]], x[i[0], i[2]], x[i[0], 1:]), X, INDICES)],
    "getitem at five tensors": [(lambda x: x.reshape(1, 2, 2, 3, 2)[tuple(ag.tensor([[0]] * 5))], X)],
    "index_select": [(lambda x, i: x.index_select(0, i), X, INDICES)],
    "index_fill": [(lambda x, i: x.index_fill(0, i, 2.0), X, INDICES)],
    "index_add": [(lambda x, i, y: x.index_add(1, i, y), X, INDICES, (4, 5))],
    "index_put": [(lambda x, i, y: x.index_put((i,), y, True), X, INDICES, (5, 6)),
                  (lambda x, y, z: x.index_put((y > 0,), z), X, X, ())],
    "index_reduce": [(lambda x, i, y, how=how: x.index_reduce(0, i, y, how), X, INDICES, (5, 6))
                     for how in ("prod", "mean", "amax", "amin")],
    "scatter_reduce": [(lambda x, i, y: x.scatter_reduce(0, i[:4, None], y, "prod", include_self=False), X, INDICES,
                        (4, 1)),
                       (lambda x, y: x.scatter_reduce(0, ag.tensor([[0], [0], [2]]), y, "prod"), X, (3, 1))],
    "gather": [(lambda x, i: x.gather(0, i[:4, None]), X, INDICES)],
    "take": [(lambda x, i: x.take(i), X, INDICES)],
    "put": [(lambda x, i, y: x.put(i, y, True), X, INDICES, (5,))],
    "masked_scatter": [(lambda x, y, z: x.masked_scatter(y > 0, z), X, V, (30,)),
                       (lambda x, y: x.masked_scatter(ag.tensor([True, False] * 3), y), X, (30,)),
                       (lambda x, y: x.masked_scatter(y * y < 0, y[:0]), X, V)],
    "repeat_interleave": [(lambda x: x.repeat_interleave(ag.tensor([1, 0, 2, 1]), 0), X),
                          (lambda x, i: x.repeat_interleave(i[:4] * 0 + 1, 0, output_size=4), X, INDICES)],
    "one_hot": [(lambda x, i: F.one_hot(i, 4) * x[0, 0], X, INDICES)],
    "embedding": [(lambda w, i: F.embedding(i, w), X, INDICES)],
    "embedding_bag": [(lambda w, i: F.embedding_bag(i.reshape(1, 5), w, mode="mean"), X, INDICES),
                      (lambda w, i: F.embedding_bag(i, w, ag.tensor([0, 2]), mode="max"), X, INDICES)],
    "bincount": [(lambda w: ag.bincount(ag.tensor([0, 1, 1, 2, 4, 4]), w), V)],
    "unravel_index": [(lambda x, i: ag.unravel_index(i, (2, 2)), X, INDICES)],
    "tril_indices": [(lambda x: x[tuple(ag.tril_indices(4, 6))], X)],
    "view": [(lambda x: x.view(-1) * x.view(2, 12).reshape(-1), X), (lambda x: x.mT.contiguous().view(-1), X),
             (lambda x: x.view_as(ag.ones(24)), X), (lambda x: x.view(ag.int64), X)],
    "stride": [(lambda x: x * x.stride(0) + x.mT.stride(0), X), (lambda x: x * x.is_contiguous(), X)],
    "as_strided": [(lambda x: x.as_strided((2, 3), (6, 2)), X)],
    "splits": [(lambda x: (*x.chunk(2, 1), *x.split(2), *x.tensor_split((1, 3), 1), *x.hsplit(2)), X),
               (lambda x: (*x.unsafe_chunk(2, 1), *x.unsafe_split(2), *x.unsafe_split_with_sizes((1, 3))), X)],
    "like": [(lambda x: x + ag.zeros_like(x) + ag.ones_like(x.mT).mT + ag.full_like(x, 2.0), X),
             (lambda x: x + x.new_ones(4, 6) + x.new_zeros(6) + x.new_full((4, 1), 2.0), X)],
    "copies": [(lambda x: (x * ag.tensor(x), x * x.detach(), x * x.data, ag.as_tensor(x) * 2, x.clone()), X),
               (lambda x: (ag.asarray(x) * 2, ag.asarray(x, copy=True) * x), X)],
    "to": [(lambda x: (x.to(ag.float32).to(ag.float64), x.to(x.device), x.type_as(x)), X)],
    "quantile": [(lambda x, q: x.quantile(q.sigmoid().detach(), dim=1), X, (2,)), (lambda x: x.nanquantile(0.3), X)],
    "cov": [(lambda x, w: ag.cov(x, aweights=w.abs().detach()), X, V)],
    "histc": [(lambda x: ag.histc(x, 4), X)],
    "histogram": [(lambda x: ag.histogram(x, 4), X),
                  (lambda x, w: ag.histogram(x, x[0].sort().values, weight=w), X, X)],
    "inv_ex": [(lambda a: ag.linalg.inv_ex(regular(a), check_errors=True), A),
               (lambda a: ag.linalg.inv_ex(a * 0).info, A)],
    "solve_ex": [(lambda a: ag.linalg.solve_ex(regular(a), a[0], check_errors=True), A)],
    "cholesky_ex": [(lambda a: ag.linalg.cholesky_ex(a @ a.mT + ag.eye(4), check_errors=True), A),
                    (lambda a: ag.linalg.cholesky_ex(-a @ a.mT).info, A)],
    "lu_factor": [(lambda a: ag.linalg.lu_factor(regular(a)), A)],
    "matrix_rank": [(lambda a: (ag.linalg.matrix_rank(a), ag.linalg.matrix_rank(a @ a.mT, hermitian=True)), A)],
    "lstsq": [(lambda a, b: ag.linalg.lstsq(a, b, driver="gelsd")[:2], (5, 2), (5, 1))],
    "cond": [(lambda a: (ag.linalg.cond(a), ag.linalg.cond(regular(a), 1)), A)],
    "matrix_power": [(lambda a: a.matrix_power(0) + a, A)],
    "logcumsumexp": [(lambda x: ag.logcumsumexp(x[0, 0], 0), X)],
    "iteration": [(lambda x: sum(x) * len(x), X)],
    "gaussian_nll_loss": [(lambda x: F.gaussian_nll_loss(x, x * 2, x.abs() + 1), X)],
    "pdist": [(lambda x: F.pdist(x), X)],
    "Sequential": [
        (lambda x, w, b, made=made: functional_call(made, {"0.weight": w, "0.bias": b}, (x,)), X, (5, 6), (5,))
        for made in FUSED
    ],
}  # fmt: skip


def reading(name):
    rng, result = np.random.default_rng(0), []
    for call, *shapes in READING[name]:
        examples = [[rng.integers(0, 4, 5) if s == INDICES else np.asarray(rng.normal(size=s)) for s in shapes]
                    for _ in range(N)]
        result.append(Drawn(name, name, lambda *x, call=call: outputs(call(*x)), examples))
    return result


@pytest.mark.parametrize("check", [assert_vmap, assert_jvp, assert_vmap_of_grad, assert_vmap_of_jvp])
@pytest.mark.parametrize("name", READING)
def test_calls_that_read(name, check, device):
    if check is not assert_vmap:
        differentiate(check, name, reading(name))
        return
    for call in reading(name):
        check(call)


@pytest.mark.parametrize("name", READING)
def test_calls_that_read_two_levels_deep(name, device):
    for call in reading(name):
        twice = [[np.stack([a, b]) for a, b in zip(one, other, strict=True)]
                 for one, other in zip(call.examples, call.examples[1:] + call.examples[:1], strict=True)]  # fmt: skip

        def both(*tensors, call=call):
            return list(vmap(lambda *x: tuple(call.run(*x)))(*tensors))

        assert_vmap(Drawn(name, name, both, twice))


ONE_BY_ONE = {  # in one call at least
    "bincount", "embedding", "embedding_bag", "histc", "histogram", "repeat_interleave",
}


@pytest.mark.parametrize("name", [name for name in READING if name not in ONE_BY_ONE])
def test_calls_that_read_without_examples(name, device):
    for call in reading(name):
        arrays = [np.stack(parts) for parts in zip(*call.examples, strict=True)]
        run = vmap(lambda *x, call=call: tuple(call.run(*x)))
        result, some = run(*[ag.tensor(a[:0]) for a in arrays]), run(*[ag.tensor(a) for a in arrays])
        assert [out.shape for out in result] == [(0, *out.shape[1:]) for out in some]


@pytest.mark.parametrize("name", sorted(ONE_BY_ONE))
def test_what_runs_example_by_example_needs_one(name, device):
    with pytest.raises(RuntimeError, match="a batch of no examples has no result"):  # noqa: PT012
        for call in reading(name):
            vmap(lambda *x, call=call: tuple(call.run(*x)))(*[ag.tensor(a[None][:0]) for a in call.examples[0]])


WRONG = {  # what is refused in one example of several
    "a view": (lambda x: x.mT.view(-1), RuntimeError, "view size is not compatible with input tensor's size"),
    "a negative index": (lambda x, i: x.gather(0, i[:4, None] - 2), IndexError, r"gather\(\): index -2 is out of"),
    "an index": (lambda x, i: x[i + 2], IndexError, r"index [45] is out of bounds"),
    "an index of index_select": (lambda x, i: x.index_select(0, i + 2), IndexError, "out of (bounds|range)"),
    "weights of cov": (lambda x: ag.cov(x, aweights=x[0]), RuntimeError, "aweights cannot be negative"),
    "a quantile": (lambda x: x.quantile(x[0] * 10), RuntimeError, r"q values must be in the range \[0, 1\]"),
    "a variance": (lambda x: F.gaussian_nll_loss(x, x, x), ValueError, "var has negative entry"),
    "a short source": (lambda x: x.masked_scatter(x > 0, x[0, :1]), RuntimeError, "source < number of ones"),
    "a singular matrix": (lambda x: ag.linalg.inv_ex(x[:, :4] * 0, check_errors=True), RuntimeError,
                          "linalg.inv_ex: .Batch element 0.*The diagonal element 1 is zero"),
    "a negative matrix": (lambda x: ag.linalg.cholesky_ex(-x @ x.mT, check_errors=True), RuntimeError,
                          "linalg.cholesky_ex: .Batch element 0"),
    "a singular factor": (lambda x: ag.linalg.lu_factor(x[:, :4] * 0), RuntimeError, r"U\[1,1\] is zero"),
    "five tensors of indices": (lambda x, i: x.reshape(2, 2, 2, 3, 1)[i % 2, i % 2, i % 2, i % 2, i * 0], RuntimeError,
                                "attempting to read the values of a Tensor"),
    "a number": (lambda x: x * x[0, 0].item(), RuntimeError, r"calling .item\(\) on a Tensor"),
    "a condition": (lambda x: x if x.sum() > 0 else -x, RuntimeError, "some data-dependent control flow"),
    "an array": (lambda x: ag.tensor(x.numpy()), RuntimeError, "attempting to read the values of a Tensor"),
    "lengths": (lambda x, i: x[0, :5].repeat_interleave(i), RuntimeError, SIZE.format("repeat_interleave")),
    "cuts": (lambda x, i: x.tensor_split(i.sum()), RuntimeError, "attempting to read the values of a Tensor"),
    "bags": (lambda x, i: F.embedding_bag(i, x, i[:2] * 0), RuntimeError, SIZE.format("embedding_bag")),
    "where": (lambda x: ag.where(x > 0), RuntimeError, SIZE.format("nonzero")),
}  # fmt: skip


@pytest.mark.cpu
@pytest.mark.parametrize(("call", "kind", "text"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_in_an_example_is_refused(call, kind, text):
    x = ag.tensor(np.random.default_rng(0).normal(size=(N, *X)))
    i = ag.tensor([[0, 1, 2, 3, 3]] * N)
    arguments = (x, i) if call.__code__.co_argcount == 2 else (x,)
    with pytest.raises(kind, match=text):
        vmap(call)(*arguments)
