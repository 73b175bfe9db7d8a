"""Runs the engine's work: one GraphTask per call of backward or grad.

    1. Walk from the roots, but not into nodes whose topological number is below the smallest one of the inputs.
    2. Sort by sequence number: within one graph, descending order is topological, so no dependency counts are needed.
    3. exec_info: from the leaves up, a node is needed if one of its edges leads to a needed node or a captured input.
       Plain backward needs every node's mask. Edges through ZERO need nothing; they only record "used".
    4. Run the nodes in descending order; each gets the mask of its inputs that THIS call needs.
    5. Sum gradients that flow into the same output; reduce those of broadcast inputs to the input's shape.
    6. Fire AccumulateGrad as soon as its last contribution has arrived.
    7. Return the captured gradients.

Nothing about a call is stored on the graph: two threads may run tasks over the same nodes at the same time. Without
create_graph gradients are raw arrays and rules run on arrays; with it they are tensors and the rules record.
"""

from __future__ import annotations

from collections.abc import Sequence
from logging import DEBUG
from operator import attrgetter
from typing import Any

import numpy as np

from ... import backend
from ...backend import counters
from ...backend.arrays.dtypes import NATIVE_FLOATS
from ...backend.arrays.memory_format import row_major
from ...modes import INFERENCE, MODES
from ..declare.op import RAW, RECORD
from ..graph.bitmask import FEW, mask_of
from ..graph.node import Node, has_hooks
from ..graph.storage import INFERENCE_STORAGE
from ..tensor import Tensor, alias, wrap
from ..thread_state import ThreadState
from .grad_accumulation import accumulate, run_adding
from .grad_buffers import added, as_array, own, zeros
from .hook_runner import run_leaf_pre_hooks, run_tensor_hooks, run_with_hooks
from .observers import LOGGER, notify_observers
from .task_state import Capture, Root, TaskState
from .watched_node import run_watched

_by_sequence = attrgetter("sequence_nr")
_new = object.__new__


class GraphTask(TaskState):
    """One call of backward or grad, and its steps."""

    __slots__ = ()

    def start(self, roots: Sequence[Root]) -> None:
        """Puts the given gradients into the buffers of their nodes, where the walk starts."""
        buffers, on_tensors = self.buffers, self.on_tensors
        for node, nr, g in roots:
            if nr == 0 and node not in buffers:
                buffers[node] = g if on_tensors else g._array
            else:
                self.add(node, nr, g if on_tensors else g._array)
        if len(roots) == 1:
            self.root = node

    # ---- 1, 2: discovery ---------------------------------------------------------------------------

    def walk(self) -> list[Node]:
        """Collects what the roots reach in `nodes` and `leaves`; returns the nodes with ZERO edges."""
        floor, leaves, accumulate, nodes, captures = self.floor, self.leaves, self.accumulate, self.nodes, self.captures
        zero_nodes = []
        stack = list(self.buffers)
        seen = set(stack)
        while stack:
            node = stack.pop()
            if node.topological_nr == 0:
                leaves.setdefault(node, 0)
                continue
            nodes.append(node)
            if node.zero_edges:
                zero_nodes.append(node)
            for child in node.edges:
                if child is None:
                    continue
                nr = child.topological_nr
                if nr == 0:
                    if accumulate:
                        leaves[child] = leaves.get(child, 0) + 1
                    elif child not in captures:
                        self.prune = True
                elif nr >= floor and child not in seen:
                    seen.add(child)
                    stack.append(child)
        if len(nodes) > 1:
            nodes.sort(key=_by_sequence)
        return zero_nodes

    # ---- 3: exec_info ------------------------------------------------------------------------------

    def plan(self) -> None:
        zero_nodes = self.walk()
        if self.only is not None:
            self.leaves = {leaf: left for leaf, left in self.leaves.items() if leaf in self.only}
        if zero_nodes:
            self._behind_zero(list(zero_nodes))
            self._watch()
        if self.accumulate:
            if zero_nodes or self.only is not None:
                self._exec_info({*self.leaves, *self.captures, *self.watchers})
        elif self.prune or zero_nodes or self.floor:  # otherwise every leaf is captured, so every node is needed
            self._exec_info({*self.captures, *self.watchers})

    def _watch(self) -> None:
        """Finds nodes to run for their hooks, or as a Function, although only ZERO edges lead from them to an input."""
        leads: set[Node] = {*self.captures, *(self.only or ()), *(self.leaves if self.accumulate else ())}
        above: set[Node] = set(self.nodes) if self.accumulate and self.only is None else set()
        for node in sorted([*self.nodes, *self.beyond], key=_by_sequence):
            if any(child in leads for child in node.edges) or any(child in leads for _, child, _ in node.zero_edges):
                leads.add(node)
                above.add(node)
        self.watchers = {n for n in self.nodes if n in above and (n.materialize or has_hooks(n))}

    def _exec_info(self, leading: set[Node]) -> None:
        needs: dict[Node, int] = {}
        for node in self.nodes:
            need, bit, edges = 0, 1, node.edges
            if len(edges) > FEW:
                need = mask_of([child in leading for child in edges])
            else:
                for child in edges:
                    if child in leading:
                        need |= bit
                    bit <<= 1
            if need:
                needs[node] = need
                leading.add(node)
        self.needs = needs

    def _behind_zero(self, stack: list[Node]) -> None:
        """Records what only ZERO edges reach; nodes there that have hooks or belong to a Function run on zeros."""
        used: set[tuple[Node, int]] = set()
        live = set(self.nodes)
        seen: set[Node] = set()
        while stack:
            node = stack.pop()
            edges = [(child, nr) for _, child, nr in node.zero_edges]
            if node not in live:
                edges += [(c, nr) for c, nr in zip(node.edges, node.nrs or (0,) * len(node.edges), strict=True) if c]
            for child, nr in edges:
                if child.topological_nr >= self.floor:
                    used.add((child, nr))
                    if child not in seen:
                        seen.add(child)
                        stack.append(child)
        self.used = used
        if self.accumulate:
            for leaf, _ in used:
                if leaf.topological_nr == 0 and (self.only is None or leaf in self.only):
                    self.leaves.setdefault(leaf, 0)
        like = next(g for b in self.buffers.values() for g in (b if isinstance(b, list) else [b]) if g is not None)
        self.xp = backend.namespace_on(like.device) if isinstance(like, Tensor) else backend.namespace(like)
        self.beyond = {n for n in seen - live if n.topological_nr}
        watched = [n for n in self.beyond if n.materialize or has_hooks(n)]
        if watched:
            self._run_on_zeros(watched)

    def _run_on_zeros(self, watched: list[Node]) -> None:
        """Makes nodes behind ZERO that have hooks, or belong to a Function, roots: these are not pruned."""
        for node in watched:
            if node.outputs == 1:
                self.add(node, 0, self._zeros(node.shape, node.dtype))
            else:
                for nr, (shape, dtype) in enumerate(zip(node.shape, node.dtype, strict=True), 1):
                    if shape is not None:  # None for an output of a Function that is not a tensor
                        self.add(node, nr, self._zeros(shape, dtype))
        self.nodes, self.leaves = [], {}
        self.plan()

    def _zeros(self, shape: Any, dtype: Any) -> Any:
        zeros = self.xp.zeros(shape, dtype)
        return wrap(zeros) if self.on_tensors else zeros

    # ---- 4: execution ------------------------------------------------------------------------------

    def run(self, thread: ThreadState) -> None:
        """Runs the nodes. One function: a call per node would take 10 % of a small graph's time."""
        needs, captures, buffers, accumulate = self.needs, self.captures, self.buffers, self.accumulate
        release, on_tensors, watchers, root = not self.keep, self.on_tensors, self.watchers, self.root
        hooked = thread.anomaly or thread.start_hooks
        watched = self.watched = hooked or counters.ACTIVE or LOGGER.isEnabledFor(DEBUG)
        adding = not on_tensors and not hooked
        owned = self.owned
        for node in reversed(self.nodes):
            need = node.mask if needs is None else needs.get(node, 0)
            if not need and node not in captures and node not in watchers and node is not root:
                continue
            g = buffers.pop(node, None)
            if g is None and (g := self._instead_of_none(node)) is None and not node.materialize:
                continue
            extra = node.extra
            if extra is not None:
                g = run_tensor_hooks(self, node, g)
            if node in captures:
                self.capture(node, g)
            if not need and node not in watchers:
                continue
            if watched:
                adds = adding and node.adds and (node.edges[0] in owned if node.shows_memory else accumulate)
                grads = run_watched(self, node, g, need, bool(adds))
            elif extra is not None:
                grads = run_with_hooks(self, node, g, need, extra)
            elif adding and node.adds and (node.edges[0] in owned if node.shows_memory else accumulate):
                grads = run_adding(self, node, g, need)
            else:
                grads = node.run_recorded(g, need, release) if on_tensors else node.run_raw(g, need, release)
            shapes, nrs, edges = node.shapes, node.nrs, node.edges
            if shapes is not None:
                grads = self._reduced(grads, shapes)
            if nrs is None:
                for i, g in enumerate(grads):
                    child = edges[i]
                    if g is None or child is None:
                        continue
                    held = buffers.get(child)
                    if held is None:
                        buffers[child] = g
                    elif child in owned:
                        held += g
                    else:
                        buffers[child] = self.sum(child, held, g)
            else:
                self.add_each(edges, nrs, grads)
            if accumulate:
                grads = g = held = None  # a leaf takes over an array only if nothing else references it
                self.fire_complete(node)
        if accumulate:
            self.fire_rest()
        if root is not None and root.topological_nr == 0 and root.extra is not None and root not in captures:
            g = buffers.pop(root, None)
            if g is not None:  # a leaf that is not captured
                run_tensor_hooks(self, root, g)

    def _reduced(self, grads: Any, shapes: Any) -> list[Any]:
        """Sums the gradients of broadcast inputs to the inputs' shapes."""
        sum_to = RECORD.sum_to if self.on_tensors else RAW.sum_to
        return [g if g is None or g.shape == s else sum_to(g, s) for g, s in zip(grads, shapes, strict=True)]

    def _instead_of_none(self, node: Node) -> Any:
        """The gradient of `node` if all rules above it returned None: zeros if ZERO edges reach it, otherwise None.

        A Function runs in any case.
        """
        used = self.used or ()
        if node.outputs == 1:
            return self._zeros(node.shape, node.dtype) if (node, 0) in used else None
        described = enumerate(zip(node.shape, node.dtype, strict=True), 1)
        parts = [self._zeros(shape, dtype) if (node, nr) in used else None for nr, (shape, dtype) in described]
        return parts if node.materialize or any(part is not None for part in parts) else None

    # ---- 5: sums -----------------------------------------------------------------------------------

    def add(self, node: Node, nr: int, g: Any) -> None:
        """Adds `g` into the buffer of output `nr` (as Tensor._nr) of `node`."""
        buffers = self.buffers
        if node.outputs == 1:
            held = buffers.get(node)
            buffers[node] = g if held is None else self.sum(node, held, g)
            return
        parts = buffers.get(node)
        if parts is None:
            parts = buffers[node] = [None] * node.outputs
        parts[nr - 1] = g if parts[nr - 1] is None else self.sum((node, nr), parts[nr - 1], g)

    def add_each(self, edges: tuple[Node | None, ...], nrs: tuple[int, ...], grads: Any) -> None:
        """Adds the gradients of a node to their edges, if some inputs are outputs of a node with several."""
        for child, nr, g in zip(edges, nrs, grads, strict=False):
            if g is not None and child is not None:
                self.add(child, nr, g)

    def sum(self, key: Any, held: Any, g: Any) -> Any:
        """Returns held + g. The first sum makes an array that the task owns; later sums add into it."""
        if key in self.owned:
            held += g
            return held
        total = held + g if self.on_tensors else added(held, g)
        if not self.on_tensors and total.ndim and total.dtype in NATIVE_FLOATS:
            self.owned.add(key)  # neither a NumPy scalar nor a dtype that rejects adding a wider one in place
        return total

    # ---- 6: leaves ---------------------------------------------------------------------------------

    def fire_complete(self, node: Node) -> None:
        """Fires the leaves for which `node` made the last contribution."""
        leaves = self.leaves
        for child in node.edges:
            if child in leaves:
                left = leaves[child] - 1
                if left:
                    leaves[child] = left
                else:
                    del leaves[child]
                    self.fire(child)

    def fire_rest(self) -> None:
        """Fires leaves that are roots, that still wait for contributions, or that only ZERO edges reach."""
        for leaf in list(self.leaves):
            self.fire(leaf)

    def _zeros_for(self, leaf: Any) -> Any:
        """Zeros for a leaf without a gradient behind ZERO edges; None if it has a `.grad` and no hooks."""
        variable = leaf.living() if self.used and (leaf, 0) in self.used else None
        if variable is None or (variable.grad is not None and not has_hooks(leaf)):
            return None
        return wrap(zeros(variable._array)) if self.on_tensors else zeros(variable._array)

    def fire(self, leaf: Any) -> None:
        g = self.buffers.pop(leaf, None)
        if g is None and (g := self._zeros_for(leaf)) is None:
            return
        if leaf.extra is not None:
            g = run_tensor_hooks(self, leaf, g)
        if self.watched:
            notify_observers(self, leaf, g, 0)
        if leaf.extra is not None and leaf.extra.pre:
            g = run_leaf_pre_hooks(self, leaf, g)
        variable = leaf._ref() if leaf.extra is None else leaf.living()
        if g is None:  # a hook removed it
            return
        if not self.on_tensors:
            if variable is None:
                g = wrap(as_array(g))
            else:
                array = variable._array
                g = wrap(own(g, array.dtype, array if variable._grad is None else None))
        accumulate(leaf, variable, g, self.on_tensors, self.create_graph)

    # ---- 7: captures -------------------------------------------------------------------------------

    def capture(self, node: Node, g: Any) -> None:
        for i, nr in self.captures[node]:
            self.results[i] = g if nr == 0 else g[nr - 1]

    def collect(self, captures: list[Capture], roots: Sequence[Root]) -> list[Tensor | None]:
        """Returns the captured gradients as tensors: zeros behind ZERO edges, None for inputs that were not reached.

        A captured gradient that is one of the given gradients shares its version counter.
        """
        results, buffers, on_tensors = self.results, self.buffers, self.on_tensors
        by_id: dict[int, Tensor] = {}
        for _, _, gradient in roots:
            by_id[id(gradient._array)] = gradient
        grads: list[Tensor | None] = []
        storage = INFERENCE_STORAGE if MODES.bits & INFERENCE else None
        for i, (node, nr, like) in enumerate(captures):
            if node.topological_nr:
                g = results[i]
            else:
                g = buffers.get(node)
                if g is not None and node.extra is not None:
                    g = self.leaf_hooks(node, g)
            if g is None:
                g = self._zeros_for_capture(node, nr, like)
            if g is None or on_tensors:
                grads.append(self._traced(g) if g is not None and MODES.stack and MODES.stack[-1].is_trace else g)
            else:
                ordinary = type(g) is np.ndarray and g.base is None and g.dtype is like.dtype
                array = g if ordinary else as_array(g, like.dtype)
                if not ordinary and not array.flags.c_contiguous and id(array) not in by_id:
                    array = row_major(array)  # perhaps a part of an array, or its transpose
                if id(array) in by_id:
                    grads.append(alias(by_id[id(array)]))
                    continue
                tensor = _new(Tensor)  # as `wrap` does, whose call took a sixth of the time here
                tensor._array, tensor._storage, tensor._nr = array, storage, 0
                tensor._fn = tensor._grad = tensor._base = None
                grads.append(tensor)
        return grads

    def _traced(self, g: Tensor) -> Tensor:
        """A gradient in row-major order, which those on arrays have, for a trace."""
        array = g._array
        if self.create_graph or array.flags.c_contiguous or (array.base is None and type(array) is np.ndarray):
            return g
        copied: Tensor = RECORD.contiguous_copy(g)
        return copied

    def _zeros_for_capture(self, node: Node, nr: int, like: Any) -> Any:
        """The gradient of a captured tensor that no gradient reached: zeros behind ZERO edges, otherwise None."""
        if self.used is None or (node, nr) not in self.used:
            return None
        g = wrap(zeros(like)) if self.on_tensors else zeros(like)
        return run_tensor_hooks(self, node, g) if node.topological_nr == 0 and node.extra is not None else g

    def leaf_hooks(self, leaf: Node, g: Any) -> Any:
        """Runs the tensor hooks of a captured leaf, once even if it is captured several times."""
        if self.captures.pop(leaf, None) is not None:
            self.buffers[leaf] = g = run_tensor_hooks(self, leaf, g)
        return g
