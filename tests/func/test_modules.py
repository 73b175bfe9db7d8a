"""functional_call, stack_module_state: modules as functions, ensembles, gradients of each example."""

import numpy as np
import pytest
from func_programs import assert_equal, compared, normal, refused_by_both, torch

import autograd_gpu as ag

VALUES = np.random.default_rng(0)


def filled(m, module, seed=0):
    """Gives a module the same numbers in both libraries."""
    rng = np.random.default_rng(seed)
    with m.no_grad():
        for tensor in (*module.parameters(), *module.buffers()):
            if tensor.is_floating_point():
                tensor.copy_(m.tensor(rng.uniform(0.2, 1, size=tuple(tensor.shape))))
    return module


def network(m, seed=0, norm=False):
    layers = [m.nn.Linear(3, 4), m.nn.Tanh(), m.nn.Linear(4, 2)]
    if norm:
        layers.insert(1, m.nn.BatchNorm1d(4))
    return filled(m, m.nn.Sequential(*layers).to(m.float64), seed)


def detached(module):
    return {name: p.detach() for name, p in module.named_parameters()}


def loss_of(m, module):
    def loss(params, x, y):
        return ((m.func.functional_call(module, params, (x,)) - y) ** 2).mean()

    return loss


# ---- functional_call -----------------------------------------------------------------------------------


@compared
def test_other_parameters(m):
    net = network(m)
    params = {name: p * 2 for name, p in detached(net).items()}
    call, x = m.func.functional_call, normal(m, 5, 3)
    return (call(net, params, (x,)), call(net, params, x), call(net, params, args=(), kwargs={"input": x}),
            call(net, {"0.bias": params["0.bias"]}, x), net(x))


@compared
def test_several_dicts(m):
    net = network(m, norm=True).eval()
    buffers = {name: b.clone() for name, b in net.named_buffers()}
    return m.func.functional_call(net, (detached(net), buffers), normal(m, 5, 3))


@compared
def test_gradients_by_name(m):
    net = network(m)
    x, y = normal(m, 5, 3), normal(m, 5, 2)
    loss = loss_of(m, net)
    return m.func.grad(loss)(detached(net), x, y), m.func.grad_and_value(loss, (0, 1))(detached(net), x, y)


@compared
def test_the_module_stays_as_it_was(m):
    net = network(m)
    before = [p.detach().clone() for p in net.parameters()]
    m.func.grad(loss_of(m, net))({k: p * 3 for k, p in detached(net).items()}, normal(m, 5, 3), normal(m, 5, 2))
    assert all(p.grad is None and p.requires_grad for p in net.parameters())
    return [(a == b).all().item() for a, b in zip(before, net.parameters(), strict=True)]


@compared
def test_derivatives_of_a_module(m):
    net, x = network(m), normal(m, 3)

    def f(params):
        return m.func.functional_call(net, params, x)

    params = detached(net)
    return (m.func.jacrev(f)(params), m.func.jacfwd(f)(params), m.func.jvp(f, (params,), (params,)),
            m.func.vjp(f, params)[1](normal(m, 2)), m.func.hessian(lambda b: f({"0.bias": b}).sum())(params["0.bias"]))


@compared
def test_the_gradient_by_the_input_of_a_module_with_ordinary_parameters(m):
    """The parameters are captured: they keep their history."""
    net = network(m)
    result = m.func.vmap(m.func.grad(lambda x: net(x).sum()))(normal(m, 5, 3))
    return result, m.autograd.grad(result.sum(), list(net.parameters())[:3])


# ---- gradients of each example -------------------------------------------------------------------------


@compared
def test_gradients_of_each_example(m):
    net = network(m)
    x, y = normal(m, 6, 3), normal(m, 6, 2, seed=1)
    loss = loss_of(m, net)
    result = m.func.vmap(m.func.grad(loss), (None, 0, 0))(detached(net), x, y)
    chunked = m.func.vmap(m.func.grad(loss), (None, 0, 0), chunk_size=4)(detached(net), x, y)
    return result, chunked


def test_gradients_of_each_example_are_a_loop():
    net = network(ag)
    x, y = normal(ag, 6, 3), normal(ag, 6, 2, seed=1)
    result = ag.func.vmap(ag.func.grad(loss_of(ag, net)), (None, 0, 0))(detached(net), x, y)
    for k in range(6):
        grads = ag.autograd.grad(((net(x[k]) - y[k]) ** 2).mean(), list(net.parameters()))
        assert_equal([g[k] for g in result.values()], list(grads))


@pytest.mark.parametrize("layer", ["LayerNorm", "GroupNorm", "Embedding", "PReLU", "Attention"])
def test_gradients_of_each_example_of_layers(layer):
    """A loop over examples by autograd.grad."""
    made = {
        "PReLU": lambda: (ag.nn.PReLU(4), (3, 4)),
        "LayerNorm": lambda: (ag.nn.LayerNorm(4), (3, 4)), "GroupNorm": lambda: (ag.nn.GroupNorm(2, 4), (1, 4, 3)),
        "Embedding": lambda: (ag.nn.Embedding(5, 3), None),
        "Attention": lambda: (ag.nn.TransformerEncoderLayer(4, 2, 5, dropout=0.0, batch_first=True), (3, 4)),
    }  # fmt: skip
    module, shape = made[layer]()
    module = filled(ag, module.to(ag.float64))
    x = ag.tensor([[0, 3], [2, 2], [4, 1]]) if shape is None else normal(ag, 3, *shape)

    def loss(params, x):
        out = ag.func.functional_call(module, params, (x,))
        return ((out[0] if isinstance(out, tuple) else out) ** 3).sum()

    params = detached(module)
    result = ag.func.vmap(ag.func.grad(loss), (None, 0))(params, x)
    for k in range(3):
        assert_equal({name: g[k] for name, g in result.items()}, ag.func.grad(loss)(params, x[k]))


# ---- ensembles -----------------------------------------------------------------------------------------


@compared
def test_stacked_state(m):
    params, buffers = m.func.stack_module_state([network(m, seed, norm=True) for seed in range(3)])
    return params, buffers, [p.requires_grad and p.is_leaf for p in params.values()], [
        b.requires_grad for b in buffers.values()]


@compared
def test_an_ensemble(m):
    nets = [network(m, seed, norm=True).eval() for seed in range(3)]
    state = m.func.stack_module_state(nets)

    def run(params, buffers, x):
        return m.func.functional_call(nets[0], (params, buffers), (x,))

    x = normal(m, 5, 3)
    together = m.func.vmap(run, (0, 0, None))(*state, x)
    assert_equal(together, m.stack([net(x) for net in nets]))
    apart = m.func.vmap(run)(*state, normal(m, 3, 5, 3))
    return together, apart, m.autograd.grad(together.sum(), list(state[0].values()))


@compared
def test_gradients_of_an_ensemble(m):
    nets = [network(m, seed) for seed in range(3)]
    params, _ = m.func.stack_module_state(nets)
    x, y = normal(m, 5, 3), normal(m, 5, 2)
    loss = loss_of(m, nets[0])
    per_example = m.func.vmap(m.func.vmap(m.func.grad(loss), (None, 0, 0)), (0, None, None))
    return m.func.vmap(m.func.grad(loss), (0, None, None))(params, x, y), per_example(params, x, y)


def test_an_ensemble_learns():
    """Steps of an optimizer on the stacked parameters are those of each model by itself."""
    x, y = normal(ag, 5, 3), normal(ag, 5, 2)
    nets = [network(ag, seed) for seed in range(2)]
    params, _ = ag.func.stack_module_state(nets)
    optimizer = ag.optim.SGD(list(params.values()), lr=0.1, momentum=0.9)
    alone = [ag.optim.SGD(net.parameters(), lr=0.1, momentum=0.9) for net in nets]
    for _ in range(3):
        optimizer.zero_grad()
        ag.func.vmap(loss_of(ag, network(ag)), (0, None, None))(params, x, y).sum().backward()
        optimizer.step()
        for net, own in zip(nets, alone, strict=True):
            own.zero_grad()
            ((net(x) - y) ** 2).mean().backward()
            own.step()
    for k, net in enumerate(nets):
        assert_equal([p[k] for p in params.values()], list(net.parameters()))


@compared
def test_an_ensemble_updates_its_buffers_while_it_is_differentiated(m):
    base = m.nn.BatchNorm1d(3, dtype=m.float64)

    def loss(params, buffers, x):
        return (m.func.functional_call(base, (params, buffers), (x,)) ** 3).sum()

    params, buffers = m.func.stack_module_state([m.nn.BatchNorm1d(3, dtype=m.float64) for _ in range(2)])
    params = {name: p.detach() for name, p in params.items()}
    grads = m.func.vmap(m.func.grad(loss))(params, buffers, normal(m, 2, 5, 3))
    return grads, buffers


def test_frozen_parameters_stay_frozen():
    nets = [network(ag, seed).requires_grad_(False) for seed in range(2)]
    params, _ = ag.func.stack_module_state(nets)
    assert not any(p.requires_grad for p in params.values())
    assert torch.func.stack_module_state([network(torch).requires_grad_(False)])[0]["0.bias"].requires_grad is False


def mixed(m):
    nets = [network(m, seed) for seed in range(2)]
    nets[1][0].weight.requires_grad_(False)
    return nets


REFUSED = {
    "no models": (lambda m: [], "Expected at least one model, got 0"),
    "modes": (lambda m: [network(m), network(m).eval()], "Expected all models to have the same training/eval mode"),
    "classes": (lambda m: [network(m), m.nn.Linear(3, 2)], "Expected all models to be of the same class"),
    "requires_grad": (mixed, "Expected 0.weight from each model to have the same .requires_grad"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    made, text = REFUSED[case]
    refused_by_both(lambda m: m.func.stack_module_state(made(m)), RuntimeError, text)
