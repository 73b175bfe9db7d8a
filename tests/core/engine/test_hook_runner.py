"""Which hooks run, when, and with which gradients: the same programs with PyTorch and here."""

from __future__ import annotations

import pytest
from against_torch import both, leaf

import autograd_gpu as ag


def accumulator(m, x):
    return m.autograd.graph.get_gradient_edge(x).node


class TestOfALeaf:
    def test_the_hooks_of_its_node_come_last(self):
        def program(m):
            x, log = leaf(m), []
            node = accumulator(m, x)
            node.register_hook(lambda grads, gs: log.append(("node", gs[0].tolist(), x.grad.tolist())))
            x.register_post_accumulate_grad_hook(lambda t: log.append(("accumulated", t.grad.tolist())))
            node.register_prehook(lambda gs: log.append(("before", gs[0].tolist(), x.grad)))
            x.register_hook(lambda g: log.append(("tensor", g.tolist())))
            (x * 2).sum().backward()
            return log

        assert [entry[0] for entry in both(program)] == ["tensor", "before", "accumulated", "node"]

    @pytest.mark.filterwarnings("ignore:Using backward:UserWarning")
    @pytest.mark.parametrize("create_graph", [False, True])
    def test_a_hook_of_its_node_has_the_last_word(self, create_graph):
        def program(m):
            x = leaf(m)

            def double(t):
                t.grad = (t.grad * 2).detach()

            def drop(grads, gs):
                x.grad = None

            x.register_post_accumulate_grad_hook(double)
            node = accumulator(m, x)
            with node.register_hook(drop):
                (x * 3).sum().backward(create_graph=create_graph)
            result = x.grad
            (x * 3).sum().backward(create_graph=create_graph)
            return result, x.grad

        assert both(program)[0] is None


PASSED_OVER = {  # name -> (what is differentiated, by what) of x, z, and y = 2x, w = 3x
    "an inner tensor": lambda m, x, z, y, w: (y, z),
    "by an inner tensor": lambda m, x, z, y, w: (y, z * 2),
    "by a tensor of greater depth": lambda m, x, z, y, w: (y, (z * 2).exp().exp()),
    "several": lambda m, x, z, y, w: ((y, w), z),
    "the same twice": lambda m, x, z, y, w: ((y, y), z),
    "beside one that leads there": lambda m, x, z, y, w: ((y, z * 3), z),
    "a leaf": lambda m, x, z, y, w: (x, z),
    "one of several outputs": lambda m, x, z, y, w: (y.unbind()[1], z),
    "one that leads there": lambda m, x, z, y, w: (y, x),
}


@pytest.mark.parametrize("how", ["grad", "recorded", "backward"])
@pytest.mark.parametrize("case", PASSED_OVER)
def test_an_output_that_leads_to_no_input(case, how):
    """Its tensor hooks and retain_grad run, if it is the only output; the hooks of its node do not."""

    def program(m):
        log, x, z = [], leaf(m), leaf(m)
        y, w = x * 2, x * 3
        for t in (y, w):
            t.retain_grad()
        outputs, inputs = PASSED_OVER[case](m, x, z, y, w)
        several = list(outputs) if isinstance(outputs, tuple) else [outputs]
        nodes = [y.grad_fn, accumulator(m, x), *(t.grad_fn for t in several if t.grad_fn is not None)]
        for name, t in {"x": x, "y": y, "w": w}.items():
            t.register_hook(lambda g, name=name: log.append((name, g.tolist())) or g * 3)
        for node in nodes:
            node.register_prehook(lambda gs: log.append("before a node"))
            node.register_hook(lambda grads, gs: log.append("after a node"))
        if inputs is not x:  # of the output itself PyTorch's never speaks
            m.autograd.graph.register_multi_grad_hook((y, w), lambda gs: log.append("all"))
        ones = [m.ones_like(t) for t in several]
        if how == "backward":
            m.autograd.backward(several, ones, inputs=[inputs])
            result = None
        else:
            result = m.autograd.grad(several, inputs, ones, allow_unused=True, create_graph=how == "recorded")
        return log, result, y.grad, w.grad, x.grad, inputs is z and z.grad

    both(program)


PAIRS = {
    "max": lambda m, x: x.max(0), "min": lambda m, x: x.min(0), "sort": lambda m, x: x.sort(),
    "stable sort": lambda m, x: x.sort(stable=True), "topk": lambda m, x: x.topk(2), "median": lambda m, x: x.median(0),
    "nanmedian": lambda m, x: x.nanmedian(0), "kthvalue": lambda m, x: x.kthvalue(1), "mode": lambda m, x: x.mode(),
    "cummax": lambda m, x: x.cummax(0), "cummin": lambda m, x: x.cummin(0), "frexp": lambda m, x: x.frexp(),
    "lu_factor": lambda m, x: m.linalg.lu_factor(x), "lu": lambda m, x: m.linalg.lu(x)[1:],
    "eigh": lambda m, x: m.linalg.eigh(x),
    "unbind": lambda m, x: x.unbind(), "split": lambda m, x: x.split([1, 2]),
}  # fmt: skip


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", PAIRS)
def test_a_node_gets_one_gradient_per_differentiable_output(name, create_graph):
    def program(m):
        x, log = m.tensor([[4.0, 1.0, 0.5], [1.0, 5.0, 2.0], [0.5, 2.0, 6.0]], requires_grad=True), []
        outs = PAIRS[name](m, x)
        node = outs[0].grad_fn
        node.register_prehook(lambda gs: log.append([None if g is None else g.tolist() for g in gs]))
        node.register_prehook(lambda gs: (gs[0] * 2, *gs[1:]))
        node.register_hook(lambda grads, gs: log.append([None if g is None else g.tolist() for g in gs]))
        (g,) = m.autograd.grad((outs[0] ** 3).sum(), x, create_graph=create_graph)
        return log, g, [t.output_nr for t in outs if t.requires_grad], len(node._input_metadata)

    both(program)


def several_values(m, log, materialize=True):
    class Several(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(materialize)
            return x * 2, 5, x.argmax(), None, x * 3

        @staticmethod
        def backward(ctx, a, number, place, nothing, b):
            log.append([None if g is None else g.tolist() for g in (a, number, nothing, b)])
            return None if a is None or b is None else a * 2 + b * 3

    return Several


@pytest.mark.parametrize("materialize", [True, False])
@pytest.mark.parametrize("used", ["first", "last", "both"])
def test_a_function_counts_every_value_that_it_returns(used, materialize):
    def program(m):
        log, x = [], leaf(m)
        a, _, _, _, b = several_values(m, log, materialize).apply(x * 1)
        node = a.grad_fn
        node.register_prehook(lambda gs: log.append([None if g is None else g.tolist() for g in gs]))
        node.register_hook(lambda grads, gs: log.append([None if g is None else g.tolist() for g in gs]))
        numbers = [a.output_nr, b.output_nr, m.autograd.graph.get_gradient_edge(b).output_nr, len(node._input_metadata)]
        loss = {"first": a, "last": b, "both": a + b}[used].sum()
        return numbers, m.autograd.grad(loss, x, allow_unused=True, materialize_grads=True), log[:-1], log[-1][:2]

    both(program)


def test_behind_a_declared_zero_a_value_that_is_no_tensor_gets_none():
    log, x = [], leaf(ag)
    a = several_values(ag, log).apply(x)[0]
    a.sign().sum().backward()
    assert log == [[[0.0, 0.0], None, None, [0.0, 0.0]]]
    assert x.grad.tolist() == [0.0, 0.0]


def test_a_function_with_one_tensor_among_its_values():
    def program(m):
        class Last(m.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.mark_dirty(x)
                return "name", x.mul_(2)

            @staticmethod
            def backward(ctx, name, g):
                return g * 2

        log, x = [], leaf(m)
        y = Last.apply(x * 1)[1]
        y.retain_grad()
        y.grad_fn.register_prehook(lambda gs: log.append([gs[0], gs[1].tolist()]))
        edge = m.autograd.graph.GradientEdge(y.grad_fn, 1)
        (g,) = m.autograd.grad((y * 3).sum(), edge, retain_graph=True)
        (y * 3).sum().backward()
        return y.output_nr, g, x.grad, y.grad, log

    both(program)


@pytest.mark.parametrize("used", ["first", "second", "both"])
@pytest.mark.parametrize("name", ["var_mean", "std_mean", "aminmax"])
def test_two_reductions_are_one_node(name, used):
    def program(m):
        x, log = m.tensor([1.0, 4.0, 2.0, 7.0], dtype=m.float64, requires_grad=True), []
        a, b = getattr(m, name)(x)
        a.grad_fn.register_prehook(lambda gs: log.append(gs))
        a.grad_fn.register_hook(lambda grads, gs: log.append((grads, gs)))
        loss = {"first": a**2, "second": b**2, "both": a * b}[used]
        (g,) = m.autograd.grad(loss, x, create_graph=True)
        (h,) = m.autograd.grad((g * m.tensor([1.0, 2.5, 5.0, 3.0])).sum(), x)
        return a.grad_fn is b.grad_fn, a.grad_fn.name(), a.output_nr, b.output_nr, a, b, log, g, h

    assert both(program)[:4] == [True, program(ag)[1], 0, 1]


def test_two_reductions_are_a_plain_pair():
    def program(m):
        x = leaf(m, 1.0, 4.0, 2.0)
        lowest = m.aminmax(x)
        return [type(getattr(m, name)(x)) is tuple for name in ("var_mean", "std_mean")], lowest.min, lowest.max

    both(program)
