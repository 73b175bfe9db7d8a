"""Datasets and loaders: contents, order, determinism, errors."""

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    Sampler,
    SequentialSampler,
    Subset,
    TensorDataset,
    default_collate,
    random_split,
)


@pytest.fixture
def dataset(device):
    return TensorDataset(ag.arange(20, device=device).reshape(10, 2), ag.arange(10, device=device))


def rows(loader):
    return [batch[1].tolist() for batch in loader]


def test_batches_in_order(dataset, device):
    loader = DataLoader(dataset, batch_size=4)
    assert len(loader) == 3
    assert rows(loader) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    x, y = next(iter(loader))
    assert x.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert x.shape == (4, 2)
    assert x.device == dataset.tensors[0].device
    assert y.dtype == ag.int64


def test_drop_last(dataset):
    loader = DataLoader(dataset, batch_size=4, drop_last=True)
    assert len(loader) == len(list(loader)) == 2
    assert len(DataLoader(dataset, batch_size=5, drop_last=True)) == 2
    assert list(DataLoader(dataset, batch_size=11, drop_last=True)) == []


def test_batches_are_copies(dataset):
    for shuffle in (False, True):
        for x, _ in DataLoader(dataset, batch_size=10, shuffle=shuffle):
            with ag.no_grad():
                x.zero_()
    assert dataset.tensors[0].tolist()[-1] == [18, 19]


def test_shuffle_by_seed_repeats_and_changes_by_epoch(dataset):
    one, two = (DataLoader(dataset, batch_size=3, shuffle=True, seed=7) for _ in range(2))
    epochs = [rows(one) for _ in range(3)]
    assert [rows(two) for _ in range(3)] == epochs
    assert epochs[0] != epochs[1] != epochs[2]
    assert all(sorted(i for batch in epoch for i in batch) == list(range(10)) for epoch in epochs)
    assert rows(DataLoader(dataset, batch_size=3, shuffle=True, seed=8)) != epochs[0]


def test_pairs_stay_together(dataset):
    for x, y in DataLoader(dataset, batch_size=3, shuffle=True, seed=0):
        assert (x[:, 0] // 2).tolist() == y.tolist()


def test_an_abandoned_epoch_does_not_shift_the_next(dataset):
    one, two = (DataLoader(dataset, batch_size=3, shuffle=True, seed=7) for _ in range(2))
    next(iter(one))
    rows(two)
    assert rows(one) == rows(two)


def test_without_a_seed_the_global_one_rules(dataset):
    def two_epochs():
        ag.manual_seed(5)
        loader = DataLoader(dataset, batch_size=10, shuffle=True)
        return rows(loader) + rows(loader)

    first = two_epochs()
    assert first == two_epochs()
    assert first[0] != first[1]


def test_a_generator_is_drawn_from(dataset):
    def two_epochs():
        generator = ag.random.Generator().manual_seed(3)
        loader = DataLoader(dataset, batch_size=10, shuffle=True, generator=generator)
        return rows(loader) + rows(loader) + random_split(dataset, [9, 1], generator)[1].indices

    ag.manual_seed(1)
    first = two_epochs()
    ag.manual_seed(2)
    assert two_epochs() == first
    assert first[0] != first[1]


def test_generic_dataset_is_collated():
    class Pairs(Dataset):
        def __len__(self):
            return 3

        def __getitem__(self, i):
            return {"x": ag.full((2,), float(i)), "y": i, "name": f"n{i}"}

    (batch,) = DataLoader(Pairs(), batch_size=3)
    assert batch["x"].tolist() == [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]
    assert batch["y"].tolist() == [0, 1, 2]
    assert batch["name"] == ["n0", "n1", "n2"]


def test_a_subclass_that_changes_items_is_asked_for_items():
    class Negated(TensorDataset):
        def __getitem__(self, i):
            return -super().__getitem__(i)[0]

    assert next(iter(DataLoader(Negated(ag.arange(3)), batch_size=3))).tolist() == [0, -1, -2]


def test_any_sequence_is_a_dataset_and_collate_fn_decides():
    assert [b.tolist() for b in DataLoader([1.0, 2.0, 3.0], batch_size=2)] == [[1.0, 2.0], [3.0]]
    assert list(DataLoader("abc", batch_size=2, collate_fn="".join)) == ["ab", "c"]
    assert list(DataLoader([], batch_size=2)) == []


def test_default_collate():
    x, y = default_collate([(np.ones(2), 1.5), (np.zeros(2), 2.5)])
    assert x.dtype == ag.float64
    assert y.tolist() == [1.5, 2.5]
    assert default_collate([np.float32(1), np.float32(2)]).dtype == ag.float32
    with pytest.raises(TypeError, match="found <class 'object'>"):
        default_collate([object()])
    with pytest.raises(RuntimeError, match="equal size"):
        default_collate([(1, 2), (1,)])


def test_random_split(dataset):
    a, b = random_split(dataset, [7, 3], seed=1)
    assert (len(a), len(b)) == (7, 3)
    assert sorted(a.indices + b.indices) == list(range(10))
    assert random_split(dataset, [7, 3], seed=1)[0].indices == a.indices
    assert [len(p) for p in random_split(dataset, [0.55, 0.25, 0.2], seed=0)] == [6, 2, 2]
    ag.manual_seed(0)
    first = random_split(dataset, [5, 5])[0].indices
    ag.manual_seed(0)
    assert random_split(dataset, [5, 5])[0].indices == first
    with pytest.raises(ValueError, match="does not equal the length"):
        random_split(dataset, [7, 4])
    with pytest.raises(ValueError, match="Fraction at index 0"):
        random_split(dataset, [1.5, -0.5])


def test_subset_batches(dataset):
    part = Subset(dataset, [3, 1, 8])
    assert rows(DataLoader(part, batch_size=2)) == [[3, 1], [8]]
    assert part[2][1].item() == 8
    nested = Subset(part, [2, 0])
    assert rows(DataLoader(nested, batch_size=2)) == [[8, 3]]
    assert [b.tolist() for b in DataLoader(Subset([5, 6, 7], [2, 0]), batch_size=2)] == [[7, 5]]


def test_gradients_flow_to_a_dataset_that_requires_grad(device):
    x = ag.ones(4, 2, device=device, requires_grad=True)
    for (batch,) in DataLoader(TensorDataset(x), batch_size=3):
        batch.sum().backward()
    assert x.grad.tolist() == [[1.0, 1.0]] * 4


def test_errors(dataset):
    with pytest.raises(AssertionError, match=r"Size mismatch between tensors: their lengths are \[2, 3\]"):
        TensorDataset(ag.zeros(2), ag.zeros(3))
    with pytest.raises(ValueError, match="at least one tensor"):
        TensorDataset()
    with pytest.raises(TypeError, match="takes tensors, got list"):
        TensorDataset([1])
    with pytest.raises(ValueError, match="batch_size=0"):
        DataLoader(dataset, batch_size=0)
    with pytest.raises(ValueError, match="a seed is given, but shuffle is False and there are no workers"):
        DataLoader(dataset, seed=1)
    with pytest.raises(ValueError, match="stands alone"):
        DataLoader(dataset, shuffle=True, seed=1, generator=ag.random.Generator())
    with pytest.raises(ValueError, match="not both"):
        random_split(dataset, [5, 5], ag.random.Generator(), seed=1)
    with pytest.raises(NotImplementedError, match="Sampler does not define __iter__"):
        iter(Sampler())


class Broken(Dataset):
    def __init__(self, error):
        self.error = error

    def __len__(self):
        return 5

    def __getitem__(self, index):
        if index == 3:
            raise self.error
        return index


@pytest.mark.parametrize("batch_size", [2, None])
def test_an_error_names_the_item(batch_size):
    with pytest.raises(KeyError, match="no such") as caught:
        list(DataLoader(Broken(KeyError("no such")), batch_size))
    assert caught.value.__notes__ == ["This is item 3 of the Broken."]


def test_an_item_cannot_end_the_epoch():
    with pytest.raises(RuntimeError, match="item 3 of the Broken raised StopIteration"):
        list(DataLoader(Broken(StopIteration())))


def test_names_of_a_subclass_are_its_own():
    """Programs have attributes of these names on their datasets."""

    class Images(Dataset):
        def __init__(self):
            self.device, self.batch = "cuda:7", 3

        def __len__(self):
            return 2

        def __getitem__(self, index):
            return index

    assert [batch.tolist() for batch in DataLoader(Subset(Images(), [1, 0]), 2)] == [[1, 0]]


def test_tensors_of_one_dataset_on_two_devices(device):
    data = TensorDataset(ag.arange(4, device=device), ag.arange(4, device="cpu"))
    for loader in (DataLoader(data, 2), DataLoader(data, 2, sampler=range(4))):
        x, y = next(iter(loader))
        assert (x.tolist(), y.tolist()) == ([0, 1], [0, 1])
        assert (x.device, y.device) == (data.tensors[0].device, ag.device("cpu"))


def test_the_order_is_drawn_when_the_iteration_begins(dataset):
    generator = ag.Generator()
    loader = DataLoader(dataset, batch_size=10, shuffle=True, generator=generator)
    state = generator.get_state()
    begun = iter(loader)
    after = generator.get_state()
    generator.set_state(state)
    assert rows(loader) == [next(begun)[1].tolist()]
    assert generator.get_state().equal(after)


def test_a_subclass_of_a_sampler_decides():
    class Backwards(SequentialSampler):
        def __iter__(self):
            return reversed(range(len(self)))

    data = TensorDataset(ag.arange(3))
    assert [x.tolist() for (x,) in DataLoader(data, 2, sampler=Backwards(data))] == [[2, 1], [0]]


def test_a_stream_that_is_longer_than_it_says():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(range(5))

        def __len__(self):
            return 4

    loader = DataLoader(Stream(), batch_size=2)
    assert len(list(loader)) == 3  # nobody has asked how long it is
    assert len(loader) == 2
    with pytest.warns(UserWarning, match=r"was reported to be 2 \(when accessing len\(dataloader\)\), but 3 samples"):
        assert len(list(loader)) == 3


def test_import_paths_of_programs():
    from autograd_gpu.utils.data.dataloader import DataLoader as loader
    from autograd_gpu.utils.data.dataset import random_split as split
    from autograd_gpu.utils.data.sampler import RandomSampler as sampler

    assert (loader, split, sampler) == (DataLoader, random_split, ag.utils.data.RandomSampler)


def test_prefetch_factor_is_positive(dataset):
    with pytest.raises(ValueError, match="prefetch_factor option should be positive, but got prefetch_factor=0"):
        DataLoader(dataset, num_workers=1, prefetch_factor=0)


def test_more_workers_than_cores():
    with pytest.warns(UserWarning, match="This DataLoader will create 99999 worker processes in total"):
        DataLoader(range(3), num_workers=99999)
