"""Modules: registration, modes, state dicts, hooks, containers."""

import copy
import gc
import weakref

import pytest

import autograd_gpu as ag
from autograd_gpu import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.act = nn.Tanh()
        self.second = nn.Linear(4, 2)
        self.scale = nn.Parameter(ag.ones(2))
        self.register_buffer("count", ag.zeros(1))
        self.register_buffer("scratch", ag.zeros(1), persistent=False)

    def forward(self, x):
        return self.second(self.act(self.first(x))) * self.scale


# ---- attributes ------------------------------------------------------------------------------


def test_attributes_are_registered_in_order():
    net = Net()
    assert [n for n, _ in net.named_parameters()] == [
        "scale", "first.weight", "first.bias", "second.weight", "second.bias"]  # fmt: skip
    assert [n for n, _ in net.named_buffers()] == ["count", "scratch"]
    assert [n for n, _ in net.named_children()] == ["first", "act", "second"]
    assert [n for n, _ in net.named_modules()] == ["", "first", "act", "second"]
    assert list(net.state_dict()) == [
        "scale",
        "count",
        "first.weight",
        "first.bias",
        "second.weight",
        "second.bias",
    ]
    assert [n for n, _ in net.named_parameters("p", recurse=False)] == ["p.scale"]


def test_reassigning_keeps_position_and_deleting_forgets():
    net = Net()
    new = net.first.weight = nn.Parameter(ag.zeros(4, 3))
    assert next(net.first.parameters()) is new
    net.first.bias = None
    assert [n for n, _ in net.first.named_parameters()] == ["weight"]
    assert net.first(ag.ones(1, 3)).tolist() == [[0.0] * 4]
    del net.scale
    assert "scale" not in net.state_dict()
    with pytest.raises(AttributeError, match="scale"):
        net.scale  # noqa: B018
    with pytest.raises(AttributeError):
        del net.scale


def test_an_attribute_can_change_its_kind():
    module = nn.Module()
    module.x = 3
    module.x = nn.Parameter(ag.zeros(1))
    assert [n for n, _ in module.named_parameters()] == ["x"]
    module.register_buffer("b", ag.zeros(1))
    module.b = nn.Parameter(ag.zeros(1))
    assert [n for n, _ in module.named_parameters()] == ["x", "b"]
    assert not list(module.buffers())
    module.b = None
    module.b = nn.Parameter(ag.ones(1))
    assert len(list(module.parameters())) == 2


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("scale", ag.zeros(2), r"cannot assign .*Tensor' as parameter 'scale' .Parameter or None expected"),
        ("scale", nn.ReLU(), "as parameter 'scale'"),
        ("act", 3, "cannot assign 'int' as child module 'act' .Module or None expected"),
        ("count", 3.0, "cannot assign 'float' as buffer 'count' .Tensor or None expected"),
    ],
)
def test_assigning_the_wrong_kind(name, value, message):
    net = Net()
    with pytest.raises(TypeError, match=message):
        setattr(net, name, value)


def test_registration_errors():
    module = nn.Module()
    with pytest.raises(KeyError, match=r"contain .*got: a\.b"):
        module.register_buffer("a.b", None)
    with pytest.raises(KeyError, match="empty string"):
        module.register_parameter("", None)
    with pytest.raises(KeyError, match="attribute 'training' already exists"):
        module.register_buffer("training", None)
    with pytest.raises(TypeError, match=r"object to parameter 'w' .Parameter or None required"):
        module.register_parameter("w", ag.zeros(1))
    with pytest.raises(TypeError, match="module name should be a string"):
        module.add_module(3, nn.ReLU())
    with pytest.raises(NotImplementedError, match='missing the required "forward"'):
        module(1)

    class Early(nn.Module):
        def __init__(self):
            self.layer = nn.ReLU()

    with pytest.raises(AttributeError, match="before Module"):
        Early()


def test_shared_parameters_and_modules_count_once():
    net = Net()
    net.again = net.first
    net.tied = net.second.weight
    assert len(list(net.parameters())) == 5
    assert len(list(net.modules())) == 4
    assert list(net.modules(remove_duplicate=False)).count(net.first) == 2
    assert len(list(net.named_parameters(remove_duplicate=False))) == 8
    assert "again.weight" in net.state_dict()


def test_repr():
    assert repr(Net()) == (
        "Net(\n  (first): Linear(in_features=3, out_features=4, bias=True)\n  (act): Tanh()\n"
        "  (second): Linear(in_features=4, out_features=2, bias=True)\n)"
    )
    nested = nn.Sequential(nn.Sequential(nn.ReLU()), nn.Dropout(0.1))
    assert repr(nested) == (
        "Sequential(\n  (0): Sequential(\n    (0): ReLU()\n  )\n  (1): Dropout(p=0.1, inplace=False)\n)"
    )


# ---- modes -----------------------------------------------------------------------------------


def test_train_eval_and_apply():
    net = nn.Sequential(Net(), nn.Dropout())
    assert net.eval() is net
    assert not any(m.training for m in net.modules())
    assert all(m.training for m in net.train().modules())
    with pytest.raises(ValueError, match="boolean"):
        net.train(1)
    order = []
    net.apply(order.append)
    assert order[-1] is net
    assert len(order) == 6


def test_zero_grad_and_requires_grad():
    net = Net()
    net(ag.ones(1, 3)).sum().backward()
    held = net.scale.grad
    net.zero_grad(set_to_none=False)
    assert net.scale.grad is held
    assert held.tolist() == [0.0, 0.0]
    net.zero_grad()
    assert net.scale.grad is None
    net.requires_grad_(False)
    assert not net(ag.ones(1, 3)).requires_grad


def test_to_keeps_the_parameter_objects(device):
    net = Net()
    net(ag.ones(1, 3)).sum().backward()
    before = list(net.parameters())
    net.register_buffer("index", ag.tensor([1, 2]))
    assert net.to(device, ag.float64) is net
    assert all(a is b for a, b in zip(before, net.parameters(), strict=True))
    assert {str(p.device.type) for p in net.parameters()} == {device.partition(":")[0]}
    assert net.scale.dtype == net.scale.grad.dtype == net.count.dtype == ag.float64
    assert net.index.dtype == ag.int64
    out = net(ag.ones(1, 3, dtype=ag.float64, device=device))
    out.sum().backward()
    assert out.dtype == ag.float64
    assert net.half().scale.dtype == ag.float16
    assert net.bfloat16().scale.dtype == ag.bfloat16
    assert net.float().scale.dtype == ag.float32
    assert net.double().cpu().scale.dtype == ag.float64
    assert net.to(ag.zeros(1)).scale.dtype == ag.float32
    assert net.type(ag.float16).scale.dtype == ag.float16
    with pytest.raises(TypeError, match="only accepts floating point dtypes"):
        net.to(ag.int32)


def test_deepcopy_is_independent():
    net = Net()
    net.tied = net.scale
    twin = copy.deepcopy(net)
    assert twin.tied is twin.scale is not net.scale
    assert twin.training is net.training
    with ag.no_grad():
        twin.scale.fill_(5)
    assert net.scale.tolist() == [1.0, 1.0]
    assert list(twin.state_dict()) == list(net.state_dict())


def test_a_dropped_module_is_freed_without_the_collector():
    gc.disable()
    try:
        net = Net()
        gone = weakref.ref(net)
        net(ag.ones(1, 3)).sum().backward()
        del net
        assert gone() is None
    finally:
        gc.enable()


# ---- state -----------------------------------------------------------------------------------


def test_state_dict_round_trip():
    net, other = Net(), Net()
    result = other.load_state_dict(net.state_dict())
    assert result.missing_keys == []
    assert repr(result) == "<All keys matched successfully>"
    x = ag.ones(2, 3)
    assert net(x).tolist() == other(x).tolist()
    state = net.state_dict()
    assert not any(t.requires_grad for t in state.values())
    assert state["scale"].array is net.scale.array
    assert net.state_dict(keep_vars=True)["scale"] is net.scale


def test_load_converts_dtype():
    net, other = Net(), Net().double()
    other.load_state_dict(net.state_dict())
    assert other.scale.dtype == ag.float64


def test_load_reports_everything_and_changes_nothing():
    net = Net()
    with ag.no_grad():
        net.scale.fill_(7)
    state = Net().state_dict()
    del state["first.weight"], state["count"]
    state["extra"] = ag.zeros(1)
    state["second.bias"] = ag.zeros(5)
    with pytest.raises(RuntimeError) as raised:
        net.load_state_dict(state)
    assert str(raised.value) == (
        "Error(s) in loading state_dict for Net:\n"
        '\tMissing key(s) in state_dict: "count", "first.weight". \n'
        '\tUnexpected key(s) in state_dict: "extra". \n'
        "\tsize mismatch for second.bias: copying a param with shape (5,) from checkpoint, "
        "the shape in current model is (2,)."
    )
    assert net.scale.tolist() == [7.0, 7.0]
    with pytest.raises(RuntimeError, match="size mismatch for second"):
        net.load_state_dict(state, strict=False)
    del state["second.bias"]
    missing, unexpected = net.load_state_dict(state, strict=False)
    assert (missing, unexpected) == (["count", "first.weight", "second.bias"], ["extra"])
    assert net.scale.tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match='parameter named "scale", expected Tensor or array'):
        net.load_state_dict({"scale": [1.0, 1.0]}, strict=False)
    with pytest.raises(TypeError, match="dict-like"):
        net.load_state_dict([1])


def test_load_after_forward_is_seen_by_backward():
    net = Net()
    out = net(ag.ones(1, 3)).sum()
    net.load_state_dict(Net().state_dict())
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()


# ---- hooks -----------------------------------------------------------------------------------


def test_forward_hooks_run_in_order_and_can_be_removed():
    seen = []
    layer = nn.Identity()
    handles = [
        layer.register_forward_pre_hook(lambda m, args: seen.append("pre")),
        layer.register_forward_hook(lambda m, args, out: seen.append("post")),
        layer.register_forward_hook(lambda m, args, out: seen.append("first"), prepend=True),
    ]
    assert layer(1) == 1
    assert seen == ["pre", "first", "post"]
    for handle in handles:
        handle.remove()
        handle.remove()
    layer(1)
    assert len(seen) == 3


def test_forward_hooks_replace_arguments_and_output():
    layer = nn.Identity()
    layer.register_forward_pre_hook(lambda m, args: args[0] + 1)
    assert layer(1) == 2
    with layer.register_forward_hook(lambda m, args, out: out * 10):
        assert layer(1) == 20
    assert layer(1) == 2


def test_forward_hooks_with_kwargs():
    class Power(nn.Module):
        def forward(self, x, exponent=1):
            return x**exponent

    layer, seen = Power(), []
    layer.register_forward_pre_hook(lambda m, args, kw: (args, {"exponent": 3}), with_kwargs=True)
    layer.register_forward_hook(lambda m, args, kw, out: seen.append((args, kw, out)), with_kwargs=True)
    assert layer(2, exponent=2) == 8
    assert seen == [((2,), {"exponent": 3}, 8)]
    layer.register_forward_pre_hook(lambda m, args, kw: 5, with_kwargs=True)
    with pytest.raises(RuntimeError, match=r"None or a tuple of \(new_args, new_kwargs\)"):
        layer(2)


def test_an_overridden_to_may_call_cpu_and_double():
    class Net(nn.Linear):
        def to(self, place):
            return self.double() if place == "double" else self.cpu().float()

    assert Net(2, 1).to("double").to("cpu").weight.dtype == ag.float32
