"""Hooks of modules: what they see, what they change, in which order; the same scenarios in PyTorch."""

import copy

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import nn
from autograd_gpu.nn.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
)


class Twice(nn.Module):
    """Two inputs and two outputs; `scale` is a number."""

    def forward(self, x, y, scale=1):
        return x * y * scale, x + y


def rounded(values):
    """Tensors as lists, for comparison."""
    return [None if v is None else np.round(v.numpy(force=True), 6).tolist() for v in values]


# ---- forward -----------------------------------------------------------------------------------------


def test_always_called_hooks_run_after_an_error():
    class Fails(nn.Module):
        def forward(self, x):
            raise ValueError("no")

    layer, seen = Fails(), []
    layer.register_forward_hook(lambda m, args, out: seen.append("plain"))
    layer.register_forward_hook(lambda m, args, out: seen.append(("always", out)), always_call=True)
    layer.register_forward_hook(lambda m, args, kw, out: seen.append(kw), always_call=True, with_kwargs=True)
    with pytest.raises(ValueError, match="no"):
        layer(x=1)
    assert seen == [("always", None), {"x": 1}]
    layer.register_forward_hook(lambda m, args, out: 1 / 0, always_call=True)
    silenced = pytest.warns(UserWarning, match="silenced as another error was raised in forward: division")
    with silenced, pytest.raises(ValueError, match="no"):
        layer(1)


def test_a_hook_that_has_run_is_not_called_again_after_an_error():
    layer, seen = nn.Identity(), []
    layer.register_forward_hook(lambda m, args, out: seen.append(out), always_call=True)
    layer.register_forward_hook(lambda m, args, out: 1 / 0)
    layer.register_forward_hook(lambda m, args, out: seen.append("last"), always_call=True)
    with pytest.raises(ZeroDivisionError):
        layer(1)
    assert seen == [1, "last"]


def test_hooks_of_all_modules_run_first():
    seen, layer = [], nn.Sequential(nn.Identity())
    layer.register_forward_pre_hook(lambda m, args: seen.append("own pre"))
    layer.register_forward_hook(lambda m, args, out: seen.append("own"))
    handles = [
        register_module_forward_pre_hook(lambda m, args: seen.append(f"pre {type(m).__name__}")),
        register_module_forward_hook(lambda m, args, out: out + 1),
        register_module_forward_hook(lambda m, args, kw, out: seen.append(out), with_kwargs=True),
    ]
    try:
        assert layer(0) == 2
        assert seen == ["pre Sequential", "own pre", "pre Identity", 1, 2, "own"]
    finally:
        for handle in handles:
            handle.remove()
    assert layer(0) == 0


def test_prepended_pre_hooks_and_deepcopy():
    seen, layer = [], nn.Identity()
    layer.register_forward_pre_hook(lambda m, args: seen.append("later"))
    layer.register_forward_pre_hook(lambda m, args: seen.append("first"), prepend=True)
    twin = copy.deepcopy(layer)
    layer(1)
    twin(1)
    assert seen == ["first", "later"] * 2


# ---- backward ----------------------------------------------------------------------------------------


def backward_scenario(library, functions, change):
    """What the backward hooks of a module of two inputs and outputs see, and the gradients that come out."""
    log = []

    class Pair(functions.Module):
        def forward(self, x, y):
            return x * y, x + y

    def pre(module, grad_output):
        log.append(("pre", rounded(grad_output)))
        return tuple(g * 2 for g in grad_output) if change else None

    def post(module, grad_input, grad_output):
        log.append(("post", rounded(grad_input), rounded(grad_output)))
        return tuple(g * 10 if g is not None else None for g in grad_input) if change else None

    module = Pair()
    module.register_full_backward_pre_hook(pre)
    module.register_full_backward_hook(post)
    module.register_full_backward_hook(lambda *_: log.append("first"), prepend=True)
    x = library.tensor([1.0, 2.0], requires_grad=True)
    y = library.tensor([3.0, 5.0], requires_grad=True)
    a, b = module(x * 1, y * 1)
    (a * 2 + b).sum().backward()
    return log, rounded([x.grad, y.grad])


@pytest.mark.parametrize("change", [False, True])
def test_backward_hooks_equal_pytorch(change):
    torch = pytest.importorskip("torch")
    assert backward_scenario(ag, nn, change) == backward_scenario(torch, torch.nn, change)


def test_an_input_that_needs_no_gradient_is_none():
    seen, module = [], Twice()
    module.register_full_backward_hook(lambda m, gi, go: seen.append((rounded(gi), rounded(go))))
    x = ag.tensor([1.0], requires_grad=True)
    out, _ = module(x, ag.tensor([3.0]), 2)
    out.sum().backward()
    assert seen == [([[6.0], None, None], [[1.0], None])]
    assert x.grad.tolist() == [6.0]


def test_without_an_input_that_requires_grad_the_hook_fires_at_the_output():
    layer, seen = nn.Linear(2, 1), []
    layer.register_full_backward_hook(lambda m, gi, go: seen.append((gi, rounded(go))))
    layer(ag.ones(1, 2)).sum().backward()
    assert seen == [((None,), [[[1.0]]])]
    layer.register_full_backward_hook(lambda m, gi, go: (ag.ones(1),))
    with pytest.raises(RuntimeError, match="no input requires gradient should always return None"):
        layer(ag.ones(1, 2)).sum().backward()


def test_backward_hooks_are_not_called_under_no_grad_and_for_other_outputs():
    layer, seen = nn.Identity(), []
    layer.register_full_backward_hook(lambda *_: seen.append(1))
    with ag.no_grad():
        assert not layer(ag.ones(1, requires_grad=True) * 1).requires_grad
    with pytest.warns(UserWarning, match="module output should be a Tensor or a tuple of Tensors but received .*int"):
        assert layer(3) == 3
    assert not seen


def test_backward_hooks_refuse_a_wrong_number_of_gradients():
    layer, x = nn.Identity(), ag.ones(1, requires_grad=True)
    refused = pytest.raises(RuntimeError, match="invalid number of grad_input, got 2, but expected 1")
    with layer.register_full_backward_hook(lambda m, gi, go: (None, None)), refused:
        layer(x).sum().backward()
    refused = pytest.raises(RuntimeError, match="invalid number of grad_output, got 2, but expected 1")
    with layer.register_full_backward_pre_hook(lambda m, go: (None, None)), refused:
        layer(x).sum().backward()


def test_backward_hooks_of_all_modules():
    seen, net = [], nn.Sequential(nn.Tanh(), nn.Identity())
    handles = [
        register_module_full_backward_pre_hook(lambda m, go: seen.append(f"pre {type(m).__name__}")),
        register_module_full_backward_hook(lambda m, gi, go: seen.append(type(m).__name__)),
    ]
    try:
        x = ag.zeros(1, requires_grad=True)
        net(x).sum().backward()
    finally:
        for handle in handles:
            handle.remove()
    assert seen == ["pre Sequential", "pre Identity", "Identity", "pre Tanh", "Tanh", "Sequential"]
    assert x.grad.tolist() == [1.0]


def test_double_backward_passes_the_hooks():
    layer, seen = nn.Tanh(), []
    layer.register_full_backward_hook(lambda m, gi, go: seen.append(rounded(gi)))
    x = ag.tensor([0.5], dtype=ag.float64, requires_grad=True)
    (g,) = ag.autograd.grad(layer(x).sum(), x, create_graph=True)
    (h,) = ag.autograd.grad(g.sum(), x)
    t = np.tanh(0.5)
    assert g.item() == pytest.approx(1 - t * t)
    assert h.item() == pytest.approx(-2 * t * (1 - t * t))
    assert len(seen) == 1


# ---- state dicts -------------------------------------------------------------------------------------


def state_scenario(library, functions):
    """What the hooks on state dicts see, and what they make of the dict."""
    log = []
    net = functions.Sequential(functions.Linear(2, 1), functions.Linear(1, 1, bias=False))
    inner = net[0]
    inner.register_state_dict_pre_hook(lambda module, prefix, keep_vars: log.append(("save", prefix, keep_vars)))

    def rename(module, state, prefix, meta):
        state[prefix + "w"] = state.pop(prefix + "weight")
        log.append((sorted(state), prefix, meta["version"]))

    def rename_back(module, state, prefix, meta, strict, missing, unexpected, errors):
        state[prefix + "weight"] = state.pop(prefix + "w")
        log.append(("load", prefix, strict, missing, unexpected, errors))

    inner.register_state_dict_post_hook(rename)
    inner.register_load_state_dict_pre_hook(rename_back)
    net.register_load_state_dict_post_hook(lambda module, keys: log.append(("loaded", *keys)))
    inner.register_load_state_dict_post_hook(lambda module, keys: log.append(("loaded inner", *keys)))
    state = net.state_dict()
    log.append(sorted(state))
    twin = copy.deepcopy(net)
    twin.load_state_dict(state)
    assert "0.w" in state  # the caller's dict is left alone
    return log


def test_state_dict_hooks_equal_pytorch():
    torch = pytest.importorskip("torch")
    assert state_scenario(ag, nn) == state_scenario(torch, torch.nn)


def test_a_post_hook_may_strike_keys_off():
    net = nn.Linear(2, 1)
    with net.register_load_state_dict_post_hook(lambda module, keys: keys.missing_keys.clear()):
        net.load_state_dict({"weight": ag.ones(1, 2)})
        assert net.weight.tolist() == [[1.0, 1.0]]
    with pytest.raises(RuntimeError, match=r'Missing key.*"bias"'):
        net.load_state_dict({"weight": ag.ones(1, 2)})
    refused = pytest.raises(RuntimeError, match="are not expected to return new values")
    with net.register_load_state_dict_post_hook(lambda module, keys: keys), refused:
        net.load_state_dict(net.state_dict())
    refused = pytest.raises(RuntimeError, match="state_dict post-hook must return None")
    with net.register_state_dict_post_hook(lambda *_: {}), refused:
        net.state_dict()


def test_removed_state_hooks_are_gone():
    net, seen = nn.Linear(1, 1), []
    handle = net.register_state_dict_pre_hook(lambda *_: seen.append(1))
    handle.remove()
    net.state_dict()
    assert not seen
