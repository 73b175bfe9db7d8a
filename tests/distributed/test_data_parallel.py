"""DistributedDataParallel on 2 and 4 ranks: the checks in support/rank_checks/data_parallel.py."""

import pytest
import ranks

pytestmark = pytest.mark.cpu


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.more)])
def test_data_parallel(count, tmp_path):
    ranks.run_checks(["data_parallel"], count, tmp_path)
