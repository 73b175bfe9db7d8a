"""What offload fetches before backward asks for it, and lets go of."""

from __future__ import annotations

import pytest
from offloading import everything, lively, mlp

import autograd_gpu as ag
from autograd_gpu import nn
from autograd_gpu.autograd.graph import on_node_start
from autograd_gpu.backend.transfer import offload

pytestmark = pytest.mark.cuda


class TestPrefetch:
    def events(self, device, monkeypatch, prefetch, net=mlp):
        """The order in which nodes run and copies back are ordered."""
        results, fetched = [], offload._fetch
        monkeypatch.setattr(offload, "_fetch", lambda *args: results.append("copy") or fetched(*args))
        module, x = net(device)
        with everything(prefetch=prefetch) as hook:
            y = module(x).sum()
        ag.cuda.synchronize()
        assert hook.bytes_held == 0  # lets go of what is copied
        with on_node_start(lambda node: results.append(node.name())):
            y.backward()
        return [name for name in results if name in ("copy", "TanhBackward0", "LinearBackward0")]

    def test_none_on_demand(self, device, monkeypatch):
        chain = nn.Sequential(nn.Tanh(), nn.Tanh(), nn.Tanh())
        result = self.events(device, monkeypatch, 0, lambda d: (chain, lively(d)))
        assert result == ["TanhBackward0", "copy"] * 3

    @pytest.mark.parametrize("prefetch", [1, 2])
    def test_copies_are_ordered_before_the_nodes_that_need_them(self, prefetch, device, monkeypatch):
        chain = nn.Sequential(*[nn.Tanh() for _ in range(6)])
        result = self.events(device, monkeypatch, prefetch, lambda d: (chain, lively(d)))
        assert result.count("copy") == 6
        for node in range(2, 7):  # node n runs when all up to node n + prefetch are on their way
            where = [i for i, name in enumerate(result) if name != "copy"][node - 1]
            assert result[:where].count("copy") == min(node - 1 + prefetch, 6)

    def test_what_two_nodes_share_comes_back_once(self, device, monkeypatch):
        net, x = mlp(device)
        result = self.events(device, monkeypatch, 2, lambda d: (net, x))
        assert result.count("copy") == 6

    def test_what_a_backward_passes_over_is_let_go(self, device):
        x, most = lively(device), []
        with everything() as hook:
            a = x.exp()
            b = (a.tanh().tanh() + x.detach().cos()).sin()
        ag.cuda.synchronize()
        assert hook.bytes_held == 0
        y = b.sum()
        with on_node_start(lambda node: most.append(hook.bytes_held)):
            ag.autograd.grad(y, a, retain_graph=True)
        assert 0 < max(most) <= 2 * x.nbytes
        assert hook.bytes_held == 0
        assert b.grad_fn._saved_self.shape == x.shape  # somebody just looks: nothing else comes
        assert hook.bytes_held == 0
        y.backward()
        assert hook.bytes_held == 0

    def test_what_is_passed_over_on_the_way_is_let_go(self, device):
        x, most, others = lively(device), [], []
        with everything() as hook:
            h = first = x.tanh()
            for _ in range(6):
                h = h.tanh()
                others.append(x.tanh())  # whose derivative is not asked for
        y = sum(others, h).sum()
        ag.cuda.synchronize()
        assert hook.bytes_held == 0
        with on_node_start(lambda node: most.append(hook.bytes_held)):
            ag.autograd.grad(y, first)
        assert 0 < max(most) <= 3 * x.nbytes


def test_a_backward_that_fails_lets_go_of_what_was_prefetched(device):
    x = lively(device)

    def fail(g):
        raise ValueError("mine")

    with everything() as hook:
        h = (x * 1).sin().exp()
        h.register_hook(fail)
        y = h.tanh().tanh().sum()
    ag.cuda.synchronize()
    assert hook.bytes_held == 0
    with pytest.raises(ValueError, match="mine"):
        y.backward(retain_graph=True)
    ag.cuda.synchronize()
    assert hook.bytes_held == 0
