"""Native code without waiting for many calls."""

import pytest

from autograd_gpu.backend.formulas.native import switch


@pytest.fixture
def at_once(monkeypatch):
    """Native code is compiled at the first call."""
    monkeypatch.setattr(switch, "LOADS", 1)
    monkeypatch.setattr(switch, "COMPILES", 1)
