"""Process groups: the default one, which `init_process_group` makes, and others made of its ranks."""

from __future__ import annotations

import atexit
import importlib
import importlib.util
import os
import weakref
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, ClassVar

from .. import backend as arrays
from ..backend.cuda import runtime
from ..core.interpret.tracing import refuse
from ..missing_names import warn_once
from . import checks
from .engines.base import Engine
from .engines.cuda_aware import CUDAAwareEngine, is_cuda_aware
from .engines.mpi import MPIEngine
from .engines.nccl import NCCLEngine, NCCLRequest
from .engines.serial import SerialEngine
from .engines.staged import StagedEngine
from .failure import Call, MPIWatch, Watch
from .launcher import launched, set_environment
from .work import Work, seconds

default_pg_timeout = timedelta(minutes=30)
BACKENDS = ("mpi", "nccl")


class ProcessGroup:
    """Some processes that have collectives of their own; `new_group` makes it.

    `rank()` is the number of this process in the group, `size()` the number of processes.
    """

    def __init__(
        self, name: str, ranks: Sequence[int], engine: Engine, watch: Watch, timeout: float, backend: str
    ) -> None:
        self.group_name, self.ranks, self.engine, self.watch = name, list(ranks), engine, watch
        self.timeout, self.backend = timeout, backend
        self.device_engine: Engine | None = None
        self.begun = 0  # collectives
        self.divided = 0  # how many groups were made of its ranks

    def rank(self) -> int:
        """The number of this process in the group."""
        return self.engine.rank

    def size(self) -> int:
        """The number of processes in the group."""
        return self.engine.size

    def name(self) -> str:
        """The name of the backend."""
        return self.backend

    def set_timeout(self, timeout: timedelta) -> None:
        """Sets how long a collective of this group may take."""
        self.timeout = seconds(timeout, self.timeout)

    def engine_for(self, array: Any) -> Engine:
        """What moves arrays such as `array`, which None is in place of for a barrier."""
        if array is None or not isinstance(self.engine, MPIEngine) or not arrays.is_cuda(array):
            return self.engine
        if self.device_engine is None:  # all ranks come here in the same collective
            self.device_engine = _device_engine(self.engine, self.backend, array.device.id)
        return self.device_engine

    def group_rank(self, function: str, name: str, rank: int | None, group_rank: int | None) -> int:
        """The number in this group of the process that the arguments `name`, of all, or group_`name` mean."""
        if (rank is None) == (group_rank is None):
            raise ValueError(f"{function}: give either {name} or group_{name}")
        if group_rank is not None:
            if not 0 <= group_rank < self.size():
                raise ValueError(f"{function}: group_{name}={group_rank}, and the group has {self.size()} ranks")
            return group_rank
        if rank not in self.ranks:
            raise ValueError(f"{function}: {name}={rank} is not in the group of the ranks {self.ranks}")
        return self.ranks.index(rank)

    def begin(
        self, function: str, array: Any, detail: str, start: Callable[[Engine], Any],
        finish: Callable[[], None] | None = None, result: Any = None, matched: bool = True,
    ) -> Work:  # fmt: skip
        """Begins a collective: start(engine) on arrays, finish() when it is done. `detail` is equal on all ranks.

        matched: whether all ranks of the group call it, unlike send.
        """
        refuse("a collective communicates", "call it outside of the compiled function")
        self.begun += matched
        call = Call(function, self.begun, self.group_name, self.ranks, detail)
        self.watch.begin(call)
        if matched and checks.ACTIVE.detail:
            checks.compare(self, call)
        try:
            request = start(self.engine_for(array))
        except RuntimeError as error:
            raise self.watch.of_engine(call, error) from error
        if isinstance(request, NCCLRequest):
            self.watch.follow(request.complete, call, self.timeout)
        return Work(request, call, self.watch, self.timeout, finish, result)


def _device_engine(host: MPIEngine, name: str, device: int) -> Engine:
    """What moves device arrays between the ranks of `host`."""
    if name == "nccl":
        return NCCLEngine(host, device)
    if is_cuda_aware(host, device):
        return CUDAAwareEngine(host.comm.Dup())
    return StagedEngine(host)


class _World:
    """The default group of this process, and all groups with this process as a member."""

    default: ProcessGroup | None = None
    groups: ClassVar[list[ProcessGroup]] = []
    engines: ClassVar[weakref.WeakSet[Engine]] = weakref.WeakSet()  # also of groups that were destroyed
    watch: Watch | None = None  # of the process, which keeps MPI to its end


class GroupMember:
    """PyTorch's names for the default group, and for what a process gets that is not in a group."""

    NON_GROUP_MEMBER = object()

    class _Default:
        def __get__(self, instance: Any, owner: type) -> ProcessGroup | None:
            return _World.default

    WORLD = _Default()


def _no_group() -> ValueError:
    return ValueError("Default process group has not been initialized, please make sure to call init_process_group.")


def world() -> ProcessGroup:
    """The default group; ValueError before init_process_group."""
    if _World.default is None:
        raise _no_group()
    return _World.default


def member(group: Any, function: str) -> ProcessGroup | None:
    """`group`, or the default one for None; None and a warning on a process that is not in it."""
    if group is GroupMember.NON_GROUP_MEMBER:
        warn_once(f"distributed.{function}", f"Running {function} on global rank {world().rank()} which does not "
                                             "belong to the given group.")
        return None
    if group is None:
        return world()
    if not isinstance(group, ProcessGroup):
        raise TypeError(f"{function}: group must be what new_group has returned, not {group!r}")
    if group not in _World.groups:
        raise ValueError(f"{function}: the group was destroyed")
    return group


# ---- init and end ------------------------------------------------------------------------------


def is_mpi_available() -> bool:
    """Whether mpi4py is installed."""
    return importlib.util.find_spec("mpi4py") is not None


def _world_engine() -> tuple[Engine, Watch]:
    """The engine of all processes that the launcher has started, and what watches over them."""
    if launched() is None:
        stated = int(os.environ.get("WORLD_SIZE", "1"))
        if stated > 1:
            raise RuntimeError(f"init_process_group: WORLD_SIZE is {stated}, and no MPI has started this process; "
                               f"start the program by: mpiexec -n {stated} python script.py")
        return SerialEngine(), Watch()
    if not is_mpi_available():
        raise RuntimeError("init_process_group: mpiexec has started this process, and mpi4py is not installed; install "
                           "the extra: pip install 'autograd-gpu[dist]'")
    comm = importlib.import_module("mpi4py.MPI").COMM_WORLD
    if comm.Get_size() == 1:
        return SerialEngine(), Watch()
    if _World.watch is None:
        _World.watch = MPIWatch(comm.Dup())
        atexit.register(_World.watch.end, _advance)
    engine = MPIEngine(comm.Dup())
    _World.engines.add(engine)
    return engine, _World.watch


def _advance() -> None:
    """Goes on with what nobody has waited for."""
    for engine in list(_World.engines):
        engine.advance()


def _named_backend(backend: str | None) -> str:
    """The backend that the name of one means."""
    name = str(backend or ("nccl" if is_nccl_available() else "mpi")).lower()
    if ":" in name:  # "cpu:gloo,cuda:nccl"
        names = dict(pair.split(":", 1) for pair in name.split(","))
        name = names.get("cuda", names.get("cpu", name))
    if name == "gloo":
        warn_once("distributed gloo", "init_process_group: there is no gloo here; the collectives go over MPI")
        name = "mpi"
    if name == "nccl":
        runtime.nccl()  # an ImportError says what to install
    if name not in BACKENDS:
        raise ValueError(f"init_process_group: backend must be one of {', '.join(BACKENDS)}, or gloo, which is taken "
                         f"as mpi; got {backend!r}")
    return name


def init_process_group(
    backend: str | None = None, init_method: str | None = None, timeout: timedelta | float | None = None,
    world_size: int = -1, rank: int = -1, store: Any = None, group_name: str = "", pg_options: Any = None,
    device_id: Any = None,
) -> None:  # fmt: skip
    """Makes the default group, of all processes of `mpiexec -n N python script.py`; of one process without mpiexec.

    `backend` is "mpi" or "nccl", which moves tensors on CUDA without the host, and is the default where it is there;
    "gloo" is taken as "mpi". A collective that takes longer than `timeout` raises on the
    ranks that wait; the default is 30 minutes. `world_size` and `rank` are checked against the launcher's;
    `init_method`, `store`, `group_name`, `pg_options` have no effect, since MPI brings the processes together. The
    current CUDA device becomes `device_id`, or the one with the number of the local rank.

    >>> ag.distributed.init_process_group()
    >>> ag.distributed.get_rank(), ag.distributed.get_world_size()
    (0, 1)
    >>> ag.distributed.destroy_process_group()
    """
    if _World.default is not None:
        raise ValueError("trying to initialize the default process group twice!")
    name = _named_backend(backend)
    limit = seconds(timeout, default_pg_timeout.total_seconds())
    engine, watch = _world_engine()
    for what, given, actual in (("world_size", world_size, engine.size), ("rank", rank, engine.rank)):
        if given not in (-1, actual):
            raise ValueError(f"init_process_group: {what}={given}, and the launcher has started {engine.size} "
                             f"process(es), of which this is rank {engine.rank}; start the program by mpiexec -n N, "
                             "and leave the argument out")
    _World.default = ProcessGroup("default", range(engine.size), engine, watch, limit, name)
    _World.groups.append(_World.default)
    set_environment()
    _choose_device(device_id)


def _choose_device(device_id: Any) -> None:
    """Makes `device_id` the current CUDA device; without it, that of the local rank, if no other was chosen."""
    if device_id is not None:
        runtime.cupy_device(device_id).use()
    elif "LOCAL_RANK" in os.environ and (runtime.loaded() or os.path.exists("/dev/nvidiactl")):  # CuPy loads slowly
        count = runtime.count_devices() if runtime.is_available() else 1
        if count > 1 and runtime.device_index() == 0:
            runtime.cupy_device(int(os.environ["LOCAL_RANK"]) % count).use()


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Ends a group, the default one and with it all others if `group` is None; all its ranks call it."""
    ended = member(group, "destroy_process_group")
    if ended is None:
        return
    if ended is _World.default:
        _World.groups.clear()
        _World.default = None
    else:
        _World.groups.remove(ended)


def divided(
    parent: ProcessGroup, function: str, members: Sequence[int], timeout: timedelta | float | None,
    backend: str | None, name: str | None,
) -> Any:  # fmt: skip
    """A group of the ranks that have the numbers `members` in `parent`, whose ranks all call this."""
    detail = f"ranks {[parent.ranks[number] for number in members]}"
    parent.begin(function, None, detail, lambda engine: engine.barrier()).wait()  # MPI's split would spin
    engine = parent.engine.split(members)
    parent.divided += 1
    if engine is None:
        return GroupMember.NON_GROUP_MEMBER
    _World.engines.add(engine)
    number = str(parent.divided) if parent is _World.default else f"{parent.group_name}.{parent.divided}"
    ranks = [parent.ranks[number] for number in members]
    limit = seconds(timeout, parent.timeout)
    named = parent.backend if backend is None else _named_backend(backend)
    group = ProcessGroup(name or number, ranks, engine, parent.watch, limit, named)
    _World.groups.append(group)
    return group


# ---- questions ---------------------------------------------------------------------------------


def is_available() -> bool:
    """True: without MPI there are groups of one process.

    >>> ag.distributed.is_available()
    True
    """
    return True


def is_initialized() -> bool:
    """Whether `init_process_group` has made the default group."""
    return _World.default is not None


def is_nccl_available() -> bool:
    """Whether CUDA is available, and CuPy finds NCCL."""
    if not runtime.is_available():
        return False
    try:
        runtime.nccl()
    except ImportError:
        return False
    return True


def is_gloo_available() -> bool:
    """False: what asks for gloo gets MPI."""
    return False


def is_torchelastic_launched() -> bool:
    """False: mpiexec launches the processes."""
    return False


def is_backend_available(backend: str) -> bool:
    """Whether the backend of that name can be used."""
    return {"mpi": is_mpi_available, "nccl": is_nccl_available}.get(backend.lower(), is_gloo_available)()


def get_default_backend_for_device(device: Any) -> str:
    """"nccl" for CUDA where it is available, else "mpi"."""
    on_cuda = arrays.resolve(device).type == "cuda"
    return "nccl" if on_cuda and is_nccl_available() else "mpi"


def get_rank(group: ProcessGroup | None = None) -> int:
    """The number of this process in the group; -1 if it is not in it."""
    if group is GroupMember.NON_GROUP_MEMBER:
        return -1
    return world().rank() if group is None else group.rank()


def get_world_size(group: ProcessGroup | None = None) -> int:
    """The number of processes in the group; -1 if this one is not in it."""
    if group is GroupMember.NON_GROUP_MEMBER:
        return -1
    return world().size() if group is None else group.size()


def get_pg_count() -> int:
    """The number of groups of this process, with the default one."""
    return len(_World.groups)


def get_backend(group: ProcessGroup | None = None) -> str:
    """"mpi" or "nccl"."""
    return world().backend if group is None else group.backend


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The number of this process among those of its machine; `fallback_rank` if no launcher has set it."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is None:
        raise RuntimeError("LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow "
                           "`get_node_local_rank` to work, assuming you are not running in a multi-device context and "
                           "want the code to run locally instead.")
    return int(fallback_rank)


def get_process_group_ranks(group: ProcessGroup | None) -> list[int]:
    """The ranks of all processes of the group, in its order."""
    return list((group or world()).ranks)


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """The number in the group of the process with that rank; ValueError if it is not in it."""
    if global_rank not in group.ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return group.ranks.index(global_rank)


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """The rank of the process that has the number `group_rank` in the group."""
    if not 0 <= group_rank < len(group.ranks):
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return group.ranks[group_rank]
