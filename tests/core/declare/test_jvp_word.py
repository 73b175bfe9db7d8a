"""JvpWord: a spec of `jvp` that has a meaning of its own."""

import pytest

from autograd_gpu.core.declare.jvp_rules import ELEMENTWISE, LINEAR, MULTILINEAR
from autograd_gpu.core.declare.jvp_word import JvpWord

pytestmark = pytest.mark.cpu


def test_it_prints_as_its_name_and_pushes_by_its_function():
    word = JvpWord("DOUBLED", lambda F, call, tangents: tuple(2 * t for t in tangents))
    assert repr(word) == "DOUBLED"
    assert word.push(None, None, (1, 2)) == (2, 4)
    assert not word.several_outputs


def test_only_linear_is_for_several_outputs():
    assert [word.several_outputs for word in (ELEMENTWISE, LINEAR, MULTILINEAR)] == [False, True, False]
