"""The checks in support/rank_checks/ on 2 and 4 ranks: many in one start of the processes."""

import pytest
import ranks

pytestmark = pytest.mark.cpu


@pytest.mark.parametrize(("count", "files"), [
    pytest.param(2, ["collectives", "differentiable", "data_parallel", "failing"], id="2"),
    pytest.param(4, ["collectives", "differentiable"], id="4"),
    pytest.param(4, ["data_parallel"], id="4-data_parallel", marks=pytest.mark.more),
])  # fmt: skip
def test_on_the_cpu(count, files, tmp_path):
    ranks.run_checks(files, count, tmp_path)


@pytest.mark.parametrize("backend", ["mpi", "nccl"])
def test_on_emulated_devices(backend, tmp_path):
    """Arrays are staged through page-locked memory for MPI; NCCL is a stand-in with its rules."""
    ranks.run_checks(["collectives", "on_device"], 2, tmp_path, CHECKS_ON=f"cuda {backend}",
                     AUTOGRAD_GPU_EMU_DEVICES="2", AUTOGRAD_GPU_EMU_SCHEDULE="eager")  # fmt: skip
