"""When native code takes over from NumPy code, what it keeps on disk, and what happens where it cannot."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from checkout import ROOT
from formula_bits import same_bits, values

from autograd_gpu import info
from autograd_gpu.backend.formulas.expression import element, exp
from autograd_gpu.backend.formulas.lowering import lowered
from autograd_gpu.backend.formulas.native import disk_cache, switch, ufunc
from autograd_gpu.backend.formulas.numpy_code import NumpyCode

pytestmark = pytest.mark.cpu
needs_llvm = pytest.mark.skipif(not switch.is_installed(), reason="native code needs the extra [native]")
x = element("x")
FLOAT = np.dtype(np.float32)
SILU = "import autograd_gpu as ag, numpy as np; silu = ag.nn.functional.silu\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder for machine code, and no code in memory."""
    monkeypatch.setenv("AUTOGRAD_GPU_CACHE_DIR", str(tmp_path / "code"))
    monkeypatch.setattr(disk_cache, "_ADDRESSES", {})
    return tmp_path / "code"


def code_of(scale):
    return NumpyCode("test", lowered([exp(x * scale) / 3], ["x"]), np.float32)


def run(program, **variables):
    """What a program prints in another process."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | variables
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], env=environment, cwd=ROOT,
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@needs_llvm
def test_code_compiles_after_many_elements_and_loads_after_few(folder):
    data, code = values(switch.COMPILES // 4), code_of(0.25)
    with switch.numpy_code_alone():
        (want,) = code([data], code.numbers())
    assert not code.native.seen
    for _ in range(3):
        same_bits(code([data], code.numbers())[0], want)
        assert not code.native.runs
    same_bits(code([data], code.numbers())[0], want)
    assert [*code.native.runs] == [FLOAT]
    same_bits(code([data[:9]], code.numbers())[0], want[:9])
    (file,) = folder.iterdir()
    assert file.suffix == ".o"

    again = code_of(0.25)
    for _ in range(switch.LOADS // 1024):
        assert not again.native.runs
        same_bits(again([data[:1024]], again.numbers())[0], want[:1024])
    assert [*again.native.runs] == [FLOAT]


@needs_llvm
def test_bounds_count_at_each_call(folder, monkeypatch):
    """Those of tests, too, whose formulas ran before them."""
    data, code = values(switch.LOADS), code_of(0.75)
    code([data], code.numbers())
    assert not code.native.runs
    monkeypatch.setattr(switch, "COMPILES", 1)
    code([data], code.numbers())
    assert [*code.native.runs] == [FLOAT]


@needs_llvm
def test_a_second_process_compiles_nothing(folder):
    program = SILU + """
from autograd_gpu.backend.formulas.native import disk_cache
def compiled(ir, real=disk_cache._compiled):
    print("compiles")
    return real(ir)
disk_cache._compiled = compiled
x = np.linspace(-9, 9, 1 << 22).astype(np.float32)
for part in (x, x[:4096]):
    print(silu(ag.tensor(part)).numpy()[:4096].tobytes().hex())
"""
    first, second = (run(program, AUTOGRAD_GPU_CACHE_DIR=str(folder)) for _ in range(2))
    assert first == "compiles\n" + second


@needs_llvm
def test_a_damaged_file_is_compiled_again(folder):
    code_of(0.5).native.compile(FLOAT)
    (file,) = folder.iterdir()
    content = file.read_bytes()
    for damaged in (content[:100], content[:-9] + bytes(9), b""):
        file.write_bytes(damaged)
        disk_cache._ADDRESSES.clear()
        code = code_of(0.5)
        with pytest.warns(UserWarning, match=r"\.o is damaged, and its machine code is compiled again"):
            code.native.compile(FLOAT)
        assert file.read_bytes() == content
        with switch.numpy_code_alone():
            want = code([values(5000)], code.numbers())[0]
        same_bits(code([values(5000)], code.numbers())[0], want)


@needs_llvm
def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("AUTOGRAD_GPU_CACHE_DIR", str(tmp_path / "file" / "code"))
    code = code_of(0.75)
    with pytest.warns(UserWarning, match="cannot be kept in .*AUTOGRAD_GPU_CACHE_DIR"):
        code.native.compile(FLOAT)
    assert code.native([values(3)], code.numbers()) is not None


@needs_llvm
def test_numpy_code_runs_while_another_thread_compiles(folder, monkeypatch):
    compiling, go_on = threading.Event(), threading.Event()

    def slowly(ir, real=disk_cache._compiled):
        compiling.set()
        assert go_on.wait(60)
        return real(ir)

    monkeypatch.setattr(disk_cache, "_compiled", slowly)
    data, code = values(switch.COMPILES), code_of(0.125)
    thread = threading.Thread(target=code, args=([data], code.numbers()))
    thread.start()
    assert compiling.wait(60)
    result = code([data[:64]], code.numbers())[0]
    assert not code.native.runs
    go_on.set()
    thread.join()
    same_bits(code([data[:64]], code.numbers())[0], result)
    assert code.native.runs


@needs_llvm
def test_numpy_code_runs_with_one_warning_if_an_inner_loop_is_another_function(folder, monkeypatch):
    check, data = ufunc._check, values(switch.COMPILES)
    monkeypatch.setattr(ufunc, "_check", lambda function, *rest: check(np.tanh, *rest))
    ufunc.inner_loop.cache_clear()
    switch.say.cache_clear()
    codes = [code_of(scale) for scale in (3, 4)]
    with pytest.warns(UserWarning, match="the inner loop of NumPy's tanh has other results"):
        codes[0]([data], codes[0].numbers())
    for scale, code in zip((3, 4, 3), [*codes, codes[0]], strict=True):  # said once
        with np.errstate(over="ignore"):
            same_bits(code([data], code.numbers())[0], np.exp(data * np.float32(scale)) / np.float32(3))


def test_without_llvmlite_numpy_code_runs():
    program = SILU + """
import sys
from autograd_gpu import info
print(dict(info.lines())["native code"])
x = np.linspace(-9, 9, 1 << 22).astype(np.float32)
print(all(np.array_equal(silu(ag.tensor(x)).numpy(), silu(ag.tensor(x)).numpy()) for _ in range(2)))
print("llvmlite.binding" in sys.modules)
"""
    blocked = "import sys; sys.modules['llvmlite'] = None\n" + program
    said, equal, imported = run(blocked).splitlines()
    assert said.startswith("off: ")
    assert "pip install" in said
    assert (equal, imported) == ("True", "False")
    said, equal, imported = run(program, AUTOGRAD_GPU_NATIVE="0").splitlines()
    assert said.startswith("off: ")
    assert (equal, imported) == ("True", "False")


def test_import_and_few_elements_leave_llvmlite_alone():
    program = SILU + "import sys; silu(ag.ones(9)); print([m for m in sys.modules if m.startswith('llvmlite')])"
    assert run(program) == "[]\n"


@needs_llvm
def test_the_report_says_where_machine_code_is(folder):
    assert dict(info.lines())["native code"].endswith(f"machine code in {folder}")


def test_the_folder_of_machine_code(monkeypatch, tmp_path):
    monkeypatch.delenv("AUTOGRAD_GPU_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert disk_cache.folder() == tmp_path / "autograd_gpu"
