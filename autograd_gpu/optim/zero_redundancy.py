"""ZeroRedundancyOptimizer: each process of a group holds the optimizer's state of some of the parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from .. import distributed
from ..backend.arrays.device import Device
from ..core.graph.storage import before_write, bump_version
from ..core.tensor import Tensor
from ..distributed.algorithms.join import Join, Joinable, JoinHook
from ..modes import no_grad
from ..ops import cat, empty
from ..pytrees import tree_map
from .lbfgs import LBFGS
from .optimizer import Optimizer
from .param_groups import Group, Params, check_sizes


class _Shard:
    """Parameters of one dtype and device that the process `owner` of the group updates."""

    def __init__(self, owner: int, params: list[Tensor], as_views: bool) -> None:
        self.owner, self.params = owner, params
        self.sizes = [param.numel() for param in params]
        self.bucket: Tensor | None = None
        if as_views:
            self.bucket = self._joined()
            for param, part in zip(params, self.bucket.split(self.sizes), strict=True):
                param.data = part.reshape(param.shape)

    def _joined(self) -> Tensor:
        return cat([param.detach().reshape(-1) for param in self.params])

    def begin(self, group: distributed.ProcessGroup) -> Callable[[], None]:
        """Begins to bring the owner's values to all processes; the result waits until they are in the parameters."""
        mine = self.owner == group.rank()
        flat = self.bucket
        if flat is None:
            like = self.params[0]
            flat = self._joined() if mine else empty(sum(self.sizes), dtype=like.dtype, device=like.device)
        work = distributed.broadcast(flat, group=group, group_src=self.owner, async_op=True)
        assert work is not None  # this process is in the group

        def end() -> None:
            work.wait()
            if not mine:
                self._receive(flat)

        return end

    def _receive(self, flat: Tensor) -> None:
        if self.bucket is None:
            for param, part in zip(self.params, flat.split(self.sizes), strict=True):
                param.copy_(part.reshape(param.shape))
            return
        for param in self.params:  # written through their bucket
            bump_version(param)


class _StepHook(JoinHook):
    """Takes part in the exchange of new values on a process that has no more data."""

    def __init__(self, optimizer: ZeroRedundancyOptimizer) -> None:
        self.optimizer = optimizer

    def main_hook(self) -> None:
        self.optimizer.step()


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """An `optimizer_class` whose state is spread over the processes of a group, with the results of that class.

    Each process updates some of the parameters, and holds the state of these alone; then it sends their values to the
    others. Gradients have to be equal on all processes before `step`, as DistributedDataParallel makes them. A
    parameter belongs to one process: those of a group go, the largest first, to the process with the fewest elements.

    process_group: the default group if left out. parameters_as_bucket_view: the parameters become views of a flat
        tensor per process, which is sent without a copy. defaults: the options of `optimizer_class`.

    `consolidate_state_dict(to)` brings all state to one process, where `state_dict()` then has what `optimizer_class`
    would have; `load_state_dict` takes such a dict on all processes, of any number. ValueError for LBFGS, which needs
    all parameters at once, and for `overlap_with_ddp`: here the step comes after the backward pass.

    >>> ag.distributed.init_process_group()
    >>> w = ag.ones(2, requires_grad=True)
    >>> optimizer = ag.optim.ZeroRedundancyOptimizer([w], optimizer_class=ag.optim.SGD, lr=0.5)
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.5, 0.5], requires_grad=True)
    >>> optimizer.consolidate_state_dict()
    >>> optimizer.state_dict()["param_groups"][0]["lr"]
    0.5
    >>> ag.distributed.destroy_process_group()
    """

    def __init__(
        self, params: Params, optimizer_class: type[Optimizer], process_group: Any = None,
        parameters_as_bucket_view: bool = False, overlap_with_ddp: bool = False, **defaults: Any,
    ) -> None:  # fmt: skip
        if issubclass(optimizer_class, LBFGS):
            raise ValueError("ZeroRedundancyOptimizer: LBFGS computes with all parameters at once, so its state cannot "
                             "be spread; use LBFGS itself on each process")
        if overlap_with_ddp:
            raise ValueError("ZeroRedundancyOptimizer: overlap_with_ddp=True is not here; leave it out, and call "
                             "step() after backward()")
        self.process_group: Any = process_group or distributed.GroupMember.WORLD
        self.world_size = distributed.get_world_size(self.process_group)
        self.rank = distributed.get_rank(self.process_group)
        if self.rank < 0:
            raise ValueError("ZeroRedundancyOptimizer: this process is not in process_group")
        self.parameters_as_bucket_view = parameters_as_bucket_view
        self._ag_loads = [0] * self.world_size  # elements per process
        self._ag_parts: list[list[list[Tensor]]] = []  # of each group the parameters of each process
        self._ag_shards: list[_Shard] = []
        self._ag_gathered: dict[Tensor, dict[str, Any]] | None = None
        self.optim: Optimizer | None = None
        super().__init__(params, defaults)
        self.optim = optimizer_class([self._ag_local(i) for i in range(len(self.param_groups))], **defaults)
        self.defaults, self.state = self.optim.defaults, self.optim.state
        _copy_options(self.optim.param_groups, self.param_groups)

    def __getstate__(self) -> NoReturn:
        raise TypeError("a ZeroRedundancyOptimizer cannot be copied or pickled; call consolidate_state_dict(), and "
                        "copy or save its state_dict()")

    def add_param_group(self, param_group: Group) -> None:
        """Adds a group of parameters, as `Optimizer.add_param_group`; all processes call it."""
        super().add_param_group(param_group)
        parts: list[list[Tensor]] = [[] for _ in range(self.world_size)]
        for param in sorted(self.param_groups[-1]["params"], key=Tensor.numel, reverse=True):
            owner = self._ag_loads.index(min(self._ag_loads))
            parts[owner].append(param)
            self._ag_loads[owner] += param.numel()
        self._ag_parts.append(parts)
        for owner, params in enumerate(parts):
            for kind in dict.fromkeys([(param.dtype, param.device) for param in params]):
                alike = [param for param in params if (param.dtype, param.device) == kind]
                self._ag_shards.append(_Shard(owner, alike, self.parameters_as_bucket_view))
        if self.optim is not None:
            self.optim.add_param_group(self._ag_local(len(self.param_groups) - 1))
            _copy_options(self.optim.param_groups, self.param_groups)

    def _ag_local(self, number: int) -> Group:
        """The part of a group that this process updates, with its options."""
        group, params = self.param_groups[number], self._ag_parts[number][self.rank]
        options = {name: value for name, value in group.items() if name not in ("params", "param_names")}
        return {**options, "params": params}

    # ---- the step ------------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None, **kwargs: Any) -> Any:
        """Updates the parameters of this process, and exchanges the new values; all processes call it.

        kwargs: for the step of `optimizer_class`. What the closure computes has to be equal on all processes.
        """
        assert self.optim is not None  # __init__ sets it
        work = Join.notify_join_context(self)
        if work is not None:
            work.wait()
        self._ag_gathered = None
        _copy_options(self.param_groups, self.optim.param_groups)
        loss = self.optim.step(**kwargs) if closure is None else self.optim.step(closure, **kwargs)
        _copy_options(self.optim.param_groups, self.param_groups)
        before_write(list(self._ag_params()))
        with no_grad():
            for end in [shard.begin(self.process_group) for shard in self._ag_shards]:
                end()
        return loss

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What takes part in steps on a process without further data: `distributed.algorithms.join`."""
        return _StepHook(self)

    @property
    def join_device(self) -> Device:
        """The device of the parameters."""
        return next(iter(self._ag_params())).device

    @property
    def join_process_group(self) -> Any:
        """The group that shares the state."""
        return self.process_group

    # ---- state dict ----------------------------------------------------------------------------

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Brings the state of all parameters to process `to` of the group, into host memory; all processes call it.

        A step makes the consolidated state outdated: `state_dict()` raises then until this is called again.
        """
        assert self.optim is not None
        _copy_options(self.param_groups, self.optim.param_groups)
        local = {index: tree_map(_in_host_memory, state) for index, state in self.optim.state_dict()["state"].items()}
        states: list[Any] | None = [None] * self.world_size if to == self.rank else None
        distributed.gather_object(local, states, group=self.process_group, group_dst=to)
        self._ag_gathered = None
        if states is not None:
            self._ag_gathered = {}
            for rank, theirs in enumerate(states):
                params = [param for parts in self._ag_parts for param in parts[rank]]
                self._ag_gathered.update({params[index]: state for index, state in theirs.items()})

    def _ag_saved_state(self) -> Iterable[tuple[Tensor, dict[str, Any]]]:
        if self._ag_gathered is None:
            raise RuntimeError("Optimizer state has not been consolidated on this rank. Please call "
                               f"`consolidate_state_dict(to={self.rank})` on all ranks beforehand if you meant to save "
                               "the global state.")
        order = [param for param in self._ag_params() if param in self._ag_gathered]
        return [(param, self._ag_gathered[param]) for param in order]

    def _ag_load(self, state_dict: dict[str, Any]) -> None:
        """Loads the state of the parameters of this process, and all options."""
        assert self.optim is not None
        saved = state_dict["param_groups"]
        check_sizes(saved, self.param_groups)
        state, groups, count = {}, [], 0
        for loaded, group, parts in zip(saved, self.param_groups, self._ag_parts, strict=True):
            index_of = dict(zip(group["params"], loaded["params"], strict=True))
            mine = range(count, count := count + len(parts[self.rank]))
            for index, param in zip(mine, parts[self.rank], strict=True):
                if index_of[param] in state_dict["state"]:
                    state[index] = state_dict["state"][index_of[param]]
            options = {name: value for name, value in loaded.items() if name != "param_names"}
            groups.append({**options, "params": list(mine)})
        self.optim.load_state_dict({"state": state, "param_groups": groups})
        self.state, self._ag_gathered = self.optim.state, None
        _copy_options(self.optim.param_groups, self.param_groups)


def _copy_options(source: list[Group], target: list[Group]) -> None:
    """Gives the groups `target` the options of the groups `source`, such as the learning rate."""
    for theirs, mine in zip(source, target, strict=True):
        mine.update({name: value for name, value in theirs.items() if name not in ("params", "param_names")})


def _in_host_memory(value: Any) -> Any:
    return value.cpu() if isinstance(value, Tensor) else value
