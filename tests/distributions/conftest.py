"""PyTorch checks parameters and values: torch.compile, and what imports it, turn that off in the whole process."""

import sys

import pytest


@pytest.fixture(autouse=True)
def _pytorch_checks(monkeypatch):
    if "torch.distributions" in sys.modules:
        monkeypatch.setattr(sys.modules["torch.distributions"].Distribution, "_validate_args", True)
