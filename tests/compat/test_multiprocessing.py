"""multiprocessing.spawn in a program that mpiexec has started."""

import pytest

import autograd_gpu as ag

pytestmark = pytest.mark.cpu


def test_spawn_finds_the_ranks_that_mpiexec_has_started(monkeypatch):
    monkeypatch.setenv("PMI_RANK", "1")
    monkeypatch.setenv("PMI_SIZE", "3")
    calls = []
    assert ag.multiprocessing.spawn(lambda *args: calls.append(args), args=("x",), nprocs=3) is None
    assert calls == [(1, "x")]
    with pytest.raises(RuntimeError, match="start it by mpiexec -n 2"):
        ag.multiprocessing.spawn(print, nprocs=2)
