"""Activations and dropouts in place, and the functions that draw random numbers."""

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import nn
from autograd_gpu.nn import functional as F

IN_PLACE = {
    "relu": (), "celu": (2.0,), "elu": (0.5,), "selu": (), "leaky_relu": (0.2,), "hardtanh": (-0.5, 0.5),
    "threshold": (0.1, 7.0), "rrelu": (0.2, 0.4),
}  # fmt: skip
WITH_FLAG = IN_PLACE | {"relu6": (), "hardsigmoid": (), "hardswish": (), "silu": (), "mish": ()}


@pytest.mark.parametrize("name", IN_PLACE)
def test_underscore_forms_write_into_their_input(name, device):
    x = ag.randn(3, 4, device=device)
    expected = getattr(ag, name)(x, *IN_PLACE[name]).tolist()
    array, version = x.array, x._version
    assert getattr(F, f"{name}_")(x, *IN_PLACE[name]) is x
    assert x.array is array
    assert x._version == version + 1
    assert x.tolist() == expected


def test_underscore_forms_are_recorded_or_refused():
    x = ag.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        x.relu_()
    y = x * 2
    assert y.sigmoid_().grad_fn.name() == "SigmoidBackward0"
    with pytest.raises(RuntimeError, match="result type float32 can't be cast to the desired output type int64"):
        ag.tensor([1, 2]).tanh_()
    with ag.no_grad():
        assert x.relu_() is x


@pytest.mark.parametrize("name", WITH_FLAG)
def test_inplace_flag_overwrites(name, device):
    x = ag.randn(3, 4, device=device)
    expected = getattr(ag, name)(x, *WITH_FLAG[name]).tolist()
    y = x.clone().requires_grad_() * 1
    assert getattr(F, name)(y, *WITH_FLAG[name], inplace=True) is y
    assert y.requires_grad
    assert y.tolist() == expected
    assert getattr(F, name)(x, *WITH_FLAG[name], inplace=True) is x
    assert x.tolist() == expected


def test_a_network_with_inplace_activations_trains():
    net = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5, inplace=True), nn.ReLU(inplace=True), nn.Linear(4, 1))
    net(ag.ones(2, 3)).sum().backward()
    assert net[0].weight.grad is not None


# ---- random ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["dropout", "alpha_dropout", "dropout1d", "feature_alpha_dropout"])
def test_dropouts_are_nothing_outside_of_training_and_at_0(name):
    x = ag.ones(2, 3, 4)
    assert getattr(F, name)(x, 0.5, False).tolist() == x.tolist()
    assert getattr(F, name)(x, 0.0, True).tolist() == x.tolist()
    assert np.allclose(getattr(F, name)(x, 1.0, True).numpy(force=True), 0.0)
    with pytest.raises(ValueError, match=r"between 0 and 1, but got 1\.5"):
        getattr(F, name)(x, 1.5, True)


@pytest.mark.parametrize(
    ("name", "shape"), [("dropout1d", (50, 40, 3)), ("dropout2d", (50, 40, 2, 2)), ("dropout3d", (50, 40, 2, 2, 2))]
)
def test_channel_dropouts_drop_whole_channels(name, shape, device):
    ag.manual_seed(0)
    out = getattr(F, name)(ag.ones(*shape, device=device), 0.3).numpy(force=True)
    per_channel = out.reshape(shape[0] * shape[1], -1)
    assert (per_channel == per_channel[:, :1]).all()
    assert set(np.unique(out)) == {0.0, np.float32(1 / 0.7)}
    assert 0.65 < np.count_nonzero(per_channel[:, 0]) / len(per_channel) < 0.75


def test_unbatched_channels(device):
    ag.manual_seed(0)
    assert F.dropout1d(ag.ones(100, 2, device=device), 0.5).numpy(force=True).std(1).max() == 0.0
    assert F.dropout3d(ag.ones(100, 2, 1, 1, device=device), 0.5).numpy(force=True).std(1).max() == 0.0


def test_shapes_that_channel_dropouts_do_not_expect():
    with pytest.raises(RuntimeError, match="dropout1d: Expected 2D or 3D input, but received a 4D input"):
        F.dropout1d(ag.ones(1, 1, 1, 1))
    with pytest.warns(UserWarning, match="dropout2d: Received a 3-D input"):
        F.dropout2d(ag.ones(1, 1, 1))
    with pytest.warns(UserWarning, match="dropout3d: Received a 3-D input"):
        F.dropout3d(ag.ones(1, 1, 1))
    with pytest.raises(RuntimeError, match="Feature dropout requires at least 2 dimensions"):
        ag.feature_dropout(ag.ones(2))


def test_alpha_dropout_keeps_mean_and_variance(device):
    ag.manual_seed(0)
    out = F.alpha_dropout(ag.randn(100_000, device=device), 0.3, training=True).numpy(force=True)
    assert abs(out.mean()) < 0.02
    assert abs(out.std() - 1) < 0.02


def test_rrelu_draws_slopes_in_training_only(device):
    ag.manual_seed(0)
    x = -ag.ones(10_000, device=device)
    slopes = -F.rrelu(x, 0.2, 0.6, training=True).numpy(force=True)
    assert slopes.min() >= 0.2
    assert slopes.max() < 0.6
    assert abs(slopes.mean() - 0.4) < 0.01
    assert np.allclose(F.rrelu(x, 0.2, 0.6).numpy(force=True), -0.4)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_gumbel_softmax(dim, device):
    ag.manual_seed(0)
    logits = ag.tensor(np.log([[0.1, 0.2, 0.7]] * 30_000), device=device, requires_grad=True)
    logits = logits if dim else logits.T
    soft = F.gumbel_softmax(logits, tau=0.5, dim=dim)
    assert np.allclose(soft.sum(dim).numpy(force=True), 1.0)
    hard = F.gumbel_softmax(logits, hard=True, dim=dim)
    assert set(np.unique(hard.numpy(force=True).round(12))) == {0.0, 1.0}
    other = 1 - (dim % 2)
    assert np.allclose(hard.mean(other).numpy(force=True), [0.1, 0.2, 0.7], atol=0.01)
    (g,) = ag.autograd.grad((hard * hard.detach()).sum(), logits)
    assert g.abs().sum().item() > 0  # the gradient of the soft one


@pytest.mark.parametrize("name", [
    "dropout_", "alpha_dropout_", "feature_dropout_", "feature_alpha_dropout_",
])  # fmt: skip
def test_dropouts_in_place_are_those_out_of_place(name, device):
    x = ag.tensor(np.linspace(0.5, 2.0, 24).reshape(2, 3, 4), device=device)
    ag.manual_seed(5)
    expected = getattr(ag, name[:-1])(x, 0.5, True)
    ag.manual_seed(5)
    assert getattr(ag, name)(x, 0.5, True) is x
    np.testing.assert_array_equal(x.numpy(force=True), expected.numpy(force=True))
    assert x._version == 1
