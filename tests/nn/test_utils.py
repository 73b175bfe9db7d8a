"""nn.utils and nn.init: clipping, vectors, parametrizations and initial values, against PyTorch."""

import copy
import math
import pickle
import warnings

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import nn, optim
from autograd_gpu.nn import utils
from autograd_gpu.nn.utils import parametrizations, parametrize

# ---- clipping ----------------------------------------------------------------------------------------

def parameters(library, device="cpu"):
    rng, result = np.random.default_rng(0), []
    for shape in ((3, 4), (5,), ()):
        data = np.asarray(rng.normal(size=shape))
        parameter = library.nn.Parameter(library.tensor(np.zeros(shape), device=device))
        parameter.grad = library.tensor(data, device=device)
        result.append(parameter)
    result.append(library.nn.Parameter(library.tensor([1.0], device=device)))  # has no gradient
    return result


def test_a_norm_that_is_no_tensor_is_refused():
    p = ag.nn.Parameter(ag.zeros(1))
    with pytest.raises(TypeError, match=r"total_norm must be a Tensor, .* not float; wrap it"):
        utils.clip_grads_with_norm_([p], 1.0, 5.0)


@pytest.mark.parametrize("norm_type", [1.0, 2.0, 3, math.inf, -math.inf])
@pytest.mark.parametrize("max_norm", [0.5, 100.0])
def test_clipping_equals_pytorch(norm_type, max_norm, device):
    torch = pytest.importorskip("torch")
    ours, theirs = parameters(ag, device), parameters(torch)
    total = utils.clip_grad_norm_(ours, max_norm, norm_type)
    expected = torch.nn.utils.clip_grad_norm_(theirs, max_norm, norm_type)
    assert total.item() == pytest.approx(expected.item(), rel=1e-12)
    for a, b in zip(ours[:-1], theirs[:-1], strict=True):
        np.testing.assert_allclose(a.grad.numpy(force=True), b.grad.numpy(), rtol=1e-12)
    assert ours[-1].grad is None
    utils.clip_grad_value_(ours, 0.1)
    torch.nn.utils.clip_grad_value_(theirs, 0.1)
    for a, b in zip(ours[:-1], theirs[:-1], strict=True):
        np.testing.assert_allclose(a.grad.numpy(force=True), b.grad.numpy(), rtol=1e-12)


def test_clipping_one_tensor_and_none():
    p = nn.Parameter(ag.zeros(2, device="cpu"))
    assert utils.clip_grad_norm_(p, 1.0).item() == 0.0
    p.grad = ag.tensor([3.0, 4.0], device="cpu")
    version = p.grad._version
    assert utils.clip_grad_norm_(p, 10.0).item() == 5.0
    assert p.grad.tolist() == [3.0, 4.0]
    assert p.grad._version == version  # nothing was written; on CUDA nobody waits to know
    assert utils.get_total_norm([p.grad, p.grad, ag.ones(0)]).item() == pytest.approx(5 * math.sqrt(2))
    assert utils.get_total_norm([p.grad, ag.ones(0)], math.inf).item() == 4.0
    with pytest.raises(ValueError, match="a norm of order 0"):
        utils.clip_grad_norm_(p, 1.0, norm_type=0)


def test_half_gradients_do_not_overflow():
    p = nn.Parameter(ag.zeros(1000, dtype=ag.float16))
    p.grad = ag.full((1000,), 200.0, dtype=ag.float16)
    assert utils.clip_grad_norm_([p], 1.0).item() == pytest.approx(200 * math.sqrt(1000), rel=1e-4)
    assert p.grad.dtype == ag.float16
    assert p.grad[0].item() == pytest.approx(1 / math.sqrt(1000), rel=1e-2)


def test_a_norm_that_is_not_finite():
    p = nn.Parameter(ag.zeros(2))
    p.grad = ag.tensor([1.0, math.nan])
    with pytest.raises(RuntimeError, match=r"The total norm of order 2\.0 .* is non-finite"):
        utils.clip_grad_norm_([p], 1.0, error_if_nonfinite=True)
    assert math.isnan(utils.clip_grad_norm_([p], 1.0).item())
    assert math.isnan(p.grad[0].item())


# ---- vectors -----------------------------------------------------------------------------------------


def test_parameters_as_a_vector_and_back(device):
    net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1)).to(device)
    vector = utils.parameters_to_vector(net.parameters())
    assert vector.shape == (13,)
    assert vector.requires_grad
    assert vector[:6].tolist() == net[0].weight.ravel().tolist()
    held = list(net.parameters())
    utils.vector_to_parameters(ag.arange(13.0, device=device), net.parameters())
    assert all(a is b for a, b in zip(held, net.parameters(), strict=True))
    assert net[0].weight.tolist() == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
    assert net[1].bias.tolist() == [12.0]
    assert utils.parameters_to_vector(net.parameters()).tolist() == [float(i) for i in range(13)]
    with pytest.raises(TypeError, match="expected a Tensor, but got: list"):
        utils.vector_to_parameters([1.0], net.parameters())
    with pytest.raises(RuntimeError, match="the vector of 3 elements is shorter"):
        utils.vector_to_parameters(ag.ones(3, device=device), net.parameters())


# ---- parametrizations --------------------------------------------------------------------------------


def transfer(ours, theirs):
    ours.load_state_dict({key: ag.tensor(value.numpy(force=True)) for key, value in theirs.state_dict().items()})


@pytest.mark.parametrize("dim", [0, 1, None])
def test_weight_norm_equals_pytorch(dim, device):
    torch = pytest.importorskip("torch")
    ours = parametrizations.weight_norm(nn.Linear(4, 3), dim=dim).to(device, ag.float64)
    theirs = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(4, 3).double(), dim=dim)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    transfer(ours, theirs)
    x = np.random.default_rng(0).normal(size=(5, 4))
    out, expected = ours(ag.tensor(x, device=device)), theirs(torch.tensor(x))
    np.testing.assert_allclose(out.numpy(force=True), expected.detach().numpy(), rtol=1e-12)
    out.square().sum().backward()
    expected.square().sum().backward()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        np.testing.assert_allclose(a.grad.numpy(force=True), b.grad.numpy(), rtol=1e-9, atol=1e-12)


def test_weight_norm_starts_from_the_weight_and_can_be_assigned(device):
    layer = nn.Linear(4, 3, device=device)
    before = layer.weight.tolist()
    parametrizations.weight_norm(layer)
    np.testing.assert_allclose(layer.weight.tolist(), before, rtol=1e-6)
    layer.weight = ag.ones(3, 4, device=device)
    np.testing.assert_allclose(layer.weight.tolist(), np.ones((3, 4)), rtol=1e-6)
    assert layer.parametrizations.weight.original0.tolist() == [[2.0]] * 3
    plain = {"weight_g": ag.ones(3, 1), "weight_v": ag.ones(3, 4), "bias": ag.zeros(3)}
    layer.load_state_dict(plain)  # the keys of the older weight norm
    np.testing.assert_allclose(layer.weight.tolist(), np.full((3, 4), 0.5), rtol=1e-6)
    assert "weight_g" in plain


def test_spectral_norm_equals_pytorch(device):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)  # the last assertion is of a power iteration, which some weights keep from its end for long
    ours = parametrizations.spectral_norm(nn.Linear(4, 3)).to(device, ag.float64)
    theirs = torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(4, 3).double())
    assert sorted(ours.state_dict()) == sorted(theirs.state_dict())
    transfer(ours, theirs)
    x = np.random.default_rng(0).normal(size=(5, 4))
    for training in (True, True, False):
        out = ours.train(training)(ag.tensor(x, device=device))
        expected = theirs.train(training)(torch.tensor(x))
        np.testing.assert_allclose(out.numpy(force=True), expected.detach().numpy(), rtol=1e-9)
    out.square().sum().backward()
    expected.square().sum().backward()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        np.testing.assert_allclose(a.grad.numpy(force=True), b.grad.numpy(), rtol=1e-8, atol=1e-12)
    for _ in range(50):
        ours.train()(ag.tensor(x, device=device))
    assert np.linalg.norm(ours.weight.numpy(force=True), 2) == pytest.approx(1.0, rel=1e-6)


def test_the_older_names_of_weight_norm_and_spectral_norm():
    torch = pytest.importorskip("torch")
    theirs = torch.nn.Linear(3, 2)
    with warnings.catch_warnings(action="ignore"):
        torch.nn.utils.weight_norm(theirs)  # deprecated
    ours = utils.weight_norm(nn.Linear(3, 2))
    ours.load_state_dict(theirs.state_dict())
    np.testing.assert_allclose(ours.weight.numpy(force=True), theirs.weight.numpy(force=True), rtol=1e-6)
    with pytest.raises(ValueError, match="spectral_norm of 'weight' not found in"):
        utils.remove_spectral_norm(ours)
    assert type(utils.remove_weight_norm(ours)) is nn.Linear
    with pytest.raises(ValueError, match="weight_norm of 'weight' not found in"):
        utils.remove_weight_norm(ours)
    assert type(utils.remove_spectral_norm(utils.spectral_norm(ours))) is nn.Linear


def test_spectral_norm_errors():
    with pytest.raises(ValueError, match="has no parameter or buffer with name 'nope'"):
        parametrizations.spectral_norm(nn.Linear(2, 2), "nope")
    with pytest.raises(IndexError, match="Dimension out of range"):
        parametrizations.spectral_norm(nn.Linear(2, 2), dim=2)
    with pytest.raises(ValueError, match="Expected n_power_iterations to be positive"):
        parametrizations.spectral_norm(nn.Linear(2, 2), n_power_iterations=0)
    vector = parametrizations.spectral_norm(nn.Linear(2, 2), "bias")
    assert vector.bias.norm().item() == pytest.approx(1.0)


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).mT

    def right_inverse(self, x):
        return x.triu()


class Doubled(nn.Module):
    def forward(self, x):
        return x * 2


def test_parametrizations_are_chained_removed_and_cached():
    layer = nn.Linear(3, 3)
    held, optimizer = layer.weight, optim.SGD(layer.parameters(), lr=0.1)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    assert type(layer).__name__ == "ParametrizedLinear"
    assert isinstance(layer, nn.Linear)
    assert layer.parametrizations.weight.original is held  # the optimizer's
    once = layer.weight
    assert bool((once == once.mT).all())
    parametrize.register_parametrization(layer, "weight", Doubled())
    assert layer.weight.tolist() == (once * 2).tolist()
    layer(ag.ones(1, 3)).sum().backward()
    optimizer.step()
    assert layer.weight.tolist() != (once * 2).tolist()
    assert layer.weight is not layer.weight
    with parametrize.cached():
        assert layer.weight is layer.weight
    twin = copy.deepcopy(layer)
    assert twin.weight.tolist() == layer.weight.tolist()
    with pytest.raises(RuntimeError, match="parametrization Doubled does not implement right_inverse"):
        layer.weight = ag.ones(3, 3)
    now = layer.weight.tolist()
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear
    assert layer.weight is held
    assert layer.weight.tolist() == now
    assert not parametrize.is_parametrized(layer)
    assert parametrize.is_parametrized(twin, "weight")
    assert not parametrize.is_parametrized(twin, "bias")


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_of_a_parametrized_module_are_parametrized_by_themselves(duplicate):
    layer = parametrizations.weight_norm(nn.Linear(2, 2))
    twin = duplicate(layer)
    assert twin.weight.tolist() == layer.weight.tolist()
    parametrize.register_parametrization(twin, "bias", nn.Tanh())
    assert not parametrize.is_parametrized(layer, "bias")
    assert layer.bias is dict(layer.named_parameters())["bias"]
    parametrize.remove_parametrizations(twin, "weight")
    with ag.no_grad():
        twin.weight.zero_()
    assert layer.weight.abs().sum().item() > 0
    assert twin(ag.ones(1, 2)).tolist() == [twin.bias.tolist()]
    parametrize.remove_parametrizations(twin, "bias")
    assert type(twin) is nn.Linear


def test_removing_gives_back_what_it_started_from_or_says_that_it_cannot():
    layer = parametrize.register_parametrization(nn.Linear(3, 3), "weight", Doubled())
    held = layer.parametrizations.weight.original.tolist()
    parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    assert layer.weight.tolist() == held
    with pytest.raises(ValueError, match="does not have a parametrization on weight"):
        parametrize.remove_parametrizations(layer, "weight")
    parametrizations.weight_norm(layer)
    with pytest.raises(ValueError, match="Cannot leave unparametrized"):
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)


def test_parametrizations_that_do_not_fit():
    class Cut(nn.Module):
        def forward(self, x):
            return x[0]

    layer = nn.Linear(3, 3)
    with pytest.raises(ValueError, match="may not change the shape of the tensor"):
        parametrize.register_parametrization(layer, "weight", Cut())
    with pytest.raises(ValueError, match="does not have a parameter, a buffer"):
        parametrize.register_parametrization(layer, "nope", Doubled())
    parametrize.register_parametrization(layer, "weight", Doubled())
    with pytest.raises(ValueError, match="may not change the shape of the tensor"):
        parametrize.register_parametrization(layer, "weight", Cut())


def test_a_parametrized_buffer():
    module = nn.Module()
    module.register_buffer("b", ag.ones(2))
    parametrize.register_parametrization(module, "b", Doubled())
    assert module.b.tolist() == [2.0, 2.0]
    assert list(module.state_dict()) == ["parametrizations.b.original"]
    assert type(parametrize.remove_parametrizations(module, "b").b) is ag.Tensor


# ---- initial values ----------------------------------------------------------------------------------


def test_trunc_normal(device):
    ag.manual_seed(0)
    w = nn.init.trunc_normal_(ag.empty(20_000, device=device), mean=1.0, std=2.0, a=-1.0, b=2.0).numpy(force=True)
    assert w.min() >= -1.0
    assert w.max() <= 2.0
    stats = pytest.importorskip("scipy.stats")
    expected = stats.truncnorm(-1.0, 0.5, loc=1.0, scale=2.0)
    assert w.mean() == pytest.approx(expected.mean(), abs=0.02)
    assert w.std() == pytest.approx(expected.std(), abs=0.02)
    with pytest.warns(UserWarning, match="mean is more than 2 std from"):
        nn.init.trunc_normal_(ag.empty(2), mean=10.0)


@pytest.mark.parametrize("shape", [(4, 6), (6, 4), (5, 5), (4, 2, 3)])
def test_orthogonal(shape, device):
    w = nn.init.orthogonal_(ag.empty(*shape, dtype=ag.float64, device=device), gain=2.0).numpy(force=True)
    matrix = w.reshape(shape[0], -1)
    product = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
    np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-12)


def test_eye_and_sparse(device):
    assert nn.init.eye_(ag.empty(2, 3, device=device)).tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    w = nn.init.sparse_(ag.empty(200, 10, device=device), 0.3, std=0.5).numpy(force=True)
    assert ((w == 0).sum(0) == 60).all()
    assert w[w != 0].std() == pytest.approx(0.5, rel=0.1)
    assert np.count_nonzero(nn.init.sparse_(ag.empty(4, 2), 0.0).numpy(force=True)) == 8
    for fill in (nn.init.eye_, lambda t: nn.init.sparse_(t, 0.5)):
        with pytest.raises(ValueError, match="Only tensors with 2 dimensions are supported"):
            fill(ag.empty(2, 2, 2))
    with pytest.raises(ValueError, match="2 or more dimensions"):
        nn.init.orthogonal_(ag.empty(2))
    assert nn.init.orthogonal_(ag.empty(0, 2)).shape == (0, 2)


def test_initial_values_in_half_precision():
    for fill in (nn.init.trunc_normal_, nn.init.orthogonal_, nn.init.eye_):
        assert fill(ag.empty(3, 3, dtype=ag.bfloat16)).dtype == ag.bfloat16


def test_signatures_equal_pytorch():
    inspect, torch = pytest.importorskip("inspect"), pytest.importorskip("torch")
    for name in nn.init.__all__:
        ours, theirs = (inspect.signature(getattr(lib.nn.init, name)).parameters for lib in (ag, torch))
        assert list(ours) == list(theirs), name
        defaults = [(ours[n].default, theirs[n].default) for n in ours]
        assert all(a == b for a, b in defaults), name
