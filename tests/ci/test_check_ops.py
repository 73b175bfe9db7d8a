"""ci/check_ops.py finds every kind of name that ops must not use; `make layers` looks at the library."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.cpu

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "ci" / "check_ops.py"

LEGAL = {
    "__init__.py": "",
    "core/__init__.py": "",
    "core/extend.py": "from .tensor import Tensor",
    "core/tensor.py": "def ndim(x): return x._array.ndim",
    "core/declare/__init__.py": "",
    "core/declare/public.py": "",
    "backend/__init__.py": "def kind(x): return x._array.dtype.kind",
    "ops/__init__.py": "",
    "ops/binding.py": "from ..core.declare.public import NAMED\nfrom ..core.extend import Tensor",
    "ops/math/__init__.py": "",
    "ops/math/exp.py": (
        "from ...core.extend import RECORD, defop\n"
        "@defop\n"
        "class exp:\n"
        "    def forward(xp, x): return xp.exp(x)\n"
        "    def grad_x(F, g, result): return g * F.exp(result)\n"
        "RECORD.helper = len\n"
        "def twice(x): return RECORD.exp(RECORD.helper(x))\n"
        "def other(M): return [F.anything for F in M]\n"
    ),
    "ops/math/sum.py": (
        "def forward(xp, x): return xp.array(x.item())\n"
        "class op:\n"
        "    def forward(xp, x): return [i for i in x.tolist()]\n"
        "    rule = lambda xp, x: x.item()\n"
        "EMPTY = np.array(())\n"
    ),
    "nn.py": "def shape(x): return x.array.shape",
}


@pytest.fixture
def check(tmp_path, monkeypatch):
    """Write the files of a small autograd_gpu and return the violations, with `slot` and `read` for SLOT and READS."""
    monkeypatch.syspath_prepend(ROOT / "ci")
    import check_ops

    def write_and_check(files, slot=(), read=None, device=None):
        for name, source in files.items():
            path = tmp_path / "autograd_gpu" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source)
        read, device = (
            {f"autograd_gpu/{name}": dict.fromkeys(names, "a reason") for name, names in (listed or {}).items()}
            for listed in (read, device)
        )
        result = check_ops.check(tmp_path, {f"autograd_gpu/{name}": "a reason" for name in slot}, read, device)
        return [f"{where.removeprefix('autograd_gpu/')}:{line}: {message}" for where, line, message in result]

    return write_and_check


def test_legal_names_pass(check):
    assert check(LEGAL) == []


DOOR = ": take the name from core/extend.py, and add it there if it is missing"
READ = (
    "reads the values of a tensor: use ops, every_value for a check, or add the function with a reason to READS in "
    "ci/check_ops.py"
)
DEVICE = (
    "asks for the device: say `cuda` in a block, call a function of backend/, or add the function with a reason to "
    "DEVICES in ci/check_ops.py"
)
SLOT = "touches `._array`: use `.array`, or add the file with a reason to SLOT in ci/check_ops.py"

# id: a file beside those of LEGAL, or in the place of one, its source, and what is printed
WRONG = {
    "a misspelt op": ("ops/a.py", "def back(F, g):\n    return F.exq(g)", "2: F.exq is no op: F.exp is one"),
    "in a lambda": (
        "ops/a.py",
        "RULES = {1: lambda F, g: F.sinh(g)}",
        "1: F.sinh is no op: declare a class of that name with @defop below ops/",
    ),
    "in a function inside": (
        "ops/a.py",
        "def back(F, g):\n    def one(x):\n        return F.exq(x)\n    return one(g)",
        "3: F.exq is no op: F.exp is one",
    ),
    "a plain function": (
        "ops/a.py",
        "def cube(x): ...\ndef back(F, g): return F.cube(g)",
        "2: F.cube is no op: declare a class of that name with @defop below ops/",
    ),
    "assigned to RECORD, not to F": (
        "ops/a.py",
        "def back(F, g): return F.helper(g)",
        "1: F.helper is no op: declare a class of that name with @defop below ops/",
    ),
    "of RAW": ("ops/a.py", "def f(x): return RAW.exq(x)", "1: RAW.exq is no op: RAW.exp is one"),
    "a module of core": (
        "ops/a.py",
        "from ..core.tensor import Tensor",
        f"1: imports from autograd_gpu.core.tensor{DOOR}",
    ),
    "core, absolute": ("ops/a.py", "import autograd_gpu.core", f"1: imports from autograd_gpu.core{DOOR}"),
    "core by name": (
        "ops/math/a.py",
        "def f():\n    from ...core import tensor",
        f"2: imports from autograd_gpu.core.tensor{DOOR}",
    ),
    "what binding alone may import": (
        "ops/a.py",
        "from ..core.declare.public import NAMED",
        f"1: imports from autograd_gpu.core.declare.public{DOOR}",
    ),
    "another module of core in binding": (
        "ops/binding.py",
        "from ..core.tensor import Tensor",
        f"1: imports from autograd_gpu.core.tensor{DOOR}",
    ),
    "the slot in ops": ("ops/a.py", "def f(x):\n    return x._array", f"2: {SLOT}"),
    "values in ops": ("ops/a.py", "def f(x): return x.array", f"1: f {READ}"),
    "a number in ops": ("ops/a.py", "class A:\n    def f(x):\n        return [x.item()]", f"3: A.f {READ}"),
    "values in nn": ("nn/a.py", "def f(x):\n    def g(): return x.tolist()", f"2: f.g {READ}"),
    "values in a module": ("nn/a.py", "a = lambda x: x.numpy()", f"1: the module {READ}"),
    "the array module": ("ops/a.py", "def f(xp, x):\n    return 1 if xp is np else 2", f"2: f {DEVICE}"),
    "another array module": ("ops/a.py", "def f(xp): return xp is not np", f"1: f {DEVICE}"),
    "the kind of device": ("ops/a.py", "def f(F, g): return g.is_cuda", f"1: f {DEVICE}"),
    "the kind of an array": ("ops/a.py", "def f(g): return is_cuda(g)", f"1: f {DEVICE}"),
    "the type of a device": ("ops/a.py", "def f(x): return x.device.type == 'cpu'", f"1: f {DEVICE}"),
    "the slot in a face": ("nn.py", "def f(x, y): x._array = y", f"1: {SLOT}"),
}


@pytest.mark.parametrize(("name", "source", "message"), WRONG.values(), ids=WRONG)
def test_one_wrong_file(check, name, source, message):
    assert check(LEGAL | {name: source}) == [f"{name}:{message}"]


def test_a_listed_file_may_touch_the_slot(check):
    assert check(LEGAL | {"ops/a.py": "def f(x): return x._array"}, slot=["ops/a.py"]) == []


def test_a_listed_function_may_read_values(check):
    files = LEGAL | {"ops/a.py": "def f(x): return x.item()\ndef g(x): return x.item()"}
    assert check(files, read={"ops/a.py": ["f", "g"]}) == []
    assert check(files, read={"ops/a.py": ["f"]}) == [f"ops/a.py:2: g {READ}"]


@pytest.mark.parametrize("listed", ["ops/math/exp.py", "gone.py"])
def test_a_listed_function_that_reads_nothing(check, listed):
    message = "1: twice does not read values: take it off READS in ci/check_ops.py"
    assert check(LEGAL, read={listed: ["twice"]}) == [f"{listed}:{message}"]


def test_a_listed_function_may_ask_for_the_device(check):
    files = LEGAL | {"ops/a.py": "def f(x): return x.is_cuda"}
    assert check(files, device={"ops/a.py": ["f"]}) == []
    message = "ops/a.py:1: g does not ask for the device: take it off DEVICES in ci/check_ops.py"
    assert check(files, device={"ops/a.py": ["f", "g"]}) == [message]


@pytest.mark.parametrize("listed", ["nn.py", "gone.py"])
def test_a_listed_file_that_does_not_touch_the_slot(check, listed):
    message = "1: does not touch `._array`: take the file off SLOT in ci/check_ops.py"
    assert check(LEGAL, slot=[listed]) == [f"{listed}:{message}"]


def test_a_violation_is_printed_and_is_a_failure(tmp_path):
    path = tmp_path / "autograd_gpu" / "ops" / "a.py"
    path.parent.mkdir(parents=True)
    path.write_text("def back(F, g): return F.exp(g)")
    result = subprocess.run([sys.executable, str(SCRIPT), str(tmp_path)], capture_output=True, text=True)
    assert result.returncode == 1
    assert "autograd_gpu/ops/a.py:1: F.exp is no op" in result.stdout


def test_a_root_without_the_package_is_an_error(tmp_path):
    result = subprocess.run([sys.executable, str(SCRIPT), str(tmp_path)], capture_output=True, text=True)
    assert result.returncode == 1
    assert "holds no autograd_gpu/ to check" in result.stderr
