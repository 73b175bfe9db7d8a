"""What a profile sees: calls, nodes tied to their calls, what was skipped, in all ways to compute derivatives."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from profiled import lines, mlp, of_kind

import autograd_gpu as ag
from autograd_gpu import func
from autograd_gpu.profiler import profile, record_function


class Square(ag.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2.0 * g * x


@pytest.fixture(scope="module")
def step(device):
    """A profile of a training step, and the counts of the same step."""
    run = mlp(device)
    with ag.profiler.count() as counted:
        run()
    with profile(profile_memory=True, record_shapes=True) as prof, record_function("step"):
        run()
    return prof, counted


STEP = """step
  linear
  bias_activation
  linear
  pow
  mean
  plan
  backward
    MeanBackward0
    PowBackward0
    LinearBackward0
    AccumulateGrad
    AccumulateGrad
    BiasActivationBackward0
    AccumulateGrad
    LinearBackward0
    AccumulateGrad
  Optimizer.step#Adam.step"""


def test_a_training_step(step):
    prof, _ = step
    spans = [e.kind for e in prof.events() if not e.is_instant]
    assert "\n".join(lines(prof, *spans)) == STEP


def test_spans_lie_in_their_parents(step):
    prof, _ = step
    for e in prof.events():
        if e.cpu_parent is not None:
            outer = e.cpu_parent.time_range
            assert outer.start <= e.time_range.start <= e.time_range.end <= outer.end
        inside = sum(child.cpu_time_total for child in e.cpu_children)
        assert e.self_cpu_time_total == pytest.approx(e.cpu_time_total - inside)
        assert e.is_instant or e.self_cpu_time_total >= 0


def test_a_node_is_tied_to_its_call(step):
    prof, _ = step
    pairs = [(e.forward.name, e.name) for e in of_kind(prof, "node") if e.sequence_nr >= 0]
    assert pairs == [("mean", "MeanBackward0"), ("pow", "PowBackward0"), ("linear", "LinearBackward0"),
                     ("bias_activation", "BiasActivationBackward0"), ("linear", "LinearBackward0")]
    for e in of_kind(prof, "node"):
        assert e.sequence_nr < 0 or e.forward.sequence_nr == e.sequence_nr
    assert len({e.sequence_nr for e in of_kind(prof, "op")}) == 5


def test_products_and_launches_are_those_that_count_sees(step):
    prof, counted = step
    products = [tuple(e.facts["shape"]) for e in of_kind(prof, "product")]
    assert sorted(products) == sorted(counted.matmuls.elements())
    assert sorted(e.name for e in of_kind(prof, "launch")) == sorted(counted.launches.elements())
    rules = [name for e in of_kind(prof, "node") for name in e.facts.get("rules", ())]
    assert sorted(rules) == sorted(counted.rules.elements())
    (whole,) = of_kind(prof, "range")
    assert (whole.products, whole.launches) == (5, counted.launches.total())


def test_what_was_skipped(step):
    prof, _ = step
    found = {(e.cpu_parent.sequence_nr, e.name): e.facts for e in of_kind(prof, "skipped")}
    first = min(number for number, _ in found)
    assert found[first, "linear.grad_x"] == {"reason": "the input requires no gradient", "product": True}
    a, b = (ag.ones(2, 2, requires_grad=True) for _ in range(2))
    y = (a @ b).floor().sum() + (a @ b).sum()
    asked = "this call asks for no gradient behind the input"
    unneeded = "nothing that this call asks for lies behind it"
    with profile() as prof:
        ag.autograd.grad(y, a)
    reasons = {e.name: e.facts["reason"] for e in of_kind(prof, "skipped")}
    assert reasons == {"matmul.grad_b": asked, "add.grad_a": asked, "SumBackward0": unneeded,
                       "FloorBackward0": unneeded}
    assert [e.products for e in of_kind(prof, "node") if e.name == "MatmulBackward0"] == [1]
    with profile() as prof:
        a.heaviside(b.exp()).sum().backward()
    assert [(e.name, e.facts) for e in of_kind(prof, "skipped")] == [
        ("heaviside.grad_x", {"reason": "the derivative is zero everywhere"})]
    with profile() as prof:
        ag.autograd.grad((a.exp() * b.sin()).sum(), a)
    assert {e.name: e.facts["reason"] for e in of_kind(prof, "skipped")} == {"SinBackward0": unneeded,
                                                                             "mul.grad_b": asked}


def test_shapes_and_bytes(step):
    prof, _ = step
    first = of_kind(prof, "op")[0]
    assert first.input_shapes == [[32, 8], [16, 8], []]
    assert first.memory_usage == 32 * 16 * 4
    (whole,) = of_kind(prof, "range")
    assert whole.memory_usage == sum(e.self_memory_usage for e in prof.events())


def test_averages_are_the_sums_of_the_events(step):
    prof, _ = step
    spans = [e for e in prof.events() if not e.is_instant]
    for row in prof.key_averages():
        mine = [e for e in spans if e.name == row.key]
        assert row.count == len(mine)
        assert row.cpu_time_total == pytest.approx(sum(e.cpu_time_total for e in mine))
        assert row.self_cpu_time_total == pytest.approx(sum(e.self_cpu_time_total for e in mine))
        assert row.memory_usage == sum(e.memory_usage for e in mine)
        assert (row.products, row.launches) == (sum(e.products for e in mine), sum(e.launches for e in mine))
    shaped = {(r.key, repr(r.input_shapes)): r.count for r in prof.key_averages(group_by_input_shape=True)}
    assert shaped["linear", "[[32, 8], [16, 8], []]"] == 1
    total = prof.key_averages().total()
    (whole,) = of_kind(prof, "range")
    assert total.self_cpu_time_total == pytest.approx(whole.cpu_time_total)


def test_a_hessian():
    w, x = ag.randn(3, 4), ag.randn(3)
    with ag.profiler.count() as counted:
        expected = func.hessian(lambda x: ag.tanh(x @ w).sum())(x)
    with profile() as prof:
        result = func.hessian(lambda x: ag.tanh(x @ w).sum())(x)
    assert (result == expected).all()
    assert sorted(tuple(e.facts["shape"]) for e in of_kind(prof, "product")) == sorted(counted.matmuls.elements())
    assert "activation_jet" in [e.name for e in of_kind(prof, "op")]


def test_under_vmap_of_grad():
    w, x = ag.randn(4, 3), ag.randn(5, 3)
    with profile() as prof:
        func.vmap(func.grad(lambda x: ag.nn.functional.linear(x, w).tanh().sum()))(x)
    assert lines(prof, "op", "node") == [
        "linear", "tanh", "sum", "  SumBackward0", "    expand", "  TanhBackward0", "    tanh_grad",
        "  LinearBackward0", "    matmul"]  # fmt: skip
    tied = [(e.name, e.forward.name) for e in of_kind(prof, "node")]
    assert tied == [("SumBackward0", "sum"), ("TanhBackward0", "tanh"), ("LinearBackward0", "linear")]


def test_double_backward_through_a_function():
    x = ag.ones(3, requires_grad=True)
    with profile() as prof:
        (g,) = ag.autograd.grad(Square.apply(x).sum(), x, create_graph=True)
        g.sum().backward()
    assert lines(prof, "op", "node", "function") == [
        "Square", "  mul", "sum", "  SumBackward0", "    expand", "  SquareBackward", "    mul", "    mul",
        "sum", "  SumBackward0", "  MulBackward0", "  AccumulateGrad"]  # fmt: skip
    nodes = [e for e in of_kind(prof, "node") if e.sequence_nr >= 0]
    assert [e.forward.name for e in nodes] == ["sum", "Square", "sum", "mul"]
    assert [e.name for e in of_kind(prof, "backward")] == ["grad", "backward"]


def test_a_write_into_a_view():
    x = ag.ones(3, requires_grad=True)
    with profile() as prof:
        y = x * 2.0
        y[1:].mul_(3.0)
        y.sum().backward()
    tied = [(e.name, e.forward and e.forward.name) for e in of_kind(prof, "node") if e.sequence_nr >= 0]
    assert ("MulBackward0", "mul") in tied
    assert lines(prof, "op") == ["mul", "basic_index", "mul", "sum"]


def test_a_thread_is_a_track():
    x = ag.ones(3, requires_grad=True)
    with profile() as prof:
        y = x.exp().sum()
        thread = threading.Thread(target=y.backward, name="worker")
        thread.start()
        thread.join()
    tracks = {(e.thread, e.name) for e in of_kind(prof, "op", "node")}
    assert tracks == {(0, "exp"), (0, "sum"), (1, "SumBackward0"), (1, "ExpBackward0"), (1, "AccumulateGrad")}
    assert {e.forward.thread for e in of_kind(prof, "node") if e.forward is not None} == {0}


def test_a_deep_backward_goes_on_in_the_track_of_its_helper_thread():
    class Deeper(Square):
        @staticmethod
        def forward(ctx, x, n):
            ctx.n = n
            return x * 1.0

        @staticmethod
        def backward(ctx, g):
            if ctx.n:
                with ag.enable_grad():
                    Deeper.apply(ag.ones(1, requires_grad=True), ctx.n - 1).backward()
            return g, None

    with profile() as prof:
        Deeper.apply(ag.ones(1, requires_grad=True), 40).backward()
    nodes = [e for e in of_kind(prof, "node") if e.name == "DeeperBackward"]
    assert {e.thread for e in nodes} == {0, 1}
    assert len(nodes) == 41
    assert all(e.forward.name == "Deeper" for e in nodes)
    assert {e.thread for e in of_kind(prof, "function")} == {0, 1}


def test_inside_of_forward_mode_and_of_a_selective_checkpoint():
    x = ag.ones(2, 2, requires_grad=True)
    policy = ag.utils.checkpoint.create_selective_checkpoint_contexts
    with profile() as prof, ag.autograd.forward_ad.dual_level():
        dual = ag.autograd.forward_ad.make_dual(ag.ones(2), ag.ones(2))
        dual.sin()
    assert lines(prof, "op")[-3:] == ["sin", "cos", "mul"]
    with profile() as prof:
        ag.utils.checkpoint.checkpoint(lambda t: (t @ t).exp(), x, use_reentrant=False,
                                       context_fn=lambda: policy([ag.matmul])).sum().backward()  # fmt: skip
    assert [e.name for e in of_kind(prof, "op")].count("matmul") == 2
    assert len(of_kind(prof, "product")) == 3  # the second run takes the product that the first one kept


def test_errors_end_their_spans():
    class Failing(Square):
        @staticmethod
        def backward(ctx, g):
            raise ZeroDivisionError

    class Optimizer(ag.optim.SGD):
        def step(self, closure=None):
            raise ZeroDivisionError

    x = ag.ones(3, requires_grad=True)
    with profile() as prof, record_function("all"):
        with pytest.raises(RuntimeError):
            ag.ones(2) @ ag.ones(3)
        with pytest.raises(ZeroDivisionError):
            Failing.apply(x).sum().backward()
        with pytest.raises(ZeroDivisionError):
            Optimizer([x]).step()
        x.exp()
    failed = [(e.name, e.facts["error"]) for e in prof.events() if "error" in e.facts]
    assert failed == [("matmul", "RuntimeError"), ("backward", "ZeroDivisionError"),
                      ("FailingBackward", "ZeroDivisionError"), ("Optimizer.step#Optimizer.step", "ZeroDivisionError")]
    assert lines(prof)[-1] == "  exp"


def test_a_checkpoint_shows_both_runs():
    x = ag.ones(3, requires_grad=True)
    with profile() as prof:
        ag.utils.checkpoint.checkpoint(lambda t: t.exp().sin(), x, use_reentrant=False).sum().backward()
    assert [e.name for e in of_kind(prof, "op")] == ["exp", "sin", "sum", "exp", "sin"]


@pytest.mark.parametrize("use", ["quantize", "plain"])
def test_packing_and_unpacking_with_bytes(use, device):
    x = ag.randn(64, 64, requires_grad=True)
    hook = ag.hooks.quantize(ag.bfloat16)
    if use == "plain":
        hook = ag.autograd.graph.saved_tensors_hooks(lambda t: t.half(), lambda t: t.float())
    with profile() as prof, hook:
        y = x.tanh()
        z = (y @ y).sum()
    held = sum(e.facts["held"] + e.facts["held_on_host"] for e in of_kind(prof, "pack"))
    assert held == (hook.bytes_held if use == "quantize" else 3 * 64 * 64 * 2)
    assert [e.facts["bytes"] for e in of_kind(prof, "pack")] == [64 * 64 * 4] * 3
    with profile() as prof:
        z.backward()
    assert [e.facts["bytes"] for e in of_kind(prof, "unpack")] == [64 * 64 * 4] * 3
    assert all(e.cpu_parent.kind == "node" for e in of_kind(prof, "unpack"))


def test_functions_of_numpy_are_calls(device):
    x = ag.ones(3, device=device, requires_grad=True)
    with profile() as prof:
        np.linalg.norm(np.concatenate([x, 2 * x])).backward()
    names = [e.name for e in prof.events() if not e.is_instant]
    assert names[:3] == ["mul", "cat", "norm"]
    assert {"NormBackward0", "CatBackward0", "MulBackward0"} <= {*names}


def test_a_compiled_step_is_replayed_as_one_span(device):
    """With the same program as without a profile; products inside are seen, ops are not."""
    model = ag.nn.Linear(3, 2).to(device)
    optimizer = ag.optim.SGD(model.parameters(), lr=0.1)

    @ag.compile
    def step(x):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    x = ag.rand(4, 3, device=device)
    for _ in range(4):
        step(x)
    traced = step.counts.traced
    with profile() as prof:
        for _ in range(2):
            step(x)
    assert step.counts.traced == traced
    (first, second) = [e for e in prof.events() if not e.is_instant]
    assert (first.kind, first.name, second.name) == ("replay", "compiled step", "compiled step")
    products = [e for e in prof.events() if e.kind == "product"]
    assert [e.cpu_parent for e in products] == [first, first, second, second]
