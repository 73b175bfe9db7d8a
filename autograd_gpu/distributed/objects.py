"""Collectives on Python objects, which travel as pickles: only between processes that trust each other."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from .group import ProcessGroup, member
from .work import Work


def _sizes(within: ProcessGroup, function: str, size: int) -> np.ndarray:
    """The numbers `size` of all ranks."""
    sizes = np.empty(within.size(), np.int64)
    mine = np.array([size], np.int64)
    within.begin(function, mine, "", lambda engine: engine.all_gather(sizes, mine)).wait()
    return sizes


def _pickled(obj: Any) -> np.ndarray:
    return np.frombuffer(bytearray(pickle.dumps(obj)), np.uint8)


def _every(within: ProcessGroup, function: str, obj: Any) -> list[Any]:
    """The objects of all ranks."""
    mine = _pickled(obj)
    sizes = _sizes(within, function, mine.size)
    count = within.size()
    received, sent = sizes.tolist(), [mine.size] * count
    out, array = np.empty(int(sizes.sum()), np.uint8), np.tile(mine, count)
    begun: Work = within.begin(
        function, array, "", lambda engine: engine.all_to_all(out, array, received, sent), matched=False
    )
    begun.wait()
    return [pickle.loads(part.tobytes()) for part in np.split(out, np.cumsum(sizes)[:-1])]


def all_gather_object(object_list: list[Any], obj: Any, group: ProcessGroup | None = None) -> None:
    """Fills `object_list` with `obj` of each rank.

    >>> ag.distributed.init_process_group()
    >>> objects = [None]
    >>> ag.distributed.all_gather_object(objects, {"step": 3})
    >>> objects
    [{'step': 3}]
    >>> ag.distributed.destroy_process_group()
    """
    if (within := member(group, "all_gather_object")) is None:
        return
    if len(object_list) != within.size():
        raise ValueError(f"all_gather_object: object_list must have {within.size()} elements, one for each rank; got "
                         f"{len(object_list)}")
    object_list[:] = _every(within, "all_gather_object", obj)


def gather_object(
    obj: Any, object_gather_list: list[Any] | None = None, dst: int | None = None, group: ProcessGroup | None = None,
    group_dst: int | None = None,
) -> None:  # fmt: skip
    """Fills `object_gather_list` on rank `dst`, 0 by default, with `obj` of each rank."""
    if (within := member(group, "gather_object")) is None:
        return
    target = within.group_rank("gather_object", "dst", 0 if dst is None and group_dst is None else dst, group_dst)
    mine = target == within.rank()
    if mine and (object_gather_list is None or len(object_gather_list) != within.size()):
        raise ValueError(f"gather_object: object_gather_list must have {within.size()} elements on rank dst")
    size = within.size()
    pickled = _pickled(obj)
    sizes = _sizes(within, "gather_object", pickled.size)
    received = sizes.tolist() if mine else [0] * size
    sent = [pickled.size if rank == target else 0 for rank in range(size)]
    out = np.empty(sum(received), np.uint8)
    within.begin(
        "gather_object", pickled, "", lambda engine: engine.all_to_all(out, pickled, received, sent), matched=False
    ).wait()
    if mine and object_gather_list is not None:
        parts = np.split(out, np.cumsum(sizes)[:-1])
        object_gather_list[:] = [pickle.loads(part.tobytes()) for part in parts]


def broadcast_object_list(
    object_list: list[Any], src: int | None = None, group: ProcessGroup | None = None, device: Any = None,
    group_src: int | None = None,
) -> None:  # fmt: skip
    """Replaces the objects in `object_list` by those of rank `src`, 0 by default; `device` has no effect."""
    if (within := member(group, "broadcast_object_list")) is None:
        return
    function = "broadcast_object_list"
    source = within.group_rank(function, "src", 0 if src is None and group_src is None else src, group_src)
    mine = source == within.rank()
    pickled = _pickled(list(object_list)) if mine else np.empty(0, np.uint8)
    sizes = _sizes(within, function, pickled.size)
    array = pickled if mine else np.empty(sizes[source], np.uint8)
    within.begin(function, array, "", lambda engine: engine.broadcast(array, source), matched=False).wait()
    received = pickle.loads(array.tobytes())
    if len(received) != len(object_list):
        raise ValueError(f"{function}: object_list has {len(object_list)} elements, and that of rank src has "
                         f"{len(received)}")
    object_list[:] = received


def scatter_object_list(
    scatter_object_output_list: list[Any], scatter_object_input_list: list[Any] | None = None, src: int | None = None,
    group: ProcessGroup | None = None, group_src: int | None = None,
) -> None:  # fmt: skip
    """Puts the object for this rank in the input list of rank `src`, 0 by default, first into the output list."""
    if (within := member(group, "scatter_object_list")) is None:
        return
    function = "scatter_object_list"
    source = within.group_rank(function, "src", 0 if src is None and group_src is None else src, group_src)
    parts = [np.empty(0, np.uint8)] * within.size()
    if source == within.rank():
        if scatter_object_input_list is None or len(scatter_object_input_list) != within.size():
            raise ValueError(f"{function}: scatter_object_input_list must have {within.size()} elements on rank src")
        parts = [_pickled(obj) for obj in scatter_object_input_list]
    sent = [part.size for part in parts]
    everyones = np.empty(within.size() * within.size(), np.int64)
    mine = np.array(sent, np.int64)
    within.begin(function, mine, "", lambda engine: engine.all_gather(everyones, mine)).wait()
    received = everyones.reshape(within.size(), -1)[:, within.rank()].tolist()
    out, array = np.empty(sum(received), np.uint8), np.concatenate(parts)
    within.begin(
        function, array, "", lambda engine: engine.all_to_all(out, array, received, sent), matched=False
    ).wait()
    scatter_object_output_list[0] = pickle.loads(out.tobytes())


def send_object_list(
    object_list: list[Any], dst: int | None = None, group: ProcessGroup | None = None, device: Any = None,
    group_dst: int | None = None, use_batch: bool = False,
) -> None:  # fmt: skip
    """Sends the objects to rank `dst`, which calls `recv_object_list`."""
    if (within := member(group, "send_object_list")) is None:
        return
    target = within.group_rank("send_object_list", "dst", dst, group_dst)
    detail, array = f"to rank {within.ranks[target]}", _pickled(list(object_list))
    size = np.array([array.size], np.int64)
    within.begin("send_object_list", size, detail, lambda engine: engine.send(size, target, 0), matched=False).wait()
    within.begin("send_object_list", array, detail, lambda engine: engine.send(array, target, 0), matched=False).wait()


def recv_object_list(
    object_list: list[Any], src: int | None = None, group: ProcessGroup | None = None, device: Any = None,
    group_src: int | None = None, use_batch: bool = False,
) -> int:  # fmt: skip
    """Fills the list with the objects that rank `src` sends by `send_object_list`; returns the rank."""
    if (within := member(group, "recv_object_list")) is None:
        return -1
    source = within.group_rank("recv_object_list", "src", src, group_src)
    size = np.empty(1, np.int64)
    detail = f"from rank {within.ranks[source]}"
    within.begin("recv_object_list", size, detail, lambda engine: engine.recv(size, source, 0), matched=False).wait()
    array = np.empty(int(size[0]), np.uint8)
    within.begin("recv_object_list", array, detail, lambda engine: engine.recv(array, source, 0), matched=False).wait()
    object_list[:] = pickle.loads(array.tobytes())
    return within.ranks[source]
