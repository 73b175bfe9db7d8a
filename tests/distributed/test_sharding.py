"""Sharded optimizers and derivatives on 2 and 4 ranks: the checks in support/rank_checks/."""

import pytest
import ranks

pytestmark = pytest.mark.cpu


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.more)])
def test_what_is_spread_over_ranks(count, tmp_path):
    ranks.run_checks(["sharded_optimizers", "sharded_hessians"], count, tmp_path)
