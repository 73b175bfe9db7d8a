"""How many kernels a layer, a loss, a step take on CUDA: all that CuPy launches counted, not only ours."""

import pytest

import autograd_gpu as ag
from autograd_gpu import nn

pytestmark = [pytest.mark.emulated, pytest.mark.smoke]
F = nn.functional
ACTIVATIONS = [nn.ReLU(), nn.Tanh(), nn.GELU(), nn.SiLU(), nn.LeakyReLU(), nn.ELU(), nn.Softplus(), nn.Sigmoid()]
# What is called, and the kernel that does it.
OPS = {
    "softmax": (lambda x, labels: F.softmax(x, -1), "softmax"),
    "log_softmax": (lambda x, labels: F.log_softmax(x, -1), "softmax"),
    "cross_entropy": (lambda x, labels: F.cross_entropy(x, labels), "cross_entropy"),
    "layer_norm": (lambda x, labels: F.layer_norm(x, (64,)), "layer_norm"),
    "rms_norm": (lambda x, labels: F.rms_norm(x, (64,)), "layer_norm"),
    "dropout": (lambda x, labels: F.dropout(x, 0.5), "dropout"),
    "gelu": (lambda x, labels: F.gelu(x), "elementwise"),
}


def families(found):
    """Our kernels by template, CuPy's by name."""
    return {name.partition("<")[0]: times for name, times in found.kernels.items()}


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_layer_is_a_product_and_a_kernel(launches, activation):
    layer = nn.Sequential(nn.Linear(8, 16), activation)
    x, g = ag.randn(32, 8, requires_grad=True), ag.ones(32, 16)
    with launches() as forward:
        out = layer(x)
    assert (forward.products, families(forward), forward.transfers) == (1, {"bias_activation": 1}, 0)
    with launches() as backward:
        out.backward(g)
    assert (backward.products, families(backward)) == (2, {"bias_activation_backward": 1})
    assert backward.transfers == 0


@pytest.mark.parametrize("name", OPS)
def test_op_is_a_kernel(launches, name):
    call, kernel = OPS[name]
    x, labels = ag.randn(32, 64, requires_grad=True), ag.arange(32)
    with launches() as found:
        call(x, labels)
    assert (found.products, families(found), found.transfers) == (0, {kernel: 1}, 0)


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "AdamW"])
def test_optimizers_step_all_parameters_at_once(launches, optimizer):
    parameters = [ag.randn(5, 7, requires_grad=True) for _ in range(100)]
    for p in parameters:
        p.grad = ag.ones_like(p)
    step = getattr(ag.optim, optimizer)(parameters, lr=1e-3).step
    step()  # makes the state
    with launches() as found:
        step()
    assert found.total == 1
    assert found.transfers == 0
    with launches() as clipping:
        nn.utils.clip_grad_norm_(parameters, 1.0)
    assert clipping.total == 3


def test_training_step(launches):
    """784-256-256-10 in small: forward 3 + 4, backward 5 + 5, the step 1; the fill is the gradient of the loss."""
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))
    x, y, loss_of = ag.randn(32, 8), ag.arange(32) % 4, nn.CrossEntropyLoss()
    update = ag.optim.Adam(model.parameters())

    def step():
        update.zero_grad()
        loss_of(model(x), y).backward()
        update.step()

    step()
    with launches() as found:
        step()
    assert found.products == 8
    assert families(found) == {
        "bias_activation": 2, "add": 1, "cross_entropy": 1, "fill": 1, "cross_entropy_backward": 1, "column_sum": 1,
        "bias_activation_backward": 2, "foreach": 1,
    }  # fmt: skip
