"""Writes the stubs of tensor, ops, foreach, linalg, special and nn.functional: what type checkers and editors see.

Tensor's methods and the public functions are derived from the ops' declarations at import, and a class decorator turns
each op's block into a function: neither is visible to a type checker. `python ci/write_stubs.py` writes the files
anew; with --check it fails if they differ.
"""

from __future__ import annotations

import ast
import inspect
import pathlib
import re
import sys
from typing import Any

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from autograd_gpu import foreach, linalg, ops, special  # noqa: E402
from autograd_gpu.core.codegen import keywords  # noqa: E402
from autograd_gpu.core.declare.op import OpDef  # noqa: E402
from autograd_gpu.nn import functional  # noqa: E402
from autograd_gpu.ops import binding  # noqa: E402
from autograd_gpu.ops.creation import tensor_types  # noqa: E402
from ci.written import write  # noqa: E402

REQUIRED = inspect.Parameter.empty
HEADER = '"""Written by ci/write_stubs.py; do not edit."""\n\n'
TENSOR, OPS = ROOT / "autograd_gpu/core/tensor.pyi", ROOT / "autograd_gpu/ops/__init__.pyi"
FOREACH = ROOT / "autograd_gpu/foreach.pyi"
LINALG, SPECIAL = ROOT / "autograd_gpu/linalg.pyi", ROOT / "autograd_gpu/special.pyi"
FUNCTIONAL = ROOT / "autograd_gpu/nn/functional.pyi"


def of_op(op: OpDef, method: bool) -> str:
    """(parameters) -> result of a generated function."""
    parts = []
    for i, name in enumerate(op.inputs):
        kind = "Sequence[TensorLike]" if op.variadic else "TensorLike"
        default = " | None = None" if name in op.optional else ""
        parts.append("self" if method and i == 0 else f"{op.parameter_names[name]}: {kind}{default}")
    starred = False
    for name, default in op.attributes.items():
        required = default is REQUIRED
        if required and op.optional and not starred:
            parts.append("*")
            starred = True
        required = required and name not in keywords.WORDS
        parts.append(f"{name}: Any" + ("" if required else f" = {shown(default)!r}"))
    parts += [f"{word}: Any = None" for word, _ in op.keyword_redirects]
    parts += [f"{word}: Any = ..." for word in keywords.written_defaults(op.attributes)[1]]
    if op.takes_out and not method:
        parts += [*([] if starred else ["*"]), "out: Any = None"]
    result = "Tensor" if op.outputs is None else "tuple[Tensor, ...]"
    return f"({', '.join(parts)}) -> {result}"


class Raw:
    """Source text as an annotation that inspect prints as it is."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def shown(default: Any) -> Any:
    """A default whose repr is source text in a stub; `...` for one that the signature does not have."""
    if default is REQUIRED:
        return Raw("...")
    return Raw(f"np.{default!r}") if isinstance(default, np.dtype) else default


class Builtins(ast.NodeTransformer):
    """bool -> builtins.bool, where Tensor has a method of that name."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Attribute(ast.Name("builtins"), node.id) if node.id in ("bool", "float", "int") else node


def of_function(function: Any, method: bool) -> str:
    """(parameters) -> result of a plain function, by its annotations."""
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    if method:
        parameters[0] = parameters[0].replace(name="self", annotation=inspect.Parameter.empty)
    empty = inspect.Parameter.empty
    parameters = [p if p.name == "self" else p.replace(annotation=Raw("Any" if p.annotation is empty else p.annotation))
                  for p in parameters]
    result = Raw("Any" if signature.return_annotation is empty else signature.return_annotation)
    return str(signature.replace(parameters=with_words(function, parameters), return_annotation=result))


def with_words(function: Any, parameters: list[inspect.Parameter]) -> list[inspect.Parameter]:
    """The parameters with other words for some behind them; what may be given by one of those gets a default."""
    taken = inspect.signature(function, follow_wrapped=False).parameters
    defaults = {p.name: p.default for p in parameters}
    changed, added = keywords.written_defaults(defaults)
    revised = [p if p.default is REQUIRED and p.name not in changed else p.replace(default=shown(p.default))
             for p in parameters]
    return revised + [inspect.Parameter(word, inspect.Parameter.KEYWORD_ONLY, default=Raw("..."), annotation=Raw("Any"))
                    for word in added if word in taken or "kwargs" in taken]


def signature_of(function: Any, method: bool) -> str:
    op = getattr(function, "op", None)
    return of_op(op, method) if op is not None else of_function(function, method)


def bound_methods() -> list[str]:
    """The lines of Tensor's bound methods."""
    named = {**binding.METHODS, **{f"__{name}__": function for name, function in binding.OPERATORS.items()}}
    lines = [f"def {name}{signature_of(function, True)}: ..." for name, function in sorted(named.items())]
    operators = [*binding.BINARY, *[f"r{name}" for name in binding.BINARY], *binding.COMPARISONS]
    operators += [*[f"i{name}" for name in binding.IN_PLACE], "matmul", "rmatmul"]
    lines += [f"def __{name}__(self, other: TensorLike) -> Tensor: ..." for name in operators]
    properties = binding.PROPERTIES.items()
    lines += [f"@property\ndef {name}{signature_of(function, True)}: ..." for name, function in properties]
    lines.append(f"def __new__{of_function(tensor_types.construct, False)}: ...")
    lines.append("def __iter__(self) -> Iterator[Tensor]: ...")
    lines.append("def backward(self, gradient: Tensor | None = None, retain_graph: bool | None = None, "
                 "create_graph: bool = False, inputs: Any = None) -> None: ...")
    return lines


class Stubber(ast.NodeTransformer):
    """Bodies become `...`; private helpers stay, since other modules of the package use them."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.body = [ast.Expr(ast.Constant(...))]
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        kept = [b for b in node.body if isinstance(b, (ast.FunctionDef, ast.AnnAssign))]
        node.body = [self.visit(b) for b in kept] or [ast.Expr(ast.Constant(...))]
        if node.name == "Tensor":
            node.body += [b for line in bound_methods() for b in ast.parse(line, type_comments=True).body]
            node = Builtins().visit(node)
        return node


def tensor_stub() -> str:
    tree = ast.parse((ROOT / "autograd_gpu/core/tensor.py").read_text())
    kept = [n for n in tree.body if isinstance(n, (ast.Import, ast.ImportFrom, ast.ClassDef, ast.FunctionDef))]
    body = "\n\n".join(ast.unparse(Stubber().visit(n)) for n in kept)
    extra = ("import builtins\nfrom collections.abc import Iterator, Sequence\n\n"
             "from .generator import GeneratorLike\n\nTensorLike = Any\n\n")
    body = re.sub(r"\bGenerator\b", "GeneratorLike", body)  # the class itself is in a layer above
    for name in ("__eq__", "__ne__"):  # elementwise, where object promises a bool
        line = f"    def {name}(self, other: TensorLike) -> Tensor:"
        body = body.replace(line, f"{line}  # type: ignore[override]")
    return HEADER + body.replace("\nclass Tensor", "\n" + extra + "class Tensor", 1) + "\n"


def functions_stub(module: Any, package: str) -> str:
    """The public functions of `module`, which reaches the top package by `package`."""
    public = {name: getattr(module, name) for name in sorted(module.__all__)}
    errors = [f"from {package}errors import {name}\n" for name, value in public.items() if isinstance(value, type)]
    functions = [(name, value) for name, value in public.items() if not isinstance(value, type)]
    lines = [f"def {name}{signature_of(value, False)}: ..." for name, value in functions]
    head = ("from collections.abc import Callable, Sequence\nfrom typing import Any\n\nimport numpy as np\n\n"
            f"from {package}backend.arrays.device import Device\nfrom {package}core.tensor import Tensor\n"
            f"{''.join(errors)}from {package}random import Generator\n\nTensorLike = Any\n\n")
    return HEADER + head + "\n".join(lines) + f"\n\n__all__ = {list(public)!r}\n"


def main() -> int:
    texts = {
        TENSOR: tensor_stub(), OPS: functions_stub(ops, ".."), FOREACH: functions_stub(foreach, "."),
        LINALG: functions_stub(linalg, "."), SPECIAL: functions_stub(special, "."),
        FUNCTIONAL: functions_stub(functional, ".."),
    }  # fmt: skip
    return write(texts, "ci/write_stubs.py")


if __name__ == "__main__":
    sys.exit(main())
