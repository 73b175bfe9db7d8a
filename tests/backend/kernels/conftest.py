"""What tests of kernels start from, and which of them `make test` runs.

Those are float32 in one order of blocks and threads, and of the checks for races one of each test function.
"""

from pathlib import Path

import pytest
from emulated import DTYPES, ORDERS

import autograd_gpu as ag
from autograd_gpu import backend

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items):
    raced = set()
    for item in items:
        if item.path.parent == HERE and hasattr(item, "callspec"):
            test = item.path, item.originalname
            if _is_variation(item.callspec.params) or test in raced:
                item.add_marker(pytest.mark.more)
            elif item.originalname.startswith("test_no_race"):
                raced.add(test)


def _is_variation(params):
    """Whether a test runs another dtype than float32 or another order than the first."""
    dtypes = [params["dtype"]] if "dtype" in params else list(params.get("pair", ()))[:1]
    return any(str(dtype) != "float32" for dtype in dtypes) or params.get("order", ORDERS[0]) != ORDERS[0]


@pytest.fixture
def xp():
    """CuPy, or its stand-in."""
    return backend.namespace_on(ag.device("cuda"))


@pytest.fixture(params=DTYPES, ids=str)
def dtype(request):
    return request.param
