"""The non-reentrant checkpoint: saved-tensor hooks, and a recomputation of the saved tensors in backward.

    1. In the forward pass each saved tensor is replaced by an empty Holder; the frame references the holders weakly.
    2. Backward unpacks a holder. If it is empty, the function runs again with recording, under hooks that put the i-th
       saved tensor into the i-th holder, if that is alive.
    3. An exception stops the run when it has saved as many tensors as the forward pass (early stop).
    4. A holder returns its tensor once: recomputed tensors are freed after use, and a second backward recomputes again.
    5. The arguments are saved like a node's inputs, so an enclosing checkpoint's hooks apply to them.

There is no state per backward: several threads may differentiate the same graph, and either find a tensor in a holder
or run the function. The function may call backward itself; that needs only the tensors saved so far.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from ... import errors
from ...autograd import inference_mode
from ...autograd.graph import saved_tensors_hooks
from ...core.graph.storage import version_of
from ...core.interpret.tracing import inlineable
from ...core.saved.saved_tensor import SavedTensor
from ...core.saved.saved_tensor_hooks import EnoughSaved, keep
from ...core.tensor import Tensor
from ...modes import ANOMALY, MODES
from ...random.replay import GeneratorSnapshot
from . import determinism
from .determinism import Metadata
from .recomputation import repeated


class _EarlyStop(threading.local):
    enabled: bool | None = None


EARLY_STOP = _EarlyStop()


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Overrides `early_stop` of checkpoints made by this thread inside the block; backward may run outside.

    >>> x = ag.zeros(1, requires_grad=True)
    >>> with ag.utils.checkpoint.set_checkpoint_early_stop(False):
    ...     y = ag.utils.checkpoint.checkpoint(ag.exp, x, use_reentrant=False)
    >>> y.backward()
    """
    before = EARLY_STOP.enabled
    EARLY_STOP.enabled = enable
    try:
        yield
    finally:
        EARLY_STOP.enabled = before


class StopRecomputation(EnoughSaved):
    """Stops a recomputation that is complete. Not an Exception, so that handlers in the function do not catch it."""


class Holder:
    """The placeholder of a saved tensor in a node."""

    __slots__ = ("__weakref__", "made")

    made: tuple[Tensor, int] | None  # and its version when it was saved

    def __init__(self) -> None:
        self.made = None


class Arguments:
    """The arguments of a call, with tensors saved, including their versions, like inputs of nodes."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.args = [_kept(a, f"argument {i}") for i, a in enumerate(args)]
        self.kwargs = {name: _kept(a, name) for name, a in kwargs.items()}

    def unpack(self) -> tuple[list[Any], dict[str, Any]]:
        args = [a.unpack(None) if isinstance(a, SavedTensor) else a for a in self.args]
        kwargs = {k: a.unpack(None) if isinstance(a, SavedTensor) else a for k, a in self.kwargs.items()}
        return args, kwargs


def _kept(value: Any, name: str) -> Any:
    return keep(value, "checkpoint", name) if isinstance(value, Tensor) else value


class Frame:
    """One call of a checkpointed function."""

    function: Callable[..., Any]
    arguments: Arguments
    snapshot: GeneratorSnapshot | None = None
    early_stop = True
    complete = False  # the forward pass is over

    def __init__(
        self, forward: AbstractContextManager[Any], again: AbstractContextManager[Any], check: determinism.Check,
        explain: Callable[[], determinism.CheckpointError] | None = None,
    ) -> None:  # fmt: skip
        self.forward, self.again = forward, again  # contexts of the forward run and of recomputations
        self.check, self.explain = check, explain
        self.holders: list[weakref.ref[Holder]] = []
        self.noted: list[Metadata] = []

    def keep(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Step 5."""
        self.function, self.arguments = function, Arguments(args, kwargs)

    @inlineable
    def pack(self, tensor: Tensor) -> Holder:
        """Step 1."""
        holder = Holder()
        self.holders.append(weakref.ref(holder))
        if self.check is not None:
            self.noted.append(self.check(tensor))
        return holder

    @inlineable
    def unpack(self, holder: Holder) -> Tensor:
        """Steps 2 and 4."""
        made, holder.made = holder.made, None
        if made is None:
            try:
                made = Recomputation(self).run(holder)
            except determinism.CheckpointError as error:
                if self.explain is None:
                    raise
                raise self.explain() from error
        tensor, version = made
        if version_of(tensor) != version:
            raise self._modified(tensor, version)
        return tensor

    def _modified(self, tensor: Tensor, expected: int) -> RuntimeError:
        where = "saved by a checkpointed function"
        kind, anomaly = f"autograd_gpu.{tensor.dtype}", bool(MODES.bits & ANOMALY)
        return errors.modified_in_place(kind, tensor.shape, where, version_of(tensor), expected, anomaly)


class Recomputation:
    """A recomputation. Provides the `pack` hook; its own graph holds the tensors unpacked."""

    def __init__(self, frame: Frame) -> None:
        self.frame, self.expected, self.count = frame, len(frame.holders), 0
        self.made: dict[int, tuple[Tensor, int]] = {}

    def run(self, holder: Holder) -> tuple[Tensor, int]:
        """Fills the holders; returns the tensor of `holder` instead of storing it."""
        frame = self.frame
        args, kwargs = frame.arguments.unpack()
        try:
            hooks = saved_tensors_hooks(self.pack, _as_it_is)
            with hooks, inference_mode(False), repeated(frame.snapshot), frame.again:
                frame.function(*args, **kwargs)
        except StopRecomputation as stop:
            if stop.args[0] is not self:
                raise
        self._compare()
        return self._hand_out(holder)

    @inlineable
    def pack(self, tensor: Tensor) -> Tensor:
        """Steps 2 and 3."""
        i, frame = self.count, self.frame
        self.count += 1
        if i >= self.expected:
            if frame.early_stop:
                raise StopRecomputation(self)  # again, since the function caught the first one
            if frame.complete:
                raise determinism.too_many()
            return tensor
        if frame.holders[i]() is not None:
            self.made[i] = tensor, version_of(tensor)
        if frame.early_stop and self.count == self.expected:
            raise StopRecomputation(self)
        return tensor

    def _compare(self) -> None:
        frame = self.frame
        if self.count < self.expected or (self.count > self.expected and frame.complete and not frame.early_stop):
            raise determinism.too_few(self.expected, self.count)
        if frame.check is None:
            return
        now = [(i, frame.noted[i], frame.check(tensor)._replace(version=v)) for i, (tensor, v) in self.made.items()]
        if changed := [(i, a, b) for i, a, b in now if a[:3] != b[:3]]:
            raise determinism.different(changed)
        for i, before, _ in now:
            if self.made[i][1] != before.version:
                raise frame._modified(self.made[i][0], before.version)

    def _hand_out(self, asked: Holder) -> tuple[Tensor, int]:
        answer = None
        for i, made in self.made.items():
            holder = self.frame.holders[i]()
            if holder is asked:
                answer = made
            elif holder is not None:
                holder.made = made
        assert answer is not None
        return answer


@inlineable
def _as_it_is(tensor: Tensor) -> Tensor:
    return tensor
