"""State of modules: assigned, lazy, extra; from PyTorch's files; parameters exchanged for a call."""

import copy
import pickle

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import nn, optim
from autograd_gpu.nn.utils.stateless import functional_call


def build(m):
    """The same network in either library, with parameters, buffers and shared weights."""
    net = m.Sequential(
        m.Linear(6, 8),
        m.BatchNorm1d(8),
        m.PReLU(8),
        m.LayerNorm(8),
        m.Sequential(m.Linear(8, 8), m.GELU()),
        m.Linear(8, 3),
    )
    net[4][0].bias = net[0].bias
    return net


# ---- PyTorch's files ---------------------------------------------------------------------------------


def test_a_pytorch_state_dict_in_safetensors_loads_by_name(tmp_path, device):
    torch = pytest.importorskip("torch")
    safetensors = pytest.importorskip("safetensors.torch")
    theirs, path = build(torch.nn), tmp_path / "net.safetensors"
    theirs(torch.randn(16, 6))  # moves the running statistics
    safetensors.save_file({key: value.clone() for key, value in theirs.state_dict().items()}, path)
    ours = build(nn).to(device)
    assert repr(ours.load_state_dict(ag.load(path))) == "<All keys matched successfully>"
    x = np.random.default_rng(0).normal(size=(5, 6)).astype(np.float32)
    for training in (True, False):
        a, b = ag.tensor(x, device=device, requires_grad=True), torch.tensor(x, requires_grad=True)
        out, expected = ours.train(training)(a), theirs.train(training)(b)
        np.testing.assert_allclose(out.numpy(force=True), expected.detach().numpy(), rtol=1e-4, atol=1e-5)
        out.square().sum().backward()
        expected.square().sum().backward()
        np.testing.assert_allclose(a.grad.numpy(force=True), b.grad.numpy(), rtol=1e-3, atol=1e-4)
    for key, p in theirs.named_parameters():
        result = ours.get_parameter(key).grad.numpy(force=True)
        np.testing.assert_allclose(result, p.grad.numpy(), rtol=1e-3, atol=1e-3)
    assert [key for key, _ in ours.named_parameters()] == [key for key, _ in theirs.named_parameters()]
    assert [key for key, _ in ours.named_buffers()] == [key for key, _ in theirs.named_buffers()]


def test_saved_and_loaded_again(tmp_path, device):
    net, twin = build(nn).to(device), build(nn).to(device)
    ag.save(net.state_dict(), tmp_path / "net.safetensors")
    twin.load_state_dict(ag.load(tmp_path / "net.safetensors"))
    x = ag.ones(3, 6, device=device)
    assert net.eval()(x).tolist() == twin.eval()(x).tolist()


def test_a_pytorch_state_dict_and_arrays_load_as_they_are(device):
    torch = pytest.importorskip("torch")
    theirs, ours = torch.nn.Sequential(build(torch.nn), torch.nn.Linear(2, 1).bfloat16()), None
    for state in (theirs.state_dict(), theirs.state_dict(keep_vars=True)):
        ours = nn.Sequential(build(nn), nn.Linear(2, 1).bfloat16()).to(device)
        assert repr(ours.load_state_dict(state)) == "<All keys matched successfully>"
        assert ours[1].weight.tolist() == theirs[1].weight.tolist()
    arrays = {key: value.numpy(force=True) for key, value in ours[0].state_dict().items()}
    for assign in (False, True):
        twin = build(nn)
        twin.load_state_dict(arrays, assign=assign)
        arrays["0.bias"][...] = 7.0  # the module has memory of its own
        assert 7.0 not in twin[0].bias.tolist()
        assert twin[0].weight.tolist() == theirs[0][0].weight.tolist()
        arrays["0.bias"][...] = twin[0].bias.numpy(force=True)
    with pytest.raises(RuntimeError, match=r"size mismatch for 0.bias: copying a param with shape \(2,\)"):
        twin.load_state_dict({**arrays, "0.bias": np.zeros(2)})


def test_batch_norms_of_before_the_count_of_batches_load():
    norm = nn.BatchNorm1d(2)
    old = {key: value for key, value in norm.state_dict().items() if key != "num_batches_tracked"}
    assert type(old) is dict  # without versions, as a file has none
    assert repr(norm.load_state_dict(old)) == "<All keys matched successfully>"
    now = norm.state_dict()
    del now["num_batches_tracked"]
    with pytest.raises(RuntimeError, match='"num_batches_tracked"'):
        norm.load_state_dict(now)


def test_a_subclass_may_rename_keys_by_their_version():
    class Renamed(nn.Linear):
        _version = 3

        def _load_from_state_dict(self, state_dict, prefix, local_metadata, *rest):
            seen.append(local_metadata)
            if local_metadata.get("version", 1) < 3:
                state_dict[prefix + "weight"] = state_dict.pop(prefix + "kernel")
            super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    seen = []
    net, old = nn.Sequential(Renamed(2, 1)), {"0.kernel": ag.ones(1, 2), "0.bias": ag.zeros(1)}
    net.load_state_dict(old)
    assert net[0].weight.tolist() == [[1.0, 1.0]]
    assert list(old) == ["0.kernel", "0.bias"]
    state = net.state_dict()
    assert copy.deepcopy(state)._metadata == {"": {"version": 1}, "0": {"version": 3}}
    net.load_state_dict(state)
    assert seen == [{}, {"version": 3}]


# ---- load_state_dict ---------------------------------------------------------------------------------


def test_assign_takes_the_tensors_themselves():
    net = build(nn)
    net[0].weight.requires_grad_(False)
    state = {key: value.clone().double() if value.is_floating_point() else value.clone()
             for key, value in build(nn).state_dict().items()}
    net.load_state_dict(state, assign=True)
    assert net[0].weight.array is state["0.weight"].array
    assert isinstance(net[0].weight, nn.Parameter)
    assert net[0].weight.dtype == ag.float64
    assert not net[0].weight.requires_grad
    assert net[5].weight.requires_grad
    assert net[1].running_mean is state["1.running_mean"]
    parameter = nn.Parameter(ag.zeros(3))
    net[5].load_state_dict({"bias": parameter, "weight": ag.zeros(3, 8)}, assign=True)
    assert net[5].bias is parameter


def test_extra_state():
    class Counts(nn.Module):
        calls = 0

        def get_extra_state(self):
            return {"calls": self.calls}

        def set_extra_state(self, state):
            self.calls = state["calls"]

    net, twin = nn.Sequential(Counts()), nn.Sequential(Counts())
    net[0].calls = 3
    assert net.state_dict() == {"0._extra_state": {"calls": 3}}
    twin.load_state_dict(net.state_dict())
    assert twin[0].calls == 3
    with pytest.raises(RuntimeError, match=r'Missing key\(s\) in state_dict: "0._extra_state"'):
        twin.load_state_dict({})
    with pytest.raises(RuntimeError, match=r'Unexpected key\(s\) in state_dict: "_extra_state"'):
        nn.Module().load_state_dict({"_extra_state": 1})
    with pytest.raises(RuntimeError, match="should never be called"):
        nn.Module().get_extra_state()


def test_buffers_by_class():
    module = nn.Module()
    module.kept, module.lost = nn.Buffer(ag.zeros(2)), nn.Buffer(ag.ones(2), persistent=False)
    assert list(module.state_dict()) == ["kept"]
    assert [name for name, _ in module.named_buffers()] == ["kept", "lost"]
    assert type(module.kept) is ag.Tensor
    module.kept = None
    assert not list(module.state_dict())
    array = np.zeros(2, np.float32)
    module.shared = nn.Buffer(array)
    assert module.shared.array is array
    with pytest.raises(TypeError, match="Buffer expects a Tensor or an array, got list"):
        nn.Buffer([1.0])
    with pytest.raises(AttributeError, match="cannot assign buffers before Module"):
        type("Early", (nn.Module,), {"__init__": lambda self: setattr(self, "b", nn.Buffer(ag.zeros(1)))})()


# ---- lazy layers -------------------------------------------------------------------------------------


def test_lazy_linear(device):
    ag.manual_seed(0)
    net = nn.Sequential(nn.LazyLinear(4, device=device), nn.ReLU(), nn.LazyLinear(2, bias=False))
    net.to(device)
    assert repr(net[0].weight) == "<UninitializedParameter>"
    optimizer = optim.SGD(net.parameters(), lr=0.1)  # holds the parameters before they have a shape
    with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized parameter"):
        net[0].weight.shape  # noqa: B018
    held = net[0].weight
    assert net.double().float()[0].weight.dtype == ag.float32
    assert held.device == ag.ones(1, device=device).device
    for read in (ag.Tensor.numel, ag.Tensor.sum, ag.Tensor.tolist, lambda p: ag.add(p, 1), lambda p: held[0], len):
        with pytest.raises(ValueError, match=r"uninitialized parameter: .* Call the module with an input"):
            read(held)
    assert repr(copy.deepcopy(held)) == repr(pickle.loads(pickle.dumps(held))) == "<UninitializedParameter>"
    net(ag.ones(3, 5, device=device)).sum().backward()
    assert net[0].weight is held
    assert type(net[0]) is nn.Linear
    assert net[0].weight.shape == (4, 5)
    assert 0 < net[0].weight.abs().max().item() <= 1 / np.sqrt(5)
    before = held.tolist()
    optimizer.step()
    assert held.tolist() != before


def test_lazy_layers_load_a_state_dict():
    full = nn.Linear(5, 4)
    lazy = nn.LazyLinear(4)
    lazy.load_state_dict(full.state_dict())
    x = ag.ones(2, 5)
    assert lazy(x).tolist() == full(x).tolist()
    assert lazy.in_features == 5
    with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized parameter"):
        nn.Linear(5, 4).load_state_dict(nn.LazyLinear(4).state_dict())
    twin = nn.LazyLinear(4)
    twin.load_state_dict(nn.LazyLinear(4).state_dict())
    assert twin(x).shape == (2, 4)


# ---- copies ------------------------------------------------------------------------------------------


def test_pickling_and_copying(device):
    net = build(nn).to(device)
    net(ag.ones(4, 6, device=device)).sum().backward()
    net.eval()
    for twin in (pickle.loads(pickle.dumps(net)), copy.deepcopy(net)):
        assert twin[4][0].bias is twin[0].bias
        assert not twin.training
        x = ag.ones(2, 6, device=device)
        assert twin(x).tolist() == net(x).tolist()
        with ag.no_grad():
            twin[0].weight.zero_()
        assert net[0].weight.abs().sum().item() > 0


# ---- the tree ----------------------------------------------------------------------------------------


def test_finding_by_name():
    net = build(nn)
    assert net.get_submodule("") is net
    assert net.get_submodule("4.0") is net[4][0]
    assert net.get_parameter("4.0.weight") is net[4][0].weight
    assert net.get_buffer("1.running_var") is net[1].running_var
    for call, message in (
        (lambda: net.get_submodule("4.7"), "Sequential has no attribute `7`"),
        (lambda: net.get_submodule("0.weight"), "`weight` is not an nn.Module"),
        (lambda: net.get_parameter("1.running_var"), "`running_var` is not an nn.Parameter"),
        (lambda: net.get_parameter("0.nope"), "Linear has no attribute `nope`"),
        (lambda: net.get_buffer("0.weight"), "`weight` is not a buffer"),
        (lambda: net.set_submodule("0.nope", nn.ReLU(), strict=True), "Linear has no attribute `nope`"),
        (lambda: net.set_submodule("0.weight", nn.ReLU()), "`weight` is not an nn.Module"),
    ):
        with pytest.raises(AttributeError, match=message):
            call()
    for call, message in (
        (lambda: net.set_submodule("", nn.ReLU()), "without a target name"),
        (lambda: net.set_submodule("0", 3), "`module` is not an nn.Module"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    net.set_submodule("4.1", nn.Tanh())
    assert isinstance(net[4][1], nn.Tanh)


def test_attributes_by_kind():
    net = build(nn)
    assert list(net._modules) == list("012345")
    assert list(net[0]._parameters) == ["weight", "bias"]
    assert list(net[1]._buffers) == ["running_mean", "running_var", "num_batches_tracked"]
    net._modules["3"] = tanh = nn.Tanh()
    net[0]._parameters["bias"] = None
    net[1]._buffers["seen"] = ag.zeros(2)
    assert net[3] is tanh
    assert net[0].bias is net[0]._parameters["bias"] is None
    assert "1.seen" in net.state_dict()
    del net._modules["4"]
    assert list(net._modules.items())[3:] == [("3", tanh), ("5", net[4])]
    assert repr(nn.Sequential(tanh)._modules) == "{'0': Tanh()}"
    for names, wrong in ((net._modules, "training"), (net[0]._parameters, "in_features"), (net[1]._buffers, "weight")):
        with pytest.raises(KeyError, match=wrong):
            del names[wrong]
    assert "weight" in dir(net[0])
    assert "0" not in dir(net)


class Wrapper(nn.Module):
    """As PyTorch's users write it: what it has not, the wrapped module has."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.module, name)

    def forward(self, x):
        return self.module(x)


def test_a_subclass_may_look_attributes_up_elsewhere():
    wrapper = Wrapper(nn.Linear(2, 3))
    for copied in (wrapper, copy.deepcopy(wrapper), pickle.loads(pickle.dumps(wrapper))):
        assert (copied.in_features, copied(ag.ones(1, 2)).shape) == (2, (1, 3))
        assert list(copied.state_dict()) == ["module.weight", "module.bias"]


def test_a_shallow_copy_registers_for_itself():
    layer = nn.Linear(2, 1)
    twin = copy.copy(layer)
    assert twin.weight is layer.weight
    twin.extra = nn.Parameter(ag.ones(1))
    twin.register_forward_hook(lambda module, args, output: output + 1)
    assert [name for name, _ in layer.named_parameters()] == ["weight", "bias"]
    assert [name for name, _ in twin.named_parameters()] == ["weight", "bias", "extra"]
    assert (twin(ag.ones(1, 2)) - layer(ag.ones(1, 2))).tolist() == [[1.0]]


def test_slots_are_copied():
    class Slotted(nn.Module):
        __slots__ = ("extra",)

    module = Slotted()
    module.extra = 3
    assert copy.deepcopy(module).extra == 3


def test_train_reaches_a_module_with_a_train_of_its_own():
    class Frozen(nn.BatchNorm1d):
        def train(self, mode=True):
            return super().train(False)

    net = nn.Sequential(Frozen(2), nn.ReLU()).train()
    assert [m.training for m in net.modules()] == [True, False, True]


# ---- functional_call ---------------------------------------------------------------------------------


def test_functional_call_differentiates_by_the_given_tensors(device):
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)).to(device)
    parameter = {key: value.detach().clone().requires_grad_() for key, value in net.named_parameters()}
    x = ag.ones(4, 2, device=device)
    out = functional_call(net, parameter, (x,))
    assert out.tolist() == net(x).tolist()
    grads = ag.autograd.grad(out.sum(), list(parameter.values()), create_graph=True)
    net(x).sum().backward()
    for g, p in zip(grads, net.parameters(), strict=True):
        assert g.tolist() == p.grad.tolist()
    assert isinstance(net[0].weight, nn.Parameter)
    step = {key: value - 0.1 * g for (key, value), g in zip(parameter.items(), grads, strict=True)}
    (meta,) = ag.autograd.grad(functional_call(net, step, x).sum(), [parameter["0.weight"]])
    assert meta.shape == (3, 2)


def test_functional_call_ties_and_checks():
    net = nn.Module()
    net.a, net.b = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
    net.b.weight = net.a.weight
    net.forward = lambda x: net.b(net.a(x))
    w, x = 2 * ag.eye(2), ag.ones(1, 2)
    assert functional_call(net, {"a.weight": w}, x).tolist() == [[4.0, 4.0]]
    untied = functional_call(net, [{"a.weight": w}, {"b.weight": 3 * w}], x, tie_weights=False)
    assert untied.tolist() == [[12.0, 12.0]]
    with pytest.raises(ValueError, match=r"multiple values for keys \['a.weight', 'b.weight'\], which are tied"):
        functional_call(net, {"a.weight": w, "b.weight": 3 * w}, x)
    with pytest.raises(ValueError, match="appeared in multiple dictionaries"):
        functional_call(net, [{"a.weight": w}, {"a.weight": w}], x)
    with pytest.raises(ValueError, match="Expected parameter_and_buffer_dicts to be a dict"):
        functional_call(net, 3, x)
    with pytest.raises(ValueError, match="Expected all elements of parameter_and_buffer_dicts to be dictionaries"):
        functional_call(net, (3,), x)
    with pytest.raises(TypeError, match="is not an instance of Tensor"):
        functional_call(net, {"a.weight": 3}, x)
    with pytest.raises(RuntimeError, match=r"Unexpected key\(s\): 'c'.\n\tMissing key\(s\): 'a.weight', 'b.weight'"):
        functional_call(net, {"c": w}, x, strict=True)
    original = net.a.weight
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        functional_call(net, {"a.weight": ag.ones(2, 5)}, x)
    assert net.a.weight is original
