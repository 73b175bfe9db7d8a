"""Runs the tests of libraries written for PyTorch with autograd_gpu in its place, and writes docs/generated/foreign.md.

    ci/foreign.py [--work FOLDER] [--only NAME,NAME] [--limit SECONDS] [--write]

It makes an environment in FOLDER (default out/foreign), downloads each library from PyPI, its source distribution where
that holds the tests, and runs its tests in a process that begins with `ag.as_torch()`. The programs in ci/foreign_usage
run libraries whose distribution has no tests, or few. It is no part of `make test`: it needs the network and an hour.
Results are kept in FOLDER as one JSON file per library, so that runs of a part are added up in the table.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import datetime as dt
import json
import os
import re
import subprocess
import tarfile
import tomllib
import venv
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PAGE, USAGE = ROOT / "docs/generated/foreign.md", ROOT / "ci/foreign_usage"


class Library(NamedTuple):
    """A library, by its requirement on PyPI: the folder of its tests, or none, and which of them are left out, and why.

    `leave_out` has paths of files and the beginnings of pytest's names of tests: `path::name`.
    """

    requirement: str
    tests: str = ""
    leave_out: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        return self.requirement.partition("==")[0]

    @property
    def program(self) -> Path:
        """Our program that uses the library, which need not exist."""
        return USAGE / f"test_{self.name.replace('-', '_')}.py"


NET = "skorch/tests/test_net.py"
LIBRARIES = (
    Library("captum==0.9.0"),
    Library("curvlinops-for-pytorch==3.0.1", "test", (
        ("test/test_ekfac.py", "2024 tests: too many for the limit of time"),
        ("test/test_inverse.py", "10401 tests: too many for the limit of time"),
        ("test/test_kfac.py", "2785 tests: too many for the limit of time"),
    )),
    Library("einops==0.8.2", "einops/tests", (("einops/tests/test_notebooks.py", "notebooks"),)),
    Library("entmax==1.3"),
    Library("gpytorch==1.15.2", "test"),
    Library("higher==0.2.1"),
    Library("linear_operator==0.6.1", "test"),
    Library("neurodiffeq==0.7.0", "tests"),
    Library("nflows==0.14", "tests"),
    Library("pyro-ppl==1.9.2", "tests", (
        ("tests/test_examples.py", "imports files that are not on PyPI"),
        ("tests/test_generic.py", "imports files that are not on PyPI"),
    )),
    Library("pytorch-minimize==0.1.0", "tests"),
    Library("skorch==1.4.0", "skorch/tests", (
        ("skorch/tests/llm", "loads models from the network"),
        ("skorch/tests/test_hf.py", "loads models from the network"),
        ("skorch/tests/test_history.py::TestDistributedHistoryMultiprocessing", "torch.distributed"),
        (f"{NET}::TestTorchCompile::test_fit_and_predict_with_compile", "torch.compile: asks for `dynamo_ctx`"),
        (f"{NET}::TestNeuralNet::test_pickle_load", "loads a file made on CUDA, which is not on PyPI"),
        (f"{NET}::TestNeuralNet::test_load_cuda_params_to_cpu", "loads a file made on CUDA, which is not on PyPI"),
    )),
    Library("torch-optimizer==0.3.0", "tests"),
    Library("torchdiffeq==0.2.5"),
    Library("torchode==1.0.1"),
    Library("torchsde==0.2.6", "tests", (
        ("tests/test_adjoint.py", "imports files that are not on PyPI"),
        ("tests/test_sdeint.py", "imports files that are not on PyPI"),
    )),
    Library("zuko==1.6.0", "tests"),
)
# Needed by these libraries or their tests; torch itself is never installed. The older versions are those that the
# libraries know: NumPy 2.4 refuses float(array) for one dimension, SciPy 1.17 has no sph_harm, pytest 8 no skip(msg=).
DEPENDENCIES = (
    "boltons", "dill", "flaky", "future", "ipython", "jaxtyping", "matplotlib<3.10", "mpmath<1.4",
    "networkx", "numpy<2.4", "opt_einsum", "ordered_set", "packaging", "pandas", "parameterized", "pyro-api",
    "pytest==7.4.4", "pytest-cases==3.10.1", "pytest-timeout>=2.3", "requests", "safetensors", "scikit-learn",
    "scipy<1.17", "seaborn", "setuptools", "sympy", "tabulate", "tensorboardX", "tqdm", "trampoline", "typeguard",
)  # fmt: skip
WITHOUT_DEPENDENCIES = (
    "backpack-for-pytorch==1.7.1", "einconv==0.1.0", "pytorch-ranger", "torchtestcase", "torchtyping==0.1.5", "UMNN",
    "unfoldNd",
)  # fmt: skip
NUMBERS = "passed", "failed", "outside", "skipped"
TEST_LIMIT = 60  # seconds for one test
# What the errors of tests say that are outside of our aims by design (missing_names.py); they count apart.
OUTSIDE = re.compile(
    "convolutions are not aimed at|layers for images are not aimed at|there are no complex dtypes|there are no sparse|"
    "Fourier transforms are not here|programs are not exported or saved|models are not split over processes|"
    "quantized arithmetic is not aimed at"
)
INTRODUCTION = """# Libraries written for PyTorch

Written by `ci/foreign.py`, which runs the tests of these libraries with `ag.as_torch()`; do not edit.

Libraries marked * have no tests on PyPI, and those marked + few: a program in `ci/foreign_usage` uses them. A run ends
after its limit of time, which *stopped* marks. Errors in the import of a test file count as one failure. *Outside* are
tests that end in the error of what is not here by design: convolutions and layers for images, sparse, complex and
quantized tensors, exported programs, models that are split over processes. Failures that have other reasons in what
[from-pytorch.md](../from-pytorch.md) declares count as failed: above all dtypes are NumPy's, without
`is_floating_point`, which linear_operator, gpytorch and captum ask.

With PyTorch 2.13 these fail as well: zuko's check of the inverses of random transforms in some runs, nflows' use of
`torch.solve`, `test_APTx` of neurodiffeq, and `RAdam_1` of torch-optimizer.

| library | version | run on | passed | failed | outside | skipped | most frequent failures |
| --- | --- | --- | ---: | ---: | ---: | ---: | --- |
"""
LEFT_OUT = """
## Left out

| library | tests | why |
| --- | --- | --- |
"""


def run(command: list[Any], **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(part) for part in command], check=True, text=True, **options)


def make_environment(work: Path) -> Path:
    """The interpreter of an environment with our dependencies and those of the libraries.

    Beside it, the folder `site` lets every Python that has it on its path begin with `ag.as_torch()`.
    """
    python = work / "env/bin/python"
    if not (work / "env/.done").exists():
        venv.create(work / "env", with_pip=True)
        ours = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
        run([python, "-m", "pip", "install", "--quiet", *ours, *DEPENDENCIES])
        libraries = (library.requirement for library in LIBRARIES)  # all of them: some need others
        run([python, "-m", "pip", "install", "--quiet", "--no-deps", *WITHOUT_DEPENDENCIES, *libraries])
        (work / "env/.done").touch()
    site = work / "site"
    site.mkdir(exist_ok=True)
    (site / "autograd_gpu").unlink(missing_ok=True)  # a link to another checkout, which may be gone
    (site / "autograd_gpu").symlink_to(ROOT / "autograd_gpu")
    (site / "sitecustomize.py").write_text("import autograd_gpu\n\nautograd_gpu.as_torch()\n")
    return python


def fetch(library: Library, python: Path, work: Path) -> Path:
    """Downloads a library's tests; the folder in which they run."""
    folder = work / library.name
    if folder.exists():
        return folder
    if not library.tests:
        folder.mkdir()
        return folder
    loaded = work / "sdist" / library.name
    run([python, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", library.name, "--dest", loaded,
         library.requirement])  # fmt: skip
    (archive,) = loaded.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(loaded, filter="data")
    (source,) = [path for path in loaded.iterdir() if path.is_dir()]
    source.rename(folder)
    (folder / library.tests.partition("/")[0] / "__init__.py").touch()  # some import `tests`, as of any folder
    return folder


def test(library: Library, python: Path, work: Path, limit: int) -> dict[str, Any]:
    """Runs a library's tests; passed, failed, skipped, the reasons of failures, and whether the limit was reached."""
    folder, report = fetch(library, python, work), work / f"{library.name}.xml"
    report.unlink(missing_ok=True)
    tests = [path for path in (library.tests, library.program) if path and (folder / path).exists()]
    options = [f"--{'deselect' if '::' in path else 'ignore'}={path}" for path, _ in library.leave_out]
    command = [python, "-m", "pytest", *tests, "-q", "-o", "addopts=", "-W", "default", "-p", "no:cacheprovider",
               f"--junitxml={report}", f"--timeout={TEST_LIMIT}", f"--session-timeout={limit}",
               "--continue-on-collection-errors", *options]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": f"{work / 'site'}{os.pathsep}{folder}", "MPLBACKEND": "agg",
                   "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}", "EINOPS_TEST_BACKENDS": "numpy,torch",
                   "OPENBLAS_NUM_THREADS": "1"}  # fmt: skip
    failed = subprocess.CalledProcessError, subprocess.TimeoutExpired  # what was reported counts
    with open(work / f"{library.name}.log", "w") as log, contextlib.suppress(*failed):
        run(command, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT, timeout=limit + 2 * TEST_LIMIT)
    stopped = "session-timeout" in (work / f"{library.name}.log").read_text()
    version, today = library.requirement.partition("==")[2], dt.date.today().isoformat()
    return {"version": version, "date": today, "stopped": stopped, **counts(report)}


def counts(report: Path) -> dict[str, Any]:
    """The numbers of tests in a JUnit report, and its failures by reason."""
    numbers, reasons = collections.Counter[str](), collections.Counter[str]()
    cases = ET.parse(report).iter("testcase") if report.exists() else []
    for case in cases:
        problem = next((part for part in case if part.tag in ("failure", "error")), None)
        skipped = case.find("skipped") is not None
        if problem is None:
            numbers["skipped" if skipped else "passed"] += 1
        elif OUTSIDE.search(last_error(problem)):
            numbers["outside"] += 1
        else:
            numbers["failed"] += 1
            reasons[reason_of(problem)] += 1
    if not numbers:
        numbers["failed"] = reasons["no report: the process ended early"] = 1
    return {**{key: numbers[key] for key in NUMBERS}, "reasons": reasons.most_common()}


def reason_of(problem: ET.Element) -> str:
    """The last error in a report's traceback, without what differs from test to test."""
    text = re.sub(r" at 0x\w+|/\S*/|\(from '[^']*'\)", "", last_error(problem))
    text = re.sub(r"\d+(\.\d+)?(e-?\d+)?", "#", text) if "has no attribute" not in text else text
    return text.replace("|", "/").strip()[:130]


def last_error(problem: ET.Element) -> str:
    """The last error in a report's traceback, or its message."""
    lines = re.findall(r"^E +(\w[\w.]*(?:Error|Exception|Name|Warning)\b.*)$", problem.text or "", re.MULTILINE)
    return lines[-1] if lines else (problem.get("message") or "").split("\n")[0]


def versions(python: Path) -> str:
    """What the tests ran with."""
    program = ("import platform; from importlib.metadata import version; print('Python', platform.python_version(), *"
               "[f'; {name} {version(name)}' for name in ('numpy', 'scipy', 'pytest')], sep='')")  # fmt: skip
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    told = run([python, "-c", program], capture_output=True).stdout.strip().replace("Python", "Python ")
    return f"autograd_gpu {ours}; {told}"


def table(work: Path, python: Path) -> str:
    """The page."""
    rows = []
    for library in LIBRARIES:
        path = work / f"{library.name}.json"
        if not path.exists():
            continue
        tally = json.loads(path.read_text())
        reasons = "; ".join(f"{n} `{text}`" for text, n in tally["reasons"][:2])
        name = library.name + (" *" if not library.tests else " +" if library.program.exists() else "")
        passed = f"{tally['passed']}{', stopped' if tally['stopped'] else ''}"
        numbers = " | ".join(str(tally[key]) for key in NUMBERS[1:])
        rows.append(f"| {name} | {tally['version']} | {tally['date']} | {passed} | {numbers} | {reasons} |")
    left_out = [f"| {library.name} | `{path}` | {why} |" for library in LIBRARIES for path, why in library.leave_out]
    ran = f"\nWith {versions(python)}.\n"
    return INTRODUCTION + "\n".join(rows) + "\n" + ran + LEFT_OUT + "\n".join(left_out) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=ROOT / "out/foreign")
    parser.add_argument("--only", default="", help="names of libraries, separated by commas")
    parser.add_argument("--limit", type=int, default=600, help="seconds for the tests of one library")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    args = parser.parse_args()
    work = args.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    python = make_environment(work)
    for library in LIBRARIES:
        if args.only and library.name not in args.only.split(","):
            continue
        tally = test(library, python, work, args.limit)
        (work / f"{library.name}.json").write_text(json.dumps(tally, indent=1))
        told = ", ".join(f"{tally[key]} {key}" for key in NUMBERS)
        print(f"{library.name}: {told}{', stopped' if tally['stopped'] else ''}", flush=True)
    if args.write:
        PAGE.write_text(table(work, python))


if __name__ == "__main__":
    main()
