"""The version of the package, and of CUDA."""

from __future__ import annotations

from typing import Any

from .backend.cuda import runtime

__version__ = "0.1.0"
debug = False
git_version: str | None = None  # not known to an installed package
hip: str | None = None


def __getattr__(name: str) -> Any:
    """`cuda`: the version of CUDA that CuPy uses, such as "12.9"; None where CUDA is not available."""
    if name != "cuda":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if not runtime.is_available():
        return None
    major, minor = divmod(runtime.cupy().cuda.runtime.runtimeGetVersion() // 10, 100)
    return f"{major}.{minor}"
