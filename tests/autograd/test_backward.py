"""grad, backward, Function, modes, edges, logging, profiler: as a user calls them."""

from __future__ import annotations

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.autograd import grad


@pytest.fixture
def x(device):
    return ag.ones(2, requires_grad=True, device=device)


def leaf(*values):
    return ag.tensor(values, dtype=ag.float64, requires_grad=True)


class TestGrad:
    def test_arguments(self):
        x = leaf(1.0, 2.0)
        y = x * x
        with pytest.raises(RuntimeError, match="implicitly created only for scalar outputs"):
            grad(y, x)
        with pytest.raises(RuntimeError, match="Mismatch in shape"):
            grad(y, x, ag.ones(3, dtype=ag.float64))
        with pytest.raises(RuntimeError, match="got 1 tensors and 2 gradients"):
            grad(y, x, [ag.ones(2), ag.ones(2)])
        with pytest.raises(RuntimeError, match="does not require grad and does not have a grad_fn"):
            grad(ag.ones(1), x)
        with pytest.raises(RuntimeError, match="One of the differentiated Tensors does not require grad"):
            grad(y.sum(), ag.ones(2))
        with pytest.raises(RuntimeError, match=r"`inputs` argument to `grad\(\)` cannot be empty"):
            grad(y.sum(), [])

    def test_dtype_of_grad_outputs_is_cast(self):
        x = leaf(1.0, 2.0)
        (g,) = grad(x * x, x, ag.ones(2, dtype=ag.float32))
        assert g.dtype == ag.float64

    def test_leaves_grad_alone(self):
        x = leaf(1.0)
        grad(x * x, x)
        assert x.grad is None

    def test_retain_graph(self):
        x = leaf(3.0)
        y = x * x
        grad(y, x, retain_graph=True)
        grad(y, x)
        with pytest.raises(RuntimeError, match="retain_graph=True"):
            grad(y, x)
        with pytest.raises(RuntimeError, match="retain_graph=True"):
            _ = y.grad_fn._saved_a

    def test_nothing_saved_may_run_twice(self):
        x = leaf(3.0)
        y = x + 1
        grad(y, x)
        grad(y, x)

    def test_unused(self):
        x, z = leaf(1.0), leaf(1.0)
        y = x * 2
        with pytest.raises(RuntimeError, match="allow_unused=True"):
            grad(y, [x, z], retain_graph=True)
        assert grad(y, [x, z], retain_graph=True, allow_unused=True)[1] is None
        assert grad(y, [x, z], materialize_grads=True)[1].tolist() == [0.0]
        with pytest.raises(ValueError, match="materialize_grads"):
            grad(y, [x, z], allow_unused=False, materialize_grads=True)

    def test_intermediate_and_itself(self):
        x = leaf(2.0)
        y = x * x
        z = y * 3
        assert [g.item() for g in grad(z, [y, x, z])] == [3.0, 12.0, 1.0]

    def test_same_input_twice(self):
        x = leaf(2.0)
        assert [g.item() for g in grad(x * x, [x, x])] == [4.0, 4.0]

    def test_several_outputs(self):
        x = leaf(2.0)
        assert grad([x * x, x * 3], x, [leaf(1.0), leaf(10.0)])[0].item() == 34.0

    def test_third_derivative(self):
        x = leaf(2.0)
        g = x**4
        for expected in (32.0, 48.0, 48.0, 24.0):
            (g,) = grad(g, x, create_graph=True)
            assert g.item() == expected

    def test_batched(self):
        x = leaf(1.0, 2.0)
        (g,) = grad(x * x, x, ag.eye(2, dtype=ag.float64), is_grads_batched=True)
        assert g.tolist() == [[2.0, 0.0], [0.0, 4.0]]

    def test_batch_of_no_cotangents(self):
        x = leaf(1.0, 2.0)
        with pytest.raises(IndexError, match="index 0 is out of bounds for dimension 0 with size 0"):
            grad(x * x, x, ag.ones(0, 2, dtype=ag.float64), is_grads_batched=True)

    def test_hooks_see_a_batch_once(self):
        x, seen = leaf(1.0, 2.0), []
        y = x.exp()
        y.register_hook(lambda g: seen.append(g.shape) or g * 2)
        (g,) = grad(y, x, ag.ones(3, 2, dtype=ag.float64), is_grads_batched=True)
        assert seen == [(2,)]
        assert ag.allclose(g, (2 * x.exp()).expand(3, 2))

    @pytest.mark.filterwarnings("ignore:Anomaly Detection:UserWarning")
    def test_anomaly_mode_looks_at_all_cotangents(self):
        x, rows = leaf(2.0, 1.0), ag.tensor([[1.0, 1.0], [1.0, float("nan")]], dtype=ag.float64)
        with ag.autograd.detect_anomaly():
            y = x.exp()
            assert grad(y, x, rows[:1], is_grads_batched=True, retain_graph=True)[0].shape == (1, 2)
            with pytest.raises(RuntimeError, match="ExpBackward0' returned nan values in its 0th output"):
                grad(y, x, rows, is_grads_batched=True)

    def test_batched_results_that_are_equal_or_zero(self):
        x, unused = leaf(1.0, -2.0), leaf(1.0)
        g, none = grad(x.sign() * 3, (x, unused), ag.ones(3, 2, dtype=ag.float64), is_grads_batched=True,
                       materialize_grads=True)
        assert g.tolist() == [[0.0, 0.0]] * 3
        assert none.tolist() == [[0.0]] * 3
        g.add_(1)  # its memory is its own
        assert g.tolist() == [[1.0, 1.0]] * 3

    def test_a_batch_is_differentiable(self):
        x, rows = leaf(1.0, 2.0), leaf(1.0, 3.0).expand(3, 2)
        (g,) = grad(x ** 3, x, rows, is_grads_batched=True, create_graph=True)
        (h,) = grad(g.sum(), x)
        assert h.tolist() == [18.0, 108.0]

    def test_a_batch_of_a_function_that_reads_values(self):
        class Reads(ag.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, g):
                return g * 2 if g.sum().item() else g

        x = leaf(1.0, 2.0)
        with pytest.raises(RuntimeError, match=r"vmap: It looks like you're calling \.item\(\)"):
            grad(Reads.apply(x), x, ag.ones(3, 2, dtype=ag.float64), is_grads_batched=True)

    def test_jacobian_of_which_some_rows_reach_the_input(self):
        class Some(ag.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, g):
                return g * 2 if g[1].item() else None

        x = leaf(1.0, 2.0)
        assert ag.autograd.functional.jacobian(Some.apply, x).tolist() == [[0.0, 0.0], [0.0, 2.0]]

    def test_multi_output_op(self):
        x = leaf(1.0, 2.0, 3.0)
        a, b, _c = x.unbind()
        assert grad(a * b, x)[0].tolist() == [2.0, 1.0, 0.0]
        values, indices = leaf(1.0, 5.0, 2.0).max(dim=0)
        assert values.requires_grad
        assert not indices.requires_grad

    def test_broadcast_gradients_are_summed(self):
        a, b = ag.ones(3, 1, dtype=ag.float64, requires_grad=True), ag.ones(4, dtype=ag.float64, requires_grad=True)
        ga, gb = grad((a * b).sum(), [a, b])
        assert ga.tolist() == [[4.0]] * 3
        assert gb.tolist() == [3.0] * 4


class TestBackward:
    def test_create_graph(self):
        x = leaf(2.0)
        (x**3).backward(create_graph=True)
        assert x.grad.requires_grad
        (g2,) = grad(x.grad, x)
        assert g2.item() == 12.0

    def test_on_a_leaf(self):
        x = leaf(2.0)
        x.backward()
        assert x.grad.item() == 1.0

    def test_accumulates(self):
        x = leaf(2.0)
        for _ in range(3):
            (x * 2).backward()
        assert x.grad.item() == 6.0


def test_only_inputs(x):
    assert grad(x.sum(), x, only_inputs=True)[0].tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="only_inputs=False is not supported"):
        grad(x.sum(), x, only_inputs=False)


def test_integer_gradients_are_cast(x):
    (x * 2).backward(ag.tensor([1, 3], device=x.device))
    assert x.grad.tolist() == [2.0, 6.0]


def test_a_tensor_is_not_its_own_gradient(x):
    with pytest.raises(RuntimeError, match="can't assign Variable as its own grad"):
        x.grad = x


def test_a_gradient_of_another_shape(x):
    (x * 2).sum().backward()
    x.data = ag.ones(3, device=x.device)
    with pytest.raises(RuntimeError, match=r"shape \[3\] cannot be added to its .grad of shape \[2\]"):
        (x * 2).sum().backward()


def test_texts():
    x = leaf(1.0, 2.0)
    with pytest.raises(TypeError, match="all inputs have to be Tensors or GradientEdges, but got int"):
        grad(x.sum(), [1])
    with pytest.raises(TypeError, match="element 0 of tensors must be a Tensor"):
        grad([1.0], x)
    with pytest.raises(TypeError, match="either Tensors or None, but got str"):
        grad(x.sum(), x, ["a"])
    assert grad(x * 2, x, np.ones(2))[0].tolist() == [2.0, 2.0]
