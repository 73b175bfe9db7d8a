"""Selective checkpointing: a policy selects operations whose results are cached and not recomputed.

An entry is the result of the op's forward, including values saved for its derivative. The n-th call of an op in a
recomputation uses the entry of its n-th call in the forward pass. It removes the entry, so a second backward recomputes
it.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from ... import backend
from ...core.declare.op import ALWAYS, RECORD, REGISTRY, OpDef
from ...core.generator import GeneratorLike, StreamPosition
from ...core.graph.storage import Storage, shares_memory, storage_of
from ...core.interpret.interpreters import entered
from ...core.interpret.watcher import Watcher
from ...core.tensor import Tensor
from ...random.replay import GeneratorSnapshot, is_replaying
from .recomputation import Anew

Policy = Callable[..., Any]
MISMATCH = ("This can happen if the operations in the checkpointed region are nondeterministic or depend on global "
            "state that changed between forward and backward.")


class CheckpointPolicy(enum.Enum):
    """The result of a policy function: whether the result of an operation is saved or recomputed.

    PREFER_ allows other subsystems to decide otherwise, and here equals MUST_. CPU_OFFLOAD saves in host memory. Views
    are always recomputed, since they own no memory.

    >>> ag.utils.checkpoint.CheckpointPolicy.MUST_SAVE.name
    'MUST_SAVE'
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


SAVE = (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)
OFFLOAD = (CheckpointPolicy.MUST_CPU_OFFLOAD, CheckpointPolicy.PREFER_CPU_OFFLOAD)


class SelectiveCheckpointContext:
    """The context argument of a policy function, with the operation's result in `op_output`.

    The policy is called in the forward pass only; `is_recompute` is always False.

    >>> ag.utils.checkpoint.SelectiveCheckpointContext(is_recompute=False).is_recompute
    False
    """

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute = is_recompute
        self.op_output = op_output


class Entry(NamedTuple):
    """A cached call: the result of forward, the versions of its memory, and the generators' states after it."""

    result: Any
    versions: list[tuple[Storage, int]]
    after: dict[GeneratorLike, StreamPosition]
    home: Any  # the device to move the result back to, None if it stayed there


class ResultCache:
    """The cached results of a forward pass, by op and call number."""

    def __init__(self, policy: Policy, mutation: bool) -> None:
        self.policy, self.mutation = policy, mutation
        self.calls: Counter[str] = Counter()
        self.entries: dict[tuple[str, int], Entry] = {}


class Caching(Watcher):
    """The watcher of the forward pass, which caches results."""

    def __init__(self, cache: ResultCache) -> None:
        self.cache = cache

    def around(self, op: OpDef, args: list[Any], attributes: dict[str, Any], forward: Any) -> tuple[Any, Any]:
        results: list[Any] = []
        snapshot = GeneratorSnapshot()

        def noting(xp: Any, *arrays: Any, **named: Any) -> Any:
            with snapshot:
                results.append(forward(xp, *arrays, **named))
            return results[0]

        def done(out: Any) -> None:
            cache = self.cache
            number = cache.calls[op.name]
            cache.calls[op.name] += 1
            op_args = [list(args)] if op.variadic else args
            context = SelectiveCheckpointContext(is_recompute=False, op_output=out)
            policy = cache.policy(context, getattr(RECORD, op.name), *op_args, **attributes)
            if policy is True or policy in SAVE or policy in OFFLOAD:
                outs = (out,) if isinstance(out, Tensor) else out
                if not _is_view(op, outs, args):
                    entry = Entry(results[0], [(s, s.version) for s in map(storage_of, outs)], snapshot.now(), None)
                    cache.entries[op.name, number] = _on_host(entry) if policy in OFFLOAD else entry

        return noting, done


class Cached(Watcher):
    """The watcher of a recomputation, which returns cached results."""

    def __init__(self, cache: ResultCache) -> None:
        self.cache = cache
        self.calls: Counter[str] = Counter()

    def around(self, op: OpDef, args: list[Any], attributes: dict[str, Any], forward: Any) -> tuple[Any, Any]:
        cache, number = self.cache, self.calls[op.name]
        self.calls[op.name] += 1
        if number >= cache.calls[op.name]:
            raise RuntimeError(f"{op.name} invocation index {number} encountered during backward but not found in "
                               f"storage. {MISMATCH}")
        entry = cache.entries.pop((op.name, number), None)
        if entry is None:
            return forward, None
        if not cache.mutation and any(storage.version != version for storage, version in entry.versions):
            raise RuntimeError("Tensor cached during selective activation checkpoint has been mutated")

        def recall(xp: Any, *arrays: Any, **named: Any) -> Any:
            if is_replaying():  # what draws next draws what came next
                for generator, place in entry.after.items():
                    generator.return_to(place)
            if entry.home is None:
                return entry.result
            return _mapped(entry.result, lambda array: backend.to_device(array, entry.home))

        return recall, None


def _is_view(op: OpDef, outs: tuple[Tensor, ...], args: list[Any]) -> bool:
    if op.view == ALWAYS:
        return True
    inputs = [a.array for a in args if isinstance(a, Tensor)]
    return bool(op.view) and any(shares_memory(out.array, array) for out in outs for array in inputs)


def _on_host(entry: Entry) -> Entry:
    """The entry with its arrays in host memory; unchanged if they are there already."""
    homes = {backend.device_of(array) for array in _arrays(entry.result)}
    if homes <= {backend.CPU}:
        return entry
    return Entry(_mapped(entry.result, backend.to_numpy), [], entry.after, homes.pop())


def _mapped(result: Any, move: Callable[[Any], Any]) -> Any:
    """A result of forward, an array or nested tuples and dicts of arrays, with `move` applied to each array."""
    if isinstance(result, dict):
        return {name: _mapped(value, move) for name, value in result.items()}
    if isinstance(result, (tuple, list)):
        return tuple([_mapped(value, move) for value in result])
    return move(result) if backend.is_array(result) else result


def _arrays(result: Any) -> list[Any]:
    arrays: list[Any] = []
    _mapped(result, arrays.append)
    return arrays


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Any, allow_cache_entry_mutation: bool = False
) -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    """The two contexts of selective checkpointing; pass functools.partial of this function as `context_fn`.

    policy_fn_or_list: a function policy_fn(ctx, op, *args, **kwargs), called after each operation of the forward pass
        with a SelectiveCheckpointContext, the operation (`ag.matmul`, ...) and its arguments, which returns a
        CheckpointPolicy; or a list of operations, or their names, whose results are saved.
    allow_cache_entry_mutation: allow in-place modification of cached results before their use; else RuntimeError.

    TypeError if policy_fn_or_list is neither a function nor a list, ValueError if an element is not an operation.

    >>> import functools
    >>> save = functools.partial(ag.utils.checkpoint.create_selective_checkpoint_contexts, [ag.matmul])
    >>> x = ag.ones(2, 2, requires_grad=True)
    >>> y = ag.utils.checkpoint.checkpoint(lambda x: (x @ x).exp(), x, use_reentrant=False, context_fn=save)
    >>> with ag.profiler.count() as c:
    ...     y.sum().backward()
    >>> sum(c.matmuls.values())  # both of the derivative, none of forward
    2
    """
    if isinstance(policy_fn_or_list, list):
        policy = _from_list(policy_fn_or_list)
    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    cache = ResultCache(policy, allow_cache_entry_mutation)
    return entered(Caching(cache)), Anew(lambda: entered(Cached(cache)))


def _from_list(ops: list[Any]) -> Policy:
    names = set()
    for op in ops:
        name = op if isinstance(op, str) else getattr(getattr(op, "op", None), "name", None)
        if not isinstance(name, str) or name not in REGISTRY:
            raise ValueError(f"Expected op in `op_list` to be an operation, or the name of one, but got: {op} of type "
                             f"{type(op)}; functions that are made of operations are not: list those, which a policy "
                             "function shows")
        names.add(name)

    def policy(context: SelectiveCheckpointContext, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        return CheckpointPolicy.MUST_SAVE if op.op.name in names else CheckpointPolicy.PREFER_RECOMPUTE

    return policy
