"""Fail on any import that breaks the layers of autograd_gpu: python ci/check_layers.py [repository root].

1. A module imports its own unit (a package, or a file at the top) or a unit with a LOWER number. Inside core each
   package and each file is a unit of its own.
2. No circle of imports at module level (one is shown at a time).
3. No import of autograd_gpu inside a function: that is how circles hide.
4. Only backend/cuda/runtime.py imports CuPy, so that one file knows whether there is a GPU.

A type-only import (`if TYPE_CHECKING:`) obeys the same rules, and so does a stub: the imports of `x.pyi` are imports of
the module x.
"""

import ast
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

PACKAGE, CUPY = "autograd_gpu", {"cupy", "cupyx", "cupy_backends"}
LAYERS = {
    "errors": 0, "modes": 0, "pytrees": 0, "deterministic": 0, "missing_names": 0.1, "backend": 1,
    "core": 2, "core.generator": 2.1, "core.size": 2.1, "core.graph": 2.2, "core.declare": 2.3,
    "core.thread_state": 2.3, "core.history": 2.4, "core.interop": 2.5, "core.printing": 2.5,
    "core.tensor": 2.6, "core.saved": 2.7, "core.codegen": 2.8, "core.engine": 2.8, "core.interpret": 2.85,
    "core.overrides": 2.85, "core.dispatch": 2.9, "core.extend": 2.95,
    "random": 3.1, "ops": 3.2,
    "autograd": 4.1, "hooks": 4.3, "foreach": 4.3, "amp": 4.4, "distributed": 4.4,
    "compilation": 4.9, "cuda": 5, "formulas": 5, "info": 5, "linalg": 5, "logging": 5, "profiler": 5, "special": 5,
    "testing": 5, "version": 5,
    "nn": 6, "utils": 6, "func": 6.05, "optim": 6.1, "distributions": 6.2,
    "compat": 6.5,
    "": 7, "__main__": 8,  # "" is autograd_gpu/__init__.py, which shows everything to the user
}  # fmt: skip


def unit(module):
    parts = module.split(".")[1:]
    return ".".join(parts[: 2 if parts[:1] == ["core"] else 1])


def targets(node, package, known):
    """The modules that an import statement names; `from . import x` means the module x where there is one."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    parents = package.split(".")[: package.count(".") + 2 - node.level] if node.level else []
    base = ".".join([*parents, node.module] if node.module else parents)
    return [full if (full := f"{base}.{alias.name}") in known else base for alias in node.names]


def in_functions(tree):
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {n for function in functions for n in ast.walk(function)}


def check(root):
    """Return the violations below `root` as sorted (file, line, message) rows."""
    package = root / PACKAGE
    files = {}  # module -> its file and its stub
    for path in sorted([*package.rglob("*.py"), *package.rglob("*.pyi")]):
        module = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        files.setdefault(module, []).append(path)
    rows, graph = [], {module: {} for module in files}  # module -> what it imports -> (file, line)
    for module, path in [(module, path) for module, paths in files.items() for path in paths]:
        own, where = unit(module), path.relative_to(root).as_posix()
        if own not in LAYERS:
            rows.append((where, 1, f"{own} has no layer: give it a number in ci/check_layers.py"))
        tree = ast.parse(path.read_text(encoding="utf-8"), where)
        deferred = in_functions(tree)
        package = module if path.stem == "__init__" else module.rpartition(".")[0]
        statements = [n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)]
        for node, target in [(n, t) for n in statements for t in targets(n, package, files)]:
            top, there = target.split(".")[0], unit(target)
            if top in CUPY and module != f"{PACKAGE}.backend.cuda.runtime":
                rows.append((where, node.lineno, f"imports {target}: only backend/cuda/runtime.py may import CuPy"))
            if top != PACKAGE:
                continue
            if node in deferred:
                rows.append((where, node.lineno, f"imports {target} inside a function, not at the top"))
            else:
                graph[module].setdefault(target, (where, node.lineno))
            if own != there and LAYERS.get(own, 0) <= LAYERS.get(there, 9):
                numbers = f"layer {LAYERS.get(own)} imports {target} of layer {LAYERS.get(there)}"
                rows.append((where, node.lineno, numbers))
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:  # graphlib lists a circle from the imported to the importer
        circle = error.args[1][::-1]
        rows.append((*graph[circle[0]][circle[1]], "circular import: " + " -> ".join(circle)))
    return sorted(rows)


if __name__ == "__main__":
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    if not (root / PACKAGE).is_dir():
        sys.exit(f"{root} holds no {PACKAGE}/ to check")
    violations = check(root)
    for where, line, message in violations:
        print(f"{where}:{line}: {message}")
    sys.exit(bool(violations))
