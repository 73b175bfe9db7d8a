"""Optimizer steps in a CUDA graph: the capture steps nothing, and each replay has the hyperparameters of its time.

The captured kernels read the numbers of the step from the graph's block of live numbers. Before each launch the step is
counted in the state, and the numbers are computed anew from the parameter groups: so schedules, changed options and
loaded state dicts do what they do without a graph.
"""

from __future__ import annotations

from functools import partial
from itertools import chain
from operator import attrgetter, is_
from typing import Any

from ..backend import is_cuda
from ..backend.cuda import live_numbers
from ..backend.cuda.capture import NotReadyError
from ..backend.cuda.live_numbers import LiveNumbers
from ..backend.optimizers.fused import step_lists
from ..core.graph.storage import bump_version
from ..core.tensor import Tensor, wrap
from .param_groups import Group, with_numbers
from .step_count import own_count

Optimizer = Any  # optimizer.Optimizer, which imports this
_ARRAY = attrgetter("_array")


def check_capturable(optimizer: Optimizer) -> None:
    """In a capture raises RuntimeError for options that a replay would not follow, or that cannot be captured."""
    if live_numbers.current() is None:
        return
    name = type(optimizer).__name__
    for group in optimizer.param_groups:
        if not group.get("capturable", True):
            raise RuntimeError(f"Attempting CUDA graph capture of step() for an instance of {name} but param_groups' "
                               "capturable is False. Construct it with capturable=True, or set "
                               "group['capturable'] = True in each of its param_groups")
        if group.get("differentiable"):
            raise RuntimeError(f"a step of {name} with differentiable=True cannot be captured in a CUDA graph, since "
                               "it replaces its state: call step() after the replay")
        for option, value in group.items():
            if isinstance(value, Tensor) and value.is_cuda:
                raise RuntimeError(f"a captured step of {name} reads its options on the host at each replay, and "
                                   f"{option} is a CUDA tensor: make it a number, or a tensor on the CPU")


def capture_update(
    optimizer: Optimizer, live: LiveNumbers, group: Group, columns: list[Any], params: list[Tensor]
) -> None:
    """Captures the update of `params` of `group`; `columns` are their arrays and those of their gradients."""
    update = CapturedUpdate(optimizer, params, columns[0])
    keys = update.keys(group)
    live.place(0, update.advance, update.retreat)
    if live.skip is not None:
        live.skip.undos.append(update.retreat)
    numbers = {key: update.numbers(live, key) for key in dict.fromkeys(keys)}
    done: list[int] = []
    variant = optimizer._ag_formula.on("p", "g", *update.slots)
    rest = step_lists(variant, [*columns, *update.columns], [numbers[key] for key in keys], done)
    if rest:
        raise RuntimeError(f"a captured step of {type(optimizer).__name__} updates lists of contiguous CUDA parameters "
                           f"that do not overlap; one of shape {list(params[rest[0]].shape)} on "
                           f"{params[rest[0]].device}, or its state, does not fit in: call step() after the replay")
    for param in params:
        bump_version(param)


class CapturedUpdate:
    """An update of parameters in a graph: their memory and that of their state, and the numbers of each replay."""

    def __init__(self, optimizer: Optimizer, params: list[Tensor], arrays: list[Any]) -> None:
        self._optimizer, self._params, self._arrays = optimizer, params, arrays
        self._number = next(
            i for i, group in enumerate(optimizer.param_groups) if any(param is params[0] for param in group["params"])
        )
        self.slots = list(optimizer._ag_slots(with_numbers(optimizer.param_groups[self._number])))
        if not all(map(is_cuda, arrays)):
            raise RuntimeError("a CUDA graph updates parameters on CUDA only, and a replay would leave one on the CPU "
                               "as it is: call step() after the replay")
        name = type(optimizer).__name__
        if any(slot not in optimizer.state.get(param, {}) for param in params for slot in self.slots):
            raise NotReadyError(f"{name} makes its state in the first step, which cannot be captured in a CUDA graph: "
                                "each replay would make it anew. Run one step before the capture")
        present = self._present()
        self.columns = [[state[slot].array for state in present] for slot in self.slots]
        self._memory = [*arrays, *chain(*self.columns)]
        self._keys: list[tuple[Any, ...]] = []  # of the last replay
        self._group: Group = {}  # its options

    def keys(self, group: Group) -> list[tuple[Any, ...]]:
        """The arguments of `_ag_numbers` of the next step, which is not counted."""
        states = list(map(own_count, self._present()))
        self._keys, self._group = [], group
        self._optimizer._ag_advance(states, group, [False] * len(states), self._keys)
        return self._keys

    def _present(self) -> list[dict[str, Any]]:
        """The states of the parameters; what has none gets none, as outside of a graph."""
        return [self._optimizer.state[param] if self.slots else {} for param in self._params]

    def numbers(self, live: LiveNumbers, key: tuple[Any, ...]) -> dict[str, float]:
        """The formula's numbers for the rows with this key; they are changed before each replay."""
        rows = [i for i, other in enumerate(self._keys) if other == key]
        numbers: dict[str, float] = self._optimizer._ag_numbers(self._group, *key)
        live.place(0, partial(self._compute, rows, numbers))
        return numbers

    def advance(self) -> tuple[()]:
        """Counts a step."""
        optimizer = self._optimizer
        group = with_numbers(optimizer.param_groups[self._number])
        if list(optimizer._ag_slots(group)) != self.slots:
            raise RuntimeError(f"an option of {type(optimizer).__name__} was changed, such as momentum to or from 0, "
                               f"and takes the state {list(optimizer._ag_slots(group))}; the captured step has "
                               f"{self.slots}: capture the step again")
        states = self._present()
        if not self._are_in_place(states):
            self._bring_back()
        self._keys, self._group = [], group
        optimizer._ag_advance(states, group, [False] * len(states), self._keys)
        for param in self._params:
            bump_version(param)
        return ()

    def retreat(self) -> None:
        """Takes back what `advance` has counted, for a replay that does not come."""
        for state, key in zip(self._present(), self._keys, strict=True):
            self._optimizer._ag_retreat(state, key)

    def _compute(self, rows: list[int], numbers: dict[str, float]) -> tuple[()]:
        """Puts the numbers of the counted step into `numbers`; RuntimeError if `rows` take different ones."""
        keys = self._keys
        key = keys[rows[0]]
        if keys.count(key) < len(keys) and any(keys[i] != key for i in rows):
            raise RuntimeError(f"parameters of {type(self._optimizer).__name__} that had taken the same number of "
                               "steps when the step was captured have taken different ones now: capture it again")
        numbers.update(self._optimizer._ag_numbers(self._group, *key))
        return ()

    def _are_in_place(self, states: list[dict[str, Any]]) -> bool:
        """Whether parameters and states are the arrays that the graph uses; every replay asks, so without a loop."""
        try:
            present = [_ARRAY(state[slot]) for slot in self.slots for state in states]
        except KeyError:  # state that `_bring_back` misses, too
            return False
        return all(map(is_, chain(map(_ARRAY, self._params), present), self._memory))

    def _bring_back(self) -> None:
        """Puts state that was loaded since into the memory that the graph uses."""
        present = self._present()
        for param, array, state, *states in zip(self._params, self._arrays, present, *self.columns, strict=True):
            if param.array.data.ptr != array.data.ptr:
                raise RuntimeError(f"a parameter of shape {list(param.shape)} has other memory than when the step was "
                                   "captured, which the graph would not update: write into it, as load_state_dict does "
                                   "by default, or capture the step again")
            for slot, memory in zip(self.slots, states, strict=True):
                loaded = state.get(slot)
                if loaded is None:
                    raise RuntimeError(f"the state of {type(self._optimizer).__name__} lacks {slot}, which it had when "
                                       "the step was captured: run one step, or load the state, and capture it again")
                if loaded.array is not memory:
                    memory[...] = loaded.array
                    state[slot] = wrap(memory)
