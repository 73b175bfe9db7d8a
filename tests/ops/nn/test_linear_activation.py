"""A linear layer and its activation as one op: the numbers of the two, fewer passes, and where it does not apply."""

import itertools
from collections import Counter

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import backend, nn, profiler
from autograd_gpu.autograd import grad
from autograd_gpu.backend.cpu import rows
from autograd_gpu.core.declare.op import RECORD
from autograd_gpu.nn import functional as F
from autograd_gpu.nn import hooks
from autograd_gpu.ops.nn import linear_activation

ACTIVATIONS = [
    ("relu", {}), ("tanh", {}), ("sigmoid", {}), ("silu", {}), ("leaky_relu", {"negative_slope": 0.2}),
    ("elu", {"alpha": 0.5}), ("celu", {"alpha": 2.0}), ("gelu", {}), ("gelu", {"approximate": "tanh"}),
    ("softplus", {"beta": 2.0}), ("sine", {"frequency": 3.0}),
]  # fmt: skip
MODULES = [nn.ReLU(), nn.Tanh(), nn.Sigmoid(), nn.SiLU(), nn.LeakyReLU(0.2), nn.ELU(0.5), nn.CELU(2.0), nn.GELU(),
           nn.GELU("tanh"), nn.Softplus(2.0, 15.0), nn.ReLU(inplace=True)]  # fmt: skip
IDS = [f"{name}-{'-'.join(map(str, parameters.values()))}" for name, parameters in ACTIVATIONS]
all_activations = pytest.mark.parametrize(("activation", "parameters"), ACTIVATIONS, ids=IDS)


def plain(tensor):
    return backend.to_numpy(tensor.detach().array).astype(np.float64)


def layer(*lead, dtype="float64", inputs=5, outputs=4):
    """x, weight and bias that want gradients."""
    shapes = ((*lead, inputs), (outputs, inputs), (outputs,))
    return [ag.tensor(np.random.randn(*shape), dtype=getattr(ag, dtype), requires_grad=True) for shape in shapes]


def two_ops(x, weight, bias, activation, parameters):
    z = F.linear(x, weight, bias)
    return ag.sin(z * parameters["frequency"]) if activation == "sine" else getattr(F, activation)(z, **parameters)


def derivatives(function, tensors):
    """The result, the gradients of a weighted sum, and those of a function of these."""
    out = function(*tensors)
    first = grad((out * out.detach().cos()).sum(), tensors, create_graph=True)
    second = grad(sum((g * g).sum() for g in first), tensors, materialize_grads=True, allow_unused=True)
    return [plain(t) for t in (out, *first, *second)]


@pytest.mark.cpu
@all_activations
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_few_elements_have_the_bits_of_the_two_ops(activation, parameters, dtype):
    """The ufunc that an activation is writes into the sum, and not into its operands."""
    z, bias = ag.randn(40, 7).to(dtype), ag.randn(7).to(dtype)
    z[0, 0], z[0, 1], z[0, 2], bias[:3] = np.nan, -0.0, -np.inf, -0.0
    before = [z.array.tobytes(), bias.array.tobytes()]
    how = linear_activation.all_parameters(activation, parameters)
    expected = linear_activation.ACTIVATIONS[activation].of(RECORD)(z + bias, *how)
    op = "bias_activation" if linear_activation.by_result(activation) else "bias_activation_by_sum"
    out = getattr(linear_activation, op)(z, bias, activation, how)
    assert out.array.tobytes() == expected.array.tobytes()
    assert [z.array.tobytes(), bias.array.tobytes()] == before


@all_activations
@pytest.mark.parametrize("lead", [(), (3,), (2, 3), (0,)])
def test_numbers_are_those_of_the_two_ops(activation, parameters, lead):
    tensors = layer(*lead)
    ours = derivatives(lambda *t: F.linear_activation(*t, activation, **parameters), tensors)
    theirs = derivatives(lambda *t: two_ops(*t, activation, parameters), tensors)
    for actual, expected in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-12, strict=True)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize(("activation", "parameters"), [("tanh", {}), ("gelu", {}), ("leaky_relu", {})])
def test_other_dtypes(activation, parameters, dtype):
    tensors = layer(7, dtype=dtype)
    out = F.linear_activation(*tensors, activation, **parameters)
    first = grad(out.sum(), tensors)
    wide = [t.detach().to(ag.float64).requires_grad_() for t in tensors]
    expected = two_ops(*wide, activation, parameters)
    digits = {"float16": 5e-3, "bfloat16": 5e-2, "float32": 1e-5}[dtype]
    for actual, right in zip((out, *first), (expected, *grad(expected.sum(), wide)), strict=True):
        assert actual.dtype == tensors[0].dtype
        np.testing.assert_allclose(plain(actual), plain(right), rtol=digits, atol=8 * digits)


@pytest.mark.cpu
@pytest.mark.parametrize(("activation", "parameters"), [("relu", {}), ("gelu", {"approximate": "tanh"})])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_blocks_of_rows(activation, parameters, dtype):
    """More elements than one block has, and a last block that is not full."""
    tensors = layer(1500, dtype=dtype, inputs=3, outputs=130)
    out = F.linear_activation(*tensors, activation, **parameters)
    expected = two_ops(*tensors, activation, parameters)
    digits = 1e-5 if dtype == "float32" else 1e-2
    np.testing.assert_allclose(plain(out), plain(expected), rtol=digits, atol=digits)
    g = ag.tensor(np.random.randn(1500, 130) / 100, dtype=getattr(ag, dtype))
    ours, theirs = grad(out, tensors, g), grad(expected, tensors, g)
    for actual, right in zip(ours, theirs, strict=True):
        scale = np.abs(plain(right)).max()
        np.testing.assert_allclose(plain(actual), plain(right), rtol=0, atol=digits * scale)


@pytest.mark.cpu
@pytest.mark.parametrize(("added", "activated", "times"), [(10, 3, 1), (10, 14, 1), (10, 74, 7), (10, 1000, 16)])
def test_an_activation_counts_as_its_measured_time(monkeypatch, added, activated, times):
    """Beside an addition, from 1 to MOST_TIMES."""
    calls, measured = [], iter((added, activated))
    monkeypatch.setattr(linear_activation, "_least_time", lambda call: (calls.append(call()), next(measured))[1])
    assert linear_activation._times.__wrapped__("tanh") == times
    sample = np.linspace(-2, 2, linear_activation.SAMPLE, dtype=np.float32)
    np.testing.assert_array_equal(calls[1], np.tanh(sample))


@pytest.mark.cpu
def test_the_least_of_several_times_counts(monkeypatch):
    """A neighbour on the machine disturbs some calls, and seldom all."""
    clock, calls = itertools.accumulate([0, 9, 1, 7, 1, 3, 1, *[8] * 20]), []
    monkeypatch.setattr(linear_activation.time, "perf_counter_ns", lambda: next(clock))
    assert linear_activation._least_time(lambda: calls.append(1)) == 3
    assert len(calls) == 8


@pytest.mark.cpu
@pytest.mark.parametrize("activation", ["relu", "tanh", "gelu"])
def test_it_is_measured_once(monkeypatch, activation):
    times = linear_activation._times(activation)
    assert 1 <= times <= linear_activation.MOST_TIMES
    monkeypatch.setattr(linear_activation, "_least_time", None)
    assert linear_activation._times(activation) == times


@pytest.mark.cpu
@pytest.mark.parametrize(("dtype", "times", "shared"), [
    ("float32", 1, False), ("float32", 16, True), ("float64", 16, True), ("float16", 16, False),
])  # fmt: skip
def test_slow_activations_of_fewer_elements_are_shared_by_cores(monkeypatch, dtype, times, shared):
    """With the same bits. Half types, whose conversion takes longer, count as additions."""
    z = ag.tensor(np.random.randn(500, 100), dtype=getattr(ag, dtype))
    bias = ag.tensor(np.random.randn(100), dtype=getattr(ag, dtype))
    expected = linear_activation.bias_activation(z, bias, activation="tanh").numpy()
    blocks, in_turn = [], rows._in_turn
    monkeypatch.setattr(rows, "in_blocks", lambda *job: (blocks.append(job[:2]), in_turn(*job)))
    monkeypatch.setattr(rows, "cores", lambda: 2)
    monkeypatch.setattr(linear_activation, "_times", lambda activation: times)
    result = linear_activation.bias_activation(z, bias, activation="tanh").numpy()
    assert bool(blocks) == shared
    np.testing.assert_array_equal(result, expected)


@pytest.mark.cpu
def test_a_bias_for_a_number_is_refused():
    """A weight of one dimension makes a number of a vector; the sum with the bias would be a vector again."""
    with pytest.raises(IndexError, match="out of range"):
        F.linear_activation(ag.ones(3), ag.ones(3), ag.ones(3), "tanh")


def test_only_what_is_asked_for_is_computed():
    x, weight, bias = layer(6)
    out = F.linear_activation(x, weight, bias, "tanh").sum()
    for inputs, products in ((x, 1), (weight, 1), (bias, 0)):
        with profiler.count() as c:
            grad(out, inputs, retain_graph=True)
        assert sum(c.matmuls.values()) == products


# ---- launches ----------------------------------------------------------------------------------------


@pytest.mark.cuda
@pytest.mark.smoke
@all_activations
def test_a_layer_is_a_product_and_a_kernel(activation, parameters):
    tensors = layer(6, dtype="float32")
    with profiler.count() as forward:
        out = F.linear_activation(*tensors, activation, **parameters)
    assert forward.launches == {"gemm": 1, f"bias_{activation}": 1}
    with profiler.count() as backward:
        out.backward(ag.ones_like(out))
    assert backward.launches == {"gemm": 2, f"bias_{activation}_backward": 1}


@pytest.mark.emulated
def test_nothing_else_is_launched_in_a_training_step(launches):
    """Counted with CuPy's own kernels: a layer is a product and a kernel, its backward two products and a kernel."""
    net = nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 7), nn.Tanh(), nn.Linear(7, 4), nn.GELU())
    x = ag.tensor(np.random.randn(3, 5), dtype=ag.float32, requires_grad=True)
    with launches() as forward:
        out = net(x)
    assert (forward.products, by_template(forward.kernels)) == (3, {"bias_activation": 3})
    g = ag.ones_like(out)
    with launches() as backward:
        out.backward(g)
    assert (backward.products, by_template(backward.kernels)) == (6, {"bias_activation_backward": 3})


def by_template(kernels):
    result = Counter()
    for name, count in kernels.items():
        result[name.partition("<")[0]] += count
    return result


@pytest.mark.cuda
@all_activations
def test_the_double_backward_is_a_kernel(activation, parameters):
    tensors = layer(6, dtype="float32")
    out = F.linear_activation(*tensors, activation, **parameters)
    g = ag.ones_like(out).requires_grad_()
    first = grad(out, tensors, g, create_graph=True)
    with profiler.count() as c:
        grad([dx.sum() for dx in first], [*tensors, g], allow_unused=True)
    assert c.launches[f"bias_{activation}_double_backward"] == 1


# ---- Sequential --------------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", MODULES, ids=repr)
def test_sequential_fuses(activation):
    linear, x = nn.Linear(5, 4), ag.tensor(np.random.randn(3, 5), dtype=ag.float32)
    out = nn.Sequential(linear, activation)(x)
    assert type(out.grad_fn).__name__ in ("BiasActivationBackward0", "BiasActivationBySumBackward0")
    np.testing.assert_allclose(plain(out), plain(activation(linear(x))), rtol=1e-6, atol=1e-7)


def test_sequential_fuses_behind_the_second_of_two_linear_layers():
    first, second, x = nn.Linear(5, 4), nn.Linear(4, 3), ag.ones(2, 5)
    out = nn.Sequential(first, second, nn.ReLU())(x)
    assert type(out.grad_fn).__name__ == "BiasActivationBackward0"
    np.testing.assert_allclose(plain(out), plain(ag.relu(second(first(x)))), rtol=1e-6, atol=1e-7)


class Doubled(nn.Linear):
    def forward(self, input):
        return super().forward(input) * 2


class Shifted(nn.ReLU):
    def forward(self, input):
        return super().forward(input) + 1


def patched(module):
    original = module.forward
    module.forward = lambda input: original(input) * 2
    return module


@pytest.mark.parametrize(
    "modules",
    [
        lambda: (Doubled(5, 4), nn.ReLU()),
        lambda: (nn.Linear(5, 4), Shifted()),
        lambda: (patched(nn.Linear(5, 4)), nn.ReLU()),
        lambda: (nn.Linear(5, 4), patched(nn.ReLU())),
        lambda: (nn.Linear(5, 4, bias=False), nn.ReLU()),
        lambda: (nn.Linear(5, 4), nn.Linear(4, 4)),
        lambda: (nn.Linear(5, 4),),
    ],
)
def test_what_sequential_leaves_apart(modules):
    first, *rest = modules()
    x = ag.tensor(np.random.randn(3, 5), dtype=ag.float32)
    expected = first(x)
    for module in rest:
        expected = module(expected)
    out = nn.Sequential(first, *rest)(x)
    assert "BiasActivation" not in type(out.grad_fn).__name__
    np.testing.assert_array_equal(plain(out), plain(expected))


@pytest.mark.parametrize("which", [0, 1, None])
def test_a_hook_sees_each_module(which):
    net, seen = nn.Sequential(nn.Linear(5, 4), nn.Tanh()), []
    register = hooks.register_module_forward_hook if which is None else net[which].register_forward_hook
    handle = register(lambda module, args, out: seen.append(type(module).__name__))
    try:
        net(ag.ones(2, 5))
    finally:
        handle.remove()
    assert seen == {0: ["Linear"], 1: ["Tanh"], None: ["Linear", "Tanh", "Sequential"]}[which]
    assert type(net(ag.ones(2, 5)).grad_fn).__name__ == "BiasActivationBackward0"


@pytest.mark.parametrize("activation", ["relu", "gelu", nn.SiLU(), F.tanh])
@pytest.mark.parametrize("layer", [nn.TransformerEncoderLayer, nn.TransformerDecoderLayer])
def test_transformers_fuse(layer, activation):
    """One op fewer than with a function that nobody knows, and its numbers."""
    module = layer(8, 2, 16, dropout=0.0, activation=activation)
    inputs = [ag.randn(3, 2, 8)] * (1 if layer is nn.TransformerEncoderLayer else 2)
    out = module(*inputs)
    known = getattr(F, activation) if isinstance(activation, str) else activation
    apart = layer(8, 2, 16, dropout=0.0, activation=lambda x: known(x))
    apart.load_state_dict(module.state_dict())
    expected = apart(*inputs)
    np.testing.assert_allclose(plain(out), plain(expected), rtol=1e-5, atol=1e-6)
    assert "BiasActivation" in names_in(out)
    assert "BiasActivation" not in names_in(expected)


def names_in(tensor):
    """The nodes of a graph by name."""
    seen, stack = {}, [tensor.grad_fn]
    while stack:
        node = stack.pop()
        if node is not None and node not in seen:
            seen[node] = node.name()
            stack += [edge[0] for edge in node.next_functions]
    return " ".join(seen.values())


# ---- where it is the two ops, and errors ---------------------------------------------------------------


def test_a_bias_that_broadcasts():
    x, weight, _ = layer(3)
    for bias in (None, ag.ones(1, dtype=ag.float64), ag.ones(3, 4, dtype=ag.float64)):
        result = F.linear_activation(x, weight, bias, "gelu", approximate="tanh")
        assert type(result.grad_fn).__name__ == "GeluBackward0"
        np.testing.assert_array_equal(plain(result), plain(F.gelu(F.linear(x, weight, bias), approximate="tanh")))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x, w, b: F.linear_activation(x, w, b, "mish"), ValueError, "no activation 'mish' .*use one of relu"),
        (lambda x, w, b: F.linear_activation(x, w, b, "relu", alpha=1), TypeError, "relu has no parameter 'alpha'"),
        (lambda x, w, b: F.linear_activation(x, w, b, "elu", beta=1), TypeError, "no parameter 'beta'; it has alpha"),
        (lambda x, w, b: F.linear_activation(x, w, b, "gelu", approximate="x"), RuntimeError, "none or tanh"),
        (lambda x, w, b: F.linear_activation(x, w, b, "celu", alpha=0), RuntimeError, "alpha cannot be 0 for CELU"),
        (lambda x, w, b: F.linear_activation(w, x, b), RuntimeError, "shapes cannot be multiplied|size"),
        (lambda x, w, b: F.linear_activation(x, w, b.float()), RuntimeError, "dtype"),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call(*layer(3))


def test_a_result_that_was_overwritten_is_noticed():
    out = F.linear_activation(*layer(3), "tanh")
    out.detach().mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


# ---- activations by themselves -------------------------------------------------------------------------


@pytest.mark.cuda
@pytest.mark.parametrize(("activation", "parameters"), ACTIVATIONS[:-1], ids=IDS[:-1])
def test_activations_are_a_kernel_each_way(activation, parameters):
    x = ag.tensor(np.random.randn(3, 5), dtype=ag.float32, requires_grad=True)
    with profiler.count() as c:
        out = getattr(F, activation)(x, **parameters)
    assert c.launches == ({} if activation == "relu" else {activation: 1})  # relu is CuPy's maximum
    g = ag.ones_like(out).requires_grad_()
    with profiler.count() as c:
        grad(out, x, g, retain_graph=True)
    assert c.launches == {f"{activation}_grad": 1}
    if activation not in ("relu", "leaky_relu"):
        (dx,) = grad(out, x, g, create_graph=True)
        with profiler.count() as c:
            grad(dx.sum(), [x, g])
        assert c.launches[f"{activation}_grad_gradients"] == 1
