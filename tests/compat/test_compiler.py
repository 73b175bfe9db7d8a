"""The module compiler: PyTorch's names around `ag.compile`."""

import pytest

import autograd_gpu as ag

pytestmark = pytest.mark.cpu


def f(x):
    return x + 1


@pytest.mark.parametrize("decorate", [
    ag.compile, lambda fn: ag.compile()(fn), lambda fn: ag.compile(mode="reduce-overhead", fullgraph=True)(fn),
    ag.compiler.compile,
])  # fmt: skip
def test_compile(decorate):
    made = decorate(f)
    assert made.__name__ == "f"
    assert [made(ag.ones(1)).item() for _ in range(4)] == [2.0] * 4
    assert made.counts.compiled == 2
    net = ag.nn.Linear(2, 1)
    assert decorate(net).in_features == 2
    assert ag.compile(f, disable=True) is f
    with pytest.raises(TypeError, match="takes a function or a module"):
        ag.compile(3)


def test_module_compile():
    net = ag.nn.Linear(2, 1)
    net.compile(fullgraph=True)
    expected = ag.nn.functional.linear(ag.ones(1, 2), net.weight, net.bias)
    assert [(net(ag.ones(1, 2)) == expected).all().item() for _ in range(4)] == [True] * 4
    assert net.forward.counts.compiled == 2
    assert list(net.state_dict()) == ["weight", "bias"]


def test_is_compiling_is_true_while_a_call_is_recorded():
    seen = []

    def g(x):
        seen.append(ag.compiler.is_compiling())
        return x

    with pytest.warns(UserWarning, match="changes seen"):
        ag.compile(g)(ag.ones(1))
    g(ag.ones(1))
    assert seen == [True, False]
    assert [ag.compiler.is_dynamo_compiling(), ag.compiler.is_exporting()] == [False] * 2


def test_disable():
    for decorate in (ag.compiler.disable, ag.compiler.disable(), ag.compiler.disable(recursive=False, reason="x")):
        assert decorate(f)(ag.ones(1)).item() == 2.0
    for decorate in (ag.compiler.allow_in_graph, ag.compiler.assume_constant_result):
        assert decorate(f) is f
    ag.compiler.cudagraph_mark_step_begin()


def test_reset():
    made = ag.compile(f)
    for _ in range(3):
        made(ag.ones(1))
    ag.compiler.reset()
    assert made.counts.traced == 0
