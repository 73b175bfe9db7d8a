"""Batching: the helpers, what is refused, and corners of batch words that no row of the op table reaches."""

import numpy as np
import pytest

from autograd_gpu.backend.arrays.dtypes import float32, float64, int64, uint8
from autograd_gpu.core.declare.batch_rules import aligned, counted_from_right, example, expanded, rank, run_batched
from autograd_gpu.core.declare.op import RAW, REGISTRY
from autograd_gpu.core.declare.parse import parse
from autograd_gpu.errors import MissingRuleError

pytestmark = pytest.mark.cpu
x34, x3 = np.arange(12.0).reshape(3, 4), np.arange(3.0)


def batch(name, *inputs, batched=None, n=None, **attributes):
    """The op on arrays; all are batched unless `batched` says which."""
    batched = [hasattr(x, "shape") for x in inputs] if batched is None else batched
    n = next(len(x) for x, b in zip(inputs, batched, strict=True) if b) if n is None else n
    return run_batched(RAW, REGISTRY[name], n, batched, inputs, attributes)


class TestHelpers:
    def test_rank_is_that_of_one_example(self):
        assert (rank(x34, True), rank(x34, False)) == (1, 2)

    def test_example_has_a_shape_and_no_memory(self):
        result = example(np.empty((5, 2, 3)))
        assert (result.shape, result.strides) == ((2, 3), (0, 0))
        assert example(x34, False).shape == (3, 4)
        assert example(x3).shape == ()

    def test_expanded(self):
        result = expanded(RAW, 5, (True, False, False, False), (np.ones((5, 2)), x3, 2.0, None))
        assert [getattr(x, "shape", x) for x in result] == [(5, 2), (5, 3), 2.0, None]

    def test_aligned_puts_ones_behind_the_examples(self):
        a, b, c = aligned(RAW, (True, True, False), (np.ones((5, 2, 3)), np.ones(5), x3))
        assert (a.shape, b.shape, c.shape) == ((5, 2, 3), (5, 1, 1), (3,))
        assert aligned(RAW, (True, False), (np.ones(5), x34))[0].shape == (5, 1, 1)
        assert aligned(RAW, (True, False), (np.ones((5, 2)), 3.0))[1] == 3.0

    @pytest.mark.parametrize(("dim", "ndim", "actual"), [
        (0, 3, -3), (2, 3, -1), (-2, 3, -2), (0, 0, -1), (-1, 0, -1), ((0, -1), 3, (-3, -1)), ([1], 2, (-1,)),
        (None, 3, None), ((), 3, ()),
    ])
    def test_counted_from_right(self, dim, ndim, actual):
        assert counted_from_right(dim, ndim) == actual

    @pytest.mark.parametrize("dim", [None, (), []])
    def test_none_and_nothing_reduce_all_dimensions(self, dim):
        assert counted_from_right(dim, 3, reducing=True) == (-3, -2, -1)
        assert counted_from_right(dim, 0, reducing=True) == ()

    @pytest.mark.parametrize(("dim", "ndim"), [(3, 3), (-4, 3), (1, 0), ((0, 2), 2)])
    def test_dimensions_are_those_of_an_example(self, dim, ndim):
        with pytest.raises(IndexError, match="Dimension out of range"):
            counted_from_right(dim, ndim)


class TestRefusals:
    def test_attributes_are_those_of_the_op(self):
        with pytest.raises(TypeError, match="split_with_sizes has no attribute 'sizes'; it has split_sizes, dim"):
            batch("split_with_sizes", x34, sizes=(1, 3))
        with pytest.raises(TypeError, match="split_with_sizes needs its attribute 'split_sizes'"):
            batch("split_with_sizes", x34)

    def test_an_op_without_a_word_is_named(self):
        op = parse(type("without_words", (), {"forward": lambda xp, x: x, "nondiff": True}))
        with pytest.raises(MissingRuleError, match=r"^without_words has no batching rule; give its block a batch rule"):
            run_batched(RAW, op, 3, (True,), (x34,), {})

    @pytest.mark.parametrize("name", ["argwhere", "nonzero_places", "unique_all", "unique_values", "unique_runs"])
    def test_what_depends_on_values(self, name):
        with pytest.raises(RuntimeError, match=f"^{name} cannot be batched: how many .* depends on the values"):
            batch(name, x34)

    def test_a_loop_over_no_examples(self):
        with pytest.raises(RuntimeError, match=r"^isin: a batch of no examples has no result"):
            batch("isin", x34[:0], x34[:0])

    def test_no_example_has_the_dimension_of_the_batch(self):
        for name, dim in (("cumsum", 1), ("sort", 1), ("sum", 1), ("unsqueeze", 2), ("prod", 1)):
            with pytest.raises(IndexError, match="Dimension out of range"):
                batch(name, x34, dim=dim)

    def test_examples_of_no_dimension(self):
        with pytest.raises(RuntimeError, match="split expects at least a 1-dimensional tensor"):
            batch("split_with_sizes", x3, split_sizes=(1, 2))
        with pytest.raises(IndexError, match="tensor has no dimensions"):
            batch("unbind", x3)
        with pytest.raises(RuntimeError, match=r"self.dim\(\) cannot be 0"):
            batch("reinterpret", x3, dtype=uint8)
        assert batch("reinterpret", x3, dtype=int64).shape == (3,)

    def test_shapes_are_those_of_an_example(self):
        with pytest.raises(RuntimeError, match=r"shape '\[5\]' is invalid for input of size 4"):
            batch("reshape", x34, shape=(5,))
        with pytest.raises(RuntimeError, match="leading, non-existing dimension 0"):
            batch("expand", x34, shape=(-1, 4))
        with pytest.raises(RuntimeError, match="split_sizes to sum exactly to 4"):
            batch("split_with_sizes", x34, split_sizes=(1, 2))

    def test_as_strided_beyond_the_elements_of_an_example(self):
        origin = ((1,), 0)
        assert batch("strided_view", x34, place=((2,), (2,), 1), origin=origin).tolist() == [[1, 3], [5, 7], [9, 11]]
        with pytest.raises(RuntimeError, match="as_strided cannot be batched where it shows more of the storage"):
            batch("strided_view", x34, place=((2,), (2,), 3), origin=origin)


class TestCorners:
    def test_no_examples(self):
        none = np.ones((0, 2, 3), float32)
        shapes = {
            "prod": {}, "sum": {}, "cumsum": {"dim": 0}, "sort": {}, "squeeze": {}, "unsqueeze": {"dim": 0}, "sin": {},
            "reshape": {"shape": (-1,)}, "expand": {"shape": (4, 2, 3)}, "sum_to": {"shape": (3,)},
            "unfold": {"dimension": 0, "size": 2, "step": 1}, "basic_index": {"key": (..., 0)}, "unbind": {},
        }  # fmt: skip
        for name, attributes in shapes.items():
            result = batch(name, none, n=0, **attributes)
            one = getattr(RAW, name)(np.ones((2, 3), float32), **attributes)
            for f, o in [(result, one)] if REGISTRY[name].single else zip(result, one, strict=True):
                assert (f.shape, f.dtype) == ((0, *np.shape(o)), o.dtype), name

    def test_squeeze_leaves_a_single_example(self):
        assert batch("squeeze", np.ones((1, 1, 2))).shape == (1, 2)
        assert batch("squeeze", np.ones((1, 1)), dim=0).shape == (1,)

    def test_one_vector_is_searched_in_one_call(self):
        rows, values = np.array([1.0, 3.0, 5.0]), np.array([[0.0, 3.0], [9.0, 4.0]])
        result = batch("sorted_places", rows, values, batched=(False, True), right=False, out_int32=False)
        assert result.tolist() == [[0, 1], [3, 2]]

    def test_numbers_stay_numbers(self):
        result = batch("scatter_along", x34, np.array([[0], [1], [2]]), 9.0, dim=-1)
        assert result.tolist() == [[9, 1, 2, 3], [4, 9, 6, 7], [8, 9, 9, 11]]
        assert batch("basic_set", x34, 9.0, key=0)[:, 0].tolist() == [9, 9, 9]
        assert batch("isin", 2.0, x34).tolist() == [True, False, False]
        assert batch("isin", x34, 2.0).sum() == 1

    def test_one_place_for_many_values(self):
        result = batch("basic_set", np.zeros(2), x3, batched=(False, True), key=0)
        assert result.tolist() == [[0, 0], [1, 0], [2, 0]]

    def test_reinterpreted_bytes(self):
        result = batch("reinterpret", x34.astype(float32), dtype=uint8)
        assert result.shape == (3, 16)
        assert result.view(float32).astype(float64).tolist() == x34.tolist()
