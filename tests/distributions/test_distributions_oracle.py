"""Every row of distribution_rows beside PyTorch: densities, moments, shapes, errors, with gradients; and samples."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from distribution_rows import ROWS, array
from distributions_beside_torch import assert_close, gradients, numpy, plain, refusal

import autograd_gpu as ag

torch = pytest.importorskip("torch")
rows = pytest.mark.parametrize("row", ROWS, ids=str)
ATTRIBUTES = ("mean", "mode", "variance", "stddev", "entropy", "perplexity")


@pytest.fixture(autouse=True)
def in_float64():
    """GeneralizedPareto of PyTorch works in its default dtype only."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@np.errstate(all="ignore")  # of infinite moments
def both(row, call, value=None, tolerance=1e-9):
    """call(distribution, value) of both libraries, with equal results and gradients; None where PyTorch has none."""
    outcomes = []
    for m in (torch, ag):
        tensors = row.tensors(m)
        x = None if value is None else m.tensor(array(value), requires_grad=array(value).dtype.kind == "f")
        inputs = [t for t in (*tensors.values(), x) if t is not None and t.requires_grad]
        try:
            result = call(row.build(m, tensors), x)
            outcomes.append((result, gradients(m, result, inputs)))
        except NotImplementedError:
            outcomes.append(None)
    expected, actual = outcomes
    if expected is None or actual is None:
        return expected, actual
    assert_close(actual[0], expected[0], str(row), tolerance)
    for mine, other in zip(actual[1], expected[1], strict=True):
        np.testing.assert_allclose(mine, other, rtol=tolerance, atol=tolerance, err_msg=f"gradient of {row}")
    return expected, actual


@rows
def test_log_prob(row, device):
    both(row, lambda d, x: d.log_prob(x), row.values, 1e-6 if "log_prob" in row.single else 1e-9)


@rows
def test_cdf(row, device):
    expected, result = both(row, lambda d, x: d.cdf(x), row.values)
    assert (expected is None) == (result is None) or "cdf" in row.more


@rows
def test_icdf(row, device):
    expected, result = both(row, lambda d, x: d.icdf(x), row.probabilities)
    assert (expected is None) == (result is None) or "icdf" in row.more


@rows
def test_moments(row, device):
    for name in ATTRIBUTES:
        if name in row.differs:
            continue

        def call(d, _, name=name):
            value = getattr(d, name)
            return value() if callable(value) else value

        expected, result = both(row, call, tolerance=1e-6 if name in row.single else 1e-9)
        assert (expected is None) == (result is None) or name in row.more


def described(d):
    """What a distribution says of itself, as text."""
    try:
        support = d.support
        support = f"{support!r} {support.is_discrete} {support.event_dim}"
    except NotImplementedError:
        support = None
    shapes = tuple(d.batch_shape), tuple(d.event_shape)
    return plain(f"{shapes} {d.has_rsample} {d.has_enumerate_support} {support} {d!r}")


@rows
def test_says_what_it_is(row, device):
    assert described(row.build(ag)) == described(row.build(torch))


@rows
def test_expand(row, device):
    d = row.build(ag)
    wide = d.expand((3, *d.batch_shape))
    assert type(wide) is type(d)
    assert described(wide) == described(row.build(torch).expand((3, *d.batch_shape)))
    dims = len(d.batch_shape) + len(d.event_shape)
    both(row, lambda d, x: d.expand((3, *d.batch_shape)).log_prob(x.unsqueeze(-1 - dims)), row.values,
         1e-6 if "log_prob" in row.single else 1e-9)
    assert wide.sample((2,)).shape == (2, 3, *d.batch_shape, *d.event_shape)


@rows
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_shapes_of_samples(row, dtype, device):
    tensors = {name: t if t.dtype == ag.int64 else t.to(getattr(ag, dtype)) for name, t in row.tensors(ag).items()}
    d = row.build(ag, tensors)
    for shape in ((), (3,), (2, 3), (0,)):
        drawn = d.sample(shape)
        assert drawn.shape == (*shape, *d.batch_shape, *d.event_shape)
        assert not drawn.requires_grad
        assert str(drawn.dtype) == dtype or d.support.is_discrete
        if drawn.numel():
            assert np.asarray(numpy(d.support.check(drawn))).all()
            assert np.isfinite(numpy(d.log_prob(drawn))).all()


def parameter(array, batch_shape, at):
    """The number, or the vector, that belongs to this distribution of a batch."""
    return array[at] if array.ndim > len(batch_shape) else np.broadcast_to(array, batch_shape)[at]


@pytest.mark.cpu
@rows
def test_samples_are_distributed_so(row):
    """By a Kolmogorov-Smirnov test of each element, a chi-squared test if it is discrete, or by the mean."""
    from scipy import stats

    ag.manual_seed(3)
    d = row.build(ag)
    drawn = numpy(d.sample((4000,)))
    if row.scipy is None and isinstance(d, (ag.distributions.TransformedDistribution, ag.distributions.LKJCholesky)):
        return  # test_distribution.py maps the samples of the base, and has the moments of the other
    if row.scipy is None:
        error = drawn.std(0) / np.sqrt(len(drawn)) + 1e-12
        assert (np.abs(drawn.mean(0) - numpy(d.mean)) < 4.5 * error).all()
        return
    for at in np.ndindex(*d.batch_shape):
        one = row.scipy({name: parameter(a, d.batch_shape, at) for name, a in row.arrays().items()})
        numbers = drawn[(slice(None), *at)]
        if hasattr(one, "pdf"):
            assert stats.kstest(numbers, one.cdf).pvalue > 1e-3
        else:
            values, counts = np.unique(numbers, return_counts=True)
            expected = one.pmf(values) * len(numbers)
            often = expected > 5
            rest = [len(numbers) - counts[often].sum()], [len(numbers) - expected[often].sum()]
            counts, expected = np.append(counts[often], rest[0]), np.append(expected[often], rest[1])
            few = expected > 1
            assert counts[~few].sum() < 10
            chi2 = ((counts - expected)[few] ** 2 / expected[few]).sum()
            assert stats.chi2(max(few.sum() - 1, 1)).sf(chi2) > 1e-3


@pytest.mark.cpu
@rows
def test_gradients_of_rsample(row):
    """Beside central differences with the same noise."""
    if not (row.noise and row.build(ag).has_rsample):
        return
    tensors = row.tensors(ag)

    def draw(tensors):
        ag.manual_seed(5)
        return (row.build(ag, tensors).rsample((7,)) * 0.7).sin().sum()

    inputs = {name: t for name, t in tensors.items() if t.requires_grad}
    grads = ag.autograd.grad(draw(tensors), list(inputs.values()), allow_unused=True)
    rng = np.random.default_rng(0)
    for name, g in zip(inputs, grads, strict=True):
        assert g is not None, name
        step = direction(row, name, rng) * 1e-6
        with ag.no_grad():
            ends = [draw({**tensors, name: tensors[name] + ag.tensor(s * step)}).item() for s in (1, -1)]
        np.testing.assert_allclose((numpy(g) * step).sum(), (ends[0] - ends[1]) / 2, rtol=1e-5, atol=1e-12)


def direction(row, name, rng):
    """A direction in which the parameter stays valid: symmetric or triangular matrices stay so."""
    value = row.arrays()[name]
    step = rng.normal(size=value.shape)
    if name in ("covariance_matrix", "precision_matrix"):
        return step + np.swapaxes(step, -1, -2)
    return np.tril(step) if name == "scale_tril" else step


@rows
def test_invalid_parameters_are_refused(row, device):
    for wrong in row.invalid:
        texts = []
        for m in (torch, ag):
            tensors = {**row.tensors(m, False), **{name: m.tensor(array(value)) for name, value in wrong.items()}}
            texts.append(refusal(lambda m=m, tensors=tensors: row.build(m, tensors)))
        assert texts[0] is not None, wrong
        assert texts[0] == texts[1]


@rows
def test_values_outside_of_the_support_are_refused(row, device):
    for value in row.outside:
        texts = [refusal(lambda m=m: row.build(m).log_prob(m.tensor(array(value)))) for m in (torch, ag)]  # noqa: B023
        assert texts[0] is not None, value
        assert texts[0] == texts[1]


@rows
def test_vmap_and_forward_mode(row, device):
    """log_prob of each value under vmap, as one call gives it; and the derivative along a direction of all inputs."""
    d, values = row.build(ag), ag.tensor(array(row.values))
    log_probs = ag.func.vmap(d.log_prob)(values)
    assert_close(log_probs, d.log_prob(values), "vmap")

    tensors = row.tensors(ag)
    names = [name for name, t in tensors.items() if t.requires_grad]
    if not names:
        return
    rng = np.random.default_rng(1)
    steps = tuple(ag.tensor(np.asarray(direction(row, name, rng))) for name in names)

    def total(*parameters):
        return row.build(ag, {**tensors, **dict(zip(names, parameters, strict=True))}).log_prob(values).sum()

    parameters = tuple(tensors[name] for name in names)
    _, along = ag.func.jvp(total, tuple(t.detach() for t in parameters), steps)
    slopes = ag.autograd.grad(total(*parameters), parameters, allow_unused=True)
    expected = sum((g * s).sum() for g, s in zip(slopes, steps, strict=True) if g is not None)
    assert_close(along, expected, "jvp")


@np.errstate(all="ignore")  # of infinite divergences
@pytest.mark.parametrize("q", ROWS, ids=str)
def test_kl_divergence(q, device):
    """Of every row from q, and whether there is a formula at all."""
    for p in ROWS:
        if "kl" in p.differs + q.differs:
            continue
        outcomes = []
        for m in (torch, ag):
            inputs = [p.tensors(m), q.tensors(m)]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    result = m.distributions.kl_divergence(p.build(m, inputs[0]), q.build(m, inputs[1]))
                except (NotImplementedError, ValueError, RuntimeError) as error:
                    outcomes.append(type(error))
                    continue
            leaves = [t for tensors in inputs for t in tensors.values() if t.requires_grad]
            outcomes.append((result, gradients(m, result, leaves)))
        what = f"KL({p} || {q})"
        expected, actual = outcomes
        if isinstance(expected, type):
            assert actual is expected or "kl" in q.more, what
            continue
        assert not isinstance(actual, type), what
        assert_close(actual[0], expected[0], what)
        for mine, other in zip(actual[1], expected[1], strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-9, err_msg=f"gradient of {what}")
