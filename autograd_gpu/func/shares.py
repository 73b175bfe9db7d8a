"""Which of some consecutive things, such as rows, each process of a group computes, and what joins the results.

Nothing is exchanged before the results are there. A share is fixed by the number of things and of processes: the first
processes have one more where the numbers do not divide. If there are fewer things than processes, the last ones compute
what another one does, which nobody uses: so all processes run the same calls.
"""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor
from ..distributed import GroupMember, ProcessGroup
from ..distributed.group import member
from ..distributed.nn.functional import all_gather_into_tensor, all_reduce
from ..ops import cat, zeros_like
from ..pytrees import flatten, unflatten

RESULTS = ("gathered", "sharded", "summed")


def group_of(group: Any, api: str, result: str, allowed: tuple[str, ...] = RESULTS) -> ProcessGroup | None:
    """`group`, or None for none; ValueError for a process that is not in it, or another `result` than is `allowed`."""
    if result not in allowed:
        raise ValueError(f"{api}: result is one of {', '.join(map(repr, allowed))}; got {result!r}")
    if group is None:
        if result != allowed[0]:
            raise ValueError(f"{api}: result={result!r} needs group, the processes that share the work")
        return None
    if group is GroupMember.NON_GROUP_MEMBER:
        raise ValueError(f"{api}: this process is not in the group")
    return member(group, api)


class Share:
    """The things `start` to `stop` of `total`, which this process of the group computes; `holds` only if they count."""

    def __init__(self, group: ProcessGroup, total: int) -> None:
        self.group, self.total = group, total
        whole, rest = divmod(total, group.size())
        self.counts = [whole + (rank < rest) for rank in range(group.size())]
        self.holds = self.counts[group.rank()] > 0
        place = min(group.rank(), max(total - 1, 0))
        self.start = sum(self.counts[:place])
        self.stop = self.start + self.counts[place]

    @property
    def count(self) -> int:
        return self.stop - self.start

    @property
    def largest(self) -> int:
        """The number of things in the largest share."""
        return self.counts[0]

    def collected(self, x: Tensor, dim: int, result: str) -> Tensor:
        """From what this process has computed along dimension `dim` all of it, or, "sharded", its own."""
        if result == "sharded":
            return x if self.holds else x.narrow(dim, 0, 0)
        rows = x.movedim(dim, 0) if dim else x
        if self.count < self.largest:
            rows = cat([rows, zeros_like(rows[:1])])
        every = all_gather_into_tensor(rows, self.group)
        if len(set(self.counts)) > 1:
            parts = every.split(self.largest)
            every = cat([part[:count] for part, count in zip(parts, self.counts, strict=True) if count])
        return every.movedim(0, dim) if dim else every

    def summed(self, x: Tensor) -> Tensor:
        """The sum over the processes that hold things, on all of them."""
        return all_reduce(x if self.holds else zeros_like(x), group=self.group)


def summed(tree: Any, group: ProcessGroup) -> Any:
    """The sums over the processes of the tensors in a pytree: one all-reduce for those of each dtype."""
    leaves, spec = flatten(tree)
    results = list(leaves)
    for dtype in dict.fromkeys([x.dtype for x in leaves]):
        places = [i for i, x in enumerate(leaves) if x.dtype == dtype]
        alike = [leaves[i] for i in places]
        flat = all_reduce(cat([x.reshape(-1) for x in alike]) if len(alike) > 1 else alike[0].reshape(-1), group=group)
        parts = flat.split([x.numel() for x in alike])
        for i, x, part in zip(places, alike, parts, strict=True):
            results[i] = part.reshape(x.shape)
    return unflatten(spec, results)
