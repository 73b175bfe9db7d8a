"""Generators in a CUDA graph: each replay draws anew, and what the calls would draw."""

import numpy as np
import pytest
from captures import Captured

import autograd_gpu as ag
from autograd_gpu import backend, nn
from autograd_gpu.random.philox import CapturedStream
from autograd_gpu.utils.checkpoint import checkpoint

pytestmark = pytest.mark.cuda


def plain(tensors):
    return [backend.to_numpy(t.detach().array) for t in tensors]


def compared(work, replays=4):
    """Asserts that replays draw what calls draw from the same place on; returns what the replays gave."""
    work()  # loads kernels
    ag.manual_seed(7)
    captured, results = Captured(work), []
    for step in range(replays):
        captured.replay()
        results.append(plain(captured.result))
        if step == 1:  # between two replays others draw
            results.append(plain([ag.rand(3)]))
    place = ag.random.default_generator("cuda").place()
    ag.manual_seed(7)
    for step in range(replays):
        expected = plain(work())
        for ours, theirs in zip(results.pop(0), expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        if step == 1:
            np.testing.assert_array_equal(results.pop(0), plain([ag.rand(3)]))
    assert (ag.random.default_generator("cuda").place()[1] == place[1]).all()


def test_every_kind_of_number():
    rates, half = ag.full((7,), 3.0), ag.full((5,), 0.5)

    def work():
        return [ag.rand(5), ag.randn(4, 3), ag.randint(0, 1000, (6,)), ag.poisson(rates), ag.bernoulli(half),
                ag.distributions.Gamma(half, half, validate_args=False).sample(),
                ag.binomial(rates.round(), ag.full((7,), 0.5)), ag.zeros(9).exponential_()]  # fmt: skip

    compared(work)


@pytest.mark.parametrize("dropout", [nn.Dropout(0.4), nn.Dropout1d(0.4), nn.AlphaDropout(0.4)])
def test_the_mask_of_a_backward_is_that_of_the_forward(dropout):
    x = ag.randn(6, 8, requires_grad=True)

    def work():
        y = dropout(x) * 3
        z = dropout(y)
        return y, z, *ag.autograd.grad(z.sum(), x)

    compared(work)


def test_checkpoints_draw_their_numbers_again():
    x, layer = ag.randn(6, 8, requires_grad=True), nn.Dropout(0.5)

    def block(x):
        return layer(x.sin()) * ag.rand(8)

    def work():
        y = checkpoint(block, layer(x), use_reentrant=False)
        return y, *ag.autograd.grad((y * layer(y)).sum(), x)

    compared(work)


def test_seeds_and_states_between_replays():
    generator = ag.random.Generator("cuda")
    ag.rand(4, generator=generator)
    captured = Captured(lambda: [ag.rand(4, generator=generator)])
    generator.manual_seed(2**63 + 5)
    captured.replay()
    (first,) = plain(captured.result)
    generator.manual_seed(2**63 + 5)
    state = generator.get_state()
    np.testing.assert_array_equal(first, plain([ag.rand(4, generator=generator)])[0])
    generator.set_state(state)
    captured.replay()
    np.testing.assert_array_equal(first, plain(captured.result)[0])


def test_a_constant_counter_is_found(monkeypatch):
    """The comparison of this file would notice it."""
    monkeypatch.setattr(ag.random.Generator, "_taken", lambda self, counters: (7, 0))
    with pytest.raises(AssertionError, match="not equal"):
        compared(lambda: [ag.rand(5)])


def test_counters_that_are_not_taken_are_found(monkeypatch):
    monkeypatch.setattr(CapturedStream, "take", lambda self, counters: (self._words, 0))
    with pytest.raises(AssertionError, match="not equal"):
        compared(lambda: [ag.rand(5), ag.rand(5)])


def test_a_capture_draws_nothing():
    generator = ag.random.default_generator("cuda")
    ag.rand(2)
    before = generator.place()[1].tolist()
    Captured(lambda: ag.rand(2))
    assert generator.place()[1].tolist() == before


@pytest.mark.parametrize("what", ["manual_seed(3)", "seed()", "get_state()", "clone_state()"])
def test_what_a_replay_would_not_do_is_refused(what):
    generator = ag.random.Generator("cuda")
    with pytest.raises(RuntimeError, match=r"a generator on cuda:0 cannot be captured .* outside of the captured code"):
        Captured(lambda: eval(f"generator.{what}", {"generator": generator}))
