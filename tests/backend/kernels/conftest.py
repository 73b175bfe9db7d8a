"""What tests of kernels start from."""

import pytest
from emulated import DTYPES

import autograd_gpu as ag
from autograd_gpu import backend


@pytest.fixture
def xp():
    """CuPy, or its stand-in."""
    return backend.namespace_on(ag.device("cuda"))


@pytest.fixture(params=DTYPES, ids=str)
def dtype(request):
    return request.param
