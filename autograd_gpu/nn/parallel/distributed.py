"""DistributedDataParallel: every rank computes on data of its own, and all get the average of their gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...autograd import is_grad_enabled
from ...backend import resolve
from ...backend.arrays.device import Device
from ...core.tensor import Tensor
from ...distributed.algorithms.join import Join, Joinable, JoinHook
from ...distributed.grad_bucket import GradBucket
from ...distributed.group import ProcessGroup, member, world
from ...distributed.work import Future
from ...pytrees import tree_map
from ..module import Module
from ..sync_batchnorm import SyncBatchNorm
from .join_hook import DDPJoinHook
from .reducer import FIRST_BUCKET, Reducer
from .synchronize import broadcast_tensors, check_equal


class DistributedDataParallel(Module, Joinable):
    """A module that calls `module`; backward averages the gradients of its parameters over the ranks of a group.

    At construction, rank 0's parameters and buffers go to all ranks, and its buffers again before each forward
    (`broadcast_buffers`). Gradients lie in flat buckets of `bucket_cap_mb` MiB, 25 by default, and `.grad` is a view:
    copy what has to outlive the next backward. Buckets are averaged while backward goes on. All ranks call forward and
    backward equally often, unless within `join()`. Parameters that the loss does not depend on need
    `find_unused_parameters`, which walks through the graph after each forward, or `static_graph`, for a graph that is
    the same in each iteration. `device_ids` has the module's CUDA device, to which inputs are moved, if given.

    The default group has to be initialized. `gradient_as_bucket_view` has no effect, as it is always so.

    >>> ag.distributed.init_process_group()
    >>> net = ag.nn.parallel.DistributedDataParallel(ag.nn.Linear(2, 1))
    >>> net(ag.ones(3, 2)).sum().backward()
    >>> net.module.weight.grad
    tensor([[3., 3.]])
    >>> ag.distributed.destroy_process_group()
    """

    def __init__(
        self, module: Module, device_ids: Sequence[Any] | None = None, output_device: Any = None, dim: int = 0,
        broadcast_buffers: bool = True, init_sync: bool = True, process_group: ProcessGroup | None = None,
        bucket_cap_mb: float | None = None, find_unused_parameters: bool = False, check_reduction: bool = False,
        gradient_as_bucket_view: bool = True, static_graph: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        named = _kept(module, module.named_parameters())
        if not any(p.requires_grad for _, p in named):
            raise RuntimeError("DistributedDataParallel is not needed when a module doesn't have any parameters that "
                               "require a gradient.")
        group = member(process_group, "DistributedDataParallel")
        if group is None:
            raise ValueError("DistributedDataParallel: this rank is not in process_group")
        self.device = named[0][1].device
        self.device_ids = _checked_devices(device_ids, [p for _, p in named])
        self.module, self.process_group, self.dim, self.output_device = module, group, dim, output_device
        self.broadcast_buffers, self.find_unused_parameters = broadcast_buffers, find_unused_parameters
        self.static_graph, self.gradient_as_bucket_view = static_graph, True
        self.require_backward_grad_sync = True
        self._ag_comm_hook: tuple[Any, Callable[[Any, GradBucket], Future]] | None = None
        cap = int((25 if bucket_cap_mb is None else bucket_cap_mb) * (1 << 20))
        self._ag_sizes = (min(cap, FIRST_BUCKET) if bucket_cap_mb is None else cap), cap
        self._ag_start()
        if init_sync:
            check_equal(named, group)
            broadcast_tensors([p for _, p in named] + self._ag_buffers, group, 0)

    def _ag_start(self) -> None:
        """Makes what reduces the gradients of the parameters that are trained."""
        named = _kept(self.module, self.module.named_parameters())
        self._ag_frozen = [(name, p) for name, p in named if not p.requires_grad]
        self._ag_buffers = [b for _, b in _kept(self.module, self.module.named_buffers())]
        trained = [(name, p) for name, p in named if p.requires_grad]
        first, others = self._ag_sizes
        self.reducer = Reducer(trained, self.process_group, others, first, self.find_unused_parameters,
                               self.static_graph)  # fmt: skip
        self._ag_start_hook()

    def __getstate__(self) -> dict[str, Any]:
        if self.process_group is not world():
            raise RuntimeError("DDP Pickling/Unpickling are only supported when using DDP with the default process "
                               "group; copy or save the module inside, net.module")
        state: dict[str, Any] = dict(object.__getstate__(self))  # type: ignore[call-overload]
        for name in ("process_group", "reducer", "_ag_frozen", "_ag_buffers"):
            del state[name]
        return state

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        self.process_group = world()
        self._ag_start()

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        self._ag_check_frozen()
        self._ag_notify_join()
        if self.device_ids:
            inputs, kwargs = tree_map(self._ag_moved, inputs), tree_map(self._ag_moved, kwargs)
        if self.will_sync_module_buffers():
            self._sync_buffers()
        outputs = self.module(*inputs, **kwargs)
        if is_grad_enabled():
            self.reducer.prepare(outputs, self.require_backward_grad_sync)
        return outputs

    def _ag_check_frozen(self) -> None:
        """RuntimeError for a parameter that is trained since the module was wrapped: nothing averages its gradient."""
        for name, parameter in self._ag_frozen:
            if parameter.requires_grad:
                raise RuntimeError(f"DistributedDataParallel: {name} did not require grad when the module was wrapped, "
                                   "so its gradient would not be averaged; wrap net.module again after the change")

    def _ag_moved(self, value: Any) -> Any:
        return value.to(self.device_ids[0]) if isinstance(value, Tensor) else value

    def will_sync_module_buffers(self) -> bool:
        """Whether forward brings rank 0's buffers to all ranks."""
        return self.broadcast_buffers and self.require_backward_grad_sync and bool(self._ag_buffers)

    def _sync_buffers(self) -> None:
        broadcast_tensors(self._ag_buffers, self.process_group, self.reducer.source if self._join_config.enable else 0)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """A context for forward and backward: gradients are added up on each rank, and averaged by the next backward.

        >>> ag.distributed.init_process_group()
        >>> net = ag.nn.parallel.DistributedDataParallel(ag.nn.Linear(2, 1))
        >>> with net.no_sync():
        ...     net(ag.ones(3, 2)).sum().backward()  # stays on this rank
        >>> net(ag.ones(3, 2)).sum().backward()  # the average of both
        >>> net.module.bias.grad
        tensor([6.])
        >>> ag.distributed.destroy_process_group()
        """
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def register_comm_hook(self, state: Any, hook: Callable[[Any, GradBucket], Future]) -> None:
        """Averages gradients by hook(state, bucket), which returns a Future of the bucket's averaged buffer.

        `distributed.algorithms.ddp_comm_hooks.default_hooks` has hooks that send fewer bytes.
        """
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        if self._ag_comm_hook is not None:
            raise RuntimeError("register_comm_hook can only be called once.")
        self._ag_comm_hook = state, hook
        self._ag_start_hook()

    def _ag_start_hook(self) -> None:
        if self._ag_comm_hook is not None:
            state, hook = self._ag_comm_hook
            self.reducer.comm_hook = lambda bucket: hook(state, bucket)

    # ---- uneven inputs -------------------------------------------------------------------------

    def join(
        self, divide_by_initial_world_size: bool = True, enable: bool = True, throw_on_early_termination: bool = False
    ) -> Join:
        """A context in which ranks may have different numbers of inputs.

        Ranks without further inputs take part in the reductions of the others with zeros; at the end all have the model
        of the rank that came last. Gradients are divided by the number of all ranks, or, without
        `divide_by_initial_world_size`, by that of the ranks with inputs. A SyncBatchNorm needs all ranks in forward, so
        it is refused but with `throw_on_early_termination`.
        """
        if enable and not throw_on_early_termination and any(isinstance(m, SyncBatchNorm) for m in self.modules()):
            raise ValueError("DistributedDataParallel.join: a SyncBatchNorm exchanges statistics in forward, which a "
                             "rank without inputs cannot; pass throw_on_early_termination=True")
        return Join([self], enable, throw_on_early_termination,
                    divide_by_initial_world_size=divide_by_initial_world_size)  # fmt: skip

    def _ag_notify_join(self) -> None:
        work = Join.notify_join_context(self)
        if work is not None:
            work.wait()
        if self._join_config.enable:
            reduces = self.require_backward_grad_sync and is_grad_enabled()
            self.reducer.agree(True, reduces, self.will_sync_module_buffers())

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What stands in for this module on a rank without inputs."""
        return DDPJoinHook(self, **kwargs)

    @property
    def join_device(self) -> Device:
        """The device of the parameters."""
        return self.device

    @property
    def join_process_group(self) -> ProcessGroup:
        """The group over which gradients are averaged."""
        return self.process_group

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(module: Module, params_and_buffers_to_ignore: list[str]) -> None:
        """Names of parameters and buffers that stay as they are on each rank."""
        module._ddp_params_and_buffers_to_ignore = list(params_and_buffers_to_ignore)


def _kept(module: Module, named: Iterable[tuple[str, Tensor]]) -> list[tuple[str, Tensor]]:
    """The parameters or buffers of `module` that the ranks have in common."""
    ignored = getattr(module, "_ddp_params_and_buffers_to_ignore", ())
    return [(name, tensor) for name, tensor in named if name not in ignored]


def _checked_devices(device_ids: Sequence[Any] | None, parameters: list[Tensor]) -> list[Device]:
    """The one device of `device_ids`; ValueError unless it is a CUDA device that has all the parameters."""
    if not device_ids:
        return []
    devices = [resolve(Device(device)) for device in device_ids]
    homes = {str(parameter.device) for parameter in parameters}
    if len(devices) != 1:
        raise ValueError(f"device_ids can only be None or contain a single element, but got {list(device_ids)}; start "
                         "a process for each GPU: mpiexec -n N")
    if devices[0].type != "cuda" or homes != {str(devices[0])}:
        raise ValueError("DistributedDataParallel device_ids and output_device arguments only work with single-device "
                         f"GPU modules, but got device_ids {list(device_ids)}, and module parameters on "
                         f"{', '.join(sorted(homes))}.")
    return devices
