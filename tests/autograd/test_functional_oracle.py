"""autograd.functional against PyTorch: values, structures, graphs, strict mode, error texts, matrix products."""

from __future__ import annotations

import inspect
import itertools
import re

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import profiler
from autograd_gpu.autograd import functional

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
TorchDispatchMode = pytest.importorskip("torch.utils._python_dispatch").TorchDispatchMode

PRODUCTS = ("vjp", "jvp", "vhp", "hvp")
W = np.random.default_rng(7).normal(size=(3, 4))
B = np.random.default_rng(8).normal(size=(2, 2, 3))

# name -> (function of the library that answers the function to differentiate, shapes of its inputs: a list for a tuple)
FUNCTIONS = {
    "exp": (lambda lib: lambda x: x.exp(), (3,)),
    "identity": (lambda lib: lambda x: x, (2, 2)),
    "row sums": (lambda lib: lambda x: x.exp().sum(dim=1), (2, 3)),
    "transposed": (lambda lib: lambda x: x.mT.contiguous() ** 3, (2, 3)),
    "scalar": (lambda lib: lambda x: x.sin(), ()),
    "one element": (lambda lib: lambda x: x.sin(), (1, 1)),
    "scalar of many": (lambda lib: lambda x: (x**3).sum(), (2, 2)),
    "one element of many": (lambda lib: lambda x: (x**3).sum().reshape(1, 1), (2, 2)),
    "linear": (lambda lib: lambda x: (2 * x).sum(), (3,)),
    "net": (lambda lib: lambda x: lib.tanh(x @ lib.tensor(W, dtype=x.dtype)).sum(), (2, 3)),
    "rectified net": (lambda lib: lambda x: lib.relu(x @ lib.tensor(W, dtype=x.dtype)).sum(), (2, 3)),
    "softmax": (lambda lib: lambda x: lib.softmax(x, -1), (2, 3)),
    "sign": (lambda lib: lambda x: lib.sign(x), (3,)),
    "sign beside a square": (lambda lib: lambda x: (x**2, lib.sign(x)), (3,)),
    "broadcast": (lambda lib: lambda x, y: x * y.exp() + 2 * y, [(2, 1), (3,)]),
    "mixed shapes": (lambda lib: lambda x, y, z: (x @ y).sin().sum() * z, [(2, 3), (3,), ()]),
    "tuple of one": (lambda lib: lambda x: (x**2,), [(3,)]),
    "two outputs": (lambda lib: lambda x: (x**2, x.sum()), (3,)),
    "two by two": (lambda lib: lambda x, y: (x * y, (x + y**2).sum()), [(3,), (3,)]),
    "independent input": (lambda lib: lambda x, y: (x**3).sum(), [(3,), (2,)]),
    "independent outputs": (lambda lib: lambda x, y: (x.exp(), y.sum() ** 2), [(3,), (2, 2)]),
    "constant output": (lambda lib: lambda x: (x**2, lib.ones(2)), (3,)),
    "constant": (lambda lib: lambda x: lib.ones(()), (3,)),
    "integer output": (lambda lib: lambda x: (x**2, x.argmax()), (3,)),
    "linear in one": (lambda lib: lambda x, y: (x**3).sum() + 2 * y.sum(), [(3,), (2,)]),
    "bilinear": (lambda lib: lambda x, y: (x * y).sum(), [(3,), (3,)]),
    "views": (lambda lib: lambda x: x[:, ::2].mT.reshape(-1).cumprod(0), (2, 3)),
    "split": (lambda lib: lambda x: x.exp().unbind(0), (2, 3)),
    "einsum": (lambda lib: lambda x, y: lib.einsum("bij,bj->bi", x, y).sin(), [(2, 2, 3), (2, 3)]),
    "batched": (lambda lib: lambda x: lib.bmm(lib.tensor(B, dtype=x.dtype), x).tanh().sum(), (2, 3, 1)),
    "list": (lambda lib: lambda x: [x, x], (2,)),
    "number": (lambda lib: lambda x: 1.0, (2,)),
    "half a tuple": (lambda lib: lambda x: (x, 1.0), (2,)),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _alone():
    """PyTorch's threads would only wait for each other here."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def point(lib, shapes, dtype, requires_grad, seed=0):
    rng = np.random.default_rng(seed)
    made = [lib.tensor(rng.normal(size=s) + 1.5, dtype=getattr(lib, dtype), requires_grad=requires_grad)
            for s in (shapes if isinstance(shapes, list) else [shapes])]  # fmt: skip
    return tuple(made) if isinstance(shapes, list) else made[0]


def leaves(result):
    return [leaf for part in result for leaf in leaves(part)] if isinstance(result, tuple) else [result]


def text_of(error):
    """The class and text of an error, in this package's words for shapes and classes."""
    text = re.sub(r"torch\.Size\(\[(.*?)\]\)", lambda m: str(ag.ones([int(n) for n in m[1].split(", ") if n]).shape),
                  str(error))  # fmt: skip
    text = re.sub(r"(input )\d+(.*strict mode when)", r"\1N\2", text)  # in jacobian PyTorch names the output's number
    text = re.sub(r"(?i)(only tensors of floating point) .*", r"\1", text)
    return type(error), text.replace("torch.", "").lower()


def outcome(call):
    """What a call returns, or its error: TypeError and RuntimeError only, others are not expected."""
    try:
        return call()
    except (TypeError, RuntimeError) as error:
        return text_of(error)


def same(ours, theirs, tolerance):
    """The same nesting, shapes, dtypes, values and requires_grad; or the same error, (class, text)."""
    if isinstance(theirs, tuple):
        assert isinstance(ours, tuple), (ours, theirs)
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            same(a, b, tolerance)
    elif isinstance(theirs, (type, str)):
        assert ours == theirs
    else:
        assert ours.shape == tuple(theirs.shape)
        assert str(ours.dtype) == str(theirs.dtype).removeprefix("torch.")
        np.testing.assert_allclose(ours.numpy(force=True), theirs.numpy(force=True), rtol=tolerance, atol=tolerance)
        assert ours.requires_grad == theirs.requires_grad


def differentiated(lib, result, inputs):
    """The gradients, by the inputs, of the squares of all of `result` that has a graph; None where there is none."""
    kept = [(leaf**2).sum() for leaf in leaves(result) if leaf.requires_grad]
    return lib.autograd.grad(sum(kept), leaves(inputs), allow_unused=True, materialize_grads=True) if kept else ()


def compare(name, run, dtype="float64", requires_grad=False):
    """`run(functional module, function, inputs, library)` here and in PyTorch, and once more differentiated."""
    make, shapes = FUNCTIONS[name]
    seen = []
    for lib in (ag, torch):
        inputs = point(lib, shapes, dtype, requires_grad)
        result = outcome(lambda lib=lib, inputs=inputs: run(lib.autograd.functional, make(lib), inputs, lib))
        failed = isinstance(leaves(result)[-1], str)
        seen.append(result if failed else (result, differentiated(lib, result, inputs)))
    same(*seen, 1e-10 if dtype == "float64" else 1e-4)


def settings(*functions):
    """All that is compared: without the structural zeros that PyTorch computes with a graph, see TestStrict."""
    zeros = [(function, "rectified net", True) for function in ("hessian", "vhp")]
    every = itertools.product(functions, FUNCTIONS, (False, True), (False, True))
    kept = [case for case in every if case[:3] not in zeros]
    return pytest.mark.parametrize(("function", "name", "create_graph", "strict"), kept)


class TestEqualsPyTorch:
    @settings("jacobian", "hessian")
    def test_matrices(self, function, name, create_graph, strict):
        compare(name, lambda fn, f, x, lib: getattr(fn, function)(f, x, create_graph, strict),
                requires_grad=create_graph)  # fmt: skip

    @settings("jvp", "vhp", "hvp")
    def test_products_with_inputs(self, function, name, create_graph, strict):
        shapes = FUNCTIONS[name][1]

        def run(fn, f, x, lib):
            v = point(lib, shapes, "float64", create_graph and not strict, 1)
            return getattr(fn, function)(f, x, v, create_graph, strict)

        compare(name, run, requires_grad=create_graph)

    @settings("vjp")
    def test_products_with_outputs(self, function, name, create_graph, strict):
        def run(fn, f, x, lib):
            outputs = f(*x) if isinstance(x, tuple) else f(x)
            shapes = [tuple(getattr(out, "shape", ())) for out in leaves(outputs)]
            shapes = shapes if isinstance(outputs, tuple) else shapes[0]
            v = point(lib, shapes, "float64", create_graph and not strict, 1)
            return getattr(fn, function)(f, x, v, create_graph, strict)

        compare(name, run, requires_grad=create_graph)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("function", ["jacobian", "hessian"])
def test_float32_and_vectorized(name, function):
    compare(name, lambda fn, f, x, lib: getattr(fn, function)(f, x, vectorize=True), "float32")


def plain(result):
    """Results without their history, lists as tuples; of an error its class: PyTorch has other texts in this mode."""
    if isinstance(result, type):
        return result
    if isinstance(result, str):
        return ""
    return tuple(map(plain, result)) if isinstance(result, (list, tuple)) else result.detach()


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("function", ["jacobian", "hessian"])
def test_forward_mode(name, function):
    make, shapes = FUNCTIONS[name]
    option = {{"jacobian": "strategy", "hessian": "outer_jacobian_strategy"}[function]: "forward-mode"}
    seen = []
    for lib in (ag, torch):
        inputs, call = point(lib, shapes, "float64", False), getattr(lib.autograd.functional, function)
        made = make(lib)
        seen.append(outcome(lambda: call(made, inputs, vectorize=True, **option)))  # noqa: B023
    same(plain(seen[0]), plain(seen[1]), 1e-10)
    assert all(not getattr(leaf, "requires_grad", False) for leaf in leaves(seen[0]))


def test_gradients_of_captured_weights_and_v():
    """Every function with create_graph, differentiated by the input, a captured weight and v, and once more."""
    seen = []
    for lib in (ag, torch):
        x, v = point(lib, (2, 3), "float64", True), point(lib, (2, 3), "float64", True, 1)
        w, fn = lib.tensor(W, requires_grad=True), lib.autograd.functional

        def f(x, lib=lib, w=w):
            return lib.tanh(x @ w).sum()

        def g(x, lib=lib, w=w):
            return lib.tanh(x @ w)

        seed = lib.ones((2, 4), dtype=lib.float64, requires_grad=True)
        results = [fn.jacobian(g, x, True), fn.hessian(f, x, True), fn.vjp(g, x, seed, True), fn.jvp(g, x, v, True),
                   fn.vhp(f, x, v, True), fn.hvp(f, x, v, True)]  # fmt: skip
        for result in results:
            total = sum((leaf**2).sum() for leaf in leaves(result))
            first = lib.autograd.grad(total, (x, w, v, seed), create_graph=True, allow_unused=True)
            squares = sum((t**2).sum() for t in first if t is not None)
            second = lib.autograd.grad(squares, (x, w), allow_unused=True)
            zero = lib.zeros(())
            seen.append(tuple(zero if t is None else t.detach() for t in (*first, *second)))
    for ours, theirs in zip(seen[:6], seen[6:], strict=True):
        same(ours, theirs, 1e-9)


# case -> (function, inputs, v if it is the fault) in the library
BAD = {
    "inputs": lambda lib: (lambda x: x, 3.0),
    "an input": lambda lib: (lambda x, y: x, (lib.ones(2), "x")),
    "integer inputs": lambda lib: (lambda x: x.sum(), lib.arange(3), lib.ones(())),
    "outputs": lambda lib: (lambda x: None, lib.ones(1)),
    "an output": lambda lib: (lambda x: (x, None), lib.ones(1)),
    "v left out": lambda lib: (lambda x: x * 2, lib.ones(2), None),
    "v left out of two": lambda lib: (lambda x, y: (x, y), (lib.ones(()), lib.ones(())), None),
    "list of v": lambda lib: (lambda x: x * 2, lib.ones(2), [lib.ones(2)]),
    "one of v": lambda lib: (lambda x: x * 2, lib.ones(2), (lib.ones(2), 1)),
    "more of v": lambda lib: (lambda x: x * 2, lib.ones(2), (lib.ones(2), lib.ones(2))),
    "longer v": lambda lib: (lambda x: (x,), (lib.ones(2),), (lib.ones(2), lib.ones(2))),
    "shape of v": lambda lib: (lambda x: x, lib.ones(2, 3), lib.ones(3, 2)),
    "shape of an entry of v": lambda lib: (lambda x: (x,), (lib.ones(2),), (lib.ones(()),)),
}
WITHOUT_V = [case for case in BAD if not re.search(r"\bv\b", case)]


@pytest.mark.parametrize(("function", "case"), [*itertools.product(PRODUCTS, BAD),
                                                *itertools.product(("jacobian", "hessian"), WITHOUT_V)])  # fmt: skip
def test_errors_are_pytorchs(function, case):
    def run(lib):
        arguments = BAD[case](lib)
        return getattr(lib.autograd.functional, function)(*arguments[: 3 if function in PRODUCTS else 2])

    ours, theirs = outcome(lambda: run(ag)), outcome(lambda: run(torch))
    assert isinstance(theirs[1], str), "not an error"
    same(ours, theirs, 0)


@pytest.mark.parametrize("function", functional.__all__)
def test_signatures_are_pytorchs(function):
    ours, theirs = (inspect.signature(getattr(fn, function)) for fn in (functional, torch.autograd.functional))
    assert [(p.name, p.default) for p in ours.parameters.values()] == [
        (p.name, p.default) for p in theirs.parameters.values()
    ]


@pytest.mark.parametrize("activation", ["Tanh", "ReLU"])
@pytest.mark.parametrize("function", ["jacobian", "hessian", *PRODUCTS])
def test_no_more_products_than_pytorch(activation, function):
    theirs = []

    class Count(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func.overloadpacket.__name__ in ("mm", "addmm", "bmm", "mv", "addmv"):
                theirs.append(func)
            return func(*args, **(kwargs or {}))

    def run(lib):
        nn, x = lib.nn, lib.ones((2, 3))
        bend = getattr(nn, activation)
        model = nn.Sequential(nn.Linear(3, 8), bend(), nn.Linear(8, 8), bend(), nn.Linear(8, 1))
        v = {"vjp": (lib.ones(()),), "jacobian": (), "hessian": ()}.get(function, (x,))
        getattr(lib.autograd.functional, function)(lambda x: model(x).sum(), x, *v)

    with Count():
        run(torch)
    with profiler.count() as counts:
        run(ag)
    assert 0 < sum(counts.matmuls.values()) <= len(theirs)
