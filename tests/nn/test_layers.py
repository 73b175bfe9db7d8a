"""Layers, losses and initial values, by themselves and against PyTorch."""

import copy
import math
import tracemalloc

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import nn

# ---- layers ----------------------------------------------------------------------------------


def test_dropout_only_in_training(device):
    ag.manual_seed(0)
    x = ag.ones(1000, device=device)
    drop = nn.Dropout(0.25)
    kept = drop(x).numpy(force=True)
    assert set(np.unique(kept)) == {0.0, np.float32(1 / 0.75)}
    assert 0.7 < np.count_nonzero(kept) / 1000 < 0.8
    assert drop.eval()(x).tolist() == x.tolist()
    ag.manual_seed(0)
    assert nn.Dropout(0.25)(x).tolist() == kept.tolist()
    with pytest.raises(ValueError, match="between 0 and 1, but got"):
        nn.Dropout(1.5)


def test_initial_values_follow_the_seed_and_the_bounds(device):
    ag.manual_seed(3)
    one = nn.Linear(16, 8, device=device)
    ag.manual_seed(3)
    two = nn.Linear(16, 8, device=device)
    assert one.weight.tolist() == two.weight.tolist()
    assert one.weight.tolist() != nn.Linear(16, 8, device=device).weight.tolist()
    for parameter in one.parameters():
        values = np.abs(parameter.numpy(force=True))
        assert values.max() <= 0.25
        assert values.max() > 0.15
        assert parameter.is_leaf
        assert parameter.requires_grad
    norm = nn.LayerNorm((2, 3), device=device)
    assert norm.weight.tolist() == [[1.0] * 3] * 2
    assert norm.bias.tolist() == [[0.0] * 3] * 2
    assert nn.Linear(0, 2).bias.tolist() == [0.0, 0.0]
    assert [n for n, _ in nn.LayerNorm(3, elementwise_affine=False).named_parameters()] == []
    assert [n for n, _ in nn.LayerNorm(3, bias=False).named_parameters()] == ["weight"]
    assert [n for n, _ in nn.Linear(3, 2, bias=False).named_parameters()] == ["weight"]


@pytest.mark.parametrize("distribution", ["uniform", "normal"])
def test_variances(distribution):
    ag.manual_seed(0)
    w = ag.empty(200, 300)
    xavier, kaiming = (
        getattr(nn.init, f"xavier_{distribution}_"),
        getattr(nn.init, f"kaiming_{distribution}_"),
    )
    assert np.std(xavier(w, gain=2.0).numpy(force=True)) == pytest.approx(2 * math.sqrt(2 / 500), rel=0.02)
    assert np.std(kaiming(w, nonlinearity="relu").numpy(force=True)) == pytest.approx(math.sqrt(2 / 300), rel=0.02)
    assert np.std(kaiming(w, mode="fan_out", nonlinearity="tanh").numpy(force=True)) == pytest.approx(
        5 / 3 / math.sqrt(200), rel=0.02
    )


def test_init_errors_and_versions():
    with pytest.raises(ValueError, match="fewer than 2 dimensions"):
        nn.init.xavier_uniform_(ag.empty(3))
    with pytest.raises(ValueError, match="Mode fan_up not supported"):
        nn.init.kaiming_normal_(ag.empty(3, 3), mode="fan_up")
    with pytest.raises(ValueError, match="Unsupported nonlinearity swish"):
        nn.init.calculate_gain("swish")
    with pytest.raises(ValueError, match="not a valid number"):
        nn.init.calculate_gain("leaky_relu", "x")
    with pytest.raises(RuntimeError, match="normal expects std >= 0"):
        nn.init.normal_(ag.empty(2), std=-1.0)
    with pytest.raises(RuntimeError, match="uniform_ expects"):
        nn.init.uniform_(ag.empty(2), 2.0, 1.0)
    assert nn.init._calculate_fan_in_and_fan_out(ag.empty(2, 3, 5)) == (15, 10)
    w = ag.ones(2, requires_grad=True)
    y = (w * w).sum()
    assert nn.init.zeros_(w) is w
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_losses_check_their_reduction_at_the_call():
    x, classes = ag.rand(3, 2), ag.tensor([0, 1, 1])
    calls = {
        nn.BCELoss: (x, x), nn.CrossEntropyLoss: (x, classes), nn.GaussianNLLLoss: (x, x, x), nn.HuberLoss: (x, x),
        nn.KLDivLoss: (x, x), nn.L1Loss: (x, x), nn.MSELoss: (x, x), nn.MultiMarginLoss: (x, classes),
        nn.NLLLoss: (x, classes), nn.PoissonNLLLoss: (x, x), nn.SmoothL1Loss: (x, x), nn.TripletMarginLoss: (x, x, x),
    }  # fmt: skip
    for loss, arguments in calls.items():
        with pytest.raises(ValueError, match="avg is not a valid value for reduction"):
            loss(reduction="avg")(*arguments)


def test_losses_check_their_arguments():
    with pytest.raises(ValueError, match="MultiMarginLoss: expected weight to be None or 1D tensor, got 2D instead"):
        nn.MultiMarginLoss(weight=ag.ones(2, 2))
    for loss in (nn.TripletMarginLoss, nn.TripletMarginWithDistanceLoss):
        with pytest.raises(ValueError, match=f"{loss.__name__}: expected margin to be greater than 0, got -1 instead"):
            loss(margin=-1)
    scores, shares = ag.zeros(2, 3), ag.ones(2, 3)
    with pytest.raises(RuntimeError, match="ignore_index is not supported for floating point target"):
        nn.CrossEntropyLoss(ignore_index=1)(scores, shares)
    with pytest.raises(RuntimeError, match=r"or probabilities of the input's shape \[2, 3\], but got float32 of shape"):
        nn.CrossEntropyLoss()(scores, ag.ones(2, 4))
    with pytest.raises(RuntimeError, match=r"either for all 3 classes or no classes but got .* shape: \[2\]"):
        nn.NLLLoss(weight=ag.ones(2))(scores, ag.tensor([0, 1]))


def test_batch_norm_takes_both_running_statistics_or_none():
    for training in (False, True):
        with pytest.raises(ValueError, match="must either both be None or neither be None"):
            nn.functional.batch_norm(ag.ones(4, 3), ag.zeros(3), None, training=training)


@pytest.mark.parametrize("momentum", [0.1, None])
@pytest.mark.parametrize("norm", [nn.BatchNorm1d, nn.InstanceNorm1d])
@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 3, 0)])
def test_an_empty_batch_leaves_the_running_statistics(shape, norm, momentum, device):
    layer = norm(3, momentum=momentum, track_running_stats=True, device=device)
    if norm is nn.InstanceNorm1d and momentum is None:
        layer.momentum = 0.5
    layer.running_mean.fill_(2.0)
    layer.running_var.fill_(3.0)
    assert layer(ag.zeros(*shape, device=device)).shape == shape
    assert layer.running_mean.tolist() == [2, 2, 2]
    assert layer.running_var.tolist() == [3, 3, 3]


def test_loss_weight_moves_with_the_module():
    loss = nn.CrossEntropyLoss(weight=ag.ones(3)).double()
    assert loss.weight.dtype == ag.float64
    assert not list(loss.parameters())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    "norm",
    [nn.LayerNorm(6), nn.RMSNorm(6), nn.GroupNorm(2, 6), nn.BatchNorm1d(6), nn.BatchNorm1d(6).eval(),
     nn.InstanceNorm1d(6, affine=True, track_running_stats=True),
     nn.InstanceNorm1d(6, affine=True, track_running_stats=True).eval()],
    ids=lambda norm: f"{type(norm).__name__}-{norm.training}",
)  # fmt: skip
def test_norms_in_float32_keep_a_half_input_half(norm, dtype, device):
    """As PyTorch's do; the parameters' gradients are float32."""
    norm = copy.deepcopy(norm).to(device)
    x = ag.randn(4, 6, 6, device=device).to(dtype).requires_grad_()
    y = norm(x)
    assert y.dtype == x.dtype
    np.testing.assert_allclose(y.numpy(force=True).astype(float), norm(x.float()).numpy(force=True), atol=0.05)
    y.float().square().sum().backward()
    assert x.grad.dtype == x.dtype
    assert norm.weight.grad.dtype == ag.float32


# ---- against PyTorch -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


@pytest.mark.parametrize("padding_idx", [None, 1])
def test_gradients_of_an_embedding_by_frequency_equal_pytorch(torch, padding_idx, device):
    places, g = np.array([[1, 2, 1], [2, 2, 0]]), np.random.default_rng(0).normal(size=(2, 3, 4))
    theirs = torch.nn.Embedding(5, 4, padding_idx, scale_grad_by_freq=True, dtype=torch.float64)
    ours = nn.Embedding(5, 4, padding_idx, scale_grad_by_freq=True, dtype=ag.float64, device=device)
    ours.load_state_dict(theirs.state_dict())
    assert repr(ours) == repr(theirs)
    out = ours(ag.tensor(places, device=device))
    out.backward(ag.tensor(g, device=device))
    theirs(torch.tensor(places)).backward(torch.tensor(g))
    assert out.tolist() == theirs(torch.tensor(places)).tolist()
    np.testing.assert_allclose(ours.weight.grad.numpy(force=True), theirs.weight.grad.numpy(), rtol=1e-12)
    bags = nn.EmbeddingBag(
        5, 4, scale_grad_by_freq=True, mode="sum", padding_idx=padding_idx, _weight=ours.weight.detach(), device=device
    )
    bags(ag.tensor(places, device=device)).backward(ag.tensor(g.sum(1), device=device))
    grad_rows = ag.tensor(g.sum(1, keepdims=True), device=device).expand(2, 3, 4)
    (expected,) = ag.autograd.grad(ours(ag.tensor(places, device=device)), ours.weight, grad_rows)
    np.testing.assert_allclose(bags.weight.grad.numpy(force=True), expected.numpy(force=True), rtol=1e-12)


@pytest.mark.parametrize("requires_grad", [False, True])
def test_the_tangent_of_an_embedding_by_frequency_is_not_divided(requires_grad):
    forward_ad, weight = ag.autograd.forward_ad, ag.zeros(3, 2, requires_grad=requires_grad)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(weight, ag.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
        out = nn.functional.embedding(ag.tensor([1, 1]), dual, scale_grad_by_freq=True)
        assert forward_ad.unpack_dual(out).tangent.tolist() == [[3, 4], [3, 4]]


@pytest.mark.cpu
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_one_long_bag_does_not_make_the_others_long(mode):
    bags = nn.EmbeddingBag(5, 2, mode=mode)
    indices, offsets = ag.arange(20_000) % 5, ag.arange(1000)
    tracemalloc.start()
    bags(indices, offsets).sum().backward()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50 * indices.nbytes


def test_embeddings_refuse_what_they_cannot_do():
    for table in (nn.Embedding, nn.EmbeddingBag):
        with pytest.raises(NotImplementedError, match="gradients are dense; leave out sparse=True"):
            table(3, 2, sparse=True)
    with pytest.raises(ValueError, match="max mode does not support scaling the gradient by the frequency"):
        nn.EmbeddingBag(3, 2, scale_grad_by_freq=True, mode="max")(ag.tensor([[0]]))


def test_state_dict_messages_equal_pytorch(torch):
    def build(m):
        return m.Sequential(m.Linear(2, 3), m.ReLU(), m.Linear(3, 1))

    def message(net, zeros):
        state = net.state_dict()
        del state["0.weight"]
        state["x"], state["2.bias"] = zeros(1), zeros(4)
        with pytest.raises(RuntimeError) as raised:
            net.load_state_dict(state)
        return str(raised.value)

    theirs = message(build(torch.nn), torch.zeros).replace("torch.Size([4])", "(4,)").replace("torch.Size([1])", "(1,)")
    assert message(build(nn), ag.zeros) == theirs


def test_repr_equals_pytorch(torch):
    def build(m):
        return m.Sequential(
            m.Linear(2, 3), m.Sequential(m.GELU(), m.LayerNorm(3), m.Softplus()), m.ModuleList([m.SiLU()])
        )

    assert repr(build(nn)) == repr(build(torch.nn))


def test_gains_equal_pytorch(torch):
    for name in ("linear", "sigmoid", "tanh", "relu", "selu", "leaky_relu"):
        assert nn.init.calculate_gain(name) == pytest.approx(torch.nn.init.calculate_gain(name))
