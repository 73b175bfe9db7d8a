"""jit.script and its kin return what they are given."""

import pytest

import autograd_gpu as ag

pytestmark = [pytest.mark.cpu, pytest.mark.filterwarnings("ignore:jit")]


def test_decorators_return_the_function():
    def f(x):
        return x + 1

    words = (ag.jit.script, ag.jit.script_method, ag.jit.script_if_tracing, ag.jit.export, ag.jit.unused, ag.jit.ignore,
             ag.jit.ignore(), ag.jit.ignore(drop=True), ag.jit.freeze, ag.jit.optimize_for_inference)  # fmt: skip
    assert all(decorate(f) is f for decorate in words)
    net = ag.nn.Linear(2, 1)
    assert ag.jit.script(net) is net
    assert ag.jit.script(ag.nn.Linear) is ag.nn.Linear


def test_a_program_in_pytorchs_style():
    torch = pytest.importorskip("torch")
    results = []
    for m in (torch, ag):

        class Net(m.nn.Module):
            scale: m.jit.Final[float]

            def __init__(self, m=m):
                super().__init__()
                self.scale = 2.0

            @m.jit.ignore
            def help(self, x):
                return x * self.scale

            @m.jit.export
            def forward(self, x, m=m):
                assert not m.jit.is_scripting()
                assert not m.jit.is_tracing()
                return self.help(m.jit.annotate(m.Tensor, x))

        results.append(Net()(m.ones(2)).tolist())
    assert results[0] == results[1]
