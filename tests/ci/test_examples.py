"""The examples: their equations are right, and at small size they learn and draw what they promise."""

import numpy as np
import pytest

import autograd_gpu as ag

pytest.importorskip("matplotlib")
pytest.importorskip("threadpoolctl")
burgers = pytest.importorskip("benchmarks.examples.burgers")
learned_rate = pytest.importorskip("benchmarks.examples.learned_rate")

cpu = pytest.mark.cpu


def is_png(path):
    return path.read_bytes().startswith(b"\x89PNG")


# ---- Burgers' equation ----------------------------------------------------------------------


@cpu
def test_the_exact_solution_solves_the_equation():
    places = np.concatenate([np.linspace(-0.95, 0.95, 39), np.linspace(-0.01, 0.01, 21)])  # also in the shock
    t, x = np.meshgrid(np.linspace(0.1, 0.9, 9), places, indexing="ij")
    h = 1e-5
    u, exact = burgers.exact(t, x), burgers.exact
    u_t = (exact(t + h, x) - exact(t - h, x)) / (2 * h)
    u_x = (exact(t, x + h) - exact(t, x - h)) / (2 * h)
    u_xx = (exact(t, x + h) - 2 * u + exact(t, x - h)) / h**2
    largest = np.abs(u * u_x).max()  # in the shock, where it cancels with the viscosity
    assert largest > 10
    assert np.abs(u_t + u * u_x - burgers.NU * u_xx).max() < 1e-4 * largest


@cpu
@pytest.mark.parametrize("solution", ["exact", "of a network"])
def test_solutions_have_the_initial_and_boundary_values(solution):
    def u(t, x):
        if solution == "exact":
            return burgers.exact(t, x)
        t, x = (ag.tensor(np.broadcast_to(c, np.broadcast_shapes(t.shape, x.shape)).copy()) for c in (t, x))
        return burgers.solution(burgers.make_network().double(), t, x).detach().numpy()

    t, x = np.linspace(0, 1, 11), np.linspace(-1, 1, 21)
    np.testing.assert_allclose(u(np.zeros(1), x), -np.sin(np.pi * x), atol=1e-12)
    np.testing.assert_allclose(u(t, np.array([1.0])), 0, atol=1e-12)
    np.testing.assert_allclose(u(t, np.array([-1.0])), 0, atol=1e-12)


@cpu
def test_the_residual_and_its_gradient_are_those_of_nested_calls_of_grad():
    network = burgers.make_network(width=5, hidden=2).double()
    t, x = ag.rand(2, 7, dtype=ag.float64)
    parameters, results = list(network.parameters()), []
    for residual in (burgers.make_residual(network)(t, x), burgers.nested_residual(network, t, x)):
        gradients = ag.autograd.grad(residual.square().mean(), parameters)
        results.append([residual.detach(), *gradients])
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-9, atol=1e-12)


@cpu
def test_points_are_drawn_where_the_residual_is_large():
    ag.manual_seed(0)
    t, x = burgers.draw_points(lambda t, x: (x > 0.8).to(ag.float32), 500, "cpu")
    assert t.shape == x.shape == (500,)
    assert ((t >= 0) & (t <= 1) & (x.abs() <= 1)).all()
    assert 0.25 < (x > 0.8).to(ag.float32).mean().item() < 0.6  # a tenth of the interval


@pytest.mark.more
@cpu
def test_burgers_training_reduces_loss_and_error():
    ag.manual_seed(0)
    before = burgers.relative_error(burgers.make_network(), "cpu")
    ag.manual_seed(0)
    network, losses = burgers.train(150, "cpu", points=300)
    assert losses[-1] < 0.5 * losses[0]
    assert burgers.relative_error(network, "cpu") < before


@cpu
def test_burgers_prints_and_draws(tmp_path, capsys):
    burgers.main(["--steps", "10", "--out", str(tmp_path)])
    printed = capsys.readouterr().out
    assert is_png(tmp_path / "burgers.png")
    assert printed.count("relative L2 error") == burgers.ROUNDS
    assert "one pass" in printed
    assert "nested grad" in printed


# ---- learning rates -------------------------------------------------------------------------


@cpu
def test_the_inner_steps_are_those_of_sgd_on_each_task():
    tasks = learned_rate.draw_tasks(2, "cpu")
    rates = [0.05, 0.02, 0.1]
    ag.manual_seed(0)
    weights, tested = learned_rate.fit(ag.tensor(rates), tasks)
    ag.manual_seed(0)
    networks = [learned_rate.make_network() for _ in range(2)]
    result = 0.0
    for network, x, y, test_x, test_y in zip(networks, *tasks, strict=True):
        layers = [{"params": network[2 * i].parameters(), "lr": rate} for i, rate in enumerate(rates)]
        sgd = ag.optim.SGD(layers)
        for _ in range(learned_rate.INNER_STEPS):
            sgd.zero_grad()
            ag.nn.functional.huber_loss(network(x), y).backward()
            sgd.step()
        result += ag.nn.functional.huber_loss(network(test_x), test_y).item() / 2
    assert tested[-1].item() == pytest.approx(result, rel=1e-4)
    np.testing.assert_allclose(weights["4.weight"][1].detach(), networks[1][4].weight.detach(), rtol=1e-4, atol=1e-6)


@cpu
def test_the_gradient_for_the_rates_is_that_of_finite_differences(monkeypatch):
    make_network = learned_rate.make_network
    monkeypatch.setattr(learned_rate, "make_network", lambda: make_network().double())
    tasks = learned_rate.Tasks(*[points.double() for points in learned_rate.draw_tasks(2, "cpu")])

    def loss(rates):
        ag.manual_seed(0)
        return learned_rate.fit(rates, tasks)[1][-1]

    rates = ag.tensor([0.05, 0.02, 0.1], dtype=ag.float64, requires_grad=True)
    with learned_rate.allow_mutation_on_saved_tensors():
        loss(rates).backward()
    for i, h in enumerate(1e-5 * ag.eye(3, dtype=ag.float64)):
        slope = (loss(rates.detach() + h) - loss(rates.detach() - h)).item() / 2e-5
        assert rates.grad[i].item() == pytest.approx(slope, rel=1e-4)


@pytest.mark.more
@cpu
def test_learned_rates_beat_the_initial_one(tmp_path, capsys):
    tested = learned_rate.main(["--steps", "15", "--out", str(tmp_path)])
    assert tested["learned"] < tested["0.01 in all layers"]
    assert is_png(tmp_path / "learned_rate.png")
    assert "step 15" in capsys.readouterr().out


@cpu
@pytest.mark.parametrize("example", [burgers, learned_rate])
def test_what_cannot_be_done_is_refused_before_any_work(example, monkeypatch, capsys):
    with pytest.raises(SystemExit):
        example.main(["--steps", "0"])
    assert "steps are needed, got 0" in capsys.readouterr().err
    monkeypatch.setattr(ag.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match="no CUDA device answers"):
        example.main(["--device", "cuda"])


def test_they_run_on_the_device(device):
    network, losses = burgers.train(5, device, points=10)
    assert all(p.is_cuda == (device != "cpu") for p in network.parameters())
    assert np.isfinite(losses).all()
    rates = ag.full((3,), 0.1, device=device).requires_grad_()
    with learned_rate.allow_mutation_on_saved_tensors():
        learned_rate.fit(rates, learned_rate.draw_tasks(2, device))[1][-1].backward()
    assert rates.grad.isfinite().all()
    assert rates.grad.abs().sum() > 0
