"""Recurrent layers and cells: derivatives of all orders, transforms, dtypes, dropout, copies, and what calls cost."""

import copy
import pickle

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import func, nn, profiler
from autograd_gpu.autograd import forward_ad
from autograd_gpu.autograd.gradcheck import gradcheck, gradgradcheck

LAYERS = {"RNN": 1, "GRU": 1, "LSTM": 2}  # with the number of states
CELLS = {"RNNCell": 1, "GRUCell": 1, "LSTMCell": 2}


def tensor(*shape, seed=0, **kwargs):
    return ag.tensor(np.random.default_rng(seed).normal(size=shape), **kwargs)


def make(name, *args, **kwargs):
    """A module in float64, always with the same numbers."""
    module = getattr(nn, name)(*args, **kwargs, dtype=ag.float64)
    for number, parameter in enumerate(module.parameters()):
        parameter.data = tensor(*parameter.shape, seed=number) / 2
    return module


def outs_of(value):
    """Output and last states as one tuple."""
    out, last = value
    return (out, *last) if isinstance(last, tuple) else (out, last)


def run(module, x, *states):
    """All results of a layer, from given states."""
    hx = None if not states else states if isinstance(module, nn.LSTM) else states[0]
    return outs_of(module(x, hx))


# ---- derivatives -----------------------------------------------------------------------------------------


@pytest.mark.cpu
@pytest.mark.parametrize("name", LAYERS)
def test_second_derivatives(name):
    """Of output and states for input, states and parameters, through both directions of a packed batch."""
    module = make(name, 1, 2, bidirectional=True)
    names = [key for key, _ in module.named_parameters() if "_reverse" in key or "bias" not in key]

    def call(x, *rest):
        states, parameters = rest[: LAYERS[name]], dict(zip(names, rest[LAYERS[name] :], strict=True))
        packed = nn.utils.rnn.pack_padded_sequence(x, [2, 1])
        hx = states if name == "LSTM" else states[0]
        out, last = func.functional_call(module, parameters, (packed, hx))
        return (out.data, *(last if isinstance(last, tuple) else (last,)))

    inputs = [tensor(2, 2, 1, requires_grad=True)]
    inputs += [tensor(2, 2, 2, seed=9 + k, requires_grad=True) for k in range(LAYERS[name])]
    inputs += [module.get_parameter(key).detach().clone().requires_grad_() for key in names]
    assert gradcheck(call, inputs)
    assert gradgradcheck(call, inputs)


@pytest.mark.cpu
def test_second_derivatives_with_projection():
    module = make("LSTM", 1, 3, proj_size=2)
    parameters = list(module.parameters())

    def call(x, h, c, *weights):
        named = dict(zip(module.state_dict(), weights, strict=True))
        return outs_of(func.functional_call(module, named, (x, (h, c))))

    inputs = [tensor(2, 1, 1), tensor(1, 1, 2), tensor(1, 1, 3), *(p.detach().clone() for p in parameters)]
    inputs = [x.requires_grad_() for x in inputs]
    assert gradcheck(call, inputs)
    assert gradgradcheck(call, inputs)


@pytest.mark.parametrize("name", CELLS)
def test_second_derivatives_of_cells(name, device):
    module = make(name, 2, 2)

    def call(x, *states):
        result = module(x, states if len(states) == 2 else states[0])
        return result if isinstance(result, tuple) else (result,)

    assert gradgradcheck(call, [tensor(2, 2, seed=k, requires_grad=True) for k in range(1 + CELLS[name])])


@pytest.mark.parametrize("name", LAYERS)
def test_a_gradient_penalty_reaches_the_weights(name, device):
    """The norm of the gradient of the output for the input, differentiated again: as by a difference of weights."""
    module, x = make(name, 2, 2), tensor(3, 2, 2, requires_grad=True)

    def penalty():
        (g,) = ag.autograd.grad(module(x)[0].sum(), x, create_graph=True)
        return (g * g).sum()

    (slope,) = ag.autograd.grad(penalty(), module.weight_hh_l0)
    step = 1e-6
    with ag.no_grad():
        module.weight_hh_l0[1, 0] += step
    above = penalty().item()
    with ag.no_grad():
        module.weight_hh_l0[1, 0] -= 2 * step
    assert slope[1, 0].item() == pytest.approx((above - penalty().item()) / (2 * step), rel=1e-6)


@pytest.mark.parametrize("name", LAYERS)
def test_forward_mode(name, device):
    """The tangents of all results are what the gradients say: <w, J t> = <J^T w, t>."""
    module = make(name, 2, 3, num_layers=2, bidirectional=True)
    x, states = tensor(3, 2, 2), [tensor(4, 2, 3, seed=k) for k in range(LAYERS[name])]
    primals, tangents = [x, *states], [tensor(*t.shape, seed=7) for t in (x, *states)]
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(*pair) for pair in zip(primals, tangents, strict=True)]
        pushed = [forward_ad.unpack_dual(out).tangent for out in run(module, *duals)]
    leaves = [p.clone().requires_grad_() for p in primals]
    outs = run(module, *leaves)
    weights = [tensor(*out.shape, seed=8) for out in outs]
    pulled = ag.autograd.grad(outs, leaves, weights)
    left = sum((w * t).sum().item() for w, t in zip(weights, pushed, strict=True))
    right = sum((g * t).sum().item() for g, t in zip(pulled, tangents, strict=True))
    assert left == pytest.approx(right, rel=1e-12)


@pytest.mark.parametrize("name", LAYERS)
def test_hessian_of_a_small_network(name, device):
    """func.hessian, from jvp and gradient rules, is symmetric and equals gradients of gradients."""
    module, head = make(name, 1, 2), tensor(2, seed=3)

    def loss(x):
        return (module(x)[0] @ head).square().sum()

    x = tensor(3, 1, 1)
    hessian = func.hessian(loss)(x).reshape(3, 3)
    leaf = x.clone().requires_grad_()
    (g,) = ag.autograd.grad(loss(leaf), leaf, create_graph=True)
    rows = [ag.autograd.grad(vector, leaf, retain_graph=True)[0].reshape(3) for vector in g.reshape(3)]
    np.testing.assert_allclose(hessian.numpy(force=True), ag.stack(rows).numpy(force=True), rtol=1e-9, atol=1e-12)


# ---- vmap ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LAYERS)
def test_vmap_over_batches_and_over_weights(name, device):
    """Examples of a shared network, and one network for each example: as in a loop."""
    module = make(name, 2, 3, bidirectional=True)
    x = tensor(4, 3, 2, 2)
    result = func.vmap(lambda vector: run(module, vector))(x)
    for k, out in enumerate(result):
        expected = ag.stack([run(module, vector)[k] for vector in x])
        np.testing.assert_allclose(out.numpy(force=True), expected.numpy(force=True), rtol=1e-12)

    stacked = {key: ag.stack([p.detach() * (1 + k) for k in range(3)]) for key, p in module.named_parameters()}
    result = func.vmap(lambda weights: outs_of(func.functional_call(module, weights, (x[0],))))(stacked)
    for k in range(3):
        weights = {key: value[k] for key, value in stacked.items()}
        for a, b in zip(result, outs_of(func.functional_call(module, weights, (x[0],))), strict=True):
            np.testing.assert_allclose(a[k].numpy(force=True), b.numpy(force=True), rtol=1e-12)


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_per_example(name, device):
    module, x = make(name, 2, 3), tensor(4, 3, 2)

    def loss(parameters, sequence):
        return func.functional_call(module, parameters, (sequence,))[0].square().sum()

    parameters = {key: p.detach() for key, p in module.named_parameters()}
    result = func.vmap(func.grad(loss), in_dims=(None, 0))(parameters, x)
    for k in range(4):
        for key, expected in func.grad(loss)(parameters, x[k]).items():
            actual = result[key][k].numpy(force=True)
            np.testing.assert_allclose(actual, expected.numpy(force=True), rtol=1e-9, atol=1e-12)


# ---- dtypes, dropout, state ------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "close"), [("float16", 4e-3), ("bfloat16", 4e-2), ("float32", 1e-5)])
@pytest.mark.parametrize("name", LAYERS)
def test_other_dtypes(name, dtype, close, device):
    """As in float64 with the same numbers; the gradients come in the dtype of their tensors."""
    narrow = make(name, 2, 3, bidirectional=True).to(getattr(ag, dtype))
    wide = copy.deepcopy(narrow).double()
    results = []
    for module in (narrow, wide):
        x = tensor(3, 2, 2).to(narrow.weight_ih_l0.dtype).to(module.weight_ih_l0.dtype).requires_grad_()
        outs = run(module, x)
        ag.cat([out.reshape(-1) for out in outs]).sum().backward()
        results.append([*outs, x.grad, *(p.grad for p in module.parameters())])
    for a, b in zip(*results, strict=True):
        assert a.dtype == narrow.weight_ih_l0.dtype
        scale = abs(b.numpy(force=True)).max()
        error = abs(a.double().numpy(force=True) - b.numpy(force=True)).max()
        assert error <= close * (1 + scale)


@pytest.mark.parametrize("name", LAYERS)
def test_dropout_between_layers(name, device):
    """All of it: the second layer sees zeros. In evaluation, and behind the last layer, there is none."""
    module, plain = make(name, 2, 3, num_layers=2, dropout=1.0), make(name, 2, 3, num_layers=2)
    x = tensor(3, 2, 2)
    (out, *_), (again, *_) = run(module, x), run(module, 0 * x)
    assert ag.equal(out, again)
    assert out.abs().sum().item() > 0
    assert ag.equal(run(module.eval(), x)[0], run(plain, x)[0])
    some = make(name, 2, 3, num_layers=3, dropout=0.5)
    results = []
    for seed in (1, 1, 2):
        ag.manual_seed(seed)
        results.append(run(some, x)[0])
    assert ag.equal(results[0], results[1])
    assert not ag.equal(results[0], results[2])


@pytest.mark.parametrize("name", [*LAYERS, *CELLS])
def test_copies_and_state_dicts(name, device):
    module, x = make(name, 2, 3), tensor(2, 2)
    if name in LAYERS:
        module.flatten_parameters()  # accepted, without an effect
    fresh = getattr(nn, name)(2, 3, dtype=ag.float64)
    fresh.load_state_dict(module.state_dict())
    expected = module(x)[0]
    for other in (fresh, copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert ag.equal(other(x)[0], expected)


def test_results_share_no_memory(device):
    """A write into the last state leaves the output as it is."""
    module = make("LSTM", 2, 3)
    with ag.no_grad():
        out, (h, c) = module(tensor(3, 2, 2))
        before = out.clone()
        h.zero_()
        c.zero_()
    assert ag.equal(out, before)


def test_what_is_saved_is_guarded(device):
    """A write into the output, which the gradient reads, is noticed."""
    out, _ = make("GRU", 2, 3)(tensor(3, 2, 2))
    with ag.no_grad():
        out.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_states_of_an_lstm_are_a_pair(device):
    for module, x in ((make("LSTM", 2, 3), tensor(1, 2)), (make("LSTMCell", 2, 3), tensor(2))):
        with pytest.raises(TypeError, match="a pair \\(h, c\\), but got a Tensor"):
            module(x, ag.zeros(1, 3))


def test_names_of_parameters_may_be_replaced(device):
    """A parametrization of a weight takes part: the layer reads its parameters at each call."""
    module, x = make("LSTM", 2, 3), tensor(3, 1, 2)
    before = module(x)[0]
    nn.utils.parametrize.register_parametrization(module, "weight_hh_l0", nn.Tanh())
    assert not ag.equal(module(x)[0], before)
    assert module.all_weights[0][1].abs().max().item() < 1


# ---- what a call costs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LAYERS)
def test_products(name, device):
    """The input's gates are one product and so is the gradient of each weight; a step has one, each way."""
    steps, batch, size, units = 5, 2, 3, 4
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[name] * units
    module, x = make(name, size, units), tensor(steps, batch, size, requires_grad=True)
    with profiler.count() as forward:
        out, _ = module(x)
    rows = steps * batch
    assert forward.matmuls == {(rows, size, gates): 1, (batch, units, gates): steps}
    with profiler.count() as backward:
        out.sum().backward()
    assert backward.matmuls == {
        (batch, gates, units): steps, (gates, rows, units): 1, (gates, rows, size): 1, (rows, gates, size): 1,
    }  # fmt: skip


@pytest.mark.cuda
@pytest.mark.parametrize("name", LAYERS)
def test_launches(name, device):
    """One kernel beside the product of each step, each way."""
    steps, kernel = 5, f"{name.lower()}_step"
    module, x = make(name, 3, 4), tensor(steps, 2, 3)
    with profiler.count() as forward:
        out, _ = module(x)
    assert forward.launches[kernel] == steps
    assert forward.launches["gemm"] == steps + 1
    with profiler.count() as backward:
        out.sum().backward()
    assert backward.launches[f"{kernel}_backward"] == steps
    assert backward.launches["gemm"] == steps + 2
