"""What computes second derivatives: the method asked for, or the cheapest one that the function allows."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from ..core.interpret.tape import Untapeable
from ..errors import MissingRuleError
from ..pytrees import flatten, unflatten
from .jacobians import jacfwd, jacrev
from .local.run import Cheaper, Found, Request, by_local_terms, points_of
from .pytrees import name_of, with_aux
from .reverse import picked_arguments

LOGGER = logging.getLogger("autograd_gpu.func")
METHODS = ("auto", "push", "pull", "nested")


def check_method(api: str, method: str) -> None:
    if method not in METHODS:
        raise ValueError(f"{api}: method is one of {', '.join(map(repr, METHODS))}; got {method!r}")


def derivatives(request: Request, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Found:
    """The derivatives by the method of the request."""
    if request.method != "nested":
        try:
            return by_local_terms(request, args, kwargs)
        except Untapeable as reason:
            log_nested(request, reason)
    points_of(request, args)
    try:
        return _nested(request, args, kwargs, jacfwd)
    except MissingRuleError as reason:
        if request.method != "auto":
            raise
        _log(logging.WARNING, f"{request.api}({name_of(request.func)}) is computed by reverse mode over reverse mode: "
                              f"{reason}")
        return _nested(request, args, kwargs, jacrev)


_LOGGED: set[str] = set()


def log_nested(request: Request, reason: Untapeable) -> None:
    """Logs why forward over reverse mode follows what was tried; raises `reason` if it was not to be tried."""
    if request.method != "auto":
        raise reason
    level = logging.DEBUG if isinstance(reason, Cheaper) else logging.WARNING
    _log(level, f"{request.api}({name_of(request.func)}) is computed by forward over reverse mode: {reason}")


def _log(level: int, text: str) -> None:
    """Logs a line, and again only for debugging, since a training loop would repeat it in each step."""
    LOGGER.log(logging.DEBUG if text in _LOGGED else level, text)
    _LOGGED.add(text)


# ---- forward or reverse over reverse mode ------------------------------------------------------------


def with_value(request: Request) -> Callable[..., Any]:
    """The function of a request, with (value,) as aux, or (value, aux)."""

    def both(*args: Any, **kwargs: Any) -> Any:
        value, aux = with_aux(request.func(*args, **kwargs), request.api, request.has_aux)
        return value, (value, aux) if request.has_aux else (value,)

    return both


def _nested(request: Request, args: tuple[Any, ...], kwargs: dict[str, Any], outer: Callable[..., Any]) -> Found:
    inner = jacrev(with_value(request), request.argnums, has_aux=True)

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
