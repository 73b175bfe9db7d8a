"""Runs a program that was written for PyTorch unchanged, except that its imports name this library.

    python -m benchmarks.program_runner siren             # our library
    python -m benchmarks.program_runner siren torch       # PyTorch

`import torch` becomes `import autograd_gpu as torch`, and `from torch.x import y` becomes `from autograd_gpu.x import
y`, in the program's syntax tree. Nothing else is touched.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent / "torch_programs"
OURS, THEIRS = "autograd_gpu", "torch"
State = dict[str, np.ndarray]


@dataclass(frozen=True)
class Program:
    """A file of torch_programs: what it is, and how closely two libraries have to agree over its steps.

    The numbers are float32, in a few programs float64, whose rounding is what `rtol` leaves room for.
    """

    title: str
    steps: int = 12  # compared in the tests
    rtol: float = 2e-5
    why: str = ""  # where rtol is loose


PROGRAMS = {
    "siren": Program("SIREN, image and gradient"),
    "pinn_burgers": Program("PINN, Burgers"),
    "pinn_schroedinger": Program("PINN, Schroedinger, L-BFGS", 4, 1e-9),
    "realnvp": Program("RealNVP"),
    "made": Program("MADE"),
    "neural_ode": Program("Neural ODE, RK4"),
    "maml": Program("MAML, vmap of grad"),
    "reinforce": Program("REINFORCE, cart-pole", 8),
    "ppo": Program("PPO, pendulums", 6),
    "word2vec": Program("word2vec"),
    "vae": Program("VAE"),
    "gan": Program("GAN with R1 penalty"),
    "bayes_by_backprop": Program("Bayes by backprop"),
    "hypergradient": Program("Hypergradients, 10 inner steps", 6),
    "sam": Program("Sharpness-aware steps"),
    "hessian_lanczos": Program("Hessian eigenvalues, Lanczos", 5, 1e-9),
    "lstm_sine": Program("LSTM on sines"),
    "gp_regression": Program("Gaussian process", 12, 1e-9),
    "hamiltonian": Program("Hamiltonian network"),
    "transformer_reverse": Program("Transformer encoder"),
    "deep_set": Program("Deep set with attention"),
    "svgd": Program("Stein variational gradient"),
    "lbfgs_spectra": Program("Curve fits, L-BFGS", 4, 1e-8, "a line search doubles differences"),
    "potential": Program("Potential, energies and forces"),
}


class _Imports(ast.NodeTransformer):
    """Makes imports of torch those of our library, under the names that the program uses."""

    def visit_Import(self, node: ast.Import) -> list[ast.stmt]:
        statements: list[ast.stmt] = []
        for alias in node.names:
            package, _, rest = alias.name.partition(".")
            if package == THEIRS and rest and alias.asname is None:  # `import torch.nn` binds `torch`
                statements.append(ast.Import([ast.alias(f"{OURS}.{rest}", "_")]))
                rest = ""
            if package == THEIRS:
                name = f"{OURS}.{rest}" if rest else OURS
                alias = ast.alias(name, alias.asname or THEIRS)
            statements.append(ast.Import([alias]))
        return [ast.copy_location(statement, node) for statement in statements]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom:
        package, dot, rest = (node.module or "").partition(".")
        if package == THEIRS and node.level == 0:
            node.module = OURS + dot + rest
        return node


def with_our_imports(tree: ast.Module) -> ast.Module:
    """The syntax tree of a program with imports of our library in place of torch."""
    return ast.fix_missing_locations(_Imports().visit(tree))


def load(name: str, library: str = OURS) -> ModuleType:
    """The program as a module of its own, with the imports of `library`."""
    path = FOLDER / f"{name}.py"
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    if library == OURS:
        tree = with_our_imports(tree)
    module = ModuleType(f"{__package__}.torch_programs.{name}:{library}")
    module.__file__ = str(path)
    exec(compile(tree, str(path), "exec"), module.__dict__)
    return module


def initial_state(name: str, seed: int = 0) -> State | None:
    """The weights that our library draws for a program; None for one without a network."""
    program = load(name)
    if not hasattr(program, "build"):
        return None
    program.torch.manual_seed(seed)
    return {key: np.array(value.cpu().numpy()) for key, value in program.build().state_dict().items()}


def start(name: str, library: str, steps: int, state: State | None, device: str = "cpu") -> Iterator[tuple[float, ...]]:
    """A run of the program, which makes a step each time that it is asked for the next numbers."""
    for numbers in load(name, library).main(steps, state=state, device=device):
        yield numbers if isinstance(numbers, tuple) else (numbers,)


def run(name: str, library: str, steps: int, state: State | None, device: str = "cpu") -> np.ndarray:
    """The numbers of a whole run, a row per step."""
    return np.array(list(start(name, library, steps, state, device)), dtype=float)


def main(argv: list[str]) -> None:
    """Run a program from the command line."""
    name, library = [*argv, OURS][:2]
    module: Any = load(name, library)
    for step, numbers in enumerate(module.main()):
        print(step, numbers)


if __name__ == "__main__":
    main(sys.argv[1:])
