"""docs/from-jax.md: what its table names is here, and is JAX's where JAX is installed."""

import functools
import re

import pytest
from checkout import ROOT

import autograd_gpu as ag

pytestmark = pytest.mark.cpu

TABLE = (ROOT / "docs" / "from-jax.md").read_text().split("## Names")[1].split("\n## ")[0]
ROWS = [line.strip("|").split(" | ") for line in TABLE.splitlines() if line.startswith("| `")]


def names(column):
    return [name for row in ROWS for name in re.findall(r"`([^`]+)`", row[column])]


def find(module, name):
    return functools.reduce(getattr, name.split("."), module)


def test_names():
    assert len(ROWS) > 10
    jax = pytest.importorskip("jax")
    for name in names(0):
        find(jax, name)


@pytest.mark.parametrize("name", names(1))
def test_what_is_here(name):
    find(ag, name)
