"""compile and the module compiler return what they are given."""

import pytest

import autograd_gpu as ag
from autograd_gpu import missing_names

pytestmark = pytest.mark.cpu


def f(x):
    return x + 1


@pytest.fixture(autouse=True)
def _first_time(monkeypatch):
    monkeypatch.setattr(missing_names, "_WARNED", set())


@pytest.mark.parametrize("decorate", [
    ag.compile, lambda fn: ag.compile()(fn), lambda fn: ag.compile(mode="reduce-overhead", fullgraph=True)(fn),
    ag.compiler.compile,
])  # fmt: skip
@pytest.mark.filterwarnings("ignore:compile")
def test_compile(decorate):
    assert decorate(f) is f
    net = ag.nn.Linear(2, 1)
    assert decorate(net) is net


def test_warnings():
    with pytest.warns(UserWarning, match="compile returns what it is given"):
        ag.compile(f)
    ag.compile(f)
    missing_names._WARNED.clear()
    with pytest.warns(UserWarning, match=r"Module\.compile has no effect"):
        ag.nn.Linear(1, 1).compile(mode="default")
    assert ag.compile(f, disable=True) is f


def test_the_module():
    """A decorator that says what a compiler should do is true without one, and does not warn."""
    for decorate in (ag.compiler.disable, ag.compiler.disable(), ag.compiler.disable(recursive=False),
                     ag.compiler.allow_in_graph, ag.compiler.assume_constant_result):  # fmt: skip
        assert decorate(f) is f
    assert [ag.compiler.is_compiling(), ag.compiler.is_dynamo_compiling(), ag.compiler.is_exporting()] == [False] * 3
    ag.compiler.reset()
    ag.compiler.cudagraph_mark_step_begin()
