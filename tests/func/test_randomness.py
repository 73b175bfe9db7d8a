"""Random numbers under vmap: refused, different for each example, or the same for all."""

from __future__ import annotations

import re

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import func, nn
from autograd_gpu.core.interpret.batched import REFUSED

N = 4
HALF = ag.full((6,), 0.5)  # of which no example has a part

FACTORIES = {
    "rand": lambda x: ag.rand(6),
    "randn": lambda x: ag.randn(6),
    "randint": lambda x: ag.randint(0, 10**6, (6,)),
    "randperm": lambda x: ag.randperm(40),
    "rand_like": lambda x: ag.rand_like(x),
    "randn_like": lambda x: ag.randn_like(HALF),
    "randint_like": lambda x: ag.randint_like(x, 10**6),
    "uniform": lambda x: ag.random.uniform((6,)),
    "normal of numbers": lambda x: ag.normal(0.0, 1.0, (6,)),
    "bernoulli of a number": lambda x: ag.bernoulli(ag.zeros(40), 0.5),
    "bernoulli of a number for a batch": lambda x: ag.bernoulli(ag.cat([x] * 7), 0.5),
    "bernoulli of what is shared": lambda x: ag.bernoulli(ag.full((40,), 0.5)),
    "normal of what is shared": lambda x: ag.normal(HALF, 1.0),
    "poisson of what is shared": lambda x: ag.poisson(HALF * 1000),
    "multinomial of what is shared": lambda x: ag.multinomial(ag.ones(2, 60), 5),
    "dropout of what is shared": lambda x: nn.functional.dropout(ag.ones(40)),
    "rrelu of what is shared": lambda x: nn.functional.rrelu(-HALF, training=True),
    "gumbel_softmax": lambda x: nn.functional.gumbel_softmax(x * 0),
}
OF_A_BATCH = {
    "dropout": lambda x: nn.functional.dropout(ag.cat([x] * 7) * 0 + 1),
    "feature_dropout": lambda x: ag.feature_dropout((ag.cat([x] * 8) * 0 + 1).reshape(4, 6, 2)),
    "alpha_dropout": lambda x: nn.functional.alpha_dropout(ag.cat([x] * 7) * 0 + 1, training=True),
}
BY_DISTRIBUTION = {
    "bernoulli": lambda x: ag.bernoulli(ag.cat([x] * 7) * 0 + 0.5),
    "normal": lambda x: ag.normal(x * 0, 1.0),
    "poisson": lambda x: ag.poisson(x * 0 + 1000),
    "binomial": lambda x: ag.binomial(x * 0 + 1000, x * 0 + 0.5),
    "_standard_gamma": lambda x: ag._standard_gamma(x * 0 + 2),
    "_sample_dirichlet": lambda x: ag._sample_dirichlet(x * 0 + 2),
    "multinomial": lambda x: ag.multinomial(ag.cat([x] * 10) * 0 + 1, 5, replacement=True),
    "multinomial of rows": lambda x: ag.multinomial((ag.cat([x] * 10) * 0 + 1).reshape(2, 30), 5),
    "rrelu": lambda x: nn.functional.rrelu(x * 0 - 1, training=True),
}
WRITES = {
    "normal_": lambda x: x.clone().normal_(),
    "uniform_": lambda x: x.clone().uniform_(),
    "exponential_": lambda x: x.clone().exponential_(),
    "log_normal_": lambda x: x.clone().log_normal_(),
    "cauchy_": lambda x: x.clone().cauchy_(),
    "geometric_": lambda x: x.clone().geometric_(0.001),
    "random_": lambda x: x.clone().random_(0, 10**6),
    "bernoulli_": lambda x: ag.cat([x] * 7).bernoulli_(),
    "bernoulli_ of probabilities": lambda x: ag.cat([x] * 7).bernoulli_(ag.full((42,), 0.5)),
}
ALL = FACTORIES | OF_A_BATCH | BY_DISTRIBUTION | {f"write {name}": f for name, f in WRITES.items()}


def drawn(function, randomness, outer=None, device=None):
    x = ag.ones(N, 6, device=device)
    mapped = func.vmap(function, randomness=randomness)
    if outer is not None:
        return func.vmap(mapped, randomness=outer)(ag.ones(3, N, 6, device=device)).cpu().numpy()
    return mapped(x).cpu().numpy()


def differ(numbers):
    return len(np.unique(numbers.reshape(len(numbers), -1), axis=0)) == len(numbers)


@pytest.mark.parametrize("name", ALL)
def test_refused(name):
    with pytest.raises(RuntimeError, match=re.escape(REFUSED)):
        func.vmap(ALL[name])(ag.ones(N, 6))


@pytest.mark.parametrize("name", ALL)
def test_different(name):
    result = drawn(ALL[name], "different")
    assert differ(result)
    alone = ALL[name](ag.ones(6))
    assert result[0].shape == alone.shape
    assert result.dtype == alone.cpu().numpy().dtype


@pytest.mark.parametrize("name", FACTORIES | OF_A_BATCH)
def test_same(name):
    result = drawn(ALL[name], "same")
    assert (result == result[:1]).all()
    assert len(np.unique(result[0])) > 1
    assert not np.array_equal(result, drawn(ALL[name], "same"))


@pytest.mark.parametrize("name", BY_DISTRIBUTION)
def test_what_cannot_be_the_same(name):
    with pytest.raises(RuntimeError, match=r"same randomness with a batched tensor input.*randomness='different'"):
        drawn(ALL[name], "same")


@pytest.mark.parametrize("name", FACTORIES | OF_A_BATCH)
def test_each_level_by_its_own_rule(name):
    for inner, outer in (("error", "same"), ("same", "error"), ("different", "error"), ("error", "different")):
        with pytest.raises(RuntimeError, match=re.escape(REFUSED)):
            drawn(ALL[name], inner, outer)
    result = drawn(ALL[name], "different", "different")
    assert differ(result.reshape(3 * N, -1))
    result = drawn(ALL[name], "same", "different")
    assert differ(result[:, 0])
    assert (result == result[:, :1]).all()
    result = drawn(ALL[name], "different", "same")
    assert differ(result[0])
    assert (result == result[:1]).all()


def test_randperm_gives_permutations():
    result = drawn(lambda x: ag.randperm(5), "different", "different")
    assert (np.sort(result, -1) == np.arange(5)).all()


def test_draws_of_multinomial_are_those_of_the_example():
    weights = ag.eye(N).reshape(N, 1, N)
    result = func.vmap(lambda w: ag.multinomial(w, 3, replacement=True), randomness="different")(weights)
    np.testing.assert_array_equal(result.cpu().numpy(), np.repeat(np.arange(N), 3).reshape(N, 1, 3))
    with pytest.raises(RuntimeError, match="prob_dist must be 1 or 2 dim"):
        func.vmap(lambda w: ag.multinomial(w, 3), randomness="different")(ag.ones(2, 2, 2, 2))


@pytest.mark.parametrize("name", OF_A_BATCH)
def test_masks(name, device):
    assert differ(drawn(lambda x: OF_A_BATCH[name](x).cpu(), "different", device=device))
    result = drawn(lambda x: OF_A_BATCH[name](x).cpu(), "same", "different", device=device)
    assert differ(result[:, 0])
    assert (result == result[:, :1]).all()


def test_factories_on_a_device(device):
    def draw(x):
        return ag.cat([ag.rand(5, device=device), ag.randperm(5, device=device), x.clone() * ag.randn_like(x)]).cpu()

    result = drawn(draw, "different", "different", device=device)
    assert differ(result.reshape(3 * N, -1))
    assert (np.sort(result[..., 5:10], -1) == np.arange(5)).all()


def test_values_and_gradients_of_one_mask(device):
    """Kept elements are scaled as without vmap; the gradient has the mask of the result."""
    x = ag.rand(N, 50, device=device) + 1
    for function in (nn.functional.dropout, lambda x: ag.feature_dropout(x.reshape(5, 10)).ravel()):

        def loss(x, function=function):
            out = function(x)
            return (out * out).sum(), out

        slope, out = func.vmap(func.grad(loss, has_aux=True), randomness="same")(x)
        slope, out = slope.cpu(), out.cpu()
        mask = out.numpy() != 0
        assert (mask == mask[:1]).all()
        assert 0 < mask.sum() < mask.size
        np.testing.assert_allclose(out.numpy(), mask * x.cpu().numpy() * 2, rtol=1e-6)
        np.testing.assert_allclose(slope.numpy(), out.numpy() * 4, rtol=1e-6)


def test_chunks():
    for randomness, distinct in (("same", 1), ("different", 5)):
        result = func.vmap(lambda x: x + ag.rand(3), randomness=randomness, chunk_size=2)(ag.zeros(5, 3)).cpu().numpy()
        assert len(np.unique(result, axis=0)) == distinct
    chunks = func.vmap(lambda x: x + ag.rand(3), randomness="same", chunk_size=2)
    assert (chunks(ag.zeros(5, 3)) != chunks(ag.zeros(5, 3))).all()


def test_evaluation_draws_nothing():
    assert (func.vmap(lambda x: nn.functional.dropout(x, training=False))(ag.ones(2, 3)) == 1).all()


def test_other_transforms_draw_freely():
    assert func.grad(lambda x: (x * ag.rand(3)).sum())(ag.ones(3)).shape == (3,)
    _, tangent = func.jvp(lambda x: x * ag.randn_like(x), (ag.ones(3),), (ag.ones(3),))
    assert tangent.shape == (3,)


@pytest.mark.parametrize("randomness", ["same", "different"])
@pytest.mark.parametrize("drop", [nn.functional.dropout, nn.functional.alpha_dropout])
def test_what_dropout_keeps_has_the_values_of_an_unbatched_call(drop, randomness):
    """The function of a number that dropout applies is linear: its values at 1 and 2 tell it."""
    plain = [set(drop(ag.full((400,), value), training=True).tolist()) for value in (1.0, 2.0)]
    batched = func.vmap(lambda x: drop(x, training=True), randomness=randomness)
    rows = batched(ag.tensor([[1.0] * 400, [2.0] * 400]))
    for row, values in zip(rows, plain, strict=True):
        assert sorted(set(row.tolist())) == pytest.approx(sorted(values))
