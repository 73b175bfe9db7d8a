"""docs/from-pytorch.md: what its tables name is here, is PyTorch's, or raises the error that they state."""

import functools
import importlib
import inspect
import re

import pytest
from checkout import ROOT

import autograd_gpu as ag

pytestmark = pytest.mark.cpu

PAGE = (ROOT / "docs" / "from-pytorch.md").read_text()
TABLES = {
    title: [tuple(cell.strip() for cell in line.strip("|").split(" | ")) for line in text.splitlines()
            if line.startswith("| ") and not line.startswith("| ---")][1:]
    for title, text in re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    if "\n| " in text
}  # fmt: skip
HERE = ["The same", "Accepted, with little effect"]
NO_NAME = re.compile(r'[.\w]*(?:=|\s)|"|\(')  # code that is no name: an expression


def names(cell):
    return [name for name in re.findall(r"`([^`]+)`", cell) if not NO_NAME.search(name)]


def step(actual, name):
    if inspect.ismodule(actual) and not hasattr(actual, name):
        return importlib.import_module(f"{actual.__name__}.{name}")
    return getattr(actual, name)


def find(module, name):
    return functools.reduce(step, name.split("."), module)


def test_the_page_has_its_tables():
    assert {title: len(rows) > 3 for title, rows in TABLES.items()} == dict.fromkeys(
        ["The same", "Another name", "What differs", *HERE[1:], "Not here"], True)
    assert "docs/from-pytorch.md" in (ROOT / "README.md").read_text().split("## ")[0]


def of(title, column):
    return sorted({name for row in TABLES[title] for name in names(row[column]) if name != "state_dict"})


@pytest.mark.parametrize("name", of("The same", 1) + of("Accepted, with little effect", 0) + of("Another name", 1))
def test_what_is_here(name):
    module = ag.nn.Module() if name.startswith("_") and name != "_foreach_add_" else ag
    if name == "Tensor.array":
        assert ag.ones(1).array is not None
    else:
        find(module, name)


@pytest.mark.parametrize("name", of("The same", 1) + of("Accepted, with little effect", 0) + of("Another name", 0))
def test_it_is_pytorchs(name):
    torch = pytest.importorskip("torch")
    find(torch.nn.Module() if name in ("_parameters", "_buffers", "_modules", "_apply", "_load_from_state_dict")
         else torch, name)  # fmt: skip


@pytest.mark.parametrize("row", TABLES["Not here"], ids=lambda row: row[0][:40])
def test_what_is_not_here_raises_the_stated_error(row):
    for name in names(row[0]):
        owner, _, last = name.rpartition(".")
        result = ag.ones(1) if owner == "Tensor" else find(ag, owner) if owner else ag
        assert error_of(result, last).endswith(f": {row[1]}")


def error_of(owner, name):
    """The error of reading the attribute, or of calling it, if it is a placeholder or a module of placeholders."""
    try:
        there = getattr(owner, name)
    except AttributeError as error:
        return str(error)
    if inspect.ismodule(there):
        there = getattr(there, there.__all__[0])
    with pytest.raises(NotImplementedError) as error:
        there()
    return str(error.value)


def test_every_explanation_is_on_the_page():
    assert [text for text, _ in ag.missing_names.REASONS if f"| {text} |" not in PAGE] == []
