"""The --device option, the `device` fixture, and a fixed seed for every test."""

import numpy as np
import pytest


def pytest_addoption(parser):
    parser.addoption("--device", choices=("cpu", "cuda"), default="cpu", help="where tensors live")


def pytest_configure(config):
    if config.getoption("device") == "cpu":
        return
    import autograd_gpu as ag

    if not ag.cuda.is_available():
        raise pytest.UsageError(
            "--device cuda needs CuPy and an NVIDIA driver that answers: install the extra [cuda12] or "
            "[cuda13] and look at `nvidia-smi`, or leave the option out to test on the CPU"
        )


def pytest_report_header(config):
    if config.getoption("device") == "cpu":
        return "device: cpu"
    import cupy

    gpu = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.runtime.getDevice())
    return f"device: cuda ({gpu['name'].decode()})"


def pytest_collection_modifyitems(config, items):
    if config.getoption("device") == "cpu":
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="needs a real CUDA device: run with --device cuda"))


@pytest.fixture(scope="session")
def device(request):
    """The device of this run, "cpu" or "cuda"; a test makes its tensors there."""
    return request.config.getoption("device")


@pytest.fixture(autouse=True)
def _seed():
    """Seed NumPy's global generator, so that a test sees the same numbers alone and in the whole suite."""
    np.random.seed(0)
