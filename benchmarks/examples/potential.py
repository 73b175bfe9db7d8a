"""A network learns the energies and forces of copper, and gives its phonons by a Hessian.

1. ASE rattles and strains a periodic cell of 32 copper atoms. Its effective medium theory (EMT) labels each cell with
   an energy and with a force on each atom.
2. An atom's neighbours become features: Gaussians of their distances, smoothly cut off and summed. A network makes an
   energy of them, and the energies of all atoms are summed.
3. Forces are minus the gradient by the positions, `grad(..., create_graph=True)`. The loss contains them, so its
   backward goes through that gradient to the weights.
4. At the minimum, the perfect crystal, `func.hessian` gives the force constants, and their eigenvalues the frequencies
   of the phonons. The program compares the Hessian with central differences of the network's own forces, and the
   frequencies with those of EMT, by central differences of its forces.

The program prints the errors on cells that were not learned from, and draws out/potential.png. Networks of this kind
are those of Behler and Parrinello (2007).
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import autograd_gpu as ag
from autograd_gpu import func, nn, optim

from ..plots import COLOURS, INK, new_figure, save
from ..report import OURS
from .command_line import one_thread, parse

try:
    from ase import Atoms
    from ase.build import bulk
    from ase.calculators.emt import EMT
    from ase.neighborlist import neighbor_list
except ImportError as error:
    sys.exit(f"this example needs {error.name}: pip install 'autograd-gpu[demo]'")
warnings.filterwarnings("ignore", "Setting the shape on a NumPy array", DeprecationWarning, "ase")  # on NumPy 2.5

LATTICE_CONSTANT = 3.59  # angstroms, at which EMT's energy is least
CUTOFF, MARGIN = 4.9, 0.5  # angstroms: of features, and by how much a pair may come closer than in the perfect crystal
FEATURES, WIDTH = 10, 32
TRAINING, TEST, BATCH = 160, 40, 8  # cells
RATTLE, STRAIN = (0.02, 0.12), 0.02  # angstroms; share of a cell's vectors
STEP = 1e-3  # angstroms, of central differences
TERAHERTZ = 15.633302  # sqrt(eV / (angstrom^2 u)) / (2 pi)


class Cells(NamedTuple):
    """Positions (cells, atoms, 3) and cell vectors (cells, 3, 3) in angstroms; energies in eV, forces in eV/A."""

    positions: np.ndarray
    vectors: np.ndarray
    energies: np.ndarray
    forces: np.ndarray


# ---- labels ---------------------------------------------------------------------------------


def crystal() -> Atoms:
    """The perfect crystal, 2 x 2 x 2 cubic cells."""
    return bulk("Cu", "fcc", a=LATTICE_CONSTANT, cubic=True) * (2, 2, 2)


def draw_cells(count: int, rng: np.random.Generator) -> Cells:
    """Rattled and strained cells, labelled by EMT."""
    rows = []
    for _ in range(count):
        atoms = crystal()
        atoms.set_cell(atoms.cell[:] @ (np.eye(3) + STRAIN * rng.uniform(-1, 1, (3, 3))), scale_atoms=True)
        atoms.positions += rng.uniform(*RATTLE) * rng.normal(size=(len(atoms), 3))
        rows.append((atoms.positions, atoms.cell[:], *label(atoms)))
    return Cells(*map(np.array, zip(*rows, strict=True)))


def label(atoms: Atoms) -> tuple[float, np.ndarray]:
    """EMT's energy and forces."""
    atoms.calc = EMT()
    return atoms.get_potential_energy(), atoms.get_forces()


# ---- the network ----------------------------------------------------------------------------


class Potential(nn.Module):
    """The energy of cells of copper, from distances alone."""

    def __init__(self) -> None:
        super().__init__()
        atoms = crystal()
        i, j, images = neighbor_list("ijS", atoms, CUTOFF + MARGIN)
        self.register_buffer("neighbours", ag.tensor(j[np.argsort(i, kind="stable")]).reshape(len(atoms), -1))
        images = images[np.argsort(i, kind="stable")].reshape(len(atoms), -1, 3)
        self.register_buffer("images", ag.tensor(images, dtype=ag.float32))
        self.register_buffer("centers", ag.linspace(2.0, CUTOFF, FEATURES))
        self.register_buffer("mean", ag.zeros(FEATURES))
        self.register_buffer("scale", ag.ones(FEATURES))
        self.energy_of_atom = nn.Sequential(
            nn.Linear(FEATURES, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH), nn.SiLU(), nn.Linear(WIDTH, 1)
        )

    def features(self, positions: ag.Tensor, vectors: ag.Tensor) -> ag.Tensor:
        """(..., atoms, FEATURES), of positions (..., atoms, 3) and cell vectors (..., 3, 3)."""
        shifts = self.images @ vectors.unsqueeze(-3)
        delta = positions[..., self.neighbours, :] + shifts - positions.unsqueeze(-2)
        r = delta.square().sum(-1).sqrt()
        cut = ag.where(r < CUTOFF, 0.5 * (ag.cos(math.pi / CUTOFF * r) + 1), 0.0)
        width = (CUTOFF - 2.0) / FEATURES
        gaussians = ag.exp(-((r.unsqueeze(-1) - self.centers) ** 2) / (2 * width**2))
        return (gaussians * cut.unsqueeze(-1)).sum(-2)

    def normalise(self, positions: ag.Tensor, vectors: ag.Tensor) -> None:
        """Features of atoms of these cells become numbers of mean 0 and variance 1."""
        with ag.no_grad():
            features = self.features(positions, vectors).reshape(-1, FEATURES)
            self.mean.copy_(features.mean(0))
            self.scale.copy_(features.std(0))

    def forward(self, positions: ag.Tensor, vectors: ag.Tensor) -> ag.Tensor:
        """The energy of one cell or of many."""
        return self.energy_of_atom((self.features(positions, vectors) - self.mean) / self.scale).sum((-1, -2))

    def energies_and_forces(self, positions: ag.Tensor, vectors: ag.Tensor) -> tuple[ag.Tensor, ag.Tensor]:
        """Energies, and forces that can be differentiated again."""
        positions = positions.detach().requires_grad_()
        energies = self(positions, vectors)
        (gradient,) = ag.autograd.grad(energies.sum(), positions, create_graph=True)
        return energies, -gradient


def train(cells: Cells, steps: int, device: str, batch: int = BATCH) -> tuple[Potential, list[float]]:
    """Adam on the errors of energies per atom and of forces; the network begins with the cells' mean energy.

    Returns the network, and the root mean square error of forces in each step.
    """
    model = Potential().to(device)
    atoms, mean, losses = cells.positions.shape[1], float(cells.energies.mean()), []
    data = on_device(cells, device)
    model.normalise(*data[:2])
    with ag.no_grad():
        model.energy_of_atom[-1].bias.fill_(mean / atoms)
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for step in range(1, steps + 1):
        chosen = ag.randperm(len(cells.energies), device=device)[:batch]
        positions, vectors, energies, forces = [part[chosen] for part in data]
        predicted, force = model.energies_and_forces(positions, vectors)
        force_loss = (force - forces).square().mean()
        loss = force_loss + 100 * ((predicted - energies) / atoms).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(math.sqrt(force_loss.item()))
        if step % 50 == 0 or step == steps:
            print(f"step {step}: force error {1000 * losses[-1]:.0f} meV/A")
    return model, losses


def on_device(cells: Cells, device: str) -> list[ag.Tensor]:
    """The cells as float32 tensors."""
    return [ag.tensor(part, dtype=ag.float32, device=device) for part in cells]


# ---- phonons --------------------------------------------------------------------------------


def force_constants(model: Potential) -> np.ndarray:
    """The Hessian of the perfect crystal's energy by all coordinates, in float64."""
    positions, vectors = perfect(model)
    size = positions.numel()
    hessian = func.hessian(lambda positions: model(positions, vectors))(positions)
    result: np.ndarray = hessian.detach().reshape(size, size).cpu().numpy()
    return result


def perfect(model: Potential) -> tuple[ag.Tensor, ag.Tensor]:
    """Positions and cell vectors of the perfect crystal, as the network's weights are."""
    atoms = crystal()
    return tuple(ag.tensor(part, dtype=model.scale.dtype, device=model.scale.device)
                 for part in (atoms.positions, atoms.cell[:]))  # fmt: skip


def by_differences(forces: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """The same by central differences of forces: `forces` takes many sets of positions."""
    positions = crystal().positions
    moves = STEP * np.eye(positions.size).reshape(-1, *positions.shape)
    return (forces(positions - moves) - forces(positions + moves)).reshape(positions.size, -1) / (2 * STEP)


def network_forces(model: Potential) -> Callable[[np.ndarray], np.ndarray]:
    """The network's forces at many positions of the perfect crystal's cell."""
    _, vectors = perfect(model)

    def forces(positions: np.ndarray) -> np.ndarray:
        at = ag.tensor(positions, dtype=vectors.dtype, device=vectors.device)
        parts = [model.energies_and_forces(part, vectors)[1].detach().cpu().numpy() for part in at.split(16)]
        return np.concatenate(parts)

    return forces


def emt_forces(positions: np.ndarray) -> np.ndarray:
    """EMT's forces at many positions of the perfect crystal's cell."""
    atoms = crystal()
    atoms.calc, forces = EMT(), []
    for row in positions:
        atoms.positions = row
        forces.append(atoms.get_forces())
    return np.array(forces)


def frequencies(constants: np.ndarray) -> np.ndarray:
    """Of all modes in THz, from the lowest; a negative one stands for the root of a negative eigenvalue."""
    squares = np.linalg.eigvalsh((constants + constants.T) / 2) / crystal().get_masses()[0]
    return np.asarray(TERAHERTZ * np.sign(squares) * np.sqrt(np.abs(squares)))


# ---- comparing ------------------------------------------------------------------------------


class Results(NamedTuple):
    """What the program prints and draws."""

    energies: np.ndarray  # of the test cells by the network, eV
    forces: np.ndarray
    hessian_error: float  # beside central differences of the network's own forces, of the largest entry
    frequencies: np.ndarray  # THz
    emt_frequencies: np.ndarray
    largest_force: float  # of the network on the perfect crystal, eV/A


def compare(model: Potential, test: Cells, device: str) -> Results:
    """The network on cells that it has not seen, and its phonons."""
    positions, vectors, *_ = on_device(test, device)
    energies, forces = model.energies_and_forces(positions, vectors)
    model = model.double()
    constants, own = force_constants(model), by_differences(network_forces(model))
    error = float(np.abs(constants - own).max() / np.abs(constants).max())
    at_rest = float(np.abs(network_forces(model)(crystal().positions[None])).max())
    emt = frequencies(by_differences(emt_forces))
    return Results(energies.detach().cpu().numpy(), forces.detach().cpu().numpy(), error, frequencies(constants), emt,
                   at_rest)  # fmt: skip


def report(results: Results, test: Cells) -> dict[str, float]:
    """The errors, printed."""
    atoms = test.positions.shape[1]
    errors = {
        "energy, meV per atom": 1000 * rms(results.energies - test.energies) / atoms,
        "force, meV/A": 1000 * rms(results.forces - test.forces),
        "Hessian": results.hessian_error,
        "frequency, THz": rms(results.frequencies - results.emt_frequencies),
    }
    print(f"Errors on test cells: {errors['energy, meV per atom']:.2f} meV per atom in energies with a spread of "
          f"{1000 * test.energies.std() / atoms:.1f}, {errors['force, meV/A']:.0f} meV/A in forces with a spread of "
          f"{1000 * test.forces.std():.0f}")
    print(f"Perfect crystal: the largest force is {results.largest_force:.0e} eV/A, and the Hessian differs from "
          f"central differences of the forces by {errors['Hessian']:.0e}")
    print(f"Phonons: {len(results.frequencies)} modes up to {results.frequencies[-1]:.2f} THz; they differ from EMT's "
          f"by {errors['frequency, THz']:.2f} THz (RMS)")  # fmt: skip
    return errors


def rms(values: np.ndarray) -> float:
    return math.sqrt(float(np.mean(values**2)))


def draw(results: Results, test: Cells, losses: list[float], path: Path) -> None:
    """Parity of energies and forces, the phonons of both, and the loss."""
    figure, (energy, force, phonons, curve) = new_figure(4, width=3.4, height=3.3)
    atoms = test.positions.shape[1]
    parity(energy, 1000 * (test.energies - test.energies.mean()) / atoms,
           1000 * (results.energies - test.energies.mean()) / atoms, "energy, meV per atom", 14)
    parity(force, test.forces.ravel(), results.forces.ravel(), "force, eV/Å", 4)
    phonons.plot(results.emt_frequencies, color=COLOURS["jax"], lw=4, alpha=0.5, label="EMT, differences")
    phonons.plot(results.frequencies, color=COLOURS[OURS], lw=1.5, ls="--", label="network, Hessian")
    phonons.set(title="phonons, THz", xlabel="mode")
    phonons.legend(frameon=False, fontsize=9)
    curve.semilogy(losses, color=INK, lw=0.8)
    curve.set(title="force error of a batch, eV/Å", xlabel="step")
    save(figure, path)  # fmt: skip


def parity(ax: Any, expected: np.ndarray, predicted: np.ndarray, title: str, size: float) -> None:
    """The network's figures over EMT's."""
    ends = [min(expected.min(), predicted.min()), max(expected.max(), predicted.max())]
    ax.plot(ends, ends, color=COLOURS["jax"], lw=1)
    ax.scatter(expected, predicted, s=size, color=COLOURS[OURS], alpha=0.6, linewidths=0)
    ax.set(title=title, xlabel="EMT", ylabel="network")


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Labels, trains, compares, draws; returns the errors."""
    args = parse(__doc__, 600, argv)
    ag.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    training, test = draw_cells(TRAINING, rng), draw_cells(TEST, rng)
    with one_thread():
        model, losses = train(training, args.steps, args.device)
        results = compare(model, test, args.device)
    errors = report(results, test)
    draw(results, test, losses, args.out / "potential.png")
    print(f"Picture: {args.out / 'potential.png'}")
    return errors


if __name__ == "__main__":
    main()
