"""L-BFGS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..backend import Array, inner, namespace
from ..backend.arrays.dtypes import HALF, float32
from ..backend.cuda import live_numbers
from ..core.graph.storage import before_write, bump_version
from ..core.interpret.tracing import refuse as refuse_traced
from ..core.tensor import Tensor, wrap
from ..modes import enable_grad
from .line_search import CURVATURE, SUFFICIENT, Point, cubic_minimum, strong_wolfe
from .optimizer import Optimizer
from .param_groups import Group, Params, with_numbers

_ARRAYS, _LISTS = ("d", "prev_flat_grad"), ("old_dirs", "old_stps")  # state that holds arrays, and lists of them


class LBFGS(Optimizer):
    """Limited-memory BFGS (Nocedal and Wright 2006, algorithm 7.5), for deterministic losses.

    `step(closure)` makes up to `max_iter` iterations with up to `max_eval` (default: 5/4 max_iter) calls of the
    closure, which computes the loss and the gradients. It stops if no gradient exceeds `tolerance_grad`, or if the loss
    or the parameters change by less than `tolerance_change`. The inverse Hessian is approximated from the last
    `history_size` steps. `line_search_fn` is None for steps of size lr, or "strong_wolfe". Only one parameter group:
    ValueError for several.

    >>> w = ag.tensor([3.0, -1.0], requires_grad=True)
    >>> optimizer = ag.optim.LBFGS([w], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = (ag.tensor([1.0, 10.0]) * w * w).sum()
    ...     loss.backward()
    ...     return loss
    >>> optimizer.step(closure).item()
    19.0
    >>> bool((w.abs() < 1e-4).all())
    True
    """

    _ag_nonnegative = ("lr",)

    def __init__(
        self,
        params: Params,
        lr: float = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        defaults = {
            "lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change, "history_size": history_size,
            "line_search_fn": line_search_fn,
        }  # fmt: skip
        super().__init__(params, defaults)

    def add_param_group(self, param_group: Group) -> None:
        """Adds the only group; ValueError for a second one."""
        if self.param_groups:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        super().add_param_group(param_group)

    def _ag_check_options(self, group: Group) -> None:
        super()._ag_check_options(group)
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise RuntimeError(f"only 'strong_wolfe' is supported, or None, got {group['line_search_fn']!r}")

    def _ag_new_state(self, group: Group) -> dict[str, Any]:
        return {"func_evals": 0, "n_iter": 0, "t": 0.0, "H_diag": 1.0, "prev_loss": 0.0}

    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Minimizes for up to max_iter iterations; returns the first loss of `closure`.

        An exception, such as an error in `closure`, lack of memory or an interrupt, restores parameters and state.
        """
        refuse_traced("a step of LBFGS, which reads losses", "compile the closure instead")
        live_numbers.refuse("a step of LBFGS", "since it reads losses", "call step() outside of the captured code; its "
                            "closure may replay a graph of forward and backward")
        params = self.param_groups[0]["params"]
        state = self.state[params[0]]
        before, origin = dict(state), [param.array.copy() for param in params]
        try:
            return self._ag_minimize(closure, state)
        except BaseException:
            state.clear()
            state.update(before)
            before_write(params)
            for param, array in zip(params, origin, strict=True):
                param.array[...] = array
                bump_version(param)
            raise

    def _ag_minimize(self, closure: Callable[[], Any], state: dict[str, Any]) -> Any:
        """Iterates: 1. direction from the history, 2. step along it, 3. loss, gradient and stopping criteria there."""
        group = with_numbers(self.param_groups[0])
        params = group["params"]
        if not state:
            state.update(self._ag_new_state(group))
        with enable_grad():
            first = closure()
        loss, grad, evaluations = float(first), _flat_grad(params), 1
        state["func_evals"] += 1
        if _largest(grad) <= group["tolerance_grad"]:
            return first
        memory = _unpacked(state)
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            d = _direction(memory, grad, state["n_iter"] == 1, group["history_size"])  # 1
            slope = _dot(grad, d)
            if state["n_iter"] == 1:
                memory["t"] = min(1.0, 1.0 / grad.dtype.type(abs(grad).sum().item())) * group["lr"]
            else:
                memory["t"] = group["lr"]
            memory.update(d=d, prev_flat_grad=grad, prev_loss=loss)
            if slope > -group["tolerance_change"]:
                break
            here = Point(0.0, loss, grad, slope)
            last = iteration == group["max_iter"]
            point, made = _moved(closure, group, here, d, memory["t"], group["max_eval"] - evaluations, last)  # 2, 3
            change, memory["t"], loss, grad = abs(point.value - loss), point.t, point.value, point.grad
            evaluations += made
            state["func_evals"] += made
            if last or evaluations >= group["max_eval"] or _largest(grad) <= group["tolerance_grad"]:
                break
            if _largest(d) * abs(point.t) <= group["tolerance_change"] or change < group["tolerance_change"]:
                break
        _pack(state, memory)
        return first


def _moved(
    closure: Callable[[], Any], group: Group, here: Point, d: Array, t: float, left: int, last: bool
) -> tuple[Point, int]:
    """Takes a step along `d`, of size `t` or from the line search; returns the new point and the evaluations made.

    Without a line search the loss after the `last` iteration is not needed, and not computed.
    """
    params = group["params"]
    origin, warnings = [param.array.copy() for param in params], np.geterr()

    def evaluate(t: float) -> Point:
        with enable_grad(), np.errstate(**warnings):
            _place(params, origin, d, t)
            value = float(closure())
        grad = _flat_grad(params)
        return Point(t, value, grad, _dot(grad, d))

    if group["line_search_fn"] is not None:
        with np.errstate(all="ignore"):  # a step out of the loss's domain is shortened
            point, made = strong_wolfe(evaluate, here, t, _largest(d), left)
        _place(params, origin, d, point.t)
        return point, made
    if not last:
        return evaluate(t), 1
    _place(params, origin, d, t)
    return here._replace(t=t), 0


def _direction(memory: dict[str, Any], grad: Array, first: bool, history_size: int) -> Array:
    """Minus the inverse Hessian times the gradient, by the two-loop recursion; adds the last step to the history."""
    if first:
        memory.update(old_dirs=[], old_stps=[], ro=[], H_diag=1.0)
        return -grad
    y, s = grad - memory["prev_flat_grad"], memory["d"] * memory["t"]
    changes, steps, inverses = memory["old_dirs"], memory["old_stps"], memory["ro"]
    ys = _dot(y, s)
    if ys > 1e-10:
        if len(changes) == history_size:
            del changes[0], steps[0], inverses[0]
        changes.append(y)
        steps.append(s)
        inverses.append(1.0 / ys)
        memory["H_diag"] = ys / _dot(y, y)
    q, weights = -grad, []
    for y, s, inverse in zip(changes[::-1], steps[::-1], inverses[::-1], strict=True):
        weights.append(_dot(s, q) * inverse)
        q -= weights[-1] * y
    q *= memory["H_diag"]
    for y, s, inverse, weight in zip(changes, steps, inverses, weights[::-1], strict=True):
        q += (weight - _dot(y, q) * inverse) * s
    return q


def _unpacked(state: dict[str, Any]) -> dict[str, Any]:
    """The state with tensors as arrays."""
    memory = {name: state[name] for name in ("t", "H_diag", "prev_loss")}
    memory["ro"] = [float(value) for value in state.get("ro", [])]
    memory.update({name: state[name].array for name in _ARRAYS if name in state})
    memory.update({name: [value.array for value in state.get(name, [])] for name in _LISTS})
    return memory


def _pack(state: dict[str, Any], memory: dict[str, Any]) -> None:
    state.update({name: float(memory[name]) for name in ("t", "H_diag", "prev_loss")})
    state["ro"] = [float(value) for value in memory["ro"]]
    state.update({name: wrap(memory[name]) for name in _ARRAYS})
    state.update({name: [wrap(value) for value in memory[name]] for name in _LISTS})


def _flat_grad(params: list[Tensor]) -> Array:
    """All gradients as one vector, zeros for missing ones; float32 for half types."""
    xp = namespace(params[0].array)
    arrays = [xp.zeros_like(p.array) if p.grad is None else p.grad.array for p in params]
    flat = xp.concatenate([array.reshape(-1) for array in arrays])
    return flat.astype(float32) if flat.dtype in HALF else flat


def _place(params: list[Tensor], origin: list[Array], d: Array, t: float) -> None:
    """Sets the parameters to origin + t d."""
    start = 0
    before_write(params)
    for param, array in zip(params, origin, strict=True):
        moved = array + t * d[start : start + array.size].reshape(array.shape)
        param.array[...] = moved.astype(array.dtype, copy=False)
        start += array.size
        bump_version(param)


def _dot(a: Array, b: Array) -> Any:
    """The dot product as a scalar of the arrays' dtype, so that later arithmetic rounds in that dtype.

    The line search depends on it: a step too small to change the loss must compare as no change.
    """
    return a.dtype.type(inner(namespace(a), a, b).item())


def _largest(array: Array) -> float:
    return float(abs(array).max())


def _cubic_interpolate(
    x1: Any, f1: Any, g1: Any, x2: Any, f2: Any, g2: Any, bounds: tuple[Any, Any] | None = None
) -> float:
    """The minimizer of the cubic with values f and slopes g at x1 and x2, by PyTorch's private name.

    It is clamped to `bounds`, by default to x1 and x2; their midpoint if the cubic has no minimum.
    """
    first, second = (Point(float(x), float(f), None, float(g)) for x, f, g in ((x1, f1, g1), (x2, f2, g2)))
    low, high = sorted((first.t, second.t)) if bounds is None else map(float, bounds)
    return cubic_minimum(first, second, (low, high))


def _strong_wolfe(
    obj_func: Callable[..., tuple[float, Tensor]], x: Any, t: float, d: Tensor, f: float, g: Tensor, gtd: Any,
    c1: float = SUFFICIENT, c2: float = CURVATURE, tolerance_change: float = 1e-9, max_ls: int = 25,
) -> tuple[float, Tensor, float, int]:  # fmt: skip
    """(f, g, t, evaluations) at the point x + t * d that the line search accepts, by PyTorch's private name.

    `obj_func(x, t, d)` returns the value and the flat gradient there; `f`, `g` and the slope `gtd` are those at x.
    """
    if (c1, c2) != (SUFFICIENT, CURVATURE):
        raise NotImplementedError(f"_strong_wolfe: c1 and c2 are {SUFFICIENT} and {CURVATURE}, got {c1} and {c2}; "
                                  "leave them out, or use a line search of your own")

    def evaluate(t: float) -> Point:
        value, grad = obj_func(x, t, d)
        return Point(t, float(value), grad, float(grad.dot(d)))

    start = Point(0.0, float(f), g.clone(), float(gtd))
    point, evaluations = strong_wolfe(evaluate, start, float(t), float(d.abs().max()), max_ls, tolerance_change)
    return point.value, point.grad, point.t, evaluations
