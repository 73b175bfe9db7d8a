"""Emitters have the bits of the forwards that they stand for, on other data, and the memory of a program is its own."""

import re
import threading

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import nn
from autograd_gpu.autograd import grad
from autograd_gpu.backend import counters
from autograd_gpu.compilation.emitters import EMITTERS, UFUNCS
from autograd_gpu.compilation.passes import plan
from autograd_gpu.ops.linalg.matmul import gemm
from autograd_gpu.ops.nn.cross_entropy import class_cross_entropy
from autograd_gpu.ops.nn.linear_activation import bias_activation, piecewise_linear_grad, smooth_grad

pytestmark = pytest.mark.cpu
F = nn.functional
# m, k, n: tiny; one row; one column; few rows and a large operand; beyond the threads of BLAS; beyond the pool's least
# size; a long sum; more than one thread of ours.
PRODUCTS = [(2, 3, 4), (1, 300, 50), (50, 300, 1), (8, 784, 256), (24, 256, 256), (25, 256, 256), (256, 64, 64),
            (300, 8, 784), (3, 9000, 4), (600, 300, 200)]  # fmt: skip
ROWS = [(1, 5), (3, 1), (8, 10), (8, 256), (40, 200), (100, 100), (200, 30), (129, 3)]


def texts(f, make, *ops, emitted=True):
    """The programs of f: compiled on some data, it has on other data the bits and strides of f.

    ops: those that are written by their emitters, or by their forwards.
    """
    compiled = ag.compile(f)
    for seed in range(4):
        expected, result = f(*make(np.random.default_rng(seed))), compiled(*make(np.random.default_rng(seed)))
        for a, b in zip(expected, result, strict=True):
            assert a._array.tobytes() == b._array.tobytes()
            assert a._array.strides == b._array.strides
    assert compiled.counts.compiled >= 1
    assert compiled.counts.eager == 0
    text = compiled.print_readable(print_output=False)
    for op in ops:
        assert (re.search(rf"= f_{op}\d", text) is None) is emitted, text
    return text


def drawn(*shapes, dtype="f4", special=False):
    def make(rng):
        arrays = [rng.normal(size=shape).astype(dtype) for shape in shapes]
        if special:
            for a in arrays:
                a.reshape(-1)[: a.size // 3] = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40], a.size // 3)
        return [ag.tensor(a) for a in arrays]

    return make


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("shape", PRODUCTS)
def test_products(shape, dtype):
    m, k, n = shape
    by_forward = ((m, n) == (3, 4) and k == 9000) or m * k * n * np.dtype(dtype).itemsize >= 1 << 26
    for ta in (False, True):
        for tb in (False, True):
            a, b = (k, m) if ta else (m, k), (n, k) if tb else (k, n)
            texts(lambda x, y, ta=ta, tb=tb: (gemm(x, y, ta, tb), -gemm(x, y, ta, tb)), drawn(a, b, dtype=dtype),
                  "gemm", emitted=not by_forward)
    texts(lambda x, y: (x @ y, -(x @ y), ag.mm(x, y)), drawn((m, k), (k, n), dtype=dtype), "matmul", "mm",
          emitted=not by_forward)
    texts(lambda x, w, b: (F.linear(x, w, b) + 1, F.linear(x, w)), drawn((m, k), (n, k), (n,), dtype=dtype),
          "linear", emitted=not by_forward)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("shape", ROWS)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_sums_and_activations(shape, dtype):
    n, m = shape
    make = drawn(shape, shape, (m,), dtype=dtype, special=True)
    texts(lambda x, y, b: (ag.sum_to(x * y, (m,)), ag.sum_to(x, (m,))), make, "sum_to", emitted=n > 1)
    texts(lambda x, y, b: ((x * y).sum(0), x.sum(-2), x.sum(0) * b), make, "sum")
    for op, name in ((piecewise_linear_grad, "relu"), (smooth_grad, "tanh"), (smooth_grad, "sigmoid")):
        texts(lambda x, y, b, op=op, name=name: tuple(op(x, y, activation=name)), make, op.__name__)
    for name in ("relu", "tanh"):
        texts(lambda x, y, b, name=name: (bias_activation(x * y, b, activation=name),
                                          bias_activation(x, b, activation=name)), make,
              "bias_activation")
    texts(lambda x, y, b: (ag.relu(x), ag.relu(x * y)), make, "relu")


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("shape", [(1, 2), (8, 10), (8, 5), (40, 3), (32, 500)])
def test_cross_entropy(shape, dtype):
    def make(rng):
        x, classes = rng.normal(size=shape) * 9, rng.integers(0, shape[1], shape[0])
        return ag.tensor(x.astype(dtype), requires_grad=True), ag.tensor(classes)

    def losses(x, classes):
        loss = F.cross_entropy(x, classes)
        return (loss.detach(), *class_cross_entropy(x.detach(), classes), *grad(loss * 2, [x]))

    texts(losses, make, "class_cross_entropy", "cross_entropy_grad")
    compiled = ag.compile(losses)
    for seed in range(3):
        compiled(*make(np.random.default_rng(seed)))
    x, classes = make(np.random.default_rng(5))
    unusual = ag.tensor([-100, *classes.tolist()[1:]])
    for a, b in zip(losses(x, unusual), compiled(x, unusual), strict=True):
        assert a._array.tobytes() == b._array.tobytes()  # also NaN, where all are ignored
    with pytest.raises(IndexError, match="Target"):
        compiled(x, ag.tensor([shape[1], *classes.tolist()[1:]]))


def test_ignored_classes_in_a_later_step():
    models = [nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())

    def step_of(model):
        optimizer = ag.optim.SGD(model.parameters(), lr=0.5)

        def step(x, classes):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), classes)
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    eager, compiled = step_of(models[0]), ag.compile(step_of(models[1]))
    for i in range(12):
        x, classes = ag.rand(8, 4), ag.tensor([i % 3, *([-100, 1, -100] if i > 6 and i % 3 else [0, 1, 2]), 2, 1, 0, 1])
        assert eager(x, classes).item() == compiled(x, classes).item()
        for p, q in zip(*(model.parameters() for model in models), strict=True):
            assert p._array.tobytes() == q._array.tobytes()
    assert compiled.counts.compiled == 9


def test_every_emitter_is_tested_here_or_as_a_ufunc():
    assert EMITTERS.keys() - UFUNCS.keys() == {
        "relu", "gemm", "matmul", "mm", "linear", "sum_to", "sum", "bias_activation", "piecewise_linear_grad",
        "smooth_grad", "class_cross_entropy", "cross_entropy_grad",
    }  # fmt: skip


# ---- memory ------------------------------------------------------------------------------------------


def residual(model):
    def fn(points):
        u = model(points)
        (first,) = grad(u.sum(), points, create_graph=True)
        second = sum(grad(first[:, i].sum(), points, create_graph=True)[0][:, i] for i in range(2))
        loss = (second**2).mean()
        model.zero_grad()
        loss.backward()
        return loss.detach()

    return fn


def program_of(compiled):
    (kind,) = compiled._kinds.values()
    return kind.programs[0][1].program


@pytest.fixture(scope="module")
def field():
    ag.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))
    compiled = ag.compile(residual(model))
    for _ in range(5):
        compiled(ag.rand(32, 2).requires_grad_())
    return model, compiled


def test_results_that_live_at_the_same_time_do_not_share_bytes(field):
    program = program_of(field[1])
    assert len(program.plan.placed) > 10
    slots = [*program.plan.placed]
    for i, a in enumerate(slots):
        for b in slots[:i]:
            if a.begin <= b.end and b.begin <= a.end:
                assert a.place + a.nbytes <= b.place or b.place + b.nbytes <= a.place


def test_the_peak_is_that_of_the_order_of_the_program(field):
    program = program_of(field[1])
    p = program.plan
    inside = {p.root_of(v) for slot in p.placed for v in slot.values}
    assert 0 < p.size < 0.8 * sum(slot.nbytes for slot in p.placed)
    assert p.size + p.peak(program.nodes, inside) <= max(1.125 * p.peak(program.nodes), plan.LITTLE)


def test_a_view_of_what_a_pass_has_merged_keeps_its_memory():
    def fn(x):
        first = (x + 1).exp()
        shown = (x + 1).exp()[1:]  # the pass leaves one exp, whose memory this view has
        y = first * 2
        return shown * 3, (y + 1) * y, (y + 2) * y

    texts(fn, drawn((4, 3)))


def test_memory_of_a_program_is_never_shown(field):
    model, compiled = field
    results = [compiled(ag.rand(32, 2).requires_grad_()) for _ in range(3)]
    shown = [r._array for r in results] + [p.grad._array for p in model.parameters() if p.grad is not None]
    frame = program_of(compiled)._scope["frames"][0]
    assert not any(np.may_share_memory(a, b) for a in shown for b in frame)


def test_a_run_inside_of_a_run_and_in_another_thread(field):
    model, compiled = field
    points = [ag.rand(32, 2) for _ in range(8)]
    expected = [residual(model)(x.detach().requires_grad_()).item() for x in points]
    program = program_of(compiled)
    frame = program._scope["frames"].pop()  # as if a run were in the middle
    assert compiled(points[0].detach().requires_grad_()).item() == expected[0]
    assert program._scope["frames"]
    assert program._scope["frames"][0] is not frame
    found = {}

    def work(i):
        own = ag.compile(residual(model.__class__(*model)))
        found[i] = [own(x.detach().requires_grad_()).item() for x in points[i::2] * 3]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] == expected[0::2] * 3


def test_an_error_in_the_middle_leaves_memory_that_works():
    def fn(x, classes):
        return F.cross_entropy((x * 2).exp() @ ag.ones(3, 3), classes)

    compiled, x = ag.compile(fn), ag.ones(4, 3)
    good, bad = ag.tensor([0, 1, 2, 0]), ag.tensor([0, 1, 7, 0])
    for _ in range(3):
        compiled(x, good)
    for _ in range(3):
        with pytest.raises(IndexError, match="Target 7"):
            compiled(x, bad)
        assert compiled(x, good).item() == fn(x, good).item()
    assert compiled.counts.eager == 0


class Products(counters.Observer):
    def __init__(self):
        self.shapes = []

    def saw_matmul(self, shape):
        self.shapes.append(shape)


def test_a_profiler_hears_of_the_products():
    model = nn.Sequential(nn.Linear(784, 32), nn.ReLU(), nn.Linear(32, 3))
    x, classes = ag.rand(8, 784), ag.tensor([0, 1, 2, 0, 1, 2, 0, 1])

    def step():
        model.zero_grad()
        F.cross_entropy(model(x), classes).backward()

    heard, compiled = [], ag.compile(step)
    for _ in range(5):
        compiled()
    for f in (step, compiled):
        observer = Products()
        counters.ACTIVE.append(observer)
        f()
        counters.ACTIVE.remove(observer)
        heard.append(sorted(observer.shapes))
    assert heard[0] == heard[1]
    assert len(heard[0]) == 5
    assert compiled.counts.compiled >= 2


def test_a_program_keeps_no_array_of_the_call_that_was_traced(field):
    (kind,) = field[1]._kinds.values()
    trace = kind.programs[0][1].trace
    made = [v for v in trace.values if v.kind in ("result", "grad", "tangent")]
    assert len(made) > 50
    for v in made:
        base = v.array
        while base.base is not None:
            base = base.base
        assert getattr(base, "nbytes", 8) <= 8
        assert v.shape is not None
    assert all(output.tensor is None for output in trace.outputs)
    assert kind.last is None
