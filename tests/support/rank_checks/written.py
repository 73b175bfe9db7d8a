"""What collectives write to: saved tensors, recorded tensors, transforms, threads, groups of groups."""

import threading
import warnings

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import distributed as dist
from autograd_gpu import missing_names

RANK, SIZE = dist.get_rank(), dist.get_world_size()
LONG = 50000  # elements that are exchanged in two steps


def check_a_saved_tensor_that_is_written_to_is_noticed():
    w, x = ag.ones(LONG, requires_grad=True), ag.ones(LONG)
    loss = (w * x).sum()
    work = dist.all_reduce(x, async_op=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()  # before x is complete
    loss = (w * x).sum()  # saves what is not there yet
    work.wait()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    version = x._version
    dist.all_reduce(x)
    assert x._version == version + 1


def check_recorded_tensors():
    """Backward through what a collective has written passes the gradient on, as PyTorch does, and says so."""
    missing_names._WARNED.discard("backward through all_reduce")
    for view in (lambda x: x, lambda x: x[:2]):
        w = ag.ones(3, requires_grad=True)
        x = w * 2
        dist.all_reduce(view(x))
        assert view(x).tolist() == [2.0 * SIZE] * len(view(x))  # no word without backward
    with pytest.warns(UserWarning, match="all_reduce has written to a tensor that requires grad"):
        x.sum().backward()
    assert w.grad.tolist() == [2.0] * 3
    dist.broadcast(w, 0)  # a leaf, as PyTorch allows


def check_transforms_are_refused():
    def loss(x):
        y = x * x
        dist.all_reduce(y)
        return y.sum()
    point = ag.ones(2)
    with pytest.raises(RuntimeError, match="no derivative in forward mode"):
        ag.func.jvp(loss, (point,), (point,))
    for transform in (ag.func.vmap, ag.func.hessian, ag.func.laplacian):
        with pytest.raises(RuntimeError, match=r"distributed\.nn\.functional has differentiable ones"):
            transform(loss)(point)
    for transform in (ag.func.grad, ag.func.jacrev):
        missing_names._WARNED.discard("backward through all_reduce")
        with pytest.warns(UserWarning, match="has written to a tensor"):
            transform(loss)(point)
    compiled = ag.compile(lambda x: dist.nn.functional.all_reduce(x * 2))
    with pytest.warns(UserWarning, match="runs eagerly, not compiled: a collective communicates"):
        assert compiled(ag.ones(1)).item() == 2 * SIZE
    assert [compiled(ag.full((1,), float(i))).item() for i in range(3)] == [0.0, 2.0 * SIZE, 4.0 * SIZE]


class Averaged(ag.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        g = g.clone()
        dist.all_reduce(g)
        return g


def check_collectives_inside_of_backward():
    w = ag.ones(3, requires_grad=True)
    w.register_hook(lambda g: dist.all_reduce(g))
    w.register_post_accumulate_grad_hook(lambda p: dist.all_reduce(p.grad))
    (Averaged.apply(w) * (RANK + 1)).sum().backward()
    assert w.grad.tolist() == [SIZE * SIZE * SIZE * (SIZE + 1) / 2] * 3


def in_threads(call, count):
    errors = []

    def run(i):
        try:
            call(i)
        except Exception as error:
            errors.append(error)
    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors


def check_threads():
    groups = [dist.new_group(range(SIZE)) for _ in range(3)]
    def in_group(i):
        for step in range(10):
            x = ag.full((LONG,), float(RANK + i + step))
            dist.all_reduce(x, group=groups[i])
            assert x[-1].item() == SIZE * (i + step) + SIZE * (SIZE - 1) / 2
    in_threads(in_group, 3)
    for _ in range(3):  # all threads advance all works
        tensors = [ag.full((20 * LONG,), float(i), dtype=ag.float16) for i in range(4)]
        works = [dist.all_reduce(x, async_op=True) for x in tensors]
        in_threads(lambda i, works=works: works[i].wait(), 4)
        assert [x[-1].item() for x in tensors] == [SIZE * i for i in range(4)]


def check_errors_come_to_the_work_that_failed():
    large = ag.full((LONG,), 3e38)
    with np.errstate(over="raise"):
        failing = dist.all_reduce(large, async_op=True)
        x = ag.ones(LONG)
        dist.all_reduce(x)
        assert x[0].item() == SIZE
        for _ in range(2):
            with pytest.raises(dist.DistBackendError, match=r"all_reduce #\d+ .* failed: overflow"):
                failing.wait()
    dist.barrier()


def check_messages_of_another_size_or_tag():
    if RANK == 0:
        dist.send(ag.ones(2), 1)
    elif RANK == 1:
        with pytest.raises(dist.DistBackendError, match="the message has 8 bytes, and the tensor 16"):
            dist.recv(ag.zeros(4), 0)
    with pytest.raises(ValueError, match="tag must be a number from 0"):
        dist.send(ag.ones(1), (RANK + 1) % SIZE, tag=-1)


def check_works_that_nobody_waits_for():
    for _ in range(3):
        dist.all_reduce(ag.ones(LONG), async_op=True)
    x = ag.ones(LONG)
    dist.all_reduce(x)
    assert x[0].item() == SIZE


def check_groups_of_groups():
    count = dist.get_pg_count()
    half = dist.split_group(split_ranks=[list(range(SIZE // 2)), list(range(SIZE // 2, SIZE))])
    members = [rank for rank in range(SIZE) if (rank < SIZE // 2) == (RANK < SIZE // 2)]
    assert dist.get_process_group_ranks(half) == members
    last = dist.split_group(half, [[half.size() - 1]])  # numbers in the parent
    assert (last is None) == (members[-1] != RANK)
    if last is not None:
        assert dist.get_process_group_ranks(last) == [RANK]
        assert last.group_name == f"{half.group_name}.1"
    own, every = dist.new_subgroups(1)
    assert (dist.get_process_group_ranks(own), len(every)) == ([RANK], SIZE)
    assert dist.get_pg_count() == count + 2 + (last is not None)
    with pytest.raises(ValueError, match="must divide"):
        dist.new_subgroups(SIZE + 1)
    with pytest.raises(ValueError, match="in two of the groups"):
        dist.split_group(split_ranks=[[0], [0, 1]])
    dist.destroy_process_group(half)
    with pytest.raises(ValueError, match="was destroyed"):
        dist.barrier(half)


def check_a_rank_outside_of_a_group():
    alone = dist.new_group([0])
    x = ag.ones(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if RANK:
            assert dist.all_reduce(x, group=alone) is dist.broadcast(x, 0, group=alone) is dist.barrier(alone) is None
            with pytest.raises(ValueError, match="this rank is not in the group"):
                dist.nn.functional.all_reduce(x, group=alone)
    assert x.tolist() == [1.0, 1.0]
