"""Every example that a user may read runs: docstrings of the package, code of the README and of the guides."""

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
TEXTS = {path.name: path.read_text() for path in sorted((ROOT / "docs").glob("*.md"))}
PROGRAMS = {
    name: "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    for name, text in [("README.md", (ROOT / "README.md").read_text()), *TEXTS.items()]
    if "```python\n" in text and name != "new-op.md"
}
GUIDES = {name: text for name, text in TEXTS.items() if "```pycon\n" in text}
SESSION = re.compile(r"```pycon\n(.*?)```", re.DOTALL)
SECTION = re.compile(r"^(?:## )?(.*?)\n(.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE)
# By guide and title: the head of a guide and the sections with sessions, without the first session, which begins all.
SECTIONS = {
    (name, title): text
    for name, guide in GUIDES.items()
    for title, text in SECTION.findall(SESSION.sub("", guide, 1))
    if SESSION.search(text) or title.startswith("# ")
}
ON_CUDA = {name for name, guide in GUIDES.items() if '>>> device = "cuda"' in SESSION.findall(guide)[0]}


@cpu
@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    ag.manual_seed(0)
    for test in doctest.DocTestFinder(exclude_empty=True).find(module, globs={"ag": ag, "np": np}):
        runner.run(test)
    assert runner.summarize(verbose=False).failed == 0


def printed_by(code):
    """The lines that a program prints in a process of its own, where warnings are errors."""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@cpu
def test_readme():
    error = float(re.search(r"largest error ([0-9.]+)", "\n".join(printed_by(PROGRAMS["README.md"])))[1])
    assert error < 0.01  # the README says 0.0040
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


@cpu
@pytest.mark.parametrize("page", [page for page in PROGRAMS if page != "README.md"])
def test_programs_print_what_their_comments_say(page):
    """The blocks of a page in order, in one process."""
    promised = re.findall(r"^ *print\(.*\) +# (.*)", PROGRAMS[page], re.MULTILINE)
    assert promised
    assert printed_by(PROGRAMS[page]) == promised


@cpu
def test_code_is_run():
    """Each block is a session, a program, or of a kind that is no Python; new-op.md has a test of its own."""
    languages = {name: set(re.findall(r"^```(\w+)$", text, re.MULTILINE)) for name, text in TEXTS.items()}
    del languages["new-op.md"]
    assert set().union(*languages.values()) <= {"pycon", "python", "text", "sh"}
    assert {name for name, used in languages.items() if "python" in used} == {*PROGRAMS} - {"README.md"}
    for name, guide in GUIDES.items():
        in_sections = sum(len(SESSION.findall(text)) for (page, _), text in SECTIONS.items() if page == name)
        assert 1 + in_sections == len(SESSION.findall(guide)), name


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
