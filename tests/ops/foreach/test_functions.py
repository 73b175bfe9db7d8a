"""ag.foreach against torch._foreach_*, and what an element promotes to; each list op is in the op table, too."""

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.core.saved.saved_tensor import NOTHING

SHAPES = ((2, 3), (), (0, 2), (4,))


def lists(module, count, seed=0, dtype="float64", requires_grad=True):
    """Lists of positive numbers, the same ones for both modules."""
    rng = np.random.default_rng(seed)
    made = [[module.tensor(rng.uniform(0.5, 0.9, shape)) for shape in SHAPES] for _ in range(count)]
    return [[x.to(getattr(module, dtype)).requires_grad_(requires_grad) for x in xs] for xs in made]


def foreach(module, name):
    return getattr(ag.foreach, name) if module is ag else getattr(module, f"_foreach_{name}")


CALLS = {
    "add": [lambda f, x, y, z: f(x, y), lambda f, x, y, z: f(x, y, alpha=-2), lambda f, x, y, z: f(x, 2),
            lambda f, x, y, z: f(x, [1.0, 2.0, 3, 4]), lambda f, x, y, z: f(x, y[1]),
            lambda f, x, y, z: f(x, y[1], alpha=3)],
    "sub": [lambda f, x, y, z: f(x, y, alpha=0.5), lambda f, x, y, z: f(x, 0.5),
            lambda f, x, y, z: f(x, [1.0, 2.0, 3.0, 4.0])],
    "mul": [lambda f, x, y, z: f(x, y), lambda f, x, y, z: f(x, 3), lambda f, x, y, z: f(x, [1.0, 2.0, 1.0, 4.0]),
            lambda f, x, y, z: f(x, y[1])],
    "div": [lambda f, x, y, z: f(x, y), lambda f, x, y, z: f(x, 3.0), lambda f, x, y, z: f(x, [1.0, 2.0, 1.0, 4.0]),
            lambda f, x, y, z: f(x, y[1])],
    "addcmul": [lambda f, x, y, z: f(x, y, z), lambda f, x, y, z: f(x, y, z, 2.0),
                lambda f, x, y, z: f(x, y, z, [1.0, 2.0, 3.0, 4.0])],
    "addcdiv": [lambda f, x, y, z: f(x, y, z), lambda f, x, y, z: f(x, y, z, value=0.5),
                lambda f, x, y, z: f(x, y, z, [1.0, 2.0, 3.0, 4.0])],
    "lerp": [lambda f, x, y, z: f(x, y, 0.25), lambda f, x, y, z: f(x, y, [0.1, 0.7, 0.1, 0.2]),
             lambda f, x, y, z: f(x, y, z)],
    "pow": [lambda f, x, y, z: f(x, y), lambda f, x, y, z: f(x, 2), lambda f, x, y, z: f(x, [1.0, 2.0, 0.5, 4.0])],
    "maximum": [lambda f, x, y, z: f(x, y), lambda f, x, y, z: f(x, 0.7), lambda f, x, y, z: f(x, [0.7] * 4)],
    "minimum": [lambda f, x, y, z: f(x, y), lambda f, x, y, z: f(x, 0.7), lambda f, x, y, z: f(x, [0.7] * 4)],
    "clamp_min": [lambda f, x, y, z: f(x, y), lambda f, x, y, z: f(x, 0.7), lambda f, x, y, z: f(x, [0.7] * 4)],
    "clamp_max": [lambda f, x, y, z: f(x, y), lambda f, x, y, z: f(x, 0.7), lambda f, x, y, z: f(x, [0.7] * 4)],
    **{name: [lambda f, x, y, z: f(x)] for name in (
        "abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac", "lgamma",
        "log", "log10", "log1p", "log2", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh",
        "sqrt", "tan", "tanh", "trunc")},
}  # fmt: skip
OUT_OF_PLACE = {
    "clone": [lambda f, x, y, z: f(x)],
    "max": [lambda f, x, y, z: f([x[0], x[1], x[3]])],
    "norm": [lambda f, x, y, z: f(x), lambda f, x, y, z: f(x, 1), lambda f, x, y, z: f(x, 3)],
    "powsum": [lambda f, x, y, z: f(x), lambda f, x, y, z: f(x, 3), lambda f, x, y, z: f(x, 1)],
    "mm": [lambda f, x, y, z: f([x[0], x[2]], [y[0].mT, y[2].mT])],
}
# PyTorch raises in backward: for the 0-d tensor of all elements, in addcdiv of a 0-d tensor, in powsum, in place with
# numbers.
FAILS = {("add", 4), ("add", 5), ("mul", 3), ("div", 3), *(("addcdiv", k) for k in range(3)),
         *(("powsum", k) for k in range(3))}  # fmt: skip
FAILS_IN_PLACE = FAILS | {(name, k) for name in ("maximum", "minimum") for k in (1, 2)}
TOLERANCE = {"lgamma": 1e-8}  # PyTorch's trigamma
FORMS = [(name, k) for name, calls in (CALLS | OUT_OF_PLACE).items() for k in range(len(calls))]


def gradients(module, outs, inputs):
    outs = [out for out in outs if out.requires_grad]
    seeds = [module.ones_like(out) * 1.5 for out in outs]
    grad = module.autograd.grad
    first = grad(outs, inputs, seeds, create_graph=True, allow_unused=True)
    live = [g for g in first if g is not None and g.requires_grad]
    more = grad(live, inputs, [module.ones_like(g) for g in live], allow_unused=True) if live else []
    return [*first, *more]


def same(ours, theirs, tolerance=1e-12):
    for a, b in zip(ours, theirs, strict=True):
        a, b = (None if t is None else t.numpy(force=True) for t in (a, b))
        if a is None or b is None:
            assert not np.any(b if a is None else a)
            continue
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.cpu
def test_all_functions_of_pytorch_are_there():
    torch = pytest.importorskip("torch")
    theirs = {name.removeprefix("_foreach_") for name in dir(torch) if name.startswith("_foreach_")}
    assert theirs - set(ag.foreach.__all__) == set()
    assert set(ag.foreach.__all__) - theirs == {"sum"}
    assert theirs == {*CALLS, *OUT_OF_PLACE, *(f"{name}_" for name in CALLS), "copy_", "zero_"}


@pytest.mark.cpu
@pytest.mark.parametrize(("name", "k"), FORMS)
def test_results_and_derivatives_are_those_of_pytorch(name, k):
    torch = pytest.importorskip("torch")
    call, result = (CALLS | OUT_OF_PLACE)[name][k], []
    for module in (ag, torch):
        inputs = lists(module, 3)
        outs = call(foreach(module, name), *inputs)
        assert isinstance(outs, tuple)
        flat = [x for xs in inputs for x in xs]
        result.append([*outs, *(gradients(module, outs, flat) if (name, k) not in FAILS else ())])
    same(*result, TOLERANCE.get(name, 1e-12))


@pytest.mark.cpu
@pytest.mark.parametrize(("name", "k"), [form for form in FORMS if form[0] in CALLS])
@pytest.mark.parametrize("recorded", [False, True])
def test_in_place_forms_are_those_of_pytorch(name, k, recorded):
    torch = pytest.importorskip("torch")
    seen = []
    for module in (ag, torch):
        inputs = lists(module, 3, requires_grad=recorded)
        xs = [x * 1 for x in inputs[0]]
        returned = CALLS[name][k](foreach(module, f"{name}_"), xs, *inputs[1:])
        assert all(a is b for a, b in zip(returned, xs, strict=True))
        assert [x._version for x in xs] == [1] * len(xs)
        compared = recorded and (name, k) not in FAILS_IN_PLACE
        seen.append([*xs, *(gradients(module, xs, [x for tensors in inputs for x in tensors]) if compared else ())])
    same(*seen, TOLERANCE.get(name, 1e-12))


@pytest.mark.cpu
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int32", "uint8", "bool"])
@pytest.mark.parametrize("name", ["add", "mul", "div", "exp", "pow", "maximum", "neg", "clamp_min", "lerp", "norm"])
def test_an_element_promotes_for_itself(name, dtype):
    torch = pytest.importorskip("torch")
    call = {"pow": lambda f, x: f(x, 2), "exp": lambda f, x: f(x), "neg": lambda f, x: f(x), "norm": lambda f, x: f(x),
            "lerp": lambda f, x: f(x, [y * 2 for y in x], 0.3)}.get(name, lambda f, x: f(x, 1.5))  # fmt: skip
    seen = []
    for module in (ag, torch):
        xs = [module.tensor([1.0, 2.0]).to(getattr(module, t)) for t in (dtype, "float32", "float64")]
        try:
            seen.append([str(out.dtype).removeprefix("torch.") for out in call(foreach(module, name), xs)])
        except RuntimeError:
            seen.append("refused")
    assert seen[0] == seen[1] or seen[1] == "refused"


def test_two_dtypes_in_an_element(device):
    x = ag.tensor([1.0, 2.0], dtype=ag.float32, device=device, requires_grad=True)
    y = ag.tensor([3.0, 4.0], dtype=ag.float64, device=device, requires_grad=True)
    first, second = ag.foreach.mul([x, y], [y, y])
    assert (first.dtype, second.dtype) == (ag.float64, ag.float64)
    (first.sum() + second.sum()).backward()
    assert (x.grad.dtype, x.grad.tolist(), y.grad.tolist()) == (ag.float32, [3.0, 4.0], [7.0, 10.0])


@pytest.mark.cpu
@pytest.mark.parametrize("call", [
    *[lambda m, f, name=name: f(m, name)([m.tensor([1.0, 3.0]), m.tensor([1, 3])], m.tensor(2.0))
      for name in ("clamp_min", "clamp_max", "maximum", "minimum", "pow")],
    lambda m, f: f(m, "maximum")([m.tensor([1, 3]), m.tensor([1, 3])], [1.5, 2]),
    lambda m, f: f(m, "addcmul")([m.tensor([1, 3])], [m.tensor([2, 3])], [m.tensor([2, 3])], value=2.5),
    lambda m, f: f(m, "pow")([m.tensor([True, False])] * 2, [True, False]),
])  # fmt: skip
def test_numbers_beside_integers_and_bools(call):
    torch = pytest.importorskip("torch")
    expected, result = call(torch, foreach), call(ag, foreach)
    assert [str(x.dtype) for x in result] == [str(x.dtype).removeprefix("torch.") for x in expected]
    assert [x.tolist() for x in result] == [x.tolist() for x in expected]


@pytest.mark.parametrize("name", ["neg", "sub", "neg_", "sub_"])
def test_bools_are_refused_as_by_the_op(name, device):
    bools = [ag.tensor([True], device=device)]
    with pytest.raises(RuntimeError, match=r"on a bool tensor is not|with two bool tensors is not"):
        getattr(ag.foreach, name)(*[bools] * (1 + name.startswith("sub")))


@pytest.mark.cpu
def test_zeros_of_both_signs_are_two_numbers():
    for zero in (0.0, -0.0, 0.0):
        (result,) = ag.foreach.add([ag.tensor([-0.0])], zero)
        assert np.signbit(result.numpy()[0]) == np.signbit(zero)


def test_half_types_beside_numbers_round_once(device):
    for dtype in (ag.float16, ag.bfloat16):
        x = ag.tensor([1.0, 3.0, 0.3], device=device).to(dtype)
        for name, value in (("mul", 1 / 3), ("add", 1e-4), ("div", 3.1), ("pow", 2.5)):
            assert getattr(ag.foreach, name)([x], value)[0].tolist() == getattr(ag, name)(x, value).tolist()


# ---- graphs -----------------------------------------------------------------------------------------


NUMBERS = {
    "add": lambda op, x, y, z: op(x, y, alpha=0.3),
    "sub": lambda op, x, y, z: op(x, y, alpha=3),
    "mul": lambda op, x, y, z: op(x, 0.7),
    "div": lambda op, x, y, z: op(x, 3),
    "addcmul": lambda op, x, y, z: op(x, y, z, value=0.1),
    "addcdiv": lambda op, x, y, z: op(x, y, z, value=-1.7),
    "lerp": lambda op, x, y, z: op(x, y, 0.3),
    "lerp from the other end": lambda op, x, y, z: op(x, y, 0.9),
}


@pytest.mark.cpu
@pytest.mark.parametrize("dtypes", [["float32"], ["float64"], ["float16"], ["float32", "float64", "bfloat16"]], ids=str)
@pytest.mark.parametrize("case", NUMBERS)
def test_numbers_give_what_the_op_on_one_tensor_gives(case, dtypes):
    """To the last bit: the list op converts a number once for all elements."""
    call, name = NUMBERS[case], case.split()[0]
    inputs = [[x.detach().to(getattr(ag, dtypes[i % len(dtypes)])) for i, x in enumerate(xs)] for xs in lists(ag, 3)]
    expected = [call(getattr(ag, name), *row) for row in zip(*inputs, strict=True)]
    result = call(getattr(ag.foreach, name), *inputs)
    call(getattr(ag.foreach, f"{name}_"), *inputs)
    for one, out, written in zip(expected, result, inputs[0], strict=True):
        assert out.dtype == one.dtype == written.dtype
        assert out.tolist() == one.tolist() == written.tolist()


@pytest.mark.cpu
def test_0d_elements_stay_numpys(monkeypatch):
    """NumPy makes scalars of 0-d results, which are no reason to look for kernels."""
    monkeypatch.setattr("autograd_gpu.ops.foreach.arrays._launched", None)
    x, y, z = lists(ag, 3)
    outs = ag.foreach.mul(ag.foreach.addcmul(x, y, z, value=0.5), x)
    grads = ag.autograd.grad(outs, [*x, *y], [ag.ones_like(out) for out in outs])
    single = [ag.addcmul(*row, value=0.5) * row[0] for row in zip(x, y, z, strict=True)]
    expected = ag.autograd.grad(single, [*x, *y], [ag.ones_like(out) for out in outs])
    assert [g.tolist() for g in grads] == [g.tolist() for g in expected]


def test_a_call_is_one_node(device):
    xs = [ag.ones(2, device=device, requires_grad=True), ag.ones(3, device=device, requires_grad=True)]
    for outs in (ag.foreach.add(xs, xs), ag.foreach.sqrt(xs), ag.foreach.norm(xs), ag.foreach.pow(2, xs)):
        assert outs[0].grad_fn is outs[1].grad_fn
        assert [out.output_nr for out in outs] == [0, 1]
    assert outs[0].grad_fn.name() == "ForeachPowBackward0"


def test_what_depends_on_no_parameter_is_a_constant(device):
    xs = [ag.ones(2, device=device, requires_grad=True), ag.ones(3, device=device)]
    a, b = ag.foreach.exp(xs)
    assert (a.requires_grad, b.requires_grad, b.grad_fn, b.is_leaf) == (True, False, None, True)
    assert not any(out.requires_grad for out in ag.foreach.exp([x.detach() for x in xs]))


def kept(node, slot):
    return [tensors is not NOTHING for tensors in getattr(node, slot)]


def test_only_what_a_needed_rule_reads_is_saved(device):
    def made(*wants):
        return [ag.ones(2, device=device, requires_grad=want) for want in wants]

    node = ag.foreach.mul(made(True, False, True, False), made(False, True, True, False))[0].grad_fn
    assert kept(node, "s_tensors") == [False, True, True, False, True, False, True, False]
    assert len(node.saved_by_name()) == 4
    node = ag.foreach.exp(made(True, False, True))[0].grad_fn
    assert kept(node, "s_out") == [True, False, True]
    node = ag.foreach.add(made(True, True), made(True, True))[0].grad_fn
    assert node.saved_by_name() == []
    node = ag.foreach.div(made(False, True), made(True, False))[1].grad_fn
    assert kept(node, "s_tensors") == [True, False, True, True]


def test_a_write_to_what_another_element_saved_is_no_error(device):
    xs = [ag.ones(2, device=device, requires_grad=True) for _ in range(2)]
    ys = [ag.ones(2, device=device) * 2 for _ in range(2)]
    a, b = ag.foreach.mul(xs, ys)
    ys[1].zero_()
    assert ag.autograd.grad(a.sum(), xs[0], retain_graph=True)[0].tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        ag.autograd.grad(b.sum(), xs[1])


def test_gradients_of_a_tensor_that_stands_twice_add(device):
    x = ag.tensor([2.0], device=device, requires_grad=True)
    a, b = ag.foreach.mul([x, x], [1.0, 10.0])
    (a + b).sum().backward()
    assert x.grad.tolist() == [11.0]


def test_a_0d_tensor_is_one_operand_for_all(device):
    xs = [ag.ones(2, device=device), ag.ones(3, device=device)]
    scale = ag.tensor(3.0, device=device, requires_grad=True)
    outs = ag.foreach.mul(xs, scale)
    (outs[0].sum() + outs[1].sum()).backward()
    assert scale.grad.item() == 5.0


def test_elements_broadcast(device):
    x, y = ag.ones(2, 3, device=device, requires_grad=True), ag.ones(3, device=device, requires_grad=True)
    z = ag.ones(4, device=device, requires_grad=True)
    outs = ag.foreach.add([x, z], [y, z])
    sum(out.sum() for out in outs).backward()
    assert (y.grad.tolist(), x.grad.shape, z.grad.tolist()) == ([2.0] * 3, (2, 3), [2.0] * 4)


def test_saved_tensor_hooks_see_what_is_saved(device):
    seen = []

    def pack(x):
        seen.append(tuple(x.shape))
        return x

    xs = [ag.ones(2, device=device, requires_grad=True), ag.ones(3, device=device)]
    with ag.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        a, _ = ag.foreach.mul(xs, [x.detach() * 2 for x in xs])
    assert seen == [(2,)]
    assert ag.autograd.grad(a.sum(), xs[0])[0].tolist() == [2.0, 2.0]


# ---- transforms -------------------------------------------------------------------------------------


def test_tangents(device):
    x, y = ag.tensor([1.0, 2.0], device=device), ag.tensor([3.0], device=device)
    ones = ag.ones(2, device=device)
    result = ag.func.jvp(lambda a: ag.foreach.mul([a, y], [a, y]), (x,), (ones,))
    assert [t.tolist() for t in result[1]] == [[2.0, 4.0], [0.0]]
    second = ag.func.jvp(lambda a: ag.func.jvp(lambda b: ag.foreach.pow([b], 3)[0], (a,), (ones,))[1], (x,), (ones,))
    assert second[1].tolist() == [6.0, 12.0]


def test_batches(device):
    x, y = ag.randn(3, 2, device=device), ag.randn(2, device=device)
    result = ag.func.vmap(lambda a: ag.foreach.addcmul([a, y], [y, a.sum()], [a, a.sum()], value=[1.0, 2.0]))(x)
    for i in range(3):
        a = x[i]
        expected = ag.foreach.addcmul([a, y], [y, a.sum()], [a, a.sum()], value=[1.0, 2.0])
        assert all(bool(ag.allclose(f[i], e)) for f, e in zip(result, expected, strict=True))


def test_gradients_of_examples(device):
    x, w = ag.randn(4, 2, device=device), [ag.randn(2, device=device), ag.randn(1, device=device)]

    def loss(w, x):
        return sum(out.sum() for out in ag.foreach.mul(ag.foreach.sqrt(ag.foreach.exp(w)), [x, x]))

    result = ag.func.vmap(ag.func.grad(loss), in_dims=(None, 0))(w, x)
    for i in range(4):
        for f, e in zip(result, ag.func.grad(loss)(w, x[i]), strict=True):
            assert bool(ag.allclose(f[i], e, atol=1e-6))


# ---- errors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("call", "error", "match"), [
    (lambda f, x: f.add([x, x], [x] * 3), RuntimeError, "must have the same number of tensors, got 2 and 3"),
    (lambda f, x: f.addcmul([x], [x], [x] * 2), RuntimeError, "must have the same number of tensors, got 1 and 2"),
    (lambda f, x: f.mul([x], [1.0, 2.0]), RuntimeError, "same number of elements as scalar list, got 1 and 2"),
    (lambda f, x: f.addcdiv([x], [x], [x], [1.0, 2.0]), RuntimeError, "elements as scalar list, got 1 and 2"),
    (lambda f, x: f.addcdiv([x], [x], [x], x), RuntimeError, "Expected length of scalars to match input of length 1"),
    (lambda f, x: f.add([], []), RuntimeError, "Tensor list must have at least one tensor"),
    (lambda f, x: f.exp(()), RuntimeError, "Tensor list must have at least one tensor"),
    (lambda f, x: f.exp(x), TypeError, r"not Tensor; put it into a list, foreach.exp\(\[x\], ...\)"),
    (lambda f, x: f.add_(x, 1), TypeError, r"not Tensor; put it into a list, foreach.add\(\[x\], ...\)"),
    (lambda f, x: f.zero_(x), TypeError, "put it into a list"),
    (lambda f, x: f.exp([x, 1.0]), TypeError, "expected a list of Tensors, but element 1 is float"),
    (lambda f, x: f.mul([x], [x, 1.0]), TypeError, "expected a list of Tensors, but element 1 is float"),
    (lambda f, x: f.mul([x], x), RuntimeError, "expected to be 0 dim but it has 1 dimensions and 2 elements"),
    (lambda f, x: f.pow([x], x), TypeError, "expected a number or a list, not a Tensor"),
    (lambda f, x: f.mul([x], "2"), TypeError, "expected a number, a list of numbers or a list of Tensors, not str"),
    (lambda f, x: f.pow_(2, [x]), TypeError, "expected a list of Tensors to write to, not int"),
    (lambda f, x: f.add([x, x], [x, x[:0]]), RuntimeError, r"size of tensor a \(2\) .* b \(0\).*\(element 1\)"),
    (lambda f, x: f.add([x.to(ag.float8_e4m3fn)], 1), TypeError, "storage dtype"),
])  # fmt: skip
def test_refused(call, error, match, device):
    with pytest.raises(error, match=match):
        call(ag.foreach, ag.ones(2, device=device))
