"""What a tensor is, what its dtype holds, how it prints, and what is made like it; beside PyTorch."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import autograd_gpu as ag

torch = pytest.importorskip("torch")

DTYPES = ("float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool")


def test_counts_and_places(device):
    x = ag.ones(2, 3, device=device)
    assert ag.numel(x) == x.numel() == x.nelement() == 6
    assert x.ndimension() == 2
    assert x.element_size() == 4
    assert x[1].storage_offset() == 3
    assert x[1, 1:].storage_offset() == 4
    assert x.mT[1:].storage_offset() == 1
    assert x.mT[1:].data_ptr() == x.data_ptr() + 4
    assert x.flip(1)[:, ::-1].storage_offset() == 2
    assert x.is_cpu == (device == "cpu") == (not x.is_cuda)
    assert x.get_device() == (-1 if device == "cpu" else 0)


def test_questions(device):
    x = ag.ones(2, device=device)
    assert ag.is_tensor(x)
    assert not ag.is_tensor(np.ones(2))
    assert ag.is_floating_point(x)
    assert not ag.is_floating_point(x.long())
    assert not ag.is_complex(x)
    assert x.is_same_size(x * 2)
    assert not ag.is_same_size(x, x[:1])
    assert ag.is_nonzero(x[:1])
    assert not (x[0] - 1).is_nonzero()
    with pytest.raises(RuntimeError, match="ambiguous"):
        x.is_nonzero()
    for name in DTYPES:
        y = torch.ones(1, dtype=getattr(torch, name))
        assert x.to(getattr(ag, name)).is_signed() == y.is_signed() or name == "bool"


def test_conversions(device):
    x = ag.tensor([1.5, 3.0], device=device)
    named = {"byte": "uint8", "char": "int8", "short": "int16", "int": "int32", "long": "int64", "half": "float16",
             "float": "float32", "double": "float64", "bool": "bool", "bfloat16": "bfloat16"}
    for method, name in named.items():
        converted = getattr(x, method)()
        assert converted.dtype == getattr(ag, name)
        assert x.type(getattr(ag, name)).dtype == getattr(ag, name)
        assert converted.type().endswith(getattr(torch.ones(2), method)().type().removeprefix("torch."))
        assert x.type_as(converted).dtype == converted.dtype


def test_tensors_like_another(device):
    x = ag.ones(2, dtype=ag.int32, device=device)
    made = [x.new_tensor([1.0]), x.new_zeros(2, 3), x.new_ones((2,)), x.new_full((2,), 7), x.new_empty(4)]
    assert [t.shape for t in made] == [(1,), (2, 3), (2,), (2,), (4,)]
    assert all(t.dtype == ag.int32 and t.device == x.device for t in made)
    assert made[3].tolist() == [7, 7]
    assert x.new_zeros(1, dtype=ag.float64, requires_grad=True).requires_grad


@pytest.mark.parametrize(("a", "b"), list(itertools.product(DTYPES, DTYPES)))
def test_casts_and_result_types(a, b):
    ours, theirs = (getattr(ag, a), getattr(ag, b)), (getattr(torch, a), getattr(torch, b))
    assert ag.can_cast(*ours) == torch.can_cast(*theirs)
    for shapes in (((2,), (2,)), ((2,), ()), ((), ())):
        result = ag.result_type(*[ag.ones(shape, dtype=d) for shape, d in zip(shapes, ours, strict=True)])
        expected = torch.result_type(*[torch.ones(shape, dtype=d) for shape, d in zip(shapes, theirs, strict=True)])
        assert str(result) == str(expected).removeprefix("torch.")
    for number in (True, 2, 1.5):
        expected = torch.result_type(torch.ones(2, dtype=theirs[0]), number)
        assert str(ag.result_type(ag.ones(2, dtype=ours[0]), number)) == str(expected).removeprefix("torch.")


@pytest.mark.parametrize("name", [*DTYPES, "float8_e4m3fn", "float8_e5m2", "uint64"])
def test_limits(name):
    ours, theirs = getattr(ag, name), getattr(torch, name)
    if name == "bool":
        with pytest.raises(TypeError, match="requires an integer input type, got bool"):
            ag.iinfo(ours)
    elif "float" in name:
        result, expected = ag.finfo(ours), torch.finfo(theirs)
        for field in ("min", "max", "eps", "tiny", "smallest_normal", "bits"):
            assert getattr(result, field) == getattr(expected, field), field
        assert result.dtype == expected.dtype
        with pytest.raises(TypeError, match="iinfo"):
            ag.iinfo(ours)
    else:
        result, expected = ag.iinfo(ours), torch.iinfo(theirs)
        assert (result.min, result.max, result.bits, result.dtype) == (
            expected.min, expected.max, expected.bits, expected.dtype)  # fmt: skip
        with pytest.raises(TypeError, match="Use iinfo"):
            ag.finfo(ours)
    assert ag.finfo() == ag.finfo(ag.float32)


def test_logspace(device):
    for arguments in ((0, 2, 3), (-1, 1, 5, 2.0), (1, 1, 1), (0, 1, 0)):
        result, expected = ag.logspace(*arguments, device=device), torch.logspace(*arguments)
        np.testing.assert_allclose(result.numpy(force=True), expected.numpy(), rtol=1e-6)
    assert ag.logspace(0, 2, 3, 2, dtype=ag.int64).tolist() == [1, 2, 4]
    for factory in (ag.logspace, ag.linspace):
        with pytest.raises(RuntimeError, match="number of steps must be non-negative"):
            factory(0, 1, -1)


@pytest.fixture
def default_printing():
    yield
    ag.set_printoptions(profile="default")


def test_printing(default_printing, device):
    x = ag.tensor([1.0, 0.25, 1e6])
    before = repr(x)
    ag.set_printoptions(precision=1)
    assert "[1. , 0.3]" in repr(ag.tensor([1.0, 0.26]))
    ag.set_printoptions(precision=3, sci_mode=True)
    assert "1.000e+00, 2.500e-01, 1.000e+06" in repr(x)
    ag.set_printoptions(sci_mode=False)
    assert "[      1.000,       0.250, 1000000.000]" in repr(x)  # as PyTorch aligns them
    ag.set_printoptions(threshold=5, edgeitems=1)
    assert "0, ..., 8" in repr(ag.arange(9))
    ag.set_printoptions(profile="full")
    assert "..." not in repr(ag.arange(2000))
    assert ag.get_printoptions()["linewidth"] == 80
    ag.set_printoptions(profile="default")
    assert repr(x) == before
    with pytest.raises(ValueError, match="profile is one of default, short, full; got 'long'"):
        ag.set_printoptions(profile="long")


def test_operands_of_different_layouts(device):
    """An elementwise result is row-major if one of them is, on CUDA always; PyTorch's has the layout of the first."""
    x, y = ag.ones(2, 3, device=device).t(), ag.ones(3, 2, device=device)
    assert (x + y).is_contiguous()
    assert (y + x).is_contiguous()
    assert (x + x).is_contiguous() == (device == "cuda")
    assert not (torch.ones(2, 3).t() + torch.ones(3, 2)).is_contiguous()


def test_large_selections_keep_the_layout(device):
    x = ag.randn(300, 200, device=device).t()
    for large in (ag.where(x > 0, x, 0.0), ag.relu(x), ag.softplus(x), x**3):
        assert large.stride() == x.stride() or large.is_cuda
