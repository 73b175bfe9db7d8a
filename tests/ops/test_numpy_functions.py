"""NumPy's functions on tensors record."""

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.ops.numpy_functions import FUNCTIONS

A = np.array([[1.5, -2.0, 3.0], [4.0, 0.5, -6.0]])
SQUARE = np.array([[2.0, 0.5], [0.3, 1.0]])
CALLS = {
    "sum": lambda a: np.sum(a, axis=1, keepdims=True), "prod": lambda a: np.prod(a, 0),
    "mean": lambda a: np.mean(a, axis=(0, 1)),
    "var": lambda a: np.var(a, axis=0), "std": lambda a: np.std(a, ddof=1), "max": lambda a: np.max(a, axis=1),
    "min": lambda a: np.min(a), "amax": lambda a: np.amax(a, axis=0, keepdims=True), "amin": lambda a: np.amin(a, 1),
    "argmax": lambda a: np.argmax(a, axis=1), "argmin": lambda a: np.argmin(a), "all": lambda a: np.all(a, axis=0),
    "any": lambda a: np.any(a), "cumsum": lambda a: np.cumsum(a), "sort": lambda a: np.sort(a, axis=0),
    "argsort": lambda a: np.argsort(a), "transpose": lambda a: np.transpose(a),
    "repeat": lambda a: np.repeat(a, 2, axis=1),
    "flip": lambda a: np.flip(a, 0), "dot": lambda a: np.dot(a, A.T), "vdot": lambda a: np.vdot(A, a),
    "inner": lambda a: np.inner(a, A), "outer": lambda a: np.outer(a, A), "kron": lambda a: np.kron(A, a),
    "tensordot": lambda a: np.tensordot(a, A, ([0, 1], [0, 1])), "einsum": lambda a: np.einsum("ij,kj->ik", a, A),
    "trace": lambda a: np.trace(a), "concatenate": lambda a: np.concatenate([a, A], axis=1),
    "stack": lambda a: np.stack([A, a], axis=1), "vstack": lambda a: np.vstack([a, a]),
    "hstack": lambda a: np.hstack([a, A]),
    "dstack": lambda a: np.dstack([a, a]), "column_stack": lambda a: np.column_stack([a, a]),
    "reshape": lambda a: np.reshape(a, (3, 2)), "ravel": lambda a: np.ravel(a),
    "swapaxes": lambda a: np.swapaxes(a, 0, 1),
    "moveaxis": lambda a: np.moveaxis(a, 0, 1), "squeeze": lambda a: np.squeeze(a[:1]),
    "expand_dims": lambda a: np.expand_dims(a, 1), "broadcast_to": lambda a: np.broadcast_to(a, (2, 2, 3)),
    "roll": lambda a: np.roll(a, 1, axis=1), "tile": lambda a: np.tile(a, (2, 1)),
    "where": lambda a: np.where(A > 0, a, 0.0),
    "clip": lambda a: np.clip(a, -1.0, 2.0), "diag": lambda a: np.diag(a), "tril": lambda a: np.tril(a),
    "triu": lambda a: np.triu(a, 1), "round": lambda a: np.round(a, 1), "around": lambda a: np.around(a * 1.1),
    "copy": lambda a: np.copy(a), "linalg.norm": lambda a: np.linalg.norm(a, axis=1),
    "linalg.inv": lambda a: np.linalg.inv(a[:, :2]), "linalg.det": lambda a: np.linalg.det(a[:, :2]),
    "linalg.solve": lambda a: np.linalg.solve(a[:, :2], SQUARE), "shape": lambda a: np.shape(a),
    "ndim": lambda a: np.ndim(a),
    "size": lambda a: np.size(a, 1),
}  # fmt: skip
NO_GRADIENT = {"argmax", "argmin", "all", "any", "argsort", "shape", "ndim", "size"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients(name):
    """Values are NumPy's; the gradient is that of differences."""
    x = ag.tensor(A, requires_grad=True)
    call = CALLS[name]
    result, expected = call(x), call(A)
    if name in ("shape", "ndim", "size"):
        assert result == expected
        return
    assert isinstance(result, ag.Tensor)
    assert result.shape == np.shape(expected)
    np.testing.assert_allclose(result.detach().cpu().numpy(), expected, rtol=1e-12)
    assert result.requires_grad == (name not in NO_GRADIENT)
    if result.requires_grad:
        (gradient,) = ag.autograd.grad((result * result).sum(), x)
        step, numerical = 1e-6, np.zeros_like(A)
        for at in np.ndindex(*A.shape):
            moved = A.copy()
            moved[at] += step
            up = (np.asarray(call(moved)) ** 2).sum()
            moved[at] -= 2 * step
            numerical[at] = (up - (np.asarray(call(moved)) ** 2).sum()) / (2 * step)
        np.testing.assert_allclose(gradient.cpu().numpy(), numerical, rtol=1e-4, atol=1e-4)


def test_without_axis_numpy_flattens():
    x = ag.tensor(A)
    for call in (np.cumsum, lambda a: np.concatenate([a, a], axis=None), lambda a: np.sort(a, axis=None),
                 lambda a: np.argsort(a, axis=None), lambda a: np.repeat(a, 2), lambda a: np.roll(a, 2), np.flip):
        assert call(x).tolist() == call(A).tolist()
    one, cube = A[0], np.arange(12.0).reshape(2, 3, 2)
    for a, b in ((one, one), (A, one), (one, A.T), (A, cube), (A, 2.0), (one, cube)):
        np.testing.assert_allclose(np.dot(ag.tensor(a), ag.tensor(b)).cpu().numpy(), np.dot(a, b))


def test_words_that_are_not_known_are_refused():
    x = ag.ones(2)
    for call in (lambda: np.sum(x, out=np.zeros(())), lambda: np.sum(x, where=np.array([True, False])),
                 lambda: np.concatenate([x], casting="no")):
        with pytest.raises(TypeError, match=r"unexpected keyword argument .* Use the ag function"):
            call()


def test_other_functions_get_arrays():
    if ag.get_default_device().type == "cuda":
        pytest.skip("NumPy's functions get no arrays from the GPU")
    x = ag.tensor(A)
    assert np.median(x) == np.median(A)
    assert np.allclose(x, A)
    assert np.array_equal(x, x)
    assert type(np.zeros_like(x)) is np.ndarray
    assert np.percentile(x, q=50) == np.percentile(A, 50)
    with pytest.raises(RuntimeError, match="requires grad"):
        np.median(x.requires_grad_())
