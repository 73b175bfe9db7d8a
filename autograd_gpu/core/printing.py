"""Formats tensors as PyTorch does, with NumPy's formatting."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from .. import backend
from ..backend.arrays import dtypes
from ..modes import MODES
from .graph.leaf import AccumulateGrad
from .graph.tensor_base import TensorBase
from .history.rebase import node_of

PROFILES: dict[str, dict[str, Any]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": sys.maxsize, "edgeitems": 3, "linewidth": 80},
}
_options: dict[str, Any] = {**PROFILES["default"], "sci_mode": None}


def set_printoptions(
    precision: int | None = None, threshold: int | None = None, edgeitems: int | None = None,
    linewidth: int | None = None, profile: str | None = None, sci_mode: bool | None = None,
) -> None:  # fmt: skip
    """Sets print options for tensors, for the whole process; options that are None are unchanged, except `sci_mode`.

    precision   digits after the decimal point
    threshold   a tensor with more elements than this is summarised: only `edgeitems` elements at each end of each
                dimension are printed, and copied from a device
    linewidth   characters per line
    profile     "default", "short" or "full": sets all options above before the others apply
    sci_mode    True: scientific notation, False: fixed-point notation, None (set by every call that omits it): chosen
                by the values

    >>> ag.set_printoptions(precision=2)
    >>> ag.tensor([1 / 3])
    tensor([0.33])
    >>> ag.set_printoptions(profile="default")
    """
    if profile is not None:
        if profile not in PROFILES:
            raise ValueError(f"set_printoptions: profile is one of {', '.join(PROFILES)}; got {profile!r}")
        _options.update(PROFILES[profile])
    options = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    _options.update({name: value for name, value in options.items() if value is not None}, sci_mode=sci_mode)


def get_printoptions() -> dict[str, Any]:
    """Returns the print options that `set_printoptions` has set.

    >>> ag.get_printoptions()["precision"]
    4
    """
    return dict(_options)


_IMPLIED = (dtypes.int64, dtypes.bool_)  # not printed, like the default float dtype


def tensor_repr(tensor: TensorBase) -> str:
    text = _text(tensor)
    notes = []
    if tensor.numel() == 0 and tensor.shape != (0,):
        notes.append(f"size={tensor.shape}")
    if tensor.is_cuda:
        notes.append(f"device='{tensor.device}'")
    if tensor.dtype not in (*_IMPLIED, dtypes.get_default_dtype()):
        notes.append(f"dtype={tensor.dtype}")
    if tensor._base is not None and tensor._made:  # node_of raises for such a view if it is stale
        if tensor._fn is not None:
            notes.append("grad_fn=<Invalid>")
    elif (node := node_of(tensor)) is not None:
        notes.append("requires_grad=True" if type(node) is AccumulateGrad else f"grad_fn=<{node.name()}>")
    tangents = getattr(tensor, "_tangents", {})
    notes += [f"tangent={t!r}" for level in MODES.stack[-1:] if isinstance(t := tangents.get(level), TensorBase)]
    joint = ", ".join([text, *notes])
    name = "tensor" if type(tensor).__name__ != "Parameter" else "Parameter containing:\ntensor"
    return f"{name}({joint})"


def _text(tensor: TensorBase) -> str:
    """Formats the elements; above `threshold` only those at the ends, and only these are copied to the host."""
    array, ends = tensor._array, max(_options["edgeitems"], 1)
    cut = [d for d, size in enumerate(array.shape) if size > 2 * ends] if array.size > _options["threshold"] else []
    values = backend.to_numpy(_at_ends(array, cut, ends)).view(tensor.dtype)
    if values.dtype in dtypes.STORAGE or values.dtype == dtypes.bfloat16:
        values = values.astype(np.float32)
    moderate = _moderate(values)
    for d in cut:  # inserts one element, which NumPy elides
        values = np.insert(values, ends, values.take(0, d), d)
    digits, sci_mode = _options["precision"], _options["sci_mode"]
    formatter: Any = None
    if sci_mode is not None or not moderate:
        style = f".{digits}f" if sci_mode is False else f".{digits}e"
        width = max([len(f"{value:{style}}") for value in values.flat], default=0)
        formatter = {"float_kind": lambda value: f"{value:{width}{style}}"}
    return np.array2string(
        values, separator=", ", prefix="tensor(", precision=digits, threshold=0 if cut else sys.maxsize,
        edgeitems=_options["edgeitems"], max_line_width=_options["linewidth"], suppress_small=moderate,
        formatter=formatter,
    )  # fmt: skip


def _at_ends(array: Any, cut: list[int], ends: int) -> Any:
    """The first and the last `ends` elements along each of the dimensions `cut`."""
    if not cut:
        return array
    before = (slice(None),) * cut[0]
    parts = [_at_ends(array[(*before, part)], cut[1:], ends) for part in (slice(ends), slice(-ends, None))]
    return backend.namespace(array).concatenate(parts, axis=cut[0])


def _moderate(values: np.ndarray) -> bool:
    """Whether the magnitudes are suitable for fixed-point notation."""
    if values.dtype.kind != "f" or values.size == 0:
        return True
    magnitudes = np.abs(values[np.isfinite(values) & (values != 0)].astype(np.float64))  # 1e8 overflows float16
    return magnitudes.size == 0 or bool(magnitudes.min() >= 1e-4 and magnitudes.max() < 1e8)
