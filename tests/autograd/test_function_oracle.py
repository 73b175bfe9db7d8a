"""Functions as PyTorch's users write them: each program has to give the same with both libraries."""

import contextlib
import gc
import importlib
import warnings
import weakref

import pytest
from against_torch import ag, both, leaf, same, torch


def function(m, forward, backward, **methods):
    """A Function with these methods."""
    body = {"forward": forward, "backward": backward, **methods}
    return type("Own", (m.autograd.Function,), {name: staticmethod(f) for name, f in body.items() if f is not None})


@contextlib.contextmanager
def quietly():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class TestViewsOfOwnBuffers:
    """What a forward made itself and wrote to is a result like any other."""

    @staticmethod
    def row(ctx, x):
        buffer = x.new_zeros((2, *x.shape))
        row = buffer[0]
        row += x
        return row

    def test_is_usable(self):
        def program(m):
            x = leaf(m)
            y = function(m, self.row, lambda ctx, g: g * 7).apply(x)
            assert y.grad_fn.name() == "OwnBackward"
            (y * y).sum().backward()
            return x.grad, y._is_view(), y._version

        assert both(program) == [[14.0, 28.0], True, 1]

    def test_several(self):
        def forward(ctx, x):
            buffer = x.new_zeros((2, *x.shape))
            first, second = buffer[0], buffer[1]
            first += x
            second += x * 2
            return first, second, buffer

        def program(m):
            x = leaf(m)
            a, b, buffer = function(m, forward, lambda ctx, g, h, k: g * 7 + h + k.sum(0)).apply(x)
            (a.sum() + b.sum() + buffer.sum()).backward()
            return x.grad, a, b

        assert both(program) == [[10.0, 10.0], [1.0, 2.0], [2.0, 4.0]]

    @pytest.mark.parametrize("write", ["view", "buffer", "recorded"])
    def test_refuses_later_writes(self, write):
        def program(m):
            kept = []

            def forward(ctx, x):
                row = self.row(ctx, x)
                kept.append(row._base)
                return row

            x = leaf(m)
            y = function(m, forward, lambda ctx, g: g * 7).apply(x)
            if write == "view":
                y.mul_(2)
            elif write == "recorded":
                kept[0].mul_(leaf(m))
            else:
                with m.no_grad():
                    kept[0].add_(1)
            return y.grad_fn.name()

        for m in (torch, ag):
            with pytest.raises(RuntimeError, match="This view was created inside a custom Function"):
                program(m)


class TestKeywords:
    @staticmethod
    def scaled(ctx, x, k=2, m=3):
        ctx.k = k * m
        return x * k * m

    @pytest.mark.parametrize("keywords", [{"k": 5}, {"k": 5, "m": 7}, {"m": 7, "k": 5}, {}], ids=str)
    def test_count_among_the_arguments(self, keywords):
        def program(m):
            x, count = leaf(m), len(keywords)
            own = function(m, self.scaled, lambda ctx, g: (g * ctx.k, *[None] * count))
            own.apply(x, **keywords).sum().backward()
            return x.grad

        both(program)

    def test_by_name_only(self):
        def program(m):
            x, seen = leaf(m), []

            def backward(ctx, g):
                seen.append(ctx.needs_input_grad)
                return g * ctx.k, None

            function(m, self.scaled, backward).apply(k=5, x=x).sum().backward()
            return x.grad, seen

        assert both(program) == [[15.0, 15.0], [[True, False]]]

    @pytest.mark.parametrize(("forward", "args", "keywords"), [
        (lambda ctx, x, k=2, m=3: x, (), {"m": 5}),
        (lambda ctx, x, *, k=2: x, (), {"k": 5}),
        (lambda ctx, x, **kw: x, (), {"k": 5}),
        (lambda ctx, *xs, k=2: xs[0], (), {"k": 5}),
        (lambda ctx, x, k=2: x, (), {"wrong": 5}),
        (lambda ctx, x, k: x, (3,), {"k": 5}),
        (lambda ctx, x: x, (), {"ctx": 5}),
    ], ids=["behind a gap", "keyword-only", "any", "behind any number", "unknown", "twice", "ctx"])  # fmt: skip
    def test_without_a_place_are_refused(self, forward, args, keywords):
        for m in (torch, ag):
            with pytest.raises(TypeError, match=r"forward\(\)"):
                function(m, forward, None).apply(leaf(m), *args, **keywords)

    def test_with_setup_context(self):
        def program(m):
            seen, x = [], leaf(m)

            def setup(ctx, inputs, output):
                seen.append(len(inputs))
                ctx.k = inputs[1]

            own = function(m, lambda x, k=2: x * k, lambda ctx, g: (g * ctx.k, None), setup_context=setup)
            (own.apply(x, k=3).sum() + own.apply(x).sum() + own.apply(x, 7).sum()).backward()
            return x.grad, seen

        assert both(program) == [[12.0, 12.0], [2, 2, 2]]


class TestVjp:
    def test_is_another_name_for_backward(self):
        def program(m):
            x = leaf(m)
            function(m, lambda ctx, x: x * 2, None, vjp=lambda ctx, g: g * 5).apply(x).sum().backward()
            return x.grad

        assert both(program) == [5.0, 5.0]

    def test_beside_backward_is_an_error(self):
        def program(m):
            y = function(m, lambda ctx, x: x * 2, lambda ctx, g: g, vjp=lambda ctx, g: g * 5).apply(leaf(m))
            y.sum().backward()

        kind, text = both(program)
        assert kind is RuntimeError
        assert text.startswith("Implementingboth")

    def test_inherited_beside_backward_is_an_error(self):
        for m in (torch, ag):
            base = function(m, lambda ctx, x: x * 2, None, vjp=lambda ctx, g: g * 5)
            own = type("Own", (base,), {"backward": staticmethod(lambda ctx, g: g)})
            with pytest.raises(RuntimeError, match="Implementing both"):
                own.apply(leaf(m)).sum().backward()

    def test_neither(self):
        for m in (torch, ag):
            with pytest.raises(NotImplementedError, match="either the backward or vjp method"):
                function(m, lambda ctx, x: x * 2, None).apply(leaf(m)).sum().backward()


class TestMarkDirty:
    def program(self, m, forward):
        x = leaf(m)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            y = function(m, forward, lambda ctx, g: g * 5).apply(x)
        y.sum().backward()
        return x.grad, y._version, [str(w.message).partition(" (Triggered")[0] for w in caught]

    def test_of_a_result_warns(self):
        def forward(ctx, x):
            result = x * 2
            ctx.mark_dirty(result)
            return result

        torch.set_warn_always(True)
        try:
            grad, version, (warning,) = both(lambda m: self.program(m, forward))
        finally:
            torch.set_warn_always(False)
        assert (grad, version) == ([5.0, 5.0], 1)
        assert warning.startswith("ctx.mark_dirty() received a tensor that was not an input.")

    def test_of_what_is_not_returned(self):
        def forward(ctx, x):
            ctx.mark_dirty(x * 2)
            return x * 3

        kind, _ = both(lambda m: self.program(m, forward))
        assert kind is RuntimeError

    def test_of_another_tensor_gives_it_the_history(self):
        def program(m):
            x, other = leaf(m), leaf(m) * 1

            def forward(ctx, x):
                ctx.mark_dirty(other)
                return x * 3, other

            with quietly():
                _, result = function(m, forward, lambda ctx, g, h: g + h * 5).apply(x)
            result.sum().backward()
            return result is other, other.grad_fn.name(), other._version, x.grad

        assert both(program) == [True, "OwnBackward", 1, [5.0, 5.0]]

    @pytest.mark.parametrize("dirty", [False, True])
    @pytest.mark.parametrize("of_view", [False, True])
    def test_not_differentiable_as_well(self, dirty, of_view):
        """The result is detached, also after a later write; the input keeps its history."""
        def program(m):
            def forward(ctx, x):
                if dirty:
                    ctx.mark_dirty(x.mul_(2))
                ctx.mark_non_differentiable(x)
                return x, x * 3

            base = leaf(m, 1, 2, 3) * 1
            x = base[:2] if of_view else base
            y, z = function(m, forward, lambda ctx, g, h: h * 3).apply(x)
            before = y is x, y.requires_grad, y._is_view(), x.grad_fn is not None, z.requires_grad
            with m.no_grad():
                x.mul_(3)
            return before, y.requires_grad, y.tolist(), base.tolist(), y._version == x._version

        assert both(program)[0] == [False, False, False, True, True]

    def test_of_another_leaf(self):
        def program(m):
            other = leaf(m)

            def forward(ctx, x):
                ctx.mark_dirty(other)
                return x * 3, other

            function(m, forward, None).apply(leaf(m))

        for m in (torch, ag):
            with pytest.raises(RuntimeError, match="leaf Variable that requires grad"), quietly():
                program(m)

    def test_a_view_beside_other_results_has_its_gradient(self):
        """PyTorch refuses."""
        def forward(ctx, x):
            ctx.mark_dirty(x.mul_(2))
            return x, x * 3

        x = leaf(ag, 1, 2, 3)
        base = x * 1
        y, z = function(ag, forward, lambda ctx, g, h: g * 2 + h * 6).apply(base[:2])
        (y.sum() + z.sum() + base.sum()).backward()
        assert x.grad.tolist() == [10.0, 10.0, 1.0]
        assert base.tolist() == [2.0, 4.0, 3.0]


class TestKeptCtx:
    """Whoever keeps ctx keeps what was saved."""

    def program(self, m, read, free=False, save=lambda x, y: (x,)):
        kept = []

        def forward(ctx, x):
            y = x * 2
            kept.append(ctx)
            ctx.save_for_backward(*save(x, y))
            return y

        x = leaf(m)
        y = function(m, forward, lambda ctx, g: g * 2).apply(x)
        if free:
            y.sum().backward()
        del y
        gc.collect()
        return read(kept[0], x)

    def test_answers_when_the_result_is_gone(self):
        assert both(lambda m: self.program(m, lambda ctx, x: [t is x for t in ctx.saved_tensors])) == [True]

    def test_answers_with_the_result(self):
        def read(ctx, x):
            kept, y = ctx.saved_tensors
            y.sum().backward()
            return kept is x, y, y.grad_fn.name(), x.grad

        result = both(lambda m: self.program(m, read, save=lambda x, y: (x, y)))
        assert result == [True, [2.0, 4.0], "OwnBackward", [2.0, 2.0]]

    def test_says_that_the_buffers_were_freed(self):
        kind, text = both(lambda m: self.program(m, lambda ctx, x: ctx.saved_tensors, free=True))
        assert kind is RuntimeError
        assert "asecondtime" in text

    def test_notices_a_later_write(self):
        def read(ctx, x):
            x.detach().add_(1)
            return ctx.saved_tensors

        for m in (torch, ag):
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                self.program(m, read)

    @pytest.mark.parametrize("where", ["in forward", "not recorded", "no tensor"])
    def test_holds_what_is_recorded(self, where):
        def program(m):
            kept, early = [], []

            def forward(ctx, x):
                ctx.save_for_backward(x)
                kept.append(ctx)
                early.append(len(ctx.saved_tensors))
                return 5 if where == "no tensor" else x * 2

            x = leaf(m)
            function(m, forward, None).apply(x.detach() if where == "not recorded" else x)
            return early, len(kept[0].saved_tensors)

        both(program)

    def test_ctx_without_keeper_goes_with_the_result(self, no_gc):
        def forward(ctx, x):
            y = x * 2
            ctx.save_for_backward(x, y)
            ctx.note = [1]
            return y

        x = leaf(ag)
        y = function(ag, forward, lambda ctx, g: g * 2).apply(x)
        node = weakref.ref(y.grad_fn)
        y.sum().backward(retain_graph=True)
        del y
        assert node() is None


class TestCtxIsTheNode:
    def test_in_forward_and_backward(self):
        def program(m):
            seen = []

            def look(ctx):
                children = [(node and node.name(), nr) for node, nr in ctx.next_functions]
                kinds = isinstance(ctx, m.autograd.graph.Node), isinstance(ctx, m.autograd.function.FunctionCtx)
                seen.append([*kinds, ctx.name(), children, dict(ctx.metadata), ctx.needs_input_grad])

            def forward(ctx, x, k):
                look(ctx)
                ctx.metadata["forward"] = 1
                return x * k

            def backward(ctx, g):
                look(ctx)
                seen.append(ctx == y.grad_fn)
                return g * 3, None

            y = function(m, forward, backward).apply(leaf(m) * 2, 3)
            y.grad_fn.metadata["after"] = 2
            seen.append(y.grad_fn.needs_input_grad)
            y.sum().backward()
            return str(seen)

        both(program)

    def test_attributes_of_any_name(self):
        """What the engine keeps on the node is out of their way."""
        words = ("mask", "shape", "outputs", "edges", "saved", "dtype", "extra", "slots", "ctx", "materialize")

        def program(m):
            seen = []

            def forward(ctx, x):
                for number, word in enumerate(words):
                    assert not hasattr(ctx, word)
                    setattr(ctx, word, number)
                return x * 2, x * 3

            def backward(ctx, g, h):
                seen.extend([getattr(ctx, word) for word in words])
                seen.append(ctx.set_later)
                del ctx.mask
                assert not hasattr(ctx, "mask")
                return g * 2 + h * 3

            x = leaf(m)
            a, b = function(m, forward, backward).apply(x)
            a.grad_fn.set_later = "later"
            (a.sum() + b.sum()).backward()
            return seen, x.grad

        assert both(program)[1] == [5.0, 5.0]

    def test_hooks(self):
        def program(m):
            seen = []

            def forward(ctx, x):
                ctx.register_prehook(lambda gs: seen.append("before"))
                ctx.register_hook(lambda gs, _: seen.append("after"))
                return x * 2

            def backward(ctx, g):
                seen.append("backward")
                return g * 2

            function(m, forward, backward).apply(leaf(m)).sum().backward()
            return seen

        assert both(program) == ["before", "backward", "after"]

    def test_one_object_while_somebody_keeps_it(self):
        def program(m):
            kept, same = [], []

            def forward(ctx, x):
                kept.append(ctx)
                return x * 2

            def backward(ctx, g):
                same.append(ctx is kept[0])
                return g

            y = function(m, forward, backward).apply(leaf(m))
            y.sum().backward(retain_graph=True)
            y.sum().backward()
            return same

        assert both(program) == [True, True]


def checkpoint_of(m):
    return importlib.import_module(f"{m.__name__}.utils.checkpoint").checkpoint


CONSTANTS = {
    "tensor": lambda m: m.tensor([3.0, 4.0]), "view": lambda m: m.zeros(3)[:2],
    "parameter": lambda m: m.nn.Parameter(m.ones(2), requires_grad=False),
}  # fmt: skip


class TestIdentity:
    """What a Function saves, and what a checkpoint is given, comes back as the object that it was."""

    @staticmethod
    def looking(m, seen, *expected):
        def forward(ctx, a, b):
            ctx.save_for_backward(b)
            return a * b

        def backward(ctx, g):
            (b,) = ctx.saved_tensors
            seen.append(any(b is e for e in expected))
            return g * b, None

        return function(m, forward, backward)

    @pytest.mark.parametrize("kind", CONSTANTS)
    @pytest.mark.parametrize("way", ["plain", "checkpoint", "nested checkpoints", "hooks", "save_on_cpu"])
    @pytest.mark.cpu
    def test_of_a_constant_in_backward(self, kind, way):
        def program(m):
            a, b, seen, graph = leaf(m), CONSTANTS[kind](m), [], m.autograd.graph
            own, again = self.looking(m, seen, b).apply, checkpoint_of(m)
            if way == "checkpoint":
                y = again(own, a, b, use_reentrant=False)
            elif way == "nested checkpoints":
                y = again(lambda a, b: again(own, a, b, use_reentrant=False), a, b, use_reentrant=False)
            elif way == "plain":
                y = own(a, b)
            else:
                with graph.save_on_cpu() if way == "save_on_cpu" else graph.saved_tensors_hooks(same, same):
                    y = own(a, b)
            y.sum().backward()
            return seen, a.grad

        if way == "save_on_cpu":  # PyTorch's copies
            assert program(ag)[0] == [True]
        else:
            assert both(program)[0] == [True]

    @pytest.mark.parametrize("kind", CONSTANTS)
    def test_of_a_constant_in_the_second_run(self, kind):
        def program(m):
            a, b, k, seen = leaf(m), CONSTANTS[kind](m), CONSTANTS[kind](m), []

            def look(*args, named):
                seen.append([args[0] is a, args[1] is b, named is k, type(args[1]).__name__])
                return args[0] * args[1] * named

            checkpoint_of(m)(look, a, b, named=k, use_reentrant=False).sum().backward()
            return seen

        first, second = both(program)
        assert first == second
        assert first[:3] == [True] * 3

    def test_of_a_view_with_a_history(self):
        def program(m):
            a, view, seen = leaf(m), (leaf(m, 1, 2, 3) * 1)[:2], []
            self.looking(m, seen, view).apply(a, view).sum().backward()
            return seen

        assert both(program) == [True]

    def test_a_view_that_nobody_holds_comes_back_equal(self, no_gc):
        seen, base = [], ag.tensor([5.0, 6.0, 7.0])
        a = leaf(ag)
        y = self.looking(ag, seen).apply(a, base[:2])
        y.sum().backward()
        assert a.grad.tolist() == [5.0, 6.0]

    def test_a_saved_view_is_in_no_cycle(self, no_gc):
        """Its base may later hold what the node computed."""
        a, base = leaf(ag), ag.zeros(4)
        y = self.looking(ag, []).apply(a, base[:2])
        base[2:] = y
        node = weakref.ref(y.grad_fn)
        del y, base
        assert node() is None
