"""nn.functional.pad in every mode beside PyTorch: values, first and second gradients, errors."""

from __future__ import annotations

import numpy as np
import pytest

import autograd_gpu as ag

torch = pytest.importorskip("torch")

MODES = ("constant", "reflect", "replicate", "circular")
CASES = [
    ((2, 4), (1, 2)), ((2, 4), (0, 0)), ((2, 3, 4), (3, 0)), ((2, 3, 4), (1, 2, 2, 1)), ((1, 2, 3, 4), (2, 2, 0, 1)),
    ((2, 3, 4), (2, -1)), ((2, 3, 4), (-2, 1, 1, -1)), ((2, 4), (-1, -1)), ((1, 2, 3, 3, 4), (1, 1, 1, 0, 2, 1)),
    ((2, 3, 3, 4), (0, 1, 1, 1, 1, 2)), ((0, 2, 3), (1, 1)),
]  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("shape", "pad"), CASES, ids=str)
def test_values_and_derivatives(shape, pad, mode, device):
    rng = np.random.default_rng(0)
    values = rng.normal(size=shape)
    x, y = ag.tensor(values, device=device, requires_grad=True), torch.tensor(values, requires_grad=True)
    a, b = ag.nn.functional.pad(x, pad, mode), torch.nn.functional.pad(y, pad, mode)
    np.testing.assert_array_equal(a.numpy(force=True), b.numpy(force=True))
    w = rng.normal(size=a.shape)
    (plain,) = ag.autograd.grad(a * a, x, ag.tensor(w, device=device), retain_graph=True)
    (first,) = ag.autograd.grad(a * a, x, ag.tensor(w, device=device), create_graph=True)
    (expected,) = torch.autograd.grad(b * b, y, torch.tensor(w), create_graph=True)
    for g in (plain, first):
        np.testing.assert_allclose(g.numpy(force=True), expected.numpy(force=True), rtol=1e-12, atol=1e-12)
    (second,) = ag.autograd.grad(first, x, ag.tensor(values, device=device))
    (expected,) = torch.autograd.grad(expected, y, torch.tensor(values))
    np.testing.assert_allclose(second.numpy(force=True), expected.numpy(force=True), rtol=1e-12, atol=1e-12)


def test_values_of_constants(device):
    x = ag.tensor([[1, 2]], device=device)
    assert ag.nn.functional.pad(x, (1, 0), value=5).tolist() == [[5, 1, 2]]
    assert ag.pad(x, (0, 1, 1, 0), "constant", 7.0).tolist() == [[7, 7, 7], [1, 2, 7]]
    assert ag.pad(x > 1, (1, 0), value=1).tolist() == [[True, False, True]]
    assert ag.pad(x, (1, 1), "replicate").tolist() == [[1, 1, 2, 2]]


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda x: ag.pad(x, (1,)), RuntimeError, "divisible by 2"),
        (lambda x: ag.pad(x, (1, 1) * 3), RuntimeError, "padding length 6 and input of dimension 2"),
        (lambda x: ag.pad(x, (-2, -2)), RuntimeError, "negative output size.*dimension 1"),
        (lambda x: ag.pad(x, (1, 1), "mirror"), NotImplementedError, "padding mode 'mirror'; use 'constant'"),
        (lambda x: ag.pad(x, (1, 1), "reflect", 0.0), RuntimeError, '"reflect" doesn\'t take in value argument'),
        (lambda x: ag.pad(x, (1, 1, 1, 1), "reflect"), NotImplementedError, "got 4 sizes for 2 dimensions"),
        (lambda x: ag.pad(x[0], (1, 1), "circular"), NotImplementedError, "got 2 sizes for 1 dimensions"),
        (lambda x: ag.pad(x, (3, 1), "reflect"), RuntimeError, r"padding \(3, 1\) at dimension 1 of input \[2, 3\]"),
        (lambda x: ag.pad(x, (4, 0), "circular"), RuntimeError, "wrapping around more than once"),
        (lambda x: ag.pad(x, (3, -1), "circular"), RuntimeError, "wrapping around more than once"),
        (lambda x: ag.pad(x, (-2, -1), "replicate"), RuntimeError, "leaves no element at dimension 1"),
        (lambda x: ag.pad(x[:, :0], (1, 1), "replicate"), RuntimeError, "leaves no element at dimension 1"),
    ],
)
def test_errors(call, error, match, device):
    with pytest.raises(error, match=match):
        call(ag.ones(2, 3, device=device))
