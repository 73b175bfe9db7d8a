"""Programs written for PyTorch whose modules and functions are compiled give the numbers of eager code.

Each is compiled with native code, which is there from the first replay on, and without. What `ag.compile` refuses runs
as it is. Derivatives of gradients outside of a compiled call add up in another order (docs/compile.md).
"""

import functools
import inspect

import numpy as np
import pytest
from one_thread import one_thread

import autograd_gpu as ag
from autograd_gpu import nn
from autograd_gpu.backend.formulas.native import switch
from benchmarks import program_runner
from benchmarks.program_runner import PROGRAMS

pytestmark = [pytest.mark.cpu, pytest.mark.more, pytest.mark.filterwarnings("ignore:.* runs eagerly, not compiled")]
STEPS = 20  # or fewer of a program that takes long
# All their calls are refused, differ from call to call, or lie inside of transforms.
AS_THEY_ARE = ("bayes_by_backprop", "gp_regression", "hamiltonian", "hypergradient", "lbfgs_spectra", "realnvp",
               "reinforce", "sam", "siren", "svgd")  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _on_one_thread():
    with one_thread():
        yield


@pytest.fixture
def at_once(monkeypatch):
    """Native code is compiled at the first call."""
    monkeypatch.setattr(switch, "LOADS", 1)
    monkeypatch.setattr(switch, "COMPILES", 1)


def compiled(program):
    """Compiles what a program defines: functions, and the modules that its build() makes; returns what counts calls."""
    functions = [(name, value) for name, value in vars(program).items() if inspect.isfunction(value)
                 and value.__globals__ is vars(program) and not inspect.isgeneratorfunction(value) and name != "build"]
    made = {name: ag.compile(function) for name, function in functions}
    vars(program).update(made)
    counting = [*made.values()]

    def built(build, *args, **kwargs):
        model = build(*args, **kwargs)
        for module in model.children() if isinstance(model, (nn.ModuleDict, nn.ModuleList)) else [model]:
            module.compile()
            counting.append(module.forward)
        return model

    if hasattr(program, "build"):
        program.build = functools.partial(built, program.build)
    return counting


def numbers(name, compiles):
    """The rows of a run, and how many calls were replays."""
    program = program_runner.load(name)
    state, counting = program_runner.initial_state(name), compiled(program) if compiles else []
    steps = STEPS if PROGRAMS[name].steps >= 12 else PROGRAMS[name].steps
    rows = [row if isinstance(row, tuple) else (row,) for row in program.main(steps, state=state)]
    return np.array(rows, float), sum(f.counts.compiled for f in counting)


@pytest.mark.parametrize("name", PROGRAMS)
def test_losses_are_those_of_eager_code(name, at_once):
    expected, _ = numbers(name, False)
    native, replays = numbers(name, True)
    with switch.numpy_code_alone():
        plain, _ = numbers(name, True)
    assert (replays > 0) == (name not in AS_THEY_ARE)
    np.testing.assert_array_equal(native, plain)
    np.testing.assert_allclose(native, expected, rtol=PROGRAMS[name].rtol, atol=PROGRAMS[name].rtol * 1e-2)
