"""What a generator draws on either device, and what the state of one on CUDA is."""

import numpy as np
import pytest

import autograd_gpu as ag


@pytest.mark.parametrize("distribution", ["random", "standard_normal", "standard_exponential"])
def test_shapes_and_dtypes(distribution, device):
    generator = ag.Generator(device)
    for shape in (3, (2, 4), (), (np.int64(2), np.int32(0)), (np.int64(3),)):
        for dtype in (np.dtype("float32"), np.dtype("float64")):
            drawn = generator.draw(distribution, shape, dtype=dtype)
            assert np.shape(drawn) == (shape if isinstance(shape, tuple) else (shape,))
            assert drawn.dtype == dtype if np.shape(drawn) else True
    assert ag.rand(np.int64(3), 2, device=device, generator=generator).shape == (3, 2)
    drawn = ag.randint(np.int64(-2), np.int64(1), (50,), device=device, generator=generator)
    assert sorted(set(drawn.tolist())) == [-2, -1, 0]


@pytest.mark.parametrize("bounds", [(0, 2**63 + 1), (-(2**63) - 1, 0)])
def test_integers_that_int64_does_not_hold(bounds, device):
    with pytest.raises(ValueError, match=r"(low|high) is out of bounds for int64"):
        ag.randint(*bounds, (2,), device=device)
    assert ag.randint(-(2**63), 2**63, (2,), device=device).dtype == ag.int64


@pytest.mark.cuda
def test_a_state_on_cuda_is_a_seed_and_a_count_of_counters():
    generator = ag.Generator("cuda").manual_seed(-1)
    assert generator.get_state().view(ag.uint64).tolist() == [2**64 - 1, 0]
    draws = [
        (lambda: ag.rand(5, generator=generator), 2), (lambda: ag.rand(5, dtype="float64", generator=generator), 3),
        (lambda: ag.randn(0, generator=generator), 0), (lambda: ag.randint(3, (8,), generator=generator), 4),
        (lambda: ag.zeros(9, device="cuda").bernoulli_(0.5, generator=generator), 3),
        (lambda: ag.poisson(ag.ones(7, device="cuda"), generator), 7),
        (lambda: ag._standard_gamma(ag.ones(7, device="cuda"), generator), 7),
        (lambda: ag.binomial(ag.ones(3, 1, device="cuda"), ag.ones(2, device="cuda"), generator), 6),
    ]  # fmt: skip
    taken = 0
    for draw, counters in draws:
        draw()
        taken += counters
        assert generator.get_state().view(ag.uint64).tolist() == [2**64 - 1, taken]
    generator.set_state(ag.tensor([5, 2**64 - 1], dtype=ag.uint64, device="cpu").view(ag.uint8))
    assert generator.initial_seed() == 5
    ag.rand(5, generator=generator)
    assert generator.get_state().view(ag.uint64).tolist() == [5, 1]  # the counters begin again behind the last
    with pytest.raises(RuntimeError, match="RNG state is wrong size"):
        generator.set_state(ag.get_rng_state())
    with pytest.raises(TypeError, match="RNG state must be"):
        generator.set_state([5, 6])
    assert generator.get_state().view(ag.uint64).tolist() == [5, 1]
