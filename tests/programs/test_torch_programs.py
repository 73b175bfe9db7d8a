"""Programs written for PyTorch run unchanged but for their imports, and give PyTorch's numbers step by step.

benchmarks/torch_programs holds them. Alone they show that they learn; on CUDA they give the CPU's numbers.
"""

import ast
import functools

import numpy as np
import pytest
from one_thread import one_thread

import autograd_gpu as ag
from benchmarks import program_runner
from benchmarks.program_runner import FOLDER, OURS, PROGRAMS, THEIRS


def falls(to, column=0):
    """The mean of the last third of the steps is below `to` times that of the first two."""
    return lambda rows: rows[-len(rows) // 3 :, column].mean() < to * rows[:2, column].mean()


def rises(by, column=0):
    """The mean of the last third of the steps is above that of the first two by at least `by`."""
    return lambda rows: rows[-len(rows) // 3 :, column].mean() > rows[:2, column].mean() + by


LEARNS = {
    "siren": falls(0.3), "pinn_burgers": falls(0.7), "pinn_schroedinger": falls(0.6), "realnvp": falls(0.9),
    "made": falls(0.995), "neural_ode": lambda rows: (rows < 0.3).all(), "maml": lambda rows: rows[-1, 0] < rows[-1, 1],
    "reinforce": rises(5, 1), "ppo": rises(0.001, 3), "word2vec": falls(0.9), "vae": falls(0.8),
    "gan": falls(0.99), "bayes_by_backprop": falls(0.5), "hypergradient": rises(0.3, 1), "sam": rises(0.1, 1),
    "hessian_lanczos": lambda rows: (rows[:, 1] > 0).all() and (rows[:, 2] < 0).all(), "lstm_sine": falls(0.5),
    "gp_regression": lambda rows: rows[-2, 0] < rows[0, 0] and rows[-1, 0] < 0.5, "hamiltonian": falls(0.98),
    "transformer_reverse": falls(0.99), "deep_set": falls(0.3), "svgd": rises(1),
    "lbfgs_spectra": lambda rows: (rows[:, 0] < 1e-3).all(), "potential": falls(0.5),
}  # fmt: skip


@functools.cache
def numbers(name, library, steps, device="cpu"):
    """The rows of a run from the weights that our library draws."""
    return program_runner.run(name, library, steps, program_runner.initial_state(name), device)


@pytest.fixture(scope="module", autouse=True)
def _on_one_thread():
    with one_thread():
        yield


@pytest.fixture
def as_a_stranger():
    """The default device is the CPU: a program says itself where its tensors live."""
    former = ag.get_default_device()
    ag.set_default_device("cpu")
    yield
    ag.set_default_device(former)


@pytest.mark.cpu
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_numbers_are_those_of_pytorch(name):
    pytest.importorskip("torch")
    program = PROGRAMS[name]
    ours, theirs = (numbers(name, library, program.steps) for library in (OURS, THEIRS))
    np.testing.assert_allclose(ours, theirs, rtol=program.rtol, atol=program.rtol * 1e-2, err_msg=program.why)


@pytest.mark.cpu
@pytest.mark.parametrize("name", PROGRAMS)
def test_it_learns(name):
    assert LEARNS[name](numbers(name, OURS, PROGRAMS[name].steps))


@pytest.mark.cuda
@pytest.mark.parametrize("name", PROGRAMS)
def test_cuda_gives_the_numbers_of_the_cpu(name, device, as_a_stranger):
    here, there = (numbers(name, OURS, 2, where) for where in (device, "cpu"))
    np.testing.assert_allclose(here, there, rtol=1e-4, atol=1e-6)


# ---- what changes the imports ----------------------------------------------------------------


@pytest.mark.cpu
def test_every_program_is_listed():
    assert sorted(path.stem for path in FOLDER.glob("*.py")) == sorted(["__init__", *PROGRAMS])
    assert LEARNS.keys() == PROGRAMS.keys()


@pytest.mark.cpu
def test_only_imports_of_torch_change():
    source = (
        "import torch\nimport torch.nn as nn, numpy\n"
        "from torch.utils.data import Dataset\nimport torchvision\nx = 1"
    )
    expected = (
        "import autograd_gpu as torch\nimport autograd_gpu.nn as nn\nimport numpy\n"
        "from autograd_gpu.utils.data import Dataset\nimport torchvision\nx = 1"
    )
    assert ast.unparse(program_runner.with_our_imports(ast.parse(source))) == expected


@pytest.mark.cpu
def test_an_import_of_a_submodule_binds_the_package():
    names = {}
    exec(compile(program_runner.with_our_imports(ast.parse("import torch.optim.lr_scheduler")), "", "exec"), names)
    assert names["torch"] is ag
