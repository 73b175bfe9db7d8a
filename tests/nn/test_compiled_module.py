"""What `ag.compile` returns for a module is a module: nothing about it is lost in another one."""

import copy
import pickle

import pytest

import autograd_gpu as ag
from autograd_gpu import func, nn, optim

pytestmark = pytest.mark.cpu


class Net(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x) * 2


def test_it_is_registered_in_another_module():
    layer = nn.Linear(2, 2)
    for net in (Net(ag.compile(layer)), nn.Sequential(ag.compile(layer)), nn.ModuleList([ag.compile(layer)])):
        assert list(map(id, net.parameters())) == list(map(id, layer.parameters()))
        assert [key.partition("_orig_mod.")[2] for key in net.state_dict()] == ["weight", "bias"]
    net = Net(ag.compile(layer)).eval()
    assert not layer.training
    net.load_state_dict({key: ag.ones_like(value) for key, value in net.state_dict().items()})
    assert layer.weight.sum() == 4
    net.double()
    assert layer.weight.dtype == ag.float64


def test_it_trains_inside_of_another_module():
    def losses(wrap):
        ag.manual_seed(0)
        net = Net(wrap(nn.Sequential(nn.Linear(2, 3), nn.Tanh())))
        optimizer, x, found = optim.SGD(net.parameters(), lr=0.1), ag.randn(4, 2), []
        for _ in range(5):
            optimizer.zero_grad()
            loss = (net(x) ** 2).sum()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found, net

    expected, _ = losses(lambda module: module)
    seen, net = losses(ag.compile)
    assert seen == expected
    assert net.layer.counts.compiled == 3


def test_attributes_are_those_of_the_module():
    net = nn.Sequential(nn.Linear(2, 3), nn.Dropout())
    compiled = ag.compile(net)
    assert (len(compiled), compiled[0], list(compiled), compiled._orig_mod) == (2, net[0], list(net), net)
    assert compiled.get_parameter("0.weight") is net[0].weight
    assert net[0] in compiled
    compiled.training = False
    compiled.note = 3
    compiled.extra = nn.ReLU()
    compiled.register_buffer("mean", ag.zeros(2))
    assert (net.training, net.note, net.extra.training, net.mean.shape) == (False, 3, True, (2,))
    del compiled.note, compiled.extra
    compiled[1] = nn.Tanh()
    assert not hasattr(net, "note")
    assert not hasattr(compiled, "extra")
    assert repr(net[1]) == "Tanh()"
    del compiled[1]
    with pytest.raises(AttributeError, match="missing"):
        _ = compiled.missing
    one = ag.compile(nn.Linear(2, 2))
    assert one
    with pytest.raises(TypeError, match="len"):
        len(one)
    with pytest.raises(TypeError):
        one[0]


def test_hooks_run_around_the_replay():
    compiled, seen = ag.compile(nn.Linear(2, 2)), []
    compiled.register_forward_hook(lambda module, args, result: seen.append(module))
    for _ in range(4):
        compiled(ag.ones(1, 2))
    assert seen == [compiled] * 4
    assert compiled.counts.compiled == 2


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies(copied):
    compiled = ag.compile(nn.Linear(2, 2))
    compiled(ag.ones(1, 2))
    other = copied(compiled)
    assert other._orig_mod is other._ag_compiled._fn
    assert other._orig_mod is not compiled._orig_mod
    assert (other(ag.ones(1, 2)) == compiled(ag.ones(1, 2))).all()


def test_compile_in_place_and_functional_call():
    layer = nn.Linear(2, 2)
    compiled, weight = ag.compile(layer), ag.ones(2, 2)
    result = func.functional_call(compiled, {"_orig_mod.weight": weight}, (ag.ones(1, 2),))
    assert (result == ag.ones(1, 2) @ weight + layer.bias).all()
    compiled.compile()
    x = ag.ones(1, 2)
    results = [compiled(x) for _ in range(4)]
    assert all((r == results[0]).all() for r in results)
    assert layer.forward.counts.compiled or compiled.counts.compiled
