"""What batches of losses, extremes and products of vectors are, where the op table cannot ask."""

import numpy as np
import pytest

from autograd_gpu.core.declare.batch_rules import run_batched
from autograd_gpu.core.declare.op import RAW, REGISTRY


def batch(name, *inputs, batched=None, **attributes):
    op = REGISTRY[name]
    batched = [True] * len(inputs) if batched is None else list(batched)
    n = next(len(x) for x, b in zip(inputs, batched, strict=True) if b)
    missing = len(op.inputs) - len(inputs)
    return run_batched(RAW, op, n, [*batched, *[False] * missing], [*inputs, *[None] * missing], attributes)


def rng():
    return np.random.default_rng(5)


# ---- losses --------------------------------------------------------------------------------------------


class TestLosses:
    def test_the_mean_of_an_empty_example_is_nan(self):
        assert np.isnan(batch("mse_loss", np.ones((2, 0)), np.ones((2, 0)))).tolist() == [True, True]
        assert np.isnan(batch("kl_div", np.ones((2, 0, 3)), np.ones((2, 0, 3)), reduction="batchmean")).all()

    def test_no_examples(self):
        assert batch("mse_loss", np.ones((0, 3)), np.ones((0, 3))).shape == (0,)
        assert batch("mse_loss", np.ones((0, 3)), np.ones((0, 3)), reduction="none").shape == (0, 3)

    def test_batchmean_is_for_divergences_only(self):
        x = np.full((2, 3, 4), 0.5)
        expected = [RAW.kl_div(one, one, reduction="batchmean") for one in x]
        np.testing.assert_allclose(batch("kl_div", x, x, reduction="batchmean"), expected)
        with pytest.raises(ValueError, match="batchmean is not a valid value"):
            batch("mse_loss", x, x, reduction="batchmean")

    @pytest.mark.parametrize("name", ["mse_loss", "kl_div", "binary_cross_entropy"])
    def test_unknown_reductions_are_refused(self, name):
        with pytest.raises(ValueError, match="max is not a valid value"):
            batch(name, np.full((2, 3), 0.5), np.full((2, 3), 0.5), reduction="max")

    def test_sizes_are_those_of_an_example(self):
        x = np.full((3, 3), 0.5)
        with pytest.raises(ValueError, match=r"Target size \(\[1, 3\]\) must be the same as input size \(\[3\]\)"):
            batch("binary_cross_entropy_with_logits", x, x[:, None])
        with pytest.raises(ValueError, match=r"Target size \(\[3, 3\]\) must be the same as input size \(\[3\]\)"):
            batch("binary_cross_entropy_with_logits", x, x, batched=(True, False))

    def test_a_shared_target_of_the_same_size_is_no_reason_to_warn(self):
        x = rng().normal(size=(4, 2, 3))
        result = batch("l1_loss", x, x[0], batched=(True, False))
        np.testing.assert_allclose(result, np.abs(x - x[0]).mean((1, 2)))
        with pytest.warns(UserWarning, match="Using a target size"):
            batch("l1_loss", x, x[0, 0], batched=(True, False))

    @pytest.mark.parametrize("batched", [(True, False) * 2, (False, True) * 2, (True,) * 4])
    def test_weights_of_fewer_dimensions(self, batched):
        draw = rng()
        inputs = [draw.uniform(size=(4, *shape)) for shape in ((2, 3), (2, 3), (3,), (2, 1))]
        operands = [x if b else x[0] for x, b in zip(inputs, batched, strict=True)]
        for reduction in ("mean", "sum", "none"):
            result = batch("binary_cross_entropy_with_logits", *operands, batched=batched, reduction=reduction)
            for i in range(4):
                one = [x[i] if b else x for x, b in zip(operands, batched, strict=True)]
                expected = RAW.binary_cross_entropy_with_logits(*one, reduction=reduction)
                np.testing.assert_allclose(result[i], expected)


# ---- extremes and truth --------------------------------------------------------------------------------


class TestExtremes:
    @pytest.mark.parametrize("name", ["argmax", "argmin", "amax", "amin", "any", "all"])
    @pytest.mark.parametrize("keepdim", [False, True])
    def test_all_dimensions_of_an_example(self, name, keepdim):
        x = rng().normal(size=(4, 2, 3)).round()
        np.testing.assert_array_equal(
            batch(name, x, keepdim=keepdim), np.stack([getattr(RAW, name)(one, keepdim=keepdim) for one in x])
        )

    @pytest.mark.parametrize("name", ["any", "all"])
    def test_no_dimension_leaves_every_element(self, name):
        x = np.array([[0.0, 2.0], [1.0, 0.0]])
        np.testing.assert_array_equal(batch(name, x, dim=()), x != 0)
        np.testing.assert_array_equal(batch(name, x[:, 0], dim=0), x[:, 0] != 0)

    @pytest.mark.parametrize("name", ["amax", "amin"])
    def test_no_dimension_names_all(self, name):
        x = rng().normal(size=(4, 2, 3))
        np.testing.assert_array_equal(batch(name, x, dim=()), np.stack([getattr(RAW, name)(one, dim=()) for one in x]))

    @pytest.mark.parametrize("name", ["argmax", "max_dim", "any", "amax"])
    def test_dimensions_beyond_an_example(self, name):
        for x in (np.ones((2, 3, 4)), np.ones(2)):
            for dim in (2, -3):
                with pytest.raises(IndexError, match="Dimension out of range"):
                    batch(name, x, dim=dim)

    @pytest.mark.parametrize("name", ["argmax", "amin"])
    def test_nothing_is_the_largest_of_an_empty_example(self, name):
        with pytest.raises(IndexError, match=f"{name}\\(\\): Expected reduction dim"):
            batch(name, np.ones((2, 0)), dim=None)

    def test_argmax_takes_one_dimension(self):
        for x in (np.ones((2, 3)), np.ones(2)):
            with pytest.raises(TypeError, match="'dim' must be int"):
                batch("argmax", x, dim=(0,))


# ---- products of vectors -------------------------------------------------------------------------------


class TestVectors:
    @pytest.mark.parametrize(("name", "match"), [("dot", "1D tensors expected"), ("outer", "Expected 1-D argument")])
    def test_numbers_and_matrices_are_no_vectors(self, name, match):
        for x in (np.ones(3), np.ones((3, 3, 3))):
            with pytest.raises(RuntimeError, match=match):
                batch(name, x, x)

    def test_dot_of_different_lengths(self):
        with pytest.raises(RuntimeError, match="inconsistent tensor size"):
            batch("dot", np.ones((3, 2)), np.ones(3), batched=(True, False))

    def test_the_batch_is_not_the_dimension_of_three(self):
        with pytest.raises(RuntimeError, match="no dimension of size 3 in input"):
            batch("cross", np.ones((3, 2)), np.ones((3, 2)))
        a, b = rng().normal(size=(2, 3, 2, 3))
        np.testing.assert_allclose(batch("cross", a, b), np.cross(a, b))

    def test_vectors_along_a_dimension_of_both_together(self):
        a, b = rng().normal(size=(4, 2, 3)), rng().normal(size=(4, 3))
        for dim in (1, -1):
            expected = [RAW.vecdot(x, y, dim=dim) for x, y in zip(a, b, strict=True)]
            np.testing.assert_allclose(batch("vecdot", a, b, dim=dim), expected)


# ---- what cannot be batched ----------------------------------------------------------------------------


def test_counts_of_one_vector_with_many_weights():
    x, weights = np.array([0, 2, 2]), rng().normal(size=(4, 3))
    result = batch("bincount", x, weights, batched=(False, True), minlength=4)
    np.testing.assert_allclose(result, [np.bincount(x, w, 4) for w in weights])


def test_ops_that_run_one_by_one_refuse_no_examples():
    with pytest.raises(RuntimeError, match="histc: a batch of no examples has no result"):
        batch("histc", np.ones((0, 3)))
