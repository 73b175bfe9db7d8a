"""Padding: constant, reflect, replicate and circular."""

from __future__ import annotations

from collections.abc import Sequence

from ... import backend
from ...backend.arrays.dtypes import HALF, float32
from ...core.extend import LEADING, LINEAR, Tensor, defop, public, rank
from ..indexing.basic_index import FULL

# `pad` holds pairs (before, after), of the last dimension first; a negative number crops.


def _check_pairs(ndim, pad):
    if len(pad) % 2:
        raise RuntimeError(f"Padding length must be divisible by 2; got {len(pad)} sizes, {list(pad)}")
    if len(pad) > 2 * ndim:
        raise RuntimeError("Padding length should be less than or equal to two times the input dimension but got "
                           f"padding length {len(pad)} and input of dimension {ndim}")


def _constant_pad(xp, x, *, pad, value=0.0):
    _check_pairs(x.ndim, pad)
    shape, inside, kept = list(x.shape), [FULL] * x.ndim, [FULL] * x.ndim
    for i in range(len(pad) // 2):
        at, (before, after) = x.ndim - 1 - i, pad[2 * i : 2 * i + 2]
        shape[at] += before + after
        if shape[at] < 0:
            raise RuntimeError(f"The input size {x.shape[at]}, plus negative padding {before} and {after}, resulted in "
                               f"a negative output size, which is invalid. Check dimension {at} of your input.")
        if x.shape[at] + min(before, 0) + min(after, 0) < 0:
            raise RuntimeError("narrow(): length must be non-negative: the negative padding "
                               f"{before} and {after} takes more than the {x.shape[at]} elements along dimension {at}")
        inside[at] = slice(max(before, 0), shape[at] - max(after, 0))
        kept[at] = slice(max(-before, 0), x.shape[at] - max(-after, 0))
    out = xp.full(shape, value, x.dtype)
    out[tuple(inside)] = x[tuple(kept)]
    return out


@defop
class constant_pad:
    """x with `value` around it: pad[0] before and pad[1] after along the last dimension, pad[2] and pad[3] along
    the one before it, and so on. A negative size crops.

    >>> ag.pad(ag.ones(2), (1, 0))
    tensor([0., 1., 1.])
    """

    forward = _constant_pad
    def grad_x(F, g, pad): return F.constant_pad(g, [-size for size in pad])
    def jvp(F, t, pad): return F.constant_pad(t, pad)
    def batch(F, n, batched, x, *, pad, value):
        _check_pairs(rank(x, True), pad)
        return F.constant_pad(x, pad, value)
    torch = "constant_pad_nd"


# ---- reflect, replicate, circular ----------------------------------------------------------------------


def _edges(size, before, after, border):
    """The slices of a dimension of `size` that the padding before and after it copies."""
    if border == "reflect":
        return slice(before, 0, -1), slice(size - 2, size - 2 - after if size - 2 >= after else None, -1)
    if border == "circular":
        return slice(size - before, None), slice(after)
    return slice(0, 1), slice(size - 1, None)  # replicate: broadcasts


def _along(x, at, part):
    return x[(*(FULL,) * at, part)]


def _border_pad(xp, x, *, pad, border):
    for i in range(len(pad) // 2):
        at, (before, after) = x.ndim - 1 - i, pad[2 * i : 2 * i + 2]
        size = x.shape[at]
        out = xp.empty((*x.shape[:at], before + size + after, *x.shape[at + 1 :]), x.dtype)
        first, last = _edges(size, before, after, border)
        _along(out, at, slice(before, before + size))[...] = x
        if before:
            _along(out, at, slice(before))[...] = _along(x, at, first)
        if after:
            _along(out, at, slice(before + size, None))[...] = _along(x, at, last)
        x = out
    return x


def _border_pad_backward(xp, g, *, pad, border):
    dtype = g.dtype
    g = g.astype(float32) if dtype in HALF else g
    for i in reversed(range(len(pad) // 2)):
        at, (before, after) = g.ndim - 1 - i, pad[2 * i : 2 * i + 2]
        size = g.shape[at] - before - after
        out = xp.array(_along(g, at, slice(before, before + size)))
        for part, source in zip(_edges(size, before, after, border), (slice(before), slice(before + size, None)),
                                strict=True):
            edge = _along(g, at, source)
            if edge.size:
                _along(out, at, part)[...] += backend.total(xp, edge, at, True) if border == "replicate" else edge
        g = out
    return g.astype(dtype, copy=False)


@defop
class border_pad:
    """x padded with its own elements, see `pad`; the sizes in `pad` are not negative, and valid for x.

    >>> ag.pad(ag.tensor([[1.0, 2.0, 3.0]]), (2, 1), "reflect")
    tensor([[3., 2., 1., 2., 3., 2.]])
    """

    forward = _border_pad
    def grad_x(F, g, pad, border): return F.border_pad_backward(g, pad, border)
    jvp, batch = LINEAR, LEADING


@defop
class border_pad_backward:
    """The sum over all copies of each element in `border_pad`: its transpose.

    >>> from autograd_gpu.ops.nn.pad import border_pad_backward
    >>> border_pad_backward(ag.tensor([[1.0, 1.0, 1.0, 1.0]]), (2, 0), "replicate")
    tensor([[3., 1.]])
    """

    forward = _border_pad_backward
    def grad_g(F, g, pad, border): return F.border_pad(g, pad, border)
    jvp, batch = LINEAR, LEADING


@public("pad", "nn.functional.pad")
def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """input with padding: pad[0] elements before and pad[1] after along the last dimension, pad[2] and pad[3] along the
    second to last, and so on. A negative size crops.

    mode  "constant": `value`, default 0, along any number of dimensions;
          "reflect", "replicate", "circular": mirrored at its edges, its edges repeated, or continued at the other end,
          along the last 1, 2 or 3 dimensions of a tensor that has one or two more.

    >>> ag.pad(ag.ones(1, 1), (1, 0), value=5.0)
    tensor([[5., 1.]])
    """
    pad = tuple(pad)
    if mode == "constant":
        return constant_pad(input, pad, 0.0 if value is None else value)
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode!r}; use 'constant', 'reflect', 'replicate' or "
                                  "'circular'")
    if value is not None:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    _check_border(input, pad, mode)
    if min(pad) >= 0:
        return border_pad(input, pad, mode)
    grow, crop = tuple([max(size, 0) for size in pad]), tuple([min(size, 0) for size in pad])
    if mode == "circular":  # cropped elements do not appear at the other end
        return border_pad(constant_pad(input, crop), grow, mode)
    return constant_pad(border_pad(input, grow, mode), crop)


def _check_border(x: Tensor, pad: tuple[int, ...], mode: str) -> None:
    _check_pairs(x.ndim, pad)
    dims = len(pad) // 2
    if x.ndim not in (dims + 1, dims + 2) or dims not in (1, 2, 3):
        raise NotImplementedError("Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now: 2, 4 "
                                  f"or 6 sizes for a tensor with one or two dimensions more than they pad; got "
                                  f"{len(pad)} sizes for {x.ndim} dimensions")
    for i in range(dims):
        at, (before, after) = x.ndim - 1 - i, pad[2 * i : 2 * i + 2]
        size = x.shape[at]
        if mode == "reflect" and max(before, after) >= size:
            raise RuntimeError("Padding size should be less than the corresponding input dimension, but got: padding "
                               f"({before}, {after}) at dimension {at} of input {list(x.shape)}")
        kept = size + min(before, 0) + min(after, 0)
        if mode == "circular" and max(before, after) > kept:
            raise RuntimeError(f"Padding value causes wrapping around more than once: padding ({before}, {after}) at "
                               f"dimension {at} of input {list(x.shape)}")
        if size + before + after < (mode != "circular") or (mode == "replicate" and not size):
            raise RuntimeError(f"pad: mode {mode!r} leaves no element at dimension {at} of input {list(x.shape)} with "
                               f"padding ({before}, {after})")
