"""DataLoader: iteration over a dataset in batches, in this process or by workers."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Callable, Iterable
from typing import Any, Generic

from ...random import Generator
from .collate import default_collate, default_convert
from .dataset import Item, IterableDataset
from .fetch import Plan
from .iterators import InProcess, LoaderIterator
from .sampler import BatchSampler, EndlessSampler, RandomSampler, Sampler, SeededSampler, SequentialSampler

_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


class DataLoader(Generic[Item]):
    """Iterates over `dataset` in batches of `batch_size`, the last one smaller unless `drop_last`.

    dataset         anything with `__getitem__` and `__len__`, or an IterableDataset
    shuffle         a new random order for each epoch, drawn from `generator` or the default generator
    sampler         what gives the indices instead, and `batch_sampler` what gives lists of indices
    batch_size      None: no batches; the samples themselves, or what `dataset[index]` gives for each of the sampler
    collate_fn      makes a batch of a list of samples, by default `default_collate`; without batches it is called with
                    each sample, by default `default_convert`
    seed            determines the order of every epoch and the seeds of the workers, without a generator (not in
                    PyTorch)
    pin_memory      batches lie in page-locked memory, so that `.to("cuda", non_blocking=True)` does not wait; without a
                    GPU a warning. `pin_memory_device` is ignored

    A batch of a TensorDataset, or of a Subset of it, is one indexing of each tensor, a copy on the tensor's device.

    With `num_workers` > 0 that many processes make the batches, `prefetch_factor` (2) of each ahead of their use, and
    they come in order unless `in_order` is False. Workers have one thread, make tensors on the CPU, and seed Python's
    `random`, NumPy's and the default generator with a base seed, drawn from the generator, plus their number;
    `worker_init_fn(number)` is called in them, `get_worker_info()` says where one is. `persistent_workers` stay for
    the next epoch. An exception in a worker is raised here, with the same class, the worker's traceback and a note
    of the item that failed; RuntimeError if a worker dies, or takes longer than `timeout` seconds for a batch.

    `multiprocessing_context` is a start method or a context of multiprocessing; None is the platform's. A process
    forked after CUDA was used cannot use it: datasets whose samples lie on CUDA need "spawn" or "forkserver", which
    pickle the dataset, and a script that keeps its start under `if __name__ == "__main__":`. While workers are forked
    no other thread may compute matrix products: OpenBLAS would never return from the fork.

    >>> dataset = ag.utils.data.TensorDataset(ag.arange(5))
    >>> loader = ag.utils.data.DataLoader(dataset, batch_size=2, shuffle=True, seed=0)
    >>> len(loader), sorted(i for (rows,) in loader for i in rows.tolist())
    (3, [0, 1, 2, 3, 4])
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler[Any] | Iterable[Any] | None = None,
        batch_sampler: Sampler[Any] | Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        seed: int | None = None,
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        _check_seed(seed, shuffle, num_workers, generator)
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.pin_memory, self.pin_memory_device = pin_memory, pin_memory_device
        self.timeout, self.in_order = timeout, in_order
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.generator, self.seed = generator, seed
        self.persistent_workers = persistent_workers
        self._ag_choose_samplers(batch_size, shuffle, sampler, batch_sampler, drop_last)
        batched = self.batch_sampler is not None
        self.collate_fn = collate_fn or (default_collate if batched else default_convert)
        self._ag_promised: int | None = None  # what len() has answered for an IterableDataset
        self._ag_persistent: Any = None  # the iterator whose workers wait for the next epoch
        self._ag_epoch = 0  # epochs begun
        self._ag_initialized = True

    def _ag_choose_samplers(
        self, batch_size: int | None, shuffle: bool | None, sampler: Any, batch_sampler: Any, drop_last: bool
    ) -> None:
        if isinstance(self.dataset, IterableDataset):
            for name, option in (("shuffle", shuffle or None), ("sampler", sampler), ("batch_sampler", batch_sampler)):
                if option is not None:
                    raise ValueError(f"DataLoader with IterableDataset: expected unspecified {name} option, "
                                     f"but got {name}={option}")
        elif sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError("batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and "
                                 "drop_last")
            batch_size = None
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        self.sampler = self._ag_sampler(bool(shuffle)) if sampler is None else sampler
        if batch_size is not None:
            batch_sampler = BatchSampler(self.sampler, batch_size, drop_last)
        self.batch_size, self.drop_last, self.batch_sampler = batch_size, drop_last, batch_sampler

    def _ag_sampler(self, shuffle: bool) -> Sampler[Any]:
        if isinstance(self.dataset, IterableDataset):
            return EndlessSampler()
        if not shuffle:
            return SequentialSampler(self.dataset)
        if self.seed is not None:
            return SeededSampler(self.dataset, self.seed)
        return RandomSampler(self.dataset, generator=self.generator)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIXED and "_ag_initialized" in self.__dict__:
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self) -> Any:
        """The context of multiprocessing that starts the workers; None for the platform's."""
        return self._ag_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        if context is not None and not self.num_workers:
            raise ValueError("multiprocessing_context can only be used with multi-process loading (num_workers > 0), "
                             f"but got num_workers={self.num_workers}")
        if context is not None:
            context = _checked_context(context)
        self._ag_context = context

    def __len__(self) -> int:
        if not isinstance(self.dataset, IterableDataset):
            return len(self.sampler if self.batch_sampler is None else self.batch_sampler)  # type: ignore[arg-type]
        samples = len(self.dataset)  # type: ignore[arg-type]
        if self.batch_size is None:
            self._ag_promised = samples
        else:
            self._ag_promised = samples // self.batch_size if self.drop_last else -(-samples // self.batch_size)
        return self._ag_promised

    def __iter__(self) -> LoaderIterator:
        self._ag_epoch += 1
        if not self.num_workers:
            return InProcess(self)
        if self._ag_persistent is not None and self._ag_persistent.close.alive:
            self._ag_persistent.restart(self._ag_promised)
            return self._ag_persistent
        # Imported by the first loader that has workers: multiprocessing takes a while.
        started: LoaderIterator = importlib.import_module(f"{__package__}.worker_pool").WithWorkers(self)
        if self.persistent_workers:
            self._ag_persistent = started
        return started

    def _ag_plan(self) -> Plan:
        return Plan(self.dataset, self.collate_fn, self.batch_sampler is not None, self.drop_last)


def _checked_context(context: Any) -> Any:
    """A context of multiprocessing: `context` itself, or that of a start method."""
    import multiprocessing  # takes a while, and few programs choose a context

    if isinstance(context, str):
        methods = multiprocessing.get_all_start_methods()
        if context not in methods:
            raise ValueError(f"multiprocessing_context option should specify a valid start method in {methods}, but "
                             f"got multiprocessing_context={context!r}")
        return multiprocessing.get_context(context)
    if not isinstance(context, multiprocessing.context.BaseContext):
        raise TypeError("multiprocessing_context option should be a valid context object or a string specifying the "
                        f"start method, but got multiprocessing_context={context}")
    return context


def _check_workers(num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool) -> None:
    if num_workers < 0:
        raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if prefetch_factor is not None and num_workers == 0:
        raise ValueError("prefetch_factor option could only be specified in multiprocessing.let num_workers > 0 to "
                         "enable multiprocessing, otherwise set prefetch_factor to None.")
    if prefetch_factor is not None and prefetch_factor < 1:
        raise ValueError(f"prefetch_factor option should be positive, but got prefetch_factor={prefetch_factor}")
    if persistent_workers and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if num_workers > cores:
        warnings.warn(
            f"This DataLoader will create {num_workers} worker processes in total. Our suggested max number of worker "
            f"in current system is {cores}, which is smaller than what this DataLoader is going to create. Please be "
            "aware that excessive worker creation might get DataLoader running slow or even freeze, lower the worker "
            "number to avoid potential slowness/freeze if necessary.", stacklevel=3,
        )


def _check_seed(seed: int | None, shuffle: bool | None, num_workers: int, generator: Generator | None) -> None:
    if seed is None:
        return
    if not shuffle and not num_workers:
        raise ValueError("DataLoader: a seed is given, but shuffle is False and there are no workers")
    if generator is not None or seed < 0:
        raise ValueError("DataLoader: seed has to be positive or 0, and stands alone, without a generator")
