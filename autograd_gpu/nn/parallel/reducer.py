"""Reducer: averages gradients over the ranks while backward computes further ones.

Gradients lie in flat buckets. A post-accumulate hook puts each into its place as soon as it is complete; the bucket
whose last one has come is all-reduced, in the order of the buckets, which is the same on all ranks. At the end of
backward the reductions are waited for.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from operator import is_
from typing import Any

from ... import backend
from ...autograd.callbacks import queue_callback
from ...backend.arrays.dtypes import int64
from ...core.graph.leaf import AccumulateGrad
from ...core.graph.node import Node
from ...core.graph.storage import before_write, bump_version
from ...core.tensor import Tensor, wrap
from ...core.thread_state import THREAD
from ...distributed.collectives import all_gather_into_tensor, all_reduce, broadcast
from ...distributed.grad_bucket import GradBucket
from ...distributed.group import ProcessGroup
from ...distributed.memory import home
from ...distributed.reduce_op import ReduceOp
from ...distributed.work import Future, Work
from ...missing_names import warn_once
from ...ops import empty
from ...ops import tensor as new_tensor
from ...pytrees import flatten

FIRST_BUCKET = 1 << 20  # bytes; a small one, whose reduction begins early


class Bucket:
    """A flat tensor that holds the gradients of the parameters `indices`, and their views."""

    def __init__(self, indices: Sequence[int], parameters: Sequence[Tensor]) -> None:
        self.indices, self.parameters = indices, parameters
        first = parameters[0].array
        with home(first):
            array = backend.namespace(first).zeros(sum(p.numel() for p in parameters), first.dtype)
        self.buffer, self.views, end = wrap(array), [], 0
        for parameter in parameters:
            begin, end = end, end + parameter.numel()
            self.views.append(wrap(array[begin:end].reshape(parameter.shape)))
        self.left = len(indices)  # gradients that are still to come
        self.pending: Work | Future | None = None


def arranged(order: Iterable[int], parameters: Sequence[Tensor], first: int, others: int) -> list[Bucket]:
    """Buckets for the parameters in that order, with one dtype and device each, of so many bytes or one parameter."""
    lists: list[list[int]] = []
    limits: list[int] = []
    open_lists: dict[Any, int] = {}  # dtype and device -> which list
    for i in order:
        key = parameters[i].dtype, parameters[i].device
        where = open_lists.get(key)
        size = parameters[i].nbytes
        if where is None or (sum(parameters[j].nbytes for j in lists[where]) + size > limits[where]):
            open_lists[key] = where = len(lists)
            lists.append([])
            limits.append(others if lists[:-1] else first)
        lists[where].append(i)
    return [Bucket(indices, [parameters[i] for i in indices]) for indices in lists]


def tensors_in(outputs: Any) -> Iterator[Tensor]:
    """The tensors in nested containers and dataclasses."""
    for leaf in flatten(outputs)[0]:
        if isinstance(leaf, Tensor):
            yield leaf
        elif is_dataclass(leaf) and not isinstance(leaf, type):
            yield from tensors_in([getattr(leaf, field.name) for field in fields(leaf)])


def reached(outputs: Any) -> set[AccumulateGrad]:
    """The leaves' nodes in the graph behind the tensors in `outputs`."""
    waiting: list[Node] = [tensor._node for tensor in tensors_in(outputs) if tensor._node is not None]
    seen = set(waiting)
    while waiting:
        for node, _ in waiting.pop().next_functions:
            if node is not None and node not in seen:
                seen.add(node)
                waiting.append(node)
    return {node for node in seen if isinstance(node, AccumulateGrad)}


def _accumulated(reducer: weakref.ref[Reducer], i: int, leaf: Tensor) -> None:
    """The hook of parameter i; the reference is weak, since the parameter keeps the hook."""
    this = reducer()
    if this is not None and this.expecting:
        this.accumulated(i, leaf)
    elif this is not None and this.averages:
        warn_once("gradients after those of a forward",
                  "DistributedDataParallel: a parameter got a gradient after those of the last forward were averaged, "
                  "by a second backward or a loss beside forward; this one stays on its rank. Call forward before each "
                  "backward, or, if it is meant so, both within no_sync(). This is said once.")  # fmt: skip


def _remove(handles: list[Any]) -> None:
    for handle in handles:
        handle.remove()


class Reducer:
    """The buckets of a model's parameters, and where their reduction stands."""

    def __init__(
        self, named: Sequence[tuple[str, Tensor]], group: ProcessGroup, bucket_bytes: int, first_bytes: int,
        find_unused: bool, static: bool,
    ) -> None:  # fmt: skip
        self.names, self.parameters = [name for name, _ in named], [parameter for _, parameter in named]
        self.group, self.find_unused, self.static = group, find_unused, static
        self.sizes = first_bytes, bucket_bytes
        self.comm_hook: Callable[[GradBucket], Future] | None = None
        self.unused: set[int] = set()  # on this rank in this iteration
        self.known: set[int] | None = None  # static: unused on all ranks, once the first iteration has shown it
        self.expecting = False  # whether the next backward is reduced
        self.averages = False  # whether the last forward was for a backward that is reduced
        self.begun = False
        self.done: list[int] = []  # parameters whose gradients have come, in their order
        self.followed: Work | None = None  # the reduction of what is used
        self.active: int | None = None  # the number of ranks with data, if gradients are averaged over those only
        self.divides_by_all, self.source = True, 0  # the first rank with data
        self.arrange(range(len(self.parameters) - 1, -1, -1))
        self.rearranges = not find_unused and len(self.buckets) > 1
        this = weakref.ref(self)
        handles = [p.register_post_accumulate_grad_hook(partial(_accumulated, this, i))
                   for i, p in enumerate(self.parameters)]  # fmt: skip
        weakref.finalize(self, _remove, handles).atexit = False

    def arrange(self, order: Iterable[int]) -> None:
        """Makes the buckets, in that order of the parameters."""
        self.buckets = arranged(order, self.parameters, *self.sizes)
        self.arrays = [parameter.array for parameter in self.parameters]
        self.kinds = [(parameter.dtype, parameter.device) for parameter in self.parameters]
        self.places = {i: (bucket, k) for bucket in self.buckets for k, i in enumerate(bucket.indices)}
        self.restart()

    def restart(self) -> None:
        for bucket in self.buckets:
            bucket.left, bucket.pending = len(bucket.indices), None
        self.begun, self.next, self.done = False, 0, []
        self.came: set[int] = set()

    # ---- before backward -----------------------------------------------------------------------

    def prepare(self, outputs: Any, averages: bool) -> None:
        """Called after forward, with its outputs; `averages`: whether the next backward is reduced."""
        self.averages = averages
        if not averages:
            return
        if self.begun:
            raise self._unfinished()
        self.refit()
        if self.rearranges and len(self.done) == len(self.parameters):
            self.rearranges = False
            order = new_tensor(self.done)
            broadcast(order, group=self.group, group_src=0)
            self.arrange(order.tolist())
        self.restart()
        self.expecting, self.unused = True, self.known or set()
        if self.find_unused and not self.static:
            nodes = reached(outputs)
            self.unused = {i for i, p in enumerate(self.parameters) if p._node not in nodes}

    def refit(self) -> None:
        """Makes other buckets if the module has been moved to another device or dtype since."""
        arrays = [parameter.array for parameter in self.parameters]
        if all(map(is_, arrays, self.arrays)):
            return
        self.arrays = arrays
        if [(p.dtype, p.device) for p in self.parameters] != self.kinds:
            self.arrange([i for bucket in self.buckets for i in bucket.indices])

    def _unfinished(self) -> RuntimeError:
        missing = [self.names[i] for i in range(len(self.parameters)) if i not in self.came]
        beginning = "Expected to have finished reduction in the prior iteration before starting a new one. "
        if not missing:
            return RuntimeError(f"{beginning}All gradients of the last backward came, and a reduction of them failed; "
                                "its error names the rank. Wrap net.module again to go on without it.")
        return RuntimeError(
            f"{beginning}The last backward gave no gradient to {', '.join(missing[:10])}"
            f"{' ...' if len(missing) > 10 else ''}, so the other ranks wait for them. If it ran to its end, pass "
            "find_unused_parameters=True to DistributedDataParallel, and compute the loss from all outputs of forward. "
            "If it raised, and on all ranks, wrap net.module again to go on."
        )

    # ---- during backward -----------------------------------------------------------------------

    def accumulated(self, i: int, leaf: Tensor) -> None:
        """Called when the gradient of parameter i is complete."""
        if leaf._grad is not None and leaf._grad._fn is not None:
            raise RuntimeError("DistributedDataParallel cannot reduce gradients of backward(create_graph=True): use "
                               "autograd.grad, and distributed.nn.functional.all_reduce on its results")
        if self.static and self.known is None:
            self._learn(i)
            return
        if not self.begun:
            self.begun = True
            for j in self.unused:
                self._ready(j, self.parameters[j], used=False)
        try:
            self._ready(i, leaf, used=True)
        except Exception:
            if self.next == 0:  # nothing is under way, so the next forward may go on, as it does after a failed capture
                self.restart()
            raise
        self.group.engine.advance()

    def _learn(self, i: int) -> None:
        """The first iteration of a static graph: all is reduced at the end of backward."""
        if not self.begun:
            self.begun = True
            queue_callback(self._learned)
        self.done.append(i)

    def _learned(self) -> None:
        if THREAD.state.depth > 1:
            raise RuntimeError("DistributedDataParallel(static_graph=True): the first backward has run inside of "
                               "another one; use utils.checkpoint with use_reentrant=False, or static_graph=False")
        order, self.done = list(dict.fromkeys(self.done)), []
        self.unused = set(range(len(self.parameters))) - set(order)
        for i in sorted(self.unused):
            self._ready(i, self.parameters[i], used=False)
        for i in order:
            self._ready(i, self.parameters[i], used=True)

    def _ready(self, i: int, leaf: Tensor, used: bool) -> None:
        """Puts a gradient into its place, zeros for one that is not there, and begins what can be reduced."""
        if i in self.came:
            raise self._again(i)
        self.came.add(i)
        if used:
            self.done.append(i)
        bucket, k = self.places[i]
        view, grad = bucket.views[k], leaf._grad
        if grad is not view:
            before_write((view,))
            with home(view.array):
                view.array[...] = 0 if grad is None else grad.array
            if used:
                leaf.grad = view
        bump_version(view)  # the reduction writes to it, too
        bucket.left -= 1
        while self.next < len(self.buckets) and self.buckets[self.next].left == 0:
            self._reduce(self.next)
            self.next += 1
            if self.next == len(self.buckets):
                self._all_begun()
                queue_callback(self.finish)

    def _again(self, i: int) -> RuntimeError:
        beginning = f"Expected to mark a variable ready only once: {self.names[i]} got a gradient "
        if i in self.unused:
            seen = ("in the first iteration of static_graph=True" if self.static else
                    "in the outputs of forward, which are searched in lists, tuples, dicts and dataclasses")
            return RuntimeError(f"{beginning}and was not used {seen}; leave the option out, or compute the loss from "
                                "the outputs of forward alone, in the same way in each iteration.")
        return RuntimeError(f"{beginning}twice in one backward. Use utils.checkpoint with use_reentrant=False.")

    def _reduce(self, index: int) -> None:
        bucket = self.buckets[index]
        if self.comm_hook is None:
            bucket.pending = all_reduce(bucket.buffer, ReduceOp.AVG, self.group, async_op=True)
            return
        last = index == len(self.buckets) - 1
        given = GradBucket(index, last, bucket.buffer, bucket.views, bucket.parameters)
        bucket.pending = self.comm_hook(given)

    def _all_begun(self) -> None:
        if (self.find_unused and not self.static) or (self.static and self.known is None):
            used = [int(i not in self.unused) for i in range(len(self.parameters))]
            self.use = new_tensor(used)
            self.followed = all_reduce(self.use, group=self.group, async_op=True)

    # ---- after backward ------------------------------------------------------------------------

    def finish(self) -> None:
        """Waits for all reductions."""
        for bucket in self.buckets:
            assert bucket.pending is not None
            result = bucket.pending.wait()
            if isinstance(result, Tensor) and result is not bucket.buffer:
                bucket.buffer.copy_(result.view(-1))
            if self.active is not None:
                bucket.buffer.mul_(self.group.size() / self.active)
        everywhere = self.known or set()
        if self.followed is not None:
            self.followed.wait()
            self.followed = None
            everywhere = {i for i, count in enumerate(self.use.tolist()) if count == 0}
            if self.static:
                self.known = everywhere
        if self.expecting:  # not on a rank without data, whose next gradients would be added to these
            for i in self.unused - everywhere:
                bucket, k = self.places[i]
                self.parameters[i].grad = bucket.views[k]
        self.expecting = self.begun = False

    # ---- uneven inputs, see distributed.algorithms.join ----------------------------------------

    def in_join(self, divide_by_all: bool) -> None:
        """Called on all ranks before iterations of which some ranks have fewer."""
        self.rearranges = False  # a rank without data has seen no order
        self.divides_by_all = divide_by_all

    def agree(self, has_data: bool, reduces: bool = False, syncs: bool = False) -> tuple[bool, bool]:
        """Whether the ranks with data reduce the gradients of this iteration, and whether they get buffers before."""
        every = empty(self.group.size(), 3, dtype=int64)
        all_gather_into_tensor(every, new_tensor([int(has_data), int(reduces), int(syncs)]), group=self.group)
        rows = every.tolist()
        self.source = next((rank for rank, row in enumerate(rows) if row[0]), 0)
        self.active = None if self.divides_by_all else sum(row[0] for row in rows)
        return any(row[1] for row in rows), any(row[2] for row in rows)

    def follow(self) -> None:
        """Takes part in the reductions of one backward with zeros."""
        for bucket in self.buckets:
            before_write((bucket.buffer,))
            bucket.buffer.zero_()
        self.restart()
        self.unused = set(range(len(self.parameters)))
        for i in self.unused:
            self.came.add(i)
        for index, bucket in enumerate(self.buckets):
            bucket.left = 0
            self._reduce(index)
        self._all_begun()
        self.finish()
