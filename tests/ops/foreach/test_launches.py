"""How many kernels a call of ag.foreach launches: one per op, dtype and device, however many tensors there are."""

import pytest

import autograd_gpu as ag

pytestmark = pytest.mark.emulated

SHAPES = ((2, 3), (), (5,), (4, 1), (33,))


def lists(count, requires_grad=True, dtype=None):
    return [[(ag.rand(*shape, device="cuda") + 0.5).to(dtype or ag.float32).requires_grad_(requires_grad)
             for shape in SHAPES] for _ in range(count)]


def counted(launches, call):
    with launches() as found:
        result = call()
    return found, result


# Call, kernels forward, kernels of the rules backward.
CALLS = {
    "add": (lambda f, x, y, z: f.add(x, y, alpha=2), 1, 1),
    "add a number": (lambda f, x, y, z: f.add(x, 2.0), 1, 0),
    "sub": (lambda f, x, y, z: f.sub(x, y), 1, 1),
    "mul": (lambda f, x, y, z: f.mul(x, y), 1, 2),
    "mul by a number": (lambda f, x, y, z: f.mul(x, 0.5), 1, 1),
    "div": (lambda f, x, y, z: f.div(x, y), 1, 5),
    "addcmul": (lambda f, x, y, z: f.addcmul(x, y, z), 1, 2),
    "addcdiv": (lambda f, x, y, z: f.addcdiv(x, y, z), 1, 7),
    "lerp": (lambda f, x, y, z: f.lerp(x, y, 0.1), 1, 2),
    "lerp by tensors": (lambda f, x, y, z: f.lerp(x, y, z), 1, 5),
    "sqrt": (lambda f, x, y, z: f.sqrt(x), 1, 2),
    "exp": (lambda f, x, y, z: f.exp(x), 1, 1),
    "log": (lambda f, x, y, z: f.log(x), 1, 1),
    "neg": (lambda f, x, y, z: f.neg(x), 1, 1),
    "sin": (lambda f, x, y, z: f.sin(x), 1, 2),
    "reciprocal": (lambda f, x, y, z: f.reciprocal(x), 1, 3),
    "square": (lambda f, x, y, z: f.pow(x, 2), 1, 2),
    "pow": (lambda f, x, y, z: f.pow(x, 3), 1, 3),
    "clone": (lambda f, x, y, z: f.clone(x), 1, 0),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_forward_and_backward(name, dtype, launches):
    call, forward, backward = CALLS[name]
    inputs = lists(3, dtype=getattr(ag, dtype))
    found, outs = counted(launches, lambda: call(ag.foreach, *inputs))
    assert sum(found.kernels.values()) == forward, found
    flat = [x for xs in inputs for x in xs]
    seeds = [ag.ones_like(out) for out in outs]
    found, _ = counted(launches, lambda: ag.autograd.grad(outs, flat, seeds, retain_graph=True, allow_unused=True))
    assert sum(found.kernels.values()) == backward, found


@pytest.mark.parametrize("create_graph", [False, True])
def test_rules_run_on_the_needed_elements_only(create_graph, launches):
    (x, y) = lists(2)
    outs = ag.foreach.mul(x, y)
    seeds = [ag.ones_like(out) for out in outs]
    found, grads = counted(launches, lambda: ag.autograd.grad(outs[:2], x[:2], seeds[:2], retain_graph=True,
                                                              create_graph=create_graph))  # fmt: skip
    assert sum(found.kernels.values()) == 1
    assert grads[0].tolist() == y[0].tolist()


def test_in_place(launches):
    x, y = lists(2, requires_grad=False)
    found, _ = counted(launches, lambda: ag.foreach.add_(x, y))
    assert sum(found.kernels.values()) == 1


def test_in_place_in_a_graph(launches):
    """The op, and a copy of its results into the tensors."""
    x, y = lists(1, requires_grad=False)[0], lists(1)[0]
    found, _ = counted(launches, lambda: ag.foreach.add_(ag.foreach.clone(x), y))
    assert sum(found.kernels.values()) == 3


def test_copies_are_one_launch(launches):
    x, y = lists(2, requires_grad=False)
    found, _ = counted(launches, lambda: ag.foreach.copy_(x, y))
    assert sum(found.kernels.values()) == 1
    assert [t.tolist() for t in x] == [t.tolist() for t in y]


def test_a_launch_per_dtype_and_number(launches):
    x, y = [*lists(1)[0], *lists(1, dtype=ag.float64)[0]], [*lists(1)[0], *lists(1, dtype=ag.float64)[0]]
    found, _ = counted(launches, lambda: ag.foreach.add(x, y))
    assert sum(found.kernels.values()) == 2
    x = lists(1)[0]
    found, _ = counted(launches, lambda: ag.foreach.mul(x, [2.0, 2.0, 3.0, 2.0, 3.0]))
    assert sum(found.kernels.values()) == 2


def test_a_list_on_two_devices(launches):
    x = lists(1)[0]
    mixed = [x[0], x[1].cpu().detach().requires_grad_(), x[2]]
    found, outs = counted(launches, lambda: ag.foreach.mul(mixed, mixed))
    assert sum(found.kernels.values()) == 1
    assert [out.device.type for out in outs] == ["cuda", "cpu", "cuda"]
    grads = ag.autograd.grad(outs, mixed, [ag.ones_like(out) for out in outs])
    assert [bool(ag.allclose(g, 2 * t)) for g, t in zip(grads, mixed, strict=True)] == [True] * 3


def test_a_tensor_that_stands_twice_is_written_without_the_launch(launches):
    x = ag.ones(3, device="cuda")
    with launches() as found:
        ag.foreach.mul_([x, x], 3.0)
    assert x.tolist() == [9.0] * 3
    assert not any("foreach" in name for name in found.kernels)


def test_functions_without_a_kernel_run_per_element(launches):
    x = lists(1)[0]
    found, _ = counted(launches, lambda: ag.foreach.tan(x))
    assert sum(found.kernels.values()) == len(x)
