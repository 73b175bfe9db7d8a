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
    (turns, usual_parts), block = kernels.row_turns(rows, cols, width, x.itemsize, multiprocessors=MULTIPROCESSORS)
    blocks, parts, actual, inputs = min(turns, blocks or turns), shared or usual_parts, None, Placed(x, offset)
    out, mean, rstd = unset(x.shape, x.dtype, offset), unset((rows, 1), wide), unset((rows, 1), wide)
    if parts > 1:
        actual, first = unset((rows, parts, 3), wide), _instance("layer_norm_parts", x.dtype, width)
        emulated.launch(first, ((turns, parts), block), inputs, actual, int(centered), rows, cols, **how)
    emulated.launch(
        _instance("layer_norm", x.dtype, width), ((blocks, parts), block), inputs, _placed(weight, offset),
        _placed(bias, offset), actual, out, mean if centered else None, rstd, eps, rows, cols, **how,
    )  # fmt: skip
    return out.result(), mean.result() if centered else None, rstd.result()


def _sums(cols, dtype, need, parts):
    """Places for dweight, dbias, and the sums of the grid's parts."""
    results = [unset((cols,), dtype) if needed else None for needed in need]
    length = distance(cols, dtype) + cols if all(need) else cols
    return *results, unset((parts, length), kernels.wide(dtype)) if parts > 1 and any(need) else None


def _totals(dweight, dbias, partials):
    if partials is None:
        return tuple(None if needed is None else needed.result() for needed in (dweight, dbias))
    sums, like = partials.result().sum(axis=0), (dweight or dbias).array
    cols = like.size
    starts = (0, len(sums) - cols)
    assert not sums[cols : len(sums) - cols].any()  # zeros between those of the weight and of the bias
    return tuple(
        None if needed is None else sums[start : start + cols].astype(like.dtype)
        for start, needed in zip(starts, (dweight, dbias), strict=True)
    )


def backward(g, x, weight, mean, rstd, need=(True, True), offset=0, parts=None, shared=None, **how):
    """dx, dweight and dbias; `need` is about the last two, which want one block to a row."""
    (rows, cols), width = x.shape, width_of(x, offset)
    most = PARTS if any(need) else None
    (turns, usual_parts), block = kernels.row_turns(rows, cols, width, x.itemsize, most, MULTIPROCESSORS)
    parts, shared, actual = parts or turns, shared or usual_parts, None
    dx, sums = unset(x.shape, x.dtype, offset), _sums(cols, x.dtype, need, parts)
    inputs = Placed(g, offset), Placed(x, offset), _placed(weight, offset), _placed(mean), Placed(rstd)
    if shared > 1:
        actual, first = unset((rows, shared, 2), kernels.wide(x.dtype)), "layer_norm_backward_parts"
        emulated.launch(_instance(first, x.dtype, width), ((turns, shared), block), *inputs, actual, rows, cols, **how)
    emulated.launch(
        _instance("layer_norm_backward", x.dtype, width), ((parts, shared), block), *inputs, actual, dx, *sums, rows,
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
