"""CUDA: what a program launches at once; results are those of eager code but for the order of sums."""

from itertools import pairwise

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import nn, optim

F = nn.functional


CLOSE = {ag.float64: 1e-12, ag.float32: 1e-5, ag.float16: 4e-3, ag.bfloat16: 4e-2}


def close(seen, expected, dtype=ag.float32):
    for made, wanted in zip(seen, expected, strict=True):
        for one, other in zip(made, wanted, strict=True):
            a, b = (t.detach().cpu().double().numpy() for t in (one, other))
            np.testing.assert_allclose(a, b, CLOSE[dtype], CLOSE[dtype])


def classifier(device, wrap, loss_of, sizes=(6, 12, 5), rows=8, count=7, dtype=ag.float32, result=lambda x: x):
    """Losses, gradients and parameters of steps of a classifier."""
    ag.manual_seed(0)
    layers = [layer for n, m in pairwise(sizes) for layer in (nn.Linear(n, m), nn.ReLU())]
    model = nn.Sequential(*layers[:-1]).to(device, dtype)
    update = optim.SGD(model.parameters(), lr=0.1)

    def step(x, y):
        update.zero_grad()
        logits = model(x)
        loss = loss_of(logits, y)
        loss.backward()
        update.step()
        return result(loss.detach()) if result.__code__.co_argcount == 1 else result(loss.detach(), logits)

    f, random, seen = wrap(step), np.random.default_rng(1), []
    for _ in range(count):
        x = ag.tensor(random.uniform(-1, 1, (rows, sizes[0])), device=device, dtype=dtype)
        y = ag.tensor(random.integers(0, sizes[-1], (rows,)), device=device)
        made = f(x, y)
        state = [*(made if isinstance(made, tuple) else (made,)), *model.parameters(),
                 *(p.grad for p in model.parameters())]  # fmt: skip
        seen.append([t.detach().clone() for t in state])
    with ag.profiler.count() as counted:
        f(x, y)
    return seen, counted.launches


LOSSES = {
    "mean": F.cross_entropy,
    "sum": lambda x, y: F.cross_entropy(x, y, reduction="sum"),
    "smoothed": lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1),
    "scaled": lambda x, y: F.cross_entropy(x, y) * 0.5,
    "ignored": lambda x, y: F.cross_entropy(x, y, ignore_index=1),
    "weighed": lambda x, y: F.cross_entropy(x, y, weight=ag.arange(1.0, 6.0, device=x.device).to(x.dtype)),
}  # fmt: skip


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_and_its_gradient_are_one_launch(name, mode, device):
    expected, _ = classifier(device, lambda f: f, LOSSES[name])
    seen, launches = classifier(device, lambda f: ag.compile(f, fullgraph=True, mode=mode), LOSSES[name])
    close(seen, expected)
    if device != "cpu" and mode == "default":
        assert launches["cross_entropy_step"] == 1
        assert not {"cross_entropy", "cross_entropy_backward", "column_sum"} & launches.keys()


@pytest.mark.parametrize("dtype", [ag.float16, ag.bfloat16, ag.float64], ids=str)
def test_other_dtypes(dtype, device):
    expected, _ = classifier(device, lambda f: f, F.cross_entropy, dtype=dtype)
    seen, launches = classifier(device, lambda f: ag.compile(f, fullgraph=True), F.cross_entropy, dtype=dtype)
    close(seen, expected, dtype)
    assert device == "cpu" or launches["cross_entropy_step"] == 1


def test_logits_that_are_shown(device):
    """Read before the loss, behind it, or returned: the program keeps them."""
    for result in (lambda loss, logits: (loss, logits), lambda loss, logits: (loss, logits.argmax(1), logits.exp())):
        expected, _ = classifier(device, lambda f: f, F.cross_entropy, result=result)
        seen, launches = classifier(device, lambda f: ag.compile(f, fullgraph=True), F.cross_entropy, result=result)
        close(seen, expected)
        assert device == "cpu" or launches["cross_entropy_step"] == 1

    def early(logits, y):
        return F.cross_entropy(logits, y) * (1 + logits.detach().max() * 0)

    expected, _ = classifier(device, lambda f: f, early)
    seen, _ = classifier(device, lambda f: ag.compile(f, fullgraph=True), early)
    close(seen, expected)


def test_what_is_not_joined(device):
    """Many logits, no gradient, a second derivative, a gradient that depends on the loss, one that is written to."""
    x, y = ag.tensor(np.random.default_rng(0).normal(size=(900, 12)).astype("f4"), device=device), None
    y = ag.tensor(np.arange(900) % 12, device=device)

    def gradient(x, y):
        z = (x * 2).detach().requires_grad_()
        loss = F.cross_entropy(z, y)
        (g,) = ag.autograd.grad(loss, z)
        return loss, g

    def second(x, y):
        z = (x[:40] * 2).detach().requires_grad_()
        (g,) = ag.autograd.grad(F.cross_entropy(z, y[:40]), z, create_graph=True)
        return ag.autograd.grad((g * g).sum(), z)[0]

    def squared(x, y):
        z = (x[:40] * 2).detach().requires_grad_()
        loss = F.cross_entropy(z, y[:40])
        return ag.autograd.grad(loss ** 2, z)[0]

    def written(x, y):
        z = (x[:40] * 2).detach().requires_grad_()
        g = ag.autograd.grad(F.cross_entropy(z, y[:40]), z)[0]
        return g.mul_(2.0), g + 1

    for f in (gradient, second, squared, written, lambda x, y: F.cross_entropy(x[:40], y[:40])):
        compiled = ag.compile(f, fullgraph=True)
        for _ in range(4):
            made, expected = compiled(x, y), f(x, y)
            several = isinstance(made, tuple)
            close([made if several else [made]], [expected if several else [expected]])
        with ag.profiler.count() as counted:
            compiled(x, y)
        assert "cross_entropy_step" not in counted.launches


def test_a_bias_that_is_written_to_before_the_loss(device):
    """The layer has the bias of before the write; behind the loss it has that of the next step."""

    def f(x, y, w, b):
        z = F.linear(x, w, b)
        with ag.no_grad():
            b.mul_(2.0)
        loss = F.cross_entropy(z, y)
        loss.backward()
        with ag.no_grad():
            b.add_(1.0)
        return loss.detach()

    def run(call):
        w, b, seen = *(ag.ones(*size, device=device).requires_grad_() for size in ((5, 6), (5,))), []
        for k in range(5):
            x = ag.tensor(np.random.default_rng(k).normal(size=(4, 6)).astype("f4"), device=device)
            w.grad = b.grad = None
            seen.append([call(x, ag.tensor([0, 3, 1, 4], device=device), w, b), w.grad, b.grad, b.detach().clone()])
        return seen

    close(run(ag.compile(f, fullgraph=True)), run(f))


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_a_layer_with_relu_is_one_launch(mode, device):
    """By cuBLASLt, whose product may add up in another order."""
    sizes = (6, 16, 24, 5)
    expected, _ = classifier(device, lambda f: f, F.cross_entropy, sizes)
    seen, launches = classifier(device, lambda f: ag.compile(f, fullgraph=True, mode=mode), F.cross_entropy, sizes)
    close(seen, expected)
    if device != "cpu" and mode == "default":
        assert launches["gemm_relu"] == 2
        assert "bias_relu" not in launches
