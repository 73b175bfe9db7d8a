"""Messages from one rank to another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.tensor import Tensor
from .engines.base import ANY_SOURCE, TAGS
from .group import ProcessGroup, member
from .memory import Written, checked, described, flat
from .work import Work


def isend(
    tensor: Tensor, dst: int | None = None, group: ProcessGroup | None = None, tag: int = 0,
    group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """Begins to send `tensor` to rank `dst`; it must not be written to before `wait()`."""
    checked("isend", "tensor", tensor)
    _check_tag("isend", tag)
    if (within := member(group, "isend")) is None:
        return None
    target, array = _other(within, "isend", "dst", dst, group_dst), flat(tensor)
    detail = f"{described(tensor)}, to rank {within.ranks[target]}"
    return within.begin(
        "send", array, detail, lambda engine: engine.send(array, target, tag), result=tensor, matched=False
    )


def irecv(
    tensor: Tensor, src: int | None = None, group: ProcessGroup | None = None, tag: int = 0,
    group_src: int | None = None,
) -> Work | None:  # fmt: skip
    """Begins to fill `tensor` with what rank `src` sends; any rank if `src` is None: `source_rank()` of the work."""
    checked("irecv", "tensor", tensor)
    _check_tag("irecv", tag)
    if (within := member(group, "irecv")) is None:
        return None
    anyone = src is None and group_src is None
    source = ANY_SOURCE if anyone else _other(within, "irecv", "src", src, group_src)
    write = Written("irecv", [tensor], later=True)
    array = write.joined()
    detail = f"{described(tensor)}, from {'any rank' if anyone else f'rank {within.ranks[source]}'}"
    return within.begin(
        "recv", array, detail, lambda engine: engine.recv(array, source, tag), write, tensor, matched=False
    )


def _check_tag(function: str, tag: int) -> None:
    """ValueError unless MPI has the tag."""
    if not 0 <= tag < TAGS:
        raise ValueError(f"{function}: tag must be a number from 0 to {TAGS - 1}, got {tag}")


def _other(within: ProcessGroup, function: str, name: str, rank: int | None, group_rank: int | None) -> int:
    """The number in the group of the rank that the arguments mean; ValueError for this process itself."""
    other = within.group_rank(function, name, rank, group_rank)
    if other == within.rank():
        raise ValueError(f"{function}: {name} is this rank, {within.ranks[other]}; it must be another one")
    return other


def send(
    tensor: Tensor, dst: int | None = None, group: ProcessGroup | None = None, tag: int = 0,
    group_dst: int | None = None,
) -> None:  # fmt: skip
    """Sends `tensor` to rank `dst`."""
    work = isend(tensor, dst, group, tag, group_dst)
    if work is not None:
        work.wait()


def recv(
    tensor: Tensor, src: int | None = None, group: ProcessGroup | None = None, tag: int = 0,
    group_src: int | None = None,
) -> int:  # fmt: skip
    """Fills `tensor` with what rank `src`, or any rank if it is None, sends. Returns the rank of the sender."""
    work = irecv(tensor, src, group, tag, group_src)
    if work is None:
        return -1
    work.wait()
    return work.source_rank()


class P2POp:
    """A message for `batch_isend_irecv`: `op` is isend or irecv, `peer` the other rank."""

    def __init__(
        self, op: Callable[..., Any], tensor: Tensor, peer: int | None = None, group: ProcessGroup | None = None,
        tag: int = 0, group_peer: int | None = None,
    ) -> None:  # fmt: skip
        if op not in (isend, irecv):
            raise ValueError("P2POp: op must be distributed.isend or distributed.irecv")
        self.op, self.tensor, self.group, self.tag = op, tensor, group, tag
        self.peer, self.group_peer = peer, group_peer


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Begins all messages of the list, and returns their work."""
    if not p2p_op_list or not all(isinstance(one, P2POp) for one in p2p_op_list):
        raise ValueError("batch_isend_irecv: expected a list of P2POp with at least one")
    works = [one.op(one.tensor, one.peer, one.group, one.tag, one.group_peer) for one in p2p_op_list]
    return [work for work in works if work is not None]
