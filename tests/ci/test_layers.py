"""ci/check_layers.py finds every kind of forbidden import; `make layers` looks at the library."""

import subprocess
import sys

import pytest
from checkout import ROOT

pytestmark = pytest.mark.cpu



def run(root):
    command = [sys.executable, str(ROOT / "ci" / "check_layers.py"), str(root)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture
def check(tmp_path):
    """Write the files of a small autograd_gpu and return the exit status and what was printed."""

    def write_and_check(files):
        for name, source in files.items():
            path = tmp_path / "autograd_gpu" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source)
        result = run(tmp_path)
        assert result.stderr == ""
        return result.returncode, result.stdout.splitlines()

    return write_and_check


LEGAL = {
    "__init__.py": "from . import nn\nfrom .core import tensor\n",
    "errors.py": "",
    "backend/__init__.py": "from .cpu import numpy_ops\nfrom .cuda import runtime\n",
    "backend/cpu/__init__.py": "",
    "backend/cuda/__init__.py": "",
    "backend/cpu/numpy_ops.py": "import numpy\nfrom ... import errors\ndef erf():\n    import scipy.special\n",
    "backend/cuda/runtime.py": "from ...errors import E\ndef load():\n    import cupy, cupyx\n",
    "core/__init__.py": "",
    "core/size.py": "",
    "core/graph/__init__.py": "",
    "core/graph/node.py": "from autograd_gpu.backend.cpu import numpy_ops\n",
    "core/graph/leaf.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .node import Node\n",
    "core/tensor.py": "from .graph.leaf import AccumulateGrad\nfrom .graph import node\n",
    "core/tensor.pyi": "from typing import Any\nfrom .graph.node import Node\n",
    "autograd/__init__.py": "import autograd_gpu.core.graph.node\n",
    "hooks/__init__.py": "from ..autograd import grad\n",
    "nn/__init__.py": "from ..core import size\n",
    "func/__init__.py": "from autograd_gpu import autograd\nfrom ..nn import Module\n",
}


def test_legal_imports_pass(check):
    assert check(LEGAL) == (0, [])


# id: the one file that differs from LEGAL, its source, and what is printed after the file's name
WRONG = {
    "upwards": ("errors.py", "\nfrom .nn import x", "2: layer 0 imports autograd_gpu.nn of layer 6"),
    "upwards by name": ("errors.py", "from . import nn", "1: layer 0 imports autograd_gpu.nn of layer 6"),
    "upwards, absolute": (
        "core/dispatch.py",
        "import autograd_gpu.nn.linear",
        "1: layer 2.9 imports autograd_gpu.nn.linear of layer 6",
    ),
    "upwards, for types only": (
        "core/dispatch.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .. import nn",
        "3: layer 2.9 imports autograd_gpu.nn of layer 6",
    ),
    "sideways": ("utils.py", "from . import nn", "1: layer 6 imports autograd_gpu.nn of layer 6"),
    "autograd < func": (
        "autograd/a.py",
        "from .. import func",
        "1: layer 4.1 imports autograd_gpu.func of layer 6.05",
    ),
    "nn < func": (
        "nn/f.py",
        "from .. import func",
        "1: layer 6 imports autograd_gpu.func of layer 6.05",
    ),
    "the whole package": ("nn/m.py", "import autograd_gpu", "1: layer 6 imports autograd_gpu of layer 7"),
    "no layer": ("extra.py", "", "1: extra has no layer: give it a number in ci/check_layers.py"),
    "in a method": (
        "nn/m.py",
        "class A:\n    def f(self):\n        from ..core import tensor",
        "3: imports autograd_gpu.core.tensor inside a function, not at the top",
    ),
    "in an async function": (
        "core/dispatch.py",
        "async def f():\n    if 1:\n        import autograd_gpu.errors",
        "3: imports autograd_gpu.errors inside a function, not at the top",
    ),
    "cupy": (
        "core/dispatch.py",
        "import cupy.cuda",
        "1: imports cupy.cuda: only backend/cuda/runtime.py may import CuPy",
    ),
    "cupyx in a function": (
        "backend/cpu/numpy_ops.py",
        "def f():\n    from cupyx import empty_pinned",
        "2: imports cupyx: only backend/cuda/runtime.py may import CuPy",
    ),
    "circle": (
        "core/graph/node.py",
        "import numpy\nfrom .leaf import AccumulateGrad",
        "2: circular import: autograd_gpu.core.graph.node -> autograd_gpu.core.graph.leaf -> "
        "autograd_gpu.core.graph.node",
    ),
    "circle, for types only": (
        "core/graph/node.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .leaf import AccumulateGrad",
        "3: circular import: autograd_gpu.core.graph.node -> autograd_gpu.core.graph.leaf -> "
        "autograd_gpu.core.graph.node",
    ),
    "circle through a stub": (
        "core/graph/node.pyi",
        "from .leaf import AccumulateGrad",
        "1: circular import: autograd_gpu.core.graph.node -> autograd_gpu.core.graph.leaf -> "
        "autograd_gpu.core.graph.node",
    ),
    "upwards in a stub": (
        "core/tensor.pyi",
        "\nfrom ..nn import Module",
        "2: layer 2.6 imports autograd_gpu.nn of layer 6",
    ),
    "upwards in the stub of a package": (
        "backend/__init__.pyi",
        "from ..core.tensor import Tensor",
        "1: layer 1 imports autograd_gpu.core.tensor of layer 2.6",
    ),
    "CuPy in a stub": (
        "core/tensor.pyi",
        "import cupy",
        "1: imports cupy: only backend/cuda/runtime.py may import CuPy",
    ),
    "upwards in core": (
        "core/graph/node.py",
        "from ..declare import op",
        "1: layer 2.2 imports autograd_gpu.core.declare of layer 2.3",
    ),
    "sideways in core": (
        "core/codegen/call.py",
        "from ..engine import task",
        "1: layer 2.8 imports autograd_gpu.core.engine of layer 2.8",
    ),
    "no layer in core": (
        "core/extra.py",
        "",
        "1: core.extra has no layer: give it a number in ci/check_layers.py",
    ),
}


@pytest.mark.parametrize(("name", "source", "message"), WRONG.values(), ids=WRONG)
def test_one_wrong_file(check, name, source, message):
    assert check(LEGAL | {name: source}) == (1, [f"autograd_gpu/{name}:{message}"])


def test_a_package_that_shows_its_modules_makes_no_circle(check):
    files = {"nn/__init__.py": "from .linear import Linear", "nn/linear.py": "from . import init", "nn/init.py": ""}
    assert check(LEGAL | files) == (0, [])


def test_circle_through_the_package_itself(check):
    files = {"nn/__init__.py": "from .linear import Linear", "nn/linear.py": "from . import Linear"}
    status, lines = check(LEGAL | files)
    assert status == 1
    assert len(lines) == 1
    assert "circular import: " in lines[0]


def test_every_violation_is_printed(check):
    wrong = {"errors.py": "import cupy\nfrom . import nn", "core/dispatch.py": "def f():\n    from .. import nn"}
    status, lines = check(LEGAL | wrong)
    assert status == 1
    assert [line.split(": ")[0] for line in lines] == [
        "autograd_gpu/core/dispatch.py:2",
        "autograd_gpu/core/dispatch.py:2",
        "autograd_gpu/errors.py:1",
        "autograd_gpu/errors.py:2",
    ]


def test_a_root_without_the_package_is_an_error(tmp_path):
    result = run(tmp_path)
    assert result.returncode == 1
    assert "holds no autograd_gpu/ to check" in result.stderr
