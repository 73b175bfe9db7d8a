"""Seeds, generators and the random factories."""

import threading

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.backend.dtypes import bfloat16


def test_manual_seed_repeats(device):
    ag.manual_seed(3)
    first = [ag.rand(5, device=device), ag.randn(5, device=device), ag.randperm(5, device=device)]
    assert ag.manual_seed(3).initial_seed() == 3
    again = [ag.rand(5, device=device), ag.randn(5, device=device), ag.randperm(5, device=device)]
    for a, b in zip(first, again, strict=True):
        assert a.tolist() == b.tolist()
    assert ag.rand(5, device=device).tolist() != first[0].tolist()


def test_generator_state(device):
    generator = ag.Generator(device).manual_seed(1)
    state = generator.get_state()
    a = ag.rand(4, generator=generator, device=device)
    generator.set_state(state)
    assert ag.rand(4, generator=generator).tolist() == a.tolist()
    generator.seed()
    assert generator.initial_seed() != 1


def test_negative_and_too_large_seeds():
    assert ag.Generator().manual_seed(-1).initial_seed() == 2**64 - 1
    with pytest.raises(RuntimeError, match="Overflow when unpacking long"):
        ag.manual_seed(2**64)


def test_ranges(device):
    ag.manual_seed(0)
    u, z = ag.rand(10_000, device=device), ag.randn(10_000, device=device)
    assert bool((u >= 0).all())
    assert bool((u < 1).all())
    assert abs(u.mean().item() - 0.5) < 0.02
    assert abs(z.mean().item()) < 0.05
    assert abs(z.std().item() - 1) < 0.05
    k = ag.randint(-2, 3, (1000,), device=device)
    assert sorted(set(k.tolist())) == [-2, -1, 0, 1, 2]
    assert sorted(ag.randperm(20, device=device).tolist()) == list(range(20))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_dtypes_and_shapes(dtype, device):
    wanted = bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    for size in ((2, 3), ((2, 3),), ((),), (0,)):
        x = ag.randn(*size, dtype=dtype, device=device, requires_grad=True)
        assert x.dtype == wanted
        assert x.requires_grad
        assert x.shape == (size if isinstance(size[0], int) else size[0])
    assert ag.randint(4, (2,), dtype=dtype, device=device).dtype == wanted


def test_errors(device):
    with pytest.raises(RuntimeError, match="expects 'from' to be less than 'to'"):
        ag.randint(3, 3, (2,), device=device)
    with pytest.raises(RuntimeError, match="random numbers of dtype int64"):
        ag.rand(2, dtype="int64", device=device)
    with pytest.raises(RuntimeError, match="Expected a 'cuda:1' generator but found one on 'cpu'"):
        ag.rand(2, generator=ag.Generator(), device="cuda:1")


def test_threads_share_one_stream():
    ag.manual_seed(0)
    drawn = []
    threads = [threading.Thread(target=lambda: drawn.append(ag.rand(1000).numpy(force=True))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ag.manual_seed(0)
    expected = [ag.rand(1000).numpy(force=True) for _ in range(8)]
    assert {a.tobytes() for a in drawn} == {a.tobytes() for a in expected}
