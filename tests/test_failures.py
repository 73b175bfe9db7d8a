"""A training step that fails at any point: memory runs out, the user interrupts, a rule or a hook raises.

Whatever happens, every `.grad` is what it was or complete, each parameter was stepped with its state or not at all,
nothing is kept in memory, and the next step computes what it would have computed.
"""

import _thread
import dis
import functools
import gc
import itertools
import random
import signal
import sys
import threading
import time
import tracemalloc
import weakref

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import nn
from autograd_gpu.autograd.function import RUNNING
from autograd_gpu.backend import faults, to_numpy
from autograd_gpu.core.nesting import MAX_NESTED, NESTING
from autograd_gpu.core.node import Node
from autograd_gpu.core.op import RAW, RECORD
from autograd_gpu.core.saved import SavedTensor
from autograd_gpu.nn import functional as F

OPTIMIZERS = {
    "sgd": lambda params: ag.optim.SGD(params, lr=0.1, momentum=0.9, dampening=0.3),
    "plain": lambda params: ag.optim.SGD(params, lr=0.1, weight_decay=0.1),
    "adam": lambda params: ag.optim.Adam(params, lr=0.1, amsgrad=True),
    "nadam": lambda params: ag.optim.NAdam(params, lr=0.1),
    "asgd": lambda params: ag.optim.ASGD(params, lr=0.1, lambd=0.1, alpha=0.5),
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
    own |= {id(p._fn.extra.leaf) for p in world.params if p._fn.extra is not None}  # stands in for a leaf with hooks
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


def fail_everywhere(make, run, check, device, least=1, stride=1):
    """Lets `run(world)` run out of memory at each `stride`th of its allocations, and checks what is left behind."""
    run(make())  # what is made once and kept is no point
    world = make()
    with faults.out_of_memory(ag.device(device), least=least) as allocations:
        run(world)
    for at in range(1, allocations.count + 1, stride):
        world = make()
        gc.freeze()
        with pytest.raises(MemoryError), faults.out_of_memory(ag.device(device), at, least):
            run(world)
        assert not leftovers(world)
        check(world)
    return allocations.count


def test_out_of_memory_at_every_allocation_of_a_step(device, no_gc):
    expected = Expected("adam", device, 0)
    points = fail_everywhere(lambda: World("adam", device, 0), World.train, expected.check, device, NUMBERS)
    assert points > 60


@pytest.mark.parametrize("steps", [0, 1])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
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

    assert fail_everywhere(lambda: World("plain", device, 1), run, expected.check, device) > 70


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
        for found, *either in zip(world.grads(), before, after, strict=True):
            assert found in either
        check_next(world)

    assert fail_everywhere(lambda: World("plain", device), run, check, device, stride=3) > 200


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
        for found, *either in zip(world.values(), *stages[1:3], strict=True):
            assert found in either

    fail_everywhere(make, Large.step, check, device, NUMBERS)


@functools.cache
def interruptible(code):
    """Where `code` may be interrupted: Python looks for signals at a function's start, after calls, and in loops."""
    found, instructions = set(), list(dis.get_instructions(code))
    for done, following in itertools.pairwise(instructions):
        if done.opname == "RESUME" or done.opname.startswith("CALL"):
            found.add(following.offset)
        elif done.opname.startswith("JUMP_BACKWARD"):
            found.add(done.argval)
    return found


class Interrupts:
    """Counts the places in a block where Ctrl-C may strike, and lets it strike at the one with the number `at`.

    Left out: `__del__`, where Python drops it, and the `__exit__` of `no_grad` and its like, which no context manager
    written in Python can protect.
    """

    def __init__(self, at=0):
        self.at, self.count, self.file = at, 0, ""

    def __enter__(self):
        sys.settrace(self._trace)
        return self

    def __exit__(self, *exc):
        sys.settrace(None)

    def _trace(self, frame, event, arg):
        if frame.f_code.co_name in ("__del__", "__exit__"):
            return None
        if event == "call":
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        elif event == "opcode" and frame.f_lasti in interruptible(frame.f_code):
            self.count += 1
            if self.count == self.at:
                self.file = frame.f_code.co_filename
                sys.settrace(None)
                raise KeyboardInterrupt
        return self._trace


@pytest.mark.cpu
@pytest.mark.parametrize(("optimizer", "steps"), [("adam", 0), ("sgd", 1)])
def test_interrupt_in_a_step(optimizer, steps, device, no_gc):
    expected = Expected(optimizer, device, steps)
    world = World(optimizer, device, steps)
    with Interrupts() as interrupts:
        world.train()
    for at in random.Random(0).sample(range(1, interrupts.count), 50):
        world = World(optimizer, device, steps)
        gc.freeze()
        with pytest.raises(KeyboardInterrupt), Interrupts(at) as interrupts:
            world.train()
        assert not leftovers(world)
        if interrupts.file.endswith(("chunks.py", "buckets.py", "optimizers.py")):
            check_next(world)  # a formula was halfway through
        else:
            expected.check(world)


# ---- a rule or a hook that raises ------------------------------------------------------------------------------


class Trouble(Exception):
    """What the rules and hooks below raise."""


class Broken(ag.autograd.Function):
    """The identity, whose backward calls a hook first."""

    @staticmethod
    def forward(ctx, x, hook):
        ctx.hook = hook
        return x * 1.0

    @staticmethod
    def backward(ctx, g):
        ctx.hook()
        return g * 1.0, None


PLACES = {
    "function": lambda net, h, hook: Broken.apply(h, hook),
    "tensor hook": lambda net, h, hook: h.register_hook(hook),
    "node pre-hook": lambda net, h, hook: h.grad_fn.register_prehook(hook),
    "node post-hook": lambda net, h, hook: h.grad_fn.register_hook(hook),
    "leaf hook": lambda net, h, hook: net.shared.weight.register_hook(hook),
    "post-accumulate hook": lambda net, h, hook: net.shared.weight.register_post_accumulate_grad_hook(hook),
}


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("error", [Trouble, KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("place", PLACES)
def test_hook_that_raises(place, error, create_graph, device, no_gc):
    world = World("plain", device)
    raised, errors = error("here"), []

    def hook(*args):
        if errors:
            raise errors[0]

    def loss():
        h = world.net.first(world.x).relu()
        found = PLACES[place](world.net, h, hook)
        return (world.net.shared(found if isinstance(found, ag.Tensor) else h) ** 2).sum()

    old = world.grads()
    gc.freeze()
    errors.append(raised)
    total = loss()
    with pytest.raises(error, match="here") as caught:
        total.backward(retain_graph=True, create_graph=create_graph)
    assert caught.value is raised
    del caught
    raised.__traceback__ = None
    first, shared = world.grads()[0], world.grads()[2]
    assert first == old[0]
    assert (shared == old[2]) is (place == "leaf hook")  # else it was complete before
    assert ag.is_grad_enabled()
    assert NESTING.here.depth == 0 == len(RUNNING.stack)
    errors.clear()
    world.optimizer.zero_grad()
    total.backward(create_graph=create_graph)  # nothing was freed: the same graph again
    again = world.grads()
    world.optimizer.zero_grad()
    loss().backward()
    assert again == world.grads()
    if not create_graph:
        del total
        assert not leftovers(world)


class OpCalls:
    """Counts the calls that rules make of the ops in `space`, RAW or RECORD; the one with the number `at` raises."""

    def __init__(self, space, at=0):
        self.space, self.at, self.count = vars(space), at, 0

    def __enter__(self):
        self.ops = dict(self.space)
        self.space.update({name: self._counted(op) for name, op in self.ops.items()})
        return self

    def __exit__(self, *exc):
        self.space.update(self.ops)

    def _counted(self, op):
        def counted(*args, **kwargs):
            self.count += 1
            if self.count == self.at:
                raise Trouble
            return op(*args, **kwargs)

        return counted


@pytest.mark.parametrize("create_graph", [False, True])
def test_every_op_call_of_a_rule_raises(create_graph, device, no_gc):
    space = RECORD if create_graph else RAW

    def backward(world):
        world.loss().backward(create_graph=create_graph)

    undisturbed = World("plain", device)
    before = undisturbed.grads()
    with OpCalls(space) as calls:
        backward(undisturbed)
    assert calls.count > 10
    for at in range(1, calls.count + 1):
        world = World("plain", device)
        gc.freeze()
        with pytest.raises(Trouble), OpCalls(space, at):
            backward(world)
        for found, *either in zip(world.grads(), before, undisturbed.grads(), strict=True):
            assert found in either
        check_next(world)


class SavedHooks:
    """Pack and unpack, the identity, of which the call with the number `at` raises."""

    def __init__(self, pack=0, unpack=0):
        self.left = {"pack": pack, "unpack": unpack}

    def pack(self, tensor):
        return self.called("pack", tensor)

    def unpack(self, packed):
        return self.called("unpack", packed)

    def called(self, which, value):
        self.left[which] -= 1
        if self.left[which] == 0:
            raise Trouble
        return value


@pytest.mark.parametrize("which", ["pack", "unpack"])
def test_every_saved_tensor_hook_raises(which, device, no_gc):
    def backward(world, hooks):
        with ag.autograd.graph.saved_tensors_hooks(hooks.pack, hooks.unpack):
            world.loss().backward()

    undisturbed, hooks = World("plain", device), SavedHooks()
    before = undisturbed.grads()
    backward(undisturbed, hooks)
    calls = -hooks.left[which]
    assert calls > 8
    for at in range(1, calls + 1):
        world = World("plain", device)
        gc.freeze()
        with pytest.raises(Trouble):
            backward(world, SavedHooks(**{which: at}))
        assert not leftovers(world)
        for found, *either in zip(world.grads(), before, undisturbed.grads(), strict=True):
            assert found in either
        assert which == "unpack" or world.grads() == before
        check_next(world)


def deep(levels, innermost):
    """A backward within a backward within ..., `innermost` in the last of them."""
    def hook(g):
        if levels:
            deep(levels - 1, innermost)
        else:
            innermost()

    with ag.enable_grad():
        y = ag.ones(1, requires_grad=True) * 2
        y.register_hook(hook)
        y.backward()


def test_error_on_a_helper_thread_is_in_no_cycle(no_gc):
    class Witness:
        pass

    def fail():
        witness = Witness()
        seen.append(weakref.ref(witness))
        raise Trouble

    seen = []
    with pytest.raises(Trouble) as caught:
        deep(MAX_NESTED + 2, fail)
    assert seen[0]() is not None  # the traceback has its frame
    del caught
    assert seen[0]() is None


@pytest.mark.cpu
@pytest.mark.parametrize("delay", [0.0, 0.1])
def test_interrupt_waits_for_the_helper_thread(delay):
    """Else its task would go on and write gradients behind the back of whoever caught the interrupt."""
    ended = []

    def innermost():
        time.sleep(delay)  # 0: while the thread is being started
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        time.sleep(0.2)
        ended.append(True)

    with pytest.raises(KeyboardInterrupt):
        deep(MAX_NESTED + 2, innermost)
    assert ended
    assert ag.is_grad_enabled()
    assert NESTING.here.depth == 0


@pytest.mark.cpu
def test_signals_at_random_times(device):
    """The real thing: SIGINT, caused by another thread, at times that a seed draws."""
    expected, draw, armed, struck = Expected("plain", device, 1), random.Random(0), [], 0

    def interrupt(signum, frame):
        if armed and frame.f_code.co_name not in ("__del__", "__exit__"):
            armed.clear()
            raise KeyboardInterrupt

    before, interval = signal.signal(signal.SIGINT, interrupt), sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for _ in range(100):
            world = World("plain", device)
            timer = threading.Timer(draw.uniform(0, 1e-3), _thread.interrupt_main)
            timer.start()
            try:
                armed.append(True)
                world.backward()
                world.clip()
                armed.clear()
            except KeyboardInterrupt:
                struck += 1
            timer.join()
            expected.check(world)
    finally:
        signal.signal(signal.SIGINT, before)
        sys.setswitchinterval(interval)
    assert struck > 10


def held_bytes(device):
    """Bytes in arrays now, those made by NumPy since tracemalloc was started."""
    if device == "cuda":
        return ag.cuda.memory_allocated()
    traces = tracemalloc.take_snapshot().filter_traces([tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)])
    return sum([trace.size for trace in traces.traces])


def test_no_byte_is_held_after_failures(device, no_gc):
    world, held = World("adam", device), []
    tracemalloc.start(1)
    with faults.out_of_memory(ag.device(device), least=NUMBERS) as allocations:
        world.backward()
    world.optimizer.zero_grad()
    for at in (1, *range(2, allocations.count, 3), 1):  # NumPy traces the allocation that failed: twice the same
        with pytest.raises(MemoryError), faults.out_of_memory(ag.device(device), at, NUMBERS):
            world.backward()
        world.optimizer.zero_grad()
        if at == 1:
            held.append(held_bytes(device))
    tracemalloc.stop()
    assert held[0] == held[1]
