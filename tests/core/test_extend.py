"""core/extend.py: the one door through which the files of ops/ import from core."""

import ast

import pytest
from checkout import ROOT

from autograd_gpu.core import extend

pytestmark = pytest.mark.cpu

OPS = ROOT / "autograd_gpu" / "ops"


def imported():
    """(file, module, name) of what the files of ops/ import from core."""
    for path in sorted(OPS.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level and (node.module or "").startswith("core."):
                for name in node.names:
                    yield path.relative_to(OPS).as_posix(), node.module, name.name


def test_every_name_is_there_and_used():
    used = {name for _, module, name in imported() if module == "core.extend"}
    assert sorted(extend.__all__) == sorted(used)
    assert all(hasattr(extend, name) for name in extend.__all__)


def test_nothing_else_is_imported_from_core():
    others = {(path, module) for path, module, _ in imported() if module != "core.extend"}
    assert others == {("binding.py", "core.declare.public")}
