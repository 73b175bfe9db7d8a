"""Worker processes of a DataLoader: order, seeds, errors, deaths, and that nothing of them stays."""

import ctypes
import gc
import multiprocessing
import multiprocessing.resource_tracker
import os
import random
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from checkout import ROOT
from process_group import process_group

import autograd_gpu as ag
from autograd_gpu.backend.cpu import blas, rows
from autograd_gpu.random import generator
from autograd_gpu.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset, get_worker_info

cpu = pytest.mark.cpu
pytestmark = pytest.mark.skipif(multiprocessing.get_start_method() != "fork", reason="datasets of tests are local")


def open_memory():
    """The numbers of open files, and named shared memory but for that of other programs' MPI."""
    names = [name for name in os.listdir("/dev/shm") if not name.startswith(("mpich_", "ucx_"))]
    return len(os.listdir("/proc/self/fd")), names


@pytest.fixture(autouse=True)
def _nothing_stays():
    """No process, open file or named shared memory of a loader is left."""
    multiprocessing.resource_tracker.ensure_running()  # multiprocessing keeps it once a process was spawned
    gc.collect()
    before = open_memory()
    yield
    gc.collect()
    assert multiprocessing.active_children() == []
    assert open_memory() == before


class Calls(Dataset):
    """Item i is function(i)."""

    def __init__(self, function, length=8):
        self.function, self.length = function, length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return self.function(index)


class Shard(IterableDataset):
    """Worker k gives the first sizes[k] numbers from 100 k on."""

    def __init__(self, *sizes):
        self.sizes = sizes

    def __iter__(self):
        number = get_worker_info().id
        return iter(range(100 * number, 100 * number + self.sizes[number]))


def raising(error, at=3):
    def item(index):
        if index == at:
            raise error
        return index

    return Calls(item)


def lists(loader):
    return [batch.tolist() for batch in loader]


# ---- batches ------------------------------------------------------------------------------------


def test_batches_are_those_of_this_process():
    """Small and large arrays, by and beside the shared memory, in nested containers."""
    def item(i):
        return {"small": i, "large": np.full((40, 50), i, "f4"), "text": f"n{i}", "pair": (ag.ones(3000) * i, [i / 2])}

    def plain(batch):
        return [batch["small"].tolist(), batch["large"].tolist(), batch["text"], batch["pair"][0].tolist(),
                batch["pair"][1][0].tolist(), batch["large"].dtype, batch["pair"][0].dtype]  # fmt: skip

    with ag.device("cpu"):
        here, there = (list(map(plain, DataLoader(Calls(item), 3, num_workers=n))) for n in (0, 2))
    assert there == here


@pytest.mark.parametrize("dtype", [ag.float32, ag.bfloat16, ag.float8_e4m3fn, ag.int64, ag.bool])
def test_rows_of_tensors_in_every_kind_of_dtype(dtype):
    x = ag.arange(12000, device="cpu").reshape(4, 3000).to(ag.float32).to(dtype)
    (batch,) = next(iter(DataLoader(Subset(TensorDataset(x), [3, 1]), 2, num_workers=1)))
    assert (batch.dtype, batch.to(ag.float32).tolist()) == (dtype, [x[i].to(ag.float32).tolist() for i in (3, 1)])


def test_batches_may_be_written_to_and_outlive_the_loader():
    batches = list(DataLoader(TensorDataset(ag.zeros(40, 100, device="cpu")), 10, num_workers=2))
    for i, (batch,) in enumerate(batches):
        batch += i
    assert [batch.sum().item() for (batch,) in batches] == [0, 1000, 2000, 3000]


def test_workers_make_tensors_on_the_cpu(device):
    made = next(iter(DataLoader(Calls(lambda i: ag.ones(2)), 2, num_workers=1)))
    assert made.device == ag.device("cpu")
    assert ag.ones(2).device.type == device


@cpu
@pytest.mark.parametrize(("sizes", "kwargs", "batches"), [
    ((5, 5), {"batch_size": 2}, [[0, 1], [100, 101], [2, 3], [102, 103], [4], [104]]),
    ((7, 2), {"batch_size": 2}, [[0, 1], [100, 101], [2, 3], [4, 5], [6]]),
    ((0, 5), {"batch_size": 2}, [[100, 101], [102, 103], [104]]),
    ((2, 5, 1), {"batch_size": 1}, [[0], [100], [200], [1], [101], [102], [103], [104]]),
    ((3, 3), {"batch_size": 2, "drop_last": True}, [[0, 1], [100, 101]]),
    ((2, 3), {"batch_size": None}, [0, 100, 1, 101, 102]),
])  # fmt: skip
def test_streams_of_workers_take_turns(sizes, kwargs, batches):
    """In PyTorch's order, as read off PyTorch 2.13."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "sched_getaffinity", lambda pid: range(8))  # no warning about three workers
        loader = DataLoader(Shard(*sizes), num_workers=len(sizes), **kwargs)
    assert [batch if isinstance(batch, int) else batch.tolist() for batch in loader] == batches


@cpu
def test_a_stream_that_does_not_ask_comes_once_per_worker():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(range(2))

        def __len__(self):
            return 2

    loader = DataLoader(Stream(), 2, num_workers=2)
    assert len(loader) == 1
    with pytest.warns(UserWarning, match=r"2 samples have been fetched.*the IterableDataset replica at each worker"):
        assert lists(loader) == [[0, 1], [0, 1]]


@cpu
def test_without_in_order_nobody_waits_for_the_slow_one(tmp_path):
    def item(i):
        if i == 0:
            while not (tmp_path / "go").exists():
                time.sleep(0.001)
        return i

    loader = iter(DataLoader(Calls(item, 4), num_workers=2, in_order=False))
    assert sorted(next(loader).item() for _ in range(2)) == [1, 3]
    (tmp_path / "go").touch()
    assert [batch.item() for batch in loader] == [0, 2]


@cpu
@pytest.mark.parametrize("ahead", [1, 3])
def test_workers_run_ahead_by_the_prefetch_factor(ahead, tmp_path):
    def item(i):
        (tmp_path / str(i)).touch()
        return i

    loader = iter(DataLoader(Calls(item, 20), num_workers=2, prefetch_factor=ahead))
    next(loader)
    deadline = time.monotonic() + 10
    while len(os.listdir(tmp_path)) < 2 * ahead + 1 and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(0.02)
    assert len(os.listdir(tmp_path)) == 2 * ahead + 1


# ---- where a worker is --------------------------------------------------------------------------


@cpu
def test_worker_info_and_init_function():
    started = []

    def item(i):
        info = get_worker_info()
        return info.id, info.num_workers, info.seed, ag.initial_seed(), info.dataset.tag, list(started), os.getpid()

    dataset = Calls(item, 4)
    dataset.tag = "mine"
    found = list(DataLoader(dataset, None, num_workers=2, worker_init_fn=started.append, seed=5))
    assert [row[:2] for row in found] == [[0, 2], [1, 2]] * 2
    assert [row[2] - found[0][2] for row in found] == [0, 1, 0, 1]
    assert all(row[3] == row[2] and row[4] == "mine" for row in found)
    assert [row[5] for row in found] == [[0], [1]] * 2
    assert len({row[6] for row in found} | {os.getpid()}) == 3
    assert get_worker_info() is None
    assert started == []


def draws(**kwargs):
    """Random numbers of two workers in two epochs."""
    def item(i):
        return random.random(), np.random.rand(), ag.rand(()).item()

    loader = DataLoader(Calls(item, 4), None, num_workers=2, **kwargs)
    return [[tuple(sample) for sample in loader] for _ in range(2)]


@cpu
def test_seeds_of_workers_repeat():
    for make in (lambda: {"seed": 5}, lambda: {"generator": ag.Generator().manual_seed(5)}, dict):
        found = []
        for _ in range(2):
            ag.manual_seed(1)
            found.append(draws(**make()))
        assert found[0] == found[1]
        numbers = [number for epoch in found[0] for sample in epoch for number in sample]
        assert len(set(numbers)) == len(numbers) == 24


@cpu
def test_workers_leave_the_random_numbers_of_this_process_alone():
    """The order and what is drawn after an epoch do not depend on the number of workers."""
    found = []
    for workers in (0, 1, 2):
        ag.manual_seed(3)
        found.append((lists(DataLoader(range(10), 3, shuffle=True, num_workers=workers)), ag.rand(2).tolist()))
    assert found[0] == found[1] == found[2]


@cpu
def test_modes_of_the_parent_do_not_reach_a_worker():
    with ag.no_grad():
        loader = iter(DataLoader(Calls(lambda i: ag.is_grad_enabled()), None, num_workers=1))
    assert next(loader) is True


# ---- errors -------------------------------------------------------------------------------------


class TwoArguments(Exception):
    def __init__(self, one, two):
        super().__init__(one, two)


@cpu
def test_an_error_has_its_class_the_item_the_worker_and_the_traceback():
    loader = iter(DataLoader(raising(KeyError("no such")), num_workers=2))
    assert [next(loader).item() for _ in range(3)] == [0, 1, 2]
    with pytest.raises(KeyError) as caught:
        next(loader)
    lines = str(caught.value).splitlines()
    assert lines[0] == "Caught KeyError in DataLoader worker process 1."
    assert lines[1] == "Original Traceback (most recent call last):"
    assert any("raise error" in line for line in lines)
    assert lines[-2:] == ["KeyError: 'no such'", "This is item 3 of the Calls."]
    assert lists(loader) == [[4], [5], [6], [7]]  # the loader goes on


@cpu
def test_errors_that_cannot_be_made_again():
    class Local(Exception):
        pass

    for error in (TwoArguments(1, 2), Local("here"), StopIteration()):
        with pytest.raises(RuntimeError, match=r"(?s)in DataLoader worker process 0.*item 3 of the Calls"):
            list(DataLoader(raising(error), num_workers=1))


@cpu
def test_an_error_in_the_init_function():
    with pytest.raises(ZeroDivisionError, match="in DataLoader worker process 0"):
        next(iter(DataLoader(range(3), num_workers=1, worker_init_fn=lambda number: number / 0)))


@cpu
def test_a_batch_that_cannot_be_pickled():
    with pytest.raises(RuntimeError, match=r"not a leaf cannot be sent to another process.*use \.detach"):
        next(iter(DataLoader(Calls(lambda i: ag.ones(2, requires_grad=True) * 2), num_workers=1)))


@cpu
@pytest.mark.parametrize(("kill", "how"), [
    (lambda: os._exit(3), "ended with exit code 3"),
    (lambda: os.kill(os.getpid(), signal.SIGKILL), "was killed by SIGKILL"),
    (lambda: ctypes.string_at(0), "was killed by SIGSEGV"),
])  # fmt: skip
def test_a_worker_that_dies(kill, how):
    def item(i):
        if i == 3:
            import faulthandler

            faulthandler.disable()  # pytest's would write the stack of the crash that this test makes
            kill()
        return i

    loader = iter(DataLoader(Calls(item), num_workers=2))
    with pytest.raises(RuntimeError, match=rf"DataLoader worker \(pid\(s\) \d+\) exited unexpectedly: worker 1 {how}"):
        list(loader)
    assert multiprocessing.active_children() == []
    with pytest.raises(RuntimeError, match="exited unexpectedly"):  # the epoch does not end quietly
        next(loader)


@cpu
def test_a_worker_that_takes_too_long():
    loader = iter(DataLoader(Calls(lambda i: time.sleep(0.3) or i), num_workers=1, timeout=0.05))
    with pytest.raises(RuntimeError, match=r"DataLoader timed out after 0\.05 seconds"):
        next(loader)


@cpu
def test_a_dataset_that_cannot_be_pickled():
    with pytest.raises(Exception, match="Can't") as caught:
        iter(DataLoader(Calls(lambda i: i), num_workers=1, multiprocessing_context="spawn"))
    assert "multiprocessing_context='fork'" in caught.value.__notes__[0]


@pytest.mark.emulated
def test_cuda_in_a_forked_worker(cp, monkeypatch):
    def item(i):
        error = cp.cuda.runtime.CUDARuntimeError(3)  # what CUDA says there
        raise error

    with pytest.raises(RuntimeError, match=r"Cannot re-initialize CUDA in forked subprocess.*'spawn' start method"):
        next(iter(DataLoader(Calls(item), num_workers=1)))


# ---- lives of processes -------------------------------------------------------------------------


def pids(loader):
    return sorted({int(pid) for batch in loader for pid in batch})


@cpu
def test_persistent_workers_stay():
    dataset = Calls(lambda i: os.getpid(), 4)
    loader = DataLoader(dataset, num_workers=2, persistent_workers=True)
    assert pids(loader) == pids(loader)
    assert len(multiprocessing.active_children()) == 2
    del loader
    assert multiprocessing.active_children() == []
    loader = DataLoader(dataset, num_workers=2)
    assert not set(pids(loader)) & set(pids(loader))


@cpu
def test_persistent_workers_forget_an_abandoned_epoch():
    loader = DataLoader(Calls(lambda i: i, 40), 2, num_workers=2, persistent_workers=True)
    assert next(iter(loader)).tolist() == [0, 1]
    for _ in range(2):
        assert lists(loader) == [[i, i + 1] for i in range(0, 40, 2)]


@cpu
def test_persistent_workers_begin_streams_again():
    loader = DataLoader(Shard(1, 3), num_workers=2, persistent_workers=True)
    assert [lists(loader) for _ in range(2)] == [[[0], [100], [101], [102]]] * 2


@cpu
def test_new_persistent_workers_after_a_death(tmp_path):
    def item(i):
        if i == 1 and not (tmp_path / "died").exists():
            (tmp_path / "died").touch()
            os._exit(1)
        return i

    loader = DataLoader(Calls(item, 3), num_workers=1, persistent_workers=True)
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        list(loader)
    assert lists(loader) == [[0], [1], [2]]


@cpu
def test_an_abandoned_iterator_ends_its_workers():
    loader = iter(DataLoader(range(1000), num_workers=2))
    next(loader)
    del loader
    assert multiprocessing.active_children() == []


@cpu
def test_a_worker_that_does_not_end_is_terminated(monkeypatch):
    from autograd_gpu.utils.data import worker_pool

    monkeypatch.setattr(worker_pool, "GRACE", 0.05)
    loader = iter(DataLoader(Calls(lambda i: i and time.sleep(60)), None, num_workers=1))
    assert next(loader) == 0
    begun = time.monotonic()
    del loader
    assert multiprocessing.active_children() == []
    assert time.monotonic() - begun < 5


@cpu
def test_workers_compute_after_threads_have_worked():
    """Products on OpenBLAS' threads and passes on ours, before the fork and in the workers, while threads go on.

    A thread that is inside of OpenBLAS makes the fork hang, also with NumPy alone.
    """
    matrix, long = ag.rand(600, 600), ag.rand(1 << 20)
    expected = (matrix @ matrix).sum().item(), ag.nn.functional.gelu(long).sum().item()
    stop = threading.Event()

    def work():
        while not stop.is_set():
            ag.nn.functional.gelu(long).sum()

    def item(i):
        return (matrix @ matrix).sum().item(), ag.nn.functional.gelu(long).sum().item(), threading.active_count()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(4):
            for product, passes, threads in DataLoader(Calls(item, 2), None, num_workers=2):
                assert (product, passes) == pytest.approx(expected, rel=1e-4)
                assert threads == 1
    finally:
        stop.set()
        thread.join()


@cpu
def test_a_fork_inside_of_a_product_on_one_thread():
    """The child forgets that product, and has one thread."""
    limit = blas.limit_of("numpy")
    if not limit.threads():
        pytest.skip("threadpoolctl does not know NumPy's BLAS")
    before, found = limit.threads(), []

    def item(i):
        return limit.depth, limit.threads(), rows.cores()

    blas.on_one_thread(lambda: found.extend(DataLoader(Calls(item, 2), None, num_workers=1)))
    assert [tuple(row) for row in found] == [(0, 1, 1)] * 2
    assert limit.threads() == before


@pytest.mark.emulated
def test_generators_on_cuda_stay_in_the_parent():
    ag.manual_seed(1)
    first = ag.rand(3, device="cuda").tolist()
    known = Calls(lambda i: sorted(map(str, generator._DEFAULTS.generators)))
    assert next(iter(DataLoader(known, None, num_workers=1))) == ["cpu"]
    ag.manual_seed(1)
    assert ag.rand(3, device="cuda").tolist() == first


@cpu
def test_spawned_workers():
    loader = DataLoader(TensorDataset(ag.arange(4)), 2, num_workers=1, multiprocessing_context="spawn")
    assert [x.tolist() for (x,) in loader] == [[0, 1], [2, 3]]


SCRIPT = """
import os, sys, time
import autograd_gpu as ag
class Slow(ag.utils.data.Dataset):
    def __len__(self): return 1000
    def __getitem__(self, i):
        if i: os.write(1, f"{os.getpid()}\\n".encode()); time.sleep(100)
        return i
loader = iter(ag.utils.data.DataLoader(Slow(), num_workers=2))
next(loader)
next(loader)
"""


def running(script):
    options = {"cwd": ROOT, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return process_group([sys.executable, "-c", script], **options)


def are_gone(workers):
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if not any(os.path.exists(f"/proc/{pid}") for pid in workers):
            return True
        time.sleep(0.01)
    return False


@cpu
def test_control_c_ends_all_processes():
    with running(SCRIPT) as process:
        workers = [int(process.stdout.readline()) for _ in range(2)]  # which are busy
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=20)
        assert process.returncode == -signal.SIGINT
        assert said.count("KeyboardInterrupt") == 1  # the workers end without a word
        assert are_gone(workers)


@cpu
def test_workers_end_when_their_parent_is_killed():
    """Also those that have nothing to do."""
    script = SCRIPT.replace("time.sleep(100)", "time.sleep(0.1)") + "time.sleep(100)"
    with running(script) as process:
        workers = {int(process.stdout.readline()) for _ in range(3)}
        process.kill()
        process.communicate(timeout=20)
        assert are_gone(workers)
