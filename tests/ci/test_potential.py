"""The example that learns copper: its symmetries and its derivatives.

What it learns is checked where the documentation site runs it (test_site.py).
"""

import numpy as np
import pytest

import autograd_gpu as ag

for package in ("matplotlib", "threadpoolctl", "ase"):
    pytest.importorskip(package)
potential = pytest.importorskip("benchmarks.examples.potential")

cpu = pytest.mark.cpu


@pytest.fixture(scope="module")
def copper():
    """Two cells, and a network in float64 with numbers of a size that training gives."""
    cells = potential.draw_cells(2, np.random.default_rng(0))
    ag.manual_seed(0)
    model = potential.Potential().double()
    positions, vectors = (ag.tensor(part) for part in cells[:2])
    model.normalise(positions, vectors)
    return cells, model, positions, vectors


@cpu
def test_the_perfect_crystal_is_where_emt_is_least():
    energy, forces = potential.label(potential.crystal())
    assert np.abs(forces).max() < 1e-10
    for factor in (0.995, 1.005):
        atoms = potential.crystal()
        atoms.set_cell(factor * atoms.cell, scale_atoms=True)
        assert potential.label(atoms)[0] > energy


@cpu
def test_energies_do_not_depend_on_names_places_or_images(copper):
    _, model, positions, vectors = copper
    energies = model(positions, vectors)
    np.testing.assert_allclose(model(positions + 0.3, vectors).detach(), energies.detach(), rtol=1e-10)
    turn, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))
    turned = model(positions @ ag.tensor(turn), vectors @ ag.tensor(turn))
    np.testing.assert_allclose(turned.detach(), energies.detach(), rtol=1e-10)
    np.testing.assert_allclose(model(positions[1], vectors[1]).item(), energies[1].item(), rtol=1e-10)


@cpu
def test_features_see_each_neighbour_within_the_cutoff(copper):
    """Also those that a fixed list of pairs could miss: those of rattled, strained cells."""
    cells, model, positions, vectors = copper
    atoms = potential.crystal()
    atoms.set_cell(cells.vectors[0])
    atoms.positions = cells.positions[0]
    i, r = potential.neighbor_list("id", atoms, potential.CUTOFF)
    cut = 0.5 * (np.cos(np.pi * r / potential.CUTOFF) + 1)
    width = (potential.CUTOFF - 2) / potential.FEATURES
    centers = np.linspace(2, potential.CUTOFF, potential.FEATURES)
    gaussians = np.exp(-((r[:, None] - centers) ** 2) / (2 * width**2)) * cut[:, None]
    expected = np.zeros((len(atoms), potential.FEATURES))
    np.add.at(expected, i, gaussians)
    np.testing.assert_allclose(model.features(positions, vectors)[0], expected, rtol=1e-5)


@cpu
def test_forces_are_minus_the_slope_of_the_energy_and_are_differentiated_again(copper):
    cells, model, positions, vectors = copper
    _, forces = model.energies_and_forces(positions, vectors)
    step = np.zeros_like(cells.positions)
    step[0, 5, 1] = 1e-4
    above, below = (model(positions + sign * ag.tensor(step), vectors)[0].item() for sign in (1, -1))
    assert forces[0, 5, 1].item() == pytest.approx((below - above) / 2e-4, rel=1e-6)
    forces.square().sum().backward()
    assert all(p.grad.abs().sum() > 0 for p in list(model.parameters())[:-1])  # a bias adds no force


@cpu
def test_a_wrong_device_is_refused_before_any_work(monkeypatch):
    monkeypatch.setattr(ag.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match="no CUDA device answers"):
        potential.main(["--device", "cuda"])


def test_it_trains_on_the_device(device):
    trained, errors = potential.train(potential.draw_cells(2, np.random.default_rng(0)), 2, device, batch=1)
    assert all(p.is_cuda == (device != "cpu") for p in trained.parameters())
    assert np.isfinite(errors).all()
