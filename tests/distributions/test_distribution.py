"""The base class, checks of arguments, and what single distributions promise beyond the table of rows."""

import copy
import importlib
import pickle
import subprocess
import sys
import warnings
from typing import ClassVar

import numpy as np
import pytest
from checkout import ROOT
from distributions_beside_torch import assert_close, numpy, plain, refusal

import autograd_gpu as ag
from autograd_gpu import distributions as D


@pytest.mark.cpu
def test_imported_at_first_use():
    code = (
        "import sys, autograd_gpu as ag; assert 'autograd_gpu.distributions' not in sys.modules;"
        "ag.distributions.Normal; from autograd_gpu.distributions import Normal, constraints, transforms"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_names_are_pytorchs():
    """All public ones, each class in the module of PyTorch, and the private helpers that libraries import."""
    torch = pytest.importorskip("torch")
    assert [name for name in D.__all__ if not hasattr(torch.distributions, name)] == []
    assert set(torch.distributions.__all__) <= set(D.__all__)
    paths = [f"{getattr(torch.distributions, name).__module__[20:]}.{name}" for name in torch.distributions.__all__
             if isinstance(getattr(torch.distributions, name), type)]  # fmt: skip
    helpers = ["utils._standard_normal", "utils._sum_rightmost", "multivariate_normal._precision_to_scale_tril",
               "multivariate_normal._batch_mahalanobis", "multivariate_normal._batch_mv",
               "lowrank_multivariate_normal._batch_lowrank_logdet", "transforms._InverseTransform",
               "kl._KL_REGISTRY", "kl._KL_MEMOIZE"]  # fmt: skip
    for path in paths + helpers:
        module, name = path.split(".")
        assert hasattr(importlib.import_module(f"autograd_gpu.distributions.{module}"), name), path
    assert set(D.transforms.__all__) == set(torch.distributions.transforms.__all__)
    assert set(D.constraints.__all__) == set(torch.distributions.constraints.__all__)


class TestBase:
    def test_what_is_missing_says_so(self):
        class Bare(D.Distribution):
            arg_constraints: ClassVar = {}

        d, x = Bare(), ag.ones(())
        for call in (d.log_prob, d.cdf, d.icdf, d.expand):
            with pytest.raises(NotImplementedError, match="Bare does not implement"):
                call(x)
        for call in (d.sample, d.rsample, d.entropy, d.enumerate_support):
            with pytest.raises(NotImplementedError, match="Bare does not implement"):
                call()
        for name in ("mean", "mode", "variance", "stddev", "support"):
            with pytest.raises(NotImplementedError, match=r"Bare.* does not"):
                getattr(d, name)
        assert repr(d) == "Bare()"

    def test_classes_without_constraints_warn(self):
        class Loose(D.Distribution):
            pass

        with pytest.warns(UserWarning, match="does not define `arg_constraints`"):
            d = Loose((2,))
        with pytest.raises(NotImplementedError):
            d.arg_constraints  # noqa: B018
        with pytest.warns(UserWarning, match="does not define `support`"):
            d._validate_sample(ag.ones(2))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            Loose(validate_args=False)

    def test_a_users_distribution(self, device):
        """What a subclass defines is enough for the rest."""

        class Shifted(D.Distribution):
            arg_constraints: ClassVar = {"low": D.constraints.real}
            has_rsample = True

            def __init__(self, low, validate_args=None):
                (self.low,) = D.utils.broadcast_all(low)
                super().__init__(self.low.shape, validate_args=validate_args)

            @D.constraints.dependent_property(is_discrete=False, event_dim=0)
            def support(self):
                return D.constraints.greater_than(self.low)

            def rsample(self, sample_shape=()):
                return self.low + ag.rand(self._extended_shape(sample_shape))

            def log_prob(self, value):
                if self._validate_args:
                    self._validate_sample(value)
                return value * 0

        low = ag.zeros(3, requires_grad=True)
        d = Shifted(low)
        assert d.sample((2,)).shape == (2, 3)
        assert not d.sample().requires_grad
        d.rsample().sum().backward()
        assert low.grad.tolist() == [1.0, 1.0, 1.0]
        with pytest.raises(ValueError, match=r"Expected value argument \(Tensor of shape \(3,\)\) to be"):
            d.log_prob(ag.tensor([1.0, -1.0, 1.0]))
        assert D.Independent(d, 1).log_prob(ag.ones(3)).shape == ()

    def test_subclasses_with_their_own_init_need_their_own_expand(self):
        torch = pytest.importorskip("torch")
        texts = []
        for m in (torch, ag):

            class Unit(m.distributions.Normal):
                def __init__(self, loc):
                    super().__init__(loc, 1.0)

            with pytest.raises(NotImplementedError) as error:
                Unit(m.zeros(1)).expand((2,))
            texts.append(str(error.value))

            class Same(m.distributions.Normal):
                pass

            assert type(Same(m.zeros(1), 1.0).expand((2,))) is Same
        assert texts[1] == texts[0]

    def test_sample_n(self):
        with pytest.warns(UserWarning, match="sample_n"):
            assert D.Normal(ag.zeros(2), 1.0).sample_n(3).shape == (3, 2)

    def test_copies(self, device):
        for d in (D.Normal(ag.zeros(2), 1.0), D.MultivariateNormal(ag.zeros(2), ag.eye(2)), D.Gumbel(0.0, 1.0),
                  D.LogNormal(ag.zeros(2), 1.0), D.Independent(D.Laplace(ag.zeros(2), 1.0), 1)):  # fmt: skip
            for other in (copy.deepcopy(d), pickle.loads(pickle.dumps(d))):
                x = ag.full(d.batch_shape + d.event_shape, 0.5)
                assert_close(other.log_prob(x), d.log_prob(x), repr(d))


class TestChecks:
    def test_off_by_an_argument(self, device):
        d = D.Uniform(ag.tensor([0.0, 1.0]), -1.0, validate_args=False)
        assert numpy(d.cdf(ag.tensor([-2.0, 2.0]))).tolist() == [1.0, 0.0]
        assert d.expand((3, 2)).cdf(ag.tensor(7.0)).shape == (3, 2)
        D.Exponential(1.0, validate_args=False).log_prob(ag.tensor(-1.0))

    def test_off_by_default(self):
        try:
            D.Distribution.set_default_validate_args(False)
            D.Normal(0.0, -1.0)
            with pytest.raises(ValueError, match="scale"):
                D.Normal(0.0, -1.0, validate_args=True)
        finally:
            D.Distribution.set_default_validate_args(True)
        with pytest.raises(ValueError, match="scale"):
            D.Normal(0.0, -1.0)
        with pytest.raises(ValueError, match="True or False"):
            D.Distribution.set_default_validate_args("no")

    @pytest.mark.parametrize("call", [
        lambda m: m.distributions.Normal(0.0, 1.0).log_prob(3.0),
        lambda m: m.distributions.Normal(m.zeros(3), 1.0).log_prob(m.zeros(2)),
        lambda m: m.distributions.Normal(m.zeros(2, 3), 1.0).cdf(m.zeros(4, 1, 2)),
        lambda m: m.distributions.Independent(m.distributions.Normal(m.zeros(3), 1.0), 2),
        lambda m: m.distributions.TransformedDistribution(m.distributions.Normal(0.0, 1.0), 3),
        lambda m: m.distributions.TransformedDistribution(m.distributions.Normal(0.0, 1.0), [3]),
        lambda m: m.distributions.MultivariateNormal(m.zeros(2)),
        lambda m: m.distributions.MultivariateNormal(m.zeros(2), m.eye(2), m.eye(2)),
    ])  # fmt: skip
    def test_refused_as_by_pytorch(self, call):
        torch = pytest.importorskip("torch")
        expected = refusal(lambda: call(torch))
        assert expected is not None
        assert refusal(lambda: call(ag)) == expected

    def test_what_is_no_number(self):
        for wrong in ("a", [1.0], np.ones(2)):
            with pytest.raises(ValueError, match="must all be instances of Number or Tensor"):
                D.Normal(wrong, 1.0)
        with pytest.raises(RuntimeError, match="broadcast"):
            D.Normal(ag.zeros(2), ag.ones(3))

    def test_parameters_of_modules(self):
        scale = ag.nn.Parameter(ag.tensor(-1.0))
        with pytest.raises(ValueError, match=r"Parameter of shape \(\)|Tensor of shape \(\)"):
            D.Normal(0.0, scale)


def test_numbers_take_the_dtype_and_the_device_of_the_first_tensor(device):
    for dtype in (ag.float32, ag.float64):
        d = D.Normal(0, ag.ones(2, dtype=dtype))
        assert (d.loc.dtype, d.scale.dtype, d.loc.shape) == (dtype, dtype, (2,))
        assert d.sample().dtype == dtype
        assert d.sample().device == d.loc.device == d.scale.device
    assert D.Normal(0, 1).loc.dtype == ag.float32


class TestUtils:
    def test_probabilities_and_logits(self, device):
        torch = pytest.importorskip("torch")
        for binary in (False, True):
            for name in ("logits_to_probs", "probs_to_logits"):
                values = [[0.0, 0.2, 0.8], [1.0, 0.0, 0.0]]
                expected = getattr(torch.distributions.utils, name)(torch.tensor(values), is_binary=binary)
                result = getattr(D.utils, name)(ag.tensor(values), is_binary=binary)
                assert_close(result, expected, name, 1e-6)

    @pytest.mark.parametrize("diag", [0, -1])
    def test_triangles(self, diag, device):
        torch = pytest.importorskip("torch")
        vec = np.arange(1.0, 13.0).reshape(2, 6)
        expected = torch.distributions.utils.vec_to_tril_matrix(torch.tensor(vec), diag)
        result = D.utils.vec_to_tril_matrix(ag.tensor(vec), diag)
        assert_close(result, expected, "matrix")
        assert_close(D.utils.tril_matrix_to_vec(result, diag), ag.tensor(vec), "back")
        with pytest.raises(ValueError, match="cannot be expressed as the lower triangular part"):
            D.utils.vec_to_tril_matrix(ag.ones(4))
        with pytest.raises(ValueError, match="is outside"):
            D.utils.tril_matrix_to_vec(ag.eye(2), 2)

    def test_lazy_properties_are_recorded_and_kept(self):
        x = ag.ones((), requires_grad=True)

        class Twice:
            @D.utils.lazy_property
            def value(self):
                """Two of them."""
                return x * 2

        twice = Twice()
        with ag.no_grad():
            assert twice.value is twice.value
        assert twice.value.requires_grad
        assert Twice.value.__doc__ == "Two of them."


class TestMultivariateNormal:
    @pytest.mark.parametrize("shapes", [((3,), ()), ((2, 3), ()), ((3,), (2,)), ((4, 1, 3), (2,)), ((2, 3), (4, 1))])
    def test_batches_broadcast(self, shapes, device):
        """The matrix of each row, and samples before all of them."""
        torch = pytest.importorskip("torch")
        loc_shape, batch = shapes
        rng = np.random.default_rng(0)
        factor = np.tril(rng.normal(size=(*batch, 3, 3))) + 3 * np.eye(3)
        loc = rng.normal(size=loc_shape)
        theirs, ours = (
            m.distributions.MultivariateNormal(m.tensor(loc), scale_tril=m.tensor(factor)) for m in (torch, ag)
        )
        x = rng.normal(size=(5, 1, *theirs.batch_shape, 3))
        assert_close(ours.log_prob(ag.tensor(x)), theirs.log_prob(torch.tensor(x)), "log_prob")
        for name in ("scale_tril", "covariance_matrix", "precision_matrix", "variance"):
            assert_close(getattr(ours, name), getattr(theirs, name), name)
        assert ours.rsample((2,)).shape == (2, *theirs.batch_shape, 3)
        assert_close(ours.entropy(), theirs.entropy(), "entropy")

    @pytest.mark.cpu
    def test_covariance_of_samples(self):
        ag.manual_seed(0)
        covariance = ag.tensor([[2.0, -0.8], [-0.8, 1.0]])
        d = D.MultivariateNormal(ag.tensor([1.0, -1.0]), covariance)
        result = np.cov(numpy(d.sample((20000,))).T)
        np.testing.assert_allclose(result, numpy(covariance), atol=0.06)

    def test_not_positive_definite_without_checks(self):
        with pytest.raises(ag.linalg.LinAlgError):
            D.MultivariateNormal(ag.zeros(2), -ag.eye(2), validate_args=False)

    def test_dimensions_that_differ_have_no_divergence(self):
        p, q = (D.MultivariateNormal(ag.zeros(n), ag.eye(n)) for n in (2, 3))
        with pytest.raises(ValueError, match="different event shapes"):
            D.kl_divergence(p, q)


class TestMatrices:
    @pytest.mark.cpu
    def test_lkj_samples(self):
        """Correlations of a matrix (d, d) are 2 x - 1 for beta-distributed x of concentrations c + d / 2 - 1."""
        from scipy import stats

        ag.manual_seed(0)
        for concentration in (0.7, 3.0):
            factor = D.LKJCholesky(4, concentration).sample((2000,))
            correlations = numpy((factor @ factor.mT + 1) / 2)
            for i, j in ((1, 0), (3, 1), (3, 2)):
                beta = stats.beta(concentration + 1, concentration + 1)
                assert stats.kstest(correlations[:, i, j], beta.cdf).pvalue > 1e-3
        assert D.LKJCholesky(3, ag.ones(2)).expand((4, 2)).sample((5,)).shape == (5, 4, 2, 3, 3)

    def test_refused(self):
        for call, text in ((lambda: D.LKJCholesky(1), "dim=1"), (lambda: D.LKJCholesky(2, -1.0), "concentration"),
                           (lambda: D.Wishart(1.0, ag.eye(3)), "greater than ndim - 1 = 2"),
                           (lambda: D.LowRankMultivariateNormal(ag.zeros(2), ag.ones(2, 1), -ag.ones(2)), "cov_diag")):
            with pytest.raises(ValueError, match=text):
                call()
        with pytest.raises(AssertionError, match="Exactly one"):
            D.Wishart(3.0)
        with pytest.warns(UserWarning, match="Low df"):
            D.Wishart(2.5, ag.eye(3))

    def test_wishart_by_any_of_its_matrices(self, device):
        """A batch of df, and of matrices, has the densities, entropies and divergences of each."""
        torch = pytest.importorskip("torch")
        factor = ag.tensor([[1.4, 0.0], [0.2, 0.9]], dtype=ag.float64)
        covariance = factor @ factor.mT
        ways = {"scale_tril": factor, "covariance_matrix": covariance, "precision_matrix": covariance.inverse()}
        q, df = D.Wishart(4.0, ag.eye(2, dtype=ag.float64)), ag.tensor([3.5, 1e3], dtype=ag.float64)
        expected = torch.tensor(numpy(covariance))
        theirs = [torch.distributions.Wishart(x, expected) for x in torch.tensor([3.5, 1e3]).double()]
        other = torch.distributions.Wishart(torch.tensor(4.0).double(), torch.eye(2, dtype=torch.float64))
        divergences = [torch.distributions.kl_divergence(p, other) for p in theirs]
        for name, matrix in ways.items():
            p = D.Wishart(df, **{name: matrix})
            assert_close(p.entropy(), torch.stack([d.entropy() for d in theirs]), name)
            assert_close(D.kl_divergence(p, q), torch.stack(divergences), name, 1e-7)
            for other_name, expected in ways.items():
                assert_close(getattr(p, other_name)[0], expected, other_name)


class TestGeneralizedPareto:
    def test_without_a_tail_is_exponential(self, device):
        """At a concentration of 0 the derivatives are limits, too; PyTorch's by the concentration are 0."""
        scale, x = ag.tensor(2.0, dtype=ag.float64), ag.tensor([0.3, 4.0], dtype=ag.float64)
        c = ag.zeros((), dtype=ag.float64, requires_grad=True)
        d, exponential = D.GeneralizedPareto(0.0, scale, c), D.Exponential(1 / scale)
        for name, value in (("log_prob", x), ("cdf", x), ("icdf", x / 5)):
            assert_close(getattr(d, name)(value).detach(), getattr(exponential, name)(value), name)
            (gradient,) = ag.autograd.grad(getattr(d, name)(value).sum(), c)
            ends = [getattr(D.GeneralizedPareto(0.0, scale, s), name)(value).sum() for s in (1e-5, -1e-5)]
            assert gradient.item() == pytest.approx((ends[0] - ends[1]).item() / 2e-5, rel=1e-5)

    @np.errstate(all="ignore")
    def test_uniform_to_its_end(self):
        d = D.GeneralizedPareto(1.0, 2.0, ag.tensor(-1.0))
        assert d.log_prob(ag.tensor([1.0, 2.0, 3.0])).exp().tolist() == pytest.approx([0.5] * 3)
        assert d.cdf(ag.tensor([1.0, 2.0, 3.0])).tolist() == pytest.approx([0.0, 0.5, 1.0])
        assert D.GeneralizedPareto(1.0, 2.0, -2.0).log_prob(ag.tensor(2.0)).item() == float("inf")


class TestContinuousBernoulli:
    def test_nearly_uniform(self, device):
        """All digits, where PyTorch's formulas are series of low order or lose half of them."""
        x = ag.tensor([0.1, 0.5, 0.8], dtype=ag.float64)
        for logits in (0.0, 1e-6, -5e-4, 2e-3, -0.3, 0.9999, 1.0001, 30.0, -800.0):
            exact = D.ContinuousBernoulli(logits=ag.tensor(logits, dtype=ag.float64))
            single = D.ContinuousBernoulli(logits=ag.tensor(logits))
            if abs(logits) < 100:  # else all of it is at an end
                assert_close(exact.icdf(exact.cdf(x)), x, "icdf", 1e-9)
            for name in ("mean", "variance"):
                assert getattr(single, name).item() == pytest.approx(getattr(exact, name).item(), rel=2e-6), logits
            assert single.entropy().item() == pytest.approx(exact.entropy().item(), rel=1e-5, abs=1e-4)

    def test_divergence_between_intervals_that_touch(self):
        """Finite, where PyTorch has infinity."""
        p, q = D.ContinuousBernoulli(ag.tensor(0.3)), D.Uniform(0.0, 1.0)
        assert D.kl_divergence(p, q).item() == pytest.approx(-p.entropy().item())
        assert D.kl_divergence(q, p).item() == pytest.approx(0.029736, abs=1e-5)


@np.errstate(all="ignore")
def test_mode_of_kumaraswamy():
    """PyTorch has NaN for all of them."""
    d = D.Kumaraswamy(ag.tensor([2.0, 1.5, 0.5]), ag.tensor([3.0, 1.2, 2.0]))
    grid = ag.linspace(0.001, 0.999, 999).unsqueeze(-1)
    highest = grid[d.log_prob(grid).argmax(0)].squeeze(-1)
    np.testing.assert_allclose(d.mode[:2].tolist(), highest[:2].tolist(), atol=1e-3)
    assert d.mode[2].isnan()


@np.errstate(all="ignore")
def test_infinite_and_missing_moments():
    inf, nan = float("inf"), float("nan")
    d = D.Pareto(1.0, ag.tensor([0.5, 1.5, 3.0]))
    np.testing.assert_array_equal(d.mean.isinf().tolist(), [True, False, False])
    np.testing.assert_array_equal(d.variance.isinf().tolist(), [True, True, False])
    d = D.FisherSnedecor(ag.tensor([1.0, 3.0]), ag.tensor([2.0, 4.0]))
    np.testing.assert_allclose([d.mean.tolist(), d.variance.tolist()], [[nan, 2.0], [nan, nan]])
    assert d.mode.isnan().tolist() == [True, False]
    d = D.GeneralizedPareto(0.0, 1.0, ag.tensor([0.7, 1.0]))
    assert [d.mean.isnan().tolist(), d.variance.isnan().tolist()] == [[False, True], [True, True]]
    divergence = D.kl_divergence(D.Pareto(1.0, ag.tensor([0.5, 2.0])), D.Normal(0.0, 1.0))
    assert divergence.tolist() == [inf, inf]


class TestTransformedDistribution:
    @pytest.mark.parametrize("make", [
        lambda d, m: d.TransformedDistribution(d.Normal(m.zeros(3), 1.0), d.StickBreakingTransform()),
        lambda d, m: d.TransformedDistribution(d.Normal(0.0, 1.0), d.AffineTransform(m.zeros(4), 2.0)),
        lambda d, m: d.TransformedDistribution(d.Normal(m.zeros(2, 3), 1.0), []),
        lambda d, m: d.TransformedDistribution(d.Normal(m.zeros(2, 3), 1.0), d.AffineTransform(0.0, 2.0, event_dim=1)),
        lambda d, m: d.TransformedDistribution(
            d.MultivariateNormal(m.zeros(5, 3), m.eye(3)), [d.ExpTransform(), d.AffineTransform(1.0, 2.0)]),
        lambda d, m: d.TransformedDistribution(d.Normal(m.zeros(2, 6), 1.0), d.ReshapeTransform((6,), (2, 3))),
        lambda d, m: d.TransformedDistribution(d.Normal(m.zeros(2, 6), 1.0), d.CorrCholeskyTransform()),
        lambda d, m: d.TransformedDistribution(
            d.TransformedDistribution(d.Normal(m.zeros(2), 1.0), d.ExpTransform()), d.SigmoidTransform()),
    ])  # fmt: skip
    def test_shapes_and_samples(self, make, device):
        torch = pytest.importorskip("torch")
        expected, result = make(torch.distributions, torch), make(D, ag)
        for one, other in ((result, expected), (result.expand((7, *result.batch_shape)),
                                               expected.expand((7, *expected.batch_shape)))):  # fmt: skip
            assert (one.batch_shape, one.event_shape) == (tuple(other.batch_shape), tuple(other.event_shape))
            assert (one.base_dist.batch_shape, one.has_rsample) == (tuple(other.base_dist.batch_shape), True)
            assert plain(repr(one.support)) == plain(repr(other.support))
            ag.manual_seed(0)
            sample = one.sample((5,))
            ag.manual_seed(0)
            base = one.base_dist.sample((5,))
            for transform in one.transforms:
                base = transform(base)
            assert_close(sample, base, "sample")
            value = sample if len(one.event_shape) < 2 or "Corr" not in repr(one.support) else sample.double()
            kept = torch.tensor(numpy(value).tolist(), dtype=torch.float32)
            theirs = make(torch.distributions, torch).expand(one.batch_shape)
            theirs._validate_args = one._validate_args = False  # rounding puts some samples outside
            assert_close(one.log_prob(value.float()), theirs.log_prob(kept), "log_prob", 1e-3)

    def test_too_few_dimensions(self):
        torch = pytest.importorskip("torch")
        texts = [refusal(lambda d=m.distributions: d.TransformedDistribution(
            d.Normal(0.0, 1.0), d.StickBreakingTransform())) for m in (torch, ag)]  # fmt: skip
        assert texts[1] == texts[0] is not None

    def test_divergences_need_equal_transforms(self):
        p, q, r = (
            D.TransformedDistribution(D.Normal(0.0, 1.0), t)
            for t in (D.ExpTransform(), D.ExpTransform(), D.SigmoidTransform())
        )
        assert D.kl_divergence(p, q).item() == 0
        assert D.kl_divergence(p, D.LogNormal(1.0, 1.0)).item() == pytest.approx(0.5)
        with pytest.raises(NotImplementedError):
            D.kl_divergence(p, r)

    def test_no_distribution_function_without_an_order(self):
        d = D.TransformedDistribution(D.Normal(0.0, 1.0), D.AbsTransform())
        for call in (d.cdf, d.icdf, d.log_prob):
            with pytest.raises(NotImplementedError):
                call(ag.tensor(0.5))


@np.errstate(all="ignore")
def test_ends_of_supports(device):
    """The ends of an open support, and those of the real line, have their distribution function and quantiles."""
    inf = float("inf")
    for d in (D.Weibull(2.0, 1.5), D.LogNormal(0.0, 1.0), D.InverseGamma(1.0, 1.0)):
        assert d.cdf(ag.tensor([0.0, inf])).tolist() == [0.0, 1.0]
    for d in (D.Gumbel(0.0, 1.0), D.Cauchy(0.0, 1.0)):
        assert d.cdf(ag.tensor([-inf, inf])).tolist() == [0.0, 1.0]
        assert d.icdf(ag.tensor([0.0, 1.0])).tolist() == [-inf, inf]
    assert D.HalfCauchy(1.0).icdf(ag.tensor(1.0)).item() == inf
    assert D.Gumbel(0.0, 1.0).cdf(ag.tensor([-10.0, 20.0])).tolist() == [0.0, 1.0]
    for d in (D.HalfNormal(1.0), D.Gumbel(0.0, 1.0)):
        with pytest.raises(ValueError, match="within the support"):
            d.cdf(ag.tensor([-1.0, float("nan")]))


def test_independent_needs_equal_dimensions_for_a_divergence():
    p, q = (D.Independent(D.Normal(ag.zeros(2, 2), 1.0), n) for n in (1, 2))
    with pytest.raises(NotImplementedError, match="equal reinterpreted_batch_ndims"):
        D.kl_divergence(p, q)
    assert D.kl_divergence(q, q).shape == ()
    assert D.Independent(D.Normal(ag.zeros(2), 1.0), 0).support is D.constraints.real


def test_tails_of_the_normal_distribution(device):
    """Relative accuracy where PyTorch's formula, 1 + erf, has none left."""
    from scipy import stats

    x = np.array([-8.0, -12.0, -30.0])
    normal = D.Normal(ag.tensor(0.0, dtype=ag.float64), 1.0)
    np.testing.assert_allclose(numpy(normal.cdf(ag.tensor(x))), stats.norm.cdf(x), rtol=1e-10)
    np.testing.assert_allclose(numpy(normal.icdf(ag.tensor(stats.norm.cdf(x)))), x, rtol=1e-10)
