"""Matrix products. Each gradient is one product, whose transposes are flags, not copies.

Note [gemm]
`gemm(a, b, ta, tb)` multiplies the last two dimensions, transposed in a if ta and in b if tb. Its gradients are again
gemm, so every derivative of the ops here, of any order, is one product:

    out = a  b     grad_a = g  bᵀ    grad_b = aᵀ g
    out = aᵀ b     grad_a = b  gᵀ    grad_b = a  g
    out = a  bᵀ    grad_a = g  b     grad_b = gᵀ a

If one operand has a batch and the other is a single matrix, the batch is folded into the rows first.
"""

from __future__ import annotations

import math

from ... import backend
from ...core.extend import MULTILINEAR, SAME, aligned, defop, example, rank

ALWAYS = "always"  # `broadcasts` of an op whose gradients are summed to the input's shape if they differ


def rows(F, x):
    """x as a matrix, with all dimensions but the last folded into one."""
    return x if x.ndim == 2 else F.reshape(x, (math.prod(x.shape[:-1]), x.shape[-1]))


def show_shapes(a, b):
    return f"{'x'.join(map(str, a))} and {'x'.join(map(str, b))}"


def _check(a, b):
    """Checks the inner sizes of two arrays of two dimensions or more, with PyTorch's errors."""
    if a.shape[-1] == b.shape[-2]:
        return
    if b.ndim == 2:
        folded = (math.prod(a.shape[:-1]), a.shape[-1])
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({show_shapes(folded, b.shape)})")
    batch = math.prod(b.shape[:-2])
    raise RuntimeError("Expected size for first two dimensions of batch2 tensor to be: "
                       f"[{batch}, {a.shape[-1]}] but got: [{batch}, {b.shape[-2]}].")


# ---- gemm ----------------------------------------------------------------------------------------------


def _gemm(xp, a, b, *, ta=False, tb=False):
    return backend.matmul(a.swapaxes(-1, -2) if ta else a, b.swapaxes(-1, -2) if tb else b)


def _left(F, g, b, a_shape, ta, tb):
    if ta:
        return F.gemm(b, g, tb, True)
    if len(a_shape) == 2 and g.ndim > 2:  # one matrix for a batch: (m, k) from (batch * n, m) and (batch * n, k)
        return F.gemm(rows(F, F.mT(g)), rows(F, b if tb else F.mT(b)), True, False)
    return F.gemm(g, b, False, not tb)


def _right(F, g, a, b_shape, ta, tb):
    if len(b_shape) == 2 and g.ndim > 2 and not ta:
        a, g = rows(F, a), rows(F, g)
    return F.gemm(g, a, True, ta) if tb else F.gemm(a, g, not ta, False)


def batch_gemm(F, n, batched, a, b, ta=False, tb=False):
    """If one operand is not batched, one product, with the batch folded into the rows of the other."""
    if batched[1] and rank(b, True) == 2 and rank(a, batched[0]) > 2 and not ta:
        lead, size = a.shape[batched[0] : -1], a.shape[-1]
        a = F.reshape(a, (*a.shape[: batched[0]], math.prod(lead), size))
        out = batch_gemm(F, n, batched, a, b, ta, tb)
        return F.reshape(out, (n, *lead, out.shape[-1]))
    if batched[1] and not batched[0] and a.ndim == 2:
        return F.mT(F.gemm(b, a, not tb, not ta))
    return F.gemm(*aligned(F, batched, (a, b)), ta, tb)


@defop
class gemm:
    """a @ b for tensors of two dimensions or more, with the last two swapped in a (`ta`) or b (`tb`); see Note [gemm].

    >>> from autograd_gpu.ops.linalg.matmul import gemm
    >>> gemm(ag.ones(3, 2), ag.ones(3, 4), True).shape
    (2, 4)
    """

    forward = _gemm
    grad_a = _left
    grad_b = _right
    types, broadcasts = SAME, ALWAYS
    jvp, batch = MULTILINEAR, batch_gemm


# ---- matmul ------------------------------------------------------------------------------------------


def check_vectors(a, b):
    if not a.ndim or not b.ndim:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {a.ndim}D and {b.ndim}D")
    if b.ndim == 1 and a.shape[-1] != b.shape[0]:
        if a.ndim == 1:
            refuse_vectors(a, b)
        raise RuntimeError(f"size mismatch, got input ({a.shape[-2]}), mat ({_shape(a)}), vec ({b.shape[0]})")


def refuse_vectors(a, b):
    m, n = a.shape[0], b.shape[0]
    raise RuntimeError(f"inconsistent tensor size, expected tensor [{m}] and src [{n}] to have the same number of "
                       f"elements, but got {m} and {n} elements respectively")


def _shape(a):
    return "x".join(map(str, a.shape))


def _check_matmul(a, b):
    check_vectors(a, b)
    if b.ndim > 1:
        _check(a, b)


def _matmul_cuda(xp, a, b):
    _check_matmul(a, b)
    return _matmul(xp, a, b)


def _matmul(xp, a, b):
    if a.ndim >= 2 and b.ndim >= 2:
        try:
            return backend.matmul(a, b)
        except ValueError:  # NumPy checks the shapes itself, which is cheaper than checking them twice
            _check(a, b)
            raise
    _check_matmul(a, b)
    left, right = a if a.ndim > 1 else a[None], b if b.ndim > 1 else b[:, None]
    out = backend.matmul(left, right)
    out = out if b.ndim > 1 else out[..., 0]
    return out if a.ndim > 1 else out[..., 0, :] if b.ndim > 1 else out[..., 0]


def _matmul_left(F, g, b, a_shape):
    if len(a_shape) == 1 and b.ndim == 2:
        return F.matmul(b, g)
    if b.ndim == 1:
        g, b = F.unsqueeze(g, -1), F.unsqueeze(b, -1)
    if len(a_shape) > 1:
        return _left(F, g, b, a_shape, False, False)
    return F.squeeze(_left(F, F.unsqueeze(g, -2), b, (1, *a_shape), False, False), -2)


def _matmul_right(F, g, a, b_shape):
    vector = len(b_shape) == 1
    g = F.unsqueeze(g, -1) if vector else g
    if a.ndim == 1:
        g, a = F.unsqueeze(g, -2), F.unsqueeze(a, -2)
    if not vector:
        return _right(F, g, a, b_shape, False, False)
    return F.squeeze(_right(F, g, a, (*b_shape, 1), False, False), -1)


def _add_matmul_right(F, into, g, a):
    """Adds the gradient of a matrix on the right, such as a weight, as one product of all rows; else uses the rule."""
    if into.ndim == 2 and a.ndim > 1:
        backend.add_matmul(into, rows(F, a).T, rows(F, g))
    else:
        into += F.sum_to(_matmul_right(F, g, a, into.shape), into.shape)


def multiplied(F, n, batched, a, b):
    """The batched product of matrices; a vector is a row on the left, a column on the right."""
    row, column = rank(a, batched[0]) == 1, rank(b, batched[1]) == 1
    if not batched[1] and b.ndim <= 2:
        return F.matmul(a, b)
    if not batched[0] and a.ndim == 2 and column:
        return F.gemm(b, a, False, True)
    out = batch_gemm(F, n, batched, F.unsqueeze(a, -2) if row else a, F.unsqueeze(b, -1) if column else b)
    out = F.squeeze(out, -1) if column else out
    return out if not row else F.squeeze(out, -1 if column else -2)


def _batch_matmul(F, n, batched, a, b):
    if not batched[1] and b.ndim == 2 and a.ndim > 1 and a.shape[-1] == b.shape[0]:
        return F.matmul(a, b)  # the most frequent case: a weight
    _check_matmul(example(a, batched[0]), example(b, batched[1]))
    return multiplied(F, n, batched, a, b)


@defop
class matmul:
    """The matrix product of the last two dimensions, broadcasting the others; a vector is a row on the left, a column
    on the right.

    >>> ag.matmul(ag.tensor([[1.0, 2.0], [3.0, 4.0]]), ag.tensor([1.0, 1.0]))
    tensor([3., 7.])
    """

    forward, cuda = _matmul, _matmul_cuda
    grad_a = _matmul_left
    grad_b = _matmul_right
    add_b = _add_matmul_right
    types, broadcasts = SAME, ALWAYS
    jvp, batch = MULTILINEAR, _batch_matmul
    public = "matmul", "linalg.matmul"
    methods = ufunc = True


# ---- products of fixed rank --------------------------------------------------------------------------


def _check_mm(a, b):
    if a.ndim != 2 or b.ndim != 2:
        raise RuntimeError(f"{'self' if a.ndim != 2 else 'mat2'} must be a matrix")
    if a.shape[1] != b.shape[0]:
        _check(a, b)


def mm_arrays(xp, a, b):
    _check_mm(a, b)
    return backend.matmul(a, b)


def batch_mm(F, n, batched, a, b):
    _check_mm(example(a, batched[0]), example(b, batched[1]))
    return batch_gemm(F, n, batched, a, b)


@defop
class mm:
    """The product of two matrices.

    >>> ag.mm(ag.tensor([[1.0, 2.0]]), ag.tensor([[3.0], [4.0]]))
    tensor([[11.]])
    """

    forward = mm_arrays
    def grad_a(F, g, b): return F.gemm(g, b, False, True)
    def grad_b(F, g, a): return F.gemm(a, g, True, False)
    def add_a(F, into, g, b): backend.add_matmul(into, g, b.T)
    def add_b(F, into, g, a): backend.add_matmul(into, a.T, g)
    parameter_names = ("input", "mat2")
    types = SAME
    jvp, batch = MULTILINEAR, batch_mm
    public = methods = True


def _check_bmm(a, b):
    for i, x in enumerate((a, b), 1):
        if x.ndim != 3:
            raise RuntimeError(f"batch{i} must be a 3D tensor")
    if a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1]:
        raise RuntimeError("Expected size for first two dimensions of batch2 tensor to be: "
                           f"[{a.shape[0]}, {a.shape[2]}] but got: [{b.shape[0]}, {b.shape[1]}].")


def bmm_arrays(xp, a, b):
    _check_bmm(a, b)
    return backend.matmul(a, b)


def batch_bmm(F, n, batched, a, b):
    _check_bmm(example(a, batched[0]), example(b, batched[1]))
    return F.gemm(a, b)


@defop
class bmm:
    """The products of two batches of matrices: (batch, m, k) and (batch, k, n).

    >>> ag.bmm(ag.ones(5, 2, 3), ag.ones(5, 3, 4)).shape
    (5, 2, 4)
    """

    forward = bmm_arrays
    def grad_a(F, g, b): return F.gemm(g, b, False, True)
    def grad_b(F, g, a): return F.gemm(a, g, True, False)
    parameter_names = ("input", "mat2")
    types = SAME
    jvp, batch = MULTILINEAR, batch_bmm
    public = methods = True


def _check_mv(mat, vec):
    if mat.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(f"matrix @ vector expected, got tensors of {mat.ndim} and {vec.ndim} dimensions")
    if mat.shape[1] != vec.shape[0]:
        check_vectors(mat, vec)


def mv_arrays(xp, mat, vec):
    _check_mv(mat, vec)
    return backend.dot(mat, vec)


def batch_mv(F, n, batched, mat, vec):
    _check_mv(example(mat, batched[0]), example(vec, batched[1]))
    return multiplied(F, n, batched, mat, vec)


@defop
class mv:
    """The product of a matrix and a vector.

    >>> ag.mv(ag.tensor([[1.0, 2.0], [3.0, 4.0]]), ag.tensor([1.0, 1.0]))
    tensor([3., 7.])
    """

    forward = mv_arrays
    def grad_mat(F, g, vec): return F.outer(g, vec)
    def grad_vec(F, g, mat): return F.matmul(g, mat)
    parameter_names = ("input", "vec")
    types = SAME
    jvp, batch = MULTILINEAR, batch_mv
    public = methods = True


# ---- shape check of added tensors ----------------------------------------------------------------------


def check_expands(x, shape):
    """Checks that x expands to `shape`, with PyTorch's errors."""
    lead = len(shape) - x.ndim
    if lead < 0:
        raise RuntimeError(f"expand: the number of sizes provided ({len(shape)}) must be greater or equal to the "
                           f"number of dimensions in the tensor ({x.ndim})")
    for i, size in enumerate(x.shape, lead):
        if size not in (1, shape[i]):
            raise RuntimeError(f"The expanded size of the tensor ({shape[i]}) must match the existing size ({size}) at "
                               f"non-singleton dimension {i}.  Target sizes: {list(shape)}.  "
                               f"Tensor sizes: {list(x.shape)}")
