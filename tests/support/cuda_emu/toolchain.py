"""From CUDA C++ to a shared object, by g++ and CUDA's own headers.

1. Kernel names come from the text and from the name expressions; the compiler adds the signatures, in a table.
2. The object is kept in a cache folder under the hash of everything that goes into it.
"""

import functools
import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from . import cache
from .errors import CompileError, EmulationError

HERE = Path(__file__).resolve().parent
# This folder and those of CUDA's headers, in what debuggers read: every checkout and environment shares the cache.
OWN_NAME, HEADERS_NAME = "/cuda_emu", "/cuda_headers"
COMMON = (
    "-std=c++17", "-g1", "-w", "-fPIC", "-fvisibility=hidden", "-fno-strict-aliasing", "-fno-threadsafe-statics",
    "-ffp-contract=off",  # a * b + c is two roundings, on every CPU
    "-fdata-sections",  # one for each variable, which shared.ld needs
    "-fno-ipa-reference-addressable",  # a shared variable that nobody writes is poison, not the 0 of a static
    "-U_FORTIFY_SOURCE",  # its longjmp refuses to leave a fibre
)
MAX_THREADS = 1024  # of any block
CHECKS = {
    "none": ("-O1",),
    "races": (
        "-O1", "-fsanitize=thread", "--param=tsan-instrument-func-entry-exit=0", "-DEMU_RACES",
        "-fsanitize=alignment,bounds,shift,signed-integer-overflow,integer-divide-by-zero",
        "-fsanitize-undefined-trap-on-error",
    ),
}
# What is linked to the kernels of each build: source files of the emulator, with their macros.
RUNTIME: dict[str, list[tuple[str, ...]]] = {
    "none": [("scheduler.cpp",)],
    "races": [("scheduler.cpp", "-DEMU_RACES"), ("races.cpp",)],
}
# Options of NVRTC that say nothing to a C++ compiler.
DEVICE_OPTION = re.compile(
    r"--?(arch|gpu-architecture|diag-|ptxas-options|lineinfo|generate-line-info|use_fast_math|ftz|prec-|fmad|restrict|"
    r"default-device|device-as-default|maxrregcount|extra-device|split-compile)"
)
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
BOUNDS = r"(?:__launch_bounds__\s*\(\s*([^,()]+)[^()]*\)\s*)?"
KERNEL = re.compile(
    rf'(template\s*<[^{{;]*?>\s*)?(extern\s+"C"\s+)?(?:static\s+)?__global__\s+{BOUNDS}void\s+{BOUNDS}(\w+)\s*\('
)
DYNAMIC_SHARED = re.compile(
    r"extern\s+__shared__\s+(?:(?:__align__|alignas)\s*\([^()]*\)\s*)?([\w:<>, ]+?)\s+(\w+)\s*\[\s*\]\s*;"
)


def shared_object(source: str, options: Sequence[str], names: Sequence[str], check: str) -> Path:
    """The compiled source, from the cache or fresh into it."""
    options = [re.sub("^--include-path=", "-I", option) for option in options if not DEVICE_OPTION.match(option)]
    folders = [Path(option[2:]).resolve() for option in options if option.startswith("-I")]
    own = [*(f"-I{folder}" for folder in folders), *(o for o in options if not o.startswith("-I"))]
    unit = translation_unit(source, names)
    digest = hashlib.sha256(repr((unit, own, check, _environment())).encode())
    for header in _included(source, folders, set()):
        digest.update(header.read_bytes())
    return cache.kept(f"{digest.hexdigest()[:32]}.so", lambda scratch: _build(unit, own, check, scratch))


def translation_unit(source: str, names: Sequence[str]) -> str:
    """What g++ compiles: the source, with dynamic shared memory bound to that of the launch, and the kernel table."""
    declared, bounds = _declarations(source)
    kernels = list(dict.fromkeys([*declared, *names]))
    if not kernels:
        raise CompileError(
            'the source has no kernel: none is declared `extern "C" __global__ void name(...)`, and name_expressions '
            "is empty"
        )
    body = DYNAMIC_SHARED.sub(r"\1*& \2 = reinterpret_cast<\1*&>(emu::state.dynamic_shared);", source)
    rows = []
    for kernel in kernels:
        template = re.sub(r"<.*|.*::|[&\s]", "", kernel, flags=re.DOTALL)  # &scope::name<float> is of name
        rows.append(f'emu::entry<{kernel}>("{kernel}", {bounds.get(template, MAX_THREADS)}),\n')
    return (
        f'#line 1 "source.cu"\n{body}\n#line 1 "the kernel table"\n'
        f"EMU_EXPORT const emu::Entry emu_kernels[] = {{\n{''.join(rows)}}};\n"
        f"EMU_EXPORT const int emu_kernel_count = {len(kernels)};\n"
    )


def _declarations(source: str) -> tuple[list[str], dict[str, str]]:
    """The names of the extern "C" kernels, and the __launch_bounds__ of all kernels, as they are written. Bounds that
    depend on a template parameter are left out."""
    names, bounds = [], {}
    for template, extern, before, after, name in KERNEL.findall(COMMENT.sub(" ", source)):
        if extern:
            names.append(name)
        limit = before or after
        if limit and not set(re.findall(r"\w+", limit)) & set(re.findall(r"\w+", template)):
            bounds[name] = limit
    return names, bounds


def source_line(library: Path, offset: int) -> str | None:
    """The line of the source from which the code at this offset of the object was made; None if it is not known."""
    try:
        command = ["addr2line", "-i", "-e", str(library), hex(offset)]
        frames = subprocess.run(command, capture_output=True, text=True).stdout.split("\n")
    except FileNotFoundError:
        return None
    lines = [frame.split(" ")[0] for frame in frames if ":" in frame and "?" not in frame]
    return next((Path(line).name for line in lines if not line.startswith((OWN_NAME, HEADERS_NAME))), None)


def _build(unit: str, options: Sequence[str], check: str, scratch: Path) -> Path:
    (scratch / "unit.cpp").write_text(unit)
    # Our own folder comes last, for crt/host_defines.h: its other names may be those of the project's headers.
    headers = [*(f"-isystem{folder}" for folder in include_folders()), f"-idirafter{HERE}"]
    flags = [*COMMON, *CHECKS[check], *_renamed(), *(o for o in options if not o.startswith("-I")), *headers]
    folders = [o for o in options if o.startswith("-I")]
    _gcc([*folders, *flags, "-include", str(_precompiled(flags)), "-c", "unit.cpp", "-o", "unit.o"], scratch)
    own = [o for o in options if o.startswith("-DEMU_")]
    runtime = [str(_runtime(source, [*own, *macros], headers)) for source, *macros in RUNTIME[check]]
    _gcc([*COMMON, "-O2", "-shared", "unit.o", *runtime, f"-Wl,-z,defs,-T{HERE}/shared.ld", "-ounit.so"], scratch)
    return scratch / "unit.so"


def _precompiled(flags: Sequence[str]) -> Path:
    """A header that includes cuda_emu.h, with what g++ makes of it beside it: CUDA's headers take longer than most
    kernels. A g++ that cannot use that reads the header."""
    own = [flag for flag in flags if not flag.startswith(("-ffile-prefix-map", "-isystem", "-idirafter"))]  # no places
    digest = hashlib.sha256(repr((own, _environment())).encode()).hexdigest()[:32]

    def write(scratch: Path) -> Path:
        (scratch / "prefix.h").write_text("#include <cuda_emu.h>\n")
        return scratch / "prefix.h"

    header = cache.kept(f"{digest}.h", write)

    def make(scratch: Path) -> Path:
        _gcc([*flags, "-x", "c++-header", str(header), "-o", "prefix.gch"], scratch)
        return scratch / "prefix.gch"

    cache.kept(f"{digest}.h.gch", make)
    return header


def _runtime(source: str, macros: Sequence[str], headers: Sequence[str]) -> Path:
    """A source file of the emulator, compiled: it takes longer than a small kernel file, and is the same for all."""
    digest = hashlib.sha256(repr((source, macros, COMMON, _environment())).encode()).hexdigest()[:32]

    def make(scratch: Path) -> Path:
        _gcc([*COMMON, "-O2", *_renamed(), *headers, *macros, "-c", f"{HERE}/{source}", "-oruntime.o"], scratch)
        return scratch / "runtime.o"

    return cache.kept(f"{digest}.o", make)


def _renamed() -> list[str]:
    folders = {HERE: OWN_NAME, **dict.fromkeys(include_folders(), HEADERS_NAME)}
    return [f"-ffile-prefix-map={folder}={name}" for folder, name in folders.items()]


def _gcc(arguments: Sequence[str], folder: Path) -> None:
    try:
        done = subprocess.run(["g++", *arguments], cwd=folder, capture_output=True, text=True)
    except FileNotFoundError:
        raise EmulationError("the emulator needs g++ (Debian, Ubuntu: apt-get install g++)") from None
    if done.returncode:
        raise CompileError(f"g++ refused the kernel source:\n{done.stderr.strip()}")


def _included(text: str, folders: Sequence[Path], seen: set[Path]) -> Iterator[Path]:
    """The project's headers that a text includes, and those that they include."""
    for name in re.findall(r'^\s*#\s*include\s*["<]([^">]+)[">]', text, re.MULTILINE):
        path = next((folder / name for folder in folders if (folder / name).is_file()), None)
        if path and path not in seen:
            seen.add(path)
            yield path
            yield from _included(path.read_text(errors="replace"), [path.parent, *folders], seen)


@functools.cache
def _environment() -> tuple[str, ...]:
    """What else an object depends on: the compiler, CUDA's headers, the emulator."""
    try:
        version = subprocess.run(["g++", "--version"], capture_output=True, text=True).stdout
    except FileNotFoundError:
        version = ""
    own = [(HERE, pattern) for pattern in ("*.h", "crt/*.h", "*.cpp", "*.ld", Path(__file__).name)]
    return version, headers(), _digest(own)


@functools.cache
def headers() -> str:
    """A digest of CUDA's headers."""
    cuda, target = include_folders()
    return _digest([(cuda, "*.h*"), (cuda, "crt/*.h*"), (target, "nv/**/*")])


def _digest(places: Sequence[tuple[Path, str]]) -> str:
    """Of all files of these folders with names of these patterns."""
    digest = hashlib.sha256()
    for folder, pattern in places:
        for path in sorted(filter(Path.is_file, folder.glob(pattern))):
            digest.update(path.read_bytes())
    return digest.hexdigest()


@functools.cache
def include_folders() -> tuple[Path, Path]:
    """The folders of CUDA's headers and of nv/target, from pip packages or an installed toolkit."""
    packages = [Path(entry or ".") for entry in sys.path]
    toolkits = [Path(os.environ[name]) for name in ("CUDA_PATH", "CUDA_HOME") if name in os.environ]
    return find_headers(packages, [*toolkits, Path("/usr/local/cuda")])


def find_headers(packages: Sequence[Path], toolkits: Sequence[Path]) -> tuple[Path, Path]:
    """`include_folders` for the given places: folders that hold packages, and folders of CUDA toolkits."""
    system = [toolkit / "include" for toolkit in toolkits]
    cuda = [place / "nvidia" / wheel / "include" for place in packages for wheel in ("cu13", "cuda_runtime")]
    target = [place / "cupy/_core/include/cupy/_cccl/libcudacxx" for place in packages]
    target += [place / "nvidia" / wheel for place in packages for wheel in ("cu13/include/cccl", "cuda_cccl/include")]
    return (
        _folder_of("cuda_fp16.h", [*cuda, *system], "nvidia-cuda-runtime (CUDA 13) or nvidia-cuda-runtime-cu12"),
        _folder_of("nv/target", [*target, *(folder / "cccl" for folder in system), *system],
                   "cupy-cuda13x, nvidia-cuda-cccl (CUDA 13) or nvidia-cuda-cccl-cu12"),
    )


def _folder_of(header: str, folders: Sequence[Path], packages: str) -> Path:
    for folder in folders:
        if (folder / header).is_file():
            return folder.resolve()
    raise EmulationError(f"the emulator needs CUDA's headers, and {header} is not there: pip install {packages}")
