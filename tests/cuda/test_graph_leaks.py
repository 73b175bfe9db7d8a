"""Ten thousand replays and a thousand captures leave streams, events, graphs and memory as they were.

They run in a process of their own, whose CuPy computes nothing: otherwise the stand-in keeps a history, which grows.
"""

import subprocess
import sys
from textwrap import dedent

import pytest

from benchmarks import host_time

pytestmark = [pytest.mark.cpu, pytest.mark.more]

PROGRAM = dedent("""
    import gc, os
    from collections import Counter
    from pathlib import Path

    import cupy

    import autograd_gpu as ag

    CUPYS = {"Event", "Graph", "Memory", "MemoryPool", "PinnedMemory", "PooledMemory", "Stream", "ndarray"}
    ag.set_default_device("cuda")
    x, w = ag.ones(100), ag.ones(100, requires_grad=True)
    update = ag.optim.Adam([w], lr=1e-3, capturable=True)

    def step(x):
        update.zero_grad()
        loss = (ag.nn.functional.dropout(x * w) ** 2).sum()
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

    graphed = ag.cuda.make_graphed_step(step, warmup=1)

    def replay():
        graphed(x)

    def capture():
        graphed.reset()
        graphed(x)
        graphed(x)

    gc.freeze()
    for work, first, count in ((replay, 1000, 10_000), (capture, 100, 1000)):
        for _ in range(first):
            work()
        before, pages = held(), resident()
        for _ in range(count):
            work()
        assert graphed.graphs == 1
        assert held() == before, (work, held()[0] - before[0], held()[1] - before[1])
        assert resident() - pages < 6 << 20, (work, resident() - pages)  # 3 KB a stream are the stand-in's history
""")


def test_nothing_is_left():
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=host_time.settings(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
