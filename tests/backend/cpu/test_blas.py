"""No call of the package wakes the threads of BLAS, whose limit stays as the user has set it."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from autograd_gpu.backend.cpu import blas

LIMIT = blas.limit_of("numpy")
pytestmark = [pytest.mark.cpu, pytest.mark.skipif(not LIMIT.threads(), reason="no limit for NumPy's BLAS is known")]

# Counts how often the threads that Python did not start have run: those of OpenBLAS sleep until they get work.
WATCHED = """
import os, sys, threading, time
import numpy as np
import scipy.linalg
import autograd_gpu as ag
from pathlib import Path

def switches():
    own = {thread.native_id for thread in threading.enumerate()}
    lines = [line for task in Path("/proc/self/task").iterdir() if int(task.name) not in own
             for line in (task / "status").read_text().splitlines() if "ctxt_switches" in line]
    return len(lines) // 2, sum([int(line.split()[1]) for line in lines])

def decompositions(*shape):
    a = ag.randn(*shape) + 10 * ag.eye(shape[-1])
    p = a @ a.mT + ag.eye(shape[-1])
    for name in ("inv", "det", "slogdet", "qr", "svd", "svdvals", "lu", "lu_factor", "pinv", "matrix_rank"):
        getattr(ag.linalg, name)(a)
    for name in ("eigh", "eigvalsh", "cholesky"):
        getattr(ag.linalg, name)(p)
    ag.linalg.matrix_exp(a / 100), ag.linalg.solve(a, p), ag.linalg.lstsq(a, p)
    ag.linalg.solve_triangular(a, p, upper=True)

def products(*shape):
    a, b = ag.randn(*shape), ag.randn(*shape)
    a @ b.mT, a.mT @ b, a @ a.mT, a @ b[..., 0, :, None], a[..., :1, :] @ b.mT

def vectors(n):
    v = ag.randn(n)
    v @ v, v.norm(), v.sum(), v.var(), ag.vdot(v, v), ag.einsum("i,i->", v, v), ag.outer(v[:300], v)

def training_step(batch):
    nn = ag.nn
    model = nn.Sequential(nn.Linear(784, 256), nn.LayerNorm(256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = ag.optim.Adam(model.parameters())
    nn.functional.cross_entropy(model(ag.randn(batch, 784)), ag.randint(0, 10, (batch,))).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()

def vectors_of_an_optimizer():
    p = ag.nn.Parameter(ag.ones(20000, dtype=ag.float64))
    optimizer = ag.optim.LBFGS([p], max_iter=5, line_search_fn="strong_wolfe")
    def closure():
        optimizer.zero_grad()
        loss = (p**4).sum()
        loss.backward()
        return loss
    optimizer.step(closure)

def layers():
    nn, x = ag.nn, ag.randn(20, 64, 64)
    for layer in (nn.LSTM(64, 200), nn.GRU(64, 200), nn.RNN(64, 200)):
        layer(x)[0].sum().backward()
    nn.TransformerEncoderLayer(64, 4)(x).sum().backward()

def second_derivatives(method):
    nn = ag.nn
    model = nn.Sequential(nn.Linear(2, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, 3))
    hessians = ag.func.vmap(ag.func.hessian(model, method=method))(ag.randn(500, 2))
    (hessians**2).mean().backward()

CALLS = [(products, shape) for shape in [(60, 60), (600, 600), (2, 30000), (4, 300, 300), (1000, 10, 10)]]
CALLS += [(decompositions, shape) for shape in [(33, 33), (64, 64), (300, 300), (30, 40, 40), (2000, 5, 5)]]
CALLS += [(vectors, (n,)) for n in (5000, 20000, 300000)]
CALLS += [(training_step, (batch,)) for batch in (8, 128, 1000)] + [(layers, ()), (vectors_of_an_optimizer, ())]
CALLS += [(second_derivatives, (method,)) for method in ("push", "pull", "nested")]

time.sleep(0.5)
for function, args in CALLS:
    threads, before = switches()
    function(*args)
    if switches() != (threads, before):
        print(function.__name__, args)
a = np.ones((600, 600))
before, end = switches(), time.monotonic() + 10
np.dot(a, a)
while switches() == before and time.monotonic() < end:
    time.sleep(0.05)  # a thread that was woken spins for a while before it sleeps again, which is what counts
print("np.dot" if switches() != before else f"nothing wakes them: {threads} threads")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="OpenBLAS has one thread on one core")
def test_threads_of_blas_sleep_until_the_user_calls_numpy():
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    run = subprocess.run([sys.executable, "-c", WATCHED], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == ["np.dot"]


def test_the_limit_holds_in_the_call_and_returns():
    before = LIMIT.get()
    assert blas.on_one_thread(LIMIT.get) == 1
    assert blas.on_one_thread(LIMIT.threads) == before == LIMIT.get()
    assert LIMIT.on(3, LIMIT.get) == 3
    assert LIMIT.on(3, lambda: blas.on_one_thread(LIMIT.get)) == 3, "an inner call keeps the limit of the outer one"
    with pytest.raises(ZeroDivisionError):
        blas.on_one_thread(lambda: 1 / 0)
    assert LIMIT.get() == before


def test_a_limit_that_is_there_is_left_alone(monkeypatch):
    limits = []
    monkeypatch.setattr(LIMIT, "put", limits.append)
    LIMIT.on(LIMIT.get(), lambda: blas.on_one_thread(print))
    assert limits == []
    LIMIT.on(LIMIT.get() + 1, print)
    assert limits == [LIMIT.get() + 1, LIMIT.get()]


def test_a_call_within_keeps_a_limit_that_was_there():
    before = LIMIT.get()
    assert LIMIT.on(before, LIMIT.on, before + 1, LIMIT.get) == before == LIMIT.get()


def test_the_limit_returns_when_the_last_of_many_threads_is_done():
    before, inside, barrier = LIMIT.get(), [], threading.Barrier(4)

    def call():
        barrier.wait(30)
        inside.append(LIMIT.get())

    callers = [threading.Thread(target=blas.on_one_thread, args=(call,)) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert inside == [1] * 4
    assert LIMIT.get() == before


def test_a_library_without_a_limit_is_left_alone():
    unknown = blas.Limit(None)
    assert unknown.on(1, divmod, 7, 2) == (3, 1)
    assert unknown.threads() == 0


def test_matrices_that_blas_reads_are_not_copied():
    x = np.arange(4 * 6 * 8.0).reshape(4, 6, 8)
    row, column = x[:, :1], x[..., :1]
    for view in (x, x.mT, x[:, 1:5, 2:7], x[::2].mT, x[:, ::2], row, column, x[:0], np.broadcast_to(x[0], (5, 6, 8))):
        assert blas.readable(view) is view
    for view in (x[..., ::2], x[..., ::-1], x[:, ::-1], np.broadcast_to(x[:1, :1], x.shape), x.transpose(2, 1, 0)):
        copy = blas.readable(view)
        assert copy is not view
        assert np.array_equal(copy, view)
        assert blas.readable(copy) is copy
    many = np.broadcast_to(x[0, :, ::2], (1000, 6, 4))
    assert blas.readable(many).strides == (0, 32, 8), "one copy of matrices that are the same"
