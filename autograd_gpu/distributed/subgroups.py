"""Groups of some ranks of another group."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from .group import GroupMember, ProcessGroup, divided, member, world


def _checked(function: str, ranks: Sequence[int], size: int) -> list[int]:
    """`ranks` as a list; ValueError unless they are different numbers below `size`."""
    chosen = [int(rank) for rank in ranks]
    if len(set(chosen)) != len(chosen) or not all(0 <= rank < size for rank in chosen) or not chosen:
        raise ValueError(f"{function}: ranks must be different numbers from 0 to {size - 1}, got {chosen}")
    return chosen


def _check_apart(function: str, lists: Sequence[Sequence[int]]) -> None:
    """ValueError if a rank is in two of the lists."""
    if len({rank for ranks in lists for rank in ranks}) != sum(map(len, lists)):
        raise ValueError(f"{function}: a rank is in two of the groups {lists}; give each rank to one group at most")


def _own(groups: Sequence[Any]) -> Any:
    """The group of this rank; None if it is in none of them."""
    return next((group for group in groups if group is not GroupMember.NON_GROUP_MEMBER), None)


def new_group(
    ranks: Sequence[int] | None = None, timeout: timedelta | float | None = None, backend: str | None = None,
    pg_options: Any = None, use_local_synchronization: bool = False, group_desc: str | None = None,
    device_id: Any = None, sort_ranks: bool = True,
) -> Any:  # fmt: skip
    """A group of some ranks; all ranks of the default group call this, in the same order.

    Returns GroupMember.NON_GROUP_MEMBER on a rank that is not in it. `timeout` and `backend` are those of the default
    group if left out.
    """
    everyone = world()
    chosen = _checked("new_group", range(everyone.size()) if ranks is None else ranks, everyone.size())
    return divided(everyone, "new_group", sorted(chosen) if sort_ranks else chosen, timeout, backend, group_desc)


def split_group(
    parent_pg: ProcessGroup | None = None, split_ranks: Sequence[Sequence[int]] | None = None,
    timeout: timedelta | float | None = None, pg_options: Any = None, group_desc: str | None = None,
) -> ProcessGroup | None:  # fmt: skip
    """Divides a group, the default one if left out: `split_ranks` has numbers in it, a list for each new group.

    All its ranks call this with the same lists. Returns the group of this rank, None on a rank in none of them.
    """
    if (parent := member(parent_pg, "split_group")) is None:
        return None
    if not split_ranks:
        raise ValueError("split_group: split_ranks must have a list of ranks for each group")
    lists = [_checked("split_group", ranks, parent.size()) for ranks in split_ranks]
    _check_apart("split_group", lists)
    return _own([divided(parent, "split_group", sorted(ranks), timeout, None, group_desc) for ranks in lists])


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]], timeout: timedelta | float | None = None,
    backend: str | None = None, pg_options: Any = None, group_desc: str | None = None,
) -> tuple[Any, list[Any]]:  # fmt: skip
    """The group of this rank, or None, and all groups that `ranks_per_subgroup_list` has the ranks of."""
    lists = [list(ranks) for ranks in ranks_per_subgroup_list]
    _check_apart("new_subgroups_by_enumeration", lists)
    made = [new_group(ranks, timeout, backend, group_desc=group_desc) for ranks in lists]
    return _own(made), made


def new_subgroups(
    group_size: int | None = None, group: Any = None, timeout: timedelta | float | None = None,
    backend: str | None = None, pg_options: Any = None, group_desc: str | None = None,
) -> tuple[Any, list[Any]]:  # fmt: skip
    """The group of this rank, and all groups of `group_size` ranks with consecutive numbers.

    Without `group_size`, a group for the ranks of each machine. ValueError if it does not divide the number of ranks.
    """
    size = world().size()
    width = int(os.environ.get("LOCAL_WORLD_SIZE", size)) if group_size is None else group_size
    if width < 1 or size % width:
        raise ValueError(f"new_subgroups: group_size must divide the {size} ranks, got {width}")
    lists = [range(start, start + width) for start in range(0, size, width)]
    return new_subgroups_by_enumeration(lists, timeout, backend, group_desc=group_desc)
