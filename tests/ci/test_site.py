"""The documentation site: docstrings as Markdown, signatures, pages; one test builds it and checks links and names."""

import ast
import importlib.util
import inspect
import re
import subprocess
import sys

import numpy as np
import pytest
from checkout import ROOT

import autograd_gpu as ag

sys.path.insert(0, str(ROOT))
from ci.site import check, docstrings, gallery, modules, pages, reference

pytestmark = pytest.mark.cpu


def test_docstrings_are_plain_markdown():
    doc = """x * y_1[0] in `a*b`; <b>.

    * one_
    - two

    >>> f(*args)
    3

        code[*]

    Then [text](link).
    """
    assert docstrings.markdown(doc) == (
        r"x \* y\_1\[0\] in `a*b`; \<b\>." "\n\n" r"* one\_" "\n- two\n\n```pycon\n>>> f(*args)\n3\n```\n\n"
        "    code[*]\n\n" r"Then \[text\](link)."
    )
    assert docstrings.summary(doc) == r"x \* y\_1\[0\] in `a*b`; \<b\>."


def test_every_public_member_has_a_docstring():
    """Its own, or that of the method that it overrides."""
    classes = [(f"{path}.{name}", value) for path, module in modules.public_modules().items()
               for name, value in module.own.items() if modules.is_described(value) and inspect.isclass(value)]
    without = []
    for name, cls in classes:
        ours = [vars(base) for base in cls.__mro__ if base.__module__.startswith(modules.TOP)]
        keys = {key for base in ours for key, part in base.items() if key[0] != "_" and reference.is_member(part)}
        without += [f"{name}.{key}" for key in keys
                    if not any(reference.function_of(base[key]).__doc__ for base in ours if key in base)]
    assert not without


def stub(path):
    """name -> (parameters) -> result of each function of a stub."""
    tree = ast.parse((ROOT / "autograd_gpu" / path).read_text())
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return {f.name: f"({ast.unparse(f.args)}) -> {ast.unparse(f.returns)}" for f in functions}


@pytest.mark.parametrize(("module", "path"), [
    (ag, "ops/__init__.pyi"), (ag.linalg, "linalg.pyi"), (ag.foreach, "foreach.pyi"), (ag.special, "special.pyi"),
    (ag.nn.functional, "nn/functional.pyi"),
])  # fmt: skip
def test_signatures_are_those_of_the_stubs(module, path):
    def parsed(signature):
        return ast.unparse(ast.parse(f"def f{signature}: ...").body[0])

    shown = {name: parsed(docstrings.signature(getattr(module, name))) for name in stub(path)}
    assert shown == {name: parsed(signature) for name, signature in stub(path).items()}


def test_other_signatures_say_what_inspect_says():
    def function(x: "ag.Size", *, key: type = np.ndarray, hook=lambda x: x) -> "None": ...

    assert docstrings.signature(function) == "(x: ag.Size, *, key: type = ndarray, hook=...) -> None"
    assert docstrings.signature(ag.optim.SGD.step, True).startswith("(closure: Callable")
    assert docstrings.signature(dict) == "(...)"


def test_objects_have_one_place():
    found = modules.public_modules()
    homes = modules.home_of(found)
    assert homes[id(ag.vmap)] == "autograd_gpu.func.vmap"
    assert homes[id(ag.nn.Linear)] == "autograd_gpu.nn.Linear"
    assert homes[id(ag.absolute)] == "autograd_gpu.abs"
    assert homes[id(ag.cuda.max_memory_cached)] == "autograd_gpu.cuda.max_memory_reserved"
    described = [value for module in found.values() for value in module.own.values() if modules.is_described(value)]
    assert len(described) == len({id(value) for value in described})
    assert {id(v) for m in found.values() for v in m.names.values() if modules.is_described(v)} == homes.keys()


def test_what_is_written_of_a_class(tmp_path):
    names = reference.write(tmp_path)
    assert {"autograd_gpu.exp", "autograd_gpu.pi", "autograd_gpu.nn.Linear", "autograd_gpu.func.vmap"} <= {*names}
    page = (tmp_path / "Tensor.md").read_text()
    assert "{py:method} sum(dim: Any = None, keepdim: Any = False" in page
    assert "See {py:obj}`autograd_gpu.sum`" in page
    assert "{py:property} is_cuda" in page


def test_links_hold_in_the_site():
    text = "[a](../CONTRIBUTING.md#rules) [b](memory.md) [c](../benchmarks) [d](https://x.y/z) `[e](f.md)`"
    shown = pages.with_links("docs/hessian.md", text, lambda path: (ROOT / path).is_file())
    assert shown == "[a](CONTRIBUTING.md#rules) [b](memory.md) c [d](https://x.y/z) `[e](f.md)`"
    assert pages.with_links("CONTRIBUTING.md", "[a](docs/design.md)", lambda path: True) == "[a](design.md)"


def test_a_page_that_no_list_names_is_a_guide():
    index = (ROOT / pages.INDEX).read_text()
    assert "docs/memory.md" in pages.sources()
    contents = pages.with_contents(re.sub(r"\* \[Memory\].*\n", "", index), pages.sources())
    title = (ROOT / "docs/memory.md").read_text().partition("\n")[0].removeprefix("# ")
    guides = contents.split("## Guides")[1].split("\n## ")[0]
    assert f"* [{title}](memory.md)" in guides
    assert f"\n{title} <memory>\n" in contents.split(":caption: Guides")[1].split("```")[0]


def test_an_example_without_its_package_says_so(tmp_path):
    def of(code):
        command = [sys.executable, "-c", code]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        return gallery.Example("some", "Title: rest.", [], tmp_path, process)

    said = gallery.outcome(of("import sys; sys.exit(\"the examples need ase: pip install 'autograd-gpu[demo]'\")"))
    assert "need ase: pip install" in said
    with pytest.raises(RuntimeError, match=r"some\.py failed:(.|\n)*ZeroDivisionError"):
        gallery.outcome(of("1 / 0"))


def test_faults_are_found(tmp_path):
    (tmp_path / "reference").mkdir()
    (tmp_path / "reference/a.html").write_text('<p id="ag.here"></p><a href="../b.html#there">x</a>')
    (tmp_path / "b.html").write_text('<a href="c.html"></a><a href="reference/a.html#ag.here"></a><img src="d.png">')
    assert check.dead_links(tmp_path) == ["b.html: c.html", "b.html: d.png", "reference/a.html: ../b.html#there"]
    assert check.missing_names(tmp_path, ["ag.here", "ag.gone"]) == ["ag.gone"]


@pytest.mark.more
@pytest.mark.timeout(1200)
def test_the_site_builds():
    """In out/site, as `make docs` does: Sphinx does not warn, links lead somewhere, public names stand on a page."""
    for name in ("sphinx", "myst_parser", "furo"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"the site needs {name}: pip install -e '.[docs]'")
    done = subprocess.run([sys.executable, "-m", "ci.site"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert inspect.cleandoc(done.stdout).endswith("public names")
    if all(importlib.util.find_spec(name) for name in ("matplotlib", "threadpoolctl", "ase")):
        check_what_copper_printed((ROOT / "out/site-sources/gallery/potential.md").read_text())


def check_what_copper_printed(page):
    """Copper is learned, and its phonons are those of EMT: the gallery runs the example at its default size."""
    said = (r", (\S+) meV/A in forces with a spread of 8\d\d", r"of the forces by (\S+)\n",
            r"96 modes .* EMT's by (\S+) THz \(RMS\)")  # fmt: skip
    force, hessian, frequency = [float(re.search(text, page)[1]) for text in said]
    assert force < 300
    assert hessian < 1e-4
    assert frequency < 1
    assert "(potential/potential.png)" in page
