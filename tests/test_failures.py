"""A training step that fails at any point: memory runs out, the user interrupts, a rule or a hook raises.

Whatever happens, every `.grad` is what it was or complete, each parameter was stepped with its state or not at all,
nothing is kept in memory, and the next step computes what it would have computed.
"""

import gc

import pytest

import autograd_gpu as ag
from autograd_gpu import nn
from autograd_gpu.autograd.function import RUNNING
from autograd_gpu.backend import faults, to_numpy
from autograd_gpu.core.nesting import NESTING
from autograd_gpu.core.node import Node
from autograd_gpu.core.saved import SavedTensor
from autograd_gpu.nn import functional as F
from autograd_gpu.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

OPTIMIZERS = {
    "sgd": lambda params: ag.optim.SGD(params, lr=0.1, momentum=0.9, dampening=0.3),
    "plain": lambda params: ag.optim.SGD(params, lr=0.1, weight_decay=0.1),
    "adam": lambda params: ag.optim.Adam(params, lr=0.1, amsgrad=True),
    "nadam": lambda params: ag.optim.NAdam(params, lr=0.1),
    "asgd": lambda params: ag.optim.ASGD(params, lr=0.1, lambd=0.1, alpha=0.5),
}


class Net(nn.Module):
    """A layer that is used twice, normalization, dropout, and a layer that is not used at all."""

    def __init__(self):
        super().__init__()
        self.first, self.shared, self.norm = nn.Linear(5, 4), nn.Linear(4, 4), nn.LayerNorm(4)
        self.drop, self.last, self.idle = nn.Dropout(0.3), nn.Linear(4, 3), nn.Linear(2, 2)

    def forward(self, x):
        h = self.shared(self.first(x).relu())
        return self.last(self.shared(self.drop(self.norm(h)).relu()))


class World:
    """A network with gradients from an earlier backward, its optimizer, and a batch."""

    def __init__(self, optimizer, device, steps=1):
        ag.manual_seed(0)
        self.net = Net().to(device)
        self.params = list(self.net.parameters())
        self.make = OPTIMIZERS[optimizer]
        self.optimizer = self.make(self.params)
        self.x, self.y = ag.randn(6, 5, device=device), ag.tensor([0, 1, 2, 0, 1, 2], device=device)
        for _ in range(steps):
            self.loss().backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
        self.loss().backward()

    def loss(self):
        ag.manual_seed(7)
        return F.cross_entropy(self.net(self.x), self.y)

    def backward(self):
        self.loss().backward()

    def clip(self):
        nn.utils.clip_grad_norm_(self.params, 0.1)

    def step(self):
        self.optimizer.step()

    def train(self):
        """One training step, onto whatever gradients there are."""
        for phase in (self.backward, self.clip, self.step):
            phase()

    def twin(self):
        """A world of the same values that has nothing else in common with this one."""
        other = object.__new__(World)
        other.__dict__.update(self.__dict__)
        other.net = Net().to(self.x.device)
        other.net.load_state_dict(self.net.state_dict())
        other.params = list(other.net.parameters())
        other.optimizer = self.make(other.params)
        other.optimizer.load_state_dict(self.optimizer.state_dict())
        return other

    def grads(self):
        return [None if p.grad is None else bits(p.grad) for p in self.params]

    def values(self):
        """Per parameter its value and all of its optimizer's state."""
        return [(bits(p), {k: bits(v) for k, v in self.optimizer.state[p].items()}) for p in self.params]


class Checkpointed(World):
    """The same step with checkpoints in checkpoints, one of which keeps the results of products."""

    def loss(self):
        ag.manual_seed(7)

        def contexts():
            return create_selective_checkpoint_contexts([ag.linear])

        def embed(x):
            return self.net.shared(self.net.first(x).relu())

        def net(x):
            h = checkpoint(embed, x, use_reentrant=False, context_fn=contexts)
            h = checkpoint(lambda h: self.net.drop(self.net.norm(h)).relu(), h, use_reentrant=False)
            return self.net.last(self.net.shared(h))

        return F.cross_entropy(checkpoint(net, self.x, use_reentrant=False), self.y)


def bits(value):
    return to_numpy(value.array).tobytes() if isinstance(value, ag.Tensor) else value


class Expected:
    """What an undisturbed step leaves behind: gradients after each phase, and values before and after it."""

    def __init__(self, optimizer, device, steps):
        world = World(optimizer, device, steps)
        self.before, self.grads = world.values(), [world.grads()]
        for phase in (world.backward, world.clip, world.step):
            phase()
            self.grads.append(world.grads())
        self.after = world.values()

    def check(self, world):
        """After a failure: each gradient is old or complete, each parameter stepped with its state or not at all."""
        for i, grad in enumerate(world.grads()):
            assert grad in [grads[i] for grads in self.grads]
        for found, before, after in zip(world.values(), self.before, self.after, strict=True):
            assert found in (before, after)
        check_next(world)


def check_next(world):
    """The next step is that of a world that never saw a failure."""
    world.optimizer.zero_grad()
    twin = world.twin()
    world.train()
    twin.train()
    assert world.grads() == twin.grads()
    assert world.values() == twin.values()
    assert ag.is_grad_enabled()
    assert NESTING.here.depth == 0 == len(RUNNING.stack)


def leftovers(world):
    """Tensors, nodes and saved tensors that were made since `gc.freeze` and do not belong to `world`."""
    own = {id(p.grad) for p in world.params} | {id(t) for s in world.optimizer.state.values() for t in s.values()}
    return [o for o in gc.get_objects(0) if isinstance(o, (ag.Tensor, Node, SavedTensor)) and id(o) not in own]


@pytest.fixture
def no_gc():
    """Nothing is freed but by reference counts."""
    gc.collect()
    gc.disable()
    yield
    gc.unfreeze()
    gc.enable()


NUMBERS = 9  # bytes: below are the 0-d arrays that NumPy makes of numbers, also in the midst of a parameter's update


def fail_everywhere(make, run, check, device, least=1):
    """Lets `run(world)` run out of memory at each of its allocations in turn, and checks what is left behind."""
    run(make())  # what is made once and kept is no point
    world = make()
    with faults.out_of_memory(ag.device(device), least=least) as allocations:
        run(world)
    for at in range(1, allocations.count + 1):
        world = make()
        gc.freeze()
        with pytest.raises(MemoryError), faults.out_of_memory(ag.device(device), at, least):
            run(world)
        assert not leftovers(world)
        check(world)
    return allocations.count


@pytest.mark.parametrize("steps", [0, 1])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_out_of_memory_at_every_allocation_of_a_step(optimizer, steps, device, no_gc):
    expected = Expected(optimizer, device, steps)
    points = fail_everywhere(lambda: World(optimizer, device, steps), World.train, expected.check, device, NUMBERS)
    assert points > 60


def test_out_of_memory_at_every_allocation_of_backward(device, no_gc):
    """Numbers included."""
    expected = Expected("plain", device, 1)

    def run(world):
        world.backward()
        world.clip()

    assert fail_everywhere(lambda: World("plain", device, 1), run, expected.check, device) > 70


def test_out_of_memory_with_checkpoints(device, no_gc):
    """The next step is compared with one without checkpoints."""
    expected = Expected("plain", device, 1)
    assert fail_everywhere(lambda: Checkpointed("plain", device), World.train, expected.check, device, NUMBERS) > 100
