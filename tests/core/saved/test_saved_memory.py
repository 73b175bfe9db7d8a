"""Memory and failures where tensors are saved: no reference cycles, and every state after an error is sound."""

from __future__ import annotations

import weakref

import numpy as np
import pytest
from against_torch import both, hooks_of, leaf, same
from custom_functions import Exp

import autograd_gpu as ag
from autograd_gpu.autograd import graph
from autograd_gpu.autograd.graph import saved_tensors_hooks
from autograd_gpu.core.tensor import Tensor


def written_view(x):
    y = x * 1
    y[1:, :2].mul_(x[:1, 1:])
    y[0].exp_()
    return y


def written_base(x):
    x = x * 1
    v = x[0]
    x.exp_()
    return (v * v).exp() + x


def result_written_into_its_own_view(x):
    base = ag.zeros(2, 2, 3)
    v = base[0]
    v.copy_(x * v.exp() * x)
    return base * v


def mutated_chain(x):
    return (x * 2).mul_(x).div_(x).pow_(2).tanh_()


def of_functions(x):
    return Exp.apply(Exp.apply(x))


def several_outputs(x):
    a, b = (x * 1).split(1)
    return ag.stack([a.exp(), b.sin()]).max(0)[0] * a


GRAPHS = [written_view, written_base, result_written_into_its_own_view, mutated_chain, of_functions, several_outputs]


def watched(tensors):
    """Weak references to the tensors, their memory, all their nodes, and what those saved."""
    nodes, results = [t.grad_fn for t in tensors], [weakref.ref(x) for t in tensors for x in (t, t._array)]
    seen = set()
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        results.append(weakref.ref(node))
        kept = [s.tensor for _, s in node.saved_by_name() if s.tensor is not None]
        results += [weakref.ref(x) for t in kept for x in (t, t._array)]
        nodes += [child for child, _ in node.next_functions]
    return results


class TestMemory:
    @pytest.mark.parametrize("make", GRAPHS)
    @pytest.mark.parametrize("hooks", [None, (same, same), (lambda t: t.clone(), same)])
    @pytest.mark.parametrize("use", ["forward", "read", "backward", "double backward"])
    def test_no_reference_cycles(self, make, hooks, use, no_gc, device):
        x = ag.ones(2, 3, requires_grad=True)
        with saved_tensors_hooks(*hooks) if hooks else graph.disable_saved_tensors_hooks("none"):
            y = make(x)
        died = watched([x, y])
        if use == "read":
            died += [weakref.ref(value) for name in dir(y.grad_fn) if name.startswith("_saved_")
                     if isinstance(value := getattr(y.grad_fn, name), Tensor)]
            value = None
        elif use != "forward":
            grads = ag.autograd.grad(y.sum(), x, create_graph=use == "double backward")
            died += watched(grads)
            if use == "double backward":
                (grads[0] * grads[0]).sum().backward()
            del grads
        del x, y
        assert not [ref() for ref in died if ref() is not None]

    def test_with_mutation_allowed(self, no_gc):
        with graph.allow_mutation_on_saved_tensors():
            x = ag.ones(2, requires_grad=True) * 1
            y = x.exp()
            x.mul_(2)
            y.mul_(x)
            died = watched([x, y])
            del x, y
            assert not [ref() for ref in died if ref() is not None]


class Failing:
    """A function that raises at its n-th call."""

    def __init__(self, n, error):
        self.left, self.error = n, error

    def __call__(self, t):
        self.left -= 1
        if not self.left:
            raise self.error
        return t


class TestFailures:
    @pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt(), MemoryError()])
    @pytest.mark.parametrize("n", range(1, 6))
    @pytest.mark.parametrize("where", ["pack", "unpack"])
    def test_the_next_step_works(self, where, n, error, device):
        x, p = ag.ones(2, 3, requires_grad=True), ag.nn.Parameter(ag.full((3,), 2.0))
        x.grad, p.grad = ag.ones(2, 3), ag.ones(3)
        failing = Failing(n, error)
        hooks = (failing, same) if where == "pack" else (same, failing)

        def step():
            y = Exp.apply(x) * p
            y.mul_(x)
            return y.sigmoid().sum()

        with pytest.raises(type(error)), saved_tensors_hooks(*hooks):
            step().backward()
        assert ag.is_grad_enabled()
        old = [x.grad.tolist(), p.grad.tolist()]
        complete = ag.autograd.grad(step(), [x, p])
        allowed = [(g, (1 + ag.as_tensor(d)).tolist()) for g, d in zip(([[1.0] * 3] * 2, [1.0] * 3), complete,
                                                                      strict=True)]
        for actual, (before, after) in zip(old, allowed, strict=True):
            assert actual == before or np.allclose(actual, after)
        x.grad = p.grad = None
        step().backward()
        for t, g in zip((x, p), complete, strict=True):
            np.testing.assert_allclose(t.grad.tolist(), g.tolist(), rtol=1e-5)

    def test_unpack_again_after_a_failure(self):
        def program(m):
            x, calls = leaf(m), []

            def unpack(t):
                calls.append(1)
                if len(calls) == 1:
                    raise RuntimeError("mine")
                return t

            with hooks_of(m)(same, unpack):
                y = x.sin().sum()
            with pytest.raises(RuntimeError, match="mine"):
                y.backward()
            before = x.grad
            y.backward()
            return before, x.grad

        both(program)

    def test_a_pack_that_fails_when_registered_leaves_the_tensor(self):
        """PyTorch has handed it over by then, and cannot go on."""
        x = leaf(ag)
        y = x.sin()
        for failing in (Failing(1, ValueError("mine")), lambda t: t.mul_(1)):
            with pytest.raises((ValueError, RuntimeError)):
                y.grad_fn._raw_saved_self.register_hooks(failing, same)
        assert isinstance(y.grad_fn.saved_by_name()[0][1].tensor, Tensor)
        z = x.cos()
        with pytest.raises(ValueError, match="mine"):
            z.grad_fn._raw_saved_self.register_hooks(Failing(1, ValueError("mine")), same)
        z.grad_fn._raw_saved_self.register_hooks(same, same)

    def test_an_in_place_operation_whose_pack_fails_has_not_happened(self, device):
        x = leaf(ag) * 1
        node = x.grad_fn
        with pytest.raises(ValueError, match="mine"), saved_tensors_hooks(Failing(1, ValueError("mine")), same):
            x.exp_()
        assert x.grad_fn is node
        assert (x._version, x.tolist()) == (0, [1, 2])
