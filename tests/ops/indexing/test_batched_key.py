"""Indexing with tensors on a batch: every subset of batched inputs, against one example after the other."""

import itertools

import numpy as np
import pytest

from autograd_gpu.core.declare.batch_rules import run_batched
from autograd_gpu.core.declare.op import RAW, REGISTRY

N = 3
MASK = np.array([True, False, True])
KEYS = {
    "one, behind a dimension": ((2, 4, 3), (-2,), [(2, 2)]),
    "two side by side": ((2, 3, 4, 2), (-3, -2), [(2, 1), (2,)]),
    "two apart, behind a dimension": ((2, 3, 2, 4), (-3, -1), [(2, 2), (2,)]),
    "first and last": ((3, 2, 4), (-3, -1), [(5,), (5,)]),
    "numbers": ((3, 2), (-2, -1), [(), ()]),
    "no places": ((2, 3), (-1,), [(0,)]),
    "a mask and places apart": ((2, 3, 2, 4), (-3, -1), [MASK, (2,)]),
    "places and a mask side by side": ((2, 4, 3), (-2, -1), [(2,), MASK]),
    "a mask of two dimensions": ((2, 2, 3, 4), (-3, -1), [np.stack([MASK, MASK[::-1]]), (4,)]),
    "four": ((2, 2, 2, 2), (-4, -3, -2, -1), [(3,)] * 4),
}


def draw(rng, shape, dims, parts):
    """The tensors of a key for N examples; a mask is the same in all."""
    return [part if isinstance(part, np.ndarray) else rng.integers(-shape[dim], shape[dim], size=(N, *part))
            for dim, part in zip(dims, parts, strict=True)]  # fmt: skip


def subsets(parts):
    choices = [(False,) if isinstance(part, np.ndarray) else (True, False) for part in parts]
    return [b for b in itertools.product((True, False), *choices) if any(b)]


def compare(name, batched, inputs, **attributes):
    inputs = [x if b or x.dtype == bool else x[0] for x, b in zip(inputs, batched, strict=True)]
    missing = len(REGISTRY[name].inputs) - len(inputs)
    result = run_batched(
        RAW, REGISTRY[name], N, [*batched, *[False] * missing], [*inputs, *[None] * missing], attributes
    )
    for i in range(N):
        one = [x[i] if b else x for x, b in zip(inputs, batched, strict=True)]
        np.testing.assert_allclose(result[i], getattr(RAW, name)(*one, **attributes), rtol=1e-12, err_msg=str(batched))
    assert len(result) == N


@pytest.mark.parametrize("key", KEYS)
def test_places_of_every_example(key):
    shape, dims, parts = KEYS[key]
    rng = np.random.default_rng(1)
    x, indices = rng.normal(size=(N, *shape)), draw(rng, shape, dims, parts)
    for batched in subsets(parts):
        compare("advanced_index", batched, [x, *indices], dims=dims)


@pytest.mark.parametrize("broadcast", [False, True])
@pytest.mark.parametrize("key", KEYS)
def test_sums_at_the_places_of_every_example(key, broadcast):
    """Whether g has the shape of what the key selects, or broadcasts to it."""
    shape, dims, parts = KEYS[key]
    rng = np.random.default_rng(2)
    indices = draw(rng, shape, dims, parts)
    one = RAW.advanced_index(np.zeros(shape), *(x if x.dtype == bool else x[0] for x in indices), dims=dims)
    g = rng.normal(size=(N, *(one.shape[1:] if broadcast else one.shape)))
    for batched in subsets(parts):
        compare("advanced_index_backward", batched, [g, *indices], dims=dims, shape=shape)


@pytest.mark.parametrize("padding_idx", [None, -1])
def test_a_table_for_every_example(padding_idx):
    rng = np.random.default_rng(3)
    x, weight = rng.integers(0, 4, size=(N, 2, 5)), rng.normal(size=(N, 2, 4, 3))
    for batched in ((True, False), (False, True), (True, True)):
        compare("embedding", batched, [x, weight], padding_idx=padding_idx)


def test_places_out_of_range_are_refused_in_every_example():
    x, index = np.zeros((2, 3)), np.array([[0], [3]])
    with pytest.raises(IndexError, match="out of bounds"):
        run_batched(RAW, REGISTRY["advanced_index"], 2, [True, True, False, False, False], [x, index, None, None, None],
                    {"dims": (-1,)})
