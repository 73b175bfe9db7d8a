"""Forward mode: jvp and linearize."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.declare.op import RECORD
from ..core.interpret.duals import Forward, attach, tangent_of
from ..core.interpret.interpreters import below, entered
from ..core.interpret.level_tensor import zeros_like
from ..core.interpret.tape import Taping
from ..core.tensor import Tensor
from ..pytrees import flatten, reordered, unflatten
from .pytrees import some_tensors, with_aux

_CALL = "jvp(f, primals, tangents)"


def jvp(
    func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False
) -> Any:
    """(func(*primals), J @ tangents): the Jacobian-vector product, computed along with the function.

    primals: a tuple of the arguments of func, pytrees of floating-point tensors. tangents: of the same structure,
    shapes and dtypes. With `has_aux` func returns (output, aux), and the result is (output, product, aux). strict:
    RuntimeError for an output that does not depend on the primals, instead of zeros.

    >>> ag.func.jvp(lambda x: x ** 2, (ag.tensor([1.0, 3.0]),), (ag.tensor([1.0, 10.0]),))
    (tensor([1., 9.]), tensor([ 2., 60.]))
    """
    leaves, directions, spec = _point(primals, tangents, _CALL)
    with entered(Forward()) as level:
        with below(level):
            duals = [RECORD.basic_index(x, ...) for x in leaves]
        for x, t in zip(duals, directions, strict=True):
            attach(x, level, t)
        output, aux = with_aux(func(*unflatten(spec, duals)), _CALL, has_aux)
        outs, out_spec = some_tensors(output, _CALL)
        with below(level):
            moved = [_tangent(out, level, strict) for out in outs]
    result = unflatten(out_spec, outs), unflatten(out_spec, moved)
    return (*result, aux) if has_aux else result


def _tangent(out: Tensor, level: Forward, strict: bool) -> Tensor:
    tangent: Tensor | None = tangent_of(out, level)
    if tangent is None and strict:
        raise RuntimeError("jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This "
                           "is not allowed with strict=True.")
    return zeros_like(out) if tangent is None else tangent


def _point(primals: Any, tangents: Any, call: str) -> tuple[list[Tensor], list[Tensor], Any]:
    """The leaves of the primals, those of the tangents, and the structure of both, after all checks."""
    if not isinstance(primals, tuple):
        raise RuntimeError(f"{call}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals).")
    leaves, spec = _primals(primals, call)
    directions, t_spec = flatten(tangents)
    if t_spec != spec and not (directions := reordered(tangents, spec)):
        raise RuntimeError(f"{call}: Expected primals and tangents to have the same python structure. For example, if "
                           "primals is a tuple of 3 tensors, tangents also must be. Got primals with structure "
                           f"{spec} and tangents with structure {t_spec}")
    for i, (x, t) in enumerate(zip(leaves, directions, strict=True)):
        if not isinstance(t, Tensor):
            raise RuntimeError(f"{call}: Expected tangents to only contain Tensors, got {type(t)}")
        for what in ("shape", "dtype", "device"):
            if getattr(x, what) != getattr(t, what):
                raise RuntimeError(f"{call}: tangent:{i} with {what} {getattr(t, what)} in flattened pytree doesn't "
                                   f"match the {what} {getattr(x, what)} of the corresponding primal.")
    return leaves, directions, spec


def _primals(primals: Any, call: str) -> tuple[list[Tensor], Any]:
    """The leaves of the primals, at least one floating-point tensor and nothing else, and their structure."""
    leaves, spec = flatten(primals)
    for x in leaves:
        if not isinstance(x, Tensor):
            raise RuntimeError(f"{call}: Expected primals to only contain Tensors, got {type(x)}")
        if not x.is_floating_point():
            raise ValueError(f"{call}: Expected primal to be floating point or complex, but got: {x.dtype}")
    if not leaves:
        raise RuntimeError(f"{call}: Expected primals to contain at least one Tensor.")
    return leaves, spec


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """(func(*primals), jvp_fn): jvp_fn(*tangents) gives J @ tangents without computing the function again.

    primals: pytrees of floating-point tensors. tangents: of the same structure, shapes and dtypes. Use `jvp` for one
    product; for several at one point this saves the forward pass, and keeps its intermediate results.

    >>> output, jvp_fn = ag.func.linearize(ag.sin, ag.zeros(2))
    >>> jvp_fn(ag.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """
    leaves, spec = _primals(primals, "linearize(f, *primals)")
    with entered(Taping("linearize", "ag.func.jvp")) as level:
        with below(level):
            points = [RECORD.basic_index(x, ...) for x in leaves]
        places = [level.add(x) for x in points]
        outs, out_spec = some_tensors(func(*unflatten(spec, points)), "linearize(f, *primals)")
        out_places = [level.place_of(out) for out in outs]

    def jvp_fn(*tangents: Any) -> Any:
        _, directions, _ = _point(primals, tangents, "jvp_fn(*tangents)")
        pushed = level.push(dict(zip(places, directions, strict=True)), out_places)
        return unflatten(out_spec, [zeros_like(out) if t is None else t for t, out in zip(pushed, outs, strict=True)])

    return unflatten(out_spec, outs), jvp_fn
