"""Which hooks run, when, and with which gradients: the same programs with PyTorch and here."""

from __future__ import annotations

import pytest
from against_torch import both, leaf


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
            found = x.grad
            (x * 3).sum().backward(create_graph=create_graph)
            return found, x.grad

        assert both(program)[0] is None
