"""Results and errors of distributions and transforms in both libraries, made comparable."""

import re

import numpy as np


def numpy(x):
    return x.numpy(force=True)


def assert_close(actual, expected, what, tolerance=1e-9):
    actual, expected = numpy(actual), numpy(expected)
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype), what
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance, err_msg=what)


def gradients(m, result, inputs):
    """Of a weighted sum of the result by each input, as arrays; zeros where there is no path."""
    if not result.requires_grad:
        return [np.zeros(x.shape) for x in inputs]
    weights = m.tensor(2 + np.cos(np.arange(result.numel())).reshape(result.shape))  # no inf - inf
    grads = m.autograd.grad((result * weights).sum(), inputs, allow_unused=True)
    return [np.zeros(x.shape) if g is None else numpy(g) for g, x in zip(grads, inputs, strict=True)]


def plain(text):
    """The text of a shape or a tensor, as both libraries have it."""
    text = re.sub(r"torch\.Size\(\[([^]]*)\]\)", lambda at: str(tuple(map(int, re.findall(r"\d+", at[1])))), text)
    text = re.sub(r"(\.\d*?)0+(?=\D|$)", r"\1", text)
    return re.sub(r", (dtype|device|requires_grad|grad_fn)=[^,)]*|\s+", "", text)


def refusal(call):
    """The text of the ValueError that call() raises, as both libraries have it; None if it raises none."""
    try:
        call()
    except ValueError as error:
        return plain(str(error))
    return None
