"""autocast: accepted in all of PyTorch's forms, without effect, and said once."""

import warnings

import pytest

import autograd_gpu as ag
from autograd_gpu import missing_names

pytestmark = pytest.mark.cpu


@pytest.fixture(autouse=True)
def _first_time(monkeypatch):
    monkeypatch.setattr(missing_names, "_WARNED", set())


def test_disabled_it_says_nothing():
    for m in (pytest.importorskip("torch"), ag):
        with m.autocast("cpu", enabled=False), m.amp.autocast("cpu", m.bfloat16, False):
            assert (m.ones(2, 2) @ m.ones(2, 2)).dtype == m.float32
            assert not m.is_autocast_enabled()


def test_enabled_it_says_once_that_it_has_no_effect():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(2):
            with ag.autocast(device_type="cuda", dtype=ag.float16), ag.cuda.amp.autocast():
                assert (ag.ones(2, 2) @ ag.ones(2, 2)).dtype == ag.float32
    assert [str(w.message)[:22] for w in seen] == ["autocast has no effect"]
    assert seen[0].filename == __file__


def test_decorators():
    @ag.autocast("cpu", enabled=False)
    def double(x):
        return x * 2

    class Cube(ag.autograd.Function):
        @staticmethod
        @ag.amp.custom_fwd(device_type="cpu", cast_inputs=ag.float32)
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        @ag.cuda.amp.custom_bwd
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 3 * x * x

    x = ag.tensor([2.0], requires_grad=True)
    Cube.apply(double(x)).backward()
    assert x.grad.tolist() == [96.0]
    assert not ag.amp.is_autocast_available("cuda")


def test_the_device_is_a_string():
    for m in (pytest.importorskip("torch"), ag):
        with pytest.raises(ValueError, match="Expected `device_type` of type `str`"):
            m.autocast(m.device("cpu"))
