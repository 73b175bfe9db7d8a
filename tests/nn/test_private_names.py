"""Subclasses of a user choose private names freely, and optimizers that wrap others need no `super().__init__`."""

import copy
import pickle

import pytest

import autograd_gpu as ag

PYTORCH = {  # private names that PyTorch's classes have, too: a subclass overrides them on purpose
    "_parameters", "_buffers", "_modules", "_get_name", "_load_from_state_dict", "_save_to_state_dict", "_version",
    "_reset_parameters", "_is_full_backward_hook", "_is_better",
    "_get_closed_form_lr", "_get_lr_called_within_step", "_initial_step", "_is_initial", "_update_lr", "_last_lr",
    "_step_count", "_initial_lr", "_milestones", "_schedulers", "_init_is_better", "_format_param", "_annealing_cos",
    "_annealing_linear", "_reset", "_in_projection", "_qkv_same_embed_dim", "_scale_fn_ref", "_scale_fn_custom",
    "_apply", "_backward_hooks", "_backward_pre_hooks", "_forward_hooks", "_forward_pre_hooks",
    "_load_state_dict_post_hooks", "_load_state_dict_pre_hooks", "_non_persistent_buffers_set",
    "_register_load_state_dict_pre_hook", "_register_state_dict_hook", "_state_dict_hooks", "_state_dict_pre_hooks",
    "_named_members", "_reduce_lr",
    "_triangular_scale_fn", "_triangular2_scale_fn", "_exp_range_scale_fn", "_steps_before", "_join_config",
}  # fmt: skip


def classes():
    seen = {}
    for space in (ag.nn, ag.optim, ag.optim.lr_scheduler, ag.optim.swa_utils, ag.utils.data):
        seen.update({value: None for value in vars(space).values() if isinstance(value, type)})
    return [cls for cls in seen if not issubclass(cls, (BaseException, ag.Tensor, ag.no_grad))]


@pytest.mark.parametrize("cls", classes(), ids=lambda cls: cls.__name__)
def test_private_names_of_classes_are_marked(cls):
    own = {name for base in cls.__mro__ if base.__module__.startswith("autograd_gpu") for name in vars(base)}
    private = {name for name in own if name[0] == "_" and not name.startswith(("__", "_abc"))}
    assert not {name for name in private - PYTORCH if not name.startswith("_ag_")}


def test_attributes_of_instances_are_marked_too():
    w = ag.ones(2, requires_grad=True)
    for value in (ag.nn.Linear(2, 2), ag.nn.Sequential(ag.nn.ReLU()), ag.optim.SGD([w]), ag.optim.Adam([w])):
        assert not {name for name in vars(value) if name[0] == "_" and not name.startswith("_ag_")} - PYTORCH


class Net(ag.nn.Module):
    """Takes names that a Module might want for itself."""

    def __init__(self):
        super().__init__()
        self._hooks, self._kinds, self._named_tensors = ["mine"], "kinds", 3
        self.layer = ag.nn.Linear(2, 1)

    def _members(self):
        return "members"

    def _register(self):
        return "registered"

    def forward(self, x):
        return self.layer(x) * self._named_tensors


def test_a_module_with_names_of_its_own():
    net = Net()
    net.register_forward_hook(lambda module, args, result: result + 1)
    other = copy.deepcopy(net)
    other.load_state_dict(net.state_dict())
    for net_or_copy in (net, other, pickle.loads(pickle.dumps(Net()))):
        assert (net_or_copy._hooks, net_or_copy._kinds, net_or_copy._members()) == (["mine"], "kinds", "members")
        assert net_or_copy._register() == "registered"
        assert [name for name, _ in net_or_copy.named_parameters()] == ["layer.weight", "layer.bias"]
    x = ag.ones(1, 2)
    assert net(x).tolist() == other(x).tolist() == (net.layer(x) * 3 + 1).tolist()


class Named(ag.optim.Adam):
    def __init__(self, params):
        self._params, self._hooks, self._slots, self._numbers = list(params), [1], {}, None
        super().__init__(self._params, lr=0.5)

    def _load(self):
        return "load"

    def _pack(self):
        return "pack"

    def _update(self, p):
        return "update"

    def _prepare(self):
        return "prepare"


def test_an_optimizer_with_names_of_its_own():
    w, v = (ag.tensor([1.0], requires_grad=True) for _ in range(2))
    mine, plain = Named([w]), ag.optim.Adam([v], lr=0.5)
    handle = mine.register_step_pre_hook(lambda optimizer, args, kwargs: None)
    for _ in range(2):
        for p, optimizer in ((w, mine), (v, plain)):
            optimizer.zero_grad()
            (p * p).sum().backward()
            optimizer.step()
    handle.remove()
    mine.load_state_dict(plain.state_dict())
    assert w.tolist() == v.tolist()
    assert (mine._hooks, mine._load(), mine._update(w)) == ([1], "load", "update")


def wrappers(m):
    """Optimizers as one finds them, which hold another and skip `super().__init__`."""

    class Lookahead(m.optim.Optimizer):
        def __init__(self, optimizer, k=2, alpha=0.5):
            self.optimizer, self.k, self.alpha, self.count = optimizer, k, alpha, 0
            self.param_groups, self.state, self.defaults = optimizer.param_groups, optimizer.state, optimizer.defaults
            self.slow = [[p.detach().clone() for p in group["params"]] for group in self.param_groups]

        def zero_grad(self):
            self.optimizer.zero_grad()

        def step(self, closure=None):
            loss = self.optimizer.step(closure)
            self.count += 1
            if self.count % self.k == 0:
                for group, slow in zip(self.param_groups, self.slow, strict=True):
                    for p, q in zip(group["params"], slow, strict=True):
                        q.add_(p.detach() - q, alpha=self.alpha)
                        p.data.copy_(q)
            return loss

    class PCGrad(m.optim.Optimizer):
        def __init__(self, optimizer):
            self._optim = optimizer

        @property
        def param_groups(self):
            return self._optim.param_groups

        def zero_grad(self):
            return self._optim.zero_grad(set_to_none=True)

        def step(self):
            return self._optim.step()

    return Lookahead, PCGrad


@pytest.mark.parametrize("which", [0, 1], ids=["Lookahead", "PCGrad"])
def test_a_wrapper_that_skips_init(which):
    torch = pytest.importorskip("torch")
    seen = []
    for m in (torch, ag):
        w = m.tensor([1.0, 2.0], requires_grad=True)
        optimizer = wrappers(m)[which](m.optim.SGD([w], lr=0.1))
        for _ in range(4):
            optimizer.zero_grad()
            (w * w).sum().backward()
            optimizer.step()
        seen.append(w.tolist())
    assert seen[1] == pytest.approx(seen[0])


def test_hooks_of_a_wrapper_that_skips_init():
    w, called = ag.tensor([1.0], requires_grad=True), []
    optimizer = wrappers(ag)[0](ag.optim.SGD([w], lr=0.1))
    optimizer.register_step_pre_hook(lambda *args: called.append("before"))
    optimizer.register_step_post_hook(lambda *args: called.append("after"))
    ag.optim.Optimizer.zero_grad(optimizer)
    w.sum().backward()
    optimizer.step()
    assert called == ["before", "after"]
    scheduler = ag.optim.lr_scheduler.StepLR(optimizer, 1)
    optimizer.step()
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.01)
