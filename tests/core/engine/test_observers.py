"""What is told of each node that runs: to the log, to the profiler, and to on_node_start's hooks."""

from __future__ import annotations

import logging

import pytest

import autograd_gpu as ag
from autograd_gpu.autograd import grad
from autograd_gpu.autograd.graph import on_node_start


def leaf(*values):
    return ag.tensor(values or (1.0, 2.0, 3.0), dtype=ag.float64, requires_grad=True)


class TestNodeStart:
    def test_before_each_node_that_runs(self):
        order = []
        a, b = leaf(), leaf()
        y = (a.sin() * b.cos()).sum()
        y.grad_fn.register_prehook(lambda gs: order.append("pre"))
        with on_node_start(lambda node: order.append(node.name())):
            grad(y, a)
        assert order == ["SumBackward0", "pre", "MulBackward0", "SinBackward0"]
        grad((a * b).sum(), a)
        assert len(order) == 4

    def test_leaves_too(self):
        names = []
        w, x = ag.ones(2, 2, requires_grad=True), ag.ones(2, 2)
        w.grad = ag.zeros(2, 2)
        with on_node_start(lambda node: names.append(node.name())):
            (x @ w).sum().backward()
        assert names == ["SumBackward0", "MatmulBackward0", "AccumulateGrad"]
        assert w.grad.tolist() == [[2.0, 2.0]] * 2

    def test_raising_and_registering(self):
        log = []
        y = leaf() * 2
        with on_node_start(lambda node: 1 / 0), pytest.raises(ZeroDivisionError):
            y.sum().backward()

        def hook(node):
            if not node.metadata.get("seen"):
                node.metadata["seen"] = True
                name = node.name()
                node.register_hook(lambda grads, gs: log.append(name))

        with on_node_start(hook):
            y.sum().backward()
        assert log == ["SumBackward0", "MulBackward0", "AccumulateGrad"]

    def test_modes_within(self):
        seen = []
        y = leaf() * 2
        with on_node_start(lambda node: seen.append(ag.is_grad_enabled())):
            y.sum().backward(retain_graph=True)
            assert set(seen) == {False}
            seen.clear()
            y.sum().backward(create_graph=True)
            assert set(seen) == {True}


class TestLogging:
    @pytest.mark.cpu
    def test_one_record_per_node(self, caplog):
        x, w, b = (ag.ones(*s, requires_grad=True) for s in ((2, 3), (4, 3), (4,)))
        y = ag.nn.functional.linear(x, w, b).exp().sum()
        with caplog.at_level(logging.DEBUG, logger="autograd_gpu.autograd.graph"):
            grad(y, x)
        first, second, third = (r.getMessage() for r in caplog.records)
        assert first.startswith("Executing: <SumBackward0 object at 0x")
        assert first.endswith("with grad_outputs: [f32[]]")
        assert "<ExpBackward0 object at 0x" in second
        assert second.endswith("with grad_outputs: [f32[2, 4]]")
        assert third.endswith("with grad_outputs: [f32[2, 4]] skipped: weight, bias")
        assert all(r.levelno == logging.DEBUG for r in caplog.records)

    def test_off_formats_nothing(self, monkeypatch):
        monkeypatch.setattr(ag.core.engine.observers, "describe_grad", lambda g: pytest.fail("formatted"))
        x = leaf(1.0)
        grad(x.exp(), x)

    def test_environment(self):
        import os
        import subprocess
        import sys

        code = "import autograd_gpu as ag; x = ag.ones(10, requires_grad=True); x.exp().sum().backward()"
        done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "AUTOGRAD_GPU_LOGS": "+autograd"},
                              capture_output=True, text=True, check=True)
        lines = done.stderr.splitlines()
        assert len(lines) == 3
        assert "[DEBUG] Executing: <ExpBackward0 object at 0x" in lines[1]
        assert lines[1].endswith("with grad_outputs: [f32[10]]")
        assert lines[1][:2] == "20"

    def test_unknown_name(self, monkeypatch):
        monkeypatch.setenv("AUTOGRAD_GPU_LOGS", "+nothing")
        with pytest.raises(ValueError, match="unknown log"):
            ag.logging.configure_from_environment()


class TestProfiler:
    def test_counts(self):
        a, b = ag.ones(4, 3, requires_grad=True), ag.ones(3, 2, requires_grad=True)
        with ag.profiler.count() as c:
            y = a @ b
            ag.bmm(ag.ones(5, 2, 3), ag.ones(5, 3, 4))
            y.sum().backward()
        assert dict(c.matmuls) == {(4, 3, 2): 1, (5, 2, 3, 4): 1, (4, 2, 3): 1, (3, 4, 2): 1}
        before = dict(c.matmuls)
        _ = a @ b
        assert dict(c.matmuls) == before
