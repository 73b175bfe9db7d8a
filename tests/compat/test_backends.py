"""Settings of backend libraries: the precision of products is tied to its switch, the others are accepted."""

import importlib

import pytest

import autograd_gpu as ag

pytestmark = pytest.mark.cpu


@pytest.fixture(autouse=True)
def _restored():
    yield
    ag.set_float32_matmul_precision("highest")


def test_tf32_is_the_precision_of_products():
    torch = pytest.importorskip("torch")
    try:
        for m in (torch, ag):
            matmul, seen = m.backends.cuda.matmul, []
            for allowed in (True, False):
                matmul.allow_tf32 = allowed
                seen.append((matmul.allow_tf32, m.get_float32_matmul_precision()))
            assert seen == [(True, "high"), (False, "highest")]
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False
    ag.set_float32_matmul_precision("medium")
    assert ag.backends.cuda.matmul.allow_tf32


def test_other_settings_of_products():
    for m in (pytest.importorskip("torch"), ag):
        with pytest.raises(AttributeError, match="Unknown attribute foo"):
            m.backends.cuda.matmul.foo = True
        assert not hasattr(m.backends.cuda.matmul, "foo")
    before = ag.backends.cuda.matmul.allow_fp16_reduced_precision_reduction
    ag.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = True
    assert before is False
    del ag.backends.cuda.matmul.allow_fp16_reduced_precision_reduction


@pytest.mark.parametrize("name", ["mps", "mkl", "mkldnn", "openmp", "cudnn"])
def test_libraries_that_are_not_used(name):
    module = importlib.import_module(f"autograd_gpu.backends.{name}")
    assert getattr(ag.backends, name) is module
    assert module.is_available() is False
    assert not ag.backends.mps.is_built()


def test_flags_of_cudnn():
    cudnn = ag.backends.cudnn
    before = (cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32)
    with cudnn.flags(enabled=False, benchmark=True, deterministic=True, allow_tf32=False):
        assert (cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32) == (False, True, True, False)
    with pytest.raises(KeyError), cudnn.flags(benchmark=not before[1]):
        raise KeyError
    assert (cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32) == before
