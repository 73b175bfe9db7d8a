"""Inference mode against PyTorch: what is an inference tensor, where it may go, and how the mode nests."""

import copy
import pickle
import threading

import numpy as np
import pytest
from against_torch import both, hooks_of, leaf, outcome, same

import autograd_gpu as ag

MADE_INSIDE = [
    lambda m, n: m.ones(2), lambda m, n: m.tensor([1.0]), lambda m, n: m.arange(3), lambda m, n: m.rand(2),
    lambda m, n: m.empty(2), lambda m, n: m.zeros_like(n), lambda m, n: m.from_numpy(np.ones(2)), lambda m, n: n * 2,
    lambda m, n: n.clone(), lambda m, n: n.sum(), lambda m, n: n.to(m.float64), lambda m, n: n[m.tensor([0])],
    lambda m, n: m.nn.Parameter(m.ones(2)), lambda m, n: m.nn.Linear(2, 2).weight, lambda m, n: copy.deepcopy(n),
    lambda m, n: pickle.loads(pickle.dumps(n)),
    lambda m, n: m.cat([n, n]), lambda m, n: n.max(0)[0], lambda m, n: n.max(0)[1], lambda m, n: n > 0,
    # what shows the memory of an ordinary tensor stays ordinary
    lambda m, n: n.detach(), lambda m, n: n.data, lambda m, n: n.view(2), lambda m, n: n[0],
    lambda m, n: n.reshape(1, 2), lambda m, n: n.to(m.float32), lambda m, n: m.as_tensor(n),
    lambda m, n: n.contiguous(), lambda m, n: n.expand(2, 2), lambda m, n: n.unbind()[0], lambda m, n: n.add_(1),
    lambda m, n: n.squeeze_(),
]  # fmt: skip
MADE_OUTSIDE = [
    lambda m, x: x, lambda m, x: x * 2, lambda m, x: x.clone(), lambda m, x: x.detach(), lambda m, x: x.data,
    lambda m, x: x.view(2), lambda m, x: x[0], lambda m, x: x.reshape(1, 2), lambda m, x: x.to(m.float64),
    lambda m, x: copy.deepcopy(x), lambda m, x: copy.copy(x), lambda m, x: pickle.loads(pickle.dumps(x)),
    lambda m, x: m.zeros_like(x), lambda m, x: x.contiguous(), lambda m, x: m.nn.Parameter(x.clone()),
    lambda m, x: x.unbind()[1], lambda m, x: x.detach_(), lambda m, x: x.requires_grad_(False),
    lambda m, x: x + leaf(m),
]  # fmt: skip


@pytest.mark.parametrize("make", MADE_INSIDE)
def test_made_inside(make):
    def program(m):
        n = m.ones(2)
        with m.inference_mode():
            t = make(m, n)
            return t.is_inference(), t.requires_grad and not isinstance(t, m.nn.Parameter), t.is_leaf

    both(program)


@pytest.mark.parametrize("make", MADE_OUTSIDE)
def test_made_outside_of_an_inference_tensor(make):
    def program(m):
        with m.inference_mode():
            x = m.ones(2)
        t = make(m, x)
        with m.no_grad():
            u = make(m, x)
        return t.is_inference(), t.requires_grad, u.is_inference()

    both(program)


def test_nothing_is_recorded():
    def program(m):
        x = leaf(m)
        with m.inference_mode():
            made = m.ones(2, requires_grad=True)
            results = [(t.requires_grad, t.is_leaf, t.grad_fn, t.is_inference())
                     for t in (x * 2, x.detach(), made * x, m.nn.Linear(2, 2)(x))]  # fmt: skip
        return results, made.requires_grad, made.is_inference(), x.requires_grad

    both(program)


def test_views_of_ordinary_tensors():
    """A view that was made without recording does not require grad; PyTorch's does, without a grad_fn."""

    def program(m):
        x = leaf(m) * 1
        with m.inference_mode():
            views = x.view(2), x[:1], x.unbind()[0]
        return [(v.is_inference(), v._is_view(), v._base is x, v.grad_fn, v._version) for v in views]

    both(program)
    x = leaf(ag)
    with ag.inference_mode():
        v = x.view(2)
    assert not v.requires_grad


SAVING = [
    lambda m, x, n: x * n, lambda m, x, n: x / n, lambda m, x, n: m.where(n > 0, x, n), lambda m, x, n: x[n > 0],
    lambda m, x, n: x.gather(0, n.long()), lambda m, x, n: x.matmul(n), lambda m, x, n: m.outer(x, n),
    lambda m, x, n: (x * 1).mul_(n), lambda m, x, n: (x * 1).masked_fill_(n > 0, 1), lambda m, x, n: x.pow(n),
]  # fmt: skip


@pytest.mark.parametrize("f", SAVING)
@pytest.mark.parametrize("hooks", [False, True])
def test_saving_for_backward_is_refused(f, hooks):
    def program(m):
        with m.inference_mode():
            n, true = m.ones(2), m.tensor([True, False])
            n.mul_(1)
        x = leaf(m)
        with m.inference_mode():
            masks = n > 0, n.long()
        assert masks[0].is_inference()
        assert true.is_inference()
        if not hooks:
            return f(m, x, n).requires_grad
        with hooks_of(m)(same, same):
            return f(m, x, n).requires_grad

    both(program)


@pytest.mark.parametrize("index", [lambda m: m.tensor([1, 0]), lambda m: m.tensor([True, False])])
def test_indices_are_saved_too(index):
    def program(m):
        with m.inference_mode():
            i = index(m)
        return leaf(m)[i]

    assert both(program)[0] is RuntimeError


def test_saving_in_a_function():
    def program(m):
        class Scale(m.autograd.Function):
            @staticmethod
            def forward(ctx, x, y):
                ctx.save_for_backward(y)
                return x * y

            @staticmethod
            def backward(ctx, g):
                return g * ctx.saved_tensors[0], None

        with m.inference_mode():
            n = m.ones(2)
        Scale.apply(leaf(m), n)

    _, text = both(program)
    assert text.startswith("Inferencetensorscannotbesavedforbackward.")


def test_what_saves_nothing_is_recorded():
    def program(m):
        with m.inference_mode():
            n, g = m.ones(2), m.full((2,), 3.0)
        x = leaf(m)
        y = x + n - n
        y.add_(n)
        y.backward(g)
        ((x * 2) + n).backward(g)
        return y, x.grad, x.grad.is_inference(), y.is_inference()

    both(program)


def test_requires_grad():
    def program(m):
        with m.inference_mode():
            inside, n = m.ones(2).requires_grad_(), m.ones(2)
        y = inside * 2
        y.sum().backward()
        flags = [inside.requires_grad, y.requires_grad, y.is_inference(), inside.grad, n.requires_grad_(False).is_leaf]
        return flags, outcome(lambda m: n.requires_grad_(), m), outcome(lambda m: setattr(n, "requires_grad", True), m)

    both(program)


def test_a_leaf_made_inside_is_refused_where_it_would_be_saved():
    """PyTorch does not record the product at all."""
    with ag.inference_mode():
        x = ag.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        x * x


WRITES = [
    lambda m, n: n.add_(1), lambda m, n: n.zero_(), lambda m, n: n.copy_(m.ones(1, 2)), lambda m, n: n.exp_(),
    lambda m, n: n.__setitem__(0, 3.0), lambda m, n: n[:1].mul_(2), lambda m, n: n.view(2).fill_(4),
    lambda m, n: n.squeeze_(0), lambda m, n: n.t_(), lambda m, n: n.unsqueeze_(0),
]  # fmt: skip


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("mode", ["grad", "no_grad", "inference"])
def test_writing_to_an_inference_tensor(write, mode):
    def program(m):
        with m.inference_mode():
            n = m.ones(1, 2)
        with {"grad": m.enable_grad, "no_grad": m.no_grad, "inference": m.inference_mode}[mode]():
            write(m, n)
        return n

    result = both(program)
    assert mode == "inference" or result[0] is RuntimeError


def test_writing_by_a_detached_alias(device):
    """PyTorch lets this through."""
    with ag.inference_mode():
        n = ag.ones(2)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode is not allowed"):
        n.detach().add_(1)


class TestWritingToOrdinaryTensors:
    def test_counts_versions_and_records_nothing(self):
        def program(m):
            x, n = leaf(m), m.zeros(2)
            h = x * 2
            with m.inference_mode():
                n.copy_(x * 2)
                n.add_(x)
                n[0] = 7
                x.mul_(2)
                h.add_(1)
            h.sum().backward()
            return n, n._version, n.requires_grad, n.is_inference(), x, x._version, x.grad, h, h._version

        both(program)

    def test_is_noticed_by_who_saved_it(self):
        def program(m):
            h = leaf(m) * 2
            y = h.sin()
            with m.inference_mode():
                h.view(2).add_(1)
            y.sum().backward()

        assert both(program)[0] is RuntimeError

    @pytest.mark.parametrize("base", [lambda m: leaf(m), lambda m: leaf(m) * 1, lambda m: m.ones(2)])
    def test_by_a_view_made_inside(self, base):
        def program(m):
            x = base(m)
            with m.inference_mode():
                v = x.view(2)
            v.add_(1)
            return x, v._version

        both(program)


def test_versions():
    def program(m):
        with m.inference_mode():
            x, n = m.ones(2), leaf(m)
            inside = outcome(lambda m: x._version, m)
        return inside, outcome(lambda m: x._version, m), outcome(lambda m: x.view(2)._version, m), n.is_inference()

    both(program)


class TestMode:
    def test_nesting(self):
        def program(m):
            x, result = leaf(m), []

            def look():
                y = x * 2
                result.append((y.requires_grad, y.is_inference(), m.is_grad_enabled(), m.is_inference_mode_enabled()))

            with m.inference_mode():
                look()
                with m.inference_mode(False):
                    look()
                    with m.no_grad():
                        look()
                with m.enable_grad():
                    look()
                with m.no_grad(), m.inference_mode(mode=False):
                    look()
                m.set_grad_enabled(True)
                look()
            look()
            with m.no_grad():
                with m.inference_mode(False):
                    look()
                with m.inference_mode():
                    look()
                look()
            with pytest.raises(KeyError), m.inference_mode():
                raise KeyError
            look()
            return result

        both(program)

    def test_decorator(self):
        def program(m):
            seen = []

            def f(*args, **kwargs):
                seen.append((m.is_inference_mode_enabled(), args, list(kwargs)))
                return m.ones(2)

            mode = m.inference_mode
            for decorate in (mode(), mode, mode(False), mode(mode=True)):
                seen.append(decorate(f)(1, key=2).is_inference())
                with m.inference_mode():
                    decorate(f)()
                seen.append(m.is_inference_mode_enabled())
            return seen

        both(program)

    def test_generator(self):
        def program(m):
            seen = []

            @m.inference_mode()
            def steps():
                seen.append(m.is_inference_mode_enabled())
                seen.append((yield m.ones(2).is_inference()))
                try:
                    yield 2
                except KeyError:
                    seen.append(m.is_inference_mode_enabled())
                yield 3

            running = steps()
            seen.append(next(running))
            seen.append(m.is_inference_mode_enabled())
            seen.append(running.send("sent"))
            seen.append(running.throw(KeyError))
            running.close()
            return seen, m.is_inference_mode_enabled()

        both(program)

    def test_per_thread(self):
        def program(m):
            seen = []
            with m.inference_mode():
                thread = threading.Thread(target=lambda: seen.append(m.ones(2).is_inference()))
                thread.start()
                thread.join()
            return seen

        assert both(program) == [False]

    def test_one_instance_twice(self, device):
        mode = ag.inference_mode()
        with mode:
            with mode:
                pass
            assert ag.is_inference_mode_enabled()
        assert not ag.is_inference_mode_enabled()
        assert ag.is_grad_enabled()


def test_backward_needs_a_graph():
    def program(m):
        x = leaf(m)
        with m.inference_mode(), m.enable_grad():
            (x * x).sum().backward()

    assert both(program)[0] is RuntimeError


def test_modules():
    def program(m):
        layer = m.nn.Sequential(m.nn.Linear(2, 3), m.nn.Tanh(), m.nn.Linear(3, 1))
        with m.inference_mode():
            y = layer(m.ones(4, 2))
            fixed = m.nn.Linear(2, 2)
        layer(m.ones(4, 2)).sum().backward()
        return (y.is_inference(), y.requires_grad, layer[0].weight.grad is not None, fixed.weight.is_inference(),
                fixed.weight.requires_grad, outcome(lambda m: fixed(leaf(m)).sum().backward(), m))  # fmt: skip

    both(program)


def test_data():
    def program(m):
        with m.inference_mode():
            n = m.ones(2)
        x = m.zeros(2)
        x.data = n
        n.data = m.zeros(2)
        return x.is_inference(), n.is_inference()

    both(program)


def test_backward_inside(device):
    """A gradient made in inference mode is one of its tensors, and later ones are added to it; PyTorch refuses that."""
    x = leaf(ag)
    y = (x * x).sum()
    with ag.inference_mode():
        y.backward()
    assert x.grad.is_inference()
    (x * x).sum().backward()
    assert x.grad.tolist() == [4, 8]
