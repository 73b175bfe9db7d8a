"""Hooks beside PyTorch's: the same code in both libraries leaves the same log, in the same order, or the same error."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import autograd_gpu as ag

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.cpu

CALLBACK = {torch: torch.autograd.Variable._execution_engine.queue_callback, ag: ag.autograd.graph.queue_callback}


def leaf(lib, *values):
    return lib.tensor(values or (1.0, 2.0, 3.0), dtype=lib.float64, requires_grad=True)


def accumulator(lib, x):
    return lib.autograd.graph.get_gradient_edge(x).node


def plain(value):
    """A hook's argument as numbers."""
    if isinstance(value, (tuple, list)):
        return tuple(plain(v) for v in value)
    return value if value is None or isinstance(value, str) else np.round(value.detach().tolist(), 9).tolist()


class Log(list):
    def hook(self, name, answer=None):
        def hook(*args):
            self.append((name, plain(args)))
            return None if answer is None else answer(*args)

        return hook


def every_kind(lib, log):
    x = leaf(lib)
    y = x * 2
    z = y * 3
    x.register_hook(log.hook("x", lambda g: g * 10))
    accumulator(lib, x).register_prehook(log.hook("x pre", lambda gs: (gs[0] + 1,)))
    y.register_hook(log.hook("y", lambda g: g * 2))
    y.retain_grad()
    y.grad_fn.register_prehook(log.hook("y pre", lambda gs: (gs[0] * 5,)))
    y.grad_fn.register_hook(log.hook("y post", lambda grads, gs: (grads[0] - 1, None)))
    z.sum().backward(retain_graph=True)
    log.append(plain((x.grad, y.grad)))
    z.sum().backward(inputs=[x], retain_graph=True)
    log.append(plain((x.grad, y.grad)))
    log.append(plain(lib.autograd.grad(z.sum(), [x], retain_graph=True)))
    x.register_post_accumulate_grad_hook(log.hook("x done"))
    z.sum().backward(inputs=[y, x])
    log.append(plain((x.grad, y.grad)))


def several_outputs(lib, log):
    x = leaf(lib, 1.0, 2.0, 3.0, 4.0)
    a, _ = x.split(2)
    a.register_hook(log.hook("a", lambda g: g * 2))
    a.grad_fn.register_prehook(log.hook("pre", lambda gs: (gs[0] * 5, None)))
    a.grad_fn.register_hook(log.hook("post", lambda grads, gs: (grads[0] * 7,)))
    a.sum().backward()
    log.append(plain(x.grad))


def order_of_nodes(lib, log):
    x, w = leaf(lib), leaf(lib)
    for name, t in {"x": x, "w": w}.items():
        t.register_hook(log.hook(name))
    a, b = x.sin(), (x * w).exp()
    c = a * b + w
    for name, t in {"a": a, "b": b, "c": c}.items():
        t.register_hook(log.hook(name))
        t.grad_fn.register_hook(log.hook(f"{name} post"))
    c.sum().backward()


def multi(lib, log):
    register = lib.autograd.graph.register_multi_grad_hook
    x, w = leaf(lib), leaf(lib)
    y = x * 2
    u, v = y * w, y * w
    a, b = x.split([1, 2])
    handle = register((x, w, u, v, a, b), log.hook("all"))
    register((x, w, u), log.hook("any"), mode="any")
    for z in (u, u + v, a, b.sum() + a.sum() * 2):
        z.sum().backward(retain_graph=True)
    u.sum().backward(inputs=[x], retain_graph=True)
    lib.autograd.grad(u.sum(), [u], retain_graph=True)
    handle.remove()
    u.sum().backward()


def callbacks(lib, log):
    queue = CALLBACK[lib]
    x = leaf(lib)
    y = x * 2
    inner = (leaf(lib) * 3).sum()
    inner.register_hook(lambda g: queue(lambda: log.append("inner")))

    def hook(g):
        queue(lambda: (log.append(("first", plain(x.grad))), queue(lambda: log.append("nested")))[1])
        inner.backward(retain_graph=True)
        queue(lambda: log.append("second"))

    y.register_hook(hook)
    y.sum().backward(retain_graph=True)
    y.sum().backward()


def dead_leaf(lib, log):
    def make():
        t = leaf(lib)
        t.register_hook(log.hook("tensor"))
        t.register_post_accumulate_grad_hook(lambda p: log.append(plain((p, p.grad))))
        return t * 2

    y = make()
    y.sum().backward(retain_graph=True)
    y.sum().backward()


def create_graph(lib, log):
    x, s = leaf(lib), leaf(lib, 2.0, 3.0, 4.0)
    y = x * x
    y.register_hook(log.hook("y", lambda g: g * s))
    y.grad_fn.register_prehook(log.hook("pre", lambda gs: (gs[0] * s,)))
    y.grad_fn.register_hook(log.hook("post", lambda grads, gs: (grads[0] * s, grads[1])))
    (g,) = lib.autograd.grad(y.sum(), x, create_graph=True)
    log.append(plain(lib.autograd.grad(g.sum(), [x, s])))


def changed_in_place(lib, log):
    """Hooks stay with the value that they were set on, retain_grad goes with the tensor."""
    x = leaf(lib)
    y = x * 2
    y.register_hook(log.hook("before"))
    y.retain_grad()
    y.sin_()
    y.register_hook(log.hook("after"))
    (y * 3).sum().backward()
    log.append(plain((x.grad, y.grad)))


SCENARIOS = [every_kind, several_outputs, order_of_nodes, multi, callbacks, dead_leaf, create_graph, changed_in_place]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_same_log(scenario):
    ours, theirs = Log(), Log()
    scenario(ag, ours)
    scenario(torch, theirs)
    assert list(ours) == list(theirs)
    assert ours


def wrong_answer(answer):
    def scenario(lib):
        y = leaf(lib) * 2
        y.register_hook(lambda g: answer(lib, g))
        y.sum().backward()

    return scenario


def wrong_tuple(answer):
    def scenario(lib):
        y = leaf(lib) * leaf(lib)
        y.grad_fn.register_hook(lambda grads, gs: answer(lib, grads))
        y.sum().backward()

    return scenario


ERRORS = {
    "no tensor": wrong_answer(lambda lib, g: 3),
    "size": wrong_answer(lambda lib, g: g[:1]),
    "dtype": wrong_answer(lambda lib, g: g.to(lib.float32)),
    "no tuple": wrong_tuple(lambda lib, gs: gs[0]),
    "list": wrong_tuple(lambda lib, gs: list(gs)),
    "number of values": wrong_tuple(lambda lib, gs: gs[:1]),
    "no tensor in a tuple": wrong_tuple(lambda lib, gs: (gs[0], 1.0)),
    "hook on a constant": lambda lib: lib.ones(2).register_hook(print),
    "post-accumulate on a constant": lambda lib: lib.ones(2).register_post_accumulate_grad_hook(print),
    "post-accumulate on an inner tensor": lambda lib: (leaf(lib) * 2).register_post_accumulate_grad_hook(print),
    "multi mode": lambda lib: lib.autograd.graph.register_multi_grad_hook([leaf(lib)], print, mode="some"),
    "callback outside": lambda lib: CALLBACK[lib](print),
    "edge of a constant": lambda lib: lib.autograd.graph.get_gradient_edge(lib.ones(1)),
    "unused": lambda lib: lib.autograd.grad(leaf(lib).sum(), leaf(lib)),
    "no inputs": lambda lib: lib.autograd.grad(leaf(lib).sum(), []),
    "no inputs of backward": lambda lib: leaf(lib).sum().backward(inputs=[]),
}


@pytest.mark.parametrize("name", ERRORS)
def test_same_error(name):
    """Theirs begins ours, which may add to it; PyTorch's names of types are its own."""
    errors = []
    for lib in (ag, torch):
        with pytest.raises((RuntimeError, TypeError, ValueError)) as caught:
            ERRORS[name](lib)
        errors.append((caught.type, str(caught.value)))
    (ours, text), (theirs, expected) = errors
    assert ours is theirs
    assert text.startswith(expected.split(" (was")[0].split("\n")[0])


@st.composite
def programs(draw):
    """Rows (op, left, right, hooks): each makes a tensor of two earlier ones; and which are differentiated."""
    ops, kinds = st.sampled_from(["mul", "add", "sin", "scale"]), st.sampled_from(["tensor", "pre", "post", "retain"])
    rows = [(draw(ops), draw(st.integers(0, i + 1)), draw(st.integers(0, i + 1)), draw(st.sets(kinds, max_size=2)))
            for i in range(draw(st.integers(1, 8)))]
    count = len(rows) + 2
    inputs = draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=3, unique=True))
    return rows, inputs, draw(st.sets(st.integers(0, 1))), draw(st.sampled_from(["grad", "backward", "inputs"]))


def run_program(lib, program):
    rows, inputs, hooked, how = program
    log, made = Log(), [leaf(lib), leaf(lib, 0.5, -1.0, 2.0)]
    leaves = made[:2]
    for i in hooked:
        made[i].register_hook(log.hook(f"leaf {i}", lambda g: g * 2))
        made[i].register_post_accumulate_grad_hook(lambda p, i=i: log.append((f"done {i}", plain(p.grad))))
    for i, (op, left, right, hooks) in enumerate(rows):
        a, b = made[left], made[right]
        out = {"mul": lambda a, b: a * b, "add": lambda a, b: a + b, "sin": lambda a, b: a.sin(),
               "scale": lambda a, b: a * 0.5}[op](a, b)
        made.append(out)
        if "tensor" in hooks:
            out.register_hook(log.hook(f"tensor {i}", lambda g: g * 1.5))
        if "pre" in hooks:
            out.grad_fn.register_prehook(log.hook(f"pre {i}", lambda gs: (gs[0] * 0.5,)))
        if "post" in hooks:
            out.grad_fn.register_hook(log.hook(f"post {i}") if how == "backward" else lambda grads, gs: None)
        if "retain" in hooks:
            out.retain_grad()
    loss = sum(made[2:], made[0] * made[1]).sum()
    if how == "grad":
        asked = [made[i] for i in inputs if i < 2]  # of inner ones PyTorch captures before or after the hooks
        results = lib.autograd.grad(loss, asked or leaves)
        log.sort(key=lambda entry: entry[0] if entry[0].startswith("leaf") else "")  # ours come at the end
    elif how == "inputs":
        # PyTorch runs the node of an inner tensor that is asked for, which nothing needs; ours does not.
        loss.backward(inputs=[made[i] for i in inputs if i < 2 or not rows[i - 2][3] & {"pre", "post"}] or leaves)
        results = ()
    else:
        loss.backward()
        results = ()
    with ag.no_grad():
        grads = [None if not (t.is_leaf or t.retains_grad) or t.grad is None else plain(t.grad) for t in made]
    return list(log), plain(results), grads


@settings(max_examples=150, deadline=None)
@given(programs())
def test_random_graphs(program):
    ours, theirs = run_program(ag, program), run_program(torch, program)
    assert ours == theirs
