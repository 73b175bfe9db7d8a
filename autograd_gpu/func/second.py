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
import logging
from collections.abc import Callable
from typing import Any

from ..core.interpret.tape import Untapeable
from ..errors import MissingRuleError
from ..pytrees import flatten, unflatten
from .forward import jvp
from .jacobians import Argnums, jacfwd, jacrev
from .local.run import Found, Request, by_local_terms, points_of
from .pytrees import name_of, with_aux
from .reverse import grad, picked_arguments

LOGGER = logging.getLogger("autograd_gpu.func")
METHODS = ("auto", "push", "pull", "nested")


def hessian(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, method: str = "auto"
) -> Callable[..., Any]:
    """Makes a function that computes the Hessian of `func`, of shape out.shape + x.shape + x.shape.

    By "push" and "pull" it is exactly symmetric.

    argnums: the positional arguments to differentiate by, pytrees of floating-point tensors. For pytrees the result is
        nested as the output, then as the arguments, twice.
    has_aux: func returns (output, aux), and the new function (hessian, aux).
    method: "push" carries second derivatives forward, "pull" needs an adjoint per output element, "nested" is forward
        over reverse mode; "auto" takes what costs least.

    `hessian(f)(x)` differentiates by all of x. For a function of one row use `vmap(hessian(f))(x)`: the rows are one
    batch in every operation. ValueError for another method or an input that is not floating-point. What cannot be kept
    on a tape (a custom Function, a write to an argument) is computed by "nested" and logged; "push" and "pull" raise.
    A Hessian that is zero by structure, as that of a ReLU network, has no graph.

    >>> ag.func.hessian(lambda x: x[0] ** 2 * x[1])(ag.tensor([1.0, 3.0]))
    tensor([[6., 2.],
            [2., 0.]])
    """
    return _derivative("hessian", "hessian", func, argnums, has_aux, method)


def hessian_diagonal(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, method: str = "auto"
) -> Callable[..., Any]:
    """Makes a function that computes the diagonal of the Hessian, of shape out.shape + x.shape.

    Arguments and errors as in `hessian`; for pytrees the result is nested as that of `jacrev`.

    >>> ag.func.hessian_diagonal(lambda x: x[0] ** 2 * x[1])(ag.tensor([1.0, 3.0]))
    tensor([6., 0.])
    """
    return _derivative("hessian_diagonal", "diagonal", func, argnums, has_aux, method)


def laplacian(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, method: str = "auto"
) -> Callable[..., Any]:
    """Makes a function that computes the Laplacian, the trace of the Hessian, of the shape of the output.

    Arguments and errors as in `hessian`. It takes as many matrix products as d + 2 runs of func, for any number of
    outputs.

    >>> ag.func.laplacian(lambda x: x[0] ** 2 * x[1])(ag.tensor([1.0, 3.0]))
    tensor(6.)
    """
    return _derivative("laplacian", "laplacian", func, argnums, has_aux, method)


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
    _check_method(api, method)

    @functools.wraps(func)
    def derivatives(*args: Any, **kwargs: Any) -> Any:
        request = Request(api, "hessian", True, func, argnums, has_aux, method)
        if order == 1:
            jacobian, (value, *aux) = jacfwd(_with_value(request), argnums, has_aux=True)(*args, **kwargs)
            return (value, jacobian, *aux)
        result = _found(request, args, kwargs)
        return result if has_aux else result[:3]

    return derivatives


def hvp(func: Callable[..., Any], primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
    """The product of the Hessian of `func` and a vector, by forward over reverse mode, without the Hessian.

    func returns a tensor of no dimensions. primals, tangents: tuples of pytrees of tensors, of equal structure and
    shapes. The result is like `primals`, or like its element if that is the only one.

    >>> ag.func.hvp(lambda x: x[0] ** 2 * x[1], (ag.tensor([1.0, 3.0]),), (ag.tensor([1.0, 0.0]),))
    tensor([6., 2.])
    """
    argnums: Argnums = 0 if len(primals) == 1 else tuple(range(len(primals)))
    return jvp(grad(func, argnums), primals, tangents)[1]


def _check_method(api: str, method: str) -> None:
    if method not in METHODS:
        raise ValueError(f"{api}: method is one of {', '.join(map(repr, METHODS))}; got {method!r}")


def _derivative(
    api: str, form: str, func: Callable[..., Any], argnums: Argnums, has_aux: bool, method: str
) -> Callable[..., Any]:
    _check_method(api, method)

    @functools.wraps(func)
    def derivative(*args: Any, **kwargs: Any) -> Any:
        result = _found(Request(api, form, False, func, argnums, has_aux, method), args, kwargs)
        return (result.second, result.aux) if has_aux else result.second

    return derivative


def _found(request: Request, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Found:
    """The derivatives by the method of the request."""
    if request.method != "nested":
        try:
            return by_local_terms(request, args, kwargs)
        except Untapeable as reason:
            if request.method != "auto":
                raise
            _log(f"{request.api}({name_of(request.func)}) is computed by forward over reverse mode: {reason}")
    points_of(request, args)
    try:
        return _nested(request, args, kwargs, jacfwd)
    except MissingRuleError as reason:
        if request.method != "auto":
            raise
        _log(f"{request.api}({name_of(request.func)}) is computed by reverse mode over reverse mode: {reason}")
        return _nested(request, args, kwargs, jacrev)


_LOGGED: set[str] = set()


def _log(text: str) -> None:
    """Logs a line as a warning, and again only for debugging, since a training loop would repeat it in each step."""
    LOGGER.log(logging.DEBUG if text in _LOGGED else logging.WARNING, text)
    _LOGGED.add(text)


# ---- forward or reverse over reverse mode ------------------------------------------------------------


def _with_value(request: Request) -> Callable[..., Any]:
    """The function of a request, with (value,) as aux, or (value, aux)."""

    def both(*args: Any, **kwargs: Any) -> Any:
        value, aux = with_aux(request.func(*args, **kwargs), request.api, request.has_aux)
        return value, (value, aux) if request.has_aux else (value,)

    return both


def _nested(request: Request, args: tuple[Any, ...], kwargs: dict[str, Any], outer: Callable[..., Any]) -> Found:
    inner = jacrev(_with_value(request), request.argnums, has_aux=True)

    def first(*args: Any, **kwargs: Any) -> Any:
        jacobian, rest = inner(*args, **kwargs)
        return jacobian, (jacobian, *rest)

    whole, (jacobian, value, *aux) = outer(first, request.argnums, has_aux=True)(*args, **kwargs)
    second = whole if request.form == "hessian" else _of_diagonal(request, whole, value, args)
    return Found(value, jacobian, second, aux[0] if aux else None)


def _of_diagonal(request: Request, whole: Any, value: Any, args: tuple[Any, ...]) -> Any:
    """The diagonal or the Laplacian from a nested Hessian."""
    outs, out_spec = flatten(value)
    points, spec = flatten(picked_arguments(args, request.argnums))
    blocks, count, results = flatten(whole)[0], len(points), []
    for k, out in enumerate(outs):
        own = [blocks[(k * count + i) * count + i] for i in range(count)]
        diagonals = [b.reshape((*out.shape, x.numel(), x.numel())).diagonal(0, -2, -1)
                     for b, x in zip(own, points, strict=True)]
        if request.form == "laplacian":
            results.append(sum([diagonal.sum(-1) for diagonal in diagonals]))
        else:
            results.append(unflatten(spec, [diagonal.reshape((*out.shape, *x.shape))
                                          for diagonal, x in zip(diagonals, points, strict=True)]))
    return unflatten(out_spec, results)
