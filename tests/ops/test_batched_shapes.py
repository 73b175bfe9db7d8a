"""Batches of ops that join, move, place, order and draw elements, where the op table cannot ask."""

import itertools

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.autograd.backward import grad
from autograd_gpu.backend import kernels
from autograd_gpu.backend.cpu.dropout import mask_bits
from autograd_gpu.core.declare.batch_rules import run_batched
from autograd_gpu.core.declare.jvp_rules import push_forward
from autograd_gpu.core.declare.op import RAW, RECORD, REGISTRY
from autograd_gpu.core.declare.op_call import Call

pytestmark = pytest.mark.cpu
N = 3


def batch(name, *inputs, **how):
    """The op on arrays, or on tensors if F is RECORD; all are batched unless `batched` says which."""
    result = batch_with_extras(name, *inputs, **how)
    return result[0] if REGISTRY[name].saved else result


def batch_with_extras(name, *inputs, batched=None, F=RAW, **attributes):
    op = REGISTRY[name]
    batched = [hasattr(x, "shape") for x in inputs] if batched is None else list(batched)
    n = next(len(x) for x, b in zip(inputs, batched, strict=True) if b)
    missing = 0 if op.variadic else len(op.inputs) - len(inputs)
    return run_batched(F, op, n, [*batched, *[False] * missing], [*inputs, *[None] * missing], attributes)


def normal(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape)


# ---- joining and moving ------------------------------------------------------------------------------


class TestJoining:
    def test_empty_vectors_among_others_are_left_out(self):
        x = normal(N, 2, 4)
        result = batch("cat", x, np.ones((N, 0)), np.ones(0), batched=(True, True, False), dim=1)
        np.testing.assert_array_equal(result, x)
        assert batch("cat", np.ones((N, 0)), np.ones((N, 0))).shape == (N, 0)

    def test_their_gradient_is_empty(self):
        x, nothing = ag.tensor(normal(N, 2, 4), requires_grad=True), ag.ones(N, 0, dtype=ag.float64, requires_grad=True)
        assert [g.shape for g in grad([batch("cat", x, nothing, F=RECORD).sum()], [x, nothing])] == [(N, 2, 4), (N, 0)]

    def test_numbers_are_refused(self):
        with pytest.raises(RuntimeError, match=r"zero-dimensional tensor \(at position 0\) cannot be concatenated"):
            batch("cat", normal(N), normal(N))
        with pytest.raises(RuntimeError, match=r"zero-dimensional tensor \(at position 1\) cannot be concatenated"):
            batch("cat", normal(N, 2), normal(N))

    def test_dimensions_are_those_of_an_example(self):
        for name in ("cat", "stack"):
            with pytest.raises(IndexError, match="Dimension out of range"):
                batch(name, normal(N, 2), normal(N, 2), dim=2)

    def test_blocks_have_two_dimensions(self):
        with pytest.raises(RuntimeError, match="Input 1 has 3 dimensions"):
            batch("stack_diagonally", normal(N, 2, 2), normal(N, 1, 2, 2))


class TestMoving:
    def test_a_vector_has_no_mT(self):
        with pytest.raises(RuntimeError, match="only supported on matrices or batches of matrices"):
            batch("mT", normal(N, 2))

    def test_dimensions_of_permute(self):
        with pytest.raises(IndexError, match=r"in range of \[-2, 1\], but got -3"):
            batch("permute", normal(N, 2, 4), dims=(-3, 0))
        with pytest.raises(RuntimeError, match="duplicate dims are not allowed"):
            batch("permute", normal(N, 2, 4), dims=(0, -2))

    def test_padding_stays_in_the_example(self):
        with pytest.raises(RuntimeError, match="padding length 4 and input of dimension 1"):
            batch("constant_pad", normal(N, 2), pad=(1, 1, 1, 1))

    def test_a_number_is_not_rolled_along_a_dimension(self):
        np.testing.assert_array_equal(batch("roll", normal(N), shifts=1), normal(N))
        with pytest.raises(IndexError, match="Dimension specified as 0 but tensor has no dimensions"):
            batch("roll", normal(N), shifts=1, dims=0)

    def test_too_few_sizes_of_repeat(self):
        with pytest.raises(RuntimeError, match="can not be smaller than number of dimensions"):
            batch("repeat", normal(N, 2, 2), sizes=(2,))

    def test_repeated_positions_need_their_number(self):
        counts = np.array([[1, 2], [3, 0]])
        np.testing.assert_array_equal(batch("repeat_positions", counts, total=3), [[0, 1, 1], [0, 0, 0]])
        with pytest.raises(RuntimeError, match="repeat_positions cannot be batched: its length depends on the values"):
            batch("repeat_positions", counts)


# ---- placing -------------------------------------------------------------------------------------------


KEYS = {
    "apart, behind a dimension": ((2, 3, 2, 4), (-3, -1), [(2, 1), (2,)]),
    "first and last": ((3, 2, 4), (-3, -1), [(3,), (3,)]),
    "side by side": ((2, 3, 4, 2), (-3, -2), [(2, 1), (2,)]),
    "four": ((2, 2, 2, 2), (-4, -3, -2, -1), [(1,)] * 4),
}


def places(rng, size, part):
    """Indices for N examples; none of them names a place twice."""
    return rng.permuted(np.tile(np.arange(size), (N, 1)), axis=1)[:, : np.prod(part)].reshape(N, *part)


class TestPlacing:
    @pytest.mark.parametrize("name", ["advanced_set", "advanced_add"])
    @pytest.mark.parametrize("key", KEYS)
    def test_every_choice_of_what_is_batched(self, key, name):
        """With values of the shape that is selected, of fewer dimensions, and, to be set, with one more of size 1."""
        shape, dims, parts = KEYS[key]
        rng = np.random.default_rng(1)
        x, indices = rng.normal(size=(N, *shape)), [places(rng, shape[d], p) for d, p in zip(dims, parts, strict=True)]
        selected = RAW.advanced_index(x[0], *[i[0] for i in indices], dims=dims).shape
        for size in (selected, selected[1:], *[(1, *selected)] * (name == "advanced_set")):
            inputs = [x, rng.normal(size=(N, *size)), *indices]
            for batched in itertools.product((True, False), repeat=len(inputs)):
                if any(batched):
                    self.compare(name, batched, inputs, dims)

    def compare(self, name, batched, inputs, dims):
        inputs = [x if b else x[0] for x, b in zip(inputs, batched, strict=True)]
        result = batch(name, *inputs, batched=batched, dims=dims)
        for i in range(N):
            one = [x[i] if b else x for x, b in zip(inputs, batched, strict=True)]
            np.testing.assert_allclose(result[i], getattr(RAW, name)(*one, dims=dims), rtol=1e-12, err_msg=str(batched))
        assert len(result) == N

    def test_a_mask_of_each_example_takes_a_number(self):
        x, mask = np.zeros((N, 2, 2), np.int64), np.array([[True, False], [True, True], [False, False]])
        result = batch("advanced_set", x, 7.5, mask, dims=(-2,))
        assert (result.dtype, result[..., 0].tolist()) == (np.int64, [[7, 0], [7, 7], [0, 0]])

    def test_a_mask_of_each_example_takes_no_vector(self):
        mask = np.ones((N, 2), bool)
        for name in ("advanced_set", "advanced_add"):
            with pytest.raises(RuntimeError, match=f"{name} cannot be batched: how much a mask selects depends on"):
                batch(name, normal(N, 2), normal(N, 2), mask, dims=(-1,))

    def test_masked_fill_keeps_the_dtype_of_x(self):
        x, mask = np.zeros((N, 2), np.int64), np.array([True, False])
        result = batch("masked_fill", x, mask, np.array([1.5, 2.5, 3.5]), batched=(True, False, True))
        assert (result.dtype, result[:, 0].tolist()) == (np.int64, [1, 2, 3])

    def test_masked_fill_refuses_vectors_and_masks_of_numbers(self):
        with pytest.raises(RuntimeError, match="0-dimensional value tensor, but got tensor with 1 dimension"):
            batch("masked_fill", normal(N, 2), np.ones((N, 2), bool), normal(N, 2))
        with pytest.raises(RuntimeError, match="only supports boolean masks, but got mask with dtype int64"):
            batch("masked_fill", normal(N, 2), np.ones((N, 2), np.int64), normal(N))


# ---- order statistics and norms ------------------------------------------------------------------------


class TestMedian:
    ROWS = np.array([[1.0, 2.0, 2.0, 3.0], [1.0, np.nan, 0.0, 2.0], [5.0, 5.0, 5.0, 5.0]])

    def test_ties_share_the_gradient_in_each_example(self):
        for ignore_nan in (False, True):
            x = ag.tensor(self.ROWS, requires_grad=True)
            [gradient] = grad([batch("median_all", x, F=RECORD, ignore_nan=ignore_nan).sum()], [x])
            rows = [ag.tensor(row, requires_grad=True) for row in self.ROWS]
            expected = [grad([RECORD.median_all(row, ignore_nan)], [row])[0].numpy() for row in rows]
            np.testing.assert_array_equal(gradient.numpy(), expected)

    def test_nan_and_integers(self):
        np.testing.assert_array_equal(batch("median_all", self.ROWS), [2.0, np.nan, 5.0])
        np.testing.assert_array_equal(batch("median_all", self.ROWS, ignore_nan=True), [2.0, 1.0, 5.0])
        np.testing.assert_array_equal(batch("median_all", np.array([[3, 1, 2], [4, 4, 0]])), [2, 4])

    def test_empty_examples(self):
        assert np.isnan(batch("median_all", np.ones((N, 0, 2)))).tolist() == [True] * N
        with pytest.raises(RuntimeError, match="input tensor must be non-empty for int64"):
            batch("median_all", np.ones((N, 0), np.int64))

    def test_examples_of_examples(self):
        x = normal(2, N, 4, 5)
        result = batch("median_all", x, trailing=2)
        np.testing.assert_array_equal(result, [[RAW.median_all(one) for one in row] for row in x])
        np.testing.assert_array_equal(batch("median_all", normal(N)), normal(N))


def test_a_normalisation_stays_in_the_example():
    for name, eps in (("native_layer_norm", {}), ("native_rms_norm", {"eps": 0.0})):
        with pytest.raises(RuntimeError, match=r"expected input with shape \[\*, 3, 2\], but got input of size\[2\]"):
            batch(name, normal(N, 2), shape=(N, 2), **eps)
        with pytest.raises(RuntimeError, match="Expected weight to be of same shape as normalized_shape"):
            batch(name, normal(N, 2), normal(N, N), shape=(2,), **eps)


def test_variance_by_position_and_of_numbers():
    x = normal(N, 4)
    np.testing.assert_allclose(batch("var", x, dim=False), x.var(1))
    np.testing.assert_allclose(batch("std", x, dim=True), x.std(1, ddof=1))
    assert np.isnan(batch("var", normal(N))).all()
    np.testing.assert_array_equal(batch("std", normal(N), correction=0), np.zeros(N))


def test_derivatives_of_nothing_are_zero():
    x = np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, np.nan]])
    for name in ("nansum", "nanmean"):
        call = Call(REGISTRY[name], [x], {"dim": 1}, [RAW.nansum(x, 1)], {"count": np.array([2.0, np.nan])})
        [result] = push_forward(RAW, call, [np.ones((2, 3))])
        np.testing.assert_array_equal(result, [2.0 if name == "nansum" else 1.0, 0.0])


def test_tangents_of_a_constant_row_stay_in_float16():
    """rstd is 316 there, its square more than float16 holds."""
    x = np.full((1, 2), 3.0, np.float16)
    call = Call(REGISTRY["native_layer_norm"], [x, None, None], {"shape": (2,)}, RAW.native_layer_norm(x, shape=(2,)))
    result = push_forward(RAW, call, [np.array([[1.0, 3.0]], np.float16), None, None])
    assert [t.tolist() for t in result] == [[[-316.25, 316.25]], [[2.0]], [[0.0]]]


@pytest.mark.parametrize("batched", [(True, True, True), (True, False, False), (False, True, False)])
def test_sums_of_numbers_stay_in_the_example(batched):
    inputs = [normal(N) if b else normal(N)[0] for b in batched]
    h, x, y = inputs
    result = batch("exp_cumsum", *inputs, batched=batched, dim=-1, reverse=False)
    np.testing.assert_allclose(result, h * np.exp(x - y))
    slopes = ag.func.vmap(ag.func.grad(lambda x: ag.logcumsumexp(x, 0)))(ag.tensor(normal(N)))
    np.testing.assert_allclose(slopes.numpy(), np.ones(N))


# ---- drawing -------------------------------------------------------------------------------------------


class TestDrawing:
    def test_each_example_draws_its_own_numbers(self):
        x = np.full((N, 50), 0.5)
        calls = [
            batch("random_bernoulli", x), batch("poisson", x * 9), batch("random_dropout", x, p=0.5),
            batch("random_alpha_dropout", x, p=0.5), batch("random_rrelu", -x),
            batch("random_normal", x[:, 0], x[0], batched=(True, False)), batch("random_normal", 0.5, x),
        ]  # fmt: skip
        for actual in calls:
            assert actual.shape == (N, 50)
            assert len(np.unique(actual, axis=0)) == N

    @pytest.mark.parametrize("name", ["random_dropout", "random_alpha_dropout"])
    def test_channels_are_those_of_an_example(self, name):
        """Whole channels go, others in each example."""
        result = batch(name, np.ones((N, 4, 20, 5)), p=0.5, channels=True)
        assert result.shape == (N, 4, 20, 5)
        assert (result == result[..., :1]).all()
        assert len(np.unique(result[..., 0].reshape(-1, 20), axis=0)) == 4 * N

    @pytest.mark.parametrize("channels", [False, True])
    def test_each_example_has_its_own_mask(self, channels):
        for F, x in ((RAW, np.ones((N, 4, 20, 5))), (RECORD, ag.ones(N, 4, 20, 5))):
            out, extras = batch_with_extras("random_dropout", x, F=F, p=0.5, channels=channels)
            assert extras["mask"].shape == (N, 4, 20, 1 if channels else 5)
            np.testing.assert_array_equal(np.asarray(out) > 0, np.broadcast_to(np.asarray(extras["mask"]), out.shape))

    def test_random_slopes_are_those_of_the_examples(self):
        out, extras = batch_with_extras("random_rrelu", -np.ones((N, 4)))
        np.testing.assert_array_equal(extras["slopes"], -out)

    def test_a_mask_that_is_numbers_becomes_a_mask_of_each_example(self, monkeypatch):
        """As on CUDA, where the mask of a call is a few numbers."""
        mask = kernels.Mask(seed=3, start=0, keep=0.5, count=N * 20)

        def forward(xp, x, *, p, channels=False):
            return RAW.masked_scale(x, mask=mask, scale=1 / (1 - p)), {"mask": mask}

        monkeypatch.setattr(REGISTRY["random_dropout"], "forward", forward)
        out, extras = batch_with_extras("random_dropout", np.ones((N, 20)), p=0.5)
        np.testing.assert_array_equal(out, extras["mask"] * 2.0)
        np.testing.assert_array_equal(extras["mask"].ravel(), mask_bits(mask))

    def test_dropout_by_rows_keeps_its_gradient(self):
        x = ag.ones(N, 2, 8, 3, requires_grad=True)
        out = batch("random_dropout", x, F=RECORD, p=0.5, channels=True)
        np.testing.assert_array_equal(grad([out.sum()], [x])[0].numpy(), out.detach().numpy())
