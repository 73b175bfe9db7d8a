"""What tests of kernels start from, and which of them `make test` runs: float32, one order of blocks and threads."""

from pathlib import Path

import pytest
from emulated import DTYPES, ORDERS

import autograd_gpu as ag
from autograd_gpu import backend

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent == HERE and hasattr(item, "callspec") and _is_variation(item.callspec.params):
            item.add_marker(pytest.mark.more)


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
