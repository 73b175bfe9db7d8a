"""The checks in support/rank_checks/ on 2 and 4 ranks: many in one start of the processes."""

import os
import re

import pytest
import ranks
from checkout import STAND_IN

pytestmark = pytest.mark.cpu


@pytest.mark.parametrize(("count", "files"), [
    pytest.param(2, ["collectives", "written", "differentiable", "data_parallel", "wrapped_module", "failing"], id="2"),
    pytest.param(4, ["collectives", "differentiable"], id="4"),
    pytest.param(4, ["written", "data_parallel", "wrapped_module"], id="4-data_parallel", marks=pytest.mark.more),
])  # fmt: skip
def test_on_the_cpu(count, files, tmp_path):
    ranks.run_checks(files, count, tmp_path)


@pytest.mark.parametrize("backend", ["mpi", "nccl"])
def test_on_emulated_devices(backend, tmp_path):
    """Arrays are staged through page-locked memory for MPI; NCCL is a stand-in with its rules."""
    ranks.run_checks(["collectives", "on_device"], 2, tmp_path, CHECKS_ON=f"cuda {backend}",
                     AUTOGRAD_GPU_EMU_DEVICES="2", AUTOGRAD_GPU_EMU_SCHEDULE="eager")  # fmt: skip


@pytest.mark.parametrize("device", [pytest.param("cpu", marks=pytest.mark.more), "cuda"])
def test_a_program_for_pytorch(device, tmp_path):
    settings = {}
    if device == "cuda":
        settings = {"PYTHONPATH": f"{STAND_IN}{os.pathsep}{ranks.ROOT}", "AUTOGRAD_GPU_EMU_DEVICES": "2",
                    "AUTOGRAD_GPU_EMU_SCHEDULE": "eager", "PROGRAM_BACKEND": "nccl"}  # fmt: skip
    status, out, err = ranks.run(2, ranks.CHECKS / "torch_program.py", tmp_path, **settings)
    assert status == 0, err
    # The ranks write the line and its end apart, so two lines may come as one.
    assert sorted(re.findall(r"rank \d has resumed", out)) == ["rank 0 has resumed", "rank 1 has resumed"]
    assert not re.sub(r"rank \d has resumed|\n", "", out)
    assert err.count("there is no gloo here") == (2 if device == "cpu" else 0)
