"""The accelerator is CUDA, or none; without one the functions behave as in PyTorch."""

import inspect

import pytest

import autograd_gpu as ag
from autograd_gpu import accelerator

CALLS = dict.fromkeys(("set_device_index", "set_device_idx"), (0,))
HARMLESS = {"is_available", "device_count", "current_accelerator", "device_index", "set_stream"}


@pytest.mark.cpu
@pytest.mark.skipif(ag.cuda.is_available(), reason="about machines without a GPU")
@pytest.mark.parametrize("name", sorted(set(accelerator.__all__) - HARMLESS))
def test_without_one(name):
    call = getattr(accelerator, name)
    with pytest.raises(RuntimeError, match="Cannot access accelerator device when none is available"):
        call(*CALLS.get(name, ()))


@pytest.mark.cpu
def test_questions_without_one_are_answered():
    torch = pytest.importorskip("torch")
    if ag.cuda.is_available() or torch.cuda.is_available():
        pytest.skip("about machines without a GPU")
    for m in (torch, ag):
        result = (m.accelerator.is_available(), m.accelerator.device_count(), m.accelerator.current_accelerator())
        assert result == (False, 0, None)


@pytest.mark.cpu
def test_names_and_parameters_are_pytorchs():
    torch = pytest.importorskip("torch")
    for name in set(accelerator.__all__) - {"current_device_idx", "set_device_idx"}:  # deprecated there: *args
        theirs = inspect.signature(getattr(torch.accelerator, name), follow_wrapped=False).parameters
        ours = inspect.signature(getattr(accelerator, name)).parameters
        assert len(ours) == len(theirs), name


@pytest.mark.cuda
def test_on_cuda():
    assert accelerator.is_available()
    assert accelerator.device_count() == ag.cuda.device_count()
    assert accelerator.current_accelerator() == ag.device("cuda")
    before = accelerator.current_device_index()
    for device in (before, f"cuda:{before}", ag.device("cuda"), None):
        accelerator.set_device_index(device)
        assert accelerator.current_device_idx() == ag.cuda.current_device() == before
        accelerator.synchronize(device)
        assert accelerator.current_stream(device) == ag.cuda.current_stream()
    with accelerator.device_index(before), accelerator.device_index(None):
        x = ag.ones(100, device="cuda")
    assert accelerator.memory_allocated() == ag.cuda.memory_allocated() >= x.nbytes
    assert accelerator.memory_reserved() == ag.cuda.memory_reserved()
    assert accelerator.memory_stats() == ag.cuda.memory_stats()
    assert accelerator.get_memory_info() == ag.cuda.mem_get_info()
    accelerator.reset_peak_memory_stats()
    assert accelerator.max_memory_allocated() <= accelerator.max_memory_reserved()
    stream = ag.cuda.Stream()
    accelerator.set_stream(stream)
    try:
        assert accelerator.current_stream() == stream
    finally:
        accelerator.set_stream(ag.cuda.default_stream())
    accelerator.empty_cache()
    with pytest.raises(ValueError, match="cpu doesn't match the current accelerator cuda"):
        accelerator.set_device_index("cpu")
