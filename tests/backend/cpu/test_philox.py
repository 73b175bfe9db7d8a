"""Philox against the answers of Random123."""

import numpy as np
import pytest

from autograd_gpu.backend.cpu.philox import words

pytestmark = pytest.mark.cpu

# Random123's known answers: counter, key, words.
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
     (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
]  # fmt: skip


def joined(low, high):
    return high << 32 | low


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN)
def test_known_answers(counter, key, answer):
    result = words(joined(*key), joined(*counter[:2]), 1, turn=joined(*counter[2:]))
    assert result.tolist() == [list(answer)]


def test_counters_go_on():
    """Also past 2^32 and 2^64."""
    seed = 2**64 - 5
    for start in (0, 2**32 - 2, 2**64 - 2):
        together = words(seed, start, 4)
        apart = [words(seed, (start + i) % 2**64, 1)[0] for i in range(4)]
        np.testing.assert_array_equal(together, apart)
