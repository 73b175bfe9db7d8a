"""One program run with PyTorch and with us: results, or the errors' types and texts, have to be equal."""

import re

import pytest

import autograd_gpu as ag

torch = pytest.importorskip("torch")


WORDINGS = {  # where our texts differ from PyTorch's
    r"Hint: (enable|write to).*|Please open.*|Clone the input.*|; (clone\(\)|after a write).*": "",
    r"torch\.FloatTensor|autograd_gpu\.float32": "FLOAT", "saved variables": "saved tensors",
    r"\s+|Backward0?|torch\.|ag\.|See https://.*": "", r"\.$": "",
}  # fmt: skip


def hooks_of(m):
    return m.autograd.graph.saved_tensors_hooks


def same(t):
    return t


def plain(value):
    """Tensors as lists, so that the libraries compare."""
    if isinstance(value, (torch.Tensor, ag.Tensor)):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return pytest.approx(value, rel=1e-5, nan_ok=True) if isinstance(value, float) else value


def outcome(program, m):
    try:
        return plain(program(m))
    except (RuntimeError, TypeError, AttributeError) as error:
        message = str(error)
        for pattern, text in WORDINGS.items():
            message = re.sub(pattern, text, message)
        return type(error), message


def both(program):
    expected, result = outcome(program, torch), outcome(program, ag)
    assert result == expected, f"PyTorch: {expected}\nhere:    {result}"
    return result


def leaf(m, *values):
    return m.tensor([float(v) for v in values] or [1.0, 2.0], requires_grad=True)
