"""The sign of NaN is 0, as in PyTorch, so that no step by the sign is NaN."""

import pytest
from against_torch import both

NAN = float("nan")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_sign(dtype):
    def program(m):
        x = m.tensor([NAN, 2.0, 0.0, -3.0, float("inf"), NAN], dtype=getattr(m, dtype))
        many = m.full((1000,), NAN, dtype=x.dtype)
        many[7] = -5
        row = m.stack([x, x]).t()
        return x.sign(), x.sgn(), x.clone().sign_(), m.sign(x[0]), m.sign(x[3]), many.sign(), row.sign(), m.sign(x[:0])

    both(program)


@pytest.mark.parametrize("name", ["l1_loss", "norm", "abs"])
def test_derivatives_by_the_sign(name):
    calls = {"l1_loss": lambda m, x: m.nn.functional.l1_loss(x, m.zeros(3)), "norm": lambda m, x: m.norm(x, 1),
             "abs": lambda m, x: x.abs().sum()}  # fmt: skip

    def program(m):
        x = m.tensor([NAN, 1.0, -2.0], requires_grad=True)
        return m.autograd.grad(calls[name](m, x), x)

    both(program)


@pytest.mark.parametrize("shape", [(), (2,), (2, 3)], ids=str)
def test_rprop_goes_on_after_a_gradient_of_nan(shape):
    def program(m):
        p = m.ones(shape, requires_grad=True)
        optimizer = m.optim.Rprop([p])
        for step in range(4):
            p.grad = m.ones(shape) * (step - 1.5)
            if step == 1:
                p.grad.reshape(-1)[0] = NAN
            optimizer.step()
        return p

    both(program)
