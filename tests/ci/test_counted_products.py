"""The matrix products and bytes that docs/transforms.md and docs/hessian.md have in their tables, counted again."""

import functools
import re

import numpy as np
import pytest
from checkout import ROOT

import autograd_gpu as ag
from autograd_gpu import func, nn
from autograd_gpu.backend.cpu import rows as cpu_rows
from autograd_gpu.backend.formulas.native import switch
from benchmarks import counting, models, transforms
from benchmarks.hessian_calls import QUANTITIES, Problem, calls_for
from benchmarks.peers import load_peers
from benchmarks.report import OURS

pytestmark = pytest.mark.cpu

TRANSFORMS = (ROOT / "docs/transforms.md").read_text()
HESSIAN = (ROOT / "docs/hessian.md").read_text()


# ---- transforms.md --------------------------------------------------------------------------


def calls():
    """The rows of the table as code -> a call; `f` is a function of one row as there."""
    weights, x, t = transforms.inputs()
    params = [tuple(map(ag.tensor, layer)) for layer in weights]
    x, t = ag.tensor(x), ag.tensor(t)
    row, v = x[0], t[0]

    def f(row):
        return transforms.tensor_forward(params, row)[0]

    at_a_row = ("grad", "grad_and_value", "jacfwd", "jacrev", "hessian", "hessian_diagonal", "laplacian",
                "value_and_derivatives")
    return {
        "vmap(f)": lambda: func.vmap(f)(x),
        **{f"{name}(f)": functools.partial(getattr(func, name)(f), row) for name in at_a_row},
        "jvp(f, (x,), (v,))": lambda: func.jvp(f, (row,), (v,)),
        "hvp(f, (x,), (v,))": lambda: func.hvp(f, (row,), (v,)),
        "vjp(f, x)": [lambda: func.vjp(f, row), lambda found: found[1](ag.tensor(1.0))],
        "linearize(f, x)": [lambda: func.linearize(f, row), lambda found: found[1](v)],
    }


def counted(call, *args):
    """The products of a call, and its result."""
    with ag.profiler.count() as found:
        result = call(*args)
    return sum(found.matmuls.values()), result


def rows():
    """(code, products) of each row of the table in transforms.md."""
    table = re.findall(r"^\| (`[^|]*) \|[^|]*\| (\d+)(?:, then (\d+))? \|$", TRANSFORMS, re.MULTILINE)
    return [(code, [int(n) for n in (first, second) if n])
            for codes, first, second in table for code in re.findall("`(.*?)`", codes)]


@pytest.mark.parametrize(("code", "products"), rows(), ids=[code for code, _ in rows()])
def test_transforms_run_the_products_of_the_table(code, products):
    found = calls()[code]
    first, *then = found if isinstance(found, list) else [found]
    first()  # the first call may test operations on single rows
    count, result = counted(first)
    assert [count, *(counted(call, result)[0] for call in then)] == products


def test_every_transform_is_in_the_table():
    assert {code for code, _ in rows()} == set(calls())


# ---- hessian.md -----------------------------------------------------------------------------

BATCH, HIDDEN = 24, 8
ROW = re.compile(r"^\| `(\w+)`, (\w+)(, with backward)? " + r"\| (\d+) " * 5 + r"\|$", re.MULTILINE)


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")  # torch.func uses it
@pytest.mark.parametrize("row", ROW.findall(HESSIAN), ids=lambda row: " ".join(row[:5]))
def test_second_derivatives_run_the_products_of_the_table(row):
    name, activation, backward, *figures = row
    inputs, outputs, *products = map(int, figures)
    (quantity,) = [key for key, transform in QUANTITIES.items() if transform == name]
    weights = models.make_weights([inputs, *[HIDDEN] * 6, outputs])
    x = np.random.default_rng(0).standard_normal((BATCH, inputs)).astype(np.float32)
    problem = Problem(weights, x, activation, quantity, bool(backward), "cpu")
    present, _ = load_peers(["torch.func", "torch"], ["torch.func", "torch"], "cpu")
    found = calls_for(problem, ["pull"], present)
    pulled = found.pop("pull")
    if name == "hessian" and outputs < inputs * (inputs + 1) // 2:  # "auto" would push where widths are as small
        found[OURS] = pulled
    expected = dict(zip((OURS, "torch.func", "torch"), products, strict=True))
    for library, call in found.items():
        count = counting.count_ours if library == OURS else counting.count_torch
        matmuls, _ = count(present.get(library, ag), call)
        assert counting.hidden_products(matmuls, BATCH, HIDDEN) == expected[library], library


def test_the_table_of_products_was_found():
    assert len(ROW.findall(HESSIAN)) == 13


@pytest.fixture
def network(monkeypatch):
    """2 -> 6 x 128 -> 3 with Tanh, and a batch of 1,000; on one thread, since each needs some memory of its own.

    Without native code, whose blocks are larger, and which comes when enough elements have been computed.
    """
    monkeypatch.setattr(cpu_rows, "cores", lambda: 1)
    monkeypatch.setattr(switch.SETTING, "on", False)
    hidden = [part for width in (2, *[128] * 5) for part in (nn.Linear(width, 128), nn.Tanh())]
    return nn.Sequential(*hidden, nn.Linear(128, 3)), ag.randn(1000, 2)


def peak(call):
    """Peak MiB of a call."""
    call()
    return counting.peak_bytes("cpu", call) / 2**20


CHUNKS = re.findall(r"^\| (\d+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", HESSIAN, re.MULTILINE)
METHODS = re.findall(r"^\| `(\w+)` \| ([\d.]+ \| [\d.]+ \| [\d.]+) \|$", HESSIAN, re.MULTILINE)


def test_the_tables_of_memory_were_found():
    assert (len(CHUNKS), len(METHODS)) == (3, 3)


@pytest.mark.more
@pytest.mark.parametrize(("chunk", "plain", "training", "by_chunks"), CHUNKS)
def test_memory_by_chunks_is_that_of_the_table(network, chunk, plain, training, by_chunks):
    net, x = network
    chunk = int(chunk)
    hessian = func.vmap(func.hessian(net), chunk_size=chunk)

    def step():
        (hessian(x) ** 2).mean().backward()

    def step_by_chunks():
        for rows in x.split(chunk):
            (hessian(rows) ** 2).mean().backward()

    # tracemalloc sees Python's objects, too: half a MiB more or less
    assert peak(ag.no_grad()(lambda: hessian(x))) == pytest.approx(float(plain), rel=0.05, abs=0.5)
    assert peak(step) == pytest.approx(float(training), rel=0.05, abs=0.5)
    assert peak(step_by_chunks) == pytest.approx(float(by_chunks), rel=0.05, abs=0.5)


@pytest.mark.more
@pytest.mark.parametrize(("name", "figures"), METHODS)
def test_memory_by_methods_is_that_of_the_table(network, name, figures):
    net, x = network
    for method, figure in zip(("push", "pull", "nested"), figures.split(" | "), strict=True):
        derivative = func.vmap(getattr(func, name)(net, method=method))
        assert peak(ag.no_grad()(lambda call=derivative: call(x))) == pytest.approx(float(figure), rel=0.05, abs=0.5)
