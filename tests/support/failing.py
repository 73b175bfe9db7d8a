"""A training step to fail in, and what has to hold after a failure; for test_failures.py and test_interrupts.py."""

import gc

import fault_injection
import pytest

import autograd_gpu as ag
from autograd_gpu import nn
from autograd_gpu.autograd.context import RUNNING
from autograd_gpu.backend import to_numpy
from autograd_gpu.backend.formulas.native.switch import numpy_code_alone
from autograd_gpu.core.graph.node import Node
from autograd_gpu.core.saved.saved_tensor import SavedTensor
from autograd_gpu.core.thread_state import THREAD
from autograd_gpu.nn import functional as F


class Trouble(Exception):
    """What the rules and hooks below raise."""


OPTIMIZERS = {
    "sgd": lambda params: ag.optim.SGD(params, lr=0.1, momentum=0.9, dampening=0.3),
    "plain": lambda params: ag.optim.SGD(params, lr=0.1, weight_decay=0.1),
    "adam": lambda params: ag.optim.Adam(params, lr=0.1, amsgrad=True),
    "nadam": lambda params: ag.optim.NAdam(params, lr=0.1),
    "asgd": lambda params: ag.optim.ASGD(params, lr=0.1, lambd=0.1, alpha=0.5),
    "rmsprop": lambda params: ag.optim.RMSprop(params, lr=0.1, momentum=0.9, centered=True),
    "rprop": lambda params: ag.optim.Rprop(params, lr=0.1),
}


class Scale(ag.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2.0

    @staticmethod
    def backward(ctx, g):
        return g * 2.0 + 0.0 * ctx.saved_tensors[0]


class Net(nn.Module):
    """A layer that is used twice, normalization, dropout, a user's Function, hooks, and a layer that is not used."""

    def __init__(self):
        super().__init__()
        self.first, self.shared, self.norm = nn.Linear(5, 4), nn.Linear(4, 4), nn.LayerNorm(4)
        self.drop, self.last, self.idle = nn.Dropout(0.3), nn.Linear(4, 3), nn.Linear(2, 2)
        self.last.bias.register_post_accumulate_grad_hook(lambda p: None)

    def forward(self, x):
        h = Scale.apply(self.shared(self.first(x).relu()))
        h.register_hook(lambda g: g * 0.5)
        h = self.norm(h)
        h.grad_fn.register_prehook(lambda gs: None)
        h.grad_fn.register_hook(lambda grads, gs: None)
        return self.last(self.shared(self.drop(h).relu()))


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
        for actual, before, after in zip(world.values(), self.before, self.after, strict=True):
            assert actual in (before, after)
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
    assert THREAD.state.depth == 0 == len(RUNNING.stack)


def leftovers(world):
    """Tensors, nodes and saved tensors that were made since `gc.freeze` and do not belong to `world`."""
    own = {id(p.grad) for p in world.params} | {id(t) for s in world.optimizer.state.values() for t in s.values()}
    own |= {id(p._fn.extra.leaf) for p in world.params if p._fn.extra is not None}  # stands in for a leaf with hooks
    return [o for o in gc.get_objects(0) if isinstance(o, (ag.Tensor, Node, SavedTensor)) and id(o) not in own]


NUMBERS = 9  # bytes: below are the 0-d arrays that NumPy makes of numbers, also in the midst of a parameter's update


@numpy_code_alone()  # from some call on native code takes its place, which makes fewer arrays
def fail_everywhere(make, run, check, device, least=1, stride=1):
    """Lets `run(world)` run out of memory at each `stride`th of its allocations, and checks what is left behind."""
    run(make())  # what is made once and kept is no point
    world = make()
    with fault_injection.out_of_memory(ag.device(device), least=least) as allocations:
        run(world)
    for at in range(1, allocations.count + 1, stride):
        world = make()
        gc.freeze()
        with pytest.raises(MemoryError), fault_injection.out_of_memory(ag.device(device), at, least):
            run(world)
        assert not leftovers(world)
        check(world)
    return allocations.count
