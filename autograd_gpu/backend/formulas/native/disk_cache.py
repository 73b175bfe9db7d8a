"""Machine code of LLVM IR, which is compiled once and kept on disk.

A file is named by its IR, and by the processor, its features and the version of LLVM. It begins with a digest of what
follows; a damaged one is compiled again. Machine code stays in memory until the process ends, since ufuncs refer to it.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import os
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from ....errors import warn_user
from .llvm_code import SYMBOL

DIGEST = hashlib.sha256().digest_size
_ADDRESSES: dict[str, int] = {}  # file name -> the address of the function
_KEPT: list[Any] = []  # what holds the memory of machine code


def folder() -> Path:
    """Where machine code is kept: $AUTOGRAD_GPU_CACHE_DIR, or autograd_gpu in $XDG_CACHE_HOME or ~/.cache."""
    chosen = os.environ.get("AUTOGRAD_GPU_CACHE_DIR")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "autograd_gpu"


class _Machine(NamedTuple):
    """llvmlite's binding, what compiles for this processor, and what links."""

    llvm: Any
    target: Any
    jit: Any
    identity: str


@functools.cache
def _machine() -> _Machine:
    """llvmlite, imported at its first use: that takes as long as the import of NumPy."""
    llvm = importlib.import_module("llvmlite.binding")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    cpu, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    machine = llvm.Target.from_default_triple().create_target_machine(cpu=cpu, features=features, opt=3, jit=True)
    version = ".".join(map(str, llvm.llvm_version_info))
    identity = f"{machine.triple}\n{cpu}\n{features}\n{version}"
    return _Machine(llvm, machine, llvm.create_lljit_compiler(machine), identity)


def has_feature(name: str) -> bool:
    """Whether this processor has a feature, by LLVM's name."""
    return bool(_machine().llvm.get_host_cpu_features().get(name, False))


def version() -> str:
    """The version of LLVM."""
    return ".".join(map(str, _machine().llvm.llvm_version_info))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def is_on_disk(ir: str) -> bool:
    """Whether code for this or another processor was kept, which does not take LLVM to know."""
    return next(folder().glob(f"{_digest(ir)}-*.o"), None) is not None


def address(ir: str, compiles: bool = True) -> int | None:
    """The address of the function, loaded from disk; else compiled, or None where `compiles` is false.

    Is to be called by one thread at a time.
    """
    name = f"{_digest(ir)}-{_digest(_machine().identity)}.o"
    if name not in _ADDRESSES:
        code = _read(folder() / name)
        if code is None:
            if not compiles:
                return None
            code = _compiled(ir)
            _write(folder() / name, code)
        _ADDRESSES[name] = _linked(name, code)
    return _ADDRESSES[name]


def forget() -> None:
    """Makes later calls of `address` look on disk again; machine code that runs stays in memory."""
    _ADDRESSES.clear()


def _compiled(ir: str) -> bytes:
    """The IR as an object file."""
    llvm, target, *_ = _machine()
    module = llvm.parse_assembly(ir)
    module.triple, module.data_layout = target.triple, str(target.target_data)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = True
    builder = llvm.create_pass_builder(target, options)
    builder.getModulePassManager().run(module, builder)
    code: bytes = target.emit_object(module)
    return code


def _linked(name: str, code: bytes) -> int:
    llvm, _, jit, _ = _machine()
    tracker = llvm.JITLibraryBuilder().add_object_img(code).export_symbol(SYMBOL).link(jit, f"{name} {len(_KEPT)}")
    _KEPT.append(tracker)
    found: int = tracker[SYMBOL]
    return found


def _read(path: Path) -> bytes | None:
    """The code in a file; None if there is none, and with a warning if it is damaged."""
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        warn_user(f"machine code cannot be read from {path}: {error}; it is compiled again")
        return None
    digest, code = content[:DIGEST], content[DIGEST:]
    if hashlib.sha256(code).digest() != digest:
        warn_user(f"{path} is damaged, and its machine code is compiled again")
        return None
    return code


def _write(path: Path, code: bytes) -> None:
    """Writes a file in one step, so that other processes see all of it or nothing."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, unfinished = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(code).digest() + code)
        os.replace(unfinished, path)
    except OSError as error:
        warn_user(f"machine code cannot be kept in {path.parent}: {error}; every process compiles it. Set "
                  "AUTOGRAD_GPU_CACHE_DIR to a folder that can be written to")
