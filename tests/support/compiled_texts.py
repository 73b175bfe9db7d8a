"""Programs that `ag.compile` makes of small functions, as text: what changes in it shows in the difference of a file.

    python tests/support/compiled_texts.py  # after a change of the passes or emitters: writes compiled_texts.txt

Native code is off, so that the text is the same with and without llvmlite.
"""

from pathlib import Path

import numpy as np

import autograd_gpu as ag
from autograd_gpu import nn, optim
from autograd_gpu.autograd import grad
from autograd_gpu.backend.formulas.native.switch import numpy_code_alone

TEXT = Path(__file__).with_suffix(".txt")
COMMAND = "python tests/support/compiled_texts.py"


def training_step():
    """A step of a small network with SGD and momentum."""
    model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 10))
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x, target):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (ag.ones(8, 12), ag.arange(8))


def residual_of_a_field():
    """The loss of a physics-informed network: the Laplacian of a field, and the gradients of its square."""
    field = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
    parameters = list(field.parameters())

    def residual(points):
        (first,) = grad(field(points).sum(), points, create_graph=True)
        second = sum(grad(first[:, i].sum(), points, create_graph=True)[0][:, i] for i in range(2))
        loss = (second**2).mean()
        return loss.detach(), *grad(loss, parameters, allow_unused=True)

    return residual, (ag.ones(32, 2, requires_grad=True),)


def held_in_float8():
    """A forward whose backward comes outside, with saved tensors in eight bits."""
    trunk = nn.Sequential(nn.Linear(32, 32), nn.GELU(), nn.LayerNorm(32))
    hook = ag.hooks.quantize("float8_e4m3fn", min_bytes=0)

    def held(x):
        with hook:
            return trunk(x)

    return held, (ag.ones(64, 32, requires_grad=True),)


def buffers():
    """Batch norm, which writes to its running statistics, and dropout, which draws."""
    layer = nn.Sequential(nn.BatchNorm1d(8), nn.Dropout(0.5))

    def normalized(x):
        return layer(x)

    return normalized, (ag.ones(16, 8),)


def groups():
    """Arithmetic on arrays that are large enough for a group of NumPy code."""
    def swirl(x):
        return (x * x + 1).sin() * x

    return swirl, (ag.ones(1 << 10, 1 << 10),)


def writes():
    """In-place writes to a view of a result, and to a tensor from outside."""
    total = ag.zeros(4)

    def written(x):
        y = x * 2
        y[0].mul_(3)
        total.add_(y.sum(0))
        return y

    return written, (ag.ones(3, 4),)


PROGRAMS = (training_step, residual_of_a_field, held_in_float8, buffers, groups, writes)


def text():
    """The programs of all functions, each below its title."""
    parts = []
    with numpy_code_alone():
        for make in PROGRAMS:
            ag.manual_seed(0)
            function, args = make()
            compiled = ag.compile(function, fullgraph=True)
            for i in range(4):
                compiled(*[x if x.dtype == np.int64 else (x * (i + 1)).detach().requires_grad_(x.requires_grad)
                           for x in args])  # fmt: skip
            parts.append(f"# {make.__doc__}\n\n{compiled.print_readable(print_output=False)}")
    return "\n\n".join(parts).replace(__file__, Path(__file__).name)


if __name__ == "__main__":
    TEXT.write_text(text())
