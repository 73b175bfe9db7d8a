"""The word `no_capture`."""

import pytest

from autograd_gpu.core.declare.op import REGISTRY
from autograd_gpu.core.declare.parse import parse
from autograd_gpu.errors import OpDeclarationError


def test_a_word_that_says_no_reason():
    class guesses:
        """An op."""

        def forward(xp, x):
            return x

        nondiff, no_capture = True, "luck"

    with pytest.raises(OpDeclarationError, match=r"op guesses: no_capture is one of cuSOLVER, .*; got 'luck'"):
        parse(guesses)


def test_only_calls_on_cuda_ask():
    for name in ("inv", "unique_all"):
        op = REGISTRY[name]
        assert op.cuda.__wrapped__
        assert not hasattr(op.forward, "__wrapped__")
