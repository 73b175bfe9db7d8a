"""Live bytes by category, of the arrays that a profile has seen: inputs, results, gradients, states.

1. Bytes belong to the array that owns them: on the CPU the array at the end of `.base`, on CUDA the block of the pool.
   They are live until the last array that was seen in them is gone.
2. A block is of the first category that fits: a parameter, the state of an optimizer, a gradient, saved for backward,
   else other. What is saved for backward is known from the nodes, until they have run or are gone.
3. On CUDA "other" is the rest of what CuPy's pool has in use, so the sum is `ag.cuda.memory_allocated()`.
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter, deque
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..backend import is_array, is_cuda
from ..backend.cpu import pool
from ..backend.cuda import memory_stats, runtime
from ..core.codegen.node_class import OpNode
from ..core.graph.leaf import AccumulateGrad
from ..core.saved.saved_tensor import SavedTensor
from ..core.tensor import Parameter, Tensor
from ..hooks.pack_cache import PackedTensor

CATEGORIES = ("parameters", "gradients", "saved", "optimizer", "other")
PARAMETERS, GRADIENTS, SAVED, OPTIMIZER, OTHER = range(5)
ORDER = (PARAMETERS, OPTIMIZER, GRADIENTS, SAVED)  # the first that a block has is its category


class Block:
    """Memory that was seen: its bytes, its device, and how often it is of each category."""

    __slots__ = ("category", "device", "marks", "nbytes", "refs")

    def __init__(self, nbytes: int, device: str) -> None:
        self.nbytes, self.device, self.category = nbytes, device, OTHER
        self.marks = [0] * len(CATEGORIES)
        self.refs: dict[int, weakref.ref[Any]] = {}


class Ledger:
    """The blocks that are live, and their bytes by device and category. Threads may call it."""

    def __init__(self) -> None:
        self._blocks: dict[Any, Block] = {}
        self._saved: dict[int, tuple[list[Any], weakref.ref[Any]]] = {}  # by the node's id
        self._gone: deque[tuple[str, Any, int]] = deque()  # finalizers append, `_settle` reads
        self._lock = threading.RLock()
        self.bytes: dict[str, list[int]] = {}

    def totals(self) -> dict[str, tuple[int, ...]]:
        """Live bytes by device, in the order of CATEGORIES."""
        with self._lock:
            self._settle()
            return {device: self._of(device, counts) for device, counts in self.bytes.items()}

    def _of(self, device: str, counts: list[int]) -> tuple[int, ...]:
        if device == "cpu":
            return tuple(counts)
        with runtime.cupy_device(device):
            used = memory_stats.pool().used_bytes()
        return (*counts[:OTHER], used - sum(counts[:OTHER]))

    def see(self, array: Any, category: int = OTHER) -> int:
        """Enters an array; returns its bytes if they are new."""
        with self._lock:
            self._settle()
            _, block, new = self._block_of(array)
            if block is not None and category != OTHER:
                block.marks[category] += 1
                self._sort(block)
            return new

    def call(self, args: Iterable[Any], outs: Iterable[Any]) -> int:
        """Enters a call's arguments, results, and what its node saved; returns the bytes of new results."""
        for x in args:
            if isinstance(x, Tensor) and is_array(x._array):
                leaf = isinstance(x, Parameter) or type(x._fn) is AccumulateGrad
                self.see(x._array, PARAMETERS if leaf else OTHER)
        results = [x for x in outs if isinstance(x, Tensor) and is_array(x._array)]
        new = sum([self.see(x._array) for x in results])
        if results and isinstance(results[0]._fn, OpNode):
            self.save(results[0]._fn)
        return new

    def gradients(self, grads: Iterable[Any]) -> int:
        """Enters gradients, arrays or tensors; returns the bytes that are new."""
        arrays = [g._array if isinstance(g, Tensor) else g for g in grads]
        return sum([self.see(array, GRADIENTS) for array in arrays if is_array(array)])

    def state(self, optimizer: Any) -> None:
        """Enters the parameters, gradients and states of an optimizer."""
        for group in optimizer.param_groups:
            for x in group["params"]:
                self.see(x._array, PARAMETERS)
                self.gradients([x._grad])
        for state in optimizer.state.values():
            for value in state.values():
                if isinstance(value, Tensor):
                    self.see(value._array, OPTIMIZER)

    def save(self, node: OpNode) -> None:
        """Marks what `node` holds for backward, once."""
        with self._lock:
            self._settle()
            if id(node) in self._saved:
                return
            keys = []
            for array in _held(node):
                key, block, _ = self._block_of(array)
                if block is not None:
                    block.marks[SAVED] += 1
                    self._sort(block)
                    keys.append(key)
            number, gone = id(node), self._gone
            self._saved[number] = keys, weakref.ref(node, lambda ref: gone.append(("node", number, id(ref))))

    def release(self, node: Any) -> None:
        """Ends what `save` did: the node has run and holds nothing any more."""
        with self._lock:
            self._settle()
            self._unsave(id(node))

    def packed(self, value: Any, tensor: Tensor) -> None:
        """Enters what a pack hook returned for a tensor, as saved."""
        if isinstance(value, PackedTensor):
            encoded, cuda = value.packed.encoded, tensor.is_cuda
            key, home = id(value.packed), str(tensor.device) if cuda and not encoded.host_bytes else "cpu"
            with self._lock:
                self._settle()
                self._enter(key, value.packed, encoded.host_bytes or encoded.device_bytes, home, SAVED)
        for array in arrays_in(value):
            self.see(array, SAVED)

    # ---- blocks; the caller holds the lock -------------------------------------------------------

    def _block_of(self, array: Any) -> tuple[Any, Block | None, int]:
        if is_cuda(array):
            memory, device = array.data.mem, f"cuda:{array.data.device_id}"
            held, nbytes = array, memory.size
            key: Any = device, memory.ptr
        else:
            held = owner(array)
            key, device, nbytes = id(held), "cpu", held.nbytes if isinstance(held, np.ndarray) else len(held)
        if not nbytes:
            return key, None, 0
        new = nbytes if key not in self._blocks else 0
        return key, self._enter(key, held, nbytes, device), new

    def _enter(self, key: Any, held: Any, nbytes: int, device: str, category: int = OTHER) -> Block:
        block = self._blocks.get(key)
        if block is None:
            block = self._blocks[key] = Block(nbytes, device)
            self.bytes.setdefault(device, [0] * len(CATEGORIES))[OTHER] += nbytes
        if id(held) not in block.refs:
            number, gone = id(held), self._gone
            block.refs[number] = weakref.ref(held, lambda ref: gone.append(("block", key, number)))
        if category != OTHER:
            block.marks[category] += 1
            self._sort(block)
        return block

    def _sort(self, block: Block) -> None:
        category = next((c for c in ORDER if block.marks[c]), OTHER)
        if category != block.category:
            counts = self.bytes[block.device]
            counts[block.category] -= block.nbytes
            counts[category] += block.nbytes
            block.category = category

    def _unsave(self, number: int) -> None:
        for key in self._saved.pop(number, ([], None))[0]:
            block = self._blocks.get(key)
            if block is not None:
                block.marks[SAVED] -= 1
                self._sort(block)

    def _settle(self) -> None:
        """Takes out what has died since."""
        gone = self._gone
        while gone:
            kind, key, number = gone.popleft()
            if kind == "node":
                held = self._saved.get(key)
                if held is not None and id(held[1]) == number:
                    self._unsave(key)
                continue
            block = self._blocks.get(key)
            if block is None or block.refs.pop(number, None) is None or block.refs:
                continue
            del self._blocks[key]
            self.bytes[block.device][block.category] -= block.nbytes


def owner(array: np.ndarray) -> Any:
    """The object that owns the memory of a NumPy array: the last array behind `.base`, or a block of our pool."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array.base if isinstance(array.base, pool.Block) else array


def _held(node: OpNode) -> list[Any]:
    """The arrays that a node holds for backward, each once, without those that hooks have packed."""
    arrays = []
    for name in node.saved_slots.values():
        value = getattr(node, name, None)
        for kept in value if isinstance(value, list) else [value]:
            array = kept.tensor._array if isinstance(kept, SavedTensor) and kept.tensor is not None else kept
            if is_array(array):
                arrays.append(array)
    return list({id(array): array for array in arrays}.values())


def arrays_in(value: Any) -> list[Any]:
    """The arrays in what a pack hook returned: a tensor, an array, or a tuple, list or dict of them."""
    if isinstance(value, Tensor):
        return [value._array] if is_array(value._array) else []
    if is_array(value):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [array for part in value for array in arrays_in(part)] if isinstance(value, (tuple, list)) else []


def held_bytes(packed: Any) -> dict[str, int]:
    """The bytes that what a pack hook returned holds: {"device": ..., "host": ...}."""
    if isinstance(packed, PackedTensor):
        encoded = packed.packed.encoded
        return {"device": encoded.device_bytes, "host": encoded.host_bytes}
    held: Counter[str] = Counter(device=0, host=0)
    for array in arrays_in(packed):
        held["device" if is_cuda(array) else "host"] += array.nbytes
    if isinstance(packed, (bytes, bytearray, memoryview)):
        held["host"] += len(packed)
    return dict(held)
