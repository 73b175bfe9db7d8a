"""Transforms beside PyTorch's, their inverses, and their Jacobians beside those that differentiation finds."""

import copy
import pickle

import numpy as np
import pytest
from distributions_beside_torch import assert_close, gradients, numpy, plain

import autograd_gpu as ag
from autograd_gpu import distributions as D


def values(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def positive(*shape):
    return np.exp(values(*shape))


# name -> (distributions, library -> the transform), x
TRANSFORMS = {
    "exp": (lambda d, m: d.ExpTransform(), values(2, 3)),
    "sigmoid": (lambda d, m: d.SigmoidTransform(), values(2, 3)),
    "tanh": (lambda d, m: d.TanhTransform(), values(2, 3)),
    "softplus": (lambda d, m: d.SoftplusTransform(), values(2, 3)),
    "power": (lambda d, m: d.PowerTransform(m.tensor([2.0, -1.5, 0.5], dtype=m.float64)), positive(2, 3)),
    "affine": (lambda d, m: d.AffineTransform(m.tensor([1.0, 2.0], dtype=m.float64).unsqueeze(1), -3.0), values(2, 3)),
    "affine of a tensor": (
        lambda d, m: d.AffineTransform(0.5, m.tensor([1.0, -2.0, 3.0], dtype=m.float64), event_dim=1), values(2, 3),
    ),
    "affine of an event": (lambda d, m: d.AffineTransform(1.0, 2.0, event_dim=1), values(2, 3)),
    "affine of an event by a 0-d tensor": (
        lambda d, m: d.AffineTransform(1.0, m.tensor(2.0, dtype=m.float64), event_dim=1), values(2, 3),
    ),
    "inverse": (lambda d, m: d.ExpTransform().inv, positive(2, 3)),
    "composed": (
        lambda d, m: d.ComposeTransform([d.TanhTransform(), d.AffineTransform(0.0, 2.0, event_dim=1)]), values(2, 3),
    ),
    "composed inverse": (
        lambda d, m: d.ComposeTransform([d.ExpTransform(), d.AffineTransform(1.0, 2.0)]).inv, 1 + positive(2, 3),
    ),
    "nothing": (lambda d, m: d.identity_transform, values(2, 3)),
    "independent": (lambda d, m: d.IndependentTransform(d.ExpTransform(), 1), values(2, 3)),
    "independent inverse": (lambda d, m: d.IndependentTransform(d.ExpTransform(), 1).inv, positive(2, 3)),
    "stick breaking": (lambda d, m: d.StickBreakingTransform(), values(2, 3)),
    "elements, then vectors": (
        lambda d, m: d.ComposeTransform([d.TanhTransform(), d.StickBreakingTransform()]), values(2, 3),
    ),
    "correlations": (lambda d, m: d.CorrCholeskyTransform(), values(2, 6)),
    "reshape": (lambda d, m: d.ReshapeTransform((6,), (3, 2)), values(2, 6)),
    "distribution function": (lambda d, m: d.CumulativeDistributionTransform(d.Normal(0.5, 2.0)), values(2, 3)),
    "parts": (
        lambda d, m: d.CatTransform([d.ExpTransform(), d.AffineTransform(1.0, 2.0)], dim=-1, lengths=[2, 1]),
        values(2, 3),
    ),
    "stacked": (lambda d, m: d.StackTransform([d.ExpTransform(), d.TanhTransform()], dim=0), values(2, 3)),
}  # fmt: skip
ONTO_FEWER = {
    "abs": (lambda d, m: d.AbsTransform(), positive(2, 3)),
    "softmax": (lambda d, m: d.SoftmaxTransform(), np.log(positive(2, 3) / positive(2, 3).sum(-1, keepdims=True))),
    "lower Cholesky": (lambda d, m: d.LowerCholeskyTransform(), np.tril(values(2, 3, 3))),
    "positive definite": (lambda d, m: d.PositiveDefiniteTransform(), np.tril(values(2, 3, 3))),
}
ALL = {**TRANSFORMS, **ONTO_FEWER}
MISCOUNTED = "affine of an event by a 0-d tensor"  # PyTorch 2.13 counts its log |scale| once, not for each element


def tensor(array):
    return ag.tensor(array, dtype=ag.float64)


@pytest.mark.parametrize("name", ALL)
def test_like_pytorch(name, device):
    torch = pytest.importorskip("torch")
    make, x = ALL[name]
    seen = []
    for m in (torch, ag):
        transform, at = make(m.distributions, m), m.tensor(x, requires_grad=True)
        y = transform(at)
        back = transform.inv(m.tensor(numpy(y)))
        shapes = tuple(transform.forward_shape(x.shape)), tuple(transform.inverse_shape(y.shape))
        sets = f"{transform.domain} {transform.codomain} {transform.domain.event_dim} {transform.codomain.event_dim}"
        said = plain(f"{transform!r} {sets} {transform.bijective}"), shapes
        seen.append((y, back, gradients(m, y, [at])[0], said))
    for mine, other in zip(seen[1][:2], seen[0][:2], strict=True):
        assert_close(mine, other, name)
    np.testing.assert_allclose(seen[1][2], seen[0][2], rtol=1e-9, atol=1e-9)
    assert seen[1][3] == seen[0][3]


@pytest.mark.parametrize("name", TRANSFORMS)
def test_jacobian_like_pytorch(name, device):
    torch = pytest.importorskip("torch")
    if name == MISCOUNTED:
        return  # test_jacobian has it
    make, x = TRANSFORMS[name]
    seen = []
    for m in (torch, ag):
        transform, at = make(m.distributions, m), m.tensor(x, requires_grad=True)
        seen.append(transform.log_abs_det_jacobian(at, transform(at)))
    assert_close(seen[1], seen[0], name)


@pytest.mark.parametrize("name", ALL)
def test_inverse(name, device):
    make, x = ALL[name]
    transform, x = make(D, ag), tensor(x)
    y = transform(x)
    assert np.asarray(numpy(transform.codomain.check(y))).all()
    assert_close(transform.inv(y), x, name)
    assert transform.inv.inv is transform
    assert_close(transform.inv.inv(x), y, name)
    assert transform.forward_shape(x.shape) == y.shape
    assert transform.inverse_shape(y.shape) == x.shape


@pytest.mark.parametrize("name", TRANSFORMS)
def test_jacobian(name, device):
    """log_abs_det_jacobian of each event is the determinant of the Jacobian, by the elements that are free."""
    make, x = TRANSFORMS[name]
    transform, x = make(D, ag), tensor(x)
    jacobians = transform.log_abs_det_jacobian(x, transform(x))
    assert_close(transform.inv.log_abs_det_jacobian(transform(x), x), -jacobians, name)
    if transform.codomain.event_dim == 0 or name in ("parts", "stacked"):  # it is diagonal
        slopes = ag.autograd.functional.jacobian(transform, x).reshape(x.numel(), x.numel()).diagonal()
        assert_close(jacobians, slopes.abs().log().reshape(x.shape), name)
        return
    for i in range(len(x)):
        def event(row, i=i):
            return free(name, transform(ag.cat([x[:i], row.unsqueeze(0), x[i + 1 :]]))[i])

        jacobian = ag.func.jacrev(event)(x[i])
        assert_close(jacobians[i], ag.linalg.slogdet(jacobian).logabsdet, name)


def free(name, y):
    """The elements of y that are free: one is determined by the others on a simplex, and for a correlation matrix."""
    if name in ("stick breaking", "elements, then vectors"):
        return y[:-1]
    if name == "correlations":
        return D.utils.tril_matrix_to_vec(y, -1)
    return y.flatten()


@pytest.mark.parametrize("name", ALL)
def test_cache(name, device):
    make, x = ALL[name]
    transform, x = make(D, ag), tensor(x)
    cached = transform.with_cache()
    assert cached.with_cache(1) is cached
    assert transform.with_cache(0) is transform
    if name == "nothing":
        return
    y = cached(x)
    assert cached(x) is y
    assert cached.inv(y) is x
    other = x + 0
    assert cached(other) is not y
    assert_close(cached(other), y, name)
    assert transform(x) is not transform(x)


@pytest.mark.parametrize("name", ALL)
def test_copies(name, device):
    transform, x = ALL[name][0](D, ag), tensor(ALL[name][1])
    transform.inv  # noqa: B018  a weak reference, which has no copy
    for other in (copy.deepcopy(transform), pickle.loads(pickle.dumps(transform))):
        assert_close(other(x), transform(x), name)
        assert_close(other.inv(other(x)), x, name)


def test_equality():
    torch = pytest.importorskip("torch")
    makes = [
        lambda d, m: d.ExpTransform(), lambda d, m: d.ExpTransform().inv, lambda d, m: d.SigmoidTransform(),
        lambda d, m: d.AffineTransform(1.0, 2.0), lambda d, m: d.AffineTransform(m.tensor(1.0), 2.0),
        lambda d, m: d.AffineTransform(1.0, m.tensor([2.0, 2.0])), lambda d, m: d.AffineTransform(1.0, 3.0),
        lambda d, m: d.PowerTransform(m.tensor(2.0)), lambda d, m: d.PowerTransform(m.tensor(3.0)),
        lambda d, m: d.ComposeTransform([d.ExpTransform(), d.AffineTransform(1.0, 2.0)]),
        lambda d, m: d.ComposeTransform([d.ExpTransform()]), lambda d, m: d.identity_transform,
        lambda d, m: d.StickBreakingTransform(), lambda d, m: d.ExpTransform(cache_size=1),
    ]  # fmt: skip
    for one in makes:
        for other in makes:
            expected = one(torch.distributions, torch) == other(torch.distributions, torch)
            assert (one(D, ag) == other(D, ag)) is bool(expected)
            assert (one(D, ag) != other(D, ag)) is not bool(expected)


def test_equality_of_what_pytorch_compares_by_identity():
    one = D.IndependentTransform(D.ExpTransform(), 1)
    assert one == D.IndependentTransform(D.ExpTransform(), 1)
    assert one != D.IndependentTransform(D.ExpTransform(), 2)
    assert D.ReshapeTransform((4,), (2, 2)) == D.ReshapeTransform((4,), (2, 2))
    assert D.ReshapeTransform((4,), (2, 2)) != D.ReshapeTransform((4,), (4, 1))


def test_signs():
    assert D.ExpTransform().sign == D.TanhTransform().inv.sign == 1
    assert D.AffineTransform(0.0, -2.0).sign == -1
    assert D.AffineTransform(0.0, ag.tensor([-2.0, 1.0])).sign.tolist() == [-1.0, 1.0]
    assert D.ComposeTransform([D.AffineTransform(0.0, -2.0), D.AffineTransform(0.0, -1.0), D.ExpTransform()]).sign == 1
    assert D.PowerTransform(ag.tensor(-2.0)).sign == -1
    for transform in (D.SoftmaxTransform(), D.AbsTransform(), D.StickBreakingTransform()):
        with pytest.raises(NotImplementedError):
            transform.sign  # noqa: B018


REFUSED = {
    "a cache of two": lambda m: m.distributions.ExpTransform(cache_size=2),
    "a cache of two, later": lambda m: m.distributions.ExpTransform().with_cache(2),
    "sizes that differ": lambda m: m.distributions.ReshapeTransform((4,), (3, 2)),
    "another shape": lambda m: m.distributions.ReshapeTransform((4,), (2, 2)).forward_shape((3, 5)),
    "too few dimensions to reshape": lambda m: m.distributions.ReshapeTransform((4,), (2, 2)).inverse_shape((3,)),
    "no vector": lambda m: m.distributions.StickBreakingTransform().forward_shape(()),
    "no simplex": lambda m: m.distributions.StickBreakingTransform().inverse_shape(()),
    "no scores": lambda m: m.distributions.SoftmaxTransform().forward_shape(()),
    "no triangle": lambda m: m.distributions.CorrCholeskyTransform().forward_shape((4,)),
    "no square": lambda m: m.distributions.CorrCholeskyTransform().inverse_shape((3, 2)),
    "too few dimensions": lambda m: m.distributions.IndependentTransform(m.distributions.ExpTransform(), 1)(m.ones(())),
    "no transform to join": lambda m: m.distributions.CatTransform([3]),
    "no transform to stack": lambda m: m.distributions.StackTransform([3]),
    "no event_dim": lambda m: m.distributions.ReshapeTransform((4,), (2, 2)).event_dim,
    "no determinant": lambda m: m.distributions.SoftmaxTransform().log_abs_det_jacobian(m.ones(2), m.ones(2)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_as_by_pytorch(name):
    torch = pytest.importorskip("torch")
    seen = []
    for m in (torch, ag):
        with pytest.raises((ValueError, AssertionError, NotImplementedError)) as error:
            REFUSED[name](m)
        seen.append((error.type, plain(str(error.value)) if name != "no determinant" else ""))
    assert seen[0] == seen[1]
