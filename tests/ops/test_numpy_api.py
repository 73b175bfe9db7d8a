"""NumPy's functions on tensors record: every row of the table, every argument of NumPy's."""

import inspect
import re

import numpy as np
import pytest
from numpy.testing.overrides import get_overridable_numpy_array_functions
from numpy_calls import CALLS, CONSTANT, A

import autograd_gpu as ag
from autograd_gpu.ops.numpy_api.protocol import FUNCTIONS, face
from autograd_gpu.ops.numpy_api.refused import NEAREST

NUMPY = {f"{f.__module__}.{f.__name__}".removeprefix("numpy."): f for f in get_overridable_numpy_array_functions()}


def parts(result):
    """A result of several arrays as a list."""
    several = isinstance(result, (tuple, list)) and not isinstance(result[0], int)
    return list(result) if several else [result]


def total(results):
    """A number that all floats of the results take part in."""
    return sum((np.asarray(r) ** 2).sum() for r in results if np.asarray(r).dtype.kind == "f")


def differences(call, at):
    step, numerical = 1e-6, np.zeros_like(at)
    for i in np.ndindex(*at.shape):
        moved = at.copy()
        moved[i] += step
        up = total(parts(call(moved)))
        moved[i] -= 2 * step
        numerical[i] = (up - total(parts(call(moved)))) / (2 * step)
    return numerical


CASES = [
    pytest.param(name, call, id=f"{name}{i or ''}") for name, calls in CALLS.items() for i, call in enumerate(calls)
]


@pytest.mark.filterwarnings("ignore:numpy.fix is deprecated")  # by NumPy 2.5
@pytest.mark.parametrize(("name", "call"), CASES)
def test_values_and_gradients(name, call):
    """Values and shapes are NumPy's, and tensors; the gradient is that of differences."""
    x = ag.tensor(A, requires_grad=True)
    results, expected = parts(call(x)), parts(call(A))
    assert len(results) == len(expected)
    for result, value in zip(results, expected, strict=True):
        if not isinstance(value, (np.ndarray, np.generic)) or name in ("allclose", "array_equal"):
            assert result == value
            continue
        assert isinstance(result, ag.Tensor)
        assert result.shape == np.shape(value)
        assert result.is_floating_point() == (np.asarray(value).dtype.kind == "f")
        np.testing.assert_allclose(result.detach().cpu().numpy(), value, rtol=1e-9, atol=1e-12)
    recorded = [r for r in results if isinstance(r, ag.Tensor) and r.requires_grad]
    if name.startswith("unique"):
        with pytest.raises(NotImplementedError, match="the derivative of unique"):
            recorded[0].sum().backward()
        return
    assert bool(recorded) == (name not in CONSTANT and results[0].is_floating_point())
    if recorded:
        (gradient,) = ag.autograd.grad(sum((r * r).sum() for r in recorded), x)
        np.testing.assert_allclose(gradient.cpu().numpy(), differences(call, A), rtol=1e-4, atol=1e-4)


def test_every_argument_is_taken_or_refused(monkeypatch):
    """The calls above use all arguments that a row takes. Each other one of NumPy's is refused by name."""
    used = {name: set() for name in FUNCTIONS}
    for name, row in list(FUNCTIONS.items()):
        def spied(*args, _name=name, _run=row.run, **given):
            used[_name] |= given.keys()
            return _run(*args, **given)

        face(NUMPY[name], name)  # of the row itself, which is kept
        monkeypatch.setitem(FUNCTIONS, name, row._replace(run=spied))
    x = ag.tensor(A)
    for calls in CALLS.values():
        for call in calls:
            call(x)
    for name in FUNCTIONS:
        parameters = face(NUMPY[name], name)
        by_position = parameters.names if parameters.spread else ()
        assert parameters.taken - used[name] - {"out", *by_position} == set(), name
    for name, function in NUMPY.items():
        if name in FUNCTIONS:
            parameters = face(function, name)
            for key in parameters.defaults.keys() - parameters.taken:
                with pytest.raises(TypeError, match=rf"np\.{name}: {key}=.* is not defined .*; .*or call ag\."):
                    x.__array_function__(function, (ag.Tensor,), (x,), {key: "unlike the default"})


def test_the_table_is_numpys():
    """Each row names functions that exist, of ours and of NumPy's; each default that a row repeats is NumPy's."""
    assert FUNCTIONS.keys() == CALLS.keys()
    assert FUNCTIONS.keys() <= NUMPY.keys()
    for name, row in FUNCTIONS.items():
        owner = ag
        for part in row.use.split("."):
            owner = getattr(owner, part)
        for p in inspect.signature(row.run).parameters.values():
            numpys = face(NUMPY[name], name).defaults.get(p.name, p.empty)
            if p.default is not p.empty and type(numpys) in (int, float, bool, str):
                assert p.default == numpys, (name, p.name)


def test_what_is_not_in_the_table_is_refused_with_the_nearest_function():
    x = ag.tensor(A)
    for name, function in NUMPY.items():
        if name not in FUNCTIONS:
            with pytest.raises(TypeError, match=rf"np\.{name} is not defined for tensors; use .*np\.{name}\(t\.detach"):
                x.__array_function__(function, (ag.Tensor,), (x,), {})
    for words in NEAREST.values():  # the functions that it names are there
        for word in re.findall(r"ag\.[\w.]*\w", words):
            owner = ag
            for part in word.split(".")[1:]:
                owner = getattr(owner, part)
    with pytest.raises(TypeError, match=r"use ag.sort, ag.topk and ag.kthvalue"):
        np.partition(x, 1)


def test_out_is_a_tensor():
    x, out = ag.tensor(A), ag.zeros(3, dtype=ag.float64)
    assert np.sum(x, axis=0, out=out) is out
    assert out.tolist() == A.sum(0).tolist()
    assert np.add(x, x, out=x) is x
    assert x.tolist() == (2 * A).tolist()
    with pytest.raises(TypeError, match=r"np\.sum: out= must be a tensor, not ndarray; write into a tensor"):
        np.sum(x, axis=0, out=np.zeros(3))
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        np.sum(x.requires_grad_(), axis=0, out=out)


def test_ufuncs_are_refused_with_a_way_out():
    x, mask = ag.tensor(A), np.array([True, False, True])
    with pytest.raises(TypeError, match=r"np\.add: where= of type ndarray .*use ag\.where"):
        np.add(x, x, where=mask)
    with pytest.raises(TypeError, match=r"np\.add\.reduce is not defined for tensors; use np\.sum"):
        np.add.reduce(x)
    with pytest.raises(TypeError, match=r"np\.cbrt is not defined for tensors; use ag\.sign"):
        np.cbrt(x)


def test_dtypes_are_the_librarys():
    """A mean of integers is of the default dtype, lists count as NumPy's arrays, and numbers have no dtype."""
    count, half = ag.tensor([1, 2, 4]), ag.ones(3)
    assert np.mean(count).dtype == np.median(count).dtype == np.linalg.norm(count).dtype == np.float32
    assert np.mean(count, dtype=np.float64).dtype == np.float64
    assert np.sum(ag.ones(3, dtype=ag.int32)).dtype == np.int64
    assert np.concatenate([half, [1.0]]).dtype == np.float64
    assert np.where(half > 0, half, 2.0).dtype == np.float32
    assert np.dot(ag.ones(2, dtype=ag.float64), [0.1, 0.2]).item() == pytest.approx(0.3, abs=1e-16)


def test_transforms_go_through():
    x = ag.tensor(A)
    by_row = ag.func.vmap(ag.func.grad(lambda row: np.linalg.norm(np.concatenate([row, row**2]))))(x)
    expected = (A + 2 * A**3) / np.sqrt((A**2 + A**4).sum(1, keepdims=True))
    np.testing.assert_allclose(by_row.cpu().numpy(), expected)


def test_other_kinds_of_arrays_answer_for_themselves():
    class Other:
        def __array_function__(self, function, types, args, kwargs):
            return "theirs"

    assert np.concatenate([ag.ones(2), Other()]) == "theirs"
