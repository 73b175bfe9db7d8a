"""Ten thousand replays and a thousand captures leave streams, events, graphs and memory as they were.

They run in a process of their own, whose CuPy computes nothing: otherwise the stand-in keeps a history, which grows.
"""

import subprocess
import sys
from textwrap import dedent

import pytest

from benchmarks import host_time

pytestmark = [pytest.mark.cpu, pytest.mark.more]

HELD = dedent("""
    import gc, os
    from collections import Counter
    from pathlib import Path

    import cupy

    import autograd_gpu as ag

    CUPYS = {"Event", "Graph", "Memory", "MemoryPool", "PinnedMemory", "PooledMemory", "Stream", "ndarray"}
    ag.set_default_device("cuda")
    x, w = ag.ones(100), ag.ones(100, requires_grad=True)
    update = ag.optim.Adam([w], lr=1e-3, capturable=True)

    def step(x, noise=ag.nn.functional.dropout):
        update.zero_grad()
        loss = (noise(x * w) ** 2).sum()
        loss.backward()
        update.step()
        return loss

    def belongs(kind):
        package = kind.__module__.partition(".")[0]
        return package == "autograd_gpu" or (package == "cupy" and kind.__name__ in CUPYS)

    def held():
        cupy.cuda.Device().synchronize()
        gc.collect()
        kinds = Counter([type(o).__qualname__ for o in gc.get_objects() if belongs(type(o))])
        return kinds, cupy.get_default_memory_pool().used_bytes()

    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def leaves_nothing(work, first, count):
        for _ in range(first):
            work()
        before, pages = held(), resident()
        for _ in range(count):
            work()
        assert held() == before, (work, held()[0] - before[0], held()[1] - before[1])
        assert resident() - pages < 6 << 20, (work, resident() - pages)  # 3 KB a stream are the stand-in's history

    gc.freeze()
""")
STEPS = dedent("""
    graphed = ag.cuda.make_graphed_step(step, warmup=1)

    def capture():
        graphed.reset()
        graphed(x)
        graphed(x)

    leaves_nothing(lambda: graphed(x), 1000, 10_000)
    leaves_nothing(capture, 100, 1000)
    assert graphed.graphs == 1
""")
COMPILED = dedent("""
    compiled = ag.compile(lambda x: step(x, lambda y: y * ag.rand(100)), mode="reduce-overhead", fullgraph=True)
    forward = ag.compile(lambda x: (x * w).tanh(), mode="reduce-overhead", fullgraph=True)

    def outside():
        out = forward(x)
        if outside.calls % 3:  # in each third call nobody asks for the backward, and what it would read stays behind
            out.backward(x)
        outside.calls += 1

    def capture():
        compiled.reset()
        for _ in range(6):
            compiled(x)

    outside.calls = 0
    for work, fast in ((lambda: compiled(x), compiled), (outside, forward)):
        leaves_nothing(work, 1000, 10_000)
        (kind,) = fast._kinds.values()
        assert [replay.graph for _, replay in kind.programs] == ["1 CUDA graph"]
        assert fast.counts.eager == 0 and fast.counts.traced < 5
    leaves_nothing(capture, 20, 200)
""")


@pytest.mark.parametrize("program", [STEPS, COMPILED], ids=["steps", "compiled"])
def test_nothing_is_left(program):
    done = subprocess.run(
        [sys.executable, "-c", HELD + program], env=host_time.settings(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
