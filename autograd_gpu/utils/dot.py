"""make_dot: the graph behind a tensor as text for Graphviz."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..core.graph.leaf import AccumulateGrad
from ..core.graph.tensor_base import TensorBase
from ..core.tensor import Tensor

_COLOURS = {"result": "darkolivegreen1", "leaf": "lightblue", "node": "lightgray", "saved": "orange"}
_HEAD = "digraph {\n\tnode [fontname=monospace fontsize=10 height=0.2 shape=box style=filled]\n"


class Dot:
    """A graph in Graphviz's language.

    source   the text
    """

    def __init__(self, source: str) -> None:
        self.source = source

    def __str__(self) -> str:
        return self.source

    def save(self, filename: str | Path) -> str:
        """Writes the text into a file, and returns its path."""
        Path(filename).write_text(self.source)
        return str(filename)

    def render(self, filename: str | Path = "graph", format: str = "pdf") -> str:
        """Draws the graph with Graphviz's program `dot` into `filename.format`, and returns that path."""
        path = f"{filename}.{format}"
        Path(path).write_bytes(self.pipe(format))
        return path

    def pipe(self, format: str = "svg") -> bytes:
        """The picture; RuntimeError if Graphviz is not installed."""
        program = shutil.which("dot")
        if program is None:
            raise RuntimeError("the program `dot` of Graphviz is not installed: install it (apt install graphviz, brew "
                               "install graphviz), or give .source to a viewer")
        return subprocess.run([program, f"-T{format}"], input=self.source.encode(), stdout=subprocess.PIPE,
                              check=True).stdout  # fmt: skip


class _Drawing:
    """The lines of one graph. names: of tensors, by id."""

    def __init__(self, names: Mapping[int, str], show_attrs: bool, show_saved: bool, most: int) -> None:
        self.names, self.show_attrs, self.show_saved, self.most = names, show_attrs, show_saved, most
        self.lines: list[str] = []
        self.numbers: dict[int, int] = {}
        self.drawn: dict[int, Any] = {}  # keeps them alive, so that no id is given twice

    def name(self, x: Any) -> str:
        return f"n{self.numbers.setdefault(id(x), len(self.numbers))}"

    def box(self, x: Any, label: str, kind: str) -> str:
        """Draws a box, and returns its name."""
        self.drawn[id(x)] = x
        text = label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        self.lines.append(f'\t{self.name(x)} [label="{text}" fillcolor={_COLOURS[kind]}]')
        return self.name(x)

    def edge(self, tail: Any, head: Any, options: str = "") -> None:
        self.lines.append(f"\t{self.name(tail)} -> {self.name(head)}{options}")

    def tensor(self, x: TensorBase, kind: str, label: str = "") -> None:
        words = [label, self.names.get(id(x), ""), f"({', '.join(map(str, x.shape))})"]
        self.box(x, "\n".join(filter(None, words)), kind)

    def result(self, x: Tensor) -> None:
        """Draws a tensor that somebody holds, and all nodes behind it."""
        if id(x) in self.drawn:
            return
        self.tensor(x, "leaf" if x.is_leaf and x.requires_grad else "result")
        if x.grad_fn is not None:
            self.edge(x.grad_fn, x)
            self.nodes(x.grad_fn)

    def nodes(self, root: Any) -> None:
        """Draws the nodes from a root on, each once; without recursion, since graphs are deep."""
        waiting = [root]
        while waiting:
            node = waiting.pop()
            if id(node) in self.drawn:
                continue
            self.node(node)
            children = [(child, number) for child, number in node.next_functions if child is not None]
            for child, number in children:
                self.edge(child, node, f" [label={number}]" if number else "")
            waiting += [child for child, _ in reversed(children)]

    def node(self, node: Any) -> None:
        """Draws a node, with its leaf or with what it has saved."""
        saved = {key.removeprefix("_saved_"): getattr(node, key) for key in dir(node) if key.startswith("_saved_")} \
            if self.show_attrs or self.show_saved else {}
        plain = {key: str(value) for key, value in saved.items() if not _tensors_of(value)}
        lines = [f"{key}: {text[: self.most] + '...' * (len(text) > self.most)}" for key, text in plain.items()]
        self.box(node, "\n".join([node.name(), *(lines if self.show_attrs else [])]), "node")
        leaf = node.variable if isinstance(node, AccumulateGrad) else None
        if leaf is not None:  # somebody still holds it
            if id(leaf) not in self.drawn:
                self.tensor(leaf, "leaf")
            self.edge(leaf, node)
        for key, value in saved.items() if self.show_saved else ():
            for x in _tensors_of(value):
                if id(x) not in self.drawn:
                    self.tensor(x, "leaf" if x.is_leaf and x.requires_grad else "saved", key)
                self.edge(x, node, " [dir=none style=dashed]")


def _tensors_of(value: Any) -> list[Tensor]:
    values = value if isinstance(value, (list, tuple)) else [value]
    return [x for x in values if isinstance(x, Tensor)]


def make_dot(
    var: Tensor | Sequence[Tensor], params: Mapping[str, Tensor] | None = None, show_attrs: bool = False,
    show_saved: bool = False, max_attr_chars: int = 50,
) -> Dot:  # fmt: skip
    """The graph behind a tensor, or behind several, as text for Graphviz, which need not be installed for that.

    Results are green, leaves blue, saved tensors orange, nodes grey; arrows point forward. Arguments and picture are
    those of the package torchviz.

    params: names of tensors, such as dict(model.named_parameters()). show_attrs, show_saved: also what nodes have saved
    besides tensors, in at most `max_attr_chars` characters each; the tensors.

    >>> w = ag.ones(2, requires_grad=True)
    >>> print(ag.utils.make_dot((w * 3).sum(), {"w": w}))
    digraph {
        node [fontname=monospace fontsize=10 height=0.2 shape=box style=filled]
        n0 [label="()" fillcolor=darkolivegreen1]
        n1 -> n0
        n1 [label="SumBackward0" fillcolor=lightgray]
        n2 -> n1
        n2 [label="MulBackward0" fillcolor=lightgray]
        n3 -> n2
        n3 [label="AccumulateGrad" fillcolor=lightgray]
        n4 [label="w\\n(2)" fillcolor=lightblue]
        n4 -> n3
    }
    """
    drawing = _Drawing({id(x): name for name, x in (params or {}).items()}, show_attrs, show_saved, max_attr_chars)
    for x in [var] if isinstance(var, Tensor) else var:
        drawing.result(x)
    return Dot(_HEAD + "".join(f"{line}\n" for line in drawing.lines) + "}\n")
