"""Every collective on every rank, against NumPy on the inputs of all ranks, which each rank can compute."""

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import distributed as dist
from autograd_gpu.backend.arrays import dtypes
from autograd_gpu.distributed import ReduceOp

RANK, SIZE = dist.get_rank(), dist.get_world_size()
NUMBERS = sorted(dtypes.FLOATS | dtypes.INTEGERS | {dtypes.bool_}, key=str)
CODES = sorted(dtypes.STORAGE, key=str)
SHAPES = [(), (1,), (0,), (3, 0, 2), (7,), (5, 3), (SIZE, 2), (130001,)]
REDUCERS = {
    ReduceOp.SUM: np.add, ReduceOp.PRODUCT: np.multiply, ReduceOp.MIN: np.minimum, ReduceOp.MAX: np.maximum,
    ReduceOp.BAND: np.bitwise_and, ReduceOp.BOR: np.bitwise_or, ReduceOp.BXOR: np.bitwise_xor,
}  # fmt: skip


def values(rank, shape, dtype, seed=0):
    """The input of a rank: small integers, which all dtypes hold and sum exactly."""
    rng = np.random.default_rng([rank, seed, len(shape)])
    return rng.integers(0, 4, shape).astype(dtype)


def every(shape, dtype, seed=0):
    return [values(rank, shape, dtype, seed) for rank in range(SIZE)]


def tensor(array):
    return ag.tensor(array)


def holds(actual, expected):
    array = actual.cpu().numpy()
    assert array.dtype == expected.dtype, (array.dtype, expected.dtype)
    assert array.shape == expected.shape, (array.shape, expected.shape)
    np.testing.assert_array_equal(array, expected)


def strided(array):
    """A tensor with these values, every second element of its memory in the last dimension."""
    wide = ag.zeros(*array.shape[:-1], 2 * array.shape[-1], dtype=array.dtype)
    view = wide[..., ::2]
    view.copy_(tensor(array))
    return view


def reduced(op, arrays):
    return REDUCERS[op].reduce(np.stack(arrays)).astype(arrays[0].dtype)


def refuses(error, words, call, *arguments, **options):
    with pytest.raises(error, match=words):
        call(*arguments, **options)


def check_all_reduce_of_every_dtype():
    for dtype in NUMBERS:
        for op in REDUCERS:
            if op in (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR) and dtype in dtypes.FLOATS:
                refuses(TypeError, "integers or bools", dist.all_reduce, ag.zeros(2, dtype=dtype), op)
                continue
            x = tensor(values(RANK, (5, 3), dtype))
            dist.all_reduce(x, op)
            holds(x, reduced(op, every((5, 3), dtype)))


def check_all_reduce_of_every_shape():
    for shape in SHAPES:
        x = tensor(values(RANK, shape, np.float32))
        version = x._version
        assert dist.all_reduce(x) is None
        holds(x, reduced(ReduceOp.SUM, every(shape, np.float32)))
        assert x._version == version + 1
    for shape in [(7,), (0,), (5, 3), (1000, 60)]:
        x = strided(values(RANK, shape, np.float64))
        dist.all_reduce(x)
        holds(x, reduced(ReduceOp.SUM, every(shape, np.float64)))


def check_halves_are_summed_in_float32_and_rounded_once():
    for dtype in (ag.float16, ag.bfloat16):
        for count in (11, 40001):  # one exchange, and two
            inputs = [np.random.default_rng(rank).normal(size=count).astype(dtype) for rank in range(SIZE)]
            x, mean = tensor(inputs[RANK]), tensor(inputs[RANK])
            dist.all_reduce(x)
            dist.all_reduce(mean, ReduceOp.AVG)
            total = inputs[0].astype(np.float32)
            for array in inputs[1:]:
                total = total + array.astype(np.float32)
            holds(x, total.astype(dtype))
            holds(mean, (total / np.float32(SIZE)).astype(dtype))


def check_sums_have_equal_bits_on_all_ranks_and_go_in_their_order():
    for count in (100, 100003):
        inputs = [np.random.default_rng(rank).normal(size=count) for rank in range(SIZE)]
        x = tensor(inputs[RANK])
        dist.all_reduce(x)
        total = inputs[0]
        for array in inputs[1:]:
            total = total + array
        holds(x, total)


def check_reduce():
    for dst in range(SIZE):
        x = tensor(values(RANK, (4, 3), np.float32))
        dist.reduce(x, dst, ReduceOp.MAX)
        arrays = every((4, 3), np.float32)
        holds(x, reduced(ReduceOp.MAX, arrays) if dst == RANK else arrays[RANK])


def check_reduce_scatter():
    for dtype in (np.float32, np.int16, ag.bfloat16):
        total = reduced(ReduceOp.SUM, every((SIZE, 3, 2), dtype))
        out = ag.empty(3, 2, dtype=total.dtype)
        mine = values(RANK, (SIZE, 3, 2), dtype)
        dist.reduce_scatter_tensor(out, tensor(mine))
        holds(out, total[RANK])
        out = ag.zeros(3, 4, dtype=total.dtype)[:, ::2]
        dist.reduce_scatter(out, [tensor(part) for part in mine])
        holds(out, total[RANK])
    refuses(ValueError, "times the elements", dist.reduce_scatter_tensor, ag.zeros(2), ag.zeros(2 * SIZE + 1))


def check_all_gather_of_every_dtype_and_shape():
    for dtype in [*NUMBERS, *CODES]:
        mine = tensor(values(RANK, (2, 3), np.float32)).to(dtype)
        out = ag.zeros(2 * SIZE, 3).to(dtype)
        dist.all_gather_into_tensor(out, mine)
        expected = np.concatenate(every((2, 3), np.float32)).astype(dtype)
        holds(out.float(), expected.astype(np.float32))
    for shape in SHAPES:
        outs = [ag.zeros(*shape) if shape else ag.tensor(0.0) for _ in range(SIZE)]
        dist.all_gather(outs, tensor(values(RANK, shape, np.float32)))
        for out, array in zip(outs, every(shape, np.float32), strict=True):
            holds(out, array)
    outs = [ag.zeros(3, 8)[:, ::2] for _ in range(SIZE)]
    dist.all_gather(outs, strided(values(RANK, (3, 4), np.float32)))
    for out, array in zip(outs, every((3, 4), np.float32), strict=True):
        holds(out, array)
    refuses(ValueError, "one for each rank", dist.all_gather, [ag.zeros(2)], ag.zeros(2))


def check_broadcast():
    for dtype in [*NUMBERS, *CODES]:
        for src in range(SIZE):
            x = tensor(values(RANK, (3, 5), np.float32)).to(dtype)
            dist.broadcast(x, src)
            holds(x.float(), ag.tensor(values(src, (3, 5), np.float32)).to(dtype).float().cpu().numpy())
    for shape in SHAPES:
        x = tensor(values(RANK, shape, np.float32))
        dist.broadcast(x, group_src=SIZE - 1)
        holds(x, values(SIZE - 1, shape, np.float32))
    x = strided(values(RANK, (3, 4), np.float32))
    dist.broadcast(x, 0)
    holds(x, values(0, (3, 4), np.float32))
    refuses(ValueError, "not in the group", dist.broadcast, x, SIZE)


def check_gather_and_scatter():
    for root in range(SIZE):
        mine = tensor(values(RANK, (2, 3), np.int64))
        parts = [ag.zeros(2, 3, dtype=ag.int64) for _ in range(SIZE)] if root == RANK else None
        dist.gather(mine, parts, root)
        for part, array in zip(parts or (), every((2, 3), np.int64), strict=root == RANK):
            holds(part, array)
        out = ag.zeros(3, 4, dtype=ag.int64)[:, 1::2]
        whole = [tensor(values(rank, (3, 2), np.int64, seed=root)) for rank in range(SIZE)]
        dist.scatter(out, whole if root == RANK else None, root)
        holds(out, values(RANK, (3, 2), np.int64, seed=root))


def check_all_to_all():
    rows = [[1 + (i + 2 * j) % 3 for j in range(SIZE)] for i in range(SIZE)]  # rows[i][j]: from i to j
    def block(i, j):
        return np.full((rows[i][j], 2), 10 * i + j, np.float32)
    received = [rows[i][RANK] for i in range(SIZE)]
    out = ag.zeros(sum(received), 2)
    mine = tensor(np.concatenate([block(RANK, j) for j in range(SIZE)]))
    dist.all_to_all_single(out, mine, received, rows[RANK])
    holds(out, np.concatenate([block(i, RANK) for i in range(SIZE)]))
    outs = [ag.zeros(count, 2) for count in received]
    dist.all_to_all(outs, [tensor(block(RANK, j)) for j in range(SIZE)])
    for i, one in enumerate(outs):
        holds(one, block(i, RANK))
    equal = ag.arange(2 * SIZE) + 100 * RANK
    out = ag.zeros_like(equal)
    dist.all_to_all_single(out, equal)
    holds(out, np.concatenate([np.arange(2 * RANK, 2 * RANK + 2) + 100 * i for i in range(SIZE)]))
    refuses(ValueError, "no multiple", dist.all_to_all_single, ag.zeros(2 * SIZE + 1), ag.zeros(2 * SIZE + 1))


def check_memory_of_both_sides():
    """The own part of the output may be the input, as programs do that gather in place."""
    for rows in (2, 50000):
        x = ag.arange(float(rows * SIZE))
        mine = x[rows * RANK : rows * (RANK + 1)].add_(100 * RANK)
        dist.all_gather_into_tensor(x, mine)
        np.testing.assert_array_equal(x.cpu().numpy(), np.arange(rows * SIZE) + 100 * np.repeat(np.arange(SIZE), rows))
        x = ag.arange(float(rows * SIZE))
        dist.reduce_scatter_tensor(x[rows * RANK : rows * (RANK + 1)], x)
        assert x[rows * RANK].item() == SIZE * rows * RANK
        x = ag.arange(float(rows * SIZE)) + 1e6 * RANK
        dist.all_to_all_single(x, x)
        expected = np.concatenate([np.arange(rows * RANK, rows * (RANK + 1)) + 1e6 * rank for rank in range(SIZE)])
        np.testing.assert_array_equal(x.cpu().numpy(), expected)
        x = ag.full((SIZE, rows), float(RANK))
        dist.gather(x[0], list(x.unbind(0)) if RANK == 0 else None)
        assert x[:, 0].tolist() == (list(range(SIZE)) if RANK == 0 else [RANK] * SIZE)
        dist.scatter(x[0], list(x.unbind(0)) if RANK == 0 else None)
        assert x[0, 0].item() == RANK


def check_messages():
    after, before = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    x = ag.zeros(4, 6)[:, ::2]
    works = dist.batch_isend_irecv([
        dist.P2POp(dist.isend, tensor(values(RANK, (4, 3), np.float32)), after),
        dist.P2POp(dist.irecv, x, before),
    ])  # fmt: skip
    assert all(work.wait() for work in works)
    holds(x, values(before, (4, 3), np.float32))
    if RANK == 0:
        seen = set()
        any_rank = dist.get_backend() == "mpi"  # NCCL has no such messages
        if not any_rank:
            refuses(ValueError, "no messages from any rank", dist.recv, ag.zeros(1))
        for rank in range(1, SIZE):
            number = ag.zeros(200000)  # too long to be on its way before anyone receives it
            source = dist.recv(number, None if any_rank else rank, tag=3)
            seen.add(source)
            assert number[0].item() == source
        assert seen == set(range(1, SIZE))
    else:
        dist.send(ag.full((200000,), float(RANK)), 0, tag=3)
    refuses(ValueError, "this rank", dist.send, ag.zeros(1), RANK)


def check_objects():
    objects = [None] * SIZE
    dist.all_gather_object(objects, {"rank": RANK, "of": "x" * 50 * RANK})
    assert objects == [{"rank": rank, "of": "x" * 50 * rank} for rank in range(SIZE)]
    listed = [RANK, "from", RANK]
    dist.broadcast_object_list(listed, src=SIZE - 1)
    assert listed == [SIZE - 1, "from", SIZE - 1]
    gathered = [None] * SIZE if RANK == 1 else None
    dist.gather_object((RANK,), gathered, dst=1)
    assert RANK != 1 or gathered == [(rank,) for rank in range(SIZE)]
    out = [None]
    dist.scatter_object_list(out, [[rank] for rank in range(SIZE)] if RANK == 1 else None, src=1)
    assert out == [[RANK]]
    if RANK == 0:
        dist.send_object_list([1, "two"], dst=1)
    elif RANK == 1:
        received = [None, None]
        assert dist.recv_object_list(received, src=0) == 0
        assert received == [1, "two"]


def check_work_goes_on_in_any_order():
    tensors = [tensor(values(RANK, (count,), np.float64, seed=count)) for count in (70000, 3, 90001, 1, 50000)]
    works = [dist.all_reduce(x, async_op=True) for x in tensors]
    flag = ag.tensor([RANK])
    dist.broadcast(flag, 0)  # while the others are under way
    for i in (4, 0, 3, 2, 1) if RANK % 2 else (0, 2, 1, 4, 3):
        assert works[i].wait()
        assert works[i].is_completed()
        assert works[i].is_success()
        assert works[i].exception() is None
    for x in tensors:
        holds(x, reduced(ReduceOp.SUM, every(x.shape, np.float64, seed=x.numel())))
    future = dist.all_reduce(ag.ones(3), async_op=True).get_future().then(lambda future: future.value()[0] / SIZE)
    holds(future.wait(), np.ones(3, np.float32))


def check_groups():
    ranks = sorted({SIZE // 2, SIZE - 1})
    low, high = dist.new_group(range(SIZE // 2)), dist.new_group(ranks[::-1], timeout=5)
    alone = dist.new_group([0])
    for group, members in ((low, list(range(SIZE // 2))), (high, ranks), (alone, [0])):
        if RANK not in members:
            assert group is dist.GroupMember.NON_GROUP_MEMBER
            assert dist.get_rank(group) == -1
            continue
        assert dist.get_process_group_ranks(group) == members
        assert dist.get_rank(group) == members.index(RANK)
        assert dist.get_group_rank(group, RANK) == members.index(RANK)
        x = ag.tensor([float(RANK)])
        dist.all_reduce(x, group=group)
        assert x.item() == sum(members)
        x = ag.tensor([float(RANK)])
        dist.broadcast(x, src=members[-1], group=group)
        assert x.item() == members[-1]


def check_bytes_are_those_of_a_ring():
    engine = dist.GroupMember.WORLD.engine_for(ag.ones(1).array)
    before, count = engine.sent, 240000
    dist.all_reduce(ag.ones(count))
    total = ag.tensor([int(engine.sent - before)])
    dist.all_reduce(total)
    assert total.item() == 2 * (SIZE - 1) * 4 * count
