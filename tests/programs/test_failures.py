"""Memory that runs out at any point of a training step, and a closure that raises.

Whatever fails, every `.grad` is what it was or complete, each parameter was stepped with its state or not at all,
nothing is kept in memory, and the next step computes what it would have computed.
"""

import itertools
import tracemalloc

import fault_injection
import numpy as np
import pytest
from failing import NUMBERS, OPTIMIZERS, Expected, Scale, Trouble, World, bits, check_next, fail_everywhere
from selection import first

import autograd_gpu as ag
from autograd_gpu import nn
from autograd_gpu.nn import functional as F
from autograd_gpu.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts


def test_out_of_memory_at_every_allocation_of_a_step(device, no_gc):
    expected = Expected("adam", device, 0)
    points = fail_everywhere(lambda: World("adam", device, 0), World.train, expected.check, device, NUMBERS)
    assert points > (60 if device == "cpu" else 55)  # kernels need fewer


@pytest.mark.parametrize("steps", [0, 1])
@pytest.mark.parametrize("optimizer", first(OPTIMIZERS, 2))
def test_out_of_memory_at_every_allocation_of_an_optimizer(optimizer, steps, device, no_gc):
    expected = Expected(optimizer, device, steps)

    def make():
        world = World(optimizer, device, steps)
        world.backward()
        world.clip()
        return world

    fail_everywhere(make, World.step, expected.check, device, NUMBERS)


def test_out_of_memory_at_every_allocation_of_backward(device, no_gc):
    """Numbers included."""
    expected = Expected("plain", device, 1)

    def run(world):
        world.backward()
        world.clip()

    count = fail_everywhere(lambda: World("plain", device, 1), run, expected.check, device)
    assert count > (70 if device == "cpu" else 35)  # kernels need fewer


def test_out_of_memory_at_every_allocation_of_double_backward(device, no_gc):
    """A penalty on the gradient's norm: the graph of a backward, differentiated."""

    def run(world):
        grads = ag.autograd.grad(world.loss(), world.params, create_graph=True, allow_unused=True)
        sum([(g * g).sum() for g in grads if g is not None], world.loss()).backward()

    undisturbed = World("plain", device)
    before = undisturbed.grads()
    run(undisturbed)
    after = undisturbed.grads()

    def check(world):
        for actual, *either in zip(world.grads(), before, after, strict=True):
            assert actual in either
        check_next(world)

    assert fail_everywhere(lambda: World("plain", device), run, check, device, stride=5) > 200


class Large:
    """Parameters of several chunks, of half precision, and not contiguous, each with a gradient."""

    def __init__(self, optimizer, device, dtype):
        values = [ag.linspace(0.5, 1, n, device=device).to(dtype) for n in (70000, 12, 8)]
        self.params = [nn.Parameter(v) for v in (values[0], values[1].reshape(3, 4), values[2].reshape(2, 4).T)]
        self.optimizer = OPTIMIZERS[optimizer](self.params)
        for p in self.params:
            p.grad = p.detach() * 0.5

    values = World.values

    def step(self):
        self.optimizer.step()


@pytest.mark.parametrize("dtype", [ag.float32, ag.float16])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_out_of_memory_in_a_step_of_large_parameters(optimizer, dtype, device, no_gc):
    world = Large(optimizer, device, dtype)
    stages = [world.values()]
    for _ in range(3):
        world.step()
        stages.append(world.values())

    def make():
        world = Large(optimizer, device, dtype)
        world.step()
        return world

    def check(world):
        for actual, *either in zip(world.values(), *stages[1:3], strict=True):
            assert actual in either

    fail_everywhere(make, Large.step, check, device, NUMBERS)


def held_bytes(device):
    """Bytes in arrays now, those made by NumPy since tracemalloc was started."""
    if device == "cuda":
        return ag.cuda.memory_allocated()
    traces = tracemalloc.take_snapshot().filter_traces([tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)])
    return sum([trace.size for trace in traces.traces])


def test_no_byte_is_held_after_failures(device, no_gc):
    world, held = World("adam", device), []
    tracemalloc.start(1)
    with fault_injection.out_of_memory(ag.device(device), least=NUMBERS) as allocations:
        world.backward()
    world.optimizer.zero_grad()
    for at in (1, *range(2, allocations.count, 3), 1):  # NumPy traces the allocation that failed: twice the same
        with pytest.raises(MemoryError), fault_injection.out_of_memory(ag.device(device), at, NUMBERS):
            world.backward()
        world.optimizer.zero_grad()
        if at == 1:
            held.append(held_bytes(device))
    tracemalloc.stop()
    assert held[0] == held[1]


@pytest.mark.parametrize("line_search", [None, "strong_wolfe"])
def test_closure_of_lbfgs_that_raises(line_search, device):
    def steps(failures):
        w = ag.tensor([3.0, -2.0], device=device, requires_grad=True)
        optimizer = ag.optim.LBFGS([w], max_iter=4, lr=0.3, line_search_fn=line_search)
        calls = itertools.count(1)

        def closure():
            optimizer.zero_grad()
            loss = ((w * w - 1) ** 2).sum()
            loss.backward()
            if next(calls) in failures:
                raise Trouble
            return loss

        done = 0
        while done < 3:
            before = bits(w)
            try:
                optimizer.step(closure)
                done += 1
            except Trouble:
                assert bits(w) == before
        return bits(w), optimizer.state[w]["n_iter"]

    undisturbed = steps(())
    for at in range(1, 9):
        assert steps((at, at + 4)) == undisturbed


class Checkpointed(World):
    """The same step with checkpoints in checkpoints, one of which keeps the results of products."""

    def loss(self):
        ag.manual_seed(7)

        def contexts():
            return create_selective_checkpoint_contexts([ag.linear])

        def embed(x):
            return self.net.shared(self.net.first(x).relu())

        def net(x):
            h = Scale.apply(checkpoint(embed, x, use_reentrant=False, context_fn=contexts))
            h.register_hook(lambda g: g * 0.5)
            h = checkpoint(lambda h: self.net.drop(self.net.norm(h)).relu(), h, use_reentrant=False)
            return self.net.last(self.net.shared(h))

        return F.cross_entropy(checkpoint(net, self.x, use_reentrant=False), self.y)


def test_out_of_memory_at_every_allocation_of_checkpoints(device, no_gc):
    """The next step is compared with one without checkpoints."""
    expected = Expected("plain", device, 1)
    least = 100 if device == "cpu" else 50  # kernels need fewer
    make, check = lambda: Checkpointed("plain", device), expected.check
    assert fail_everywhere(make, World.train, check, device, NUMBERS, stride=2) > least
