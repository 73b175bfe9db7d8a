"""The wheel and the sdist hold what they must; they are built without a network and not installed."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

import pytest
from checkout import ROOT

pytestmark = [pytest.mark.cpu, pytest.mark.more]



def files(folder, pattern="*"):
    """The files below a folder of the repository, as paths relative to it."""
    results = (p for p in (ROOT / folder).rglob(pattern) if p.is_file() and "__pycache__" not in p.parts)
    return {p.relative_to(ROOT / folder).as_posix() for p in results}


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """A folder with the wheel and the sdist of this checkout."""
    pytest.importorskip("build", reason="needs the package `build`, which the extra [dev] brings")
    pytest.importorskip("hatchling", reason="needs hatchling, which the extra [dev] brings")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--sdist", "--outdir", str(folder)]
    result = subprocess.run([*command, str(ROOT)], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return folder


@pytest.fixture(scope="module")
def wheel_file(dist):
    (path,) = dist.glob("*.whl")
    assert path.name.endswith("-py3-none-any.whl")
    return path


@pytest.fixture(scope="module")
def wheel(wheel_file):
    with zipfile.ZipFile(wheel_file) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def sdist(dist):
    (path,) = dist.glob("*.tar.gz")
    with tarfile.open(path) as archive:  # every name begins with autograd_gpu-VERSION/
        return {PurePosixPath(*PurePosixPath(name).parts[1:]).as_posix() for name in archive.getnames()}


def test_wheel_holds_the_kernels_folder(wheel):
    kernels = {f"autograd_gpu/_kernels/{name}" for name in files("kernels")}
    assert any(name.endswith(".cu") for name in kernels)
    assert any(name.endswith(".cuh") for name in kernels)
    assert kernels <= wheel


def test_installed_wheel_reads_its_own_kernels(wheel_file, tmp_path):
    with zipfile.ZipFile(wheel_file) as archive:
        archive.extractall(tmp_path)
    program = (
        "from autograd_gpu.backend import kernels; print(kernels.folder())\n"
        "for file in {instance.file for instance in kernels.INSTANCES.values()}: assert kernels.source(file)"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-P", "-c", program]  # -P: not from the current folder
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()) == tmp_path.resolve() / "autograd_gpu" / "_kernels"


@pytest.mark.parametrize("pattern", ["*.py", "*.pyi", "py.typed"])
def test_wheel_holds_the_whole_package(wheel, pattern):
    expected = {f"autograd_gpu/{name}" for name in files("autograd_gpu", pattern)}
    assert expected
    assert expected <= wheel


def test_wheel_holds_nothing_else(wheel):
    tops = {name.partition("/")[0] for name in wheel}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"autograd_gpu"}
    assert not [name for name in wheel if name.endswith((".pyc", ".cubin", ".so"))]


def test_wheel_names_the_license(wheel):
    assert [name for name in wheel if name.endswith(".dist-info/licenses/LICENSE")]


@pytest.mark.parametrize("folder", ["autograd_gpu", "kernels", "tests", "benchmarks", "ci", "docs"])
def test_sdist_holds_the_folder(sdist, folder):
    expected = {f"{folder}/{name}" for name in files(folder)}
    assert expected
    assert expected <= sdist


def test_sdist_holds_what_builds_and_explains_it(sdist):
    assert {"pyproject.toml", "README.md", "LICENSE", "Makefile"} <= sdist
