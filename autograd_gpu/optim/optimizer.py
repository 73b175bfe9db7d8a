"""The base class of optimizers: parameter groups, per-parameter state, hooks, and the state dict."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from typing import Any

from ..autograd.zero_grad import zero_grad
from ..backend import Array, namespace
from ..backend.cuda import live_numbers
from ..backend.formulas.update import Update
from ..backend.optimizers.buckets import Buckets
from ..core.graph.storage import bump_versions
from ..core.interpret.tracing import Tracing, tracer
from ..core.tensor import Tensor, wrap
from ..modes import MODES, enable_grad
from .captured import capture_update, check_capturable
from .hooks import (
    LOAD_POST,
    LOAD_PRE,
    SAVE_POST,
    SAVE_PRE,
    Hookable,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
    with_hooks,
)
from .in_one_call import step_in_one_call, was_one_call
from .param_groups import (
    Group,
    Params,
    check_execution,
    check_nonnegative,
    check_sizes,
    check_tensors,
    completed,
    from_params,
    required,
    together,
    with_numbers,
)
from .recorded import record_update, settled
from .state_loading import loaded_group, loaded_state
from .step_count import StepCount, advance
from .update_call import UpdateCall, with_grads

ParamsT = params_t = Params  # PyTorch's names of the type of an optimizer's parameters

__all__ = [
    "Optimizer", "ParamsT", "params_t", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook",
    "required",
]  # fmt: skip


class Optimizer(Hookable):
    """Base class of optimizers. A subclass defines `step(closure=None)`, as in PyTorch, or `_ag_update(group)`.

    `params` is an iterable of leaf tensors, of (name, tensor), or of dicts {"params": tensors, option: value, ...}
    whose options override `defaults` for their group. `param_groups` may be changed between steps:
    group["lr"] *= 0.1. A learning rate or another numeric option may be a one-element tensor, read at each step.

    A step on CUDA is one launch for all parameters of a dtype and step count. If `foreach` or `fused` is False, and the
    other one not True, parameters are updated one at a time, with the same results; on the CPU they change nothing.

    `differentiable` records the step: gradients flow to the parameters and states before it, to the parameters'
    `.grad`, and to options that are tensors, such as `lr`. The parameters are written in place, so they cannot be
    leaves that require grad; their states are replaced. It excludes `foreach` and `fused`.

    >>> w = ag.ones(1, requires_grad=True)
    >>> optimizer = ag.optim.SGD([w], lr=0.5)
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.5], requires_grad=True)
    """

    # Private names here and in subclasses begin with `_ag_`, to avoid clashes with users' subclasses.
    _ag_formula: Update  # of backend/optimizers/formulas.py, for this class's `_ag_update`
    _ag_nonnegative: tuple[str, ...] = ()  # options that must not be negative

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self.state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[Group] = []
        self._ag_start()
        for group in from_params(params):
            self.add_param_group(group)

    def _ag_start(self) -> None:
        """Initializes the attributes that are neither saved nor copied."""
        self._ag_buckets = Buckets()
        self._ag_forget_hooks()
        self._ag_in_step, self._ag_steps_taken = False, 0
        self._ag_in_one_call = False  # whether the last update was one call of machine code
        self._ag_recorded: set[Tensor] = set()  # the parameters whose state graphs may have saved

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:
            cls.step = with_hooks(cls.step)  # type: ignore[method-assign]

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._ag_start()
        if any(group.get("differentiable") for group in self.param_groups):
            self._ag_recorded.update(self.state)

    def add_param_group(self, param_group: Group) -> None:
        """Adds a group of parameters with its own options; missing options come from the defaults.

        >>> a, b = ag.zeros(1, requires_grad=True), ag.zeros(1, requires_grad=True)
        >>> optimizer = ag.optim.SGD([a], lr=0.1)
        >>> optimizer.add_param_group({"params": [b], "lr": 0.01})
        >>> [group["lr"] for group in optimizer.param_groups]
        [0.1, 0.01]
        """
        group = completed(param_group, self.defaults, self.param_groups)
        self._ag_check_options(group)
        self.param_groups.append(group)

    def _ag_check_options(self, group: Group) -> None:
        """Raises ValueError for an option out of range; subclasses extend it."""
        check_tensors(group)
        check_nonnegative(group, self._ag_nonnegative)
        check_execution(group)

    # ---- the step ------------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates every parameter that has a gradient; returns the result of `closure`.

        The closure computes the loss and the gradients; it is called first, with grad enabled. RuntimeError if a
        gradient differs from its parameter in shape, dtype or device. If memory runs out, each parameter is updated
        together with its state or not at all. An interrupt may leave the parameter being updated, or a bucket of small
        parameters, partially updated.

        >>> w = ag.tensor([1.0], requires_grad=True)
        >>> (3 * w).sum().backward()
        >>> ag.optim.SGD([w], lr=0.25).step()
        >>> w
        tensor([0.25], requires_grad=True)
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        check_capturable(self)
        for group in self.param_groups:
            if MODES.stack and (level := tracer()) is not None:
                self._ag_trace(group, level)
            elif group.get("differentiable"):
                record_update(self, group)
            else:
                self._ag_update(with_numbers(group))
        return loss

    def _ag_trace(self, group: Group, level: Tracing) -> None:
        """Updates `group` as a routine of the call that is being traced: its options and state stay live."""
        if group.get("differentiable"):
            level.refuse("the step of a differentiable optimizer", "call it outside of the compiled function")
            record_update(self, group)
            return
        number = next(i for i, other in enumerate(self.param_groups) if other is group)
        params = [p for p in group["params"] if p.grad is not None]  # by its property, which tells the tracer
        # A count that nothing has read stays one: as a tensor it would be an array, which takes longer to write to.
        states = [t for p in params for t in self.state.get(p, {}).values()
                  if isinstance(t, Tensor) and type(t) is not StepCount]
        name = f"{type(self).__name__}.step, group {number}"
        level.routine(name, lambda: self._ag_update(with_numbers(self.param_groups[number])),
                      [p._grad for p in params], [*params, *states], self)  # fmt: skip

    def _ag_update(self, group: Group) -> None:
        """Updates the parameters of `group` on arrays, without recording, and bumps their versions.

        1. Make missing state and count the step. 2. Run the formula on parameters, gradients and state. 3. If that
        fails, restore the state of parameters that were not updated.
        """
        if self._ag_in_one_call:
            self._ag_in_one_call = step_in_one_call(self, group)
            if self._ag_in_one_call:
                return
        params, arrays, grads = with_grads(group)
        if not params:
            return
        if (live := live_numbers.current()) is not None:
            capture_update(self, live, group, [arrays, grads], params)
            return

        def compute(call: UpdateCall, done: list[int]) -> None:
            self._ag_buckets.update(call.variant, call.columns, call.numbers, done, together(group))
            self._ag_in_one_call = was_one_call(call, self._ag_buckets.natively)

        try:
            self._ag_counted(group, params, [arrays, grads], self._ag_slots(group), compute)
        finally:
            bump_versions(params)

    def _ag_counted(
        self, group: Group, params: list[Tensor], columns: list[Sequence[Array]], slots: dict[str, float],
        compute: Callable[[UpdateCall, list[int]], None] | None = None,
    ) -> UpdateCall:  # fmt: skip
        """The update of `params`, after making missing state, counting the step (1), and `compute`(call, done) (2).

        If one of these fails, or Ctrl-C ends it, state and counts of the rows that are not in `done` are restored (3).
        `columns` are the arrays of parameters and gradients.
        """
        if self._ag_recorded:
            self._ag_settle(params, slots)
        states = [self.state[param] for param in params] if slots else [{} for _ in params]
        fresh, before = [False] * len(params), None
        keys: list[tuple[Any, ...]] = []
        done: list[int] = []
        try:
            try:
                columns = [*columns, *[[state[name]._array for state in states] for name in slots]]
            except KeyError:
                before = [dict(state) for state in states]
                fresh = self._ag_prepare(group, params, slots)
                columns = [*columns, *[[state[name].array for state in states] for name in slots]]
            self._ag_advance(states, group, fresh, keys)
            numbers = {key: self._ag_numbers(group, *key) for key in set(keys)}
            variant, rows = self._ag_formula.on("p", "g", *slots), [numbers[key] for key in keys]
            call = UpdateCall(params, variant, columns, rows, partial(self._ag_take_back, states, keys, before))
            if compute is not None:
                compute(call, done)
            return call
        except BaseException:
            self._ag_take_back(states, keys, before, done)
            raise

    def _ag_settle(self, params: list[Tensor], slots: dict[str, float]) -> None:
        """Gives state of recorded steps to `params` in memory of its own, before it is written to."""
        for param in self._ag_recorded.intersection(params):
            self.state[param].update(settled(self.state[param], slots))
            self._ag_recorded.discard(param)

    def _ag_slots(self, group: Group) -> dict[str, float]:
        """The names of state arrays of the parameter's shape, and their initial values."""
        return {}

    def _ag_new_state(self, group: Group) -> dict[str, Any]:
        """The scalars of a new state."""
        return {"step": StepCount()}

    def _ag_advance(self, states: list[dict[str, Any]], group: Group, fresh: list[bool], keys: list[Any]) -> None:
        """Counts the step in each state, new if `fresh`, and appends the arguments of `_ag_numbers` to `keys`."""
        keys += zip(advance(states))

    def _ag_retreat(self, state: dict[str, Any], key: tuple[Any, ...]) -> None:
        """Undoes `_ag_advance` of a state, which appended `key`."""
        next(advance([state], -1))

    def _ag_take_back(
        self, states: list[dict[str, Any]], keys: list[tuple[Any, ...]], before: list[dict[str, Any]] | None,
        done: list[int],
    ) -> None:
        """Undoes `_ag_advance` for all rows not in `done`, and `_ag_prepare` if it ran; `before` is the state then."""
        for i in set(range(len(states))).difference(done):
            if i < len(keys):
                self._ag_retreat(states[i], keys[i])
            if before is None:
                continue
            made = [t.array for name, t in states[i].items() if name not in before[i] and isinstance(t, Tensor)]
            self._ag_buckets.forget(made)
            states[i].clear()
            states[i].update(before[i])

    def _ag_numbers(self, group: Group, *key: Any) -> dict[str, Any]:
        """The formula's numbers for this step, in its order."""
        raise NotImplementedError(f"{type(self).__name__} defines neither step() nor _ag_update()")

    def _ag_prepare(self, group: Group, params: list[Tensor], slots: dict[str, float]) -> list[bool]:
        """Makes the missing state of `params`; returns for each whether it was missing. Undoes all if it fails."""
        made = []
        for param in params:
            lacking = [name for name in slots if name not in self.state[param]]
            made.append(tuple([namespace(param.array).full_like(param.array, slots[name]) for name in lacking]))
        fresh = [len(arrays) == len(slots) for arrays in made]
        new = [i for i, is_new in enumerate(fresh) if is_new]
        packed = self._ag_buckets.pack([params[i].array for i in new], [made[i] for i in new])
        for i, arrays in zip(new, packed, strict=True):
            made[i] = arrays
        for param, arrays, is_new in zip(params, made, fresh, strict=True):
            state = self.state[param]
            lacking = [name for name in slots if name not in state]
            start = {**self._ag_new_state(group), **state} if is_new else {}
            state.update(start | {name: wrap(array) for name, array in zip(lacking, arrays, strict=True)})
        return fresh

    def _ag_pack(self, params: list[Tensor], slots: dict[str, float]) -> None:
        """Moves the state of small parameters into buckets."""
        states = [tuple([self.state[param][name].array for name in slots]) for param in params]
        packed = self._ag_buckets.pack([param.array for param in params], states)
        for param, before, after in zip(params, states, packed, strict=True):
            if after is not before:
                self.state[param].update({name: wrap(array) for name, array in zip(slots, after, strict=True)})

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Sets the gradients of all groups to None, or with `set_to_none=False` to zero in place.

        `step` skips a parameter whose gradient is None, but not one whose gradient is zero.

        >>> w = ag.ones(1, requires_grad=True)
        >>> w.sum().backward()
        >>> ag.optim.SGD([w]).zero_grad(set_to_none=False)
        >>> w.grad
        tensor([0.])
        """
        zero_grad(self._ag_params(), set_to_none)

    # ---- state dict ----------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """{"state": {index: state}, "param_groups": [options and parameter indices]}; tensors are not copied.

        >>> w = ag.ones(1, requires_grad=True)
        >>> ag.optim.SGD([w], lr=0.5).state_dict()["param_groups"][0]["params"]
        [0]
        """
        for hook in self._ag_hooks_of(SAVE_PRE):
            hook(self)
        index = {param: i for i, param in enumerate(self._ag_params())}
        groups = [
            {
                **{k: v for k, v in group.items() if k != "params"},
                "params": [index[p] for p in group["params"]],
            }
            for group in self.param_groups
        ]
        result: dict[str, Any] = {
            "state": {index[p]: state for p, state in self._ag_saved_state() if p in index},
            "param_groups": groups,
        }
        for hook in self._ag_hooks_of(SAVE_POST):
            changed = hook(self, result)
            result = result if changed is None else changed
        return result

    def _ag_saved_state(self) -> Iterable[tuple[Tensor, dict[str, Any]]]:
        """The parameters and their state, for a state dict."""
        return self.state.items()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads options and state from a `state_dict()` of this package or of PyTorch.

        Copies state to each parameter's device and dtype; does not change foreach, fused, capturable and
        differentiable. ValueError, without any change, if the groups differ in number or size, lack an option of this
        optimizer, or if a state tensor has another shape than its parameter.

        >>> w = ag.ones(1, requires_grad=True)
        >>> saved, optimizer = ag.optim.SGD([w], lr=0.5).state_dict(), ag.optim.SGD([w], lr=0.1)
        >>> optimizer.load_state_dict(saved)
        >>> optimizer.param_groups[0]["lr"]
        0.5
        """
        state_dict = dict(state_dict)
        for hook in self._ag_hooks_of(LOAD_PRE):
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        self._ag_load(state_dict)
        for hook in self._ag_hooks_of(LOAD_POST):
            hook(self)

    def _ag_load(self, state_dict: dict[str, Any]) -> None:
        """`load_state_dict` without its hooks."""
        saved = state_dict["param_groups"]
        check_sizes(saved, self.param_groups)
        name = type(self).__name__
        pairs = zip(saved, self.param_groups, strict=True)
        groups = [loaded_group(new, old, self.defaults, name) for new, old in pairs]
        state = {}
        for group, indices in zip(groups, [g["params"] for g in saved], strict=True):
            self._ag_check_options(group)
            slots, new = self._ag_slots(group), self._ag_new_state(with_numbers(group))
            for index, param in zip(indices, group["params"], strict=True):
                if index in state_dict["state"]:
                    state[param] = loaded_state(state_dict["state"][index], param, slots, new)
        self.param_groups, self.state, self._ag_buckets = groups, defaultdict(dict, state), Buckets()
        for group in groups:
            slots = self._ag_slots(group)
            self._ag_pack([p for p in group["params"] if slots and slots.keys() <= state.get(p, {}).keys()], slots)

    def _ag_params(self) -> Iterable[Tensor]:
        return chain.from_iterable(group["params"] for group in self.param_groups)

    def __repr__(self) -> str:
        text = ""
        for i, g in enumerate(self.param_groups):
            text += f"\nParameter Group {i}\n" + "".join([f"    {k}: {g[k]}\n" for k in sorted(g) if k != "params"])
        return f"{type(self).__name__} ({text})"


Optimizer.step = with_hooks(Optimizer.step)  # type: ignore[method-assign]
