"""Updates on NumPy arrays: machine code, chunks and buckets of NumPy code give the same bits; which rows go where."""

import gc
import threading
import weakref

import numpy as np
import pytest
from formula_bits import same_bits, values
from updates import CASES, SGD, VARIANTS, drawn, numbers_of

import autograd_gpu as ag
from autograd_gpu import optim
from autograd_gpu.backend.arrays.dtypes import bfloat16, float16, float32, float64
from autograd_gpu.backend.cpu import rows as cpu_rows
from autograd_gpu.backend.formulas.native import lists as native_lists
from autograd_gpu.backend.formulas.native.switch import SETTING, numpy_code_alone
from autograd_gpu.backend.optimizers.chunks import sweep
from autograd_gpu.backend.optimizers.code import CHUNK, code_of, machine_code
from autograd_gpu.backend.optimizers.fused import step_natively

pytestmark = pytest.mark.cpu
llvm = pytest.mark.skipif(not SETTING.on, reason="AUTOGRAD_GPU_NATIVE is 0")
OTHERS = [float64, float16, bfloat16]
SHAPES = [(3, 5), (0,), (), (1025,), (7, 300)]
STRONG = ["sgd_momentum_buffer", "adam_max_exp_avg_sq", "rmsprop_momentum_buffer_grad_avg", "rprop", "adadelta"]


@pytest.fixture
def compiled(monkeypatch):
    """Native code from the first call on."""
    pytest.importorskip("llvmlite")
    kernel = native_lists.ListSwitch.kernel

    def at_once(switch, dtype, elements):
        if dtype not in switch.runs:
            switch.compile(dtype)
        return kernel(switch, dtype, elements)

    monkeypatch.setattr(native_lists.ListSwitch, "kernel", at_once)


@pytest.fixture
def two_threads(monkeypatch):
    monkeypatch.setattr(cpu_rows, "cores", lambda: 2)


def rows_of(label, dtype, shapes=SHAPES):
    return [drawn(VARIANTS[label], shape, dtype, seed) for seed, shape in enumerate(shapes)]


def by_numpy(variant, row, numbers):
    copies = [a.copy() for a in row]
    with numpy_code_alone():
        sweep(variant, copies, numbers)
    return copies


def natively(variant, rows, numbers):
    """Updates the rows in place by one call of machine code; those that it does not take."""
    columns = [list(column) for column in zip(*rows, strict=True)]
    return step_natively(variant, columns, [numbers] * len(rows), range(len(rows)), [])


@llvm
@pytest.mark.parametrize(
    ("label", "k", "dtype"),
    [*[(*case, float32) for case in CASES], *[(label, 0, dtype) for label in STRONG for dtype in OTHERS]],
)
def test_machine_code_has_the_bits_of_numpy_code(compiled, label, k, dtype):
    variant, numbers, rows = VARIANTS[label], numbers_of(label, k), rows_of(label, dtype)
    for name, a in zip(variant.arrays, rows[4], strict=True):
        if name in ("p", "g"):
            a[...] = values(a.size, dtype).reshape(a.shape)
    expected = [by_numpy(variant, row, numbers) for row in rows]
    assert not natively(variant, rows, numbers)
    for row, wanted in zip(rows, expected, strict=True):
        for a, b in zip(row, wanted, strict=True):
            same_bits(a, b)


@pytest.mark.parametrize("label", STRONG)
@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
def test_chunks_have_the_bits_of_the_elements_alone(label, dtype):
    variant, numbers = VARIANTS[label], numbers_of(label, 0)
    row = drawn(variant, (CHUNK + 77,), dtype)
    expected = by_numpy(variant, row, numbers)
    for part in (slice(0, 5), slice(CHUNK - 3, CHUNK + 3), slice(CHUNK + 70, None)):
        for a, b in zip(by_numpy(variant, [a[part] for a in row], numbers), expected, strict=True):
            same_bits(a, b[part])


@pytest.mark.parametrize("label", STRONG)
def test_strided_arrays_have_the_bits_of_dense_ones(label):
    variant, numbers = VARIANTS[label], numbers_of(label, 0)
    row = drawn(variant, (6, 8), float32)
    expected = by_numpy(variant, row, numbers)
    for layout in (np.asfortranarray, lambda a: np.repeat(a, 2, 1)[:, ::2], lambda a: a[::-1].copy()[::-1]):
        strided = [layout(a) for a in row]
        sweep(variant, strided, numbers)
        for a, b in zip(strided, expected, strict=True):
            np.testing.assert_array_equal(a, b)


@llvm
def test_large_arrays_go_to_all_threads_with_the_same_bits(compiled, two_threads):
    variant, numbers = VARIANTS["adam"], numbers_of("adam", 1)
    rows = rows_of("adam", float32, [(700, 1000), (3,), (400, 1000)])
    expected = [by_numpy(variant, row, numbers) for row in rows]
    assert not natively(variant, rows, numbers)
    for row, wanted in zip(rows, expected, strict=True):
        for a, b in zip(row, wanted, strict=True):
            same_bits(a, b)


@llvm
def test_rows_that_share_memory_are_updated_in_order_also_by_several_threads(compiled, two_threads):
    variant, numbers = VARIANTS["sgd"], {**SGD, "decay": 0.5}
    memory = np.ones(1 << 20, np.float32)
    rows = [[memory[: 3 << 18], np.ones(3 << 18, np.float32)], [memory[1 << 18 :], np.ones(3 << 18, np.float32)]]
    expected = memory.copy()
    for part in (slice(0, 3 << 18), slice(1 << 18, None)):
        expected[part] -= np.float32(0.1) * (1 + np.float32(0.5) * expected[part])
    assert not natively(variant, rows, numbers)
    np.testing.assert_allclose(memory, expected, rtol=1e-6)


@llvm
def test_rows_that_do_not_fit_are_left_and_the_others_updated(compiled):
    variant, numbers = VARIANTS["sgd_momentum_buffer"], numbers_of("sgd_momentum_buffer", 1)

    def dense(*shape):
        return [np.ones(shape, np.float32) for _ in range(3)]

    base, read_only, unaligned = np.ones(40, np.float32), dense(4), np.ones(17, np.uint8)[1:].view(np.float32)
    read_only[2].flags.writeable = False
    rows = {
        "dense": dense(3, 4),
        "dense in another order": [a.T for a in dense(3, 4)],
        "read-only gradient": [a if i != 1 else np.broadcast_to(a, a.shape) for i, a in enumerate(dense(2))],
        "orders differ": [dense(3, 4)[0], np.ones((4, 3), np.float32).T, dense(3, 4)[0]],
        "strided": [a[:, ::2] for a in dense(3, 4)],
        "read-only state": read_only,
        "overlap": [base[:30], base[10:], np.ones(30, np.float32)],
        "unaligned": [unaligned, *dense(4)[:2]],
        "another byte order": [a.astype(">f4") for a in dense(3)],
        "a subclass": [a.view(type("Sub", (np.ndarray,), {})) for a in dense(3)],
        "shapes differ": [dense(3)[0], dense(4)[0], dense(3)[0]],
    }
    before = {name: [a.copy() for a in row] for name, row in rows.items()}
    left = natively(variant, [*rows.values()], numbers)
    assert [[*rows][i] for i in sorted(left)] == [*rows][3:]
    for i, (name, row) in enumerate(rows.items()):
        changed = [not np.array_equal(a, b) for a, b in zip(row, before[name], strict=True)]
        assert changed == ([True, False, True] if i < 3 else [False] * 3), name


@llvm
def test_an_update_of_an_array_by_itself(compiled):
    """A gradient that is its parameter: elements are read before they are written."""
    variant, a = VARIANTS["sgd"], np.arange(5000, dtype=np.float32)
    assert not natively(variant, [[a, a]], {**SGD, "lr": 0.25})
    np.testing.assert_array_equal(a, np.arange(5000, dtype=np.float32) * np.float32(0.75))


@llvm
@pytest.mark.parametrize("cls", ["SGD", "Adam", "Rprop"])
def test_a_step_may_switch_to_machine_code_at_any_time(cls, compiled):
    """Also between buckets, large parameters and half types."""
    runs = []
    for steps_in_numpy in (0, 2, 4):
        rng = np.random.default_rng(0)
        params = [ag.tensor(rng.standard_normal(shape), dtype=dtype, requires_grad=True)
                  for shape, dtype in [((3, 4), ag.float32), ((70000,), ag.float32), ((5,), ag.float32),
                                       ((6,), ag.float64), ((), ag.bfloat16), ((4, 4), ag.float16)]]  # fmt: skip
        optimizer = getattr(optim, cls)(params, **({"momentum": 0.9} if cls == "SGD" else {}))
        for step in range(4):
            for param in params:
                param.grad = ag.tensor(rng.standard_normal(param.shape), dtype=param.dtype)
            if step < steps_in_numpy:
                with numpy_code_alone():
                    optimizer.step()
            else:
                optimizer.step()
        state = [t for p in params for t in optimizer.state[p].values() if isinstance(t, ag.Tensor)]
        runs.append([t.detach().numpy() for t in [*params, *state]])
    for other in runs[1:]:
        for a, b in zip(runs[0], other, strict=True):
            same_bits(np.asarray(a), np.asarray(b))


@llvm
def test_a_list_holds_no_array_after_the_step(compiled):
    params = [ag.ones(3, requires_grad=True)]
    optimizer = optim.Adam(params)
    params[0].grad = ag.ones(3)
    gone = weakref.ref(params[0].grad.array)
    optimizer.step()
    params[0].grad = None
    gc.collect()
    assert gone() is None


@llvm
def test_threads_step_optimizers_at_the_same_time(compiled):
    variant, numbers, errors = VARIANTS["adam"], numbers_of("adam", 1), []
    rows = [rows_of("adam", float32, [(200,)] * 20) for _ in range(2)]
    expected = [by_numpy(variant, row, numbers) for row in rows[0]]

    def work(mine):
        try:
            assert not natively(variant, mine, numbers)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(mine,)) for mine in rows]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    for mine in rows:
        for row, wanted in zip(mine, expected, strict=True):
            for a, b in zip(row, wanted, strict=True):
                same_bits(a, b)


@llvm
def test_the_switch_counts_parameters_as_calls(monkeypatch):
    """Many tiny parameters are worth machine code before their elements are."""
    pytest.importorskip("llvmlite")
    monkeypatch.setattr("autograd_gpu.backend.formulas.native.switch.LOADS", 1 << 13)
    monkeypatch.setattr("autograd_gpu.backend.formulas.native.switch.COMPILES", 1 << 13)
    numbers = {**SGD, "lr": 0.1234}
    code = code_of(VARIANTS["sgd"].trace({**numbers, "momentum": 0.0, "damped": 1.0}), float32)
    params = [np.ones(2, np.float32)] * 3
    assert code.kernel(np.dtype("f4"), params) is None
    assert isinstance(code.kernel(np.dtype("f4"), params), native_lists.ListKernel)


@llvm
def test_what_runs_an_update_is_kept_for_the_same_numbers(compiled):
    variant, single, double = VARIANTS["sgd"], [np.ones(2, np.float32)], [np.ones(2, np.float64)]
    first = machine_code(variant, SGD, single)
    assert machine_code(variant, {**SGD}, single) is first
    assert machine_code(variant, SGD, double).kernel is not first.kernel
    second = machine_code(variant, {**SGD, "lr": 2 * SGD["lr"]}, single)
    assert second.kernel is first.kernel
    assert second.values.tolist() != first.values.tolist()
    assert machine_code(variant, SGD, single).values.tolist() == first.values.tolist()


def test_numbers_of_an_update_are_its_own():
    with pytest.raises(TypeError, match=r"the update sgd takes the numbers sign, decay, lr, .* not lr"):
        VARIANTS["sgd"].trace({"lr": 1.0})
    with pytest.raises(TypeError, match=r"the update adam takes the arrays p, g, exp_avg, .* not p, g"):
        VARIANTS["adam"].update.on("p", "g")
