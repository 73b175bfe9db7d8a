"""Saved tensors: what a node keeps, the version check, reading and freeing."""

from __future__ import annotations

import weakref

import pytest
from against_torch import both, hooks_of, leaf, outcome, same

import autograd_gpu as ag
from autograd_gpu.autograd.graph import saved_tensors_hooks

MODIFIED = "modified by an inplace operation"


def changed_input(m):
    y = leaf(m) * 2
    z = y.sin()
    y.mul_(3)
    z.sum().backward()


def changed_leaf(m):
    x = leaf(m)
    z = x.sin()
    with m.no_grad():
        x.zero_()
    z.sum().backward()


def changed_output(m):
    z = leaf(m).exp()
    z.mul_(2)
    z.sum().backward()


def changed_matrix_by_another_view(m):
    x = m.ones(2, 3, requires_grad=True) * 1
    z = x.sigmoid()
    with m.no_grad():
        z[0].add_(1)
        z[1].add_(1)
    z.sum().backward()


def changed_result_of_function(m):
    class Double(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            out = x * 2
            ctx.save_for_backward(out)
            return out

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    out = Double.apply(leaf(m))
    out.add_(1)
    out.sum().backward()


def changed_before_it_is_read(m):
    y = leaf(m) * 1
    z = y.sin()
    y.add_(1)
    return z.grad_fn._saved_self


class TestVersions:
    @pytest.mark.parametrize("program", [changed_input, changed_leaf, changed_output, changed_matrix_by_another_view,
                                         changed_result_of_function, changed_before_it_is_read])
    def test_message(self, program):
        kind, text = both(program)
        assert kind is RuntimeError
        assert MODIFIED.replace(" ", "") in text

    def test_message_in_full(self, device):
        with pytest.raises(RuntimeError) as caught:
            changed_output(ag)
        assert str(caught.value).startswith(
            "one of the variables needed for gradient computation has been modified by an inplace operation: "
            "[autograd_gpu.float32 [2]], which is output 0 of ExpBackward0, is at version 1; expected version 0 "
            "instead. Hint: "
        )

    def test_what_no_rule_reads_may_change(self):
        def program(m):
            x = leaf(m)
            y = x * 2
            z = y + 1
            y.zero_()
            z.mul_(3)
            z.sum().backward()
            return x.grad

        both(program)

    def test_detached_since(self):
        def program(m):
            y = leaf(m) * 2
            z = y.sin()
            y.detach_()
            z.sum().backward()

        both(program)

    @pytest.mark.parametrize("change", [lambda m, x: m.autograd.graph.increment_version(x),
                                        lambda m, x: m.autograd.graph.increment_version([x, x]),
                                        lambda m, x: m.autograd.graph.increment_version(x for _ in range(2)),
                                        lambda m, x: m.autograd.graph.increment_version(()),
                                        lambda m, x: m.autograd.graph.increment_version(3),
                                        lambda m, x: m.autograd.graph.increment_version([3])])
    def test_increment_version(self, change):
        def program(m):
            x = leaf(m)
            z = x.sin()
            change(m, x)
            z.sum().backward()
            return x.grad

        both(program)

    def test_increment_version_of_inference_tensors(self):
        def program(m):
            with m.inference_mode():
                x = m.ones(2)
            m.autograd.graph.increment_version([x])
            return x.is_inference()

        assert both(program) is True


class TestReading:
    @pytest.mark.parametrize("program", [
        lambda x: [x.sin().grad_fn._saved_self is x, (x * x).grad_fn._saved_other is x],
        lambda x: [(x * x.detach()).grad_fn._saved_self, (x * x.detach()).grad_fn._saved_other],
        lambda x: [(x**3).grad_fn._saved_exponent, (x**3).grad_fn._saved_self],
        lambda x: [x.reshape(1, 2).max(0)[0].grad_fn._saved_indices, x.reshape(1, 2).max(0)[0].grad_fn._saved_dim],
        lambda x: [x.sum(0, keepdim=True).grad_fn._saved_keepdim],
        lambda x: x.sin().grad_fn._saved_nonsense,
        lambda x: x.sin().grad_fn._raw_saved_nonsense,
        lambda x: hasattr(x.sum().grad_fn, "_raw_saved_dim"),
    ])  # fmt: skip
    def test_values(self, program):
        both(lambda m: program(leaf(m)))

    def test_saved_output_is_linked_to_its_node(self):
        def program(m):
            y = leaf(m).exp()
            out = y.grad_fn._saved_result
            return out is y, out.grad_fn is y.grad_fn, out.output_nr, out.requires_grad, out.is_leaf, out._version

        assert both(program) == [False, True, 0, True, False, 0]

    def test_what_forward_left_and_names(self, device):
        x = ag.ones(2, 3, requires_grad=True)
        node = ag.nn.functional.rrelu(x, training=True).grad_fn
        with ag.inference_mode():
            slopes = node._saved_slopes.tolist()
        node._raw_saved_slopes.register_hooks(lambda t: -t, lambda t: -t)
        assert node._saved_slopes.tolist() == slopes
        node = (x * x).grad_fn
        assert [n for n in dir(node) if n.startswith(("_saved_", "_raw_saved_"))] == [
            "_raw_saved_other", "_raw_saved_self", "_saved_other", "_saved_self"]  # fmt: skip
        assert "_raw_saved_other" not in dir((x * 3).grad_fn)

    def test_listing_them_changes_no_node(self):
        node = ag.nn.functional.rrelu(ag.ones(4, requires_grad=True), training=True).grad_fn
        before = node.e_slopes
        assert {"_saved_slopes", "_raw_saved_slopes"} <= set(dir(node))
        assert node.e_slopes is before
        assert node._saved_slopes.shape == (4,)
        assert "_raw_saved_slopes" in dir(node)

    def test_of_a_function(self):
        def program(m):
            class Scale(m.autograd.Function):
                @staticmethod
                def forward(ctx, x, factor):
                    ctx.save_for_backward(x, None)
                    ctx.factor = factor
                    return x * factor

                @staticmethod
                def backward(ctx, g):
                    ctx.saved_tensors[0].sum()
                    return g * ctx.factor, None

            x, calls = leaf(m), []
            node = (y := Scale.apply(x, 3)).grad_fn
            raw = node._raw_saved_tensors
            results = [node.factor, node.saved_tensors[0] is x, node.saved_tensors[1], hasattr(node, "nonsense")]
            raw[0].register_hooks(lambda t: calls.append("pack") or t.clone(), lambda t: calls.append("unpack") or t)
            refused = [outcome(lambda m, r=r: r.register_hooks(same, same), m) for r in raw]
            y.sum().backward()
            return results, calls, refused, outcome(lambda m: node._raw_saved_tensors, m), outcome(
                lambda m: node.saved_tensors, m)  # fmt: skip

        both(program)


class TestFreed:
    @pytest.mark.parametrize("program", [
        lambda y, raw: y.backward(),
        lambda y, raw: y.grad_fn.next_functions[0][0]._saved_self,
        lambda y, raw: y.grad_fn.next_functions[0][0]._raw_saved_self.register_hooks(same, same),
        lambda y, raw: raw.register_hooks(same, same),
    ], ids=["backward", "read", "register", "register on a handle taken before"])  # fmt: skip
    @pytest.mark.parametrize("retain", [False, True])
    def test_after_backward(self, program, retain):
        def whole(m):
            y = leaf(m).sin().sum()
            raw = y.grad_fn.next_functions[0][0]._raw_saved_self
            y.backward(retain_graph=retain)
            result = program(y, raw)
            return None if result is None else result.tolist()

        result = both(whole)
        assert retain or "freed" in result[1]

    def test_a_handle_keeps_no_memory(self):
        y = (ag.ones(2, requires_grad=True) * 1).sin()
        raw, died = y.grad_fn._raw_saved_self, weakref.ref(y.grad_fn._saved_self)
        y.sum().backward()
        assert died() is None
        assert raw is not None

    def test_packed_values_go_when_their_node_has_run(self):
        class Box:
            def __init__(self, t):
                self.t = t

        boxes, alive = [], []
        x = leaf(ag)

        def pack(t):
            boxes.append(weakref.ref(box := Box(t)))
            return box

        with saved_tensors_hooks(pack, lambda box: box.t):
            y = x.sin()
            z = y.cos()
        y.grad_fn.register_prehook(lambda gs: alive.append([box() is not None for box in boxes]))
        z.sum().backward()
        assert alive == [[True, False]]
        assert [box() for box in boxes] == [None, None]


WRITES = {name: lambda v, name=name: getattr(v, name)() for name in ("exp_", "sigmoid_", "tanh_", "sqrt_", "tan_")}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("asked", ["view", "base", "x"])
@pytest.mark.parametrize("hooked", [False, True])
def test_second_derivatives(write, asked, hooked):
    def program(m):
        x = leaf(m, 0.5, 0.25)
        base = x * 1
        view = base[:1]
        if hooked:
            with hooks_of(m)(same, same):
                WRITES[write](view)
        else:
            WRITES[write](view)
        (g,) = m.autograd.grad((base * base).sum(), x, create_graph=True)
        at = {"view": view, "base": base, "x": x}[asked]
        return g, m.autograd.grad(g.sum(), at, allow_unused=True)

    both(program)


def test_of_a_view_that_is_gone():
    def program(m):
        x = leaf(m, 0.5, 0.25)
        base = x * 1
        base[1:].exp_()
        (g,) = m.autograd.grad(base.sum(), x, create_graph=True)
        return m.autograd.grad(g.sum(), (base, x), allow_unused=True)

    both(program)


def test_written_to_again(device):
    base = ag.ones(2, device=device, requires_grad=True) * 1
    view = base[:1]
    view.exp_()
    y = base.sum()
    view.mul_(2)
    with pytest.raises(RuntimeError, match="output 0 of ExpBackward0, is at version 2; expected version 1"):
        y.backward()


def test_no_cycle(no_gc):
    x = ag.ones(2, requires_grad=True)
    view = (x * 1)[:1]
    view.exp_()
    node = weakref.ref(view.grad_fn)
    del view
    assert node() is None
