"""The kernels of layer_norm.cu on emulated threads, launched as backend/kernels/layer_norm.py does."""

import emulated
from emulated import Placed, unset, width_of

from autograd_gpu.backend import kernels
from autograd_gpu.backend.kernels.layer_norm import distance

PARTS = 264  # blocks of layer_norm_backward at once on an H100


def _instance(kernel, dtype, width):
    return f"{kernel}<{kernels.C_NAMES[dtype]}, {width}>"


def _placed(array, offset=0):
    return None if array is None else Placed(array, offset)


def forward(x, weight=None, bias=None, eps=1e-5, centered=True, offset=0, blocks=None, **how):
    """Result, mean and rstd; of an RMS norm the mean is None."""
    (rows, cols), width, wide = x.shape, width_of(x, offset), kernels.wide(x.dtype)
    (turns, _), block = kernels.row_turns(rows, cols, width, x.itemsize)
    out, mean, rstd = unset(x.shape, x.dtype, offset), unset((rows, 1), wide), unset((rows, 1), wide)
    emulated.launch(
        _instance("layer_norm", x.dtype, width), ((min(turns, blocks or turns), 1), block), Placed(x, offset),
        _placed(weight, offset), _placed(bias, offset), out, mean if centered else None, rstd, eps, rows, cols, **how,
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


def backward(g, x, weight, mean, rstd, need=(True, True), offset=0, parts=None, **how):
    """dx, dweight and dbias in one launch; `need` is about the last two."""
    (rows, cols), width = x.shape, width_of(x, offset)
    (turns, _), block = kernels.row_turns(rows, cols, width, x.itemsize, PARTS if any(need) else None)
    parts = parts or turns
    dx, sums = unset(x.shape, x.dtype, offset), _sums(cols, x.dtype, need, parts)
    emulated.launch(
        _instance("layer_norm_backward", x.dtype, width), ((parts, 1), block), Placed(g, offset), Placed(x, offset),
        _placed(weight, offset), _placed(mean), Placed(rstd), dx, *sums, rows, cols, **how,
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
