"""Jacobians: jacrev, jacfwd."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..autograd.vectorized import basis
from ..core.tensor import Tensor
from ..pytrees import flatten, tree_map, unflatten
from .forward import jvp
from .pytrees import tensors
from .reverse import picked_arguments, vjp_of, with_arguments
from .vmap import vmap

Argnums = int | tuple[int, ...]


def jacrev(
    func: Callable[..., Any], argnums: Argnums = 0, *, has_aux: bool = False, chunk_size: int | None = None
) -> Callable[..., Any]:
    """Makes a function that computes the Jacobian of `func` by reverse mode: best where outputs are few.

    The Jacobian has shape output.shape + input.shape. For pytrees it is a pytree like the output, of pytrees like the
    arguments `argnums`; a tuple of argnums gives tuples. With `has_aux` func returns (output, aux) and the new function
    (jacobian, aux). chunk_size: the number of rows computed at a time, to bound memory; None means all.

    >>> ag.func.jacrev(lambda x: x ** 2)(ag.tensor([1.0, 3.0]))
    tensor([[2., 0.],
            [0., 6.]])
    """
    _check_chunk_size("jacrev", chunk_size)

    @functools.wraps(func)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        picked = picked_arguments(args, argnums)
        result = vjp_of(lambda values: func(*with_arguments(args, argnums, values), **kwargs), (picked,), has_aux,
                        "jacrev")
        outs, out_spec = flatten(result[0])
        points, in_spec = flatten(picked)
        sizes = [out.numel() for out in outs]
        if not sum(sizes):
            parts = [[_empty(out, x) for x in points] for out in outs]
        else:
            pull = vmap(lambda rows: flatten(result[1](unflatten(out_spec, rows))[0])[0], chunk_size=chunk_size)
            columns = pull(basis(outs))
            parts = [[g.reshape((*out.shape, *x.shape)) for g, x in zip(row, points, strict=True)]
                     for out, row in zip(outs, zip(*[_split(g, sizes) for g in columns], strict=True), strict=True)]
        jac = unflatten(out_spec, [unflatten(in_spec, part) for part in parts])
        return (jac, result[2]) if has_aux else jac

    return jacobian


def jacfwd(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, randomness: str = "error",
    chunk_size: int | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """Makes a function that computes the Jacobian of `func` by forward mode: best where inputs are few.

    randomness: as in `vmap`. chunk_size: the number of columns computed at a time. Others, and the result, as in
    `jacrev`.

    >>> ag.func.jacfwd(lambda x: x ** 2)(ag.tensor([1.0, 3.0]))
    tensor([[2., 0.],
            [0., 6.]])
    """
    _check_chunk_size("jacfwd", chunk_size)

    @functools.wraps(func)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        picked = picked_arguments(args, argnums)
        points, in_spec = tensors(picked, "jacfwd: expected the arguments to contain")

        def push(columns: list[Tensor]) -> Any:
            pushed = jvp(lambda values: func(*with_arguments(args, argnums, values), **kwargs), (picked,),
                         (unflatten(in_spec, columns),), has_aux=has_aux)
            return pushed[1:]

        sizes = [x.numel() for x in points]
        seeds = basis(points) if sum(sizes) else [x.new_zeros((1, *x.shape)) for x in points]
        rows, *aux = vmap(push, randomness=randomness, chunk_size=chunk_size)(seeds)
        outs, out_spec = flatten(rows)
        parts = []
        for out in outs:
            columns = _split(out, sizes) if sum(sizes) else [out[:0] for _ in points]
            parts.append([_last(part).reshape((*out.shape[1:], *x.shape))
                          for part, x in zip(columns, points, strict=True)])
        jac = unflatten(out_spec, [unflatten(in_spec, part) for part in parts])
        return (jac, tree_map(lambda x: x[0] if isinstance(x, Tensor) else x, aux[0])) if has_aux else jac

    return jacobian


def _split(x: Tensor, sizes: Sequence[int]) -> Sequence[Tensor]:
    """The parts of x along dimension 0."""
    return (x,) if len(sizes) == 1 else x.split(list(sizes), 0)


def _last(x: Tensor) -> Tensor:
    """x with dimension 0 moved to the end."""
    return x.permute((*range(1, x.ndim), 0))


def _empty(out: Tensor, x: Tensor) -> Tensor:
    return out.new_zeros((*out.shape, *x.shape))


def _check_chunk_size(name: str, chunk_size: int | None) -> None:
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"{name}: `chunk_size` should be greater than 0.")
