"""vmap: dimensions, structures, chunks, gradients of batches, and what it refuses; beside PyTorch."""

from collections import namedtuple
from functools import partial

import numpy as np
import pytest
from func_programs import agree, compared, normal, refused_by_both, torch

import autograd_gpu as ag

Pair = namedtuple("Pair", "a b")

# ---- dimensions ----------------------------------------------------------------------------------------

IN_DIMS = [0, 1, 2, -1, -2, -3, (0,), (1,)]


@pytest.mark.parametrize("dims", IN_DIMS, ids=str)
def test_in_dims_of_one_argument(dims):
    agree(lambda m: m.func.vmap(lambda x: x.sin().sum(0), in_dims=dims)(normal(m, 2, 3, 4)))


@pytest.mark.parametrize("dims", [(0, 0), (0, None), (None, 0), (1, 0), (-1, 1), (-2, -1)], ids=str)
def test_in_dims_of_two_arguments(dims):
    agree(lambda m: m.func.vmap(lambda x, y: x * y + 1, in_dims=dims)(normal(m, 3, 3), normal(m, 3, 3, seed=1)))


@pytest.mark.parametrize("dim", [0, 1, 2, -1, -2, -3])
def test_out_dims(dim):
    agree(lambda m: m.func.vmap(lambda x: x.cos(), out_dims=dim)(normal(m, 2, 3, 4)))


@pytest.mark.parametrize("dims", [0, (0, 1), (1, -1), (-2, 0)], ids=str)
def test_out_dims_of_several_outputs(dims):
    agree(lambda m: m.func.vmap(lambda x: (x, 2 * x), out_dims=dims)(normal(m, 2, 3, 4)))


@compared
def test_out_dims_of_one_output_in_a_tuple(m):
    return m.func.vmap(lambda x: x * 2, out_dims=(1,))(normal(m, 2, 3)), m.func.vmap(
        lambda x: (x,), out_dims=(1,))(normal(m, 2, 3))


@compared
def test_in_dims_as_a_pytree(m):
    def f(tree, z):
        return tree["x"] * tree["y"][0] + z

    tree = {"x": normal(m, 2, 3), "y": [normal(m, 3, 2)]}
    vmap, z = m.func.vmap, normal(m, 3)
    return (vmap(f, in_dims=({"x": 0, "y": [1]}, None))(tree, z), vmap(f, in_dims=({"x": 0, "y": 1}, None))(tree, z),
            vmap(f, in_dims=({"x": None, "y": 0}, 0))({"x": normal(m, 2), "y": [normal(m, 3, 2)]}, z))


@compared
def test_an_in_dim_reaches_all_of_an_argument(m):
    return m.func.vmap(lambda t: t[0] * t[1][0], in_dims=(1,))((normal(m, 2, 3), [normal(m, 3, 3)[:2]]))


@compared
def test_out_dims_as_a_pytree(m):
    def f(x):
        return {"a": x, "b": (x.sum(), [x * 2])}

    vmap, x = m.func.vmap, normal(m, 2, 3)
    return (vmap(f)(x), vmap(f, out_dims={"a": 1, "b": (0, [1])})(x), vmap(f, out_dims={"a": -1, "b": 0})(x))


@compared
def test_namedtuples_keep_their_class(m):
    result = m.func.vmap(lambda p: Pair(p.a + p.b, p.b))(Pair(normal(m, 3), normal(m, 3, 2)[:, 0]))
    assert type(result) is Pair
    return tuple(result)


@compared
def test_arguments_that_are_no_tensors(m):
    vmap, x = m.func.vmap, normal(m, 3)
    return (vmap(lambda x, k, s: x * k if s == "times" else x, in_dims=(0, None, None))(x, 4, "times"),
            vmap(lambda x, none: x if none is None else none, in_dims=(0, None))(x, None))


@compared
def test_keyword_arguments_are_not_mapped(m):
    return m.func.vmap(lambda x, *, y, scale=1: x + y.sum() * scale)(normal(m, 3), y=normal(m, 3), scale=2)


def test_an_output_that_is_the_same_in_all_examples_is_expanded():
    """PyTorch expands it only where the new dimension is the first."""
    y = ag.tensor([1.0, 2.0])
    columns, rows = ag.func.vmap(lambda x: (y, y), out_dims=(1, 0))(ag.ones(3))
    assert columns.tolist() == [[1, 1, 1], [2, 2, 2]]
    assert rows.tolist() == [[1, 2]] * 3


@compared
def test_an_output_without_a_dimension(m):
    y = normal(m, 2)
    return m.func.vmap(lambda x: (x, y), out_dims=(0, None))(normal(m, 3))


def test_an_output_that_is_no_tensor_needs_the_out_dim_none():
    result = ag.func.vmap(lambda x: (x, 3, "s", None), out_dims=(0, None, None, None))(ag.ones(2))
    assert result[1:] == (3, "s", None)


@compared
def test_results_that_are_the_inputs(m):
    x = normal(m, 2, 3)
    return m.func.vmap(lambda x: x)(x), m.func.vmap(lambda x: x, in_dims=1, out_dims=1)(x)


@compared
def test_a_batch_of_one(m):
    return m.func.vmap(lambda x, y: (x @ y, x.sum()))(normal(m, 1, 2, 3), normal(m, 1, 3))


@compared
def test_a_batch_of_none(m):
    return m.func.vmap(lambda x, y: (x * y, x.sum(), x.max(0)[0], m.cat([x, y])))(normal(m, 0, 3), normal(m, 0, 3))


@compared
def test_integers_and_bools(m):
    x, y = m.tensor([[1, 2], [3, 4]]), m.tensor([[True, False], [False, False]])
    return m.func.vmap(lambda x, y: (x + 1, x.sum(), ~y, m.where(y, x, 0), x * 1.5))(x, y)


@compared
def test_a_partial(m):
    return m.func.vmap(partial(lambda k, x: k * x, 3))(normal(m, 2)), m.func.vmap(
        partial(lambda x, k: k * x, k=normal(m, 2)))(normal(m, 2))


@compared
def test_a_module(m):
    layer = m.nn.Linear(2, 3, dtype=m.float64)
    with m.no_grad():
        layer.weight.copy_(normal(m, 3, 2))
        layer.bias.copy_(normal(m, 3))
    return m.func.vmap(layer)(normal(m, 4, 2)), m.func.vmap(layer)(normal(m, 4, 5, 2))


def test_the_name_and_docstring_of_the_function_stay():
    def f(x):
        """Says hello."""
        return x

    mapped = ag.func.vmap(f)
    assert (mapped.__name__, mapped.__doc__) == ("f", "Says hello.")
    ag.func.vmap(partial(f))  # has neither


# ---- nesting -------------------------------------------------------------------------------------------

NESTED_DIMS = [(0, 0, 0, 0), (0, 1, 0, 0), (1, 0, 0, 1), (2, 1, 1, 0), (-1, -1, -1, 0), (0, -2, 1, -1), (1, 1, 1, 1)]


@pytest.mark.parametrize(("outer", "inner", "out", "last"), NESTED_DIMS)
def test_nested_dimensions(outer, inner, out, last):
    agree(lambda m: m.func.vmap(m.func.vmap(lambda x: x.cumsum(0), in_dims=inner, out_dims=out), in_dims=outer,
                                out_dims=last)(normal(m, 2, 3, 4)))


@compared
def test_all_pairs(m):
    x, y = normal(m, 3, 2), normal(m, 4, 2, seed=1)
    vmap = m.func.vmap
    return vmap(lambda a: vmap(lambda b: m.dot(a, b))(y))(x), vmap(vmap(m.dot, (None, 0)), (0, None))(x, y)


@compared
def test_three_levels(m):
    vmap = m.func.vmap
    x, y, z = normal(m, 2), normal(m, 3), normal(m, 4)
    return vmap(vmap(vmap(lambda a, b, c: a * b + c, (None, None, 0)), (None, 0, None)), (0, None, None))(x, y, z)


@compared
def test_an_inner_level_that_maps_nothing_of_the_outer_one(m):
    y = normal(m, 3)
    return m.func.vmap(lambda x: (x, m.func.vmap(lambda y: y * 2)(y)))(normal(m, 2))


@compared
def test_the_same_tensor_at_two_levels(m):
    x = normal(m, 3, 3)
    return m.func.vmap(lambda row: m.func.vmap(lambda y: y * row.sum())(x))(x)


# ---- chunks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3, 6, 7, 100, None])
@pytest.mark.parametrize(("in_dims", "out_dims"), [((0, None), 0), ((1, None), -1), ((1, 0), 1)])
def test_chunks(size, in_dims, out_dims):
    def program(m):
        y = normal(m, 6) if in_dims[1] == 0 else normal(m, 1)
        f = m.func.vmap(lambda x, y: (x * y, {"k": x + 1}), in_dims, out_dims, chunk_size=size)
        return f(normal(m, 6, 6), y)

    agree(program)


def test_chunks_run_one_after_another():
    sizes = []
    ag.func.vmap(lambda x: sizes.append(repr(x).count(",") + 1) or x, chunk_size=2)(ag.ones(5, device="cpu"))
    assert sizes == [2, 2, 1]


def test_chunks_of_outputs_without_a_dimension():
    y = ag.ones(2)
    result = ag.func.vmap(lambda x: (x, y, 3), out_dims=(0, None, None), chunk_size=2)(ag.arange(5))
    assert result[0].tolist() == [0, 1, 2, 3, 4]
    assert result[1] is y
    assert result[2] == 3


# ---- the gradients of vmap, and vmap of gradients ------------------------------------------------------


@compared
def test_backward_through_vmap(m):
    x, w = normal(m, 3, 2).requires_grad_(), normal(m, 2).requires_grad_()
    out = m.func.vmap(lambda x: (x * w).sin().sum())(x)
    return m.autograd.grad(out, [x, w], m.ones_like(out))


@compared
def test_backward_twice_through_vmap(m):
    x = normal(m, 3, 2).requires_grad_()
    (g,) = m.autograd.grad(m.func.vmap(lambda x: (x ** 3).sum())(x).sum(), x, create_graph=True)
    return g, m.autograd.grad(g.sum(), x)


@compared
def test_backward_through_an_output_without_a_dimension(m):
    w = normal(m, 2).requires_grad_()
    out, other = m.func.vmap(lambda x: (x * w, w * 2), out_dims=(0, None))(normal(m, 3, 2))
    return m.autograd.grad(out.sum() + other.sum(), w)


@compared
def test_a_batch_of_cotangents(m):
    """autograd.grad inside of vmap: a Jacobian from an ordinary graph."""
    x, w = normal(m, 3).requires_grad_(), normal(m, 3, 3, seed=1).requires_grad_()
    y = (w @ x).sin()
    rows = m.eye(3, dtype=m.float64)
    first = m.func.vmap(lambda v: m.autograd.grad(y, x, v, retain_graph=True)[0])(rows)
    return first, m.func.vmap(lambda v: m.autograd.grad(y, (x, w), v))(rows)


@compared
def test_a_batch_of_cotangents_of_two_levels(m):
    x = normal(m, 3).requires_grad_()
    y = x.exp() * x.sum()
    rows = normal(m, 2, 4, 3)
    pull = m.func.vmap(m.func.vmap(lambda v: m.autograd.grad(y, x, v, retain_graph=True)[0]))
    return pull(rows)


@compared
def test_a_batch_of_cotangents_with_create_graph(m):
    x = normal(m, 3).requires_grad_()
    y = x ** 3
    rows = m.eye(3, dtype=m.float64)
    jac = m.func.vmap(lambda v: m.autograd.grad(y, x, v, create_graph=True)[0])(rows)
    return jac, m.autograd.grad(jac.sum(), x)


@compared
def test_gradients_of_each_example(m):
    def loss(w, x, y):
        return ((x @ w).tanh() - y).pow(2).sum()

    args = normal(m, 3, 2), normal(m, 5, 3, seed=1), normal(m, 5, 2, seed=2)
    return m.func.vmap(m.func.grad(loss), (None, 0, 0))(*args), m.func.vmap(
        m.func.grad_and_value(loss, (0, 1)), (None, 0, 0))(*args)


@compared
def test_gradients_of_what_lies_outside(m):
    """The captured tensor gets no gradient per example, and its history is kept."""
    w = normal(m, 2).requires_grad_()
    result = m.func.vmap(m.func.grad(lambda x: (x * x * w).sum()))(normal(m, 3, 2))
    return result, m.autograd.grad(result.sum(), w)


# ---- reading what is batched ---------------------------------------------------------------------------


@compared
def test_rows_indices_and_lengths(m):
    def f(x):
        a, b = x
        total = sum(row.sum() for row in x)
        return a * b, total, x[0], x[-1, 1:], x[..., None], x[:, [0, 2]], m.tensor([len(x), x.ndim, *x.shape])

    return m.func.vmap(f, out_dims=(0, 0, 0, 0, 0, 0, None))(normal(m, 4, 2, 3))


def test_what_a_batched_tensor_says_of_itself():
    seen = []

    def f(x):
        y = x * 2
        seen.append((x.shape, x.ndim, x.dtype, x.numel(), x.size(0), len(x), x.is_floating_point()))
        assert x.device == y.device
        seen.append((isinstance(x, ag.Tensor), x.requires_grad, x.is_leaf, x.grad_fn, y.is_leaf, y.grad_fn))
        assert {x: 1, y: 2}[y] == 2
        assert any(x is item for item in [y, x])
        assert "Batched(" in repr(y)
        assert "Batched(" in f"{y.sum()}"
        return y

    ag.func.vmap(f)(ag.ones(3, 2))
    assert seen == [((2,), 1, np.dtype("float32"), 2, 2, 2, True), (True, False, True, None, True, None)]


@compared
def test_indices_per_example(m):
    x, index = normal(m, 3, 4), m.tensor([0, 3, 1])
    return (m.func.vmap(lambda x, i: x[i])(x, index), m.func.vmap(lambda i: x[:, i], out_dims=1)(index),
            m.func.vmap(lambda x, i: m.take_along_dim(x, i.reshape(1), 0))(x, index),
            m.func.vmap(lambda x: x[m.tensor([1, 1])])(x))


@compared
def test_an_index_per_example_among_others(m):
    x, i = normal(m, 3, 4, 5), m.tensor([0, 2, 1])
    rows = m.tensor([1, 0])
    return m.func.vmap(lambda i: (x[i, 1:, 2], x[..., i], x[:, i, None], x[0, ..., i, :], x[rows, i], x[-i, rows]))(i)


def test_an_index_per_example_is_as_an_integer():
    """Also between indices that are tensors, where an index tensor would move dimensions."""
    x, i, rows = ag.tensor(np.arange(60.0).reshape(3, 4, 5)), ag.tensor([0, 2, 1]), ag.tensor([1, 0])
    keys = [lambda i: (i, slice(None), rows), lambda i: (rows, slice(None), i), lambda i: (slice(None), i, rows),
            lambda i: (i, rows, rows), lambda i: (i, i, i)]  # fmt: skip
    for key in keys:
        result = ag.func.vmap(lambda i, key=key: x[key(i)])(i)
        assert result.tolist() == [x[key(k)].tolist() for k in i.tolist()]
    with pytest.raises(IndexError, match="too many indices for tensor of dimension 3"):
        ag.func.vmap(lambda i: x[i, i, i, i])(i)


@compared
def test_factories_inside(m):
    def f(x):
        return (x + m.ones(2, dtype=m.float64), m.arange(2) * x, m.zeros_like(x), x.new_zeros(3), m.full_like(x, 2.0),
                m.tensor([1.0, 2.0], dtype=m.float64) * x, x.new_ones(2) * x, m.eye(2, dtype=m.float64) @ x)

    return m.func.vmap(f)(normal(m, 3, 2))


# ---- refusals ------------------------------------------------------------------------------------------

REFUSED = {
    "no inputs": (lambda m: m.func.vmap(lambda: m.ones(2))(), ValueError, "got no inputs"),
    "sizes": (lambda m: m.func.vmap(m.mul)(normal(m, 2), normal(m, 3)), ValueError,
              "Expected all tensors to have the same size in the mapped dimension"),
    "nothing mapped": (lambda m: m.func.vmap(m.mul, (None, None))(normal(m, 2), normal(m, 2)), ValueError, "at least"),
    "in_dims of a wrong type": (lambda m: m.func.vmap(m.mul, {0: 0})(normal(m, 2), normal(m, 2)), ValueError,
                                "expected `in_dims` to be int or a"),
    "in_dims of a wrong structure": (lambda m: m.func.vmap(m.mul, (0,))(normal(m, 2), normal(m, 2)), ValueError,
                                     "in_dims is not compatible with the structure of `inputs`"),
    "in_dims of deeper structure": (lambda m: m.func.vmap(m.mul, (0, [0]))(normal(m, 2), normal(m, 2)), ValueError,
                                    "in_dims is not compatible with the structure of `inputs`"),
    "in_dim no int": (lambda m: m.func.vmap(m.mul, (0, "a"))(normal(m, 2), normal(m, 2)), ValueError,
                      "must be either an integer dimension or"),
    "in_dim out of range": (lambda m: m.func.vmap(m.sin, 1)(normal(m, 2)), ValueError,
                            "Got in_dim=1 for some input, but that input is a Tensor of dimensionality 1 so expected"),
    "in_dim too negative": (lambda m: m.func.vmap(m.sin, -2)(normal(m, 2)), ValueError, "-1 <= in_dim < 1"),
    "a 0-d input": (lambda m: m.func.vmap(m.sin)(normal(m)), ValueError, "dimensionality 0"),
    "an input that is no tensor": (lambda m: m.func.vmap(m.mul)(normal(m, 2), 2), ValueError,
                                   "We cannot vmap over non-Tensor arguments"),
    "an output that is no tensor": (lambda m: m.func.vmap(lambda x: 3)(normal(m, 2)), ValueError,
                                    "must only return Tensors, got type"),
    "None as an output": (lambda m: m.func.vmap(lambda x: None)(normal(m, 2)), ValueError, "must only return Tensors"),
    "out_dim out of range": (lambda m: m.func.vmap(lambda x: x, out_dims=2)(normal(m, 2, 3)), IndexError,
                             "Dimension out of range"),
    "out_dims of a wrong structure": (lambda m: m.func.vmap(lambda x: (x, x), out_dims=(0, 0, 0))(normal(m, 2)),
                                      ValueError, "out_dims is not compatible with the structure of `outputs`"),
    "out_dims of a wrong type": (lambda m: m.func.vmap(lambda x: x, out_dims="a")(normal(m, 2)), ValueError,
                                 "`out_dims` must be an int, None or a python collection of ints"),
    "a batched output without a dimension": (lambda m: m.func.vmap(lambda x: x, out_dims=None)(normal(m, 2)),
                                             ValueError, "can not return a BatchedTensor when out_dim is None"),
    "randomness": (lambda m: m.func.vmap(m.sin, randomness="maybe")(normal(m, 2)), RuntimeError,
                   "Only allowed values for randomness are 'error', 'different', or 'same'. Got maybe"),
    "chunk_size": (lambda m: m.func.vmap(m.sin, chunk_size=0)(normal(m, 2)), ValueError,
                   "chunk_size should be None or greater than 0"),
    "item": (lambda m: m.func.vmap(lambda x: x.item())(normal(m, 2)), RuntimeError,
             r"calling .item\(\) on a Tensor"),
    "float": (lambda m: m.func.vmap(lambda x: float(x))(normal(m, 2)), RuntimeError, r"calling .item\(\)"),
    "if": (lambda m: m.func.vmap(lambda x: x if x.sum() > 0 else -x)(normal(m, 2)), RuntimeError,
           "attempting to use a Tensor in some data-dependent control flow"),
    "backward": (lambda m: m.func.vmap(lambda x: x.sum().backward())(normal(m, 2)), RuntimeError, r"backward\(\)"),
    "in_dims in a list": (lambda m: m.func.vmap(m.sin, [0])(normal(m, 2)), ValueError, "expected `in_dims` to be int"),
    "out_dims in a list": (lambda m: m.func.vmap(lambda x: (x, x), out_dims=[0, 0])(normal(m, 2)), ValueError,
                           "out_dims is not compatible"),
    "requires_grad_": (lambda m: m.func.vmap(lambda x: x.requires_grad_())(normal(m, 2)), RuntimeError,
                       r"attempting to call Tensor.requires_grad_\(\) .*inside of a function being transformed"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    refused_by_both(*REFUSED[case])


@pytest.mark.parametrize("read", [
    lambda x: x.detach().numpy(), lambda x: x.tolist(), lambda x: np.asarray(x.detach()), lambda x: x.array,
    lambda x: 1.0 in x, lambda x: x.detach().__dlpack__(),
])  # fmt: skip
@pytest.mark.parametrize("wrapped", [lambda f: f, ag.func.grad, lambda f: lambda x: ag.func.jvp(f, (x,), (x,))])
def test_values_cannot_be_read(read, wrapped):
    with pytest.raises(RuntimeError, match=r"attempting to read the values of a Tensor.*ag\.where"):
        ag.func.vmap(wrapped(read))(ag.ones(3, 2))


@pytest.mark.parametrize(("read", "what"), [
    (lambda x: x.sum().item(), r"calling .item\(\)"), (lambda x: float(x.sum()), r"calling .item\(\)"),
    (lambda x: int(x.sum()), r"calling .item\(\)"), (lambda x: f"{x.sum():.2f}", r"calling .item\(\)"),
    (lambda x: x if x.sum() > 0 else -x, "data-dependent control flow"),
])  # fmt: skip
@pytest.mark.parametrize("wrapped", [lambda f: f, ag.func.grad, lambda f: lambda x: ag.func.jvp(f, (x,), (x,))])
def test_numbers_cannot_be_read(read, what, wrapped):
    with pytest.raises(RuntimeError, match=what):
        ag.func.vmap(wrapped(read))(ag.ones(3, 2))


def test_results_whose_shape_depends_on_values():
    for f, name in ((lambda x: x.nonzero(), "nonzero"), (lambda x: x.unique(), "unique"),
                    (lambda x: x[x > 0], "where")):
        with pytest.raises(RuntimeError, match=f"{name}.*values|values.*{name}"):
            ag.func.vmap(f)(ag.ones(3, 2))


@pytest.mark.parametrize("use", [lambda x: x + 1, lambda x: x.sum(), ag.sin, lambda x: ag.cat([x, x]), lambda x: x[0]])
def test_a_tensor_of_a_level_that_has_ended(use):
    kept = []
    ag.func.vmap(lambda x: kept.append(x) or x)(ag.ones(3, 2))
    assert kept[0].shape == (2,)
    assert "Batched(" in repr(kept[0])
    with pytest.raises(RuntimeError, match="is used after the transform has ended; return it"):
        use(kept[0])


def test_an_exception_ends_the_level():
    def f(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        ag.func.vmap(ag.func.grad(f))(ag.ones(2))
    assert ag.func.vmap(ag.sin)(ag.zeros(2)).tolist() == [0, 0]
    assert type(ag.ones(2) * 2) is ag.Tensor


def test_outputs_have_plain_strides_and_a_history_of_their_own():
    x = ag.ones(3, 2, requires_grad=True)
    out = ag.func.vmap(lambda x: x * 2)(x)
    assert type(out) is ag.Tensor
    assert out.requires_grad
    assert torch.func.vmap(lambda x: x * 2)(torch.ones(3, 2, requires_grad=True)).requires_grad
