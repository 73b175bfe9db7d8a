"""In-place view methods: x.unsqueeze_(0) and so on."""

from __future__ import annotations

from typing import Any

from ...core.extend import LevelTensor, Tensor, adopt_view, bump_version, check_inplace, set_gradient_edge, version_of
from ...modes import GRAD_OFF, INFERENCE, MODES, TRANSFORMED
from .record import announce, changes_graph, named


def in_place_view(function: Any, name: str) -> Any:
    """The method `name` that turns x into the view function(x, ...): the same memory in another shape."""

    def method(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        x = input
        recorded = not MODES.bits & (GRAD_OFF | INFERENCE)
        if not isinstance(x, LevelTensor) and changes_graph(x, ()):
            check_inplace(name, x)
        if x._storage is not None:
            announce(x._storage)
        result = function(x, *args, **kwargs)
        derived, base = not x.is_leaf, x._base
        if not recorded and derived and base is None and result.shape != x.shape:
            raise RuntimeError(f"{name}: without recording a result of recorded ops cannot go from shape "
                               f"{list(x.shape)} to {list(result.shape)}; use x.{name[:-1]}(...) or detach() first")
        bump_version(x)
        if MODES.bits & TRANSFORMED:
            adopt_view(x, result)
            if isinstance(x, LevelTensor):
                return x
        x._array = result._array
        if recorded and result._fn is not None:
            set_gradient_edge(x, result._fn, result._nr)
        if base is not None and (recorded or not derived):
            x._seen = version_of(x)  # else x is stale, and its node will be the view of the base that x is now
        return x

    return named(method, function, name, f"x itself as x.{name[:-1]}(...).")
