"""Mistakes and late ranks: the error names the rank and the collective, and the group can go on."""

import time

import pytest

import autograd_gpu as ag
from autograd_gpu import distributed as dist
from autograd_gpu.distributed import failure

RANK, SIZE = dist.get_rank(), dist.get_world_size()


def check_what_differs_is_named():
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    mine = RANK == 1
    calls = [
        (lambda: dist.all_reduce(ag.ones(3 + mine)), r"rank 0: all_reduce #\d+ \(float32 \[3\], SUM\); "
                                                     r"rank 1: all_reduce #\d+ \(float32 \[4\], SUM\)"),
        (lambda: dist.broadcast(ag.ones(3, dtype=ag.float64 if mine else ag.float32), 0), r"float64 \[3\], from 0"),
        (lambda: dist.broadcast(ag.ones(3), RANK), r"rank 1: broadcast #\d+ \(float32 \[3\], from 1\)"),
        (lambda: dist.all_reduce(ag.ones(3), dist.ReduceOp.MAX if mine else dist.ReduceOp.SUM), r"\[3\], MAX\)"),
        (lambda: (dist.barrier if mine else dist.all_reduce)(*[] if mine else [ag.ones(1)]), r"rank 1: barrier #\d+"),
    ]  # fmt: skip
    for call, words in calls:
        with pytest.raises(dist.DistBackendError, match=words):
            call()
    x = ag.ones(3)
    dist.all_reduce(x)
    dist.set_debug_level(dist.DebugLevel.OFF)
    assert x.tolist() == [SIZE] * 3
    with pytest.raises(TypeError, match="DebugLevel"):
        dist.set_debug_level("DETAIL")


def check_a_late_rank_is_named():
    grace, failure.GRACE = failure.GRACE, 0.2
    x, comm = ag.ones(2), dist.GroupMember.WORLD.engine.comm
    if RANK == 1:
        for _ in range(SIZE - 1):  # does nothing until all others have given up
            until = time.monotonic() + 10
            while not comm.Iprobe(tag=77):
                assert time.monotonic() < until
                time.sleep(0.01)
            comm.recv(tag=77)
        dist.all_reduce(x)
    else:
        work = dist.all_reduce(x, async_op=True)
        late = rf"all_reduce #\d+ .*did not complete within .* s on rank {RANK}: rank 1 did not come to it"
        with pytest.raises(dist.DistBackendError, match=late):
            work.wait(0.2)
        assert not work.is_success()
        assert work.is_completed()
        assert "rank 1" in str(work.exception())
        comm.send(None, 1, tag=77)
    dist.barrier()  # the late rank has come, so that the group is in step
    failure.GRACE = grace


def check_another_collective_is_named():
    x = ag.ones(40000)
    if RANK == 0:
        work = dist.all_reduce(x, async_op=True)
        with pytest.raises(dist.DistBackendError, match=r"rank 1 waits in barrier #\d+"):
            work.wait(0.3)
        dist.barrier()
    else:
        dist.barrier()
        dist.all_reduce(x)
