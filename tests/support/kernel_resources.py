"""What our kernels cost on each architecture, from NVRTC's log; no GPU is needed.

    python tests/support/kernel_resources.py  # after a change of a kernel: writes kernel_resources.json

The table holds upper bounds, in the unit in which a GPU gives registers to a thread: eight. Smaller changes have no
effect, and NVRTC 13.0, 13.2 and 13.4 agree in this unit on all but one instance; 13.5 takes up to five units more than
13.4, of 13 instances on sm_100 and one on sm_90. A bound may be one unit too high.

The table also names its compiler and has a digest of each file that it is of. A compiler makes the same of the same
text, so for the architectures whose PTX no test reads the tests compile only what has changed since, and so does this.
"""

import functools
import gzip
import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path

import cupy
import formula_functors
from cuda_emu import cache, toolchain
from cupy._core.core import assemble_cupy_compiler_options
from cupy_backends.cuda.libs import nvrtc

from autograd_gpu.backend import kernels

formula_functors.declare()
ARCHS = ("sm_80", "sm_90", "sm_100")
READ = "sm_90"  # whose PTX tests read
TABLE = Path(__file__).with_name("kernel_resources.json")
COMMAND = "python tests/support/kernel_resources.py"
UNIT = 8
TOGETHER = 48  # instances per program
OPTIONS = ("-ftz=true", "--device-as-default-execution-space", "--ptxas-options=-v")  # beside those of CuPy

USAGE = re.compile(
    r"Compiling entry function '(?P<name>\w+)'.*?\n"
    r".*?(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads\n"
    r".*?Used (?P<registers>\d+) registers(?:[^\n]*?(?P<shared>\d+) bytes smem)?",
    re.DOTALL,
)


@dataclass(frozen=True)
class Usage:
    """What one kernel takes: registers per thread, bytes of stack and spills per thread, of shared memory per block."""

    registers: int
    stack: int
    spills: int
    shared: int


def files() -> list[str]:
    return sorted(path.name for path in kernels.folder().glob("*.cu"))


def version() -> str:
    return ".".join(map(str, nvrtc.getVersion()))


@dataclass(frozen=True)
class Compiled:
    """What the compiler says, and what it says about each instance: what it takes, and its PTX."""

    log: str
    usages: dict[str, Usage]
    ptx: dict[str, str]


def compile(source: str, names: tuple[str, ...], arch: str) -> Compiled:
    """A source compiled for `arch`, or what was kept of that."""
    return _parsed(_kept(source, names, arch))


def _kept(source: str, names: tuple[str, ...], arch: str, wait: bool = True) -> Path | None:
    """NVRTC's answer, in a file of the cache; None where another process makes it and we do not `wait`."""
    key = repr((source, names, _options(arch), version(), cupy.__version__))

    def make(scratch: Path) -> Path:
        with gzip.open(scratch / "answer", "wt", compresslevel=1) as file:
            json.dump(_answer(source, names, arch), file)
        return scratch / "answer"

    return cache.kept(f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json.gz", make, wait)


def _options(arch: str) -> tuple[str, ...]:
    """Those of CuPy for a RawModule, and what makes the assembler say what a kernel takes."""
    return (*assemble_cupy_compiler_options(kernels.OPTIONS), f"-arch={arch}", *OPTIONS)


def _answer(source: str, names: tuple[str, ...], arch: str) -> dict:
    """What NVRTC makes of a program, as CuPy compiles a RawModule: its log, its PTX, and names by mangled names."""
    program = nvrtc.createProgram(source, "kernels.cu", (), ())
    for name in names:
        nvrtc.addNameExpression(program, name)
    try:
        nvrtc.compileProgram(program, _options(arch))
    except nvrtc.NVRTCError as error:
        raise RuntimeError(f"NVRTC refuses the source for {arch}:\n{nvrtc.getProgramLog(program)}") from error
    mangled = {nvrtc.getLoweredName(program, name): name for name in names}
    log, ptx = nvrtc.getProgramLog(program), nvrtc.getPTX(program)
    nvrtc.destroyProgram(program)
    return {"log": log, "ptx": ptx.decode() if isinstance(ptx, bytes) else ptx, "mangled": mangled}


def _parsed(path: Path) -> Compiled:
    with gzip.open(path, "rt") as file:
        answer = json.load(file)
    log, mangled = answer["log"], answer["mangled"]
    usages = {mangled[actual["name"]]: _usage(actual) for actual in USAGE.finditer(log)}
    parts = [part.partition("\n}\n")[0] for part in answer["ptx"].split(".entry ")[1:]]  # without other functions
    return Compiled(log, usages, {mangled[part.partition("(")[0].strip()]: part for part in parts})


def _usage(actual: re.Match) -> Usage:
    number = {key: int(value or 0) for key, value in actual.groupdict().items() if key != "name"}
    return Usage(number["registers"], number["stack"], number["stores"] + number["loads"], number["shared"])


def parts(file: str) -> list[tuple[str, ...]]:
    """The instances of a file, by dozens: as large as a processor's share of the work may be."""
    names = kernels.instances_of(file)
    return [names[at : at + TOGETHER] for at in range(0, len(names), TOGETHER)]


@functools.cache
def compiled(file: str, arch: str) -> Compiled:
    """Every instance of one of our files."""
    results = [compile(kernels.source(file, names), names, arch) for names in parts(file)]
    usages = {name: usage for part in results for name, usage in part.usages.items()}
    return Compiled("".join([part.log for part in results]), usages,
                    {name: ptx for part in results for name, ptx in part.ptx.items()})  # fmt: skip


def compiler() -> dict[str, str]:
    """NVRTC's version, and a digest of CUDA's headers."""
    return {"nvrtc": version(), "headers": toolchain.headers()}


def sources() -> dict[str, str]:
    """Per file a digest of what the compiler is told."""
    told = {file: repr(([(kernels.source(file, names), names) for names in parts(file)], kernels.OPTIONS, OPTIONS))
            for file in files()}
    return {file: hashlib.sha256(text.encode()).hexdigest()[:16] for file, text in told.items()}


def changed(table: dict) -> list[str]:
    """The files of which the table was not written by this compiler."""
    if not compiler().items() <= table.items():
        return files()
    return [file for file, digest in sources().items() if table["sources"].get(file) != digest]


def prepare(wanted: dict[str, list[str]]) -> None:
    """Fills the cache with some files for each architecture, side by side with whoever does that at the same time."""
    for file in files():
        for names in parts(file):
            for arch in ARCHS:
                if file in wanted[arch]:
                    _kept(kernels.source(file, names), names, arch, wait=False)


def measure(arch: str, among: list[str]) -> dict[str, Usage]:
    """The usage of every instance of these files."""
    return {name: usage for file in among for name, usage in compiled(file, arch).usages.items()}


def blemishes(arch: str, among: list[str]) -> list[str]:
    """What no table allows: spills, stack frames, and warnings of the compiler."""
    used = measure(arch, among).items()
    return [
        *[f"{name} has spills or a stack frame: {usage}" for name, usage in used if usage.spills or usage.stack],
        *[f"{file}: {log}" for file in among if "warning" in (log := compiled(file, arch).log)],
    ]


def units(registers: int) -> int:
    """`registers` rounded up to what a GPU gives."""
    return -(-registers // UNIT) * UNIT


def limits(usages: dict[str, Usage]) -> dict[str, dict[str, int]]:
    """The rows of the table for one architecture."""
    return {
        name: {"registers": units(usage.registers), "shared": usage.shared}
        for name, usage in sorted(usages.items())
    }


def faults(usages: dict[str, Usage], table: dict[str, dict[str, int]], leeway: int = 0) -> list[str]:
    """Where the table does not say what was measured, give or take `leeway` registers."""
    results = [f"{name} is in the table, but there is no such kernel" for name in sorted(table.keys() - usages)]
    for name, usage in usages.items():
        if name not in table:
            results.append(f"{name} is not in the table")
            continue
        most, shared = table[name]["registers"], table[name]["shared"]
        if usage.registers > most + leeway:
            results.append(f"{name} uses {usage.registers} registers; the table allows {most}")
        elif most > units(usage.registers) + UNIT + leeway:
            results.append(f"{name} uses {usage.registers} registers; the table is loose, with {most}")
        if usage.shared != shared:
            results.append(f"{name} uses {usage.shared} bytes of shared memory; the table says {shared}")
    return results


def write() -> None:
    """Writes the table, a line per kernel; SystemExit where a kernel is as none may be."""
    table = json.loads(TABLE.read_text())
    among = changed(table)
    old = {name for file in files() if file not in among for name in kernels.instances_of(file)}
    prepare(dict.fromkeys(ARCHS, among))
    tables: dict[str, dict] = {"sources": sources()}
    for arch in ARCHS:
        if found := blemishes(arch, among):
            raise SystemExit(f"{arch}: {'; '.join(found)}")
        rows = {name: row for name, row in table[arch].items() if name in old} | limits(measure(arch, among))
        tables[arch] = dict(sorted(rows.items()))
    blocks = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in compiler().items()]
    for key, rows in tables.items():
        lines = [f"    {json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items()]
        blocks.append(f"  {json.dumps(key)}: {{\n" + ",\n".join(lines) + "\n  }")
    TABLE.write_text("{\n" + ",\n".join(blocks) + "\n}\n")


if __name__ == "__main__":
    write()
