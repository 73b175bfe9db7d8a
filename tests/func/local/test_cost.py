"""What "auto" takes, and that the log says why."""

import logging

import pytest

import autograd_gpu as ag
from autograd_gpu import func, nn

pytestmark = pytest.mark.cpu


def network(inputs, width, outputs):
    return nn.Sequential(nn.Linear(inputs, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(),
                         nn.Linear(width, width), nn.Tanh(), nn.Linear(width, outputs))


@pytest.mark.parametrize(("inputs", "width", "outputs", "rows", "method"), [
    (2, 8, 1, 4, "push"),  # pull has fewer products, but more calls
    (2, 256, 1, 512, "pull"),
    (10, 64, 1, 64, "pull"),  # 55 second tangents
])
def test_the_cheaper_method(inputs, width, outputs, rows, method, caplog):
    layers = network(inputs, width, outputs)

    def net(x):
        return layers(x)

    with caplog.at_level(logging.DEBUG, "autograd_gpu.func"):
        func.vmap(func.hessian(net))(ag.randn(rows, inputs))
    (record,) = caplog.records
    assert record.levelno == logging.DEBUG
    text = record.getMessage()
    assert text.startswith(f"hessian(net) is computed by {method}: pull takes ")
    assert text.count("multiply-adds") == text.count("calls") == 2


@pytest.mark.parametrize(("face", "outputs"), [(func.hessian, 3), (func.laplacian, 1), (func.hessian_diagonal, 2)])
def test_without_a_choice_nothing_is_weighed(face, outputs, caplog):
    """As many outputs as second tangents: "push" has no more products."""
    with caplog.at_level(logging.DEBUG, "autograd_gpu.func"):
        func.vmap(face(network(2, 8, outputs)))(ag.randn(4, 2))
    assert not caplog.records
