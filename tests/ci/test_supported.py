"""ci/supported.py: which Python and NumPy CI runs on."""

import importlib.util
import re
import sys

import pytest
from checkout import ROOT

pytestmark = pytest.mark.cpu

PROJECT = {
    "dependencies": ["scipy>=1.13", "numpy>=2.1.2,<2.6"],
    "classifiers": [f"Programming Language :: Python :: 3{end}" for end in (".13", "", ".9")] + ["Typing :: Typed"],
}


@pytest.fixture(scope="module")
def supported():
    spec = importlib.util.spec_from_file_location("supported", ROOT / "ci" / "supported.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def interpreter(folder, minor, text):
    """A python3.`minor` that prints `text`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"python3.{minor}"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_bounds_are_the_projects(supported):
    assert supported.lowest_numpy(PROJECT) == "numpy==2.1.2"
    assert supported.versions(PROJECT) == [9, 13]


def test_an_interpreter_is_one_that_runs(supported, tmp_path):
    """The first in PATH is a stub that refuses, as pyenv's are; the second says another version; pyenv has it."""
    interpreter(tmp_path / "stubs", 13, "exit 127")
    interpreter(tmp_path / "other", 13, "echo 12")
    right = interpreter(tmp_path / "pyenv" / "versions" / "3.13.0" / "bin", 13, "echo 13")
    environment = {"PATH": f"{tmp_path}/stubs:{tmp_path}/other:{tmp_path}/none", "PYENV_ROOT": f"{tmp_path}/pyenv"}
    assert supported.interpreter(13, environment) == right
    assert supported.interpreter(12, environment) is None
    first = interpreter(tmp_path / "stubs", 13, "echo 13")
    assert supported.interpreter(13, environment) == first


def test_ends(supported, monkeypatch):
    monkeypatch.setattr(supported, "interpreter", {9: "old", 13: "new"}.get)
    assert supported.ends(PROJECT) == ((9, "old"), (13, "new"))
    monkeypatch.setattr(supported, "interpreter", {13: "new"}.get)
    assert supported.ends(PROJECT) == ((13, "new"), (13, "new"))
    monkeypatch.setattr(supported, "interpreter", {}.get)
    with pytest.raises(SystemExit, match=re.escape("none of Python 3.[9, 13]")):
        supported.ends(PROJECT)


def test_a_single_version_is_told(supported, monkeypatch, capsys):
    monkeypatch.setattr(supported, "ends", lambda project: ((11, "python"), (11, "python")))
    monkeypatch.setattr(sys, "argv", ["supported.py", "newest"])
    supported.main()
    said = capsys.readouterr()
    assert said.out == "python\n"
    assert "the only supported one here" in said.err
