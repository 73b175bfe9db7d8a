"""Every example that a user may read runs: docstrings of the package, code of the README."""

import ast
import doctest
import importlib
import pkgutil
import re
import subprocess
import sys

import numpy as np
import pytest
from checkout import ROOT

import autograd_gpu as ag

cpu = pytest.mark.cpu
MODULES = sorted(m.name for m in pkgutil.walk_packages(ag.__path__, "autograd_gpu."))
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
GUIDES = {
    name: (ROOT / "docs" / name).read_text()
    for name in ("autograd.md", "distributions.md", "foreach.md", "formulas.md", "graphs.md", "hessian.md",
                 "life-of-a-call.md", "memory.md", "optimizers.md", "transforms.md")
}
SECTIONS = {
    (name, title): text
    for name, guide in GUIDES.items()
    for title, text in re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", guide, re.DOTALL | re.MULTILINE)
}
ON_CUDA = {"graphs.md"}
SESSION = re.compile(r"```pycon\n(.*?)```", re.DOTALL)


@cpu
@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    ag.manual_seed(0)
    for test in doctest.DocTestFinder(exclude_empty=True).find(module, globs={"ag": ag, "np": np}):
        runner.run(test)
    assert runner.summarize(verbose=False).failed == 0


@cpu
def test_readme():
    """The blocks in order, in one process, print what their comments say; the first leaves what the second needs."""
    assert len(BLOCKS) >= 2
    code = "\n".join(BLOCKS)
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    error = float(re.search(r"largest error ([0-9.]+)", done.stdout).group(1))
    assert error < 0.01  # the README says 0.0040
    promised = re.findall(r"^print\(.*\) +# (\{.*?\})", code, re.MULTILINE)
    assert len(promised) >= 2
    printed = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert [*map(ast.literal_eval, printed)] == [*map(ast.literal_eval, promised)]


@cpu
def test_public_functions_have_docstrings():
    bare = [name for name in ag.__all__ if callable(getattr(ag, name)) and not getattr(ag, name).__doc__]
    assert not bare


class OnAnyDevice(doctest.OutputChecker):
    """The guide shows what the CPU prints; elsewhere tensors say where they are."""

    def check_output(self, want, got, optionflags):
        return super().check_output(want, re.sub(r", device='cuda:0'|(?<=\])cuda:0", "", got), optionflags)


@pytest.mark.parametrize(("guide", "section"), [
    pytest.param(*key, marks=[pytest.mark.cuda] if key[0] in ON_CUDA else []) for key in SECTIONS
])  # fmt: skip
def test_guide(guide, section, device):
    """Each section of a guide runs after its head alone, on the device of this run, and prints what it shows."""
    session = SESSION.findall(GUIDES[guide])[0] + "".join(SESSION.findall(SECTIONS[guide, section]))
    test = doctest.DocTestParser().get_doctest(session, {}, section, None, 0)
    said = []
    runner = doctest.DocTestRunner(OnAnyDevice(), optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    ag.manual_seed(0)
    runner.run(test, out=said.append)
    assert not runner.failures, "".join(said)


def anchors(page):
    """What GitHub calls the headings of a page."""
    titles = re.findall(r"^#+ (.*)", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


PAGES = ["README.md", "CONTRIBUTING.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))]


@cpu
@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name):
    for file, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", (ROOT / name).read_text()):
        page = (ROOT / name).parent / file if file else ROOT / name
        assert page.exists(), file
        assert not anchor or anchor in anchors(page), anchor


TOPS = [ROOT / top for top in ("autograd_gpu", "kernels", "tests", "benchmarks", "ci", "docs")]
FOLDERS = [ROOT, *TOPS, *(path for top in TOPS for path in top.rglob("*/"))]
FILE = r"`([\w./-]+\.(?:py|cu|cuh|sh|h))`"


def files_of(path):
    """The files that a page may mean by `path`: written from the root, from a top folder, or from any folder."""
    return [file for folder in FOLDERS if (file := folder / path).is_file()]


@cpu
@pytest.mark.parametrize("name", PAGES)
def test_files_exist(name):
    text = (ROOT / name).read_text()
    assert [path for path in re.findall(FILE, text) if not files_of(path) and "gaussian" not in path] == []  # new-op.md


@cpu
@pytest.mark.parametrize("name", PAGES)
def test_functions_stand_in_the_file_that_a_page_names(name):
    """Pairs: `function`, `file`, and `function` in `file`."""
    pairs = re.findall(rf"`([A-Za-z_][\w.]*)`(?:,| in) {FILE}", (ROOT / name).read_text())
    missing = []
    for function, path in [(function, path) for function, path in pairs if not function.endswith(".py")]:
        words = [rf"\b{word}\b" for word in function.split(".")]
        sources = [file.read_text() for file in files_of(path)]
        if not any(all(re.search(word, source) for word in words) for source in sources):
            missing.append((function, path))
    assert missing == []


@cpu
@pytest.mark.parametrize("name", PAGES)
def test_lines_have_at_most_120_columns(name):
    """Except for rows of tables, which cannot be broken."""
    lines = (ROOT / name).read_text().splitlines()
    assert [line for line in lines if len(line) > 120 and not line.startswith("|")] == []
