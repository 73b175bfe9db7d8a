"""save and load: nested tensors and numbers in a safetensors file. Loading one never executes code.

Tensors are stored under dotted paths, which for a flat dict are its keys, so any safetensors reader can use the file.
The structure of the object, including its order, is JSON in the file's metadata:
{"dict": [[key, value], ...]}, {"ordered": ...} for an OrderedDict,
{"state": [[[key, value], ...], _metadata]} for a module's state dict, [...] for a list, {"tuple": [...]},
{"tensor": name}, {"array": name} for a NumPy array, {"cupy": name}, {"float": "nan"}, or a scalar.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import pickle
import secrets
import shutil
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..backend import admitted, is_array, to_device, to_numpy
from ..backend.arrays import dtypes
from ..backend.arrays.device import Device
from ..core.tensor import Tensor
from ..ops.creation.from_data import as_tensor
from . import tensor_file

_STRUCTURE = "autograd_gpu.structure"
_PROTOCOL, _FRAME = b"\x80", b"\x95"  # bytes 0 and 2 of a pickle of protocol 4; a safetensors file has "{" at byte 8
File = str | os.PathLike[str] | BinaryIO


def save(
    obj: Any, f: File, pickle_module: Any = pickle, pickle_protocol: int = pickle.DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization: bool = True,
) -> None:  # fmt: skip
    """Writes a tensor, or dicts, lists and tuples of tensors, arrays, numbers, strings, bools and None, to a file.

    Preserves values and dtypes, but not devices, requires_grad and shared memory. `f` is a path, or a file open for
    writing. A file at a path is replaced atomically; a symbolic link is followed. A whole module or optimizer, an
    argparse.Namespace, or a dict or list that has one, is pickled by `pickle_module` and `pickle_protocol`, and read by
    `load(weights_only=False)` only: prefer a `state_dict()`. TypeError for any other object, with its path in `obj`.
    `_use_new_zipfile_serialization` has no effect.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
    >>> ag.save(ag.nn.Linear(2, 1).state_dict(), path)
    >>> list(ag.load(path))
    ['weight', 'bias']
    """
    tensors: dict[str, np.ndarray] = {}
    if _has_whole(obj):
        pickled = pickle_module.dumps(obj, protocol=max(pickle_protocol, 4))

        def write(file: BinaryIO) -> None:
            file.write(pickled)
    else:
        metadata = {_STRUCTURE: json.dumps(_encode(obj, "", tensors), allow_nan=False)}

        def write(file: BinaryIO) -> None:
            tensor_file.write(file, tensors, metadata)

    if not isinstance(f, (str, os.PathLike)):
        write(f)
        return
    with _replaced(Path(f)) as file:
        write(file)


def load(
    f: File, map_location: str | Device | dict[str, str] | None = None, pickle_module: Any = pickle, *,
    weights_only: bool = True, mmap: bool | None = None, device: str | Device | None = None,
) -> Any:  # fmt: skip
    """Reads a file written by `save`; a safetensors file of another tool gives a dict of tensors by name.

    Tensors and CuPy arrays are put on `device`, or `map_location`, its name in PyTorch; the default is the CPU. A dict
    as `map_location` says where those of the CPU go, which a file has only. NumPy arrays stay in host memory. `f` is a
    path, or a seekable file open for reading. With mmap=True the tensors are copy-on-write views of the mapped file,
    which must not be modified in place. A pickle, as `save` writes it for whole modules, may execute any code: it is
    refused by an UnpicklingError unless `weights_only` is False. FileNotFoundError if the file does not exist,
    ValueError if it is damaged or not a safetensors file, RuntimeError for mmap=True without a path.

    >>> import io
    >>> file = io.BytesIO()
    >>> ag.save({"x": ag.ones(2)}, file)
    >>> ag.load(io.BytesIO(file.getvalue()))
    {'x': tensor([1., 1.])}
    """
    if device is not None and map_location is not None:
        raise TypeError("load: device and map_location are two names of one argument; give one of them")
    if isinstance(map_location, dict):
        map_location = map_location.get("cpu", "cpu")
    home = Device(device or map_location or "cpu")
    if isinstance(f, (str, os.PathLike)):
        try:
            with open(f, "rb") as file:
                return _read(file, repr(os.fspath(f)), home, bool(mmap), None if weights_only else pickle_module)
        except FileNotFoundError:
            raise FileNotFoundError(f"there is no file {os.fspath(f)!r} to load") from None
    if not all(hasattr(f, method) for method in ("readinto", "seek", "tell")):
        raise TypeError(f"load: f must be a path, or a file in binary mode that can seek, not {type(f).__name__}")
    if mmap:
        raise RuntimeError("load: mmap=True needs the path of a file")
    return _read(f, "the file", home, False, None if weights_only else pickle_module)


def _has_whole(obj: Any) -> bool:
    """Whether `obj` is, or holds in dicts, lists and tuples, what is saved as a whole, by pickle."""
    if isinstance(obj, (dict, list, tuple)):
        return any(map(_has_whole, obj.values() if isinstance(obj, dict) else obj))
    return isinstance(obj, argparse.Namespace) or (hasattr(obj, "state_dict") and not isinstance(obj, type))


def _read(file: BinaryIO, what: str, device: Device, mmap: bool, unpickler: Any) -> Any:
    begin = file.tell()
    head = file.read(9)
    file.seek(begin)
    pickled = (head[:1], head[2:3]) == (_PROTOCOL, _FRAME) and head[8:] != b"{"
    if pickled and unpickler is None:
        raise pickle.UnpicklingError(f"{what} is a pickle, which may execute any code, and load refuses it by default. "
                                     "If you trust its source, pass weights_only=False; else get a file that was saved "
                                     "from a state_dict()")
    if pickled:
        loaded = unpickler.load(file)
        return loaded.to(device) if hasattr(loaded, "state_dict") and hasattr(loaded, "to") else loaded
    try:
        metadata, entries = tensor_file.read_header(file)
        arrays = dict((tensor_file.mapped if mmap else tensor_file.read)(file, entries))
        structure = metadata.get(_STRUCTURE)
        encoded = None if structure is None else json.loads(structure)
    except (ValueError, KeyError, TypeError, AttributeError) as error:  # an invalid header can raise any of them
        raise ValueError(f"{what} is damaged or not a safetensors file: {error}") from error
    if encoded is None:
        return {name: as_tensor(array, device=device) for name, array in arrays.items()}
    try:
        return _decode(encoded, arrays, device)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{what} is damaged: its structure does not fit its tensors") from error


def _encode(obj: Any, path: str, tensors: dict[str, np.ndarray]) -> Any:
    """The structure of `obj` as JSON; its tensors go into `tensors`."""
    if obj is None or isinstance(obj, (bool, int, str)):
        return obj
    if isinstance(obj, float):
        return float(obj) if math.isfinite(obj) else {"float": repr(float(obj))}
    if isinstance(obj, np.generic) and obj.dtype in dtypes.ALL:
        return _encode(obj.item(), path, tensors)
    if isinstance(obj, Tensor) or is_array(obj):
        name = _unused(path or "tensor", tensors)
        tensors[name] = _on_host(obj, path)
        return {"tensor" if isinstance(obj, Tensor) else "array" if isinstance(obj, np.ndarray) else "cupy": name}
    if isinstance(obj, dict):
        kind = "ordered" if isinstance(obj, OrderedDict) else "dict"
        items: list[Any] = [[_key(k, path), _encode(v, _join(path, k), tensors)] for k, v in obj.items()]
        if hasattr(obj, "_metadata"):
            return {"state": [items, _encode(obj._metadata, _join(path, "_metadata"), tensors)]}
        return {kind: items}
    if type(obj) in (list, tuple):
        items = [_encode(value, _join(path, i), tensors) for i, value in enumerate(obj)]
        return items if type(obj) is list else {"tuple": items}
    advice = "it may consist of tensors, arrays, dicts, lists, tuples, numbers, strings, bools and None"
    raise TypeError(f"save: cannot save an object of type {type(obj).__name__}{_at(path)}; {advice}")


def _on_host(obj: Any, path: str) -> np.ndarray:
    try:
        array = to_numpy(obj.detach().array if isinstance(obj, Tensor) else admitted(obj)).view(obj.dtype)
    except (TypeError, ValueError) as error:
        raise type(error)(f"save: {error}{_at(path)}") from None
    return np.ascontiguousarray(array).reshape(array.shape)


def _at(path: str) -> str:
    return f" at {path!r}" if path else ""


def _key(key: Any, path: str) -> Any:
    if key is not None and not isinstance(key, (bool, int, str)):
        where = f" of the dict at {path!r}" if path else ""
        raise TypeError(f"save: a key{where} is a {type(key).__name__}; use strings, integers, bools or None")
    return key


def _join(path: str, key: Any) -> str:
    return f"{path}.{key}" if path else str(key)


def _unused(name: str, tensors: dict[str, np.ndarray]) -> str:
    """`name`, or a variant of it if it is taken ("a.b" may be one key or two)."""
    candidate, n = name, 1
    while candidate in tensors or candidate == tensor_file.METADATA:
        n += 1
        candidate = f"{name}#{n}"
    return candidate


def _decode(encoded: Any, arrays: dict[str, np.ndarray], device: Device) -> Any:
    """The object of `encoded`; removes its arrays from `arrays`, so that host copies of device arrays are freed."""
    if isinstance(encoded, list):
        return [_decode(item, arrays, device) for item in encoded]
    if not isinstance(encoded, dict):
        return encoded
    ((kind, content),) = encoded.items()
    if kind == "tensor":
        return as_tensor(arrays.pop(content), device=device)
    if kind in ("array", "cupy"):
        return arrays.pop(content) if kind == "array" else to_device(arrays.pop(content), device)
    if kind in ("dict", "ordered"):
        items = {key: _decode(value, arrays, device) for key, value in content}
        return items if kind == "dict" else OrderedDict(items)
    if kind == "state":
        items, metadata = content
        state: Any = _decode({"ordered": items}, arrays, device)
        state._metadata = _decode(metadata, arrays, device)
        return state
    if kind == "tuple":
        return tuple([_decode(item, arrays, device) for item in content])
    if kind == "float":
        return float(content)
    raise ValueError(f"unknown kind {kind!r}")


@contextlib.contextmanager
def _replaced(path: Path) -> Iterator[BinaryIO]:
    """A temporary file that replaces the target of `path` at exit, with its mode, so that a crash leaves the old file.

    A target that is not a regular file, such as a pipe, is written directly.
    """
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no directory {str(path.parent)!r} to save {path.name!r} in")
    if target.exists() and not target.is_file():
        with target.open("wb") as file:
            yield file
        return
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            if target.exists():  # takes longer than all else, and a new file replaces nothing
                os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
