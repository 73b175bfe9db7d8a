"""vmap: a function of one example becomes a function of many."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from ..core.declare.batch_rules import moved
from ..core.declare.op import RECORD
from ..core.interpret.batched import RANDOMNESS, Batched, Batching, batched
from ..core.interpret.interpreters import entered
from ..core.tensor import Tensor
from ..distributed import ProcessGroup
from ..pytrees import TreeSpec, flatten, spread, unflatten
from ..random.replay import GeneratorReplay, GeneratorSnapshot
from .pytrees import name_of
from .shares import Share, group_of


def vmap(
    func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *,
    chunk_size: int | None = None, group: ProcessGroup | None = None, result: str = "gathered",
) -> Callable[..., Any]:  # fmt: skip
    """Makes a function that maps `func` over a dimension of its inputs; each op runs once, on all examples.

    in_dims: the mapped dimension of each positional argument, None for one that is not mapped: an int, or a pytree that
        is a prefix of the arguments. Keyword arguments are not mapped.
    out_dims: where the mapped dimension goes in each output; None for an output that is the same in all examples.
    randomness: random numbers inside: "error" refuses them, "different" draws for each example, "same" once for all.
    chunk_size: the number of examples at a time, to bound memory; None means all.
    group: the processes that share the examples; all of them call this with all examples, and each runs `func` on
        consecutive ones. result: "gathered" brings those of all processes to each, by one all-gather for each output;
        "sharded" leaves on each its own, without communication. Random numbers are refused: draw them outside.

    ValueError for dimensions that do not fit the inputs or outputs; RuntimeError for an op that cannot run on a batch,
    and for code that needs the values of one example (`.item()`, `if`).

    >>> weights = ag.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> ag.func.vmap(ag.dot)(weights, weights)
    tensor([ 5., 25.])
    >>> ag.func.vmap(ag.dot, in_dims=(0, None))(weights, ag.ones(2))
    tensor([3., 7.])
    """
    if randomness not in RANDOMNESS:
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")
    within = group_of(group, "vmap", result, ("gathered", "sharded"))
    if within is not None and randomness != "error":
        raise ValueError(f"vmap: with group, each process would draw its own random numbers; got randomness="
                         f"{randomness!r}. Draw them for all examples, and map over them")

    @functools.wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        leaves, spec, dims, size = _mapped_inputs(func, in_dims, args)
        share = None if within is None else Share(within, size)
        if share is not None:
            leaves, size = _narrowed(leaves, dims, share.start, share.count), share.count
        if chunk_size is None or size <= chunk_size:
            output = _run(func, size, leaves, dims, spec, out_dims, randomness, kwargs)
        else:
            output = _in_chunks(func, size, leaves, dims, spec, out_dims, randomness, kwargs, chunk_size)
        if share is None:
            return output
        outs, out_spec = flatten(output)
        places = _out_dims(func, out_dims, output, out_spec)
        return unflatten(out_spec, [x if dim is None else share.collected(x, dim % x.ndim, result)
                                    for x, dim in zip(outs, places, strict=True)])

    return mapped


def _narrowed(leaves: Sequence[Any], dims: Sequence[int | None], start: int, count: int) -> list[Any]:
    """The leaves with some of the examples."""
    return [x if dim is None else x.narrow(dim, start, count) for x, dim in zip(leaves, dims, strict=True)]


def _mapped_inputs(func: Any, in_dims: Any, args: tuple[Any, ...]) -> tuple[list[Any], TreeSpec, list[int | None], int]:
    """The leaves of the arguments, their structure, the mapped dimension of each, and its size."""
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(f"{_with_inputs(func, in_dims)}: expected `in_dims` to be int or a (potentially nested) "
                         f"tuple matching the structure of inputs, got: {type(in_dims)}.")
    if not args:
        raise ValueError(f"vmap({name_of(func)})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are "
                         "trying to vmap over a function with no inputs. The latter is unsupported.")
    leaves, spec = flatten(args)
    try:
        dims = [in_dims] * len(leaves) if type(in_dims) is int else spread(in_dims, spec)
    except ValueError:
        raise ValueError(f"{_with_inputs(func, in_dims)}: in_dims is not compatible with the structure of `inputs`. "
                         f"in_dims has structure {flatten(in_dims)[1]} but inputs has structure {spec}.") from None
    sizes: list[int] = []
    for i, (x, dim) in enumerate(zip(leaves, dims, strict=True)):
        if dim is not None:
            if wrong := _wrong_dim(x, dim):
                raise ValueError(f"{_with_inputs(func, in_dims)}: Got in_dim={dim} for {wrong}")
            dims[i] = dim % x.ndim
            if (size := x.shape[dim]) not in sizes:
                sizes.append(size)
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    if len(sizes) > 1:
        raise ValueError("vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
                         f"{sizes} for the mapped dimension")
    return leaves, spec, dims, sizes[0]


def _with_inputs(func: Any, in_dims: Any) -> str:
    """The call, for error messages."""
    return f"vmap({name_of(func)}, in_dims={in_dims}, ...)(<inputs>)"


def _wrong_dim(x: Any, dim: Any) -> str | None:
    """What is wrong with a dimension to map over, or None."""
    if not isinstance(dim, int) or isinstance(dim, bool):
        return "an input but in_dim must be either an integer dimension or None."
    if not isinstance(x, Tensor):
        return (f"an input but the input is of type {type(x)}. We cannot vmap over non-Tensor arguments, please use "
                "None as the respective in_dim")
    if not -x.ndim <= dim < x.ndim:
        return (f"some input, but that input is a Tensor of dimensionality {x.ndim} so expected in_dim to satisfy "
                f"-{x.ndim} <= in_dim < {x.ndim}.")
    return None


def _run(
    func: Any, size: int, leaves: Sequence[Any], dims: Sequence[int | None], spec: TreeSpec, out_dims: Any,
    randomness: str, kwargs: dict[str, Any],
) -> Any:  # fmt: skip
    """Runs `func` once on all examples."""
    level = Batching(size, randomness)
    lifted = [x if dim is None else batched(level, moved(RECORD, x, dim, 0))
              for x, dim in zip(leaves, dims, strict=True)]
    with entered(level):
        output = func(*unflatten(spec, lifted), **kwargs)
    outs, out_spec = flatten(output)
    places = _out_dims(func, out_dims, output, out_spec)
    return unflatten(out_spec, [_result(func, level, x, dim) for x, dim in zip(outs, places, strict=True)])


def _out_dims(func: Any, out_dims: Any, result: Any, spec: TreeSpec) -> list[Any]:
    """The dimension of each output to which the mapped dimension goes."""
    if type(out_dims) is int:
        return [out_dims] * spec.num_leaves
    call = f"vmap({name_of(func)}, ..., out_dims={out_dims})"
    dims, _ = flatten(out_dims)
    if not all(dim is None or isinstance(dim, int) for dim in dims):
        raise ValueError(f"{call}: `out_dims` must be an int, None or a python collection of ints representing where "
                         "in the outputs the vmapped dimension should appear.")
    if isinstance(out_dims, tuple) and len(out_dims) == 1 and isinstance(result, Tensor):
        return list(out_dims)
    try:
        return spread(out_dims, spec)
    except ValueError:
        raise ValueError(f"{call}(<inputs>): out_dims is not compatible with the structure of `outputs`. out_dims has "
                         f"structure {flatten(out_dims)[1]} but outputs has structure {spec}.") from None


def _result(func: Any, level: Batching, x: Any, dim: int | None) -> Any:
    """An output as what lies below the level sees it, with the examples along dimension `dim`."""
    if dim is None:
        if type(x) is Batched and x._level is level:
            name = name_of(func)
            raise ValueError(f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None")
        return x
    if not isinstance(x, Tensor):
        name = name_of(func)
        raise ValueError(f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(x)}. Did you mean to "
                         "set out_dims= to None for output?")
    whole = level.whole(x)
    if not -whole.ndim <= dim < whole.ndim:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-whole.ndim}, {whole.ndim - 1}], but "
                         f"got {dim})")
    return moved(RECORD, whole, 0, dim % whole.ndim)


def _in_chunks(
    func: Any, size: int, leaves: Sequence[Any], dims: Sequence[int | None], spec: TreeSpec, out_dims: Any,
    randomness: str, kwargs: dict[str, Any], chunk_size: int,
) -> Any:  # fmt: skip
    """Runs `func` on `chunk_size` examples at a time, and concatenates the results."""
    chunks, draws = [], GeneratorSnapshot()
    for start in range(0, size, chunk_size):
        count = min(chunk_size, size - start)
        part = _narrowed(leaves, dims, start, count)
        again = randomness == "same" and start
        with GeneratorReplay(draws) if again else nullcontext() if start else draws:
            chunks.append(_run(func, count, part, dims, spec, out_dims, randomness, kwargs))
    flat = [flatten(chunk) for chunk in chunks]
    places = _out_dims(func, out_dims, chunks[0], flat[0][1])
    joined = [parts[0] if dim is None else RECORD.cat(list(parts), dim)
              for dim, *parts in zip(places, *[leaves for leaves, _ in flat], strict=True)]
    return unflatten(flat[0][1], joined)
