"""frombuffer beside PyTorch's."""

import array

import numpy as np
import pytest

import autograd_gpu as ag

pytestmark = pytest.mark.cpu


def test_it_shares_the_memory():
    buffer = bytearray(12)
    x = ag.frombuffer(buffer, dtype=ag.float32)
    x += 1
    assert np.frombuffer(buffer, np.float32).tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(RuntimeError, match="read-only"):
        ag.frombuffer(bytes(4), dtype=ag.float32).add_(1)


@pytest.mark.parametrize("options", [
    {}, {"count": 2}, {"offset": 4}, {"count": 1, "offset": 8}, {"count": 4}, {"offset": 3}, {"offset": 12},
    {"offset": 13}, {"count": 0}, {"offset": 2, "count": 2},
])  # fmt: skip
def test_as_pytorch(options):
    torch = pytest.importorskip("torch")
    buffer = array.array("i", [1, 2, 3])
    results = []
    for lib in (torch, ag):
        try:
            results.append(lib.frombuffer(buffer, dtype=lib.int32, **options).tolist())
        except ValueError:
            results.append("refused")
    assert results[0] == results[1]
