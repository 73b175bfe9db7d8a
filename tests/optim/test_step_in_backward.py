"""optim.step_in_backward: the parameters of ordinary training, with one parameter's gradient at a time."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from optim_cases import ONE_EACH

import autograd_gpu as ag
from autograd_gpu import nn, optim


def net(seed=0):
    ag.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))


def batch(step):
    rng = np.random.default_rng(step)
    return ag.tensor(rng.standard_normal((5, 6)), dtype=ag.float32), ag.tensor(rng.integers(0, 3, 5))


def loss_of(model, step):
    x, y = batch(step)
    return nn.functional.cross_entropy(model(x), y)


def train(model, optimizer, steps, inside, scheduler=None):
    for step in steps:
        loss_of(model, step).backward()
        if not inside:
            optimizer.step()
            optimizer.zero_grad()
        if scheduler is not None:
            scheduler.step()


def values(model):
    return [p.numpy(force=True) for p in model.parameters()]


def assert_same(a, b, **close):
    for x, y in zip(values(a), values(b), strict=True):
        np.testing.assert_allclose(x, y, **({"rtol": 1e-6, "atol": 1e-7} | close))


@pytest.mark.parametrize(("cls", "options"), ONE_EACH)
def test_same_parameters(cls, options):
    one, two = net(), net()
    make = getattr(optim, cls)
    ordinary, inside = make(one.parameters(), **options), make(two.parameters(), **options)
    optim.step_in_backward(inside)
    train(one, ordinary, range(4), False)
    train(two, inside, range(4), True)
    assert_same(one, two)
    assert all(p.grad is None for p in two.parameters())
    assert any(not np.array_equal(a, b) for a, b in zip(values(two), values(net()), strict=True))


def test_groups_schedulers_and_state_dicts():
    one, two = net(), net()

    def make(model):
        layers = list(model)
        groups = [{"params": list(layers[0].parameters()), "lr": 0.1, "weight_decay": 0.1},
                  {"params": [*layers[2].parameters(), *layers[4].parameters()]}]
        optimizer = optim.SGD(groups, lr=0.05, momentum=0.9)
        return optimizer, optim.lr_scheduler.ExponentialLR(optimizer, 0.5)

    ordinary, slower = make(one)
    inside, slower_too = make(two)
    optim.step_in_backward(inside)
    train(one, ordinary, range(3), False, slower)
    train(two, inside, range(3), True, slower_too)
    assert_same(one, two)
    # A state dict from the one goes into the other, and into a third that starts from here.
    three = net(1)
    three.load_state_dict(two.state_dict())
    restored, _ = make(three)
    optim.step_in_backward(restored)
    restored.load_state_dict(inside.state_dict())
    inside.load_state_dict(ordinary.state_dict())
    for model, optimizer, is_inside in ((one, ordinary, False), (two, inside, True), (three, restored, True)):
        train(model, optimizer, range(3, 6), is_inside)
    assert_same(one, two)
    assert_same(one, three)


class Watch:
    """The largest number of gradient bytes that parameters held at once, looked at from every place in a backward."""

    def __init__(self, model):
        self.params, self.peak = list(model.parameters()), 0
        for p in self.params:
            p.register_post_accumulate_grad_hook(lambda p: self.look())

    def look(self):
        self.peak = max(self.peak, sum(p.grad.nbytes for p in self.params if p.grad is not None))


@pytest.mark.parametrize("inside", [False, True])
def test_peak_gradient_bytes(inside):
    model = net()
    watch = Watch(model)
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    if inside:
        optim.step_in_backward(optimizer)
    sizes = [p.nbytes for p in model.parameters()]
    with ag.autograd.graph.on_node_start(lambda node: watch.look()):
        train(model, optimizer, range(2), inside)
    assert watch.peak == (max(sizes) if inside else sum(sizes))


def test_gradients_die_in_mid_backward(no_gc):
    """Not only `.grad` is dropped: nobody else holds the gradient, nor a cycle."""
    model = nn.Sequential(*[nn.Linear(64, 64, bias=False) for _ in range(6)])
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    alive, most = [], []

    def look(node):
        most.append(sum(ref() is not None for ref in alive))

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(lambda p: alive.append(weakref.ref(p.grad)))
    optim.step_in_backward(optimizer)
    with ag.autograd.graph.on_node_start(look):
        model(ag.ones(2, 64)).sum().backward()
    assert len(alive) == 6
    assert max(most) == 0


def test_shared_parameter_is_stepped_once():
    counts = []
    w = ag.ones(3, 3, requires_grad=True)
    optimizer = optim.SGD([w], lr=0.5, momentum=0.9)
    optim.step_in_backward(optimizer)
    w.register_post_accumulate_grad_hook(lambda p: counts.append(p.grad))
    (ag.ones(2, 3) @ w @ w).sum().backward()
    assert counts == [None]  # after the step
    np.testing.assert_allclose(w.numpy(force=True), 1 - 0.5 * 12)


def test_hooks_around_the_step_run_once_per_backward():
    log = []
    model = net()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    first = values(model)[0].copy()

    def after(optimizer, args, kwargs):
        changed = [not np.array_equal(a, b) for a, b in zip(values(model), values(net()), strict=True)]
        log.append(("after", all(changed)))

    optimizer.register_step_pre_hook(
        lambda optimizer, args, kwargs: log.append(("before", np.array_equal(values(model)[0], first))))
    optimizer.register_step_post_hook(after)
    optim.step_in_backward(optimizer)
    loss_of(model, 0).backward()
    assert log == [("before", True), ("after", True)]


def test_a_step_after_it_finds_nothing():
    model = net()
    optimizer = optim.Adam(model.parameters(), lr=0.1)
    optim.step_in_backward(optimizer)
    loss_of(model, 0).backward()
    before = [v.copy() for v in values(model)]
    optimizer.step()
    optimizer.zero_grad()
    assert all(np.array_equal(a, b) for a, b in zip(values(model), before, strict=True))


def test_removed():
    model = net()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    with optim.step_in_backward(optimizer):
        pass
    handle = optim.step_in_backward(optimizer)
    handle.remove()
    handle.remove()
    loss_of(model, 0).backward()
    assert all(p.grad is not None for p in model.parameters())
    assert all(np.array_equal(a, b) for a, b in zip(values(model), values(net()), strict=True))


def test_twice_steps_once():
    one, two = net(), net()
    ordinary, inside = optim.SGD(one.parameters(), lr=0.1), optim.SGD(two.parameters(), lr=0.1)
    optim.step_in_backward(inside)
    optim.step_in_backward(inside)
    train(one, ordinary, range(2), False)
    train(two, inside, range(2), True)
    assert_same(one, two)


def test_frozen_parameters_are_left_alone():
    model = net()
    for p in model[0].parameters():
        p.requires_grad_(False)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    optim.step_in_backward(optimizer)
    loss_of(model, 0).backward()
    same = [np.array_equal(a, b) for a, b in zip(values(model), values(net()), strict=True)]
    assert same == [True, True, False, False, False, False]


def test_a_failed_backward_leaves_each_parameter_old_or_stepped():
    model, twin = net(), net()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    optim.step_in_backward(optimizer)
    handle = model[2].weight.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        loss_of(model, 0).backward()
    other = optim.SGD(twin.parameters(), lr=0.1)
    train(twin, other, range(1), False)
    old = values(net())
    kept = [np.allclose(a, o) for a, o in zip(values(model), old, strict=True)]
    stepped = [np.allclose(a, t, rtol=1e-5) for a, t in zip(values(model), values(twin), strict=True)]
    assert kept[:3] == [True] * 3
    assert stepped[4:] == [True] * 2
    assert all(a != b for a, b in zip(kept, stepped, strict=True))
    handle.remove()
    model.zero_grad()
    loss_of(model, 1).backward()
    assert all(p.grad is None for p in model.parameters())


class Joint(optim.Optimizer):
    def step(self, closure=None):
        """Something that looks at all gradients."""


def test_refused():
    w = ag.ones(2, requires_grad=True)
    for optimizer in (optim.LBFGS([w]), Joint([w], {})):
        with pytest.raises(TypeError, match=f"{type(optimizer).__name__} has a step\\(\\) of its own"):
            optim.step_in_backward(optimizer)
    with pytest.raises(TypeError, match="expected an Optimizer, got list"):
        optim.step_in_backward([w])


def test_an_optimizer_that_is_gone():
    w = ag.ones(2, requires_grad=True)
    handle = optim.step_in_backward(optim.SGD([w]))
    gc.collect()
    with pytest.raises(RuntimeError, match=r"step_in_backward\(\) is gone: keep it"):
        w.sum().backward()
    handle.remove()
    w.sum().backward()


def test_no_circle():
    gc.collect()
    gc.disable()
    try:
        w = ag.ones(2, requires_grad=True)
        optimizer = optim.SGD([w])
        handle = optim.step_in_backward(optimizer)
        w.sum().backward()
        alive = weakref.ref(w), weakref.ref(optimizer)
        del w, optimizer
        assert [ref() for ref in alive] == [None, None]
        handle.remove()
    finally:
        gc.enable()
