"""RawModule and RawKernel: sources compiled for the CPU by the emulator (../../build.py), a Function per device."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import pathlib
import sys
import types
from typing import Any

from ._emulation import SETTINGS
from ._errors import CompileException as CompileException
from ._function import Function
from ._pointers import MemoryPointer
from ._state import current_device

_ATTRIBUTES = {
    "max_threads_per_block": 1024, "shared_size_bytes": 0, "const_size_bytes": 0, "local_size_bytes": 0, "num_regs": 0,
    "ptx_version": 90, "binary_version": 90, "cache_mode_ca": 0, "preferred_shared_memory_carveout": -1,
}  # fmt: skip


@functools.cache
def emulator() -> Any:
    """The module build.py of the package cuda_emu around the stand-in, which need not be on the path."""
    if "cuda_emu" not in sys.modules:
        folder = pathlib.Path(__file__).parents[2]
        spec = importlib.util.spec_from_file_location("cuda_emu", folder / "__init__.py",
                                                      submodule_search_locations=[str(folder)])
        sys.modules["cuda_emu"] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return importlib.import_module("cuda_emu.build")


class _Uncompiled:
    """Has every kernel, none of which runs."""

    def __init__(self) -> None:
        self.kernels = _Kernels()


class _Kernels(dict):
    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> Any:
        self[name] = kernel = types.SimpleNamespace(max_threads=1024, max_dynamic_shared_bytes=49152)
        return kernel


class RawModule:
    """CUDA C++ source, compiled when it is first used."""

    def __init__(
        self, *, code: str | None = None, path: str | None = None, options: tuple[str, ...] = (),
        backend: str = "nvrtc", translate_cucomplex: bool = False, enable_cooperative_groups: bool = False,
        name_expressions: Any = None, jitify: bool = False,
    ) -> None:  # fmt: skip
        if (code is None) == (path is None):
            raise TypeError("Exactly one of `code` and `path` keyword arguments must be given.")
        if code is None:
            raise NotImplementedError("the CPU stand-in compiles sources only, not cubin or PTX files")
        if not isinstance(options, tuple):
            raise TypeError(f"options must be a tuple of strings, not {type(options)}")
        self.code, self.file_path, self.options, self.backend = code, path, options, backend
        self.enable_cooperative_groups = enable_cooperative_groups
        self.name_expressions = None if name_expressions is None else tuple(name_expressions)
        self._modules: dict[str, Any] = {}  # by the emulator's build

    def compile(self, log_stream: Any = None) -> None:
        _ = self.module

    @property
    def module(self) -> Any:
        if not SETTINGS.computes:
            return _Uncompiled()
        build, check = emulator(), SETTINGS.kernel_check
        if check not in self._modules:
            try:
                self._modules[check] = build.compile(self.code, self.options, self.name_expressions or (), check)
            except build.CompileError as error:
                raise CompileException(str(error), self.code, "", self.options) from error
        return self._modules[check]

    def get_function(self, name: str) -> RawKernel:
        return RawKernel._of(self, name)

    def get_global(self, name: str) -> MemoryPointer:
        raise NotImplementedError("the CPU stand-in does not have RawModule.get_global; pass a pointer instead")


class RawKernel:
    """One kernel of a source; call it with grid, block and arguments."""

    def __init__(
        self, code: str, name: str, options: tuple[str, ...] = (), backend: str = "nvrtc",
        translate_cucomplex: bool = False, *, enable_cooperative_groups: bool = False, jitify: bool = False,
    ) -> None:  # fmt: skip
        self._module, self.name = RawModule(code=code, options=options, backend=backend), name
        self._functions: dict[int, Function] = {}  # by device

    @classmethod
    def _of(cls, module: RawModule, name: str) -> RawKernel:
        kernel = cls.__new__(cls)
        kernel._module, kernel.name, kernel._functions = module, name, {}
        _ = kernel.kernel
        return kernel

    code = property(lambda self: self._module.code)
    options = property(lambda self: self._module.options)
    backend = property(lambda self: self._module.backend)
    file_path = property(lambda self: self._module.file_path)
    enable_cooperative_groups = property(lambda self: self._module.enable_cooperative_groups)

    @property
    def kernel(self) -> Function:
        """The kernel on the current device; CuPy asks for the device each time."""
        device = current_device()
        if device not in self._functions:
            self._functions[device] = Function(self._module.module, self.name)
        return self._functions[device]

    def compile(self, log_stream: Any = None) -> None:
        self._functions = {}
        _ = self.kernel

    @property
    def attributes(self) -> dict[str, int]:
        """As the driver would tell them; what only a GPU's compiler knows (registers, spills) counts as 0."""
        return {**_ATTRIBUTES, "max_threads_per_block": self.kernel._compiled.max_threads,
                "max_dynamic_shared_size_bytes": self.max_dynamic_shared_size_bytes}  # fmt: skip

    @property
    def max_dynamic_shared_size_bytes(self) -> int:
        return self.kernel._compiled.max_dynamic_shared_bytes

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, size: int) -> None:
        self.kernel._compiled.max_dynamic_shared_bytes = size

    def __call__(self, grid: Any, block: Any, args: Any, **kwargs: Any) -> None:
        self.kernel(grid, block, args, enable_cooperative_groups=self.enable_cooperative_groups, **kwargs)


def _attribute(name: str) -> property:
    return property(lambda self: self.attributes[name])


for _name in _ATTRIBUTES:
    setattr(RawKernel, _name, _attribute(_name))
