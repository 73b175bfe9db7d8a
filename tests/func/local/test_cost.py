"""What "auto" takes, and that the log says why."""

import logging

import pytest

import autograd_gpu as ag
from autograd_gpu import func, nn
from autograd_gpu.func.local import cost, plan, run

pytestmark = pytest.mark.cpu


def network(inputs, width, outputs):
    return nn.Sequential(nn.Linear(inputs, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(),
                         nn.Linear(width, width), nn.Tanh(), nn.Linear(width, outputs))


@pytest.mark.parametrize(("inputs", "width", "outputs", "rows", "method"), [
    (2, 8, 1, 4, "push"),  # pull has fewer products, but more calls
    (2, 32, 1, 1000, "push"),
    (2, 64, 1, 1000, "pull"),
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


def test_what_is_known_is_that_of_the_same_structure(monkeypatch):
    """The work of a plan is the same whether it is computed or known; another width is another structure."""
    monkeypatch.setattr(plan, "_KNOWN", {})
    works = []
    is_less = cost.pull_is_less
    monkeypatch.setattr(run, "pull_is_less", lambda *args: works.append((*cost.of_both(*args[:3]), is_less(*args))) or
                        works[-1][-1])
    for _ in range(2):
        for width in (8, 16):
            func.vmap(func.hessian(network(2, width, 1)))(ag.randn(4, 2))
        func.vmap(func.value_and_derivatives(network(2, 8, 1)))(ag.randn(4, 2))
    assert len(plan._KNOWN) == 3
    assert works[:3] == works[3:]
    assert len({str(work) for work in works}) == 3
