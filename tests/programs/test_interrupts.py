"""Rules, hooks and op calls that raise in a training step, and Ctrl-C at any point of it; see test_failures.py."""

import _thread
import gc
import random
import signal
import sys
import threading
import time
import weakref

import pytest
from failing import Expected, Trouble, World, check_next, leftovers
from interrupting import Interrupts

import autograd_gpu as ag
from autograd_gpu.autograd.context import RUNNING
from autograd_gpu.core.declare.op import RAW, RECORD
from autograd_gpu.core.thread_state import MAX_NESTED, THREAD


@pytest.mark.cpu
@pytest.mark.parametrize(("optimizer", "steps"), [("adam", 0), ("sgd", 1)])
def test_interrupt_in_a_step(optimizer, steps, device, no_gc):
    expected = Expected(optimizer, device, steps)
    world = World(optimizer, device, steps)
    with Interrupts() as interrupts:
        world.train()
    assert interrupts.count > 1000
    for at in random.Random(0).sample(range(1, interrupts.count), 50):
        world = World(optimizer, device, steps)
        gc.freeze()
        with pytest.raises(KeyboardInterrupt), Interrupts(at) as interrupts:
            world.train()
        assert not leftovers(world)
        if interrupts.file.endswith(("chunks.py", "buckets.py", "code.py")) or interrupts.file.startswith("<"):
            check_next(world)  # a formula was halfway through
        else:
            expected.check(world)


# ---- a rule or a hook that raises ------------------------------------------------------------------------------


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
        result = PLACES[place](world.net, h, hook)
        return (world.net.shared(result if isinstance(result, ag.Tensor) else h) ** 2).sum()

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
    assert THREAD.state.depth == 0 == len(RUNNING.stack)
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
        for actual, *either in zip(world.grads(), before, undisturbed.grads(), strict=True):
            assert actual in either
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
        for actual, *either in zip(world.grads(), before, undisturbed.grads(), strict=True):
            assert actual in either
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
        time.sleep(delay)  # 0: perhaps while the thread is being started
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        time.sleep(0.2)
        ended.append(True)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            deep(MAX_NESTED + 2, innermost)
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended
    assert ag.is_grad_enabled()
    assert THREAD.state.depth == 0


@pytest.mark.cpu
def test_signals_at_random_times(device):
    """The real thing: SIGINT, caused by another thread, at times that a seed draws; until some have struck.

    How many do depends on the machine's speed: those that come when the step is over strike nothing.
    """
    expected, draw, armed, struck, tries = Expected("plain", device, 1), random.Random(0), [], 0, 0

    def interrupt(signum, frame):
        if armed and frame.f_code.co_name not in ("__del__", "__exit__"):
            armed.clear()
            raise KeyboardInterrupt

    before, interval = signal.signal(signal.SIGINT, interrupt), sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        while tries < 100 or (struck < 5 and tries < 5000):
            tries += 1
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
    assert struck >= 5
