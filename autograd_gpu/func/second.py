"""Second derivatives: hessian, laplacian, hessian_diagonal, value_and_derivatives and hvp.

1. The function runs once, on a tape (core/interpret/tape.py). Several arguments count as one of d elements.
2. A plan says which of its calls have a second derivative, and how far tangents and adjoints go (local/plan.py).
3. `push` carries d tangents and P second tangents forward, P being the number of second derivatives that are wanted of
   each output element; `pull` carries d tangents forward and the adjoints of all o output elements back. The cheaper
   one runs (local/cost.py).
4. What a tape cannot keep goes the nested way, forward over reverse mode, and what has no jvp is differentiated twice
   in reverse; one line to the logger says why.

Method: forward propagation of second derivatives, as in Griewank & Walther, Evaluating Derivatives (2008), chapter 13.
docs/hessian.md has products, memory and examples.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..distributed import ProcessGroup
from .forward import jvp
from .jacobians import Argnums, jacfwd
from .local.run import Request
from .methods import check_method, derivatives, with_value
from .reverse import grad
from .rows import by_rows
from .shares import group_of, summed


def hessian(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, method: str = "auto",
    group: ProcessGroup | None = None, result: str = "gathered",
) -> Callable[..., Any]:  # fmt: skip
    """Makes a function that computes the Hessian of `func`, of shape out.shape + x.shape + x.shape.

    By "push" and "pull" it is exactly symmetric.

    argnums: the positional arguments to differentiate by, pytrees of floating-point tensors. For pytrees the result is
        nested as the output, then as the arguments, twice.
    has_aux: func returns (output, aux), and the new function (hessian, aux).
    method: "push" carries second derivatives forward, "pull" needs an adjoint per output element, "nested" is forward
        over reverse mode; "auto" takes what costs least.
    group: the processes that share the work, all of which call this with equal arguments. By "push" each carries some
        of the pairs of elements, by "nested" some of the elements; "pull" is refused.
    result: of a group. "gathered": the whole Hessian on all of them, by one all-gather. "sharded": on each the rows of
        its elements, with shape out.shape + (rows,) + x.shape, and no communication. "summed": `func` differs by
        process, and the result is the Hessian of their sum.

    `hessian(f)(x)` differentiates by all of x. For a function of one row use `vmap(hessian(f))(x)`: the rows are one
    batch in every operation. ValueError for another method or an input that is not floating-point. What cannot be kept
    on a tape (a custom Function, a write to an argument) is computed by "nested" and logged; "push" and "pull" raise.
    A Hessian that is zero by structure, as that of a ReLU network, has no graph.

    >>> ag.func.hessian(lambda x: x[0] ** 2 * x[1])(ag.tensor([1.0, 3.0]))
    tensor([[6., 2.],
            [2., 0.]])
    """
    return _derivative("hessian", "hessian", func, argnums, has_aux, method, group, result)


def hessian_diagonal(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, method: str = "auto",
    group: ProcessGroup | None = None, result: str = "gathered",
) -> Callable[..., Any]:  # fmt: skip
    """Makes a function that computes the diagonal of the Hessian, of shape out.shape + x.shape.

    Arguments and errors as in `hessian`; for pytrees the result is nested as that of `jacrev`. Processes of a `group`
    share the elements, by any method.

    >>> ag.func.hessian_diagonal(lambda x: x[0] ** 2 * x[1])(ag.tensor([1.0, 3.0]))
    tensor([6., 0.])
    """
    return _derivative("hessian_diagonal", "diagonal", func, argnums, has_aux, method, group, result)


def laplacian(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, method: str = "auto",
    group: ProcessGroup | None = None, result: str = "gathered",
) -> Callable[..., Any]:  # fmt: skip
    """Makes a function that computes the Laplacian, the trace of the Hessian, of the shape of the output.

    Arguments and errors as in `hessian`. It takes as many matrix products as d + 2 runs of func, for any number of
    outputs. Processes of a `group` share the elements, by any method; the part of the sum that "sharded" leaves on each
    has the shape of the output.

    >>> ag.func.laplacian(lambda x: x[0] ** 2 * x[1])(ag.tensor([1.0, 3.0]))
    tensor(6.)
    """
    return _derivative("laplacian", "laplacian", func, argnums, has_aux, method, group, result)


def value_and_derivatives(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, order: int = 2, method: str = "auto"
) -> Callable[..., Any]:
    """Makes a function that computes (value, Jacobian, Hessian) in one pass; order=1: (value, Jacobian).

    Arguments, shapes and errors as in `jacfwd` and `hessian`. With `has_aux` the aux is the last element of the result.

    >>> ag.func.value_and_derivatives(lambda x: x[0] ** 2 * x[1])(ag.tensor([1.0, 3.0]))
    (tensor(3.), tensor([6., 1.]), tensor([[6., 2.],
            [2., 0.]]))
    """
    api = "value_and_derivatives"
    if order not in (1, 2):
        raise ValueError(f"{api}: order is 1 or 2, got {order!r}; for higher derivatives nest the transforms")
    check_method(api, method)

    @functools.wraps(func)
    def all_orders(*args: Any, **kwargs: Any) -> Any:
        request = Request(api, "hessian", True, func, argnums, has_aux, method)
        if order == 1:
            jacobian, (value, *aux) = jacfwd(with_value(request), argnums, has_aux=True)(*args, **kwargs)
            return (value, jacobian, *aux)
        result = derivatives(request, args, kwargs)
        return result if has_aux else result[:3]

    return all_orders


def hvp(
    func: Callable[..., Any], primals: tuple[Any, ...], tangents: tuple[Any, ...], *, group: ProcessGroup | None = None
) -> Any:
    """The product of the Hessian of `func` and a vector, by forward over reverse mode, without the Hessian.

    func returns a tensor of no dimensions. primals, tangents: tuples of pytrees of tensors, of equal structure and
    shapes. The result is like `primals`, or like its element if that is the only one. group: the processes the sum of
    whose functions, such as losses on their own data, is differentiated; it takes one all-reduce.

    >>> ag.func.hvp(lambda x: x[0] ** 2 * x[1], (ag.tensor([1.0, 3.0]),), (ag.tensor([1.0, 0.0]),))
    tensor([6., 2.])
    """
    argnums: Argnums = 0 if len(primals) == 1 else tuple(range(len(primals)))
    within = group_of(group, "hvp", "summed", ("summed",))
    product = jvp(grad(func, argnums), primals, tangents)[1]
    return product if within is None else summed(product, within)


def _derivative(
    api: str, form: str, func: Callable[..., Any], argnums: Argnums, has_aux: bool, method: str,
    group: ProcessGroup | None, result: str,
) -> Callable[..., Any]:  # fmt: skip
    check_method(api, method)
    within = group_of(group, api, result)
    if within is not None and (form, method) == ("hessian", "pull") and result != "summed":
        raise ValueError(f'{api}: method="pull" takes the tangents of all elements, so a group has nothing to share; '
                         'use "push", "nested" or "auto"')

    if within is not None and within.size() == 1 and result == "gathered":
        within = None  # nothing is shared: as without group

    @functools.wraps(func)
    def derivative(*args: Any, **kwargs: Any) -> Any:
        request = Request(api, form, False, func, argnums, has_aux, method)
        if within is not None and result != "summed":
            second, aux = by_rows(request, args, kwargs, within, result)
        else:
            computed = derivatives(request, args, kwargs)
            second, aux = computed.second if within is None else summed(computed.second, within), computed.aux
        return (second, aux) if has_aux else second

    return derivative
