"""python -m autograd_gpu info, and the benchmarks' start without variables that hold libraries back."""

import importlib
import os
import platform
import subprocess
import sys

import numpy as np
import pytest
from checkout import ROOT
from selection import first

import autograd_gpu as ag
from autograd_gpu import __main__, info
from autograd_gpu.backend.cpu import blas
from benchmarks.tables import WORKLOADS

OTHER = "Nehalem"  # kernels that every x86-64 processor of today can run and none chooses


def run(*words, **variables):
    """A Python process in which only `variables` hold libraries back."""
    cleared = {k: v for k, v in os.environ.items() if not k.startswith(("OPENBLAS_", "OMP_", "GOTO_", "NPY_"))}
    done = subprocess.run([sys.executable, *words], env=cleared | {"PYTHONPATH": str(ROOT)} | variables, cwd=ROOT,
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def chosen():
    """The kernels that OpenBLAS chooses by itself."""
    if blas.kernels() is None or platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("NumPy has no OpenBLAS with kernels for x86-64")
    return run("-c", info._CHILD).stdout.strip()


def test_versions_and_devices(device, capsys):
    assert __main__.main(["info"]) == 0
    text = capsys.readouterr().out
    assert f"autograd_gpu {ag.__version__}\n" in text
    assert f"numpy {np.__version__}" in text
    assert info.cpu_model() in text
    if device == "cuda":
        assert f"cuda:0: {ag.cuda.get_device_name(0)}, " in text
    if not ag.cuda.is_available():
        assert "CUDA         none: " in text
        assert "install" in text


@pytest.mark.more
@pytest.mark.cpu
def test_products_that_are_not_held_back(chosen):
    text = run("-m", "autograd_gpu", "info").stdout
    assert f"OpenBLAS in NumPy, {chosen} kernels" in text
    assert "HELD BACK" not in text
    assert "HELD BACK" not in run("-m", "autograd_gpu", "info", OPENBLAS_CORETYPE=chosen).stdout


@pytest.mark.cpu
def test_products_that_are_held_back(chosen):
    text = run("-m", "autograd_gpu", "info", OPENBLAS_CORETYPE=OTHER, OMP_NUM_THREADS="1").stdout
    assert f"{OTHER} kernels, 1 thread\n" in text
    assert f"HELD BACK: OPENBLAS_CORETYPE={OTHER} chooses {OTHER} kernels" in text
    assert f"would get {chosen} ones: `unset OPENBLAS_CORETYPE`" in text
    if info.cores() > 1:
        assert "OMP_NUM_THREADS=1 keeps products from the other" in text


@pytest.mark.cpu
def test_loops_that_are_held_back(monkeypatch):
    monkeypatch.setenv("NPY_DISABLE_CPU_FEATURES", "AVX512F")
    assert any("NPY_DISABLE_CPU_FEATURES='AVX512F'" in text for _, text in info.lines())


@pytest.mark.cpu
def test_another_blas_and_a_missing_package(monkeypatch):
    monkeypatch.setattr(blas, "kernels", lambda: None)
    monkeypatch.setattr(info, "PACKAGES", ("numpy", "no-such-package"))
    result = {subject: text for subject, text in info.lines() if subject}
    assert "says nothing about its kernels" in result["BLAS"]
    assert "no-such-package is missing (`pip install no-such-package`)" in result["packages"]


def test_without_a_command_the_usage_is_shown(capsys):
    assert __main__.main([]) == 2
    assert "info" in capsys.readouterr().err


@pytest.mark.cpu
@pytest.mark.parametrize("module", first(["benchmarks", "benchmarks.demo"]))
def test_benchmarks_start_again_without_what_holds_them_back(module):
    if module == "benchmarks.demo":
        for package in ("sklearn", "rich", "matplotlib", "jinja2"):
            pytest.importorskip(package)
    done = run("-m", module, "--help", OPENBLAS_CORETYPE=OTHER, OPENBLAS_L2_SIZE="128", ATEN_CPU_CAPABILITY="default")
    said = f"Starting again without OPENBLAS_CORETYPE={OTHER} OPENBLAS_L2_SIZE=128 ATEN_CPU_CAPABILITY=default"
    assert done.stderr.count(said) == 1
    assert f"usage: python -m {module}" in done.stdout


class StartedAgain(Exception):
    """Raised in the place of a process that takes this one's place."""


@pytest.mark.more
@pytest.mark.cpu
def test_every_workload_starts_again(monkeypatch, capsys):
    def execve(path, words, environment):
        assert "OPENBLAS_CORETYPE" not in environment
        raise StartedAgain

    monkeypatch.setattr(os, "execve", execve)
    monkeypatch.setenv("OPENBLAS_CORETYPE", OTHER)
    for name in WORKLOADS:
        with pytest.raises(StartedAgain):
            importlib.import_module(f"benchmarks.{name}").main()
        assert f"Starting again without OPENBLAS_CORETYPE={OTHER}" in capsys.readouterr().err


@pytest.mark.cpu
def test_what_starts_again_is_the_same_command_without_the_variable():
    program = ("import os, sys; from benchmarks.restart import restart_unhindered; restart_unhindered(); "
               "print(sys.argv[1:], os.environ.get('OPENBLAS_CORETYPE'), os.environ['KEPT'])")
    done = run("-c", program, "a b", "--c", OPENBLAS_CORETYPE=OTHER, KEPT="yes")
    assert done.stdout == "['a b', '--c'] None yes\n"
    assert run("-c", program, KEPT="yes").stderr == ""


@pytest.mark.cpu
def test_results_name_the_kernels_without_another_package(chosen, monkeypatch):
    from benchmarks.environment import environment

    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    assert environment("cpu")["threads"]["numpy"].endswith(f"{blas.kernels()} kernels")
