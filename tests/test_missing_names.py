"""Names that are not here: the error says why and what to use, hasattr is False, near names are suggested."""

import copy
import functools
import importlib
import pickle
import warnings

import pytest

import autograd_gpu as ag
from autograd_gpu import missing_names

pytestmark = pytest.mark.cpu

EXPLAINED = {  # a name -> a part of what the error says
    "conv_tbc": "convolutions are not aimed at", "max_pool2d": "layers for images", "complex": "two tensors",
    "chalf": "complex", "view_as_complex": "complex", "polar": "complex",
    "stft": "Fourier", "sparse_coo_tensor": "sparse", "jit.set_fusion_strategy": "ag.save",
    "quantization": "ag.hooks.quantize", "ao": "quantize", "qint8": "quantize",
    "nested": "mask", "FloatStorage": "x.array", "mps": 'a device is "cpu"',
    "overrides": "subclass",
    "profiler.itt": "ag.profiler.profile", "symeig": "ag.linalg", "range": "arange",
    "default_generator": "ag.random.default_generator",
    "compiler.compiled_with": "not exported", "to_dlpack": "ag.from_dlpack",
}  # fmt: skip
METHODS = {
    "imag": "complex", "to_sparse": "sparse", "set_": "x.array", "apply_": "whole tensor",
    "stft": "Fourier", "share_memory_": "share no memory", "as_subclass": "subclass",
    "is_quantized": "quantize",
}  # fmt: skip
NEAR = {"optim.Adamw": "AdamW", "func.hessians": "hessian",
        "sigmiod": "sigmoid", "nn.Linaer": "Linear", "nn.functional.sotfmax": "softmax", "optim.Adamm": "Adam",
        "linalg.sdv": "svd", "cuda.syncronize": "synchronize", "nn.utils.clip_grad_norms_": "clip_grad_norm_",
        "testing.assert_closed": "assert_close"}  # fmt: skip
SPACES = ["", "nn", "nn.functional", "nn.modules", "nn.utils", "optim", "linalg", "special", "cuda", "utils", "jit",
          "compiler", "profiler", "testing", "func"]  # fmt: skip


def space(name):
    return functools.reduce(getattr, filter(None, name.split(".")), ag)


def error_of(dotted):
    owner, _, name = dotted.rpartition(".")
    assert not hasattr(space(owner), name)
    with pytest.raises(AttributeError) as error:
        getattr(space(owner), name)
    return str(error.value)


@pytest.mark.parametrize("name", EXPLAINED)
def test_the_error_says_why(name):
    text = error_of(name)
    owner, _, last = name.rpartition(".")
    assert text.startswith(f"module '{'.'.join(filter(None, ('autograd_gpu', owner)))}' has no attribute '{last}': ")
    assert EXPLAINED[name] in text
    assert "\n" not in text


@pytest.mark.parametrize("name", EXPLAINED)
def test_what_is_explained_is_pytorchs(name):
    """Or was; and nothing that is here is said to be missing."""
    torch = pytest.importorskip("torch")
    result = torch
    for part in name.split("."):
        try:
            there = hasattr(result, part)
            result = getattr(result, part) if there else importlib.import_module(f"{result.__name__}.{part}")
        except ModuleNotFoundError:
            assert name in ("utils.tensorboard", "compiler.compiled_with")
            return


@pytest.mark.parametrize("name", METHODS)
def test_methods_of_tensors(name):
    x = ag.ones(2)
    assert not hasattr(x, name)
    with pytest.raises(AttributeError, match=f"'Tensor' object has no attribute '{name}': .*{METHODS[name]}"):
        getattr(x, name)
    assert name in missing_names.TENSOR_NAMES
    assert name not in dir(x)
    assert "numpy" in dir(x)


def test_other_attributes_of_tensors_are_left_to_python():
    with pytest.raises(AttributeError, match="no attribute 'foo'"):
        ag.ones(2).foo  # noqa: B018
    assert not hasattr(ag.Tensor, "__getattr__")


@pytest.mark.parametrize("name", NEAR)
def test_near_names_are_suggested(name):
    assert error_of(name).endswith(f"Did you mean: '{NEAR[name]}'?")


@pytest.mark.parametrize("name", SPACES)
def test_other_names(name):
    where = ".".join(filter(None, ("autograd_gpu", name)))
    text, beginning = error_of(f"{name}.qqqqqq".lstrip(".")), f"module '{where}' has no attribute 'qqqqqq'"
    assert text.startswith(f"{beginning}: ") if name in ("jit", "compiler", "profiler") else text == beginning
    assert not hasattr(space(name), "__wrapped__")


def test_nothing_public_is_said_to_be_missing():
    for name in SPACES:
        for public in getattr(space(name), "__all__", ()):
            if name not in ("jit", "compiler", "profiler"):
                assert missing_names.explanation(f"{name}.{public}".lstrip(".")) is None, (name, public)
    for public in dir(ag.Tensor):
        if public not in missing_names.TENSOR_NAMES:
            assert missing_names.explanation(f"Tensor.{public}") is None, public


def test_the_error_can_be_copied():
    with pytest.raises(AttributeError) as error:
        ag.polar  # noqa: B018
    for other in (copy.copy(error.value), pickle.loads(pickle.dumps(error.value))):
        assert str(other) == str(error.value)


def test_imports():
    with pytest.raises(ImportError, match="cannot import name 'polar'"):
        from autograd_gpu import polar  # noqa: F401


def test_warnings_come_once(monkeypatch):
    monkeypatch.setattr(missing_names, "_WARNED", set())
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(3):
            ag.jit.script(ag.sin)
            ag.autocast("cpu")
    assert [str(w.message).partition(" ")[0] for w in seen] == ["jit.script", "autocast"]
    assert {w.filename for w in seen} == {__file__}
