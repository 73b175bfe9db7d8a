"""PyTorch's dicts of a Module, which libraries read and write: the same steps under both libraries."""

import abc
import copy
import pickle

import pytest

import autograd_gpu as ag

pytestmark = pytest.mark.cpu


def both():
    return pytest.importorskip("torch"), ag


class Net:
    """A module with parameters, one of them None, buffers of both kinds, and children."""

    def __new__(cls, m):
        net = m.nn.Module()
        net.first = m.nn.Linear(2, 3, bias=False)
        net.weight = m.nn.Parameter(m.ones(2))
        net.register_parameter("missing", None)
        net.register_buffer("mean", m.zeros(2))
        net.register_buffer("seen", m.zeros(1), persistent=False)
        net.second = m.nn.Tanh()
        return net


def looks(net):
    """What the dicts and the public methods say."""
    return (
        list(net._parameters), list(net._buffers), list(net._modules),
        sorted(net._non_persistent_buffers_set & set(net._buffers)),  # PyTorch keeps the names of deleted ones
        [name for name, _ in net.named_parameters()], [name for name, _ in net.named_buffers()],
        [name for name, _ in net.named_children()], sorted(net.state_dict()),
    )  # fmt: skip


def assign(net, m):
    net._parameters["new"] = m.nn.Parameter(m.ones(1))
    net._buffers["other"] = m.ones(1)
    net._modules["third"] = m.nn.ReLU()


def replace(net, m):
    net._parameters["weight"] = m.nn.Parameter(m.zeros(3))
    net._buffers["mean"] = m.ones(3)
    net._modules["second"] = m.nn.ReLU()


def weight_norm_by_hand(net, m):
    weight = net._parameters["weight"]
    del net._parameters["weight"]
    net.register_parameter("weight_v", weight)
    net.weight = weight * 2


def hold_plain_tensors(net, m):
    for name, value in net._parameters.items():
        if value is not None:
            net._parameters[name] = value.clone()
    for name in list(net._buffers):
        net._buffers[name] = net._buffers[name] + 1


def assign_dicts(net, m):
    net._parameters = dict(net._parameters, more=m.nn.Parameter(m.ones(1)))
    net._modules = {"only": net._modules["first"]}
    net._buffers = {}


def change_persistence(net, m):
    net._non_persistent_buffers_set.discard("seen")
    net._non_persistent_buffers_set.add("mean")


def pop_and_clear(net, m):
    net._parameters.pop("missing")
    assert net._parameters.pop("nothing", 3) == 3
    net._buffers.clear()
    net._modules.update(a=m.nn.Tanh())
    net._parameters.setdefault("weight", None)


CHANGES = [assign, replace, weight_norm_by_hand, hold_plain_tensors, assign_dicts, change_persistence, pop_and_clear]


@pytest.mark.parametrize("change", CHANGES)
def test_changes_have_the_same_effect(change):
    torch, _ = both()
    nets = {m: Net(m) for m in (torch, ag)}
    before = looks(nets[torch])
    assert looks(nets[ag]) == before
    for m, net in nets.items():
        change(net, m)
    assert looks(nets[ag]) == looks(nets[torch])
    assert looks(nets[ag]) != before or change is replace or change is hold_plain_tensors


@pytest.mark.parametrize("name", ["_parameters", "_buffers", "_modules"])
def test_they_are_dicts(name):
    for m in both():
        net = Net(m)
        result = getattr(net, name)
        assert isinstance(result, dict)
        assert isinstance(net._non_persistent_buffers_set, set)
        plain = dict(result)
        assert {**result} == plain == result == result.copy() == copy.copy(result) == dict(result.items())
        assert result | {"a": 1} == {**plain, "a": 1}
        assert {"a": 1} | result == {"a": 1, **plain}
        assert (len(result), bool(result), list(reversed(result))) == (len(plain), True, list(plain)[::-1])
        assert type(copy.copy(result)) is type(result.copy()) is dict
        assert result.get("nothing") is None
        assert "nothing" not in result
        with pytest.raises(KeyError):
            result["nothing"]
        with pytest.raises(KeyError):
            del result["nothing"]
        assert (lambda **kw: kw)(**result) == plain
        assert set(pickle.loads(pickle.dumps(result))) == set(plain)
    assert repr(ag.nn.Sequential(ag.nn.Tanh())._modules) == "{'0': Tanh()}"


def cloned(module):
    """A clone whose parameters keep the history of the original's, as MAML's libraries make it."""
    clone = module.__new__(type(module))
    clone.__dict__ = module.__dict__.copy()
    clone._parameters = clone._parameters.copy()
    clone._buffers = clone._buffers.copy()
    clone._modules = clone._modules.copy()
    for name, parameter in module._parameters.items():
        if parameter is not None:
            clone._parameters[name] = parameter.clone()
    for name, child in module._modules.items():
        clone._modules[name] = cloned(child)
    return clone


def test_a_clone_for_maml():
    results = []
    for m in both():
        net = m.nn.Sequential(m.nn.Linear(2, 2), m.nn.Tanh(), m.nn.Linear(2, 1))
        for p in net.parameters():
            m.nn.init.constant_(p, 0.5)
        x, clone = m.ones(3, 2), cloned(net)
        grads = m.autograd.grad((clone(x) ** 2).mean(), list(clone.parameters()), create_graph=True)
        for (module, name), g in zip([(c, n) for c in clone.modules() for n in c._parameters], grads, strict=True):
            module._parameters[name] = module._parameters[name] - 0.1 * g
        (clone(x) ** 2).mean().backward()
        assert type(net[0].weight) is m.nn.Parameter
        results.append([p.grad.tolist() for p in net.parameters()])
    for ours, theirs in zip(*results, strict=True):
        assert ag.allclose(ag.tensor(ours), ag.tensor(theirs))


HOOKS = {
    "_forward_hooks": lambda net, hook: net.register_forward_hook(hook),
    "_forward_pre_hooks": lambda net, hook: net.register_forward_pre_hook(hook),
    "_backward_hooks": lambda net, hook: net.register_full_backward_hook(hook),
    "_backward_pre_hooks": lambda net, hook: net.register_full_backward_pre_hook(hook),
    "_state_dict_hooks": lambda net, hook: net._register_state_dict_hook(hook),
    "_state_dict_pre_hooks": lambda net, hook: net.register_state_dict_pre_hook(hook),
    "_load_state_dict_post_hooks": lambda net, hook: net.register_load_state_dict_post_hook(hook),
}


@pytest.mark.parametrize("name", HOOKS)
def test_hooks_by_the_ids_of_their_handles(name):
    for m in both():
        net = m.nn.Linear(1, 1)

        def hook(*args):
            return None

        def other(*args):
            return None

        handles = [HOOKS[name](net, f) for f in (hook, other)]
        result = getattr(net, name)
        assert isinstance(result, dict)
        assert list(result.items()) == [(handle.id, f) for handle, f in zip(handles, (hook, other), strict=True)]
        assert [len(getattr(net, n)) for n in HOOKS] == [2 * (n == name) for n in HOOKS]
        del result[handles[0].id]
        handles[1].remove()
        assert not getattr(net, name)
        HOOKS[name](net, hook)
        setattr(net, name, {})
        assert not getattr(net, name)


def test_hooks_that_are_written():
    for m in both():
        net, seen = m.nn.ReLU(), []
        net._forward_hooks[-1] = lambda module, args, out, seen=seen: seen.append(out.item())
        net._load_state_dict_pre_hooks.clear()
        net(m.ones(()))
        assert seen == [1.0]
        net._forward_hooks.clear()
        net(m.ones(()))
        assert seen == [1.0]


def test_load_pre_hooks_by_the_private_name():
    results = []
    for m in both():
        net, seen = m.nn.Linear(1, 1), []
        net._register_load_state_dict_pre_hook(lambda *args, seen=seen: seen.append(len(args)))
        net._register_load_state_dict_pre_hook(lambda *args, seen=seen: seen.append(len(args)), with_module=True)
        net.load_state_dict(net.state_dict())
        results.append(seen)
    assert results == [[7, 8]] * 2


def test_private_names_that_are_wrong():
    net = Net(ag)
    with pytest.raises(KeyError, match="'weight' is no buffer"):
        net._non_persistent_buffers_set.add("weight")
    net._non_persistent_buffers_set.discard("weight")
    assert list(net._parameters) == ["weight", "missing"]
    handle = net.register_forward_hook(lambda *args: None)
    with pytest.raises(KeyError):
        net._forward_pre_hooks[handle.id]
    with pytest.raises(KeyError):
        del net._forward_pre_hooks[handle.id]


def by_super(m, seen):
    class Asked(m.nn.Linear):
        """Reads attributes as gpytorch and pyro do."""

        def __getattr__(self, name):
            value = super().__getattr__(name)
            seen.append((name, type(value).__name__))
            return value

    return Asked(2, 1)


def by_delattr(m, seen):
    class Forgetting(m.nn.Module):
        def __delattr__(self, name):
            seen.append(name)
            if name in self._parameters:
                del self._parameters[name]
            else:
                super().__delattr__(name)

    net = Forgetting()
    net.weight, net.other = m.nn.Parameter(m.ones(1)), 3
    del net.weight
    del net.other
    return net


def by_dict(m, seen):
    net = Net(m)
    net.own = "mine"
    inside = net.__dict__
    seen += [sorted(inside["_parameters"]), sorted(inside["_buffers"]), sorted(inside["_modules"])]
    seen += [inside["own"], inside.get("weight"), "mean" in inside, "first" in vars(net), "training" in inside]
    inside["_parameters"]["more"], inside["written"] = m.nn.Parameter(m.ones(1)), 5
    inside["_modules"].pop("second")
    del inside["own"]
    seen += [net.written, hasattr(net, "own"), hasattr(net, "second"), "weight" in dir(net), "written" in dir(net)]
    return net


def by_state(m, seen):
    class Kept(m.nn.Module):
        def __getstate__(self):
            state = self.__dict__.copy()
            del state["cache"]
            return state

        def __setstate__(self, state):
            self.__dict__.update(state)

    net = Kept()
    net.weight, net.layer, net.cache = m.nn.Parameter(m.ones(1)), m.nn.Linear(1, 1), object()
    net.register_buffer("mean", m.zeros(1), persistent=False)
    other = copy.deepcopy(net)
    seen += [hasattr(other, "cache"), other.weight is net.weight, other.layer is net.layer]
    return other


def by_members(m, seen):
    net = Net(m)
    seen += [name for name, _ in net._named_members(lambda module: module._parameters.items(), prefix="p")]
    seen += [name for name, _ in net._named_members(lambda module: module._buffers.items(), recurse=False)]
    return net


def by_explicit_getattr(m, seen):
    net = Net(m)
    seen += [net.__getattr__("weight") is net.weight, net.__getattr__("first") is net.first]
    for name in ("missing_name", "own"):
        try:
            net.__getattr__(name)
        except AttributeError as error:
            seen.append(str(error))
    return net


def by_a_list_with_forward(m, seen):
    class Chain(m.nn.ModuleList):
        def forward(self, x):
            for layer in self:
                x = layer(x)
            return x

    net = Chain([m.nn.ReLU(), m.nn.Tanh()])
    seen += [net(m.tensor([-1.0, 0.0])).tolist(), len(net), type(net[-1]).__name__]
    return net


def by_setattr_beside_another_base(m, seen):
    class Recorded(abc.ABC, m.nn.Module):
        def __setattr__(self, name, value):
            seen.append((name, sorted(self.__dict__.get("_modules") or ())))
            if isinstance(value, m.nn.Module):
                self.__dict__["_modules"][name] = value
            else:
                super().__setattr__(name, value)

    net = Recorded()
    seen.clear()  # what __init__ sets is the library's
    net.first, net.second = m.nn.Linear(2, 1), m.nn.Tanh()
    seen += [list(net.__dict__["_modules"]), "first" in net.__dict__, net.second is net._modules["second"]]
    return net


WAYS = [by_super, by_delattr, by_dict, by_state, by_members, by_explicit_getattr, by_a_list_with_forward,
        by_setattr_beside_another_base]


@pytest.mark.parametrize("way", WAYS)
def test_ways_of_libraries_to_reach_attributes(way):
    results = []
    for m in both():
        seen = []
        net = way(m, seen)
        if way is by_super:
            net(m.ones(1, 2))
            net.state_dict(), list(net.parameters())
            seen = [entry for entry in seen if entry[0] in ("weight", "bias")][:2]
        results.append((seen, looks(net)))
    assert results[1] == results[0]


def load_hook(*args):
    """A hook that can be pickled."""


def test_a_module_with_load_hooks_is_pickled():
    net = ag.nn.Linear(1, 1)
    net._register_load_state_dict_pre_hook(load_hook)
    net._register_load_state_dict_pre_hook(load_hook, with_module=True)
    assert len(pickle.loads(pickle.dumps(net))._load_state_dict_pre_hooks) == 2


def test_a_registered_attribute_is_not_overwritten_in_dict():
    net = Net(ag)
    with pytest.raises(KeyError, match="'weight' is registered in this module"):
        net.__dict__["weight"] = 3


class TestApply:
    @pytest.mark.parametrize("recurse", [True, False])
    def test_like_pytorch(self, recurse):
        results = []
        for m in both():
            net = Net(m)
            for p in net.parameters():
                m.nn.init.ones_(p)
                p.grad = m.ones_like(p)
            weight = net.weight
            assert net._apply(lambda t: (t + 1).double(), recurse=recurse) is net
            assert net.weight is weight
            tensors = [*net.state_dict().values(), *[p.grad for p in net.parameters()]]
            results.append([(t.tolist(), str(t.dtype).removeprefix("torch.")) for t in tensors])
        assert results[0] == results[1]

    def test_overrides_convert_what_else_a_module_holds(self):
        results = []
        for m in both():

            class Grid(m.nn.Module):
                def __init__(self, m=m):
                    super().__init__()
                    self.grid, self.layer = m.zeros(2), m.nn.Linear(1, 1)

                def _apply(self, fn, recurse=True):
                    super()._apply(fn, recurse)
                    self.grid = fn(self.grid)
                    return self

            net = m.nn.Sequential(Grid(), m.nn.Linear(1, 1)).double()
            moved = [net[0].grid, net[0].layer.weight, net[1].bias]
            moved += [net.to("cpu", m.float32)[0].grid, net.half()[0].grid]
            results.append([str(t.dtype).removeprefix("torch.") for t in moved])
        assert results[0] == results[1]
        assert results[0][0] == "float64"

    def test_uninitialized_parameters(self):
        class Own(ag.nn.Sequential):
            def _apply(self, fn, recurse=True):
                return super()._apply(fn, recurse)

        net = Own(ag.nn.LazyLinear(2)).double()
        assert net(ag.ones(1, 3, dtype=ag.float64)).dtype == ag.float64
