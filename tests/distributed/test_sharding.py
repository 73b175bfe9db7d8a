"""Optimizers and derivatives that ranks share: the checks in support/rank_checks/ on 2 and 4 ranks."""

import pytest
import ranks

pytestmark = pytest.mark.cpu


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.more)])
def test_what_is_shared_by_ranks(count, tmp_path):
    ranks.run_checks(["sharded_optimizers", "sharded_hessians"], count, tmp_path)


@pytest.mark.more
@pytest.mark.parametrize("backend", ["mpi", "nccl"])
def test_on_emulated_devices(backend, tmp_path):
    ranks.run_checks(["sharded_on_device"], 2, tmp_path, CHECKS_ON=f"cuda {backend}", AUTOGRAD_GPU_EMU_DEVICES="2",
                     AUTOGRAD_GPU_EMU_SCHEDULE="eager")  # fmt: skip
