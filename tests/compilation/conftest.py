"""Native code without waiting for many calls, and small blocks of rows."""

import pytest

from autograd_gpu.backend.cpu import large_products, rows
from autograd_gpu.backend.formulas.native import layers, runs, switch
from autograd_gpu.compilation import row_runs
from autograd_gpu.ops import layer_jets


@pytest.fixture
def at_once(monkeypatch):
    """Native code is compiled at the first call."""
    monkeypatch.setattr(switch, "LOADS", 1)
    monkeypatch.setattr(switch, "COMPILES", 1)


@pytest.fixture
def written(at_once, monkeypatch):
    """Native code at once, and blocks of 12 rows on two cores; the runs by blocks of rows that programs have."""
    pytest.importorskip("llvmlite", reason="needs the extra [native]")
    if not switch.is_on() or not runs.are_there():
        pytest.skip("native code is off")
    monkeypatch.setattr(layer_jets, "LEAST_BYTES", 0)
    monkeypatch.setattr(layer_jets, "FEWEST", 12)
    monkeypatch.setattr(layers, "BLOCK_BYTES", 1 << 10)
    monkeypatch.setattr(large_products, "are_shared", lambda: True)
    monkeypatch.setattr(rows, "cores", lambda: 2)
    listed, write = [], row_runs.RowRun.write
    monkeypatch.setattr(row_runs.RowRun, "write", lambda self: (listed.append(self), write(self)))
    return listed
