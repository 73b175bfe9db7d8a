"""utils.checkpoint: both modes against the plain run; what is run again, kept and freed.

Policies are in test_selective.py, what is reentrant only and chains in test_reentrant.py.
"""

import threading
import weakref
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import nn
from autograd_gpu.core.graph.storage import storage_of
from autograd_gpu.core.interpret.interpreters import entered
from autograd_gpu.core.interpret.watcher import Watcher
from autograd_gpu.utils.checkpoint import CheckpointError, checkpoint, set_checkpoint_early_stop
from autograd_gpu.utils.checkpoint.recomputation import Anew


class Seen(Watcher):
    """A watcher that counts the calls of ops and knows which results are alive."""

    def __init__(self):
        self.names, self.storages = [], {}

    def around(self, op, args, attributes, forward):
        self.names.append(op.name)

        def done(out):
            for t in (out,) if isinstance(out, ag.Tensor) else out:
                self.storages[weakref.ref(storage_of(t))] = t.nbytes

        return forward, done

    def bytes(self):
        return sum(size for storage, size in self.storages.items() if storage() is not None)


def again(fn, *args, **kwargs):
    return checkpoint(fn, *args, use_reentrant=False, **kwargs)


def leaf(*shape, seed=0):
    numbers = np.random.default_rng(seed).standard_normal(shape)
    return ag.tensor(numbers, requires_grad=True)


W, V = leaf(4, 4, seed=1), leaf(4, 4, seed=2)


def mlp(x):
    return (((x @ W).tanh() @ V).sigmoid() @ W).exp()


def dropped(x):
    return nn.functional.dropout((nn.functional.dropout(x @ W, 0.5)).tanh(), 0.3) * ag.rand(4)


def branching(x):
    halves = x.split(2)
    return ag.cat([halves[1].exp() * halves[0], halves[0].sin().cumsum(0)]) @ W


def normalized(x):
    return nn.functional.layer_norm(x, (4,)).softmax(1).max(1).values * nn.functional.gelu(x @ V).amax(1)


FUNCTIONS = [mlp, dropped, branching, normalized, lambda x: x * 2 + 1, lambda x: (x[1:] * x[:-1]).relu().sum(0)]


def gradients(fn, x, seed=3):
    """backward of fn(x), whose numbers begin at `seed`: the value and the gradients of x and the weights."""
    for t in (x, W, V):
        t.grad = None
    ag.manual_seed(seed)
    y = fn(x)
    y.sin().sum().backward()
    return y.detach(), x.grad, W.grad, V.grad, ag.rand(2)


def assert_same(actual, expected):
    for a, b in zip(actual, expected, strict=True):
        assert (a is None and b is None) or bool((a == b).all())


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("fn", FUNCTIONS)
def test_gradients_are_those_of_the_plain_run(fn, reentrant):
    x = leaf(4, 4)
    assert_same(gradients(lambda x: checkpoint(fn, x, use_reentrant=reentrant), x), gradients(fn, x))
    assert_same(gradients(lambda x: checkpoint(fn, x.exp(), use_reentrant=reentrant), x),
                gradients(lambda x: fn(x.exp()), x))


@pytest.mark.parametrize("reentrant", [False, True])
def test_runs_and_products(reentrant):
    runs = []

    def counted(x):
        runs.append(len(runs))
        return mlp(x)

    with ag.profiler.count() as c:
        y = checkpoint(counted, leaf(4, 4), use_reentrant=reentrant)
    assert (len(runs), sum(c.matmuls.values())) == (1, 3)
    with ag.profiler.count() as c:
        y.sum().backward()
    assert (len(runs), sum(c.matmuls.values())) == (2, 3 + 6)


def test_saved_bytes():
    """Between forward and backward only the input is there; what is recomputed goes as it is used."""
    first, second, x = Seen(), Seen(), leaf(4, 4)

    def contexts():
        return entered(first), Anew(lambda: entered(second))

    def deep(x):
        for _ in range(10):
            x = x.sin()
        return x

    alive = []
    x.register_hook(lambda g: alive.append(second.bytes()))
    with entered(plain := Seen()):
        y = deep(x)
    assert plain.bytes() == 10 * x.nbytes
    y = again(deep, x, context_fn=contexts)
    assert (first.bytes(), len(first.names)) == (y.nbytes, 10)
    y.sum().backward()
    assert len(second.names) == 10
    assert alive == [0]


def test_early_stop():
    names = []

    def contexts():
        def second():
            names.append(Seen())
            return entered(names[-1])

        return nullcontext(), Anew(second)

    def fn(x):
        return (x.exp() + 1).reshape(-1) * 3  # only exp saves something

    def run(**kwargs):
        names.clear()
        again(fn, leaf(2, 2), context_fn=contexts, **kwargs).sum().backward()
        return [len(seen.names) for seen in names]

    assert run() == [1]  # it stops within exp
    assert run(early_stop=False) == [4]
    with set_checkpoint_early_stop(False):
        assert run() == [4]
        with set_checkpoint_early_stop(True):
            assert run(early_stop=False) == [1]


def test_early_stop_in_place():
    """The second run ends within the write that saves what is wanted, which stays written."""

    def fn(x):
        return (x * 2).exp_()

    x = leaf(2, 2)
    again(fn, x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(force=True), 2 * np.exp(2 * x.numpy(force=True)), rtol=1e-6)


def test_early_stop_passes_the_functions_own_handlers():
    caught, x = [], leaf(3)

    def careful(x):
        try:
            return x.exp().sin().cos() + 1
        except Exception as error:
            caught.append(error)
            raise
        finally:
            caught.append("finally")

    again(careful, x).sum().backward()
    assert caught == ["finally"] * 2

    def stubborn(x):
        y = x
        for _ in range(3):
            try:
                y = y.exp()
            except BaseException:
                caught.append("swallowed")
        return y

    (expected,) = ag.autograd.grad(stubborn(x).sum(), x)
    (gradient,) = ag.autograd.grad(again(stubborn, x).sum(), x)
    assert bool((gradient == expected).all())
    assert caught[2:] == ["swallowed"]


def test_grad_of_part_of_the_inputs():
    x, y = leaf(4, 4), leaf(4, 4, seed=5)

    def fn(x, y, scale=1.0, *, shift):
        return ((x @ y).tanh() * scale + shift).sum()

    def both(wrap):
        z = wrap(fn, x, y, scale=2.0, shift=x)
        return *ag.autograd.grad(z, y, retain_graph=True), *ag.autograd.grad(z, [x, y])

    def plain(fn, *args, **kwargs):
        return fn(*args, **kwargs)

    assert_same(both(again), both(plain))
    z = again(fn, x, y, shift=0.0)
    z.backward(inputs=[y])
    assert (x.grad is None, y.grad is None) == (True, False)


def test_retained_graphs_and_double_backward():
    x = leaf(4, 4)

    def twice(wrap):
        y = wrap(mlp, x).sum()
        y.backward(retain_graph=True)
        (g,) = ag.autograd.grad(y, x, create_graph=True)
        return g, *ag.autograd.grad((g * g).sum(), [x, W, V])

    assert_same(twice(again), twice(lambda fn, x: fn(x)))
    y = again(mlp, x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        y.backward()


def nested(wrap):
    return lambda x: wrap(lambda x: wrap(mlp, wrap(dropped, x)).sin() @ W, x)


def test_nested():
    x = leaf(4, 4)
    assert_same(gradients(nested(again), x), gradients(nested(lambda fn, x: fn(x)), x))
    runs = []

    def level(n):
        def fn(x):
            runs.append(n)
            return again(level(n - 1), x.sin()) if n else x.exp()

        return fn

    again(level(4), x).sum().backward()
    assert runs == [4, 3, 2, 1, 0] * 2  # each level stops where it hands over to the next
    mixed = again(lambda x: checkpoint(mlp, x.sin(), use_reentrant=True) * x, x)
    assert_same(gradients(lambda x: mixed, x), gradients(lambda x: mlp(x.sin()) * x, x))


def test_structures_and_detached_outputs():
    x = leaf(4)

    def fn(x, pair, options):
        y = x.exp() * pair[0]
        with ag.no_grad():
            z = y * 2
        return {"y": [y, y.detach(), z, options["n"]], "none": None}

    out = again(fn, x, (x, 3), {"n": 5})
    y, detached, z, n = out["y"]
    assert (y.requires_grad, detached.requires_grad, z.requires_grad, n, out["none"]) == (True, False, False, 5, None)
    y.sum().backward()
    assert bool(ag.allclose(x.grad, (x.exp() * (1 + x)).detach()))
    with ag.no_grad():
        assert not again(mlp, leaf(4, 4)).requires_grad
    assert not again(lambda x: x * 2, x.detach()).requires_grad


def test_backward_inside_the_function():
    x = leaf(4)

    def fn(x):
        z = x.sin().cos()
        (g,) = ag.autograd.grad(z.sum(), x, create_graph=True)
        return g * x.exp() + z

    (expected,) = ag.autograd.grad(fn(x).sum(), x)
    for early in (True, False):
        (gradient,) = ag.autograd.grad(again(fn, x, early_stop=early).sum(), x)
        assert bool(ag.allclose(gradient, expected))


def test_random_numbers(device):
    own = ag.Generator(device)

    def fn(x):
        return x.exp() * ag.rand(4, generator=own) * ag.rand(4)

    x = leaf(4)
    y = again(fn, x)
    before = own.get_state().tolist(), ag.get_rng_state(device).tolist()
    y.sum().backward()
    assert bool(ag.allclose(x.grad, y.detach()))
    assert (own.get_state().tolist(), ag.get_rng_state(device).tolist()) == before
    y = again(fn, x, preserve_rng_state=False)
    (g,) = ag.autograd.grad(y.sum(), x)
    assert not bool(ag.allclose(g, y.detach()))


def test_metadata_is_compared():
    calls = []

    def growing(x):
        calls.append(1)
        return x[: len(calls)].exp().sin()

    message = (r"(?s)Recomputed values for the following tensors have different metadata than during the forward "
               r"pass.\ntensor at position 0:\nsaved metadata: {'shape': \(1,\), 'dtype': float64, .*"
               r"recomputed metadata: {'shape': \(2,\)")
    with pytest.raises(CheckpointError, match=message):
        again(growing, leaf(4)).sum().backward()
    with pytest.raises(ValueError, match=r"determinism_check should be one of \['default', 'none'\], but got exact"):
        again(growing, leaf(4), determinism_check="exact")

    def casting(x):
        calls.append(1)
        return x.to(ag.float32 if len(calls) % 2 else ag.float64).exp()

    calls.clear()
    with pytest.raises(CheckpointError, match="different metadata"):
        again(casting, leaf(4)).sum().backward()


def longer(calls, first, second):
    def fn(x):
        calls.append(1)
        for _ in range(first if len(calls) == 1 else second):
            x = x.sin()
        return x

    return fn


def test_number_of_tensors_is_compared():
    message = (r"(?s)A different number of tensors was saved during the original forward and recomputation.*"
               r"during forward: 3\nNumber of tensors saved during recomputation: 1")
    with pytest.raises(CheckpointError, match=message):
        again(longer([], 3, 1), leaf(2)).sum().backward()
    with pytest.raises(CheckpointError, match="trying to save more tensors during recomputation than"):
        again(longer([], 1, 3), leaf(2), early_stop=False).sum().backward()
    again(longer([], 1, 3), leaf(2)).sum().backward()  # nobody looks further than what is needed


def test_debug_lists_the_operations():
    with pytest.raises(CheckpointError, match=r"(?s)sin\(float64\[2\]\) -> float64\[2\]   \(3 of 3 in original\)\n.*"
                       r"test_checkpoint.py:\d+:fn.*\(1 of 1 in recompute\).*Detected non-determinism"):  # fmt: skip
        again(longer([], 3, 1), leaf(2), debug=True).sum().backward()
    with ag.utils.checkpoint.set_checkpoint_debug_enabled(True), pytest.raises(CheckpointError, match="in original"):
        again(longer([], 3, 1), leaf(2)).sum().backward()
    scope = {"sometimes": longer([], 3, 1)}
    code = compile("def beside(x):\n    return sometimes(x)", f"{Path(ag.__file__).parent}_demo/model.py", "exec")
    exec(code, scope)  # its path begins as the library's does
    with pytest.raises(CheckpointError, match=r"_demo/model\.py"):
        again(scope["beside"], leaf(2), debug=True).sum().backward()
    with pytest.raises(ValueError, match="debug=True is incompatible with non-default context_fn"):
        again(mlp, leaf(2), debug=True, context_fn=lambda: None)


def test_what_was_written_to_is_noticed():
    x, weight = leaf(4), leaf(4)
    y = again(lambda x: (x * weight).exp(), x)
    with ag.no_grad():
        weight += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    y = again(lambda x: (x * 2).exp(), x)
    with ag.no_grad():
        x += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()

    def overwriting(x):
        y = x * 2
        z = y.exp()
        with ag.no_grad():
            y.detach().zero_()
            z.detach().zero_()
        return z.sin()

    with pytest.raises(RuntimeError, match=r"modified by an inplace operation.*Hint: enable anomaly detection"):
        again(overwriting, x).sum().backward()
    with ag.autograd.set_detect_anomaly(True), pytest.raises(RuntimeError, match="Hint: the backtrace further above"):
        again(overwriting, x).sum().backward()


def test_exceptions():
    x, fail = leaf(4, 4), [True, False, True, False]

    def fn(x):
        y = mlp(x)
        if fail.pop(0):
            raise ValueError("no")
        return y.sin()

    with pytest.raises(ValueError, match="no"):
        again(fn, x)
    y = again(fn, x)
    with pytest.raises(ValueError, match="no"):
        y.sum().backward(retain_graph=True)
    assert x.grad is None
    y.sum().backward()
    expected = ag.autograd.grad(mlp(x).sin().sum(), x)
    assert_same([x.grad], expected)
    assert (x * 2).requires_grad  # no mode is left on


def test_contexts():
    order = []

    class Context:
        def __init__(self, name, suppress=False):
            self.name, self.suppress = name, suppress

        def __enter__(self):
            order.append(self.name)

        def __exit__(self, *exc):
            order.append(f"end {self.name}")
            return self.suppress

    again(mlp, leaf(4, 4), context_fn=lambda: (Context("first"), Context("second"))).sum().backward()
    assert order == ["first", "end first", "second", "end second"]
    with pytest.raises(RuntimeError, match="the forward context provided by context_fn suppressed an exception"):
        again(lambda x: 1 / 0, leaf(1), context_fn=lambda: (Context("first", True), Context("second")))


@pytest.mark.parametrize("reentrant", [False, True])
def test_no_reference_cycles(reentrant, no_gc):
    class Big:
        pass

    def holding(big):
        return lambda x: mlp(x * 1.0) if big else None

    for use in (lambda y: None, lambda y: y.backward(), lambda y: y.backward(retain_graph=True)):
        big, x = Big(), leaf(4, 4)
        fn = holding(big)
        y = checkpoint(fn, x, use_reentrant=reentrant).sum()
        use(y)
        alive = weakref.ref(big), weakref.ref(x)
        del big, x, fn, y
        assert [ref() for ref in alive] == [None, None]


def test_threads():
    x = leaf(4, 4)
    y = nested(again)(x).sum()
    (expected,) = ag.autograd.grad(y, x, retain_graph=True)
    seen = []

    def run():
        for _ in range(10):
            seen.extend(ag.autograd.grad(y, x, retain_graph=True))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert [bool((g == expected).all()) for g in seen] == [True] * 40


def test_custom_functions():
    class Cube(ag.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, x * x)
            return x * x * x

        @staticmethod
        def backward(ctx, g):
            return 3 * g * (ctx.saved_tensors[0] * 0 + ctx.saved_tensors[1])  # asked for twice

    x = leaf(3)
    (gradient,) = ag.autograd.grad(again(lambda x: Cube.apply(x.exp()).sin(), x).sum(), x)
    (expected,) = ag.autograd.grad(Cube.apply(x.exp()).sin().sum(), x)
    assert bool(ag.allclose(gradient, expected))


def test_writing_functions_and_views():
    def fn(x):
        y = x * 2.0
        y[1:].mul_(x[:-1])
        rows = y.view(-1)
        rows[::2].mul_(3.0)
        y.add_(1.0)
        return y.tanh_() * y

    x = leaf(4, 4)
    assert_same(gradients(lambda x: again(fn, x), x), gradients(fn, x))
    assert_same(gradients(lambda x: again(lambda x: again(fn, x).sin(), x.exp()), x),
                gradients(lambda x: fn(x.exp()).sin(), x))
    view = x.exp()
    (gradient,) = ag.autograd.grad(again(fn, view[1:]).sum(), x)
    (expected,) = ag.autograd.grad(fn(x.exp()[1:]).sum(), x)
    assert bool((gradient == expected).all())


def test_other_hooks():
    x, packed = leaf(4, 4), []

    def pack(tensor):
        packed.append(tensor)
        return tensor

    with ag.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        y = again(mlp, x)
    assert [t.shape for t in packed] == [x.shape]  # of the function only the argument is seen outside
    y.sum().backward()
    assert len(packed) == 1
    infos = []
    with ag.autograd.graph.saved_tensors_hooks(lambda t, info: infos.append(info) or t, lambda t: t, with_info=True):
        again(lambda x, *, scale: mlp(x) * scale, x, scale=W)
    assert [(i.op, i.name) for i in infos] == [("checkpoint", "argument 0"), ("checkpoint", "scale")]

    def inside(x):
        with ag.autograd.graph.save_on_cpu():
            return mlp(x)

    assert_same(gradients(lambda x: again(inside, x), x), gradients(mlp, x))
    with ag.autograd.graph.disable_saved_tensors_hooks("not here"), pytest.raises(RuntimeError, match="not here"):
        again(mlp, x)


def test_modes_of_the_second_run():
    """Recording, whatever mode backward is called in; what is on outside of it does not listen."""
    modes = []

    def fn(x):
        modes.append((ag.is_grad_enabled(), ag.is_inference_mode_enabled()))
        return x.exp().sin()

    x = leaf(4)
    for mode in (ag.no_grad, ag.inference_mode, ag.enable_grad):
        for reentrant in (False, True):
            modes.clear()
            y = checkpoint(fn, x, use_reentrant=reentrant).sum()
            with mode(), entered(seen := Seen()):
                y.backward()
            assert modes == [(not reentrant, False), (True, False)]
            assert "exp" not in seen.names
