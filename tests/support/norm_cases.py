"""The kernels of layer_norm.cu on emulated threads, launched as backend/kernels/layer_norm.py does."""

import emulated
from emulated import Placed, unset, width_of

from autograd_gpu.backend import kernels
from autograd_gpu.backend.kernels.layer_norm import distance

MULTIPROCESSORS = 132  # of an H100
PARTS = 2 * MULTIPROCESSORS  # blocks of layer_norm_backward at once


def _instance(kernel, dtype, width):
    return f"{kernel}<{kernels.C_NAMES[dtype]}, {width}>"


def _placed(array, offset=0):
    return None if array is None else Placed(array, offset)


def forward(x, weight=None, bias=None, eps=1e-5, centered=True, offset=0, blocks=None, shared=None, **how):
    """Result, mean and rstd; of an RMS norm the mean is None. A row is `shared` by so many blocks."""
    (rows, cols), width, wide = x.shape, width_of(x, offset), kernels.wide(x.dtype)
    (turns, wanted), block = kernels.row_turns(rows, cols, width, x.itemsize, multiprocessors=MULTIPROCESSORS)
    blocks, parts, found, given = min(turns, blocks or turns), shared or wanted, None, Placed(x, offset)
    out, mean, rstd = unset(x.shape, x.dtype, offset), unset((rows, 1), wide), unset((rows, 1), wide)
    if parts > 1:
        found, first = unset((rows, parts, 3), wide), _instance("layer_norm_parts", x.dtype, width)
        emulated.launch(first, ((turns, parts), block), given, found, int(centered), rows, cols, **how)
    emulated.launch(
        _instance("layer_norm", x.dtype, width), ((blocks, parts), block), given, _placed(weight, offset),
        _placed(bias, offset), found, out, mean if centered else None, rstd, eps, rows, cols, **how,
    )  # fmt: skip
    return out.result(), mean.result() if centered else None, rstd.result()


def _sums(cols, dtype, wanted, parts):
    """Places for dweight, dbias, and the sums of the grid's parts."""
    found = [unset((cols,), dtype) if each else None for each in wanted]
    length = distance(cols, dtype) + cols if all(wanted) else cols
    return *found, unset((parts, length), kernels.wide(dtype)) if parts > 1 and any(wanted) else None


def _totals(dweight, dbias, partials):
    if partials is None:
        return tuple(None if each is None else each.result() for each in (dweight, dbias))
    sums, like = partials.result().sum(axis=0), (dweight or dbias).array
    cols = like.size
    starts = (0, len(sums) - cols)
    assert not sums[cols : len(sums) - cols].any()  # zeros between those of the weight and of the bias
    return tuple(
        None if each is None else sums[start : start + cols].astype(like.dtype)
        for start, each in zip(starts, (dweight, dbias), strict=True)
    )


def backward(g, x, weight, mean, rstd, need=(True, True), offset=0, parts=None, shared=None, **how):
    """dx, dweight and dbias; `need` is about the last two, which want one block to a row."""
    (rows, cols), width = x.shape, width_of(x, offset)
    most = PARTS if any(need) else None
    (turns, wanted), block = kernels.row_turns(rows, cols, width, x.itemsize, most, MULTIPROCESSORS)
    parts, shared, found = parts or turns, shared or wanted, None
    dx, sums = unset(x.shape, x.dtype, offset), _sums(cols, x.dtype, need, parts)
    given = Placed(g, offset), Placed(x, offset), _placed(weight, offset), _placed(mean), Placed(rstd)
    if shared > 1:
        found, first = unset((rows, shared, 2), kernels.wide(x.dtype)), "layer_norm_backward_parts"
        emulated.launch(_instance(first, x.dtype, width), ((turns, shared), block), *given, found, rows, cols, **how)
    emulated.launch(
        _instance("layer_norm_backward", x.dtype, width), ((parts, shared), block), *given, found, dx, *sums, rows,
        cols, **how,
    )  # fmt: skip
    return dx.result(), *_totals(*sums)


def parameters(g, x, mean, rstd, need=(True, True), offset=0, parts=None, **how):
    """dweight and dbias by themselves."""
    (rows, cols), width = x.shape, width_of(x, offset)
    (across, default), block = kernels.sum_tiles(rows, cols, width, x.itemsize)
    parts = parts or default
    sums = _sums(cols, x.dtype, need, parts)
    emulated.launch(
        _instance("layer_norm_parameters", x.dtype, width), ((across, parts), block), Placed(g, offset),
        Placed(x, offset), _placed(mean), Placed(rstd), *sums, rows, cols, **how,
    )  # fmt: skip
    return _totals(*sums)
