"""Operations on the CPU do not show NumPy's floating-point warnings; a user's own NumPy code does."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest

import autograd_gpu as ag

pytestmark = pytest.mark.cpu

PROGRAM = """
    import warnings
    import numpy as np
    import autograd_gpu as ag

    def step(x):
        y = x.log() + 1 / x + x / x + (x + 1000).exp() + (x + 3e38) * 10 + x ** -1 + ag.nn.functional.softmax(x / 0, 0)
        y.sum().backward()
        return y

    x = ag.zeros(2, requires_grad=True)
    step(x)
    step(x * 1)
    print(x.grad.isnan().all().item())
    (x.half() + 60000).mul(2).float()
    for mine in (lambda: np.log(np.zeros(1)), lambda: np.ones(1) / np.zeros(1)):
        try:
            mine()
        except RuntimeWarning as warning:
            print(warning)
"""


def test_a_program_under_which_warnings_are_errors():
    run = subprocess.run([sys.executable, "-W", "error::RuntimeWarning", "-c", textwrap.dedent(PROGRAM)],
                         capture_output=True, text=True, check=False)
    assert run.stderr == ""
    assert run.stdout.splitlines() == [
        "True", "divide by zero encountered in log", "divide by zero encountered in divide"]


def test_what_a_user_asks_for_holds():
    with np.errstate(all="raise"), pytest.raises(FloatingPointError, match="divide by zero encountered in log"):
        ag.zeros(2).log()
    with pytest.warns(RuntimeWarning, match="divide by zero"):  # pytest's filters come later
        ag.zeros(2).log()
