"""Dropout by masks that nobody keeps: what is launched, what is saved, and that backward meets the mask of forward."""

import threading

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import profiler
from autograd_gpu.autograd import grad
from autograd_gpu.autograd.graph import saved_tensors_hooks
from autograd_gpu.backend import kernels
from autograd_gpu.backend.cpu.dropout import mask_bits

DROPOUTS = {
    "dropout": lambda x: ag.dropout(x, 0.4),
    "feature_dropout": lambda x: ag.feature_dropout(x, 0.4),
    "alpha_dropout": lambda x: ag.alpha_dropout(x, 0.4, training=True),
    "feature_alpha_dropout": lambda x: ag.feature_alpha_dropout(x, 0.4, training=True),
}
SHAPES = [(6, 7, 5), (4, 6, 8), (3, 40)]


@pytest.fixture(params=sorted(DROPOUTS))
def drop(request):
    return DROPOUTS[request.param]


def leaf(*shape, dtype="float32"):
    return ag.rand(shape, dtype=dtype).add_(1).requires_grad_()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_backward_meets_the_mask_of_forward(drop, shape, dtype, device):
    """The first gradient, the second, and the tangent; the result is affine where it is kept, else constant."""
    x = leaf(*shape, dtype=dtype)
    y = drop(x)
    ones = ag.ones_like(y).requires_grad_()
    (g,) = grad(y, x, ones, create_graph=True)
    kept = g.numpy(force=True) != 0
    assert 0 < kept.mean() < 1
    assert len(np.unique(g.numpy(force=True))) == 2
    values, result = x.numpy(force=True).astype(float)[kept], y.numpy(force=True).astype(float)
    slope = np.polyfit(values, result[kept], 1)[0]
    assert abs(slope / float(g.max()) - 1) < 0.05
    assert np.ptp(result[~kept]) == 0
    (again,) = grad(g, ones, ag.full_like(y, 3))
    np.testing.assert_allclose(again.numpy(force=True).astype(float), 3 * g.numpy(force=True).astype(float), rtol=0.01)


def test_a_second_backward_and_other_gradients_have_the_same_mask(drop, device):
    x = leaf(5, 9, 3)
    y = drop(x)
    first = grad(y.sum(), x, retain_graph=True)[0]
    ag.rand(10)
    assert grad(y.sum(), x, retain_graph=True)[0].tolist() == first.tolist()
    several = ag.stack([ag.ones_like(y), ag.zeros_like(y), ag.full_like(y, 2)])
    for actual, factor in zip(grad(y, x, several, is_grads_batched=True)[0], (1, 0, 2), strict=True):
        np.testing.assert_allclose(actual.tolist(), (first * factor).tolist(), rtol=1e-6)


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_all_or_nothing(p, device):
    x = ag.tensor([1.0, float("nan"), float("inf")], requires_grad=True)
    with np.errstate(invalid="ignore"):
        y, z = ag.dropout(x, p), ag.ops.nn.dropout.random_dropout(x, p)
    assert y.tolist()[1:] == [0, 0] if p else y is x
    np.testing.assert_array_equal(z.numpy(force=True), np.zeros(3) if p else x.numpy(force=True))
    assert grad(z, x, ag.ones(3))[0].tolist() == [1 - p] * 3


def test_written_into_the_input(device):
    y = leaf(9, 9) * 1
    ag.manual_seed(1)
    expected = ag.dropout(y.detach())
    ag.manual_seed(1)
    ag.nn.functional.dropout(y, inplace=True)
    assert y.tolist() == expected.tolist()


def test_strided_and_empty_inputs(device):
    x = leaf(6, 10)
    ag.manual_seed(2)
    y = ag.dropout(x.t()[::2])
    ag.manual_seed(2)
    assert y.tolist() == ag.dropout(x.t()[::2].contiguous()).tolist()
    assert grad(y.sum(), x)[0].shape == (6, 10)
    for shape in ((0,), (0, 3, 2), (2, 0, 2), (2, 3, 0)):
        empty = leaf(*shape)
        assert grad(ag.dropout(empty).sum(), empty)[0].shape == shape
        if len(shape) > 1:
            assert ag.feature_dropout(empty).shape == shape


# ---- on CUDA ------------------------------------------------------------------------------------------


@pytest.mark.cuda
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_one_launch_each(drop, shape):
    x = leaf(*shape)
    with profiler.count() as c:
        y = drop(x)
    assert sum(c.launches.values()) == 1
    ones = ag.ones_like(y).requires_grad_()
    with profiler.count() as c:
        (g,) = grad(y, x, ones, create_graph=True)
    assert sum(c.launches.values()) == 1
    with profiler.count() as c:
        grad(g, ones, ag.ones_like(g))
    assert sum(c.launches.values()) == 1


@pytest.mark.cuda
def test_nothing_of_the_size_of_the_input_is_saved(drop):
    x = leaf(16, 64, 9)
    drop(x)  # compiles
    packed = []
    before = ag.cuda.memory_allocated()
    with saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        y = drop(x)
    assert packed == []
    assert y.grad_fn.saved_by_name() == []
    assert ag.cuda.memory_allocated() - before == y.nbytes
    mask = y.grad_fn._saved_mask
    assert isinstance(mask, kernels.Mask)
    y.sum().backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.sum().backward()


@pytest.mark.cuda
def test_attention_saves_no_mask():
    q = leaf(2, 4, 8)
    attend = ag.nn.functional.scaled_dot_product_attention
    dtypes = []
    with saved_tensors_hooks(lambda t: dtypes.append(t.dtype) or t, lambda t: t):
        y = attend(q, q, q, dropout_p=0.5)
    assert dtypes
    assert ag.bool not in dtypes
    first = grad(y.sum(), q, retain_graph=True)[0]
    assert grad(y.sum(), q)[0].tolist() == first.tolist()


@pytest.mark.cuda
def test_masks_are_those_that_the_cpu_computes():
    ag.manual_seed(11)
    ag.rand(3)  # one counter
    x = ag.ones(9, 7)
    y, z = ag.dropout(x, 0.3), ag.feature_dropout(ag.ones(5, 3, 2), 0.3)
    np.testing.assert_array_equal(y.numpy(force=True) > 0, bits(11, 1, 63).reshape(9, 7))
    np.testing.assert_array_equal(z.numpy(force=True) > 0, bits(11, 17, 15).reshape(5, 3, 1).repeat(2, axis=2))
    assert ag.get_rng_state("cuda").view(ag.uint64).tolist() == [11, 21]


def bits(seed, start, count):
    return mask_bits(kernels.Mask(seed, start, 1 - 0.3, count))


@pytest.mark.cuda
def test_threads_share_no_counters():
    """Masks of one generator drawn by several threads: all different, and together those of one thread."""
    x = ag.ones(100)

    def masks(count):
        return [ag.dropout(x).numpy(force=True).tobytes() for _ in range(count)]

    drawn = []
    ag.manual_seed(0)
    threads = [threading.Thread(target=lambda: drawn.extend(masks(5))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ag.manual_seed(0)
    assert len(set(drawn)) == 20
    assert sorted(drawn) == sorted(masks(20))


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_a_checkpoint_draws_the_same_mask_again(use_reentrant, drop, device):
    x = leaf(4, 5, 6)

    def f(x):
        return drop(drop(x) * x)

    ag.manual_seed(3)
    expected = grad(f(x).sum(), x)[0]
    ag.manual_seed(3)
    y = ag.utils.checkpoint.checkpoint(f, x, use_reentrant=use_reentrant)
    after = ag.get_rng_state()
    ag.dropout(ag.ones(50))
    where = ag.get_rng_state()
    y.sum().backward()
    assert x.grad.tolist() == expected.tolist()
    assert ag.get_rng_state().equal(where)
    ag.set_rng_state(after)


def test_a_tensor_of_the_cpu_needs_no_other_device(drop):
    """Whatever the default device is, which a mask is not made on."""
    assert drop(ag.ones(4, 6, 8, device="cpu")).device.type == "cpu"
