"""The second derivative of every op of the table, by `push` and `pull`, against differences of its jvp."""

import numpy as np
import pytest
import transformed_calls as calls
from op_rows import ROWS
from selection import first

import autograd_gpu as ag
from autograd_gpu import func
from autograd_gpu.core.declare.op import REGISTRY

pytestmark = pytest.mark.cpu

STEP = 1e-5


def patterns(at, alone):
    """Which inputs move: all of them together, or each of several alone."""
    if alone:
        return [[i] for i in at] if len(at) > 1 else []
    return [list(at)] if at else []


def along(call, moving, seed):
    """The call as a function of a vector s of two elements, which moves its inputs in two directions."""
    rng = np.random.default_rng(seed)
    plain = [ag.tensor(a) for a in call.examples[0]]
    directions = {i: [ag.tensor(rng.normal(size=plain[i].shape)) for _ in range(2)] for i in moving}
    live = calls.differentiable(call)

    def outputs(s):
        moved = [x + s[0] * directions[i][0] + s[1] * directions[i][1] if i in directions else x
                 for i, x in enumerate(plain)]
        outs = call.run(*moved)
        return [outs[i] for i in live]

    return outputs


def differences(outputs):
    """Central differences along s[1] of the derivatives along s[0] and s[1]: rows (0, 1) and (1, 1) of the Hessian."""
    def slope(point, direction):
        moved = func.jvp(outputs, (ag.tensor(point),), (ag.tensor(direction),))[1]
        return [t.numpy(force=True) for t in moved]

    seen = []
    for direction in ([1.0, 0.0], [0.0, 1.0]):
        up, down = slope([0.0, STEP], direction), slope([0.0, -STEP], direction)
        seen.append([(a - b) / (2 * STEP) for a, b in zip(up, down, strict=True)])
    return list(zip(*seen, strict=True))


def close(actual, expected, label):
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5 * (1 + abs(expected).max(initial=0)),
                               err_msg=label)


# A derivative is not implemented, in PyTorch as well.
UNKNOWN = {"zeta", "gammainc", "gammaincc", "gamma_slope", "histogram_of", "unique_all", "unique_runs",
           "unique_values"}
TABLE = [row for row in ROWS if row.op in REGISTRY and row.op not in UNKNOWN
         and not {"gradcheck", "gradgradcheck"} & set(row.skip)]


@pytest.mark.parametrize("alone", first([False, True]))
@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.op)
def test_second_derivatives(row, alone):
    for call in calls.of_row(row):
        for moving in patterns(calls.movable(call), alone) if calls.differentiable(call) else ():
            compare(call, moving)


def compare(call, moving):
    """The second derivatives along `moving` against differences."""
    outputs = along(call, moving, len(moving))
    if not all(out.is_floating_point() and out.numel() for out in outputs(ag.zeros(2, dtype=ag.float64))):
        return
    expected = differences(outputs)
    for method in ("push", "pull"):
        hessians = func.hessian(outputs, method=method)(ag.zeros(2, dtype=ag.float64))
        for h, (cross, second) in zip(hessians, expected, strict=True):
            label = f"{call.label}, {method}, inputs {moving}"
            close(h[..., 0, 1].numpy(force=True), cross, label)
            close(h[..., 1, 1].numpy(force=True), second, label)
