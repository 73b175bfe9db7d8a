"""copy_ takes a number as it is, not through the default dtype."""

import pytest
from against_torch import both

NUMBERS = [0.1, 1.7, -1, True, 2**62 + 1, 1e-4]


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int64", "uint8", "bool"])
def test_as_in_pytorch(dtype, number):
    if number == 2**62 + 1 and dtype not in ("int64", "float64"):
        number = 300

    def program(m):
        x = m.zeros(2, dtype=getattr(m, dtype)).copy_(number)
        return repr(x.tolist())

    both(program)


def test_recorded():
    def program(m):
        w = m.ones(2, dtype=m.float64, requires_grad=True)
        x = w * 1
        x.copy_(0.1)
        return repr(x.tolist()), m.autograd.grad(x.sum(), w)

    both(program)
