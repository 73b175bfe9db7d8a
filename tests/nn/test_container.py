"""Containers of modules and of parameters."""

import re

import pytest

import autograd_gpu as ag
from autograd_gpu import nn

# ---- modules in order --------------------------------------------------------------------------------


def test_sequential():
    layers = [nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)]
    net = nn.Sequential(*layers)
    assert [n for n, _ in net.named_children()] == ["0", "1", "2"]
    assert net[0] is layers[0]
    assert net[-1] is layers[2]
    assert list(net) == layers
    assert isinstance(net[1:], nn.Sequential)
    assert list(net[1:]) == layers[1:]
    x = ag.ones(4, 2)
    assert net(x).tolist() == layers[2](layers[1](layers[0](x))).tolist()
    net[1] = nn.Tanh()
    assert isinstance(net[1], nn.Tanh)
    del net[0]
    assert [n for n, _ in net.named_children()] == ["0", "1"]
    assert len(net.append(nn.ReLU()).extend([nn.ReLU()])) == 4
    with pytest.raises(IndexError, match="index 9 is out of range"):
        net[9]
    with pytest.raises(TypeError, match="int is not a Module subclass"):
        nn.Sequential(nn.ReLU(), 3)
    with pytest.raises(TypeError, match="'str' object cannot be interpreted as an integer"):
        net["0"]
    for index in (5, -5):
        with pytest.raises(IndexError, match=f"Index out of range: {index}"):
            net.insert(index, nn.ReLU())
    with pytest.raises(TypeError, match=r"Sequential\.extend should be called with an iterable, but got int"):
        net.extend(3)


def test_reads_do_not_count_the_modules():
    layers = nn.ModuleList(nn.ReLU() for _ in range(8))
    counted = []
    layers._ag_names = lambda: counted.append("all of them")
    assert layers[-1] is layers[7]
    assert len(layers.append(nn.ReLU())) == 9
    assert not counted


def test_sequential_by_name():
    net = nn.Sequential({"a": nn.Linear(1, 1), "b": nn.ReLU()})
    assert list(net.state_dict()) == ["a.weight", "a.bias"]
    assert net.b is net[1]
    net.add_module("c", nn.Tanh())
    del net[1]
    assert [n for n, _ in net.named_children()] == ["a", "c"]
    assert repr(net[:1]) == "Sequential(\n  (a): Linear(in_features=1, out_features=1, bias=True)\n)"


def test_module_list():
    layers = nn.ModuleList(nn.Linear(1, 1) for _ in range(3))
    assert len(list(layers.parameters())) == 6
    extra = nn.ReLU()
    layers.insert(1, extra)
    assert layers[1] is extra
    assert len(layers[2:]) == 2
    assert isinstance(layers[:1], nn.ModuleList)
    assert len(layers.append(nn.ReLU())) == 5
    with pytest.raises(NotImplementedError, match='missing the required "forward"'):
        layers(1)


def test_sequences_are_joined_repeated_and_cut():
    relu, tanh = nn.ReLU(), nn.Tanh()
    others = [tanh]
    net = nn.Sequential(relu) + nn.Sequential(tanh)
    assert list(net) == [relu, tanh]
    assert list(net * 2) == list(2 * net) == [relu, tanh] * 2
    net += nn.Sequential(tanh)
    net *= 2
    assert list(net) == [relu, tanh, tanh] * 2
    assert net.pop(0) is relu
    assert [name for name, _ in net.named_children()] == ["0", "2"]  # each once
    assert list(net.insert(1, relu))[:3] == [tanh, relu, tanh]
    with pytest.raises(ValueError, match="add operator supports only objects of Sequential"):
        net + others
    with pytest.raises(ValueError, match="Non-positive multiplication factor 0"):
        net * 0
    with pytest.raises(TypeError, match="unsupported operand"):
        net * 1.5
    with pytest.raises(TypeError, match="insert: expected a Module, got int"):
        net.insert(0, 3)
    layers = nn.ModuleList([relu]) + others
    layers += [relu]
    assert list(layers) == [relu, tanh, relu]
    assert layers.pop(-1) is relu
    assert len(layers) == 2


def test_a_list_prints_equal_modules_in_one_line():
    torch = pytest.importorskip("torch")

    def build(m):
        return m.ModuleList([*(m.Linear(2, 2) for _ in range(3)), m.ReLU(), m.Sequential(m.ReLU())])

    assert repr(build(nn)) == repr(build(torch.nn))
    assert repr(nn.ModuleList()) == "ModuleList()"


# ---- modules by name ---------------------------------------------------------------------------------


def test_module_dict():
    relu, linear = nn.ReLU(), nn.Linear(2, 1)
    layers = nn.ModuleDict({"act": relu})
    layers["out"] = linear
    layers.update([("again", relu)])
    layers.update(nn.ModuleDict({"last": linear}))
    assert list(layers) == list(layers.keys()) == ["act", "out", "again", "last"]
    assert list(layers.values()) == [relu, linear, relu, linear]
    assert dict(layers.items())["out"] is linear
    assert "act" in layers
    assert "training" not in layers
    assert len(list(layers.parameters())) == 2
    assert layers.pop("again") is relu
    del layers["last"]
    assert len(layers) == 2
    with pytest.raises(KeyError):
        layers["training"]
    with pytest.raises(KeyError):
        del layers["nope"]
    with pytest.raises(TypeError, match=r"ModuleDict\.update should be called with an iterable of key/value pairs"):
        layers.update(3)
    with pytest.raises(TypeError, match="sequence element #0 should be Iterable"):
        layers.update([3])
    with pytest.raises(ValueError, match="sequence element #0 has length 1; 2 is required"):
        layers.update([(3,)])
    with pytest.raises(TypeError, match="int is not a Module subclass"):
        layers["x"] = 3
    layers.clear()
    assert repr(layers) == "ModuleDict()"


# ---- parameters --------------------------------------------------------------------------------------


def printed(module):
    """As on the CPU: elsewhere the device stands behind the size."""
    return re.sub(r" \(cuda:\d+\)", "", repr(module))


def test_parameter_list():
    first = nn.Parameter(ag.ones(2))
    weights = nn.ParameterList([first, ag.zeros(3, 1), "note"])
    assert weights[0] is first
    assert isinstance(weights[1], nn.Parameter)
    assert weights[-1] == "note"
    assert [name for name, _ in weights.named_parameters()] == ["0", "1"]
    weights += [ag.ones(1)]
    weights[0] = ag.zeros(5)
    assert len(weights.append(ag.ones(4))) == 5
    assert [p.shape for p in weights.parameters()] == [(5,), (3, 1), (1,), (4,)]
    assert list(weights[1:3]) == [weights[1], "note"]
    assert isinstance(weights[:1], nn.ParameterList)
    assert printed(weights).splitlines()[:4] == [
        "ParameterList(",
        "    (0): Parameter containing: [float32 of size 5]",
        "    (1): Parameter containing: [float32 of size 3x1]",
        "    (2): Object of type: str",
    ]
    with pytest.raises(IndexError, match="index 9 is out of range"):
        weights[9]
    with pytest.raises(TypeError, match="extend should be called with an iterable, but got Tensor"):
        weights.extend(ag.ones(2))
    with pytest.raises(RuntimeError, match="ParameterList should not be called"):
        weights()


def test_parameter_dict():
    weights = nn.ParameterDict({"a": ag.ones(2), "b": nn.Parameter(ag.zeros(3))})
    weights["c"] = 7
    assert [name for name, _ in weights.named_parameters()] == ["a", "b"]
    assert list(weights) == list(weights.keys()) == ["a", "b", "c"]
    assert list(reversed(weights)) == ["c", "b", "a"]
    assert weights.values()[2] == weights.get("c") == 7
    assert weights.get("d", 1) == 1
    assert weights.setdefault("d", 4) == weights.setdefault("d", 5) == 4
    assert weights.popitem() == ("d", 4)
    assert weights.pop("c") == 7
    both = weights | {"e": ag.ones(1)}
    both |= {"f": ag.ones(1)}
    assert list(both) == ["a", "b", "e", "f"]
    assert both["a"] is weights["a"]
    turned = {"z": ag.ones(1), "a": 3} | weights
    assert list(turned) == ["z", "a", "b"]
    assert turned["a"] is weights["a"]
    assert list(weights.fromkeys(["x", "y"], 0)) == ["x", "y"]
    assert "a" in weights
    assert "training" not in weights
    assert printed(weights) == (
        "ParameterDict(\n    (a): Parameter containing: [float32 of size 2]\n"
        "    (b): Parameter containing: [float32 of size 3]\n)"
    )
    with pytest.raises(KeyError, match="attribute 'training' already exists"):
        weights["training"] = ag.ones(1)
    with pytest.raises(KeyError):
        weights["nope"]
    with pytest.raises(TypeError, match="is not a string"):
        weights[1] = ag.ones(1)
    with pytest.raises(RuntimeError, match="ParameterDict should not be called"):
        weights()
    del weights["a"]
    weights.clear()
    assert len(weights) == 0
