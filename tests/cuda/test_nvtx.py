"""Ranges and marks: CuPy's on CUDA, nothing elsewhere; the functions answer alike."""

import pytest

import autograd_gpu as ag
from autograd_gpu.cuda import nvtx


class Recorder:
    """In the place of cupy.cuda.nvtx."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda *args: self.calls.append((name, *args))


def program():
    depths = [nvtx.range_push("outer"), nvtx.range_push("inner")]
    nvtx.mark("here")
    depths += [nvtx.range_pop(), nvtx.range_pop(), nvtx.range_pop()]
    with nvtx.range("batch {} of {n}", 1, n=2):
        pass

    @nvtx.range("decorated")
    def f():
        return 3

    assert f() == 3
    with pytest.raises(KeyError), nvtx.range("fails"):
        raise KeyError
    return depths


@pytest.mark.cpu
@pytest.mark.skipif(ag.cuda.is_available(), reason="about machines without a GPU")
def test_without_cuda():
    assert program() == [0, 1, 1, 0, -1]


@pytest.mark.cpu
def test_with_cuda(monkeypatch):
    recorder = Recorder()
    monkeypatch.setattr(nvtx, "_nvtx", lambda: recorder)
    program()
    assert recorder.calls == [
        ("RangePush", "outer"), ("RangePush", "inner"), ("Mark", "here"), *[("RangePop",)] * 3,
        ("RangePush", "batch 1 of 2"), ("RangePop",), ("RangePush", "decorated"), ("RangePop",),
        ("RangePush", "fails"), ("RangePop",),
    ]  # fmt: skip
