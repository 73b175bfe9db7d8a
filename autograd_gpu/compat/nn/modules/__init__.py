"""PyTorch's import paths of the layers, such as `nn.modules.loss`; the layers are those of `ag.nn`.

Each module here is imported at its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .... import nn
from ....missing_names import getattr_of

_PATHS = (
    "activation", "batchnorm", "container", "distance", "dropout", "flatten", "instancenorm", "linear",
    "loss", "module", "normalization", "pixelshuffle", "pooling", "rnn", "sparse", "transformer", "utils",
)  # fmt: skip
__all__ = [name for name in nn.__all__ if name[0].isupper()]

if not TYPE_CHECKING:
    _of_paths = getattr_of(__name__, **dict.fromkeys(_PATHS, ""))

    def __getattr__(name: str) -> Any:
        """A module of this package, or a layer of `nn`."""
        return getattr(nn, name) if name[:1].isupper() and hasattr(nn, name) else _of_paths(name)


def __dir__() -> list[str]:
    return [*_PATHS, *__all__]
