"""Averages of a model's weights over training: stochastic weight averaging, and exponential moving averages."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..autograd import no_grad
from ..backend.arrays.device import Device
from ..backend.arrays.dtypes import FLOATS, float64, int64
from ..backend.cuda import live_numbers, runtime
from ..backend.cuda.live_numbers import LiveNumbers
from ..backend.optimizers.chunks import sweep
from ..backend.optimizers.formulas import blend
from ..core.graph.storage import before_write, bump_version
from ..core.interpret.tracing import tracer
from ..core.tensor import Tensor, wrap
from ..modes import MODES
from ..nn import Module
from ..ops.creation.from_data import tensor
from ..ops.foreach.arrays import launched
from .lr_scheduler.scheduler import LRScheduler, per_group
from .optimizer import Optimizer
from .param_groups import number

Average = Callable[[Tensor, Tensor, Tensor], Tensor]
MultiAverage = Callable[[Sequence[Tensor], Sequence[Tensor], Tensor], None]
_BLEND = blend.on("mean", "p")


def get_swa_avg_fn() -> Average:
    """avg_fn for AveragedModel: the mean of all models so far.

    >>> ag.optim.swa_utils.get_swa_avg_fn()(ag.tensor(1.0), ag.tensor(4.0), 2)
    tensor(2.)
    """

    def swa_update(averaged: Tensor, current: Tensor, num_averaged: Any) -> Tensor:
        with no_grad():
            return averaged + (current - averaged) / (num_averaged + 1)

    return swa_update


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """avg_fn for AveragedModel: decay of the average and 1 - decay of the model; ValueError for decay outside [0, 1].

    >>> ag.optim.swa_utils.get_ema_avg_fn(0.5)(ag.tensor(1.0), ag.tensor(4.0), 2)
    tensor(2.5)
    """
    _check_decay(decay)

    def ema_update(averaged: Tensor, current: Tensor, num_averaged: Any) -> Tensor:
        with no_grad():
            return decay * averaged + (1 - decay) * current

    return ema_update


def get_swa_multi_avg_fn() -> MultiAverage:
    """multi_avg_fn for AveragedModel: the mean of all models so far, in place.

    >>> mean = [ag.tensor(1.0)]
    >>> ag.optim.swa_utils.get_swa_multi_avg_fn()(mean, [ag.tensor(4.0)], 2)
    >>> mean
    [tensor(2.)]
    """

    return _Blending(None)


def get_ema_multi_avg_fn(decay: float = 0.999) -> MultiAverage:
    """multi_avg_fn for AveragedModel: decay of the average and 1 - decay of the model, in place.

    ValueError for decay outside [0, 1].

    >>> mean = [ag.tensor(1.0)]
    >>> ag.optim.swa_utils.get_ema_multi_avg_fn(0.5)(mean, [ag.tensor(4.0)], 2)
    >>> mean
    [tensor(2.5)]
    """
    _check_decay(decay)

    return _Blending(decay)


class _Blending:
    """A multi_avg_fn: a mean, or with `decay` an exponential one, in place."""

    def __init__(self, decay: float | None) -> None:
        self.decay = decay

    def weight(self, count: Any) -> Any:
        """That of the model which follows `count` others."""
        return 1.0 / (count + 1) if self.decay is None else 1.0 - self.decay

    def __call__(self, averaged: Sequence[Tensor], current: Sequence[Tensor], num_averaged: Any) -> None:
        _blend(averaged, current, self.weight(int(num_averaged) if self.decay is None else 0))


class AveragedModel(Module):
    """A copy of `model` with averaged weights, in `.module`; `update_parameters(model)` adds the current weights.

    The average is the mean (SWA), the result of `avg_fn(averaged, current, num_averaged)`, or that of
    `multi_avg_fn(averaged list, current list, num_averaged)`, which works in place. Buffers are averaged with
    `use_buffers`, else copied. `device` is the device of the copy.

    >>> net = ag.nn.Linear(1, 1)
    >>> ema = ag.optim.swa_utils.AveragedModel(net, multi_avg_fn=ag.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    >>> ema.update_parameters(net)
    >>> bool((ema.module.weight == net.weight).all()), ema.n_averaged
    (True, tensor(1))
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Device | str | None = None,
        avg_fn: Average | None = None,
        multi_avg_fn: MultiAverage | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0, device="cpu" if device is None else device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The averaged model's forward."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Adds the current weights of `model` to the average; the first call copies them.

        In a CUDA graph `avg_fn` and `multi_avg_fn` get the number of models as a CUDA tensor.

        ValueError if `model` has another number of parameters or buffers than the copy, RuntimeError if a shape
        differs.
        """
        averaged: list[Tensor] = list(self.module.parameters())
        current: list[Tensor] = list(model.parameters())
        mine, theirs = list(self.module.buffers()), list(model.buffers())
        if self.use_buffers:
            averaged, current, mine, theirs = [*averaged, *mine], [*current, *theirs], [], []
        if (len(averaged), len(mine)) != (len(current), len(theirs)):
            raise ValueError(
                f"the averaged model has {len(averaged)} parameters and {len(mine)} buffers, the model to average in "
                f"{len(current)} and {len(theirs)}: pass the model, or a copy of the model, that was averaged before"
            )
        if MODES.stack and (level := tracer()) is not None:
            reads, writes = [*current, *theirs], [*averaged, *mine, self.n_averaged]
            level.routine("AveragedModel.update_parameters", lambda: self.update_parameters(model), reads, writes)
            return
        inner = [p.detach() for p in averaged]
        outer = [p.detach().to(a.device).to(a.dtype) for a, p in zip(averaged, current, strict=True)]
        for a, p in zip(inner, outer, strict=True):
            if a.shape != p.shape:
                raise RuntimeError(f"the averaged model has a tensor of shape {a.shape}, the model one of {p.shape}")
        live = live_numbers.current()
        if live is not None:
            self._ag_capture(live, inner, outer, [*mine, *theirs])
        elif int(self.n_averaged) == 0:
            _blend(inner, outer, 1.0)
        elif self.avg_fn is None:
            (self.multi_avg_fn or get_swa_multi_avg_fn())(inner, outer, self.n_averaged)
        else:
            for a, p in zip(inner, outer, strict=True):
                _copy(a, self.avg_fn(a, p, self.n_averaged))
        for a, p in zip(mine, theirs, strict=True):
            _copy(a, p.detach().to(a.device))
        if live is None or self.n_averaged.is_cuda:
            self._ag_count()
        else:
            live.place(0, self._ag_count, partial(self._ag_count, -1))

    def _ag_count(self, by: int = 1) -> Any:
        """Counts a model; returns no numbers."""
        with no_grad():
            self.n_averaged += by
        return np.empty(0)

    def _ag_capture(self, live: LiveNumbers, inner: list[Tensor], outer: list[Tensor], others: list[Tensor]) -> None:
        """Averages `outer` into `inner` in a CUDA graph, where only a replay knows how many models there were."""
        if not all(t.is_cuda for t in (*inner, *outer, *others)):
            raise RuntimeError("a CUDA graph averages weights and buffers on CUDA only, and a replay would leave those "
                               "on the CPU as they are: call update_parameters() after the replay")
        xp, count = runtime.cupy(), self.n_averaged
        number = count.array if count.is_cuda else live.array(lambda: np.array([float(self.n_averaged)]), 1).reshape(())
        function, none = self.multi_avg_fn or get_swa_multi_avg_fn(), number == 0
        if self.avg_fn is None and isinstance(function, _Blending):
            _blend(inner, outer, xp.where(none, 1.0, function.weight(number.astype(float64))))
            return
        models = wrap(number.astype(int64))
        if self.avg_fn is None:
            function(inner, outer, models)
        new = inner if self.avg_fn is None else [self.avg_fn(a, p, models) for a, p in zip(inner, outer, strict=True)]
        for a, p, result in zip(inner, outer, new, strict=True):
            _copy(a, wrap(xp.where(none, p.array, result.array)))


def update_bn(loader: Iterable[Any], model: Module, device: Device | str | None = None) -> None:
    """Sets the running statistics of the batch norms in `model` to means over all batches of `loader`.

    Call it after averaging weights, which does not update the statistics. Runs the model in training mode on each
    batch, or on the first element of a batch that is a list or tuple, moved to `device` if given. Does nothing without
    batch norms.

    >>> ag.optim.swa_utils.update_bn([ag.ones(4, 3)], ag.nn.Linear(3, 2))
    """
    norms = [module for module in model.modules() if _is_batch_norm(module)]
    if not norms:
        return
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # a mean over all batches
    was_training = model.training
    model.train()
    try:
        with no_grad():
            for batch in loader:
                x = batch[0] if isinstance(batch, list | tuple) else batch
                model(x if device is None else x.to(device))
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
        model.train(was_training)


class SWALR(LRScheduler):
    """Anneals lr to `swa_lr` in `anneal_epochs` steps by a "cos" or "linear" schedule, then keeps it constant.

    >>> optimizer = ag.optim.SGD([ag.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = ag.optim.swa_utils.SWALR(optimizer, swa_lr=0.5, anneal_epochs=2, anneal_strategy="linear")
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.75]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        for group, lr in zip(optimizer.param_groups, per_group("swa_lr", optimizer, swa_lr), strict=True):
            group["swa_lr"] = lr
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._anneal_strategy, self.anneal_epochs = anneal_strategy, anneal_epochs
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The learning rates, from those of the previous step, so that other schedulers may change them, too."""
        self._ag_warn_outside_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._ag_share(step - 1), self._ag_share(step)
        result = []
        for group in self.optimizer.param_groups:
            end = group["swa_lr"]
            start = end if before == 1 else (number("lr", group["lr"]) - before * end) / (1 - before)
            result.append(end * now + start * (1 - now))
        return result

    def _ag_share(self, step: int) -> float:
        """The completed fraction of the schedule after `step` steps."""
        t = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return t if self._anneal_strategy == "linear" else (1.0 - math.cos(math.pi * t)) / 2.0


def _check_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def _is_batch_norm(module: Module) -> bool:
    named = any("BatchNorm" in cls.__name__ for cls in type(module).__mro__)
    return named and hasattr(module, "reset_running_stats") and hasattr(module, "momentum")


def _blend(averaged: Sequence[Tensor], current: Sequence[Tensor], weight: Any) -> None:
    """averaged = (1 - weight) averaged + weight current, in place; integers are truncated.

    In a CUDA graph `weight` is a 0-d array in device memory.
    """
    before_write(averaged)
    left: Sequence[int] = range(len(averaged))
    known = isinstance(weight, float)
    if not known or weight != 1.0:
        left = _lerp([a.array for a in averaged], [p.array for p in current], weight)
    for i in left:
        a, p = averaged[i], current[i]
        if known and weight == 1.0:
            a.array[...] = p.array
        elif known and a.dtype in FLOATS:
            sweep(_BLEND, (a.array, p.array), {"weight": weight})
        else:
            w = weight
            a.array[...] = ((1.0 - w) * a.array + w * p.array).astype(a.dtype)
    for a in averaged:
        bump_version(a)


def _lerp(averaged: list[Any], current: list[Any], weight: Any) -> list[int]:
    """Averages what kernels over lists support; returns the indices of the others."""
    return launched("lerp", averaged, averaged, current, weight)


def _copy(into: Tensor, source: Tensor) -> None:
    before_write([into])
    into.array[...] = source.array
    bump_version(into)
