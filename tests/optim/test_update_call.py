"""A step as data: what computes it from formula, arrays and numbers does what `step()` does."""

import numpy as np
import pytest
from optim_cases import ONE_EACH, gradients, make

import autograd_gpu as ag
from autograd_gpu.backend.formulas.numpy_code import computed
from autograd_gpu.optim.update_call import counted

pytestmark = pytest.mark.cpu


@pytest.mark.parametrize(("cls", "options"), ONE_EACH)
def test_a_step_by_its_formula(cls, options):
    (mine, first), (theirs, second) = make(cls, options), make(cls, options)
    for step in range(3):
        for a, b, g in zip(mine, theirs, gradients(step), strict=True):
            a.grad, b.grad = ag.tensor(g), ag.tensor(g)
        call = counted(first, 0)
        for i, numbers in enumerate(call.numbers):
            trace = call.variant.trace(numbers)
            arrays = [column[i] for column in call.columns]
            results = computed(np, trace.program, arrays, trace.values(**numbers))
            for place, result in zip(trace.places, results, strict=True):
                arrays[place][...] = result
        second.step()
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-12, atol=1e-14)
        assert first.state[a].get("step", 3) == 3


def test_a_step_that_is_taken_back():
    params, optimizer = make("Adam", {})
    assert counted(optimizer, 0) is None
    for param in params:
        param.grad = ag.ones(param.shape, dtype=param.dtype)
    counted(optimizer, 0).take_back([0])
    assert optimizer.state[params[0]]["step"] == 1
    assert all(not optimizer.state[param] for param in params[1:])
