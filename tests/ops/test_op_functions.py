"""The public functions that are made of several ops: einsum, losses of classes, max and min, dropout, layer_norm."""

import importlib
import itertools
import re
import sys

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.autograd import grad, gradcheck, gradgradcheck
from autograd_gpu.nn import functional as F
from autograd_gpu.profiler import count

einsum = importlib.import_module("autograd_gpu.ops.linalg.einsum")  # ops.einsum is the function


def leaf(device, *shape):
    return ag.tensor(np.random.normal(size=shape), device=device, requires_grad=True)


def assert_equal(actual, expected, tolerance=1e-12):
    np.testing.assert_allclose(actual.numpy(force=True), expected, rtol=tolerance, atol=tolerance)


EQUATIONS = [
    ("ij,jk->ik", (2, 3), (3, 4)), ("ij,jk", (2, 3), (3, 4)), ("ii->i", (3, 3)), ("ii", (3, 3)), ("ij->ji", (2, 3)),
    ("ij->", (2, 3)), ("bij,bjk->bik", (5, 2, 3), (5, 3, 4)), ("...ij,...jk->...ik", (2, 2, 3), (3, 1, 3, 2)),
    ("i,j->ij", (2,), (3,)), ("i,i", (3,), (3,)), ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)),
    ("a,a,a->a", (3,), (3,), (3,)),
    ("a,b,c->abc", (2,), (2,), (2,)), ("iij,jk->k", (3, 3, 4), (4, 2)), ("ij,kl->k", (2, 3), (4, 2)),
    ("iii->i", (3, 3, 3)), (",->", (), ()), ("bn,anm,bm->ba", (2, 3), (5, 3, 4), (2, 4)), ("i...->...", (2, 3)),
    (" i j , j k -> i k ", (2, 3), (3, 2)), ("ij,jk->ik", (0, 3), (3, 4)),
]  # fmt: skip


@pytest.mark.parametrize("case", EQUATIONS, ids=[case[0].replace(" ", "_") for case in EQUATIONS])
def test_einsum(case, device):
    equation, *shapes = case
    operands = [leaf(device, *shape) for shape in shapes]
    expected = np.einsum(equation.replace(" ", ""), *[x.numpy(force=True) for x in operands])
    assert_equal(ag.einsum(equation, *operands), expected)
    assert gradcheck(lambda *xs: ag.einsum(equation, *xs), tuple(operands))
    assert gradgradcheck(lambda *xs: ag.einsum(equation, *xs), tuple(operands))


def test_einsum_other_forms(device):
    a, b = leaf(device, 2, 3), leaf(device, 3, 4)
    expected = a.numpy(force=True) @ b.numpy(force=True)
    assert_equal(ag.einsum(a, [0, 1], b, [1, 2], [0, 2]), expected)
    assert_equal(ag.einsum("ij,jk->ik", [a, b]), expected)
    stretched = ag.einsum("ij,ij->i", leaf(device, 2, 1), b[:2])
    assert stretched.shape == (2,)
    assert ag.einsum(a, [30, 1]).shape == (3, 2)  # 1 comes before 30 in an inferred output
    assert ag.einsum(a, [..., 1], [1, ...]).shape == (3, 2)
    with pytest.raises(ValueError, match=r"not within the valid range \[0, 52\)"):
        ag.einsum(a, [0, 52])


@pytest.mark.parametrize(
    ("equation", "shapes", "message"),
    [
        ("ij,jk", [(2, 3), (4, 5)], "subscript j has size 4 for operand 1 which does not broadcast with"),
        ("ij,jk->il", [(2, 3), (3, 5)], "output subscript l does not appear"),
        ("ijk", [(2, 3)], r"number of subscripts in the equation \(3\) does not match .* \(2\) for operand 0"),
        ("ij", [(2, 3), (3, 5)], "more operands were provided"),
        ("ij,k", [(2, 3)], "fewer operands were provided"),
        ("ij->ii", [(2, 3)], "output subscript i appears more than once"),
        ("i1", [(2, 3)], "invalid subscript given at index 1"),
        ("ii", [(2, 3)], "repeated for one operand but the sizes don't match"),
    ],
)
def test_einsum_errors(equation, shapes, message, device):
    with pytest.raises(RuntimeError, match=message):
        ag.einsum(equation, *[ag.ones(shape, device=device) for shape in shapes])


CHAINS = [
    ("ij,jk,kl,l->i", [(50, 2), (2, 50), (50, 2), (2,)]),
    ("ab,bc,cd,de,ef,fg->ag", [(2, 3), (3, 4), (4, 2), (2, 5), (5, 2), (2, 3)]),
]


@pytest.mark.parametrize("installed", [True, False], ids=["opt_einsum", "numpy"])
@pytest.mark.parametrize(("equation", "shapes"), CHAINS, ids=[equation for equation, _ in CHAINS])
def test_einsum_multiplies_in_the_order_of_least_work(equation, shapes, installed, monkeypatch, device):
    """With either search the result is right, and no product is larger than the best order's."""
    if installed:
        pytest.importorskip("opt_einsum")
    else:
        monkeypatch.setitem(sys.modules, "opt_einsum", None)
    einsum._searcher.cache_clear()
    einsum._path.cache_clear()
    operands = [leaf(device, *shape) for shape in shapes]
    with count() as counts:
        result = ag.einsum(equation, *operands)
    monkeypatch.undo()
    einsum._searcher.cache_clear()
    assert_equal(result, np.einsum(equation, *[x.numpy(force=True) for x in operands]))
    assert sum(counts.matmuls.values()) == len(shapes) - 1
    assert max(np.prod(shape) for shape in counts.matmuls) <= 200


PRODUCTS = {
    "addmv": (lambda a, b, c: ag.addmv(a, b, c), (4,), (4, 3), (3,)),
    "addbmm": (lambda a, b, c: ag.addbmm(a, b, c), (2, 4), (5, 2, 3), (5, 3, 4)),
    "addr": (lambda a, b, c: ag.addr(a, b, c), (4, 3), (4,), (3,)),
    "inner": (lambda b, c: ag.inner(b, c), (2, 4, 3), (5, 3)),
    "tensordot": (lambda b, c: ag.tensordot(b, c, 2), (2, 4, 3), (4, 3, 5)),
    "kron": (lambda b, c: ag.kron(b, c), (2, 3), (4, 5)),
    "outer": (lambda b, c: ag.outer(b, c), (2,), (4,)),
}


@pytest.mark.parametrize("name", sorted(PRODUCTS))
def test_each_factor_gets_its_gradient_by_one_product(name, device):
    function, *shapes = PRODUCTS[name]
    operands = [leaf(device, *shape) for shape in shapes]
    out = function(*operands)
    for x in operands[-2:]:
        with count() as counts:
            ag.autograd.grad(out, x, ag.ones_like(out), retain_graph=True)
        one = 0 if name == "addmv" and x.ndim == 2 else 1  # a column times a row
        assert sum(counts.matmuls.values()) == one


def test_einsum_gradient_of_one_operand_runs_one_product(device):
    a, b = leaf(device, 2, 3), leaf(device, 3, 4)
    out = ag.einsum("ij,jk->ik", a, b)
    with count() as counts:
        ag.autograd.grad(out, a, ag.ones_like(out))
    assert dict(counts.matmuls) == {(2, 4, 3): 1}


def test_linear_runs_one_product_per_gradient_at_every_order(device):
    x, w, b = leaf(device, 5, 2, 3), leaf(device, 4, 3), leaf(device, 4)
    with count() as forward:
        out = F.linear(x, w, b)
    g = ag.ones_like(out).requires_grad_()
    with count() as first:
        gx, gw, gb = ag.autograd.grad(out, (x, w, b), g, create_graph=True)
    with count() as second:
        ag.autograd.grad((gx, gw), (g, x, w), (ag.ones_like(gx), ag.ones_like(gw)))
    assert dict(forward.matmuls) == {(10, 3, 4): 1}
    assert dict(first.matmuls) == {(10, 4, 3): 1, (4, 10, 3): 1}
    assert sum(second.matmuls.values()) == 4  # x and w once, g by both
    assert gb.shape == (4,)


# ---- losses ------------------------------------------------------------------------------------------

SHAPES = [((6, 5), (6,)), ((5,), ()), ((2, 5, 3), (2, 3))]


@pytest.mark.parametrize("name", ["cross_entropy", "nll_loss"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(("shape", "classes"), SHAPES)
def test_class_losses_equal_pytorch(name, reduction, shape, classes, device):
    torch = pytest.importorskip("torch")
    scores, target = np.random.normal(size=shape), np.asarray(np.random.randint(0, 5, classes))
    weights = (None, np.random.uniform(0.5, 2.0, 5))
    extra = ({}, {"label_smoothing": 0.2}) if name == "cross_entropy" else ({},)
    for weight, ignore, options in itertools.product(weights, (-100, 2), extra):
        options = {**options, "ignore_index": ignore, "reduction": reduction}
        x = ag.tensor(scores, device=device, requires_grad=True)
        y = torch.tensor(scores, requires_grad=True)
        w = None if weight is None else ag.tensor(weight, device=device)
        ours = getattr(F, name)(x, ag.tensor(target, device=device), w, **options)
        their_weight = None if weight is None else torch.tensor(weight)
        theirs = getattr(torch.nn.functional, name)(y, torch.tensor(target), their_weight, **options)
        assert_equal(ours, theirs.numpy(force=True))
        if bool(ours.isfinite().all()):
            ours.sum().backward()
            theirs.sum().backward()
            assert_equal(x.grad, y.grad.numpy())


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("shape", [(4, 5), (5,), (2, 5, 3)])
def test_cross_entropy_of_probabilities(shape, smoothing, device):
    torch = pytest.importorskip("torch")
    x, q = leaf(device, *shape), ag.tensor(np.random.uniform(size=shape), device=device, requires_grad=True)
    weight = np.random.uniform(0.5, 2.0, 5)
    ours = F.cross_entropy(x, q, ag.tensor(weight, device=device), label_smoothing=smoothing)
    operands = [torch.tensor(t) for t in (x.numpy(force=True), q.numpy(force=True), weight)]
    assert_equal(ours, torch.nn.functional.cross_entropy(*operands, label_smoothing=smoothing).numpy())
    assert gradcheck(lambda x, q: F.cross_entropy(x, q, label_smoothing=smoothing), (x, q))


@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.1}, {"ignore_index": 1}])
@pytest.mark.parametrize("weighed", [False, True])
@pytest.mark.parametrize("name", ["cross_entropy", "nll_loss"])
def test_when_every_row_is_ignored_the_mean_is_nan_and_gradients_are_zero(name, weighed, options, device):
    if name == "nll_loss" and "label_smoothing" in options:
        pytest.skip("nll_loss has no label_smoothing")
    x = leaf(device, 2, 3)
    target = ag.tensor([options.get("ignore_index", -100)] * 2, device=device)
    weight = ag.tensor([0.0, 1.0, 2.0], dtype=x.dtype, device=device) if weighed else None
    loss = getattr(F, name)(x, target, weight, **options)
    assert np.isnan(loss.item())
    (g,) = ag.autograd.grad(loss, x, create_graph=True)
    assert_equal(g, np.zeros((2, 3)))
    if name == "cross_entropy":
        (second,) = ag.autograd.grad(g.sum(), x)
        assert_equal(second, np.zeros((2, 3)))


@pytest.mark.parametrize("loss", [F.mse_loss, F.l1_loss, ag.huber_loss, ag.smooth_l1_loss, ag.nn.MSELoss()])
def test_a_target_of_another_shape_is_warned_of_where_the_loss_is_called(loss, device, recwarn):
    x, target = leaf(device, 2, 3), ag.zeros(3, device=device)
    loss(x, x.detach() * 2).backward()
    assert not recwarn.list
    with pytest.warns(UserWarning, match=re.escape(
        "Using a target size ([3]) that is different to the input size ([2, 3]). This will likely lead to incorrect "
        "results due to broadcasting. Please ensure they have the same size."
    )) as caught:
        loss(x, target).backward()
    assert [w.filename for w in caught] == [__file__]


def test_class_loss_errors(device):
    x, target = ag.ones(3, 5, device=device), ag.tensor([0, 1, 2], device=device)
    with pytest.raises(ValueError, match=r"batch_size \(3\) to match target batch_size \(2\)"):
        F.cross_entropy(x, target[:2])
    with pytest.raises(RuntimeError, match="for all 5 classes or no classes"):
        F.nll_loss(x, target, ag.ones(4, device=device))
    with pytest.raises(ValueError, match="not a valid value for reduction"):
        F.cross_entropy(x, target, reduction="max")
    with pytest.raises(RuntimeError, match="label_smoothing must be between"):
        F.cross_entropy(x, target, label_smoothing=2.0)


# ---- the rest ----------------------------------------------------------------------------------------


def test_max_and_min_in_their_three_forms(device):
    x = ag.tensor([[1.0, 5.0], [3.0, 2.0]], device=device)
    assert ag.max(x).item() == 5.0
    assert x.max(dim=1).indices.tolist() == [1, 0]
    assert ag.min(x, 0, keepdim=True).values.tolist() == [[1.0, 2.0]]
    assert ag.max(x, ag.full_like(x, 2.5)).tolist() == [[2.5, 5.0], [3.0, 2.5]]


def test_dropout(device):
    x = ag.ones(1000, device=device, requires_grad=True)
    assert F.dropout(x, training=False) is x
    ag.manual_seed(0)
    out = F.dropout(x, 0.25)
    assert set(out.tolist()) == {0.0, np.float32(1 / 0.75)}
    assert 650 < int((out != 0).sum()) < 850
    out.sum().backward()
    assert_equal(x.grad, out.numpy(force=True))
    with pytest.raises(ValueError, match=r"between 0 and 1, but got 1\.5"):
        F.dropout(x, 1.5)


def test_layer_norm_third_derivative(device):
    """PyTorch's is wrong here (2.13): its second derivative takes mean and rstd for constants."""
    x = leaf(device, 2, 3)

    def slope(x):
        return ag.autograd.grad(F.layer_norm(x, (3,)).pow(3).sum(), x, create_graph=True)[0]

    assert gradgradcheck(slope, (x,))


def test_smooth_l1_with_beta_zero_is_l1(device):
    a, b = leaf(device, 4), leaf(device, 4)
    assert_equal(ag.smooth_l1_loss(a, b, beta=0.0), F.l1_loss(a, b).numpy(force=True))


@pytest.mark.parametrize(
    ("name", "shapes"),
    [("add", [(4, 3), (4, 2)]), ("mul", [(5, 4, 3), (2, 1)]), ("lerp", [(3,), (3, 1), (2,)]), ("eq", [(3,), (2,)])],
)
def test_shapes_that_do_not_broadcast_are_told_in_pytorchs_words(name, shapes, device):
    torch = pytest.importorskip("torch")
    with pytest.raises(RuntimeError) as theirs:
        getattr(torch, name)(*[torch.ones(shape) for shape in shapes])
    with pytest.raises(RuntimeError, match=re.escape(f"{name}: {theirs.value} (input shapes: ")):
        getattr(ag, name)(*[ag.ones(shape, device=device) for shape in shapes])


def test_label_margins_at_a_tie_do_not_depend_on_the_number_of_elements():
    from autograd_gpu.ops.nn.margin_losses import label_margins

    x = ag.tensor([[0.1, -0.9]] * 100, requires_grad=True)
    many = grad(label_margins(x, ag.tensor([[0, -1]] * 100)).sum(), x)[0]
    one = ag.tensor([[0.1, -0.9]], requires_grad=True)
    few = grad(label_margins(one, ag.tensor([[0, -1]])).sum(), one)[0]
    assert many[:1].tolist() == few.tolist()


def test_clamp_names_what_it_takes():
    with pytest.raises(TypeError, match=r"clamp\(\): argument 'min' must be Tensor, not list"):
        ag.clamp(ag.arange(3.0), [0.0])
