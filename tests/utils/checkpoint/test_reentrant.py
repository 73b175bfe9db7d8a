"""utils.checkpoint with use_reentrant=True where it differs, and checkpoint_sequential in both modes."""

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import nn
from autograd_gpu.utils.checkpoint import checkpoint, checkpoint_sequential


def leaf(*shape, seed=0):
    numbers = np.random.default_rng(seed).standard_normal(shape)
    return ag.tensor(numbers, requires_grad=True)


def assert_same(actual, expected):
    for a, b in zip(actual, expected, strict=True):
        assert (a is None and b is None) or bool((a == b).all())


def test_reentrant_in_depth():
    """Each level runs backward inside backward."""
    x, depth = leaf(2), 160

    def level(n):
        return lambda x: checkpoint(level(n - 1), x, use_reentrant=True) * 1.0 if n else x.sin()

    level(depth)(x).sum().backward()
    assert bool(ag.allclose(x.grad, x.detach().cos()))


def test_reentrant_errors_and_warnings():
    x = leaf(4)
    y = checkpoint(ag.exp, x, use_reentrant=True).sum()
    message = "(?s)incompatible with .grad.. or passing an `inputs` parameter to .backward...*use_reentrant=False"
    with pytest.raises(RuntimeError, match=message):
        ag.autograd.grad(y, x, retain_graph=True)
    with pytest.raises(RuntimeError, match=message):
        y.backward(inputs=[x], retain_graph=True)
    y.backward()
    with pytest.raises(RuntimeError, match="none of output has requires_grad=True, this checkpoint"):
        checkpoint(lambda x: x.detach(), x, use_reentrant=True).sum().backward()
    with pytest.raises(ValueError, match="Unexpected keyword arguments: scale"):
        checkpoint(ag.exp, x, use_reentrant=True, scale=2)
    with pytest.raises(ValueError, match="Passing `context_fn` or `debug` is only supported when use_reentrant=False"):
        checkpoint(ag.exp, x, use_reentrant=True, debug=True)
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True. Gradients will be None"):
        assert not checkpoint(ag.exp, x.detach(), use_reentrant=True).requires_grad
    with pytest.warns(UserWarning, match="the use_reentrant parameter should be passed explicitly"):
        y = checkpoint(ag.exp, x)
    assert y.grad_fn.name() == "CheckpointFunctionBackward"
    ag.autograd.grad(x.exp().sum(), x)
    checkpoint(ag.exp, x, use_reentrant=True).sum().backward()
    with pytest.raises(RuntimeError, match=r"Only tuple of tensors is supported. Got Unsupported input type: list"):
        ag.utils.checkpoint.detach_variable([x])


def test_reentrant_refuses_double_backward():
    x = leaf(4)
    y = checkpoint(ag.exp, x, use_reentrant=True).sum()
    y.backward(create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        x.grad.sum().backward()


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("segments", [1, 2, 3, 5])
def test_sequential(segments, reentrant):
    runs = []

    class Counted(nn.Module):
        def __init__(self, number):
            super().__init__()
            self.number, self.linear = number, nn.Linear(4, 4).double()

        def forward(self, x):
            runs.append(self.number)
            return nn.functional.dropout(self.linear(x).tanh(), 0.5)

    model, x = nn.Sequential(*[Counted(i) for i in range(5)]), leaf(4, 4)

    def run(call):
        model.zero_grad()
        ag.manual_seed(0)
        y = call().sum()
        runs.clear()
        y.backward()
        return [y.detach(), *[p.grad for p in model.parameters()]]

    result = run(lambda: checkpoint_sequential(model, segments, x, use_reentrant=reentrant))
    size = 5 // segments
    assert sorted(runs) == [*range(size * (segments - 1))]  # the last one keeps what it saves
    assert_same(result, run(lambda: model(x)))
    assert_same(result, run(lambda: checkpoint_sequential([*model], segments, x, use_reentrant=reentrant)))


def test_sequential_arguments():
    x = leaf(2)
    with pytest.warns(UserWarning, match="checkpoint_sequential: the use_reentrant parameter should be passed"):
        checkpoint_sequential([ag.exp, ag.sin], 2, x)
    with pytest.raises(ValueError, match="Unexpected keyword arguments: debug"):
        checkpoint_sequential([ag.exp], 1, x, use_reentrant=False, debug=True)
    for segments in (0, 3):
        with pytest.raises(ValueError, match="segments must lie between 1 and the number of functions, 2"):
            checkpoint_sequential([ag.exp, ag.sin], segments, x, use_reentrant=False)
