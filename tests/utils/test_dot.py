"""make_dot draws each node, leaf and arrow once, and needs Graphviz for pictures only."""

import re
import shutil

import pytest

import autograd_gpu as ag

pytestmark = pytest.mark.cpu


def drawn(dot):
    """(labels by name, arrows)"""
    boxes = re.findall(r'^\t(n\d+) \[label="(.*)" fillcolor=\w+\]$', dot.source, re.MULTILINE)
    assert len(dict(boxes)) == len(boxes)
    return dict(boxes), re.findall(r"^\t(n\d+) -> (n\d+)", dot.source, re.MULTILINE)


def test_shared_nodes_are_drawn_once():
    w = ag.ones(2, requires_grad=True)
    y = w.exp()
    boxes, arrows = drawn(ag.utils.make_dot([y * y + y, y], {"w": w}))
    assert sorted(boxes.values()) == [
        "(2)", "(2)", "AccumulateGrad", "AddBackward0", "ExpBackward0", "MulBackward0", r"w\n(2)",
    ]  # fmt: skip
    assert {name for arrow in arrows for name in arrow} == boxes.keys()
    assert len(arrows) == 8  # two for the square, and two results


def test_outputs_are_numbered():
    values, indices = ag.tensor([[1.0, 2.0]], requires_grad=True).max(1)
    a, b = ag.tensor([1.0, 2.0], requires_grad=True).unbind()
    assert "[label=1]" in ag.utils.make_dot(a * b).source
    assert drawn(ag.utils.make_dot([values, indices]))[0]["n0"] == "(1)"


def test_saved_values_are_shown_on_request():
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    loss = (x**3).sum()
    assert "exponent" not in ag.utils.make_dot(loss).source
    shown = ag.utils.make_dot(loss, show_attrs=True, show_saved=True)
    assert r"PowBackward0\nexponent: 3" in shown.source
    assert "style=dashed" in shown.source
    assert "orange" not in shown.source  # what is saved is the leaf
    saved = ag.utils.make_dot(x.exp().sum(), show_saved=True).source
    assert r'label="result\n(2)" fillcolor=orange' in saved


def test_a_deep_graph():
    x = ag.ones(1, requires_grad=True)
    y = x
    for _ in range(3000):
        y = y + 1
    assert ag.utils.make_dot(y).source.count("AddBackward0") == 3000


def test_a_constant_and_a_leaf():
    assert drawn(ag.utils.make_dot(ag.ones(3)))[0] == {"n0": "(3)"}
    assert "lightblue" in ag.utils.make_dot(ag.ones(3, requires_grad=True)).source


def test_pictures(tmp_path, monkeypatch):
    dot = ag.utils.make_dot(ag.ones(1, requires_grad=True) * 2)
    assert (tmp_path / "g.dot").exists() is False
    assert dot.save(tmp_path / "g.dot") == str(tmp_path / "g.dot")
    assert (tmp_path / "g.dot").read_text() == str(dot) == dot.source
    program = tmp_path / "dot"
    program.write_text("#!/bin/sh\necho $1; cat\n")
    program.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda name: str(program))
    path = dot.render(tmp_path / "g", format="svg")
    assert path == str(tmp_path / "g.svg")
    assert (tmp_path / "g.svg").read_text() == "-Tsvg\n" + dot.source
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(RuntimeError, match="Graphviz is not installed"):
        dot.render(tmp_path / "h")
