"""The interpreter of vmap."""

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.core.interpret.batched import Batched, Batching, batched
from autograd_gpu.core.interpret.interpreters import below, entered


def test_an_op_runs_once_on_all_examples(device):
    x = ag.arange(6, dtype=ag.float64, device=device).reshape(2, 3)
    with entered(Batching(2)) as level, ag.profiler.count() as counted:
        result = batched(level, x) @ ag.ones(3, 4, dtype=ag.float64, device=device)
    assert list(counted.matmuls.items()) == [((2, 3, 4), 1)]
    assert (type(result), result.shape, result._level) == (Batched, (4,), level)
    np.testing.assert_allclose(result._value.numpy(force=True), [[3.0] * 4, [12.0] * 4])


def test_what_is_not_batched_stays_below(device):
    with entered(Batching(2)):
        assert type(ag.ones(3, device=device).exp()) is ag.Tensor


def test_nested_levels_see_their_own_examples_only():
    x = ag.arange(6, dtype=ag.float64).reshape(2, 3)
    with entered(Batching(2)) as outer:
        row = batched(outer, x)
        with entered(Batching(3)) as inner:
            y = batched(inner, row) * row.sum()
            assert (y.shape, y._value.shape, y._value._value.shape) == ((), (3,), (2, 3))
            with below(inner):
                np.testing.assert_allclose(y._value._value.numpy(force=True), x.numpy(force=True) * [[3.0], [12.0]])


def test_several_results_keep_their_names():
    with entered(Batching(2)) as level:
        result = batched(level, ag.tensor([[1.0, 3.0], [4.0, 2.0]])).max(0)
    assert type(result).__name__ == "max_dim_result"
    assert result.indices._value.tolist() == [1, 0]


def test_whole():
    with entered(Batching(2)) as level:
        x = batched(level, ag.ones(2, 3))
        with below(level):
            assert level.whole(x) is x._value
            assert level.whole(ag.ones(3)).shape == (2, 3)
            assert level.whole("text") == "text"


@pytest.mark.cpu
@pytest.mark.parametrize("use", [bool, float, int, ag.Tensor.item, ag.Tensor.tolist, ag.Tensor.numpy, np.asarray])
def test_values_are_refused(use):
    with entered(Batching(2)) as level, pytest.raises((RuntimeError, TypeError), match="vmap: It looks like you're"):
        use(batched(level, ag.ones(2)))


def test_no_examples():
    with entered(Batching(0)) as level:
        x = batched(level, ag.ones(0, 2, 3))
        assert (x.shape, x.is_contiguous(), (x + 1)._value.shape) == ((2, 3), True, (0, 2, 3))


def test_new_tensors_like_a_batched_one_can_be_written_to():
    def function(x):
        made = [ag.zeros_like(x), x.new_zeros(3), x.new_full((3,), 2.0), x.new_ones(3), ag.empty_like(x)]
        for out in made:
            out.copy_(x)
        made[1][0] = x[1]
        return tuple(made)

    x = ag.arange(6.0).reshape(2, 3)
    result = ag.func.vmap(function)(x)
    assert [out.tolist() for out in result[::2]] == [x.tolist()] * 3
    assert result[1].tolist() == [[1.0, 1.0, 2.0], [4.0, 4.0, 5.0]]
    grid = ag.func.vmap(ag.func.vmap(ag.zeros_like, in_dims=0), in_dims=0)(ag.ones(2, 3, 4))
    assert grid.shape == (2, 3, 4)
    assert type(ag.func.vmap(lambda x: (x, ag.zeros(3)), out_dims=(0, None))(x)[1]) is ag.Tensor


def test_no_grad_attribute_outlives_the_level():
    leaf, received = ag.ones(2, requires_grad=True), []

    def keeps(x):
        received.append(x)
        leaf.grad = x
        return x

    with pytest.raises(RuntimeError, match=r"belongs to a function transform .* return it from the function"):
        ag.func.vmap(keeps)(ag.ones(3, 2))
    assert leaf.grad is None
    y = leaf * 2
    y.retain_grad()
    with pytest.raises(RuntimeError, match=r"belongs to a function transform .* retain_grad"):
        ag.autograd.grad(y * y, leaf, ag.eye(2), is_grads_batched=True)
    assert y.grad is None
