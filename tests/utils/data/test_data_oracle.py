"""Datasets, samplers, collation and arguments of DataLoader beside PyTorch: equal results, or equal errors."""

import collections
import collections.abc
import inspect
import itertools
import re
import types

import against_torch
import numpy as np
import pytest

import autograd_gpu as ag

torch = against_torch.torch
pytestmark = pytest.mark.cpu

Point = collections.namedtuple("Point", "x y")


def shown(value):
    """What can be compared: tensors by dtype and values, containers by their types."""
    if isinstance(value, (torch.Tensor, ag.Tensor)):
        return str(value.dtype).removeprefix("torch."), value.tolist()
    if isinstance(value, np.ndarray):
        return "array", str(value.dtype), value.tolist()
    if isinstance(value, collections.abc.Mapping):
        return type(value).__name__, {key: shown(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, collections.UserList)):
        return type(value).__name__, [shown(item) for item in value]
    return value


def outcome(program, m):
    try:
        return shown(program(m, m.utils.data))
    except (AssertionError, AttributeError, IndexError, KeyError, NotImplementedError, RuntimeError, TypeError,
            ValueError) as error:  # fmt: skip
        return type(error), re.sub(r"\s+", "", str(error))


def streams(data):
    class Count(data.IterableDataset):
        def __init__(self, n=5, length=None):
            self.n, self.length = n, length

        def __iter__(self):
            return iter(range(self.n))

    class Sized(Count):
        def __len__(self):
            return self.length

    return Count, Sized


def ranks_orders(data, n, count, shuffle, drop_last):
    """The indices of each rank in epoch 5."""
    samplers = [data.DistributedSampler(range(n), count, rank, shuffle, 11, drop_last) for rank in range(count)]
    for sampler in samplers:
        sampler.set_epoch(5)
    return [(len(sampler), list(sampler)) for sampler in samplers]


def count(data, n=5):
    return streams(data)[0](n)


def sized(data, n, length):
    return streams(data)[1](n, length)


class Together:
    """A dataset that reads several items at once, and may give too few of them."""

    def __init__(self, missing=0):
        self.missing = missing

    def __len__(self):
        return 3

    def __getitem__(self, index):
        raise AssertionError("one by one")

    def __getitems__(self, indices):
        return [10 * i for i in indices][: len(indices) - self.missing]


def tensors(m, *lengths):
    return m.utils.data.TensorDataset(*[m.arange(n) for n in lengths])


def both(data, **kwargs):
    """The batches of 7 numbers and of a stream of 7."""
    return [list(data.DataLoader(dataset, **kwargs)) for dataset in (range(7), count(data, 7))]


def set_later(data, name):
    setattr(data.DataLoader(range(3)), name, 3)


DATASETS = [
    lambda m, data: data.Dataset()[0],
    lambda m, data: len(data.Dataset()),
    lambda m, data: data.IterableDataset(),
    lambda m, data: len(count(data)),
    lambda m, data: tensors(m, 3, 3)[1],
    lambda m, data: tensors(m, 3, 3)[[2, 0]],
    lambda m, data: len(tensors(m, 3, 3)),
    lambda m, data: data.StackDataset(),
    lambda m, data: data.StackDataset(range(3), range(4)),
    lambda m, data: data.StackDataset(a=range(3), b=range(4)),
    lambda m, data: data.StackDataset(range(3), "abc")[1],
    lambda m, data: data.StackDataset(a=range(3), b="abc")[1],
    lambda m, data: data.StackDataset(range(3), "abc").__getitems__([0, 2]),
    lambda m, data: data.StackDataset(a=range(3), b=Together()).__getitems__([0, 2]),
    lambda m, data: data.StackDataset(Together(1)).__getitems__([0, 2]),
    lambda m, data: len(data.StackDataset(range(3), "abc")),
    lambda m, data: data.ConcatDataset([]),
    lambda m, data: data.ConcatDataset([count(data)]),
    lambda m, data: [data.ConcatDataset([range(3), "", "ab"])[i] for i in range(-5, 5)],
    lambda m, data: data.ConcatDataset([range(3)])[-4],
    lambda m, data: data.ConcatDataset([range(3), "ab"]).cumulative_sizes,
    lambda m, data: [int(x) for (x,) in (data.TensorDataset(m.arange(3)) + data.TensorDataset(m.arange(2)))],
    lambda m, data: list(count(data) + count(data, 2)),
    lambda m, data: list(data.ChainDataset([range(3)])),
    lambda m, data: len(data.ChainDataset([sized(data, 3, 4), sized(data, 2, 3)])),
    lambda m, data: len(data.ChainDataset([count(data)])),
    lambda m, data: data.Subset("abcd", [3, 1])[0],
    lambda m, data: data.Subset("abcd", [3, 1])[3],
    lambda m, data: data.Subset(tensors(m, 4), [3, 1])[[1, 0]],
    lambda m, data: data.Subset("abcd", [3, 1]).__getitems__([1, 0]),
    lambda m, data: data.Subset(Together(), [2, 1]).__getitems__([1, 0]),
    lambda m, data: data.random_split(range(9), [3, 4]),
    lambda m, data: data.random_split(range(9), [0.5, -0.5, 1.0]),
    lambda m, data: [len(part) for part in data.random_split(range(11), [0.3, 0.3, 0.4])],
    lambda m, data: [len(part) for part in data.random_split(range(5), [1])],
]

SAMPLERS = [
    lambda m, data: data.RandomSampler([]),
    lambda m, data: data.RandomSampler(range(3), num_samples=0),
    lambda m, data: data.RandomSampler(range(3), num_samples=2.0),
    lambda m, data: data.RandomSampler(range(3), replacement=1),
    lambda m, data: len(data.RandomSampler(range(3), num_samples=7)),
    lambda m, data: data.WeightedRandomSampler([1, 2], 0),
    lambda m, data: data.WeightedRandomSampler([1, 2], 2, replacement=1),
    lambda m, data: data.WeightedRandomSampler([[1, 2]], 2),
    lambda m, data: list(data.WeightedRandomSampler([1, 2], 3, False)),
    lambda m, data: list(data.WeightedRandomSampler([0, 0], 3)),
    lambda m, data: list(data.WeightedRandomSampler([0, 1], 3)),
    lambda m, data: sorted(data.WeightedRandomSampler(m.tensor([0.0, 0.5, 1.0]), 2, False)),
    lambda m, data: data.BatchSampler(range(3), 0, False),
    lambda m, data: data.BatchSampler(range(3), True, False),
    lambda m, data: data.BatchSampler(range(3), 2, 1),
    lambda m, data: [list(data.BatchSampler(range(n), 2, drop)) for n in range(5) for drop in (False, True)],
    lambda m, data: [len(data.BatchSampler(range(n), 2, drop)) for n in range(5) for drop in (False, True)],
    lambda m, data: list(data.SequentialSampler("abc")),
    lambda m, data: len(data.Sampler()),
    lambda m, data: data.DistributedSampler(range(4), 2, -1),
    lambda m, data: [ranks_orders(data, n, count, shuffle, drop) for n in (1, 2, 10, 3000) for count in (1, 2, 7)
                     for shuffle in (False, True) for drop in (False, True) if n > count or not drop],
]

LOADERS = [
    lambda m, data: data.DataLoader(range(3), num_workers=-1),
    lambda m, data: data.DataLoader(range(3), timeout=-1),
    lambda m, data: data.DataLoader(range(3), prefetch_factor=2),
    lambda m, data: data.DataLoader(range(3), persistent_workers=True),
    lambda m, data: data.DataLoader(count(data), shuffle=True),
    lambda m, data: data.DataLoader(count(data), sampler=range(3)),
    lambda m, data: data.DataLoader(count(data), batch_sampler=[[1]]),
    lambda m, data: data.DataLoader(range(3), shuffle=True, sampler=range(3)),
    lambda m, data: data.DataLoader(range(3), batch_sampler=[[1]], batch_size=2),
    lambda m, data: data.DataLoader(range(3), batch_sampler=[[1]], drop_last=True),
    lambda m, data: data.DataLoader(range(3), batch_size=None, drop_last=True),
    lambda m, data: data.DataLoader(range(3), batch_size=0),
    lambda m, data: data.DataLoader(range(3), batch_size=2.5),
    lambda m, data: data.DataLoader([], shuffle=True),
    lambda m, data: data.DataLoader(range(3), multiprocessing_context="fork"),
    lambda m, data: data.DataLoader(range(3), num_workers=1, multiprocessing_context="thread"),
    lambda m, data: data.DataLoader(range(3), num_workers=1, multiprocessing_context=3),
    *[lambda m, data, name=name: set_later(data, name) for name in
      ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")],
    lambda m, data: len(data.DataLoader(count(data))),
    lambda m, data: [len(data.DataLoader(sized(data, 5, 5), size, drop_last=drop))
                     for size, drop in ((1, False), (2, False), (2, True), (None, False))],
    lambda m, data: both(data, batch_size=3),
    lambda m, data: both(data, batch_size=3, drop_last=True),
    lambda m, data: both(data, batch_size=None),
    lambda m, data: both(data, batch_size=None, collate_fn=lambda sample: -sample),
    lambda m, data: both(data, batch_size=4, collate_fn=tuple),
    lambda m, data: list(data.DataLoader(range(9), batch_sampler=[[1, 2], [8], (0,)])),
    lambda m, data: list(data.DataLoader(range(9), 2, sampler=[7, 5, 1])),
    lambda m, data: list(data.DataLoader(range(9), None, sampler=[7, 5, 1])),
    lambda m, data: list(data.DataLoader(tensors(m, 9), 2, sampler=[7, 5, 1])),
    lambda m, data: list(data.DataLoader(tensors(m, 9), batch_sampler=[[1, -1], [8]])),
    lambda m, data: list(data.DataLoader(data.Subset(tensors(m, 9), [4, 6, 8]), 2)),
    lambda m, data: list(data.DataLoader(data.Subset(data.Subset(range(9), [4, 6, 8]), [2, 0]), 2)),
    lambda m, data: list(data.DataLoader(tensors(m, 9), None, sampler=data.BatchSampler(range(5), 2, False))),
    lambda m, data: list(data.DataLoader(Together(), 2)),
    lambda m, data: list(data.DataLoader({"a": 1, "b": 2}, 2, sampler=["b", "a"])),
    lambda m, data: [vars(data.DataLoader(range(3)))[name] for name in
                     ("batch_size", "drop_last", "num_workers", "pin_memory", "timeout", "prefetch_factor",
                      "worker_init_fn", "generator", "persistent_workers", "pin_memory_device", "in_order")],
    lambda m, data: [data.DataLoader(range(3)).collate_fn.__name__,
                     data.DataLoader(range(3), batch_size=None).collate_fn.__name__,
                     type(data.DataLoader(range(3), shuffle=True).sampler).__name__,
                     type(data.DataLoader(range(3)).batch_sampler).__name__],
    lambda m, data: len(iter(data.DataLoader(range(5), 2))),
    lambda m, data: data.get_worker_info(),
]  # fmt: skip


def values(m):
    """Samples, two of each kind."""
    yield m.ones(2), m.zeros(2)
    yield m.ones(2, dtype=m.float64), m.zeros(2)
    yield np.ones(2, "f4"), np.zeros(2, "f4")
    yield np.ones(2, "f4"), np.zeros(2, "f8")
    yield np.array(1.5), np.array(2)
    yield np.float32(1), np.float32(2)
    yield np.int64(1), np.int64(2)
    yield np.bool_(True), np.bool_(False)
    yield np.str_("a"), np.str_("b")
    yield True, False
    yield 1, 2
    yield 1, 2.5
    yield 1.5, 2
    yield "a", "b"
    yield b"a", b"b"
    yield (1, m.ones(1)), (2, m.zeros(1))
    yield [1, "x"], [2, "y"]
    yield Point(1, 2.0), Point(3, 4.0)
    yield {"a": 1, "b": [1]}, {"b": [2], "a": 3}
    yield collections.OrderedDict(a=1), collections.OrderedDict(a=2)
    yield collections.defaultdict(list, a=1), collections.defaultdict(list, a=2)
    yield collections.UserList([1]), collections.UserList([2])
    yield types.MappingProxyType({"a": 1}), types.MappingProxyType({"a": 2})
    yield range(3), range(3)
    yield [], []
    yield (), ()
    yield m.ones(2), m.zeros(3)
    yield np.ones(2), np.zeros(3)
    yield (1, 2), (1,)
    yield {"a": 1}, {"b": 1}
    yield np.array(["a"]), np.array(["b"])
    yield np.array([None]), np.array([None])
    yield None, None
    yield {1}, {2}
    yield 1j, 2j
    yield object, object
    yield np.datetime64("2020"), np.datetime64("2021")


KINDS = range(len(list(values(ag))))
COLLATE = [lambda m, data, i=i: data.default_collate(list(next(itertools.islice(values(m), i, None)))) for i in KINDS]
CONVERT = [lambda m, data, i=i: data.default_convert(next(itertools.islice(values(m), i, None))[0]) for i in KINDS
           if i != KINDS[-1]]  # fmt: skip
PROGRAMS = [
    pytest.param(program, id=f"{family}-{i}")
    for family, programs in (("dataset", DATASETS), ("sampler", SAMPLERS), ("loader", LOADERS), ("collate", COLLATE),
                             ("convert", CONVERT))
    for i, program in enumerate(programs)
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_beside_pytorch(program):
    assert outcome(program, ag) == outcome(program, torch)


def test_arguments_have_pytorchs_names_order_and_defaults():
    for name in ("DataLoader", "BatchSampler", "RandomSampler", "SubsetRandomSampler", "WeightedRandomSampler",
                 "SequentialSampler", "Subset", "ConcatDataset", "random_split"):  # fmt: skip
        ours, theirs = (inspect.signature(getattr(m.utils.data, name)).parameters for m in (ag, torch))
        own = [p for p in ours.values() if p.name != "seed"]  # ours alone
        assert [(p.name, p.kind) for p in own] == [(p.name, p.kind) for p in theirs.values()]
        for p in own:
            if p.name != "generator":  # random_split has PyTorch's default generator itself
                assert p.default == theirs[p.name].default
