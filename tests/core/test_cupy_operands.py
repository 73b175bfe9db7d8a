"""CuPy's arrays beside tensors: their operators and ufuncs record, or refuse with a way out."""

import operator

import numpy as np
import pytest

import autograd_gpu as ag

pytestmark = pytest.mark.cuda

OPERATORS = [
    operator.add, operator.mul, operator.truediv, operator.pow, operator.lt, operator.ge,
    operator.eq, operator.ne, np.multiply, np.less,
]  # fmt: skip


@pytest.fixture
def array(cp):
    return cp.arange(1.0, 3, dtype="float32")


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("operate", OPERATORS, ids=lambda f: f.__name__)
def test_array_before_a_tensor(array, operate, requires_grad):
    t = ag.tensor([3.0, 0.5], device="cuda", requires_grad=requires_grad)
    result = operate(array, t)
    assert isinstance(result, ag.Tensor)
    np.testing.assert_allclose(result.detach().cpu().numpy(), operate(array.get(), t.detach().cpu().numpy()), rtol=1e-6)
    assert result.requires_grad == (requires_grad and result.dtype != bool)


def test_products(array):
    """CuPy's own product takes CuPy's arrays only, and is asked first where a tensor has an array to give."""
    t = ag.tensor([3.0, 0.5], device="cuda")
    with pytest.raises(TypeError):
        array @ t
    assert ((ag.as_tensor(array) @ t).item(), (t @ array).item()) == (4.0, 4.0)
    assert (array @ t.requires_grad_()).grad_fn is not None


def test_the_gradient_goes_to_the_tensor(array):
    t = ag.tensor([3.0, 0.5], device="cuda", requires_grad=True)
    (array * t).sum().backward()
    assert t.grad.tolist() == [1.0, 2.0]


def test_cupys_ufuncs_record(cp, array):
    t = ag.tensor([3.0, 0.5], device="cuda", requires_grad=True)
    for actual in (cp.multiply(array, t), cp.multiply(t, array), cp.sin(t)):
        assert actual.grad_fn is not None


def test_memory_is_not_given_away_where_a_gradient_is_wanted(cp):
    t = ag.ones(2, device="cuda", requires_grad=True)
    assert not hasattr(t, "__cuda_array_interface__")
    with pytest.raises(RuntimeError, match=r"require gradient, use tensor.detach\(\)"):
        _ = t.__cuda_array_interface__
    with pytest.raises(RuntimeError, match="detach"):
        cp.asarray(t)
    assert cp.asarray(t.detach()).data.ptr == t.detach().array.data.ptr


@pytest.mark.parametrize("write", [operator.iadd, operator.imul], ids=lambda f: f.__name__)
def test_writing_into_an_array_is_refused(array, write):
    t = ag.ones(2, device="cuda")
    with pytest.raises(TypeError, match=r"cupy.*: out= of type ndarray is not defined .*; write into a tensor"):
        write(array, t)
    assert array.tolist() == [1.0, 2.0]


def test_functions_without_an_op_are_refused(cp, array):
    t = ag.ones(2, device="cuda")
    with pytest.raises(TypeError, match=r"cupy.where is not defined .*; use ag.where, or cupy.where\(t.detach"):
        cp.where(array > 1, t, 0)


def test_numpys_functions_take_tensors_beside_cupys_arrays(array):
    t = ag.tensor([3.0, 0.5], device="cuda", requires_grad=True)
    joined = np.concatenate([array, t])
    assert joined.tolist() == [1.0, 2.0, 3.0, 0.5]
    np.linalg.norm(joined).backward()
    assert t.grad.tolist() == pytest.approx((np.array([3.0, 0.5]) / np.sqrt(14.25)).tolist())
