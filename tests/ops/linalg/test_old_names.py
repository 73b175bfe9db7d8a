"""PyTorch's older decompositions."""

import numpy as np
import pytest

import autograd_gpu as ag

RNG = np.random.default_rng(5)
A = {"tall": RNG.normal(size=(4, 3)), "wide": RNG.normal(size=(2, 3, 5)), "square": RNG.normal(size=(3, 3))}


@pytest.mark.parametrize("a", A.values(), ids=A)
@pytest.mark.parametrize("options", [{}, {"some": False}, {"compute_uv": False}])
def test_svd(a, options, device):
    torch = pytest.importorskip("torch")
    ours, theirs = ag.svd(ag.tensor(a, device=device), **options), torch.svd(torch.tensor(a), **options)
    assert [tuple(x.shape) for x in ours] == [tuple(x.shape) for x in theirs]
    assert np.allclose(ours.S.tolist(), theirs.S.tolist())
    if options.get("compute_uv", True):
        n = ours.S.shape[-1]
        back = (ours.U[..., :n] * ours.S[..., None, :]) @ ours.V[..., :n].mT
        assert np.allclose(back.tolist(), a)
    else:
        assert not ours.U.any()
        assert not ours.V.any()


@pytest.mark.parametrize("a", A.values(), ids=A)
@pytest.mark.parametrize("some", [True, False])
def test_qr(a, some, device):
    torch = pytest.importorskip("torch")
    x = ag.tensor(a, device=device, requires_grad=True)
    ours, theirs = ag.qr(x, some=some), torch.qr(torch.tensor(a), some=some)
    assert [tuple(part.shape) for part in ours] == [tuple(part.shape) for part in theirs]
    for mine, expected in zip(ours, theirs, strict=True):
        assert np.allclose(abs(mine.detach().cpu().numpy()), abs(expected.numpy()))
    assert np.allclose((ours.Q @ ours.R).tolist(), a)
    if some or a.shape[-2] <= a.shape[-1]:
        (g,) = ag.autograd.grad((ours.Q @ ours.R).sum(), x)
        assert np.allclose(g.tolist(), 1)
